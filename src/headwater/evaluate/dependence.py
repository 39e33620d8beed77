"""Dependence of pairs of columns: normalised mutual information on public bins."""

from __future__ import annotations

import math

import numpy as np

from headwater.evaluate.axes import ColumnAxis, Floats, Integers

BINS = 16  # of a column with an order
MOST_CATEGORIES = 64  # bins of a column of categories


def bin_columns(points: Floats, columns: tuple[ColumnAxis, ...]) -> tuple[list[Integers], list[int]]:
    """The public bin of every value of every column, and how many bins the column has; missing has one of its own."""
    bins, sizes = list[Integers](), list[int]()
    for places, column in zip(points.T, columns, strict=True):
        values, there = column.split(places)
        if column.ordered:
            size = min(BINS, column.axis.values or BINS)
            found = np.minimum((values * size).astype(np.int64), size - 1)
        else:  # neighbouring categories share a bin if there are very many of them
            size = min(MOST_CATEGORIES, column.axis.values or 1)
            found = values.astype(np.int64) * size // (column.axis.values or 1)
        bins.append(np.where(there, found, size))
        sizes.append(size + 1)
    return bins, sizes


def dependence(points: Floats, columns: tuple[ColumnAxis, ...]) -> Floats:
    """Normalised mutual information of every pair of columns, on the bins of `bin_columns`; a symmetric matrix."""
    bins, sizes = bin_columns(points, columns)
    entropies = [_entropy(np.bincount(b, minlength=1)) for b in bins]
    matrix = np.diag([float(entropy > 0) for entropy in entropies])
    for i in range(len(columns)):
        for j in range(i):
            both = math.sqrt(entropies[i] * entropies[j])
            if both > 0:
                mutual = entropies[i] + entropies[j] - _entropy(np.bincount(bins[i] * sizes[j] + bins[j]))
                matrix[i, j] = matrix[j, i] = min(max(mutual / both, 0.0), 1.0)
    return matrix


def _entropy(counts: Integers) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())
