"""Tables of any library: what kind they are, and their columns as arrays.

Data frames and files are read through Arrow, which is imported where the first of them comes; arrays, dictionaries of
columns and lists of records need no other library.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from types import ModuleType, NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.errors import PERSON_MISSING, TableError, closest, failures, listed, quoted, refusal
from headwater.public.partition import Flags, Integers

Array = NDArray[Any]

TABLE_KINDS = ("pandas", "polars", "arrow", "arrow-batch", "columns", "records", "numpy")
"""Kinds of tables: two kinds of data frames, two of Arrow, dictionaries of columns, lists of records, 2-D arrays."""
NO_RECORD = TableError(
    "a list of something else than records", "give a list of dictionaries, or a 2-D array with the columns in order"
)
_FRAMES = {"pandas": ("pandas", "DataFrame"), "polars": ("polars", "DataFrame"), "arrow": ("pyarrow", "Table")}
_NEVER_MISSING = frozenset({str, bool, int, datetime, date, time, list, tuple, dict})  # exactly: NaT is a datetime
_DAY_MS = 86_400_000


def pyarrow(part: str = "") -> ModuleType:
    """The module ``pyarrow`` or a part of it, such as ``pyarrow("csv")``."""
    try:
        return importlib.import_module(f"pyarrow.{part}" if part else "pyarrow")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "data frames and files need pyarrow, which is not installed: pip install 'headwater[cli]'", name="pyarrow"
        ) from error


# ---- columns in


@dataclass(frozen=True)
class Values:
    """A column as it came: an array of one type, text of Arrow, or a list of Python objects."""

    data: Any
    missing: Flags | None = None
    """Which values of an array are missing. A list holds None or NaN there instead, and text null."""
    codes: Integers | None = None
    """If given, row ``i`` holds ``data[codes[i]]``; −1 is a missing value."""
    zoned: bool = False
    """Whether moments came with a time zone; they are in UTC then."""

    def distinct(self) -> tuple[list[Any], Integers]:
        """Values as Python's objects, and which of them each row holds (−1: none)."""
        if isinstance(self.data, list):
            return self.data, np.arange(len(self.data)) if self.codes is None else self.codes
        if not isinstance(self.data, np.ndarray):
            few, codes = coded(self.data)
            return texts_of(few), codes if self.codes is None else np.append(codes, -1)[self.codes]
        there = np.ones(len(self.data), dtype=np.bool_) if self.missing is None else ~self.missing
        data = self.data + 0.0 if self.data.dtype.kind == "f" else self.data  # −0.0 equals 0.0, but reads otherwise
        found, inverse = np.unique(data[there], return_inverse=True)
        codes = np.full(len(data), -1, dtype=np.int64)
        codes[there] = inverse
        return list(found) if found.dtype.kind in "mM" else found.tolist(), codes


def values_of(series: Any) -> Values:  # noqa: ANN401 - a column of any library
    """A column of any library as `Values`.

    >>> values_of(["b", "a", None, "b"])
    Values(data=['b', 'a', None], missing=None, codes=array([0, 1, 2, 0]), zoned=False)
    """
    if isinstance(series, Values):
        return series
    if isinstance(series, np.ndarray):
        return _of_numpy(series)
    if isinstance(series, list | tuple):
        return _of_list(list(series))
    library = type(series).__module__.partition(".")[0]
    if library == "pandas" and hasattr(series, "dtype"):
        return _of_pandas(series)
    if library == "pyarrow" and hasattr(series, "type"):
        return _of_arrow(series)
    if hasattr(series, "__arrow_c_stream__"):
        return _of_stream(series)
    if isinstance(series, Iterable) and not isinstance(series, str | bytes):
        return _of_list(list(series))
    raise TableError(
        f"a column must be a list, an array or a series, not {type(series).__name__}", "put its values in a list"
    )


