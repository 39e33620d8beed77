"""W₁ of two tables in the unit cube, and of each of their columns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headwater.evaluate.axes import ColumnAxis, Floats, Side
from headwater.evaluate.marginals import BINS, total_variation
from headwater.evaluate.w1 import DEFAULT_SIDE, W1, fits_exact, w1, w1_line

SMALL_ENOUGH = 1 / 3
"""A distance is stated if its error is at most this part of it."""

EXACT_ROWS = 1_000
"""Tables of more rows are compared on grids: exact transport takes minutes where many values are equal."""

CROWDED = 0.7
"""From this share of its real values in one sixteenth of its range on, a column is also compared on finer bins."""

_LEVELS = 3  # of grids that could still be halved until every point has a cell of its own


@dataclass(frozen=True)
class ColumnDistance:
    """How far one column is from the real one. NOT PRIVATE.

    Parameters
    ----------
    name, kind
        Of the column.
    error
        Total variation on 16 bins or on the categories, missing values and values beyond the bounds among them.
    measure, distance
        ``"W1"`` of the values that are there, not clipped, in units of the column's range; of categories
        ``"total variation"``. ``nan`` if a table has no value of this column.
    missing_real, missing_synthetic
        Shares of missing values.
    below, above
        Shares of the real rows whose value is beyond a declared bound.
    log
        Whether its scale is logarithmic.
    finer_error
        Only where at least `CROWDED` of the real values lie in one sixteenth of the range, so that ``error`` says
        little: total variation on bins that hold about a sixteenth of the real values each.
    """

    name: str
    kind: str
    error: float
    measure: str
    distance: float
    missing_real: float
    missing_synthetic: float
    below: float = 0.0
    above: float = 0.0
    log: bool = False
    finer_error: float | None = None

    @property
    def judged(self) -> float:
        """The error by which columns are ranked and graded: the larger one where there are two."""
        return max(self.error, self.finer_error or 0.0)

    @property
    def cut(self) -> float:
        """The share of real rows whose value the bounds cut."""
        return self.below + self.above

    @property
    def has_w1(self) -> bool:
        """Whether `distance` is a W₁: of a column with an order, of which both tables have values."""
        return self.measure == "W1" and self.distance == self.distance

    @property
    def has_w1_beyond(self) -> bool:
        """Whether values beyond the bounds are in that W₁, as they are."""
        return self.has_w1 and self.cut > 0


@dataclass(frozen=True)
class TableDistance:
    """W₁ of two tables in the unit cube, or why it is left out."""

    w1: W1 | None
    reason: str | None = None


def table_distance(x: Floats, y: Floats, *, moved: float = 0.0) -> TableDistance:
    """W₁ of two tables, left out where it could not be compared with anything.

    On a grid, moves within a cell are not seen. How much that is, is estimated from grids of half and a quarter of the
    side: what halving changes, for each of the levels that are left. ``moved`` is how far clipping moved the real rows
    on average, so it is a bound on what it did to the distance.
    """
    d = x.shape[1]
    if d not in (1, *DEFAULT_SIDE):
        return TableDistance(
            None, f"in {d} columns any two samples are far apart; the errors of columns and pairs have no such bias"
        )
    exact = d == 1 or (fits_exact(len(x), len(y)) and max(len(x), len(y)) <= EXACT_ROWS)
    found = w1(x, y) if exact else _on_grids(x, y)
    found = W1(found.value, found.error + moved, found.method)
    if found.error > SMALL_ENOUGH * found.value:
        why = "bounds that cut real values make it" if moved > found.error / 2 else "the grid makes it"
        return TableDistance(None, f"{why} {found.value:.4f} ± {found.error:.4f}, which says too little")
    return TableDistance(found)


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


def column_distance(column: ColumnAxis, real: Side, synthetic: Side, error: float) -> ColumnDistance:
    """W₁ or total variation of the values that are there, and how many are missing or beyond the bounds."""
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
    outside = (float((u < 0).sum() / len(a)), float((u > 1).sum() / len(a))) if column.ordered else (0.0, 0.0)
    log = column.declared.get("scale") == "log"
    finer = _finer_error(column, real, synthetic)
    return ColumnDistance(column.name, column.kind, error, measure, distance, *gone, *outside, log, finer)


def is_crowded(column: ColumnAxis, values: Floats) -> bool:
    """Whether most values of a column, scaled to its range, lie in one sixteenth of it, where they can still differ."""
    if not column.ordered or not len(values) or (column.axis.values or math.inf) <= BINS:
        return False
    return bool(np.bincount(np.clip(values * BINS, 0, BINS - 1).astype(np.int64)).max() >= CROWDED * len(values))


def _near(column: ColumnAxis) -> float:
    """How far apart values are that are taken for one, as a part of the range: a hundredth where ratios count."""
    if column.declared.get("scale") != "log":
        return 0.0
    return math.log(1.01) / math.log(column.declared["high"] / column.declared["low"])


def _finer_error(column: ColumnAxis, real: Side, synthetic: Side) -> float | None:
    """Total variation on bins between sixteenths of the real values; a value of two sixteenths is a bin by itself."""
    values = real[0][real[1]]
    if not is_crowded(column, values):
        return None
    marks = np.quantile(values, np.arange(1, BINS) / BINS, method="inverted_cdf")
    often = marks[1:][marks[1:] == marks[:-1]]
    near = _near(column)
    edges = np.unique([*np.setdiff1d(marks, often), *(often + near), *np.nextafter(often - near, -np.inf)])
    codes = [np.where(there, np.searchsorted(edges, side), len(edges) + 1) for side, there in (real, synthetic)]
    a, b = (np.bincount(found, minlength=len(edges) + 2) for found in codes)
    return total_variation(a, b)
