"""How alike a real and a synthetic table are: by column, by pair of columns, in answers to questions, and in all.

NOT PRIVATE. Everything here is computed from the real data without noise. It is for public or test data, or for the
eyes of those who may see the data anyway.

Bins are public: 16 equal parts of a column with an order, one for each category, and one for missing values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from headwater.evaluation.axes import ColumnAxis, Floats, Integers, Side
from headwater.evaluation.w1 import DEFAULT_SIDE, W1, fits_exact, w1, w1_line

BINS = 16  # of a column with an order
MOST_CATEGORIES = 256  # bins of a column of categories; if there are more, neighbours in the list share one
QUERIES = 200
SMALL_ENOUGH = 1 / 3
"""A distance is stated if its error is at most this part of it."""
EXACT_ROWS = 1_000
"""Tables of more rows are compared on grids: exact transport takes minutes where many values are equal."""
_LEVELS = 3  # of grids that could still be halved until every point has a cell of its own


def sides_of(points: Floats, columns: Sequence[ColumnAxis]) -> list[Side]:
    """Values of each column, and which of them are there."""
    return [column.split(places) for column, places in zip(columns, points.T, strict=True)]


@dataclass(frozen=True)
class Binned:
    """The bin of every value of every column, and how many bins each column has; the last is that of missing values."""

    codes: list[Integers]
    sizes: list[int]

    def one_way(self) -> list[Integers]:
        """Counts of each column."""
        return [np.bincount(codes, minlength=size) for codes, size in zip(self.codes, self.sizes, strict=True)]

    def two_way(self) -> Iterator[tuple[int, int, Integers]]:
        """Each pair of columns with its table of counts, one after another: all at once may be large."""
        for i, j in combinations(range(len(self.codes)), 2):
            shape = self.sizes[i], self.sizes[j]
            cells = np.bincount(self.codes[i] * shape[1] + self.codes[j], minlength=shape[0] * shape[1])
            yield i, j, cells.reshape(shape)


def binned(points: Floats, columns: Sequence[ColumnAxis]) -> Binned:
    """The bins of rows at points of the cube."""
    found, sizes = list[Integers](), list[int]()
    for column, (values, there) in zip(columns, sides_of(points, columns), strict=True):
        if column.ordered:
            size = min(BINS, column.axis.values or BINS)
            codes = np.minimum((values * size).astype(np.int64), size - 1)
        else:
            size = min(MOST_CATEGORIES, column.axis.values or 1)
            codes = values.astype(np.int64) * size // (column.axis.values or 1)
        found.append(np.where(there, codes, size))
        sizes.append(size + 1)
    return Binned(found, sizes)


def total_variation(a: Integers, b: Integers) -> float:
    """Half the sum of the differences of shares: the most that any share of rows can differ.

    >>> total_variation(np.array([3, 1]), np.array([1, 1]))
    0.25
    """
    return float(np.abs(a / max(a.sum(), 1) - b / max(b.sum(), 1)).sum()) / 2


def errors_of(real: Binned, synthetic: Binned) -> Floats:
    """Total variation of each pair of columns; on the diagonal that of the columns by themselves."""
    errors = np.diag([total_variation(a, b) for a, b in zip(real.one_way(), synthetic.one_way(), strict=True)])
    for (i, j, a), (_, _, b) in zip(real.two_way(), synthetic.two_way(), strict=True):
        errors[i, j] = errors[j, i] = total_variation(a, b)
    return errors


def dependence_of(rows: Binned) -> Floats:
    """`normalised_information` of each pair of columns; a column that is not constant is one to one with itself."""
    found = np.diag([float(_entropy(counts) > 0) for counts in rows.one_way()])
    for i, j, table in rows.two_way():
        found[i, j] = found[j, i] = normalised_information(table)
    return found


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


@dataclass(frozen=True)
class ColumnDistance:
    """How far one column is from the real one. NOT PRIVATE."""

    name: str
    kind: str
    error: float  # total variation on 16 bins or on the categories, missing values among them
    measure: str  # "W1" of the values that are there, in units of the column's range; of categories "total variation"
    distance: float  # by this measure; nan if a table has no value of this column
    missing_real: float  # share of the values
    missing_synthetic: float

    @property
    def has_w1(self) -> bool:
        """Whether `distance` is a W₁: of a column with an order, of which both tables have values."""
        return self.measure == "W1" and not math.isnan(self.distance)


def column_distance(column: ColumnAxis, real: Side, synthetic: Side, error: float) -> ColumnDistance:
    """W₁ or total variation of the values that are there, and how many are missing."""
    (a, has_a), (b, has_b) = real, synthetic
    distance, u, v = math.nan, a[has_a], b[has_b]
    if len(u) and len(v):
        if column.ordered:
            distance = w1_line(u, v)
        else:
            size = column.axis.values or 1
            p, q = (np.bincount(w.astype(np.int64), minlength=size) for w in (u, v))
            distance = total_variation(p, q)
    measure = "W1" if column.ordered else "total variation"
    gone = (1 - float(has_a.mean()), 1 - float(has_b.mean()))
    return ColumnDistance(column.name, column.kind, error, measure, distance, *gone)


def table_distance(x: Floats, y: Floats) -> W1 | str:
    """W₁ of two tables, or why it is left out: it could not be compared with anything."""
    d = x.shape[1]
    if d not in (1, *DEFAULT_SIDE):
        return f"in {d} columns any two samples are far apart; the errors of columns and pairs have no such bias"
    exact = d == 1 or (fits_exact(len(x), len(y)) and max(len(x), len(y)) <= EXACT_ROWS)
    found = w1(x, y) if exact else _on_grids(x, y)
    if found.error > SMALL_ENOUGH * found.value:
        return f"the grid makes it {found.value:.4f} ± {found.error:.4f}, which says too little"
    return found


def _on_grids(x: Floats, y: Floats) -> W1:
    """W₁ on finer and finer grids. In three columns the finest takes long: it is left out unless it could decide."""
    d = x.shape[1]
    side = DEFAULT_SIDE[d]
    coarser, coarse = (w1(x, y, method="grid", side=cells).value for cells in (side // 8, side // 4))
    for cells in (side // 2, side):
        fine = w1(x, y, method="grid", side=cells).value
        change = max(abs(fine - coarse), abs(coarse - coarser) / 2)  # two of them: one may be small by accident
        found = W1(fine, _LEVELS * change, "grid")
        if d == 3 and not SMALL_ENOUGH < found.error / max(fine, 1e-12) <= 1.5 * SMALL_ENOUGH:
            break
        coarser, coarse = coarse, fine
    return found


@dataclass(frozen=True)
class QueryErrors:
    """Absolute errors of the shares that boxes hold, over ``count`` random boxes. NOT PRIVATE."""

    count: int
    mean: float
    percentile_95: float
    largest: float


def query_errors(real: list[Side], synthetic: list[Side], columns: Sequence[ColumnAxis], seed: int) -> QueryErrors:
    """The errors of one table's answers against the other's, to the boxes that a seed draws."""
    shares = [_answers(side, columns, np.random.default_rng([seed, 2])) for side in (real, synthetic)]
    errors = np.abs(shares[0] - shares[1])
    return QueryErrors(QUERIES, float(errors.mean()), float(np.percentile(errors, 95)), float(errors.max()))


def _answers(side: list[Side], columns: Sequence[ColumnAxis], rng: np.random.Generator) -> Floats:
    """The share of rows in each box, over one to three columns. Missing values lie in no box."""
    shares = np.empty(QUERIES)
    for query in range(QUERIES):
        size = int(rng.integers(1, min(3, len(columns)) + 1))
        inside: NDArray[np.bool_] = np.ones(len(side[0][0]), dtype=bool)
        for i in rng.choice(len(columns), size, replace=False):
            values, there = side[i]
            if columns[i].ordered:
                low, high = np.sort(rng.random(2))
                inside &= (values >= low) & (values <= high) & there
            else:
                chosen = rng.random(columns[i].axis.values or 1) < 0.5
                inside &= chosen[values.astype(np.int64)] & there
        shares[query] = inside.mean()
    return shares
