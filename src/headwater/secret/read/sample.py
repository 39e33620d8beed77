"""What a draft is made from: the first values of each column, and which texts for missing ones come later."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.public.categories import Category
from headwater.public.errors import TableError
from headwater.public.tables import columns_of, kind_of, pyarrow
from headwater.public.writing import NULLS
from headwater.secret.read.columnar import parquet_file
from headwater.secret.read.fields import DELIMITERS, Fields, Options, divided
from headwater.secret.read.files import Files, StrPath
from headwater.secret.read.lines import MARK, Input, Lines
from headwater.secret.read.text import OPEN_QUOTE, TextFile, header_of

MOST_ROWS = 10_000
MOST_ODD = 0.1
"""Where more of the lines are no records, the file is not what it is taken for."""
MOST_BYTES = 1 << 26
"""How much of a file is looked at for gaps."""
_HEAD = 1 << 20


@dataclass(frozen=True)
class Sample:
    """The type of a column, in words of any library, and some of its values; None where one is missing."""

    type: str
    values: list[Any]


@dataclass(frozen=True)
class TableSample:
    """Values of a table, by column, and what is wrong with the first line of a file that is no record."""

    columns: dict[str, Sample]
    odd: TableError | None = None
    nameless: int = 0
    reading: Mapping[str, Any] = field(default_factory=dict)


def sample_of_table(table: Any) -> TableSample:  # noqa: ANN401 - of any library
    kind = kind_of(table)
    if kind == "numpy":
        raise TableError("an array, which has no column names", "give a dictionary of columns or a data frame")
    if kind == "records":
        records = [table] if isinstance(table, Mapping) else table
        for row, record in enumerate(records):
            if not isinstance(record, Mapping):
                raise TableError("a list of something else than records", "give a list of dictionaries", row=row)
        return TableSample(_of_records(records))
    names = list(table if kind == "columns" else table.schema.names if kind.startswith("arrow") else table.columns)
    columns, _ = columns_of(table, names) if names else ({}, 0)
    return TableSample({str(name): _sample(column) for name, column in columns.items()})


def _sample(column: Any) -> Sample:  # noqa: ANN401 - of any library
    first = column[:MOST_ROWS]
    values = list(getattr(first, "to_pylist", getattr(first, "tolist", lambda: list(first)))())
    type_ = getattr(column, "dtype", getattr(column, "type", None))
    there = {type(value) for value in values if value is not None}
    if type_ is None:
        type_ = next(iter(there)).__name__ if len(there) == 1 else "list" if there & {list, dict} else "text"
    return Sample("text" if there == {str} else str(type_), values)


def _of_records(records: Iterable[Mapping[str, Any]]) -> dict[str, Sample]:
    columns: dict[str, list[Any]] = {}
    late = dict[tuple[str, str | None], None]()
    for number, record in enumerate(records):
        for name in {**columns, **record}:
            value, values = record.get(name), columns.setdefault(name, [None] if number else [])
            if len(values) < MOST_ROWS:
                values.append(value)
            elif value is None or (isinstance(value, str) and value in NULLS):
                late[name, value] = None
    for name, value in late:
        columns[name].insert(0, value)
    return {name: _sample(values) for name, values in columns.items()}


def sample_of(path: StrPath, **options: Any) -> TableSample:  # noqa: ANN401 - fields of Options
    """What the first file of a path holds."""
    read = Options(**options)
    found = Files(path, read).look()
    if not found:
        raise TableError("no files in this folder", "name a folder with files", file=str(path))
    source = found[0]
    if source.path is None:
        raise ValueError("standard input cannot be drafted from: name a file")
    try:
        if source.format in ("parquet", "arrow"):
            return _of_columns(source)
        return _of_csv(source, read) if source.format == "csv" else _of_json(source, read)
    except (pyarrow().ArrowException, UnicodeDecodeError, csv.Error, ValueError) as error:  # messages may show values
        if isinstance(error, TableError):
            raise error.at(file=source.name) from None
    problem = f"a file that cannot be read as {source.format}"
    raise TableError(problem, "check that it is one, or say which format and encoding it has", file=source.name)


def _of_columns(source: Input) -> TableSample:
    if source.format == "arrow":
        return sample_of_table(pyarrow("dataset").dataset(source.path, format="ipc").head(MOST_ROWS))
    file = parquet_file(source.path)
    found = sample_of_table(next(file.iter_batches(MOST_ROWS), file.schema_arrow.empty_table()))
    for group in map(file.metadata.row_group, range(file.metadata.num_row_groups)):
        for part in map(group.column, range(group.num_columns)):
            if part.path_in_schema in found.columns and part.statistics and part.statistics.null_count:
                found.columns[part.path_in_schema].values.append(None)
    return found


# ---- CSV


def _of_csv(source: Input, read: Options) -> TableSample:
    shown: dict[str, Any] = {"encoding": read.encoding} if read.encoding else {}
    if read.encoding is None and _head(source, "latin-1").startswith(("ÿþ".encode(), "þÿ".encode())):
        shown["encoding"] = "utf-16"
    read = replace(read, **shown, bad_rows="null", ignore_extra=True)
    line = _head(source, read.encoding).removeprefix(MARK).lstrip(b"\r\n").partition(b"\n")[0]
    ways = divided(line.decode("utf-8", "replace").rstrip("\r"))
    if read.delimiter is None and len(ways.get(source.delimiter, ())) < 2:
        mark = max(ways, key=lambda mark: (len(ways[mark]), mark == source.delimiter), default=source.delimiter)
        shown |= {"delimiter": mark} if mark != source.delimiter else {}
        source = source._replace(delimiter=mark)
    header = header_of(line, source.delimiter, Fields({}))
    if len(header) == 1 and (marks := [mark for mark in DELIMITERS if mark in header[0]]):
        problem = f"one column, whose name holds {DELIMITERS[marks[0]]}"
        raise TableError(problem, "give it as the delimiter (--delimiter)")
    names = [name for name in header if name.strip() and header.count(name) == 1]
    if not names:
        raise TableError("a first line that holds no column names", "begin the file with the column names", line=1)
    fields = Fields({name: Category() for name in names}, ignore_extra=True)
    columns, odd = _columns(source, fields, read)
    if odd and odd[0].problem == OPEN_QUOTE.problem:  # perhaps fields hold line ends
        with suppress(TableError):
            several = _columns(source, fields, replace(read, multiline=True))
            if not several[1]:
                columns, odd, shown["multiline"] = *several, True
    if len(odd) > MOST_ODD * (len(odd) + len(columns[names[0]])):  # then the file is something else
        raise odd[0]
    found = {name: Sample("text", values) for name, values in columns.items()}
    return TableSample(found, odd[0] if odd else None, len(header) - len(names), shown)


def _head(source: Input, encoding: str | None) -> bytes:
    """The first line that holds something."""
    lines = Lines(source, Options(encoding=encoding, block_bytes=1 << 16))
    with closing(lines.raw):
        while len(lines.data) < _HEAD and b"\n" not in lines.data.removeprefix(MARK).lstrip(b"\r\n"):
            if not lines.fill(0):
                break
    if not lines.data.strip():
        raise TableError("an empty file", "name a file with records")
    return bytes(lines.data)


def _columns(source: Input, fields: Fields, read: Options) -> tuple[dict[str, list[Any]], list[TableError]]:
    """The first values of each column, with gaps that come later, and what is wrong with lines among the first."""
    pa, pc = pyarrow(), pyarrow("compute")
    columns: dict[str, list[Any]] = {name: [] for name in fields.columns}
    gaps, odd, first = pa.array([*NULLS, None]), list[TableError](), True
    with closing(TextFile(source, fields, read)) as file:
        while (found := file.ahead(MOST_ROWS, 0)) and file.lines.size < MOST_BYTES:
            part = file.take(found)
            if first:
                odd = [bad.error.at(line=part.line(bad.row)) for bad in part.bad]
            for name, values in columns.items():
                column = part.table[name]
                values += (column if first else pc.unique(column.filter(pc.is_in(column, gaps)))).to_pylist()
            first = False
    return columns, odd


# ---- JSON


def _of_json(source: Input, read: Options) -> TableSample:
    found = _of_records(_json_records(source, read.encoding))
    if not found:
        raise TableError("an empty file", "name a file with records")
    for name in [name for name, sample in found.items() if all(value in (None, {}) for value in sample.values)]:
        if any(other.startswith(f"{name}.") for other in found):  # an object that is null or empty in some records
            del found[name]
    return TableSample(found, reading={"encoding": read.encoding} if read.encoding else {})


def _json_records(source: Input, encoding: str | None) -> Iterator[dict[str, Any]]:
    """Names of what is inside of objects are dotted; lists and other objects are empty ones."""
    lines, more, number = Lines(source, Options(encoding=encoding)), True, 0
    with closing(lines.raw):
        while more and lines.size < MOST_BYTES:
            more = lines.fill(0)
            if not more:
                lines.finish()
            for line in lines.take(len(lines.ends))[0].removeprefix(MARK).splitlines():
                record, number = None, number + 1
                with suppress(ValueError, RecursionError):
                    record = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
                if isinstance(record, dict):
                    yield dict(_flat(record))
                elif number <= MOST_ROWS:
                    raise TableError(f"a file that cannot be read as {source.format}", "write one JSON object a line")


def _flat(record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    parts = [("", record)]
    for prefix, inner in parts:  # which grows
        for key, value in inner.items():
            if isinstance(value, dict) and value and prefix.count(".") < 8:
                parts.append((f"{prefix}{key}.", value))
            elif isinstance(value, list | dict):
                yield prefix + key, [] if value else {}
            else:
                yield prefix + key, str(value).lower() if isinstance(value, bool) else value
