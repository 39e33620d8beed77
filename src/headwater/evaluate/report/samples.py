"""A few rows as text."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any

from headwater.evaluate.axes import Floats

ROWS = 10


def texts(schema: Any, points: Floats) -> list[list[str | None]]:  # noqa: ANN401  # a Schema or a UnitCube
    """Rows at points of the cube as the page shows them; None where a value is missing."""
    records: list[dict[str, Any]] = schema.decode(points, "records")
    return [[_text(value) for value in record.values()] for record in records]


def _text(value: Any) -> str | None:  # noqa: ANN401  # a value of any column
    """One value, with at most six digits of a fraction."""
    if value is None or value != value:
        return None
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime | date | time):
        return value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
