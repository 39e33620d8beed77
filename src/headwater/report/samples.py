"""A few rows as text."""

from __future__ import annotations

from typing import Any

from headwater.evaluation.axes import Floats
from headwater.public.moments import microseconds

ROWS = 10


def texts(schema: Any, points: Floats) -> list[list[str | None]]:  # noqa: ANN401 - a Schema or a UnitCube
    """Rows at points of the cube as text, None where a value is missing. Numbers have their decimals, or six digits."""
    columns = getattr(schema, "columns", {})
    exact = {name for name, column in columns.items() if getattr(column, "grid", None) is not None}
    days = {
        name
        for name, column in columns.items()
        if column.kind == "datetime" and not microseconds(column.step) % microseconds("1d")
    }
    records: list[dict[str, Any]] = schema.decode(points, "records")
    return [[_text(v, exact=name in exact, day=name in days) for name, v in record.items()] for record in records]


def _text(value: Any, *, exact: bool, day: bool) -> str | None:  # noqa: ANN401 - a value of any column
    if value is None or value != value:
        return None
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        short = f"{value:.15g}" if exact else f"{value:.6g}"
        return f"{value:.0f}" if "e+" in short and abs(value) < 1e15 else short
    return str(value).removesuffix(" 00:00:00") if day else str(value)
