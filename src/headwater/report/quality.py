"""How good releases are, for the page: measured if the real data are there, else as the card expects it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headwater.evaluation import meaning
from headwater.evaluation.axes import ColumnAxis, Floats
from headwater.evaluation.evaluation import WORST, Evaluation
from headwater.evaluation.meaning import about_columns, about_pairs, about_rows, grade
from headwater.evaluation.measures import binned, dependence_of, total_variation
from headwater.evaluation.w1 import DEFAULT_SIDE, fits_exact, w1
from headwater.public.protocol import TWO_WAY

MOST_WORK = 2e9  # rows times pairs of columns, over all releases: about ten seconds
MOST_FLOWS = 12  # releases whose W1 is computed on a grid


@dataclass(frozen=True)
class Errors:
    """Total variation of each column, and one number for the whole release in the measure of its expected error."""

    columns: list[float]
    whole: float | None


def errors(
    real: Floats, synthetic: Floats, columns: Sequence[ColumnAxis], measure: str, *, whole: bool
) -> Errors | None:
    """The errors of one release. NOT PRIVATE. None if there is nothing to compare; the last only where it is asked."""
    if not len(real) or not len(synthetic):
        return None
    a, b = (binned(points, columns) for points in (real, synthetic))
    ones = [total_variation(p, q) for p, q in zip(a.one_way(), b.one_way(), strict=True)]
    if not whole or measure == "W1":
        return Errors(ones, _w1(real, synthetic) if whole else None)
    twos = [total_variation(p, q) for (_, _, p), (_, _, q) in zip(a.two_way(), b.two_way(), strict=True)]
    return Errors(ones, sum(twos) / len(twos) if twos else ones[0])


def _w1(real: Floats, synthetic: Floats) -> float | None:
    d = real.shape[1]
    if d > 1 and d not in DEFAULT_SIDE:
        return None
    if d == 1 or (fits_exact(len(real), len(synthetic)) and len(real) <= 1_000):
        return w1(real, synthetic).value
    return w1(real, synthetic, method="grid", side=DEFAULT_SIDE[d] // (d - 1)).value


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


def expected_columns(card: dict[str, Any], columns: Sequence[ColumnAxis]) -> list[tuple[float, float] | None]:
    """What the card expects of each column's error: typical, and rarely exceeded; None if it does not say."""
    parts = (card["expected_error"] or {}).get("parts")
    found = list[tuple[float, float] | None]()
    for column in columns:
        part = parts.get(f"column {column.name}") if isinstance(parts, dict) else None
        numbers = [part.get(key) for key in ("typical", "upper")] if isinstance(part, dict) else []
        known = [float(number) for number in numbers if isinstance(number, float | int) and math.isfinite(number)]
        found.append((known[0], known[1]) if len(known) == 2 else None)
    return found


def expected_quality(card: dict[str, Any], columns: Sequence[ColumnAxis], last: Floats) -> dict[str, Any]:
    """From the card and the release alone: as private as they are."""
    pairs = zip(columns, expected_columns(card, columns), strict=True)
    ranked = sorted([(c.name, pair) for c, pair in pairs if pair is not None], key=lambda item: -item[1][0])
    error = card["expected_error"] or {}
    measure, (typical, upper) = error.get("measure", "W1"), (error.get(key, math.inf) for key in ("typical", "upper"))
    answers = [about_columns({name: pair[0] for name, pair in ranked})] if ranked else []
    said = [meaning.TOTAL_VARIATION] * bool(ranked or measure == TWO_WAY) + [meaning.W1_CUBE] * (measure == "W1")
    if math.isfinite(typical) and math.isfinite(upper):
        if measure == TWO_WAY:
            rare = f"mean of all pairs, expected from public numbers; below {upper:.3g} in nine cases of ten"
            answers.append(about_pairs(typical, rare))
        elif ranges := [_range(column) for column in columns if column.ordered]:
            rare = f"at most, if W1 is {typical:.2g} as expected; it is below {upper:.2g} in nine cases of ten"
            answers.append(meaning.answer("Means of columns, in parts of their range", typical / min(ranges), rare))
        answers.append(about_rows(typical if measure == TWO_WAY else None, card["rows"]))
    return {
        "measured": False,
        "meaning": said,
        "answers": answers,
        "columns": [
            {"name": name, "error": None, "expected": pair[0], "grade": grade(pair[0])} for name, pair in ranked
        ],
        "pairs": [],
        "dependence": {
            "names": [column.name for column in columns],
            "synthetic": dependence_of(binned(last, columns)).round(4).tolist(),
        },
    }


def measured_quality(found: Evaluation, card: dict[str, Any], columns: Sequence[ColumnAxis]) -> dict[str, Any]:
    """From a comparison with the real data: NOT PRIVATE."""
    expected = dict(zip((c.name for c in columns), expected_columns(card, columns), strict=True))
    said, (real, synthetic) = found.to_dict(), found.dependence
    return {
        "measured": True,
        "meaning": [meaning.TOTAL_VARIATION, meaning.W1_MEANS],
        "answers": said["answers"],
        "columns": [
            {
                "name": column.name,
                "error": column.error,
                "expected": (pair := expected[column.name]) and pair[0],
                "grade": grade(column.error),
                "w1": column.distance if column.has_w1 else None,
            }
            for column in found.ranked_columns
        ],
        "pairs": [{"x": x, "y": y, "error": e, "grade": grade(e)} for x, y, e in found.ranked_pairs[:WORST]],
        "pairs_total": len(found.ranked_pairs),
        "cut": said["bounds_that_cut"],
        "w1": said["w1"],
        "dependence": {
            "names": [column.name for column in columns],
            "synthetic": synthetic.round(4).tolist(),
            "real": real.round(4).tolist(),
        },
    }


def _range(column: ColumnAxis) -> float:
    """How much of its axis the range of a column takes up: no mean moves farther than W1 on the axis."""
    return column.axis.unit * max((column.axis.values or 2) - 1, 1)
