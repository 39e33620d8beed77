"""The first records of a file, for a draft of its schema."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from headwater.table.arrow import pyarrow
from headwater.table.errors import TableError
from headwater.table.readers.columnar import parquet_file
from headwater.table.readers.csv_text import NOT_UTF8
from headwater.table.readers.headers import DELIMITERS, divided_otherwise
from headwater.table.readers.options import Options
from headwater.table.readers.paths import Input, Inputs, StrPath
from headwater.table.readers.stream import open_stream

MOST_ROWS = 10_000
MOST_ODD = 0.1
"""Where more of the lines are no records, the file is not what it is taken for."""
_HEAD = 1 << 20  # how much text is looked at
_MARK = "\ufeff"


@dataclass(frozen=True)
class Sample:
    """The type of a column, in words of any library, and some of its values; None where one is missing."""

    type: str
    values: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class FileSample:
    """The first records of a file, by column, and what is wrong with the first line that is none."""

    columns: dict[str, Sample]
    odd: TableError | None = None


def sample_of(path: StrPath, **options: Any) -> FileSample:  # noqa: ANN401 - fields of Options
    """The first records of a file, by column. Text files have no types: their values are texts.

    Parameters
    ----------
    path
        A file; of a folder, its first file.
    options
        The fields of `Options`: ``format``, ``delimiter``, ``encoding``.
    """
    read = Options(**options)
    inputs = Inputs(path, read)
    inputs.look_first()
    source = inputs.found[0]
    if source.path is None:
        raise ValueError("standard input cannot be drafted from: name a file")
    pa = pyarrow()
    try:
        if source.format == "parquet":
            file = parquet_file(source.path)
            found = next(file.iter_batches(MOST_ROWS), file.schema_arrow.empty_table())
        elif source.format == "arrow":
            found = pyarrow("dataset").dataset(source.path, format="ipc").head(MOST_ROWS)
        else:
            text = _head(source, read.encoding)
            return _of_csv(text, source) if source.format == "csv" else FileSample(_of_json(text, source))
        named = zip(found.schema, found.columns, strict=True)
        return FileSample({one.name: Sample(str(one.type), column.to_pylist()) for one, column in named})
    except (pa.ArrowException, UnicodeDecodeError, csv.Error, ValueError) as error:  # messages may show values
        if isinstance(error, TableError):
            raise error.at(file=source.name) from None
    problem = f"a file that cannot be read as {source.format}"
    raise TableError(problem, "check that it is one, or say which format and encoding it has", file=source.name)


def _head(source: Input, encoding: str | None) -> str:
    """Whole lines from the start of a file."""
    stream, head = open_stream(source, encoding), bytearray()
    try:
        with memoryview(bytearray(_HEAD)) as view:
            while len(head) < _HEAD and (found := stream.read_into(view)):
                head += view[:found]
    finally:
        stream.close()
    if not head.strip():
        raise TableError("an empty file", "name a file with records")
    if encoding is None and head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise TableError("text in UTF-16", "give encoding utf-16 (--encoding), or save it as UTF-8")
    if len(head) >= _HEAD:
        head = head[: head.rfind(b"\n") + 1] or head
    with suppress(UnicodeDecodeError):  # whose message holds the text
        return head.decode().removeprefix(_MARK)
    raise NOT_UTF8.at()  # a copy: what is raised keeps the frames that it went through


def _of_csv(text: str, source: Input) -> FileSample:
    text = text.lstrip("\r\n")
    rows = csv.reader(io.StringIO(text, newline="\n"), delimiter=source.delimiter, strict=True)
    try:
        names = next(rows)
    except csv.Error:
        if other_one := divided_otherwise(text.partition("\n")[0].rstrip("\r"), source.delimiter):
            raise other_one.at(line=1) from None
        raise
    other = [mark for mark in DELIMITERS if mark in names[0]] if len(names) == 1 else []
    if other:
        mark = "\\t" if other[0] == "\t" else other[0]
        remedy = f"give it as the delimiter (--delimiter '{mark}'), or rename the column"
        raise TableError(f"one column, whose name holds {DELIMITERS[other[0]]}", remedy)
    if len(set(names)) < len(names):
        raise TableError("two columns have the same name", "rename one of them", line=1)
    columns: list[list[Any]] = [[] for _ in names]
    odd = list[TableError]()
    cut = text.count("\n") if len(text) >= _HEAD // 4 else None
    for row in islice(_records(rows, len(names), cut), MOST_ROWS):
        if isinstance(row, TableError):
            odd.append(row)
            continue
        for column, value in zip(columns, row or [""], strict=True):
            column.append(value or None)
    if len(odd) > MOST_ODD * (len(odd) + len(columns[0])):  # then the file is something else
        raise odd[0]
    found = {name: Sample("text", column) for name, column in zip(names, columns, strict=True)}
    return FileSample(found, odd[0] if odd else None)


def _records(rows: Any, fields: int, cut: int | None) -> Iterator[list[str] | TableError]:  # noqa: ANN401 - a csv.reader
    """Records, and errors in the place of what is none; but in line ``cut``, the last, one may end inside of quotes."""
    while True:
        try:
            row = next(rows, None)
        except csv.Error:
            if rows.line_num != cut:
                problem = "a quote or a line end in the middle of a field, or a quote that is never closed"
                remedy = 'put the whole field in quotes and double the quotes in it ("…""…")'
                yield TableError(problem, remedy, line=rows.line_num)
            continue
        if row is None:
            return
        if len(row) != fields and (row or fields > 1):
            problem = f"the line has {len(row)} field(s), but the header has {fields}"
            yield TableError(problem, "give every line one field for each column", line=rows.line_num)
        else:
            yield row


def _of_json(text: str, source: Input) -> dict[str, Sample]:
    """Objects inside of objects have their columns by dotted names."""
    columns: dict[str, list[Any]] = {}
    lines = text.split("\n")
    for number, line in enumerate(islice((line for line in lines if line.strip()), MOST_ROWS)):
        record = None
        with suppress(ValueError, RecursionError):
            record = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
        if not isinstance(record, dict):
            raise TableError(f"a file that cannot be read as {source.format}", "write one JSON object a line")
        for name, value in _flat(record):
            columns.setdefault(name, [None] * number).append(value)
        for column in columns.values():
            column += [None] * (number + 1 - len(column))
    for name in [name for name, column in columns.items() if all(value in (None, {}) for value in column)]:
        if any(other.startswith(f"{name}.") for other in columns):  # an object that is null or empty in some records
            del columns[name]
    lists = {name for name, column in columns.items() if any(isinstance(value, list | dict) for value in column)}
    return {name: Sample("list" if name in lists else "text", column) for name, column in columns.items()}


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
