"""Rows of a table in the unit cube, and how far values lie beyond the declared bounds. NOT PRIVATE.

A schema takes a value beyond a bound as the bound. Compared after that, real and synthetic data agree where the bound
was wrong; so what was cut is kept here, beside the points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from headwater.evaluate.axes import ColumnAxis, Floats, Integers, Side
from headwater.public.bad_rows import item_of
from headwater.public.column import Column
from headwater.public.errors import SchemaError, TableError
from headwater.public.frames import columns_of, kind_of
from headwater.public.numeric import Number
from headwater.public.protocol import AnySchema
from headwater.public.schema import Schema

Values = Callable[[Integers], list[list[Any]]]

_FACTORS = (2.0**20, 2.0**10, 2.0**4, 1.0)
"""How many times its range a column is widened on both sides, to find what lies beyond; the first that is possible."""


@dataclass(frozen=True)
class Encoded:
    """Rows as points of the cube, and for some columns how far each value lies beyond the bounds.

    Parameters
    ----------
    points
        Of shape ``(n, d)``; values beyond a bound are at the bound.
    beyond
        By number of a column: 0 for a value within the bounds, negative below and positive above them, in units of the
        column's range. Columns with no value beyond are left out.
    values
        Gives the values of some rows as they came: neither clipped nor rounded. Parts of these rows do not keep it.
    """

    points: Floats
    beyond: Mapping[int, Floats] = field(default_factory=dict)
    values: Values | None = None

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, rows: slice) -> Encoded:
        return Encoded(self.points[rows], {i: far[rows] for i, far in self.beyond.items()})

    def known(self) -> Encoded:
        """Without rows that were no records; they keep their places until the span of a release is cut out."""
        there = ~np.isnan(self.points).any(axis=1)
        return self if there.all() else Encoded(self.points[there], {i: far[there] for i, far in self.beyond.items()})

    def spread(self, places: Integers, rows: int) -> Encoded:
        """These rows at some places among more of them; the others are no records."""
        values = self.values
        points = np.full((rows, self.points.shape[1]), np.nan)
        points[places] = self.points
        beyond = {i: np.zeros(rows) for i in self.beyond}
        for i, far in self.beyond.items():
            beyond[i][places] = far
        if values is None:
            return Encoded(points, beyond)

        def found(rows: Integers) -> list[list[Any]]:
            return values(np.searchsorted(places, rows).astype(np.int64))

        return Encoded(points, beyond, found)

    @property
    def moved(self) -> float:
        """How far clipping moved rows on average, in the ℓ∞ metric: at most, since a range is at most 1 in the cube."""
        far = [np.abs(found) for found in self.beyond.values()]
        return float(np.max(far, axis=0).mean()) if far and len(self) else 0.0

    def sides(self, columns: Sequence[ColumnAxis]) -> list[Side]:
        """Values of each column, not clipped, and which of them are there."""
        found = []
        for i, column in enumerate(columns):
            values, there = column.split(self.points[:, i])
            found.append((values + self.beyond[i] if i in self.beyond else values, there))
        return found


def joined(parts: Iterable[Encoded], dimension: int) -> Encoded:
    """The rows of all parts, one part after the other."""
    found = list(parts)
    cut = {i for part in found for i in part.beyond}
    beyond = {i: np.concatenate([part.beyond.get(i, np.zeros(len(part))) for part in found]) for i in sorted(cut)}
    return Encoded(np.concatenate([np.empty((0, dimension)), *(part.points for part in found)]), beyond)


class Encoder:
    """Encodes tables by a schema, and remembers what its bounds cut."""

    def __init__(self, schema: AnySchema) -> None:
        self._schema = schema
        columns = schema.columns if isinstance(schema, Schema) else {}
        self._wide = {i: found for i, column in enumerate(columns.values()) if (found := _Wide.of(column))}

    def __call__(self, table: object) -> Encoded:
        """A table as points; an array of floats holds points already."""
        if isinstance(table, Encoded):
            return table
        if isinstance(table, np.ndarray) and table.dtype.kind == "f":
            if table.ndim != 2 or table.shape[1] != self._schema.dimension:
                raise ValueError(f"points must have shape (n, {self._schema.dimension}), not {table.shape}")
            return Encoded(table.astype(np.float64, copy=False))
        points = self._schema.encode(table)
        if not isinstance(self._schema, Schema):
            return Encoded(points)
        names = self._schema.names
        series, _ = columns_of(table, names, ignore_extra=self._schema.reading.get("ignore_extra", False))

        def values(rows: Integers) -> list[list[Any]]:
            return [[item_of(series[name], row) for name in names] for row in rows.tolist()]

        far = {i: wide.beyond(series[names[i]]) for i, wide in self._wide.items()}
        return Encoded(points, {i: found for i, found in far.items() if found.any()}, values)


@dataclass(frozen=True)
class _Wide:
    """A column with its bounds moved far out, and where the declared bounds lie on its axis."""

    column: Column
    low: float
    high: float
    rounding: float

    @staticmethod
    def of(column: Column) -> _Wide | None:
        for factor in _FACTORS:
            try:
                bounds = _moved(column, factor)
                if bounds is None:
                    return None
                changed: dict[str, Any] = {"outside": "clip", "missing": True, **bounds}
                step = getattr(column, "step", None) or 10.0 ** -(getattr(column, "decimals", None) or 99)
                changed |= {
                    name: None for name in ("step", "decimals") if column.kind == "number" and hasattr(column, name)
                }
                wide = replace(column, **changed)
                declared = [getattr(column, name) for name in bounds]
                (low, high), _ = wide.axis.value(wide.encode(declared))
                if low < high:
                    rounding = step / (declared[1] - declared[0]) / 2 if column.kind == "number" else 0.0
                    return _Wide(wide, float(low), float(high), max(rounding, 1e-9))  # that of the wide axis
            except (SchemaError, TableError, ValueError, OverflowError):
                continue
        return None

    def beyond(self, series: object) -> Floats:
        values, gone = self.column.axis.value(self.column.encode(series))
        scaled = (values - self.low) / (self.high - self.low)
        far: Floats = scaled - np.clip(scaled, 0, 1)
        far[np.abs(far) <= self.rounding * (1 + 1e-6)] = 0  # what is rounded to a bound is not beyond it
        if isinstance(self.column, Number) and self.column.scale == "log":  # 0 counts as the lower bound
            signs = replace(self.column, low=-1.0, high=1.0, scale="linear")
            far[values <= 0] = -2 * self.rounding  # negative ones are nowhere on it: beyond, by no distance
            far[signs.encode(series) == signs.encode([0.0])] = 0
        return far if gone is None else np.where(gone, 0.0, far)


def _moved(column: Column, factor: float) -> dict[str, Any] | None:
    """The bounds of a column, moved out by so many times its range; None for kinds without bounds."""
    declared: Any = column
    if column.kind in ("number", "integer"):
        low, high = declared.low, declared.high
        if getattr(column, "scale", None) == "log":
            return {"low": low / factor, "high": high * factor}
        far = int(factor) * max(high - low, 1) if column.kind == "integer" else factor * (high - low)
        return {"low": low - far, "high": high + far}
    if column.kind == "datetime":
        low, high = declared.start, declared.end
        far = (high - low) * int(factor)
        first, last = (end.replace(tzinfo=low.tzinfo) for end in (datetime.min, datetime.max))
        day = timedelta(days=2)  # away from the ends of the calendar, where time zones overflow
        return {
            "start": low - far if low - first - day > far else first + day,
            "end": high + far if last - day - high > far else last - day,
        }
    return None


def batches(tables: object) -> Iterator[object]:
    """Tables, of one table or of many. A table is what has columns, a dictionary, an array or a list of records."""
    single = isinstance(tables, Mapping | np.ndarray | Encoded) or hasattr(tables, "columns")
    if isinstance(tables, list | tuple) and tables:
        single = isinstance(tables[0], Mapping) and kind_of(tables[0]) == "records"
    if not single and isinstance(tables, Iterable):
        yield from tables
    else:
        yield tables
