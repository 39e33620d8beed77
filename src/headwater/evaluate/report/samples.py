"""A few rows as text."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any

import numpy as np

from headwater.evaluate.axes import Floats
from headwater.evaluate.encoded import Encoded
from headwater.public.time_units import microseconds

ROWS = 10

Texts = list[str | None]
"""A row as the page shows it; None where a value is missing."""


def texts(schema: Any, points: Floats) -> list[Texts]:  # noqa: ANN401  # a Schema or a UnitCube
    """Rows at points of the cube as text. Numbers without declared decimals have six digits."""
    columns = getattr(schema, "columns", {})
    exact = {name for name, column in columns.items() if getattr(column, "grid", None) is not None}
    days = _days(schema)
    records: list[dict[str, Any]] = schema.decode(points, "records")
    return [[_text(v, exact=name in exact, day=name in days) for name, v in record.items()] for record in records]


def _days(schema: Any) -> set[str]:  # noqa: ANN401  # a Schema or a UnitCube
    """Columns of days, of which no time is shown."""
    columns = {name: c for name, c in getattr(schema, "columns", {}).items() if c.kind == "datetime"}
    return {name for name, column in columns.items() if not microseconds(column.step) % microseconds("1d")}


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
            days = _days(self._schema)
            shown = [name in days for name in self._schema.names]
            found = [
                [_text(value, exact=True, day=day) for value, day in zip(row, shown, strict=True)]
                for row in part.values(rows[best])
            ]
        drawn = [*self._kept, *zip(draws[best].tolist(), found, strict=True)]
        self._kept = sorted(drawn, key=lambda one: one[0])[:ROWS]

    def texts(self) -> list[Texts]:
        """The rows that were kept, in random order."""
        return [row for _, row in self._kept]


def _text(value: Any, *, exact: bool, day: bool = False) -> str | None:  # noqa: ANN401  # a value of any column
    if value is None or value != value:
        return None
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return str(value).lower()
    if day and isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, datetime | date | time):
        return value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, float):
        short = f"{value:.15g}" if exact else f"{value:.6g}"
        return f"{value:.0f}" if "e+" in short and abs(value) < 1e15 else short
    return str(value)
