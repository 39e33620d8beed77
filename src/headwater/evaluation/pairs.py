"""Two columns at a time, on bins between quantiles of one of the tables: errors of shares, dependence. NOT PRIVATE."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from headwater.evaluation.axes import ColumnAxis, Floats, Integers
from headwater.evaluation.yardstick import Columns, Table

QUANTILES = 16
"""Bins of an ordered column, with as many rows of the first table in each as equal values allow."""
MOST_CATEGORIES = 256
"""Bins of an unordered column; if it has more values, neighbours in the list share one."""


@dataclass(frozen=True)
class Bins:
    """The bin of each value of each column; the last bin is that of missing values."""

    codes: list[Integers]
    sizes: list[int]
    ordered: list[bool]

    def tables(self) -> Iterator[tuple[int, int, Floats]]:
        """Each pair of columns with the shares of its cells, one after another: all at once may be large."""
        for i, j in combinations(range(len(self.codes)), 2):
            shape = self.sizes[i], self.sizes[j]
            cells = np.bincount(self.codes[i] * shape[1] + self.codes[j], minlength=shape[0] * shape[1])
            yield i, j, cells.reshape(shape) / max(len(self.codes[i]), 1)


def bins_of(columns: Columns, table: Table, cut: Table) -> Bins:
    """The bins of a table that the quantiles of another one cut."""
    found = [_codes(column, values, by) for column, values, by in zip(columns, table, cut, strict=True)]
    return Bins([codes for codes, _ in found], [size for _, size in found], [column.ordered for column in columns])


def _codes(column: ColumnAxis, values: Floats, by: Floats) -> tuple[Integers, int]:
    if column.ordered:
        known = np.sort(by[~np.isnan(by)])
        at = np.arange(1, QUANTILES) * len(known) // QUANTILES
        edges = np.unique(known[at]) if len(known) else np.empty(0)
        codes, size = np.searchsorted(edges, values, side="left"), len(edges) + 1
    else:
        size = min(MOST_CATEGORIES, column.axis.values or 1)
        codes = np.nan_to_num(values).astype(np.int64) * size // (column.axis.values or 1)
    return np.where(np.isnan(values), size, codes).astype(np.int64), size + 1


def share_errors(real: Bins, made: Bins) -> list[tuple[int, int, float]]:
    """The largest error of a share of each pair, the worst first: of rows up to a value, or with one category."""
    found = []
    for (i, j, a), (_, _, b) in zip(real.tables(), made.tables(), strict=True):
        less = b - a
        for axis, column in enumerate((i, j)):
            if real.ordered[column]:
                values = less[:-1] if axis == 0 else less[:, :-1]
                np.cumsum(values, axis=axis, out=values)
        found.append((i, j, float(np.abs(less).max())))
    return sorted(found, key=lambda pair: -pair[2])


def dependence(rows: Bins) -> Floats:
    """`information` of each pair of columns; a column that is not constant is one to one with itself."""
    alone = [np.bincount(codes, minlength=size) for codes, size in zip(rows.codes, rows.sizes, strict=True)]
    found = np.diag([float(np.count_nonzero(counts) > 1) for counts in alone])
    for i, j, table in rows.tables():
        found[i, j] = found[j, i] = information(table)
    return found


def information(shares: Floats) -> float:
    """Mutual information of the two sides of a table, over the geometric mean of their entropies.

    >>> information(np.array([[0.5, 0], [0, 0.5]])), information(np.full((2, 2), 0.25))
    (1.0, 0.0)
    """
    up, across = _entropy(shares.sum(1)), _entropy(shares.sum(0))
    both = math.sqrt(max(up * across, 0.0))
    return min(max((up + across - _entropy(shares)) / both, 0.0), 1.0) if both > 0 else 0.0


def _entropy(shares: Floats | Sequence[float]) -> float:
    there = np.asarray(shares)[np.asarray(shares) > 0]
    return float(-(there * np.log(there)).sum())
