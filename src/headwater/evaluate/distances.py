"""How far two tables are apart in the unit cube, and how far each of their columns is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headwater.evaluate.axes import ColumnAxis, Floats, Side
from headwater.evaluate.w1 import DEFAULT_SIDE, EXACT_POINTS, W1, w1

SUBSAMPLE = 2_000  # points of each table if there are too many columns for a grid; about a second


@dataclass(frozen=True)
class ColumnDistance:
    """How far one column is from the real one. NOT PRIVATE.

    ``distance`` is ``nan`` if a table has no value of this column that is not missing.
    """

    name: str
    kind: str
    measure: str
    distance: float
    missing_real: float
    missing_synthetic: float


def table_distance(x: Floats, y: Floats, rng: np.random.Generator) -> tuple[W1, float | None]:
    """W₁ of two tables, and its floor if it is only an estimate."""
    d = x.shape[1]
    if d == 1 or d in DEFAULT_SIDE or (len(x) == len(y) <= EXACT_POINTS):
        return w1(x, y), None
    size = min(SUBSAMPLE, len(x), len(y))
    x_part, y_part = (rng.choice(points, size, replace=False) for points in (x, y))
    value = w1(x_part, y_part, method="exact").value
    half = min(size, len(x) // 2)
    if not half:
        return W1(value, math.nan, "subsample"), None
    parts = rng.choice(x, 2 * half, replace=False)
    return W1(value, math.nan, "subsample"), w1(parts[:half], parts[half:], method="exact").value


def column_distance(column: ColumnAxis, real: Side, synthetic: Side) -> ColumnDistance:
    """W₁ or total variation of the values that are there, and how many are missing."""
    (a, has_a), (b, has_b) = real, synthetic
    distance, u, v = math.nan, a[has_a], b[has_b]
    if len(u) and len(v):
        if column.ordered:
            distance = w1(u, v).value
        else:
            size = column.axis.values or 1
            p, q = (np.bincount(w.astype(np.int64), minlength=size) / len(w) for w in (u, v))
            distance = float(np.abs(p - q).sum()) / 2
    measure = "W1" if column.ordered else "total variation"
    gone = (1 - float(has_a.mean()), 1 - float(has_b.mean()))
    return ColumnDistance(column.name, column.kind, measure, distance, *gone)
