"""Conditions on synthetic records: what ``where=`` means, as parts of the schema's cube."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headwater.public.columns import Column
from headwater.public.cube import UnitCube
from headwater.public.errors import TableError
from headwater.public.numbers import Number
from headwater.public.partition import Points
from headwater.public.protocol import AnySchema, Conditions, Model

MOST_DRAWN = 64
"""For each record that fits a list of values at most so many are drawn: fewer if that is millions, more for a few."""


def parts(schema: AnySchema, where: Mapping[str, Any]) -> dict[int, tuple[float, float] | Points]:
    """For each named column the range of coordinates that a record may have, or all of them if values are listed."""
    if isinstance(schema, UnitCube):
        raise TypeError("where= needs a schema with named columns; filter the points of a cube yourself")
    found: dict[int, tuple[float, float] | Points] = {}
    for name, value in where.items():
        if name not in schema.names:
            raise ValueError(f"there is no column {name!r}; there are {', '.join(schema.names)}")
        column, place, axis = schema.columns[name], f"where[{name!r}]", schema.names.index(name)
        if isinstance(value, list | set | frozenset):
            found[axis] = _listed(column, value, place)
            continue
        low, high = _range(column, value, place) if isinstance(value, tuple) else _one(column, value, place)
        if low > high:
            raise ValueError(f"{place}: the range ends before it begins")
        gone = column.missing and low == 0.5
        if low == high and column.size is None and not gone:
            raise ValueError(f"{place}: no record has exactly one value of a continuum; give a range (low, high)")
        found[axis] = (low, high)
    return found


def conditions(schema: AnySchema, where: Mapping[str, Any]) -> Conditions:
    """For each named column the lowest and the highest coordinate that a record may have."""
    return {axis: (float(np.min(part)), float(np.max(part))) for axis, part in parts(schema, where).items()}


def sample_where(model: Model, schema: AnySchema, n: int, seed: int, where: Mapping[str, Any]) -> Points:
    """``n`` records of a model that fulfil conditions, as points of the cube; those that miss a list are drawn anew."""
    limits, drawn = conditions(schema, where), n
    most = min(MOST_DRAWN * max(n, 1000), max(4 * n, 1 << 22))  # all of them are in memory
    lists = {axis: part for axis, part in parts(schema, where).items() if isinstance(part, np.ndarray)}
    while True:
        points = model.sample(drawn, seed, limits)
        fits = np.ones(len(points), dtype=bool)
        for axis, places in lists.items():
            fits &= np.isin(points[:, axis], places)
        found = points[fits]
        if len(found) >= n:
            return found[:n]  # models give records in random order
        if drawn >= most:
            raise ValueError("the release holds hardly any record of the listed values; ask for one value at a time")
        drawn = min(max(2 * drawn, int(1.2 * n * drawn / max(len(found), 1))), most)


def _range(column: Column, value: tuple[Any, ...], place: str) -> tuple[float, float]:
    """The coordinates of the ends of a range."""
    if len(value) != 2:
        raise ValueError(f"{place}: a range is a tuple of two values, not of {len(value)}")
    last = np.nextafter(0.5, 0) if column.missing else 1.0
    if column.size is not None:
        last = (column.size - 1) * column.axis.unit
    low, high = value
    first, above = (0.0, False) if low is None else _coordinate(column, low, place)
    final, below = (float(last), False) if high is None else _coordinate(column, high, place)
    if (above and first > 0) or (below and final == 0):  # else the bound is what was meant
        raise ValueError(f"{place}: all of the range lies beyond the declared bounds, so no record is in it")
    if isinstance(column, Number) and column.size is None:
        inner = (
            first if low is None or above else _inwards(column, first, 1),
            final if high is None or below else _inwards(column, final, -1),
        )
        return inner if inner[0] < inner[1] else (first, final)
    return first, final


def _inwards(column: Number, place: float, side: int) -> float:
    exact = float(column.exact(column.axis.value(np.array([place]))[0])[0])
    rounded = float(column.decode(np.array([place]))[0][0])
    if (rounded - exact) * side >= 0:
        return place
    unit = column.step_at(exact)
    return float(column.encode([min(max(rounded + side * unit, column.limits[0]), column.limits[1])])[0])


def _listed(column: Column, values: list[Any] | set[Any] | frozenset[Any], place: str) -> Points:
    if column.size is None:
        raise ValueError(f"{place}: no record has exactly one value of a continuum; give a range (low, high)")
    if not values:
        raise ValueError(f"{place}: the list is empty; name at least one value")
    return np.array([_one(column, value, place)[0] for value in values])


def _one(column: Column, value: Any, place: str) -> tuple[float, float]:  # noqa: ANN401 - of any kind
    found, clipped = _coordinate(column, value, place)
    if clipped:
        raise ValueError(f"{place}: the value lies beyond the declared bounds, so no record has it")
    return found, found


def _coordinate(column: Column, value: Any, place: str) -> tuple[float, bool]:  # noqa: ANN401 - of any kind
    """The coordinate of a value, and whether it is that of a bound instead."""
    try:
        found, tally, wrong = column.placed(column.read([value]))
        for error in wrong.values():
            raise error
    except TableError as error:
        missing = "the column has no missing values" if value is None else error.problem
        raise ValueError(f"{place}: {missing}; give {column.wants}") from None
    if tally.get("unlisted"):
        raise ValueError(f"{place}: the value is none of the listed ones; give {column.wants}")
    return float(found[0]), bool(tally.get("clipped"))
