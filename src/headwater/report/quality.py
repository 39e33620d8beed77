"""How good a release is, for the page: expected from public numbers, measured if the real data are there."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwater.evaluation import yardstick
from headwater.evaluation.bars import Bars
from headwater.evaluation.evaluation import (
    MEANING,
    WORST,
    Evaluation,
    column_errors,
    percent,
    questions_of,
    said,
)
from headwater.evaluation.yardstick import Columns, Table
from headwater.report.bins import labels_of

GROUPS, CORRELATIONS = 6, 10
"""Tables of means by group, and correlations, that are shown: where groups differ most, and the strongest."""


def quality(
    columns: Columns,
    last: Table,
    bars: Bars | None,
    found: Evaluation | None = None,
    real: Table | None = None,
    *,
    quick: bool = False,
) -> dict[str, Any]:
    """What a page says of the errors of its last release; NOT PRIVATE if it was measured. Quick: not by questions."""
    expected = {} if bars is None else _expected(columns, last, bars, quick=quick)
    measured = {} if found is None else {one.kind: one for one in found.questions}
    questions = []
    for kind, unit, _ in questions_of(columns, last, 0):
        one, foreseen = measured.get(kind), expected.get(kind)
        if one is not None or foreseen is not None:
            questions.append(
                {
                    "kind": kind,
                    "expected": foreseen and [said(error, unit) for error in foreseen],
                    "measured": one and [said(one.mean, unit), said(one.percentile_95, unit)],
                    "held": one and one.held,
                }
            )
    named = {one.name: one for one in found.columns} if found is not None else {}
    listed = list[dict[str, Any]]()
    for i, column in enumerate(columns):
        judged, foreseen = named.get(column.name), expected.get(i)
        if judged is not None or foreseen is not None:
            row = {"name": column.name, "share": judged and judged.share, "w1": judged and judged.w1}
            listed.append(row | {"expected": foreseen and foreseen[0], "expected_w1": foreseen and foreseen[1]})
    listed.sort(key=lambda row: -float(row["expected"] if row["share"] is None else row["share"]))
    return {
        "meaning": MEANING,
        "questions": questions,
        "columns": listed,
        "pairs": [] if found is None else [{"x": x, "y": y, "share": error} for x, y, error in found.pairs[:WORST]],
        "pairs_total": 0 if found is None else len(found.pairs),
        "cut": {} if found is None else {name: percent(share) for name, share in found.cut.items()},
        "stepped": {} if found is None else {name: percent(share) for name, share in found.stepped.items()},
        "w1": None if found is None or found.distance is None else round(found.distance.value, 4),
        "groups": _groups(columns, last, bars, real),
        "correlations": _correlations(columns, last, bars, real),
    }


def _expected(columns: Columns, last: Table, bars: Bars, *, quick: bool) -> dict[Any, Any]:
    """Mean and 95th percentile of errors by kind of question, and the mean errors of each column by its number."""
    found: dict[Any, Any] = {}
    for kind, _, questions in [] if quick else questions_of(columns, last, 0):
        errors = bars.expected(questions)
        if len(errors):
            found[kind] = float(errors.mean()), float(np.percentile(errors, 95))
    for i, column in enumerate(columns):
        missed = [column_errors(column, a[i], b[i]) for a, b in zip(bars.truths, bars.fits, strict=True)]
        w1 = [one.w1 for one in missed if one.w1 is not None]
        found[i] = float(np.mean([one.share for one in missed])), float(np.mean(w1)) if w1 else None
    return found


def _groups(columns: Columns, last: Table, bars: Bars | None, real: Table | None) -> list[dict[str, Any]]:
    """Means of ordered columns by group, in their own units, of the pairs whose groups differ most."""
    asked = yardstick.group_means(columns, last)
    answers, half, truth = (asked.ask(last), *_beside(asked, bars, real))
    tables: dict[tuple[int, ...], list[int]] = {}
    for number, (i, by, _) in enumerate(asked.about):
        if columns[i].kind in ("number", "integer") and columns[i].declared.get("scale") != "log":
            tables.setdefault((i, by), []).append(number)
    spread = {pair: float(np.ptp(answers[rows])) for pair, rows in tables.items() if len(rows) > 1}
    found, seen = list[dict[str, Any]](), set[int]()
    for i, by in sorted(spread, key=lambda pair: -spread[pair]):
        if i in seen or len(found) == GROUPS:  # one for each column: many columns say the same
            continue
        seen.add(i)
        column, rows = columns[i], tables[i, by]
        low, high = float(column.declared["low"]), float(column.declared["high"])
        scale = yardstick.deviation(last[i]) * (high - low)
        names = [_group(columns[by], asked.about[row][2]) for row in rows]
        lines = [
            {
                "group": name,
                "mean": round(low + float(answers[row]) * scale, 6),
                "half": None if half is None or not np.isfinite(half[row]) else round(float(half[row]) * scale, 6),
                "real": None if truth is None else round(low + float(truth[row]) * scale, 6),
            }
            for name, row in zip(names, rows, strict=True)
        ]
        found.append({"column": column.name, "by": columns[by].name, "rows": lines})
    return found


def _group(column: Any, code: int) -> str:  # noqa: ANN401 - a ColumnAxis
    if not column.ordered:
        return labels_of(column)[code]
    low, high, values = float(column.declared.get("low", 0)), float(column.declared.get("high", 0)), column.axis.values
    return f"{low + (high - low) * code / max(values - 1, 1):g}"


def _correlations(columns: Columns, last: Table, bars: Bars | None, real: Table | None) -> list[dict[str, Any]]:
    """The strongest rank correlations."""
    asked = yardstick.correlations(columns, last, ranked=True)
    answers, half, truth = (asked.ask(last), *_beside(asked, bars, real))
    strongest = np.argsort(-np.abs(answers), kind="stable")[:CORRELATIONS]
    return [
        {
            "x": columns[asked.about[at][0]].name,
            "y": columns[asked.about[at][1]].name,
            "found": round(float(answers[at]), 3),
            "half": None if half is None or not np.isfinite(half[at]) else round(float(half[at]), 3),
            "real": None if truth is None else round(float(truth[at]), 3),
        }
        for at in strongest.tolist()
    ]


def _beside(asked: yardstick.Questions, bars: Bars | None, real: Table | None) -> tuple[Any, Any]:
    return None if bars is None else bars.half(asked.ask), None if real is None else asked.ask(real)
