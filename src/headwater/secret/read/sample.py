"""The first records of a file, and which gaps and values of short lists come later, for a draft of its schema."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from headwater.public.errors import TableError
from headwater.public.tables import pyarrow
from headwater.secret.read.columnar import parquet_file
from headwater.secret.read.csv_text import DIVIDE, NOT_UTF8
from headwater.secret.read.headers import DELIMITERS, divided_otherwise
from headwater.secret.read.json_sample import first_records, later_records
from headwater.secret.read.later_values import later_values
from headwater.secret.read.options import Options
from headwater.secret.read.paths import Input, Inputs, StrPath
from headwater.secret.read.stream import open_stream

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
    """Records of a file, by column, and what is wrong with the first line that is none.

    Columns that have no name, or one that another column has too, cannot be declared: how many there are is
    ``nameless``. ``reading`` is what the file itself shows of how it is to be read, by names of fields of `Options`.
    """

    columns: dict[str, Sample]
    odd: TableError | None = None
    nameless: int = 0
    reading: Mapping[str, str] = field(default_factory=dict)


def sample_of(path: StrPath, gaps: Sequence[str] = (), **options: Any) -> FileSample:  # noqa: ANN401 - fields of Options
    """The first records of a file, by column. Text files have no types: their values are texts.

    Behind them comes what is seen later in the file, once: a gap, one of the texts ``gaps``, a value of a short list.

    Parameters
    ----------
    path
        A file; of a folder, its first file.
    gaps
        Texts that commonly mean "missing".
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
        columnar = source.format in ("parquet", "arrow")
        return _of_columns(source, source.path) if columnar else _of_text(source, read, gaps)
    except (pa.ArrowException, UnicodeDecodeError, csv.Error, ValueError) as error:  # messages may show values
        if isinstance(error, TableError):
            raise error.at(file=source.name) from None
    problem = f"a file that cannot be read as {source.format}"
    raise TableError(problem, "check that it is one, or say which format and encoding it has", file=source.name)


def _of_columns(source: Input, path: Path) -> FileSample:
    if source.format == "parquet":
        file = parquet_file(path)
        first, with_gaps = (
            next(file.iter_batches(MOST_ROWS), file.schema_arrow.empty_table()),
            _with_gaps(file.metadata),
        )
    else:
        first, with_gaps = pyarrow("dataset").dataset(path, format="ipc").head(MOST_ROWS), set()
    columns = {}
    for one, column in zip(first.schema, first.columns, strict=True):
        columns[one.name] = Sample(str(one.type), column.to_pylist() + ([None] if one.name in with_gaps else []))
    return FileSample(columns)


def _of_text(source: Input, read: Options, gaps: Sequence[str]) -> FileSample:
    encoding = read.encoding or _marked(source)
    text, shown = _head(source, encoding), {"encoding": encoding} if encoding else {}
    if source.format == "csv":
        if read.delimiter is None and (mark := _delimiter(text, source.delimiter)) != source.delimiter:
            source, shown["delimiter"] = replace(source, delimiter=mark), mark
        found, names = _of_csv(text, source)
        values = later_values(source, encoding, names, gaps)
        later = {name: values[name] for name in found.columns}
    else:
        first = first_records(text, source.format, MOST_ROWS)
        found = FileSample({name: Sample("list" if _nested(of) else "text", of) for name, of in first.items()})
        later = later_records(source, encoding, first, gaps)
    return replace(_with_later(found, later), reading=shown)


def _marked(source: Input) -> str | None:
    """The encoding that the first bytes of a file name; None if they name none."""
    stream, mark = open_stream(replace(source, format="csv")), bytearray(2)  # the bytes as they are
    try:
        with memoryview(mark) as view:
            stream.read_into(view)
    finally:
        stream.close()
    return "utf-16" if bytes(mark) in (b"\xff\xfe", b"\xfe\xff") else None


def _delimiter(text: str, usual: str) -> str:
    """What divides the names in the first line of a file: the usual one, unless another does where that does not."""
    line, fields = text.lstrip("\r\n").partition("\n")[0].rstrip("\r"), dict[str, int]()
    for mark in (usual, *DELIMITERS):
        with suppress(csv.Error, StopIteration):
            fields[mark] = len(next(csv.reader([line], delimiter=mark, strict=True)))
    return usual if fields.get(usual, 0) > 1 or not fields else max(fields, key=lambda mark: fields[mark])


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
    if len(head) >= _HEAD:
        head = head[: head.rfind(b"\n") + 1] or head
    with suppress(UnicodeDecodeError):  # whose message holds the text
        return head.decode().removeprefix(_MARK)
    raise NOT_UTF8.at()  # a copy: what is raised keeps the frames that it went through


def _with_gaps(metadata: Any) -> set[str]:  # noqa: ANN401 - a pyarrow.parquet.FileMetaData
    """Columns of which a Parquet file says that values are missing."""
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    parts = [group.column(index) for group in groups for index in range(metadata.num_columns)]
    return {part.path_in_schema for part in parts if part.statistics and part.statistics.null_count}


def _with_later(found: FileSample, later: Mapping[str, set[Any]]) -> FileSample:
    """With what was seen in the whole file and not among the first records; of JSON also columns that begin later."""
    for name, column in found.columns.items():
        if column.type == "text":
            more = later[name].difference(column.values)
            column.values.extend(sorted(more, key=lambda value: (value is None, value)))
    new = {name: Sample("text", [*values]) for name, values in later.items() if name not in found.columns}
    return replace(found, columns={**found.columns, **new})


def _nested(values: list[Any]) -> bool:
    return any(isinstance(value, list | dict) for value in values)


def _of_csv(text: str, source: Input) -> tuple[FileSample, list[str]]:
    """The first records, and the names of all columns."""
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
    known = [bool(name.strip()) and names.count(name) == 1 for name in names]
    if not any(known):
        raise TableError("a first line that holds no column names", "begin the file with the column names", line=1)
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
    found = {name: Sample("text", column) for name, column, one in zip(names, columns, known, strict=True) if one}
    return FileSample(found, odd[0] if odd else None, known.count(False)), names


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
            yield TableError(problem, DIVIDE, line=rows.line_num)
        else:
            yield row
