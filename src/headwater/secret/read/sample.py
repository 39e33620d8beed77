"""The first records of a file, and which gaps and values of short lists come later, for a draft of its schema."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.public.categories import Category
from headwater.public.errors import TableError
from headwater.public.tables import pyarrow
from headwater.secret.read.columnar import parquet_file
from headwater.secret.read.fields import DELIMITERS, Fields, Options
from headwater.secret.read.files import Files, StrPath
from headwater.secret.read.lines import MARK, Input, Lines
from headwater.secret.read.text import OPEN_QUOTE, TextFile, header_of

MOST_ROWS = 10_000
MOST_ODD = 0.1
"""Where more of the lines are no records, the file is not what it is taken for."""
MOST_BYTES = 1 << 26
"""How much of a file is looked at for gaps and values of short lists."""
MOST_VALUES = 100
"""Columns with more values than this are looked at for gaps only."""
_HEAD = 1 << 20


@dataclass(frozen=True)
class Sample:
    """The type of a column, in words of any library, and some of its values; None where one is missing."""

    type: str
    values: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class FileSample:
    """Records of a file, by column, and what is wrong with the first line that is none."""

    columns: dict[str, Sample]
    odd: TableError | None = None
    nameless: int = 0
    reading: Mapping[str, Any] = field(default_factory=dict)


def sample_of(path: StrPath, gaps: Sequence[str] = (), **options: Any) -> FileSample:  # noqa: ANN401 - fields of Options
    """The first records of a file, by column."""
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
        return _of_csv(source, read, gaps) if source.format == "csv" else _of_json(source, read, gaps)
    except (pyarrow().ArrowException, UnicodeDecodeError, csv.Error, ValueError) as error:  # messages may show values
        if isinstance(error, TableError):
            raise error.at(file=source.name) from None
    problem = f"a file that cannot be read as {source.format}"
    raise TableError(problem, "check that it is one, or say which format and encoding it has", file=source.name)


def _of_columns(source: Input) -> FileSample:
    gaps = set[str]()
    if source.format == "parquet":
        file = parquet_file(source.path)
        first = next(file.iter_batches(MOST_ROWS), file.schema_arrow.empty_table())
        groups = [file.metadata.row_group(group) for group in range(file.metadata.num_row_groups)]
        parts = [group.column(index) for group in groups for index in range(file.metadata.num_columns)]
        gaps = {part.path_in_schema for part in parts if part.statistics and part.statistics.null_count}
    else:
        first = pyarrow("dataset").dataset(source.path, format="ipc").head(MOST_ROWS)
    pairs = zip(first.schema, first.columns, strict=True)
    return FileSample(
        {one.name: Sample(str(one.type), [*c.to_pylist(), *[None] * (one.name in gaps)]) for one, c in pairs}
    )


def _head(source: Input, encoding: str | None) -> bytes:
    """The first line that holds something."""
    lines = Lines(source, Options(encoding=encoding, block_bytes=1 << 16))
    try:
        while len(lines.data) < _HEAD and b"\n" not in lines.data.removeprefix(MARK).lstrip(b"\r\n"):
            if not lines.fill(0):
                break
    finally:
        lines.raw.close()
    if not lines.data.strip():
        raise TableError("an empty file", "name a file with records")
    return bytes(lines.data)


def _of_csv(source: Input, read: Options, gaps: Sequence[str]) -> FileSample:
    shown: dict[str, Any] = {"encoding": read.encoding} if read.encoding else {}
    if read.encoding is None and _head(source, "latin-1").startswith(("ÿþ".encode(), "þÿ".encode())):
        shown["encoding"] = "utf-16"
    read = replace(read, **shown, bad_rows="null", ignore_extra=True)
    line = _head(source, read.encoding).removeprefix(MARK).lstrip(b"\r\n").partition(b"\n")[0]
    if read.delimiter is None and (mark := _delimiter(line, source.delimiter)) != source.delimiter:
        source, shown["delimiter"] = source._replace(delimiter=mark), mark
    header = header_of(line, source.delimiter, Fields({}))
    if len(header) == 1 and (marks := [mark for mark in DELIMITERS if mark in header[0]]):
        raise TableError(
            f"one column, whose name holds {DELIMITERS[marks[0]]}", "give it as the delimiter (--delimiter)"
        )
    names = [name for name in header if name.strip() and header.count(name) == 1]
    if not names:
        raise TableError("a first line that holds no column names", "begin the file with the column names", line=1)
    fields = Fields({name: Category() for name in names}, ignore_extra=True)
    columns, odd = _columns(source, fields, read, gaps)
    if odd and odd[0].problem == OPEN_QUOTE.problem:  # perhaps fields hold line ends
        with suppress(TableError):
            several = _columns(source, fields, replace(read, multiline=True), gaps)
            if not several[1]:
                columns, odd, shown["multiline"] = *several, True
    if len(odd) > MOST_ODD * (len(odd) + len(columns[names[0]])):  # then the file is something else
        raise odd[0]
    found = {name: Sample("text", values) for name, values in columns.items()}
    return FileSample(found, odd[0] if odd else None, len(header) - len(names), shown)


def _columns(
    source: Input, fields: Fields, read: Options, gaps: Sequence[str]
) -> tuple[dict[str, list[Any]], list[TableError]]:
    """The first values of each column, with what comes later, and what is wrong with lines among the first."""
    pa, pc = pyarrow(), pyarrow("compute")
    first: dict[str, list[Any]] = {name: [] for name in fields.columns}
    later: dict[str, set[Any]] = {name: set() for name in fields.columns}
    odd, records = list[TableError](), 0
    file = TextFile(source, fields, read)
    try:
        while (found := file.ahead(MOST_ROWS, 0)) and file.lines.size < MOST_BYTES:
            part = file.take(found)
            if records < MOST_ROWS:
                odd += [bad.error.at(line=part.line(bad.row)) for bad in part.bad]
                for name, values in first.items():
                    values += [value or None for value in part.table[name].to_pylist()]
            else:
                for name, seen in later.items():
                    column = part.table[name]
                    few = len(seen) <= MOST_VALUES
                    seen |= {None} if column.null_count else set()
                    seen |= set(
                        pc.unique(column if few else column.filter(pc.is_in(column, pa.array(gaps)))).to_pylist()
                    )
            records += part.records
    finally:
        file.close()
    return {name: values + _new(later[name], values, gaps) for name, values in first.items()}, odd


def _new(later: set[Any], values: list[Any], gaps: Sequence[str]) -> list[Any]:
    kept = later if len(later) <= MOST_VALUES else later & {None, *gaps}
    return sorted(kept.difference(values), key=lambda value: (value is None, value))


def _delimiter(line: bytes, usual: str) -> str:
    fields = dict[str, int]()
    for mark in (usual, *DELIMITERS):
        with suppress(csv.Error, StopIteration):
            text = line.decode("utf-8", "replace").rstrip("\r")
            fields[mark] = len(next(csv.reader([text], delimiter=mark, strict=True)))
    return usual if fields.get(usual, 0) > 1 or not fields else max(fields, key=lambda mark: fields[mark])


# ---- JSON


def _of_json(source: Input, read: Options, gaps: Sequence[str]) -> FileSample:
    """Columns of objects inside of objects have dotted names; lists and other objects are empty ones."""
    columns: dict[str, list[Any]] = {}
    later: dict[str, set[Any]] = {}
    for number, line in enumerate(_lines(source, read.encoding)):
        record = _record(line)
        if record is None:
            if number < MOST_ROWS:
                raise TableError(f"a file that cannot be read as {source.format}", "write one JSON object a line")
            continue
        flat = dict(_flat(record))
        if number < MOST_ROWS:
            for name, value in flat.items():
                columns.setdefault(name, [None] * number).append(value)
            for column in columns.values():
                column += [None] * (number + 1 - len(column))
            continue
        for name in flat.keys() - columns.keys() - later.keys():
            if not isinstance(flat[name], list | dict) and (flat[name] is not None or not _holds(name, columns)):
                later[name] = {None}
        for name in (*columns, *(later.keys() - columns.keys())):
            value, seen = flat.get(name), later.setdefault(name, set())
            if not isinstance(value, list | dict) and (len(seen) <= MOST_VALUES or value is None or value in gaps):
                seen.add(value)
    if not columns:
        raise TableError("an empty file", "name a file with records")
    for name in [name for name, column in columns.items() if all(value in (None, {}) for value in column)]:
        if _holds(name, columns):  # an object that is null or empty in some records
            del columns[name]
            later.pop(name, None)
    found = {}
    for name in (*columns, *(later.keys() - columns.keys())):
        values = columns.get(name, [])
        nested = any(isinstance(value, list | dict) for value in values)
        found[name] = Sample(
            "list" if nested else "text", values if nested else values + _new(later.get(name, set()), values, gaps)
        )
    return FileSample(found, reading={"encoding": read.encoding} if read.encoding else {})


def _lines(source: Input, encoding: str | None) -> Iterator[bytes]:
    lines = Lines(source, Options(encoding=encoding))
    try:
        while lines.size < MOST_BYTES and lines.fill(0):
            yield from lines.take(len(lines.ends))[0].removeprefix(MARK).splitlines()
        lines.finish()
        yield from lines.take(len(lines.ends))[0].removeprefix(MARK).splitlines() if lines.size < MOST_BYTES else ()
    finally:
        lines.raw.close()


def _record(line: bytes) -> dict[str, Any] | None:
    record = None
    with suppress(ValueError, RecursionError):
        record = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
    return record if isinstance(record, dict) else None


def _holds(name: str, names: Mapping[str, Any]) -> bool:
    return any(other.startswith(f"{name}.") for other in names)


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
