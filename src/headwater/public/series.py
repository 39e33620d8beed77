"""One column of any library, read as an array.

Text is read as its distinct values and which of them is in each row: whatever has to be understood is understood once.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.arrow import pyarrow
from headwater.public.errors import TableError
from headwater.public.failures import failures
from headwater.public.narrowing import narrowed, refusal
from headwater.public.partition import Flags, Integers
from headwater.public.values import is_missing

if TYPE_CHECKING:
    import narwhals as nw


@dataclass(frozen=True)
class Values:
    """A column as it came: an array of one type, or a list of Python objects."""

    data: NDArray[Any] | list[Any]
    """Numbers, booleans, ``datetime64`` (UTC where `zoned`) or ``timedelta64``; a list if it is anything else."""
    missing: Flags | None = None
    """Which values of an array are missing. A list holds None or NaN there instead."""
    codes: Integers | None = None
    """If given, row ``i`` holds ``data[codes[i]]``. The values of `data` are in the order of their first rows."""
    zoned: bool = False
    """Whether the dates came with a time zone."""

    def row(self, index: int) -> int:
        """The first row that holds value number ``index`` of `data`."""
        return index if self.codes is None else int(np.argmax(self.codes == index))

    def part(self, start: int, end: int) -> Values:
        """Some of the values of `data`, each of them once."""
        missing = None if self.missing is None else _some(self.missing[start:end])
        return Values(self.data[start:end], missing, zoned=self.zoned)

    def items(self) -> list[Any]:
        """The value of each row, None where it is missing."""
        if self.codes is not None:
            return [self.data[code] for code in self.codes.tolist()]
        if self.missing is None:
            return list(self.data)
        return [None if gone else item for item, gone in zip(self.data, self.missing.tolist(), strict=True)]

    def distinct(self) -> Values:
        """An array as the list of its distinct values."""
        data = np.asarray(self.data)
        data = data + 0.0 if data.dtype.kind == "f" else data  # −0.0 equals 0.0, but does not read like it
        here = slice(None) if self.missing is None else ~self.missing
        found, first, inverse = np.unique(data[here], return_index=True, return_inverse=True)
        order = np.argsort(first)
        codes = np.full(len(data), len(found), dtype=np.int64)
        codes[here] = np.argsort(order)[inverse]
        return Values([*found[order].tolist(), None], codes=codes)


def read_values(series: Any) -> Values:  # noqa: ANN401 - a column of any library
    """A column of any library as `Values`.

    >>> read_values(["b", "a", None, "b"])
    Values(data=['b', 'a', None], missing=None, codes=array([0, 1, 2, 0]), zoned=False)
    """
    if isinstance(series, Values):
        return series
    if isinstance(series, np.ndarray):
        if type(series) is np.ndarray or not isinstance(series, np.ma.MaskedArray):  # in this order: a lazy import
            return _array(series)
        gaps = np.ma.getmaskarray(series)
        if series.dtype.kind in "Mm":  # Python has no moments and time spans of nanoseconds: they would be numbers
            return _array(np.where(gaps, np.array("NaT", series.dtype), series.data))
        return _objects([None if gap else value for value, gap in zip(series.data.tolist(), gaps, strict=True)])
    if isinstance(series, list | tuple):
        return _objects(list(series))
    if type(series).__module__.partition(".")[0] == "pyarrow":
        series = series if hasattr(series, "chunks") else pyarrow().chunked_array([series])
        if (plain := str(series.type)) in _PLAIN:  # all that files have: finding out the library takes longer
            return _arrow_text(series) if "string" in plain else _arrow(series, zoned=plain.endswith("tz=UTC]"))
        if plain == "date64[ms]":  # as days: dates of Python do not reach as far, and one beyond would refuse them all
            values = _arrow(series.cast("int64"))
            return Values((np.asarray(values.data) // _DAY_MS).view("M8[D]"), values.missing)
    if hasattr(getattr(series, "dtype", None), "pyarrow_dtype"):  # Arrow's memory in a column of pandas
        return read_values(series.array.__arrow_array__())
    import narwhals as nw  # a file needs none of it, and it takes a while to import

    known = nw.from_native(series, series_only=True, pass_through=True)
    if isinstance(known, nw.Series):
        return _series(known)
    if isinstance(series, Iterable) and not isinstance(series, str | bytes):
        return _objects(list(series))
    raise TableError(
        f"a column must be a list, an array or a series, not {type(series).__name__}", "put its values in a list"
    )


def length(series: Any) -> int:  # noqa: ANN401 - a column of any library
    """How many rows a column has."""
    return len(series if hasattr(series, "__len__") else list(series))


def rows(series: Any, start: int, end: int) -> Any:  # noqa: ANN401 - a column of any library
    """Some rows of a column."""
    if hasattr(series, "slice"):  # of Arrow and Polars
        return series.slice(start, end - start)
    return series.iloc[start:end] if hasattr(series, "iloc") else series[start:end]


class Unreadable:
    """Stands for a value that its library does not hand over."""


def read_column(series: Any, name: str, size: int) -> Values:  # noqa: ANN401 - a column of any library
    """The values of a column that no schema describes, one for each row."""
    try:
        values = read_values(series)
    except TableError as error:
        raise error.at(column=name) from None
    except failures() as error:
        refusal(error)
        items = list[Any]()
        for _, _, lot in narrowed(length(series), lambda start, end: read_values(rows(series, start, end))):
            items += [Unreadable()] if isinstance(lot, TableError) else lot.items()
        values = Values(items)
    found = len(values.data if values.codes is None else values.codes)
    if found != size:
        problem = f"the column has {found} values, but the first has {size}"
        raise TableError(problem, "give every column a value for each row", column=name)
    return values


def _array(array: NDArray[Any]) -> Values:
    if array.ndim != 1:
        raise TableError(f"a column must have one dimension, not {array.ndim}", "give one value for each row")
    match array.dtype.kind:
        case "f":
            numbers = array.astype(np.float64, copy=False)
            return Values(numbers, _some(np.isnan(numbers)))
        case "i" | "u" | "b":
            return Values(array)
        case "M" | "m":
            return Values(array, _some(np.isnat(array)))
        case _:
            return _objects(array.tolist())


def _objects(items: list[Any]) -> Values:
    """Lists of values of exactly one type become arrays. In a mixed list each value is read by itself."""
    types = set(map(type, items))
    if types == {bool}:
        return Values(np.array(items, dtype=np.bool_))
    if str in types and types <= {str, NoneType}:
        index: dict[str | None, int] = {}
        codes = np.fromiter((index.setdefault(item, len(index)) for item in items), np.int64, len(items))
        return Values(list(index), codes=codes)
    try:
        if types == {int}:
            return Values(np.array(items, dtype=np.int64))
        if float in types and types <= {float, NoneType}:
            return _array(np.array(items, dtype=np.float64))
    except OverflowError:  # whole numbers that no machine word holds: one by one, then
        pass
    return Values(items)


def _series(series: nw.Series[Any]) -> Values:
    import narwhals as nw

    dtype, marks = series.dtype, (nw.Boolean, nw.Datetime, nw.Duration)
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return _text(series)
    if dtype == nw.Time:
        return _clock(series)
    if dtype in (nw.Int128, nw.UInt128):  # no machine word
        return _objects(series.to_list())
    if series.implementation.is_pyarrow() and (dtype.is_integer() or dtype.is_float() or dtype in marks):
        return _arrow(series.to_native(), zoned=getattr(dtype, "time_zone", None) is not None)
    if dtype.is_integer() or dtype == nw.Boolean:
        missing = _some(series.is_null().to_numpy())
        whole = series if missing is None else series.fill_null(0 if dtype.is_integer() else False)
        return Values(np.asarray(whole.to_numpy()), missing)
    if dtype.is_float() or dtype in (nw.Datetime, nw.Date, nw.Duration):
        values = _array(series.to_numpy())
        return Values(values.data, values.missing, zoned=getattr(dtype, "time_zone", None) is not None)
    return _objects(series.to_list())


def _text(series: nw.Series[Any]) -> Values:
    native: Any = series.to_native()
    if series.implementation.is_pyarrow():
        return _arrow_text(native)
    if series.implementation.is_pandas():
        return _pandas_text(native)
    if series.implementation.is_polars():
        native = native.cast(importlib.import_module("polars").String)
        distinct = native.unique(maintain_order=True)
        codes = native.replace_strict(distinct, range(len(distinct))).to_numpy()
        return Values(distinct.to_list(), codes=codes.astype(np.int64, copy=False))
    return _objects(series.to_list())


def _pandas_text(native: Any) -> Values:  # noqa: ANN401 - a pandas.Series
    pandas = importlib.import_module("pandas")
    if hasattr(native, "cat"):  # a category may be one that no row has
        codes, used = pandas.factorize(native.cat.codes)
        return Values([None if code < 0 else native.cat.categories[code] for code in used], codes=codes)
    # Python's text is told apart by Python: pandas' own tables may take two texts for one (with NUL or half characters
    # in them). A column of objects is taken for text if its first ones are: beside them 1, 1.0 and True are values too.
    if native.dtype == object or getattr(native.dtype, "storage", "") == "python":
        return _objects([item if type(item) is str or not is_missing(item) else None for item in native.tolist()])
    codes, distinct = native.factorize(use_na_sentinel=False)
    return Values(list(distinct), codes=codes.astype(np.int64, copy=False))


def _arrow_text(native: Any) -> Values:  # noqa: ANN401 - a pyarrow.ChunkedArray
    if hasattr(native.type, "value_type"):
        found = _arrow_dictionary(native)
        return read_values(native.cast(native.type.value_type)) if found is None else found
    if native.num_chunks == 0:
        return Values([], codes=np.empty(0, dtype=np.int64))
    coded = native.dictionary_encode("encode").combine_chunks()  # chunks share one dictionary
    try:
        texts = coded.dictionary.to_pylist()
    except UnicodeDecodeError:  # which one it is: bytes that are no text stay bytes
        wide = str(coded.dictionary.type).startswith("large")
        texts = [_decoded(item) for item in coded.dictionary.cast("large_binary" if wide else "binary").to_pylist()]
    return Values(texts, codes=_buffers([coded.indices]).astype(np.int64))


def _arrow_dictionary(native: Any) -> Values | None:  # noqa: ANN401 - a pyarrow.ChunkedArray
    """Texts that are numbered already, without a look at each; None unless all is as most libraries write it.

    A dictionary may hold values that no row has, or one twice, and numbers may be none of its own.
    """
    if native.num_chunks != 1 or native.null_count or not 0 < len(native.chunk(0).dictionary) <= len(native):
        return None
    coded = native.chunk(0)
    size, given = len(coded.dictionary), _buffers([coded.indices])
    if int(given.min()) < 0 or int(given.max()) >= size:
        return None
    try:
        texts = coded.dictionary.to_pylist()
    except UnicodeDecodeError:
        return None
    if len(set(texts)) < size or None in texts:
        return None
    first = np.full(size, len(given))
    first[given[::-1]] = np.arange(len(given) - 1, -1, -1)  # of several, the last one stays
    order = np.argsort(first)[: np.count_nonzero(first < len(given))]
    numbers = np.empty(size, dtype=np.int64)
    numbers[order] = np.arange(len(order))
    return Values([texts[number] for number in order.tolist()], codes=numbers[given])


def _decoded(item: bytes | None) -> str | bytes | None:
    try:
        return None if item is None else item.decode()
    except UnicodeDecodeError:
        return item


def _clock(series: nw.Series[Any]) -> Values:
    """Times of day as time spans since midnight."""
    native: Any = series.to_native()
    if series.implementation.is_polars():
        unit, native = "ns", native.to_physical()
    elif series.implementation.is_pyarrow():
        unit = native.type.unit
        native = native.cast("int32" if unit in ("s", "ms") else "int64").cast("int64")
    else:
        return _objects(series.to_list())
    if series.implementation.is_pyarrow():
        values = _arrow(native)
        return Values(np.asarray(values.data).view(f"m8[{unit}]"), values.missing)
    missing = _some(series.is_null().to_numpy())
    whole = np.asarray((native if missing is None else native.fill_null(0)).to_numpy())
    return Values(whole.astype(np.int64).view(f"m8[{unit}]"), missing)


_DAY_MS = 86_400_000
_NUMBERED = "dictionary<values=string, indices=int32, ordered=0>"
_PLAIN = ("string", _NUMBERED, "double", "int64", "bool", "timestamp[us]", "timestamp[us, tz=UTC]", "time64[us]")


def _arrow(native: Any, *, zoned: bool = False) -> Values:  # noqa: ANN401 - a pyarrow.ChunkedArray
    """Numbers, truth values and moments of Arrow, without its own way to NumPy: that one would import pandas."""
    kind, name = native.type, str(native.type)
    missing = None
    if native.null_count:
        missing = _buffers(native.is_null().cast("uint8").chunks).view(np.bool_)
        native = native.cast("int64") if hasattr(kind, "unit") else native
        native = native.fill_null(False if name == "bool" else 0)
    if name == "bool":
        return Values(_buffers(native.cast("uint8").chunks).view(np.bool_), missing)
    if hasattr(kind, "unit"):
        mark = "M8" if name.startswith("timestamp") else "m8"
        moments = _buffers(native.cast("int64").chunks).view(f"{mark}[{kind.unit}]")
        return Values(moments, missing, zoned=zoned)
    numbers = _buffers(native.chunks)
    if numbers.dtype.kind != "f":
        return Values(numbers, missing)
    numbers = numbers.astype(np.float64, copy=False)
    return Values(numbers, _some(np.isnan(numbers) if missing is None else np.isnan(numbers) | missing))


def _buffers(chunks: list[Any]) -> NDArray[Any]:
    """Arrow's memory as an array, without a copy if it is one piece."""
    parts = [np.from_dlpack(chunk) for chunk in chunks if len(chunk)]
    if not parts:
        return np.empty(0, dtype=np.int64)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _some(missing: NDArray[Any]) -> Flags | None:
    return missing.astype(np.bool_) if missing.any() else None
