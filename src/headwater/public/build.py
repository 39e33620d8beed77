"""Points become a table again, of the kind that came in and with the types of the schema."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.arrow import from_numpy, pyarrow
from headwater.public.categorical import Boolean, Category
from headwater.public.column import Column
from headwater.public.frames import TABLE_KINDS
from headwater.public.numeric import Integer, Number
from headwater.public.partition import Flags, Points
from headwater.public.time_of_day import TimeOfDay
from headwater.public.times import Datetime

Array = NDArray[Any]


def build(columns: Mapping[str, Column], points: Points, kind: str) -> Any:  # noqa: ANN401 - a table of any library
    """A table of this kind with the values at these points; its types depend on the columns alone.

    >>> build({"age": Integer(0, 3)}, np.array([[0.25], [0.5]]), "records")
    [{'age': 1}, {'age': 2}]
    """
    if kind not in TABLE_KINDS:
        raise ValueError(f"kind must be one of {', '.join(TABLE_KINDS)}, not {kind!r}")
    if kind in ("columns", "records", "numpy"):
        return _plain(columns, points, kind)
    library = pyarrow() if kind.startswith("arrow") else importlib.import_module(kind)
    make = {"pandas": _pandas, "polars": _polars}.get(kind, _arrow)
    made = {}
    for axis, (name, column) in enumerate(columns.items()):
        numbers, missing = column.axis.value(np.ascontiguousarray(points[:, axis]))
        made[name] = make(library, column, column.raw(numbers), missing)
    if kind == "arrow-batch":
        return library.RecordBatch.from_arrays(list(made.values()), names=list(made))
    return library.table(made) if kind == "arrow" else library.DataFrame(made)


def _plain(columns: Mapping[str, Column], points: Points, kind: str) -> Any:  # noqa: ANN401 - dict, list or array
    arrays = {name: _numpy(column, points[:, axis]) for axis, (name, column) in enumerate(columns.items())}
    if kind == "columns":
        return arrays
    if kind == "records":
        lists = [array.tolist() for array in arrays.values()]
        return [dict(zip(arrays, row, strict=True)) for row in zip(*lists, strict=True)]
    table = np.empty(points.shape, dtype=_common(list(columns.values())))
    for axis, array in enumerate(arrays.values()):
        table[:, axis] = array.tolist() if table.dtype == object else array
    return table


def _numpy(column: Column, coordinates: Points) -> Array:
    """A column as NumPy has it. Where it knows no missing values of a type, they are None in an array of objects."""
    values, missing = column.decode(coordinates)
    if missing is None:
        return values
    if values.dtype.kind not in "fM":
        values = values.astype(object)
    values[missing] = {"f": np.nan, "M": np.datetime64("NaT")}.get(values.dtype.kind)
    return values


def _common(columns: list[Column]) -> type[Any]:
    """The type of an array that holds all of these columns exactly."""
    if all(isinstance(column, Integer) and not column.missing for column in columns):
        return np.int64
    exact = 1 << 53
    for column in columns:
        small = isinstance(column, Integer) and -exact <= column.limits[0] <= column.limits[1] <= exact
        if not isinstance(column, Number) and not (small and not column.missing):
            return object
    return np.float64


def _arrow(pa: Any, column: Column, raw: Array, missing: Flags | None) -> Any:  # noqa: ANN401 - Arrow's array
    if isinstance(column, Category):
        return _listed(pa, column).take(from_numpy(raw, missing))
    if isinstance(column, Datetime):
        return from_numpy(raw.view(np.int64), missing).cast(pa.timestamp("us", tz=column.zone))
    if isinstance(column, TimeOfDay):
        return from_numpy(raw.view(np.int64), missing).cast(pa.time64("us"))
    return from_numpy(raw, missing)


def _listed(pa: Any, column: Category) -> Any:  # noqa: ANN401 - Arrow's array
    """The values of a category."""
    if column.type is not str:
        return from_numpy(np.array(column.values, dtype=column.type), None)
    texts = [str(value).encode() for value in column.values]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(texts), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))])


def _polars(pl: Any, column: Column, raw: Array, missing: Flags | None) -> Any:  # noqa: ANN401 - polars' series
    if isinstance(column, Datetime | TimeOfDay):
        raw = raw.view(np.int64) * (1000 if isinstance(column, TimeOfDay) else 1)
    series = pl.Series(raw)
    if missing is not None:
        series = pl.select(pl.when(pl.Series(~missing)).then(series)).to_series()
    if isinstance(column, Category):
        types = {str: pl.String, int: pl.Int64, bool: pl.Boolean}
        return pl.Series(list(column.values), dtype=types[column.type]).gather(series)
    if isinstance(column, Datetime):
        zone = "UTC" if column.zone and column.zone[0] in "+-" else column.zone  # polars knows zones by place only
        return series.cast(pl.Datetime("us", zone))
    return series.cast(pl.Time) if isinstance(column, TimeOfDay) else series


def _pandas(pd: Any, column: Column, raw: Array, missing: Flags | None) -> Any:  # noqa: ANN401 - pandas' array
    if isinstance(column, Category) and column.type is str:
        places = raw if missing is None else np.where(missing, -1, raw)
        return pd.Series(list(column.values)).array.take(places, allow_fill=missing is not None)
    if isinstance(column, Datetime):
        if missing is not None:
            raw[missing] = np.datetime64("NaT")
        naive = pd.Series(raw)
        return naive.dt.tz_localize("UTC").dt.tz_convert(column.zone) if column.zoned else naive
    values = column.label(raw)
    if missing is None:
        return values
    if isinstance(column, Number):
        values[missing] = np.nan
        return values
    if isinstance(column, Boolean) or values.dtype == np.bool_:
        return pd.arrays.BooleanArray(values, missing)
    if values.dtype == np.int64:
        return pd.arrays.IntegerArray(values, missing)
    values[missing] = None
    return values
