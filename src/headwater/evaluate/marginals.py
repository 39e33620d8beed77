"""Tables of counts over one and two columns on public bins, and the total variation between them.

The bins: 16 equal parts of a column with an order, one for each category, and one for missing values. Real values
beyond the declared bounds have two bins more, which no synthetic value is in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from headwater.evaluate.axes import ColumnAxis, Floats, Integers
from headwater.evaluate.encoded import Encoded

BINS = 16  # of a column with an order
MOST_CATEGORIES = 256  # bins of a column of categories; if there are more, neighbours in the list share one


@dataclass(frozen=True)
class Binned:
    """The bin of every value of every column, and how many bins each column has."""

    codes: list[Integers]
    sizes: list[int]

    def __len__(self) -> int:
        return len(self.codes[0])

    def __getitem__(self, rows: slice) -> Binned:
        return Binned([codes[rows] for codes in self.codes], self.sizes)

    def one_way(self) -> list[Integers]:
        """Counts of each column."""
        return [np.bincount(codes, minlength=size) for codes, size in zip(self.codes, self.sizes, strict=True)]

    def two_way(self) -> Iterator[tuple[int, int, Integers]]:
        """Each pair of columns with its table of counts, one after another: all at once may be large."""
        for i, j in combinations(range(len(self.codes)), 2):
            shape = self.sizes[i], self.sizes[j]
            cells = np.bincount(self.codes[i] * shape[1] + self.codes[j], minlength=shape[0] * shape[1])
            yield i, j, cells.reshape(shape)


def binned(rows: Encoded, columns: Sequence[ColumnAxis]) -> Binned:
    """The bins of rows. Missing values have bin number `size`, those below and above the bounds the next two."""
    found, sizes = list[Integers](), list[int]()
    for i, column in enumerate(columns):
        values, there = column.split(rows.points[:, i])
        if column.ordered:
            size = min(BINS, column.axis.values or BINS)
            codes = np.minimum((values * size).astype(np.int64), size - 1)
        else:
            size = min(MOST_CATEGORIES, column.axis.values or 1)
            codes = values.astype(np.int64) * size // (column.axis.values or 1)
        if i in rows.beyond:
            codes = np.where(rows.beyond[i] < 0, size + 1, np.where(rows.beyond[i] > 0, size + 2, codes))
        found.append(np.where(there, codes, size))
        sizes.append(size + 3 if column.ordered else size + 1)
    return Binned(found, sizes)


def total_variation(a: Integers, b: Integers) -> float:
    """Half the sum of the differences of shares: the most that any share of rows can differ.

    >>> total_variation(np.array([3, 1]), np.array([1, 1]))
    0.25
    """
    return float(np.abs(a / max(a.sum(), 1) - b / max(b.sum(), 1)).sum()) / 2


@dataclass(frozen=True)
class PairMeasures:
    """Matrices over pairs of columns: total variation, and dependence in the real and in the synthetic table."""

    errors: Floats
    dependence: tuple[Floats, Floats]


def pair_measures(real: Binned, synthetic: Binned) -> PairMeasures:
    """Compare all pairs of columns of two tables on the same bins.

    Dependence is mutual information over the geometric mean of the two columns' entropies: 0 is independent, 1 is one
    to one. The diagonal of the errors is that of the columns by themselves.
    """
    ones = list(zip(real.one_way(), synthetic.one_way(), strict=True))
    errors = np.diag([total_variation(a, b) for a, b in ones])
    dependence = tuple(np.diag([float(_entropy(pair[k]) > 0) for pair in ones]) for k in (0, 1))
    for (i, j, a), (_, _, b) in zip(real.two_way(), synthetic.two_way(), strict=True):
        errors[i, j] = errors[j, i] = total_variation(a, b)
        for matrix, table in zip(dependence, (a, b), strict=True):
            matrix[i, j] = matrix[j, i] = normalised_information(table)
    return PairMeasures(errors, (dependence[0], dependence[1]))


def normalised_information(table: Integers) -> float:
    """Mutual information of the two sides of a table of counts, over the geometric mean of their entropies.

    >>> normalised_information(np.array([[2, 0], [0, 2]])), normalised_information(np.array([[1, 1], [1, 1]]))
    (1.0, 0.0)
    """
    up, across = _entropy(table.sum(1)), _entropy(table.sum(0))
    both = math.sqrt(up * across)
    return min(max((up + across - _entropy(table)) / both, 0.0), 1.0) if both > 0 else 0.0


def _entropy(counts: Integers) -> float:
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(shares * np.log(shares)).sum())
