"""Types of moments in text: no more digits than the steps of a column have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headwater.public.arrow import pyarrow
from headwater.public.column import Column
from headwater.public.time_of_day import TimeOfDay
from headwater.public.time_units import DAY, microseconds
from headwater.public.times import Datetime

_LENGTHS = {"s": 10**6, "ms": 10**3, "us": 1}


def in_text(tables: Iterator[Any], schema: Any) -> Iterator[Any]:  # noqa: ANN401 - a Schema or a UnitCube
    """Arrow tables of a schema with types whose text has the digits of the declared steps: of days, the date alone.

    The types follow from the schema, so all tables have the same, whatever is in them.
    """
    columns: Mapping[str, Column] = getattr(schema, "columns", {})
    types = {name: type_ for name, column in columns.items() if (type_ := _type(column)) is not None}
    for table in tables:
        kinds = [field.with_type(types.get(field.name, field.type)) for field in table.schema]
        yield table.cast(pyarrow().schema(kinds)) if types else table


def _type(column: Column) -> Any:  # noqa: ANN401 - a pyarrow.DataType, or None if the column holds no moments
    pa = pyarrow()
    if isinstance(column, TimeOfDay):
        unit = _unit(microseconds(column.step))
        return pa.time64(unit) if unit == "us" else pa.time32(unit)
    if not isinstance(column, Datetime):
        return None
    start, step = column.limits[0], microseconds(column.step)
    if not column.zoned and start % DAY == step % DAY == 0:  # a date has no time zone
        return pa.date32()
    return pa.timestamp(_unit(start, step), tz=column.zone)


def _unit(*lengths: int) -> str:
    """The longest unit that divides all of these numbers of microseconds."""
    return next(unit for unit, length in _LENGTHS.items() if not any(of % length for of in lengths))
