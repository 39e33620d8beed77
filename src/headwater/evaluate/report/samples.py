"""A few rows as text."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any

import numpy as np

from headwater.evaluate.axes import Floats
from headwater.evaluate.encoded import Encoded

ROWS = 10

Texts = list[str | None]
"""A row as the page shows it; None where a value is missing."""


def texts(schema: Any, points: Floats) -> list[Texts]:  # noqa: ANN401  # a Schema or a UnitCube
    """Rows at points of the cube as text. Numbers without declared decimals have six digits."""
    columns = getattr(schema, "columns", {})
    exact = {name for name, column in columns.items() if getattr(column, "grid", None) is not None}
    records: list[dict[str, Any]] = schema.decode(points, "records")
    return [[_text(value, exact=name in exact) for name, value in record.items()] for record in records]


class RealRows:
    """Random rows of the real data, from what one release is about, as they came: neither clipped nor rounded.

    Parameters
    ----------
    schema
        A Schema or a UnitCube.
    span
        The first row and the one after the last.
    """

    def __init__(self, schema: Any, span: tuple[int, int]) -> None:  # noqa: ANN401  # a Schema or a UnitCube
        self._schema, self._span = schema, span
        self._draw = np.random.default_rng(0)
        self._kept = list[tuple[float, Texts]]()

    def offer(self, part: Encoded, first: int) -> None:
        """Take the next rows, of which the first has this number: those with the smallest draws are kept."""
        start, end = (min(max(0, number - first), len(part)) for number in self._span)
        rows = start + np.flatnonzero(~np.isnan(part.points[start:end]).any(axis=1))
        draws = self._draw.random(len(rows))
        best = np.argsort(draws)[:ROWS]
        if part.values is None:
            found = texts(self._schema, part.points[rows[best]])
        else:
            found = [[_text(value, exact=True) for value in row] for row in part.values(rows[best])]
        drawn = [*self._kept, *zip(draws[best].tolist(), found, strict=True)]
        self._kept = sorted(drawn, key=lambda one: one[0])[:ROWS]

    def texts(self) -> list[Texts]:
        """The rows that were kept, in random order."""
        return [row for _, row in self._kept]


def _text(value: Any, *, exact: bool) -> str | None:  # noqa: ANN401  # a value of any column
    if value is None or value != value:
        return None
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime | date | time):
        return value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, float):
        short = f"{value:.15g}" if exact else f"{value:.6g}"
        return f"{value:.0f}" if "e+" in short and abs(value) < 1e15 else short
    return str(value)
