"""Conditions on synthetic records: what ``where=`` means, as parts of the schema's cube."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.mechanisms.protocol import AnySchema, Conditions
from headwater.table.errors import TableError
from headwater.table.unit_cube import UnitCube


def conditions(schema: AnySchema, where: Mapping[str, Any]) -> Conditions:
    """For each named column the lowest and the highest coordinate that a record may have.

    Parameters
    ----------
    schema
        What a record is.
    where
        A value for some columns, or a tuple of two: a range, both ends included. None stands for a missing value.
    """
    if isinstance(schema, UnitCube):
        raise TypeError("where= needs a schema with named columns; filter the points of a cube yourself")
    found: dict[int, tuple[float, float]] = {}
    for name, value in where.items():
        if name not in schema.names:
            raise ValueError(f"there is no column {name!r}; there are {', '.join(schema.names)}")
        is_range = isinstance(value, tuple)
        if is_range and len(value) != 2:
            raise ValueError(f"where {name!r}: a range is a tuple of two values, not of {len(value)}")
        column = schema.columns[name]
        try:
            low, high = column.encode(list(value) if is_range else [value, value]).tolist()
        except TableError as error:
            raise error.at(column=name) from None
        if low > high:
            raise ValueError(f"where {name!r}: the range ends before it begins")
        gone = column.missing and low == 0.5
        if low == high and column.size is None and not gone:
            raise ValueError(
                f"where {name!r}: no record has exactly one value of a continuum; give a range (low, high)"
            )
        found[schema.names.index(name)] = (low, high)
    return found
