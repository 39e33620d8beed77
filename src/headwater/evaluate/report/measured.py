"""Errors of every release against the real records that it is about. NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.evaluate.axes import ColumnAxis
from headwater.evaluate.encoded import Encoded
from headwater.evaluate.marginals import binned, total_variation
from headwater.evaluate.w1 import DEFAULT_SIDE, fits_exact, w1

MOST_WORK = 2e9  # rows times pairs of columns, over all releases: about ten seconds
MOST_FLOWS = 12  # releases whose W1 is computed on a grid


@dataclass(frozen=True)
class Errors:
    """Total variation of each column, and one number for the whole release in the measure of its expected error."""

    columns: list[float]
    whole: float | None


def errors(
    real: Encoded, synthetic: Encoded, columns: Sequence[ColumnAxis], measure: str, *, whole: bool
) -> Errors | None:
    """The errors of one release; None if there is nothing to compare. Pairs and W1 only where ``whole`` is set."""
    if not len(real) or not len(synthetic):
        return None
    a, b = (binned(rows, columns) for rows in (real, synthetic))
    ones = [total_variation(p, q) for p, q in zip(a.one_way(), b.one_way(), strict=True)]
    return Errors(ones, _whole(real, synthetic, columns, measure) if whole else None)


def _whole(real: Encoded, synthetic: Encoded, columns: Sequence[ColumnAxis], measure: str) -> float | None:
    d = len(columns)
    if measure == "W1":
        if real.moved > 0.001 or (d > 1 and d not in DEFAULT_SIDE):
            return None
        if d == 1 or (fits_exact(len(real), len(synthetic)) and len(real) <= 1_000):
            return w1(real.points, synthetic.points).value
        return w1(real.points, synthetic.points, method="grid", side=DEFAULT_SIDE[d] // (d - 1)).value
    a, b = (binned(rows, columns) for rows in (real, synthetic))
    if d == 1:
        return total_variation(a.one_way()[0], b.one_way()[0])
    found = [total_variation(p, q) for (_, _, p), (_, _, q) in zip(a.two_way(), b.two_way(), strict=True)]
    return sum(found) / len(found)


def chosen(rows: Sequence[int], dimension: int, measure: str) -> set[int]:
    """Which releases are measured as a whole, the last among them: all if that is quick, else some, evenly spread."""
    most = len(rows)
    if measure == "W1":
        most = most if dimension == 1 else min(most, MOST_FLOWS)
    else:
        pairs = max(dimension * (dimension - 1) // 2, 1)
        most = min(most, max(int(MOST_WORK / pairs / max(sum(rows) / max(len(rows), 1), 1)), 1))
    last = len(rows) - 1
    return {last} if most <= 1 else {round(i * last / (most - 1)) for i in range(most)}
