"""How good the last release is, for the page: measured if the real data are there, else as the card expects it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from headwater.evaluate.axes import ColumnAxis, Floats
from headwater.evaluate.distances import is_crowded
from headwater.evaluate.encoded import Encoded
from headwater.evaluate.evaluation import WORST, Evaluation
from headwater.evaluate.marginals import binned, normalised_information
from headwater.evaluate.meaning import (
    BEYOND,
    CROWDED_RELEASE,
    FINER,
    TOTAL_VARIATION,
    W1_CUBE,
    W1_MEANS,
    Answer,
    about,
    about_columns,
    grade,
    some,
)
from headwater.public.protocol import TWO_WAY


def expected_columns(card: dict[str, Any], columns: Sequence[ColumnAxis]) -> list[tuple[float, float] | None]:
    """What the card expects of each column's total variation: typical, and rarely exceeded; None if it does not say."""
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
    per_column = expected_columns(card, columns)
    known = {c.name: pair for c, pair in zip(columns, per_column, strict=True) if pair is not None}
    ranked = sorted(known.items(), key=lambda item: -item[1][0])
    crowded = {column.name for column, places in zip(columns, last.T, strict=True) if _crowded(column, places)}
    error, answers = card["expected_error"] or {}, list[Answer]()
    if known:
        answers.append(about_columns({name: pair[0] for name, pair in ranked}, crowded))
    typical, upper = (error.get(key, math.inf) for key in ("typical", "upper"))
    if math.isfinite(typical) and math.isfinite(upper):
        rare = f"expected from public numbers; below {upper:.3g} in nine cases of ten"
        if error.get("measure", "W1") == TWO_WAY:
            answers.append(Answer("Two columns: cross tables, means by group", typical, f"mean of all pairs, {rare}"))
            small = f"a group of fewer than about {about(typical * card['rows'])} rows can be all error; "
        else:
            small = ""
            if ranges := [_range(column) for column in columns if column.ordered]:
                rare = f"at most, if W1 is {typical:.2g} as expected; it is below {upper:.2g} in nine cases of ten"
                if crowded:  # a small part of a range far too wide is large beside the values in it
                    rare += (
                        f"; much for {some(sorted(crowded))}, with most synthetic values in a sixteenth of the range"
                    )
                answers.append(Answer("Means of columns, in parts of their range", typical / min(ranges), rare))
        answers.append(Answer("Small groups and single rows", 1.0, f"{small}no synthetic row is a real one"))
    return {
        "measured": False,
        "meaning": [
            text
            for text, wanted in (
                (TOTAL_VARIATION, bool(known) or error.get("measure") == TWO_WAY),
                (W1_CUBE, error.get("measure", "W1") == "W1"),
            )
            if wanted
        ],
        "answers": [answer.to_dict() for answer in answers],
        "columns": [
            {
                "name": name,
                "error": None,
                "expected": pair[0],
                "upper": pair[1],
                "grade": grade(pair[0]),
                "crowded": name in crowded,
            }
            for name, pair in ranked
        ],
        "crowded": CROWDED_RELEASE if crowded & known.keys() else None,
        "pairs": [],
        "dependence": {"names": [c.name for c in columns], "synthetic": _rounded(_dependence(last, columns))},
    }


def measured_quality(found: Evaluation, card: dict[str, Any], columns: Sequence[ColumnAxis]) -> dict[str, Any]:
    """From a comparison with the real data: NOT PRIVATE."""
    expected = dict(zip((c.name for c in columns), expected_columns(card, columns), strict=True))
    w1 = found.distance.w1
    real, synthetic = found.dependence
    return {
        "measured": True,
        "meaning": [TOTAL_VARIATION, W1_MEANS],
        "answers": [answer.to_dict() for answer in found.answers()],
        "columns": [
            {
                "name": column.name,
                "error": column.judged,
                "expected": (pair := expected[column.name]) and pair[0],
                "upper": pair and pair[1],
                "grade": grade(column.judged),
                "crowded": column.finer_error is not None,
                "w1": column.distance if column.has_w1 else None,
                "beyond": column.has_w1_beyond,
            }
            for column in found.ranked_columns
        ],
        "pairs": [
            {"x": x, "y": y, "error": e, "grade": grade(e), "crowded": bool(found.finer & {x, y})}
            for x, y, e in found.judged_pairs[:WORST]
        ],
        "pairs_total": len(found.judged_pairs),
        "crowded": FINER if found.finer else None,
        "beyond": BEYOND if any(column.has_w1_beyond for column in found.columns) else None,
        "cut": [{"name": c.name, "below": c.below, "above": c.above, "log": c.log} for c in found.cut],
        "w1": {"value": w1.value, "error": w1.error} if w1 else {"reason": found.distance.reason},
        "dependence": {
            "names": [column.name for column in columns],
            "synthetic": _rounded(synthetic),
            "real": _rounded(real),
        },
    }


def _range(column: ColumnAxis) -> float:
    """How much of its axis the range of a column takes up: no mean moves farther than W1 on the axis."""
    return column.axis.unit * max((column.axis.values or 2) - 1, 1)


def _crowded(column: ColumnAxis, places: Floats) -> bool:
    values, there = column.split(places)
    return is_crowded(column, values[there])


def _dependence(points: Floats, columns: Sequence[ColumnAxis]) -> Floats:
    matrix = np.eye(len(columns))
    for i, j, table in binned(Encoded(points), columns).two_way():
        matrix[i, j] = matrix[j, i] = normalised_information(table)
    return matrix


def _rounded(matrix: Floats) -> list[list[float]]:
    found: list[list[float]] = matrix.round(4).tolist()
    return found
