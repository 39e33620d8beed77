"""Points become a table again, of the kind that came in and with the types of the schema."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.partition import Flags, Points
from headwater.public.tables import TABLE_KINDS, pyarrow

Array = NDArray[Any]


def build(columns: Mapping[str, Any], points: Points, kind: str) -> Any:  # noqa: ANN401 - a table of any library
    """A table of this kind with the values at these points; its types depend on the columns alone.

    >>> from headwater.public.numbers import Integer
    >>> build({"age": Integer(0, 3)}, np.array([[0.25], [0.5]]), "records")
    [{'age': 1}, {'age': 2}]
    """
    if kind not in TABLE_KINDS:
        raise ValueError(f"kind must be one of {', '.join(TABLE_KINDS)}, not {kind!r}")
    if kind in ("columns", "records", "numpy"):
        return _plain(columns, points, kind)
    if kind != "pandas":
        pa, arrays = pyarrow(), []
        for axis, column in enumerate(columns.values()):
            numbers, missing = column.axis.value(np.ascontiguousarray(points[:, axis]))
            arrays.append(column.to_arrow(column.raw(numbers), missing))
        if kind == "polars":
            return _polars(pa.table(arrays, names=list(columns)))
        made = pa.RecordBatch if kind == "arrow-batch" else pa.Table
        return made.from_arrays(arrays, names=list(columns))
    pd, made = importlib.import_module("pandas"), {}
    for axis, (name, column) in enumerate(columns.items()):
        made[name] = _pandas(pd, column, *column.axis.value(np.ascontiguousarray(points[:, axis])))
    return pd.DataFrame(made)


def _plain(columns: Mapping[str, Any], points: Points, kind: str) -> Any:  # noqa: ANN401 - dict, list or array
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


def _numpy(column: Any, coordinates: Points) -> Any:  # noqa: ANN401 - an array of a Column
    """A column as NumPy has it. Where it knows no missing values of a type, they are None in an array of objects."""
    values, missing = column.decode(coordinates)
    if missing is None:
        return values
    if values.dtype.kind not in "fM":
        values = values.astype(object)
    values[missing] = {"f": np.nan, "M": np.datetime64("NaT")}.get(values.dtype.kind)
    return values


def _common(columns: list[Any]) -> type[Any]:
    """The type of an array that holds all of these columns exactly."""
    whole = [column.kind == "integer" and not column.missing for column in columns]
    if all(whole):
        return np.int64
    exact = 1 << 53
    for column, is_whole in zip(columns, whole, strict=True):
        small = is_whole and -exact <= column.limits[0] <= column.limits[1] <= exact
        if not small and column.kind != "number":
            return object
    return np.float64


def _polars(table: Any) -> Any:  # noqa: ANN401 - from a pyarrow.Table to polars.DataFrame
    pa = pyarrow()
    for number, field in enumerate(table.schema):
        zone = getattr(field.type, "tz", None)
        if zone and zone[0] in "+-":  # polars knows zones by place only
            table = table.set_column(number, field.name, table[number].cast(pa.timestamp("us", "UTC")))
    return importlib.import_module("polars").from_arrow(table)


def _pandas(pd: Any, column: Any, numbers: Array, missing: Flags | None) -> Any:  # noqa: ANN401 - pandas' array
    raw = column.raw(numbers)
    if column.kind == "category" and column.type is str:
        places = raw if missing is None else np.where(missing, -1, raw)
        return pd.Series(list(column.values)).array.take(places, allow_fill=missing is not None)
    if raw.dtype.kind == "M":
        if missing is not None:
            raw[missing] = np.datetime64("NaT")
        naive = pd.Series(raw)
        return naive.dt.tz_localize("UTC").dt.tz_convert(column.zone) if column.zoned else naive
    values = column.label(raw)
    if missing is None:
        return values
    if values.dtype == np.bool_:
        return pd.arrays.BooleanArray(values, missing)
    if values.dtype == np.int64:
        return pd.arrays.IntegerArray(values, missing)
    values[missing] = np.nan if values.dtype.kind == "f" else None
    return values


def in_text(tables: Iterator[Any], schema: Any) -> Iterator[Any]:  # noqa: ANN401 - a Schema or a UnitCube
    columns = getattr(schema, "columns", {})
    types = {name: column.text_type for name, column in columns.items() if hasattr(column, "text_type")}
    for table in tables:
        kinds = [field.with_type(types.get(field.name, field.type)) for field in table.schema]
        yield table.cast(pyarrow().schema(kinds)) if types else table