def rows_of(series: Any, start: int, end: int) -> Any:  # noqa: ANN401 - a column of any library
    """Some rows of a column."""
    if hasattr(series, "slice"):  # of Arrow and Polars
        return series.slice(start, end - start)
    return series.iloc[start:end] if hasattr(series, "iloc") else series[start:end]


def halves_of(size: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The rows of both halves of a column."""
    return (0, size // 2), (size // 2, size)


class Unreadable:
    """Stands for a value that its library does not hand over."""


def objects_of(series: Any, name: str, size: int) -> Values:  # noqa: ANN401 - a column of any library
    """A column that no schema describes: its values as Python's objects, and which of them is in each row."""
    try:
        few, codes = values_of(series).distinct()
    except TableError as error:
        raise error.at(column=name) from None
    except failures() as error:  # of the library, or of an object
        refusal(error)
        if size == 1:
            return Values([Unreadable()], codes=np.zeros(1, dtype=np.int64))
        one, other = (objects_of(rows_of(series, *lot), name, lot[1] - lot[0]) for lot in halves_of(size))
        return Values(one.data + other.data, codes=np.append(one.distinct()[1], other.distinct()[1] + len(one.data)))
    if len(codes) != size:
        problem = f"the column has {len(codes)} values, but the first has {size}"
        raise TableError(problem, "give every column a value for each row", column=name)
    return Values([*few, Unreadable(), None], codes=np.where(codes < 0, codes + len(few) + 2, codes))


def is_missing(value: object) -> bool:
    """Whether an object stands for no value: None, NaN, NaT and their like."""
    if value is None:
        return True
    if type(value) in _NEVER_MISSING:
        return False
    if isinstance(value, Decimal):
        return value.is_nan()  # a signalling NaN cannot even be compared
    if type(value).__name__ in ("NAType", "NaTType"):
        return True
    try:
        return bool(value != value)  # only NaN is not itself
    except failures():  # something that cannot be compared, whatever it raises, is something
        return False


def _of_numpy(array: Array) -> Values:
    if array.ndim != 1:
        raise TableError(f"a column must have one dimension, not {array.ndim}", "give one value for each row")
    gaps = np.ma.getmaskarray(array) if isinstance(array, np.ma.MaskedArray) else None
    data, kind = np.asarray(array), array.dtype.kind
    if kind == "f":
        data = data.astype(np.float64, copy=False)
        gone = np.isnan(data)
    elif kind in "Mm":
        gone = np.isnat(data)
    elif kind in "iub":
        return Values(data, gaps)
    else:
        items = data.tolist()
        return _of_list(items if gaps is None else [None if gap else v for v, gap in zip(items, gaps, strict=True)])
    return Values(data, gone if gaps is None else gone | gaps)


def _of_list(items: list[Any]) -> Values:
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
            return _of_numpy(np.array(items, dtype=np.float64))
    except OverflowError:  # whole numbers that no machine word holds: one by one, then
        pass
    return Values(items)


def _of_pandas(series: Any) -> Values:  # noqa: ANN401 - a pandas.Series
    """Text that Python holds stays Python's: pandas' own tables may take two texts for one (with NUL in them)."""
    series = series if hasattr(series, "array") else importlib.import_module("pandas").Series(series)
    kind = series.dtype
    if isinstance(kind, np.dtype):
        return _of_numpy(series.to_numpy())
    if hasattr(series, "cat"):
        return Values(list(series.cat.categories), codes=series.cat.codes.to_numpy().astype(np.int64))
    if getattr(kind, "storage", "") == "python" or not hasattr(series.array, "__arrow_array__"):
        zone = getattr(kind, "tz", None)
        if zone is None:
            return _of_list([item if type(item) is str or not is_missing(item) else None for item in series.tolist()])
        found = _of_numpy(series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
        return Values(found.data, found.missing, zoned=True)
    return _of_arrow(pyarrow().array(series.array))


def _of_stream(series: Any) -> Values:  # noqa: ANN401 - of any library that gives Arrow
    """Of Polars, under no name: one with NUL in it would end the process, as would one inside of a value."""
    pa = pyarrow()
    if not hasattr(series, "alias"):
        return _of_arrow(pa.chunked_array(series))
    if series.dtype.is_nested() or str(series.dtype) == "Object":
        return _of_list(series.to_list())
    try:
        return _of_arrow(pa.chunked_array(series.alias("")))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # such as whole numbers of 128 bits
        return _of_list(series.to_list())


def _of_arrow(column: Any) -> Values:  # noqa: ANN401 - an array of pyarrow, perhaps in chunks
    pa, types = pyarrow(), pyarrow("types")
    if hasattr(column, "chunks"):
        parts = column.unify_dictionaries().chunks if types.is_dictionary(column.type) else column.chunks
        column = parts[0] if len(parts) == 1 else pa.concat_arrays(parts) if parts else pa.array([], column.type)
    column = column.storage if isinstance(column, pa.ExtensionArray) else column
    kind = column.type
    if types.is_string(kind) or types.is_large_string(kind):
        return Values(column)
    if types.is_string_view(kind):
        return Values(column.cast(pa.binary()).view(pa.string()))
    if types.is_dictionary(kind):
        codes, gone = from_arrow(column.indices.cast(pa.int64(), safe=False))
        codes = codes if gone is None else np.where(gone, -1, codes)
        if ((codes < -1) | (codes >= len(column.dictionary)) | ((codes < 0) & (gone is None or ~gone))).any():
            raise ValueError("a place that the dictionary does not have")
        few = _of_arrow(column.dictionary)
        codes = codes if few.codes is None else np.append(few.codes, -1)[codes]
        return Values(few.data, few.missing, codes, few.zoned)
    if types.is_date64(kind):  # as days: dates of Python do not reach as far, and one beyond would refuse them all
        days, gone = from_arrow(column.cast(pa.int64()))
        return Values((days // _DAY_MS).view("M8[D]"), gone)
    if types.is_date32(kind):
        days, gone = from_arrow(column.cast(pa.int32()))
        return Values(days.astype(np.int64).view("M8[D]"), gone)
    if types.is_timestamp(kind) or types.is_time(kind) or types.is_duration(kind):
        counts, gone = from_arrow(column.cast(pa.int32()) if types.is_time32(kind) else column.cast(pa.int64()))
        mark = "M8" if types.is_timestamp(kind) else "m8"
        moments = counts.astype(np.int64, copy=False).view(f"{mark}[{kind.unit}]")
        return Values(moments, gone, zoned=getattr(kind, "tz", None) is not None)
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        return _of_list(column.to_pylist())
    numbers, gone = from_arrow(column)
    if numbers.dtype.kind != "f":
        return Values(numbers, gone)
    found = _of_numpy(numbers)
    return found if gone is None else Values(found.data, gone if found.missing is None else found.missing | gone)


def from_arrow(column: Any) -> tuple[Array, Flags | None]:  # noqa: ANN401 - an array of pyarrow
    """Arrow's numbers and truth values as NumPy's, and which are missing; Arrow's own way there imports pandas."""
    gone = None
    if column.null_count:
        gone = np.from_dlpack(column.is_null().cast("uint8")).view(np.bool_)
        pa = pyarrow()  # which imports pandas for a 0 of Python, too
        column = column.fill_null(pa.Array.from_buffers(column.type, 1, [None, pa.py_buffer(bytes(16))])[0])
    if pyarrow("types").is_boolean(column.type):
        return np.from_dlpack(column.cast("uint8")).view(np.bool_), gone
    return np.from_dlpack(column), gone


def to_arrow(raw: Array, missing: Flags | None) -> Any:  # noqa: ANN401 - an array of pyarrow
    """NumPy's memory as Arrow's, without Arrow's own way from NumPy: that one would import pandas."""
    pa = pyarrow()
    bits = raw.dtype.kind == "b"
    there = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    data = np.packbits(raw, bitorder="little") if bits else np.ascontiguousarray(raw)
    return pa.Array.from_buffers(
        pa.bool_() if bits else pa.from_numpy_dtype(raw.dtype), len(raw), [there, pa.py_buffer(data)]
    )


def whole(number: int) -> Any:  # noqa: ANN401 - a scalar of pyarrow
    return to_arrow(np.array([number], dtype=np.int64), None)[0]


def kept(values: Any, where: Any) -> Any:  # noqa: ANN401 - arrays of pyarrow
    """Values where a condition holds, null elsewhere. Arrow asks for pandas where it is given None."""
    nothing = pyarrow().nulls(1, values.type)[0]
    return pyarrow("compute").if_else(where, values, nothing)


def without(values: Any, where: Any) -> Any:  # noqa: ANN401 - arrays of pyarrow
    """Values where a condition does not hold, null elsewhere."""
    return pyarrow("compute").if_else(where, pyarrow().nulls(1, values.type)[0], values)


def texts_to_arrow(texts: Sequence[str]) -> Any:  # noqa: ANN401 - an array of pyarrow
    pa, encoded = pyarrow(), [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(encoded), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))])


def coded(text: Any) -> tuple[Any, Integers]:  # noqa: ANN401 - arrays of pyarrow
    """Texts that are different, and which of them each row has; −1 if none."""
    found = text.dictionary_encode()
    codes, gone = from_arrow(found.indices)
    return found.dictionary, codes if gone is None else np.where(gone, -1, codes)


def texts_of(text: Any) -> list[Any]:  # noqa: ANN401 - an array of pyarrow
    """Text as Python's; bytes that are no text stay bytes."""
    try:
        found: list[Any] = text.to_pylist()
    except UnicodeDecodeError:  # which one it is
        wide = pyarrow("types").is_large_string(text.type)
        found = [_decoded(item) for item in text.cast("large_binary" if wide else "binary").to_pylist()]
    return found


def _decoded(item: bytes | None) -> str | bytes | None:
    try:
        return None if item is None else item.decode()
    except UnicodeDecodeError:
        return item


# ---- tables in


def kind_of(table: object) -> str:
    """The kind of a table, one of `TABLE_KINDS`. One record by itself counts as a list of records.

    >>> kind_of({"age": [31, 45]}), kind_of({"age": 31}), kind_of([{"age": 31}])
    ('columns', 'records', 'records')
    """
    if isinstance(table, Mapping):
        return "columns" if not table or any(map(_is_column, table.values())) else "records"
    if isinstance(table, np.ndarray):
        return "numpy"
    if isinstance(table, list | tuple):
        return "records"  # whatever is in it: one that is no record does not change what the others are
    for kind, (library, name) in _FRAMES.items():
        if library in sys.modules and isinstance(table, getattr(sys.modules[library], name, ())):
            return kind
    if type(table).__name__ == "RecordBatch":
        return "arrow-batch"
    if hasattr(table, "collect"):
        raise TableError(f"a plan of a table ({type(table).__name__}), not a table", "collect it first")
    if hasattr(table, "__arrow_c_stream__"):
        return "arrow"
    raise TableError(
        f"a table cannot be of type {type(table).__name__}",
        "give a data frame, an Arrow table, a dictionary of columns, a list of records or a 2-D array",
    )


def frame_of(table: Any) -> Any:  # noqa: ANN401 - of any library
    """A table of a library that is none of those by name as one of Arrow; others as they are."""
    return pyarrow().table(table) if kind_of(table) == "arrow" and not hasattr(table, "column") else table


def columns_of(
    table: Any,  # noqa: ANN401 - of any library
    names: Sequence[str],
    person: str | None = None,
    *,
    ignore_extra: bool = False,
) -> tuple[dict[str, Any], int]:
    """The columns of a table by name, and how many rows it has; exactly these names in any order, or an error."""
    kind = kind_of(table)
    if kind == "numpy":
        last = "" if person is None else f", and last the one that names the person ({quoted(person)})"
        if table.ndim != 2 or table.shape[1] != len(names):
            raise TableError(
                f"an array of shape {table.shape}, where (n, {len(names)}) was expected",
                f"give a 2-D array with one column for each column of the schema, in order{last}",
            )
        return {name: table[:, axis] for axis, name in enumerate(names)}, len(table)
    if kind == "records":
        found, wrong = records_of(table, names, person, ignore_extra=ignore_extra)
        for row in sorted(wrong)[:1]:
            raise wrong[row]
        return {name: [record[name] for record in found] for name in names}, len(found)
    if kind == "columns":
        check_names(list(table), names, person, ignore_extra=ignore_extra)
        for name in names:
            if not _is_column(table[name]):
                raise TableError("one value where other columns have many", "give a list of values", column=name)
        return {name: table[name] for name in names}, len(table[names[0]])
    table = frame_of(table)
    there = list(table.columns) if kind in ("pandas", "polars") else table.schema.names
    check_names(there, names, person, ignore_extra=ignore_extra)
    return {name: table[name] for name in names}, len(table)


def records_of(
    records: Any,  # noqa: ANN401 - one record or many
    names: Sequence[str],
    person: str | None = None,
    *,
    ignore_extra: bool = False,
) -> tuple[list[Any], dict[int, TableError]]:
    """Records with the right keys, in any order."""
    wanted, found, wrong, nothing = set(names), list[Any](), dict[int, TableError](), dict.fromkeys(names)
    for row, given in enumerate([records] if isinstance(records, Mapping) else records):
        record = given if type(given) is dict else record_of(given)
        try:
            if record is None:
                raise NO_RECORD
            if record.keys() != wanted:
                check_names(list(record), names, person, ignore_extra=ignore_extra)
            found.append(record)
        except failures() as error:  # ours, or of a key
            named = record is not None and names_person(record, person)
            found.append({**nothing, person: record[person]} if record is not None and named else nothing)
            wrong[row] = refusal(error, NO_RECORD).at(row=row)
    return found, wrong


def names_person(record: object, person: str | None) -> bool:
    """Whether a record, of whatever columns, has the one that names the person; None is a key like any other."""
    try:
        return person is not None and isinstance(record, Mapping) and person in record
    except failures():  # of a key
        return False


def record_of(record: object) -> dict[Any, Any] | None:
    """A record as a dictionary, None if it is none or does not say what is in it."""
    try:
        return dict(record) if isinstance(record, Mapping) else None
    except failures() as error:  # of the record
        refusal(error)
        return None


def check_names(
    found: Sequence[Any], names: Sequence[str], person: str | None = None, *, ignore_extra: bool = False
) -> None:
    """Raise an error unless the names found are the names wanted, in any order, or with ``ignore_extra`` hold them."""
    times = Counter(found)
    absent = [name for name in names if name not in times]
    if absent:
        close = closest(absent, names, [str(name) for name in times])
        if absent == [person] and not close:
            raise TableError("the column that names the person is missing", PERSON_MISSING, column=person)
        also = f" (the table has {listed(close)})" if close else ""
        others = f", as are {len(absent) - 1} others" if len(absent) > 1 else ""
        remedy = "give every column of the schema, under its name"
        raise TableError(f"the column is missing{others}{also}", remedy, column=absent[0])
    twice = [name for name in names if times[name] > 1]
    if twice:
        raise TableError("there are two columns of this name", "rename or leave out one of them", column=twice[0])
    extra = [str(name) for name in times if name not in names]
    if extra and not ignore_extra:
        raise TableError(
            f"the schema has no column {listed(extra)}",
            "declare it in the schema, or leave it out: ignore_extra = true at the top of the schema file, in Python "
            "schema.with_reading(ignore_extra=True); if it says who a record belongs to, name it by person= instead",
            column=extra[0],
        )


def _is_column(value: object) -> bool:
    """Whether an entry of a dictionary holds many values, or is one."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return hasattr(value, "__len__") and not isinstance(value, str | bytes | bytearray | Mapping)
