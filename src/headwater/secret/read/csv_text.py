"""CSV records as Arrow tables, typed by the schema.

The rule for quotes is strict: a quote opens a field at its very beginning, closes it at its very end, and is doubled in
between. Text that breaks the rule is refused. A line is a record, also a blank one: with one column it is a missing
value, with several it is refused.

pyarrow reads what is written in the usual way. What it refuses, or what it may read otherwise than the grammar of the
column (`Column.read_text`), is read as text by that grammar, so a value never depends on other values of its block.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from headwater.public.errors import TableError
from headwater.public.tables import pyarrow
from headwater.secret.read.fields import Field, Fields, usual_text
from headwater.secret.read.headers import divided_otherwise
from headwater.secret.read.text_buffer import Offsets, positions_of

Bytes = bytes | bytearray

NOT_UTF8 = TableError(
    "text that is not UTF-8",
    "give its encoding (--encoding cp1252 is that of most Windows files), or save the file as UTF-8",
)
DIVIDE = (
    "give every line one field for each column: quote fields that hold the delimiter, and write empty fields at the "
    "ends of lines too, which a spreadsheet may have left out"
)

_QUOTE, _NEWLINE, _RETURN = 0x22, 0x0A, 0x0D
_BARE_POINT = re.compile(rb"\.(?![0-9])")
STEP = 1 << 20  # how much text pyarrow gives to one thread at a time
_MARK = b"\xef\xbb\xbf"
_YEAR_1 = -62135596800 * 10**6  # in microseconds of the epoch


class CsvParser:
    """The CSV of one file: its header is known, blocks of whole records come one after another."""

    def __init__(self, header: list[str], fields: Fields, *, delimiter: str, ignore_extra: bool) -> None:
        self._width, self._delimiter = len(header), delimiter
        self._person = fields.naming
        self._fields = dict(zip(fields.indices(header, ignore_extra, delimiter), fields.fields, strict=True))
        # Columns that are written in their own way, or that pyarrow could not read in an earlier block: no attempt.
        self._unusual = {index for index, field in self._fields.items() if not usual_text(field.column)}

    def check_open(self, data: Bytes, line: int) -> None:
        """Raise an error if a record that has begun cannot become one."""
        check_quotes(data, self._delimiter, line)

    def parse(self, data: bytearray, ends: Offsets, line: int) -> Any:  # noqa: ANN401 - a pyarrow.Table
        """Whole records as a table; ``line`` is where they begin in the file."""
        check_quotes(data, self._delimiter, line)
        check_bytes(data, line)
        starts = np.concatenate(([0], ends[:-1]))
        if self._width > 1:
            _check_blank(data, starts, ends, line)
        if not data.endswith(b"\n"):
            data = data + b"\n"
        # pyarrow cuts text at line ends to share it among threads, also inside of quotes, and a lone return is one:
        # text that has any there is one step.
        inside = b'"' in data and (_newlines(data) > len(ends) or _lone_returns(data))
        step = len(data) + 1 if inside else STEP
        usual = {index: field.type for index, field in self._fields.items() if index not in self._unusual}
        columns = self._read(data, usual, step)
        # Find out which one cannot be read. pyarrow is not relied upon to find every line where it cuts text.
        if columns is None or any(len(column) != len(ends) for column in columns.values()):
            columns = {}
            for index, kind in usual.items():
                columns |= self._read(data, {index: kind}, len(data) + 1) or {}
        columns = {index: column for index, column in columns.items() if self._is_usual(data, index, column)}
        self._unusual = set(self._fields) - set(columns)
        if self._unusual:
            text = self._read(data, dict.fromkeys(self._unusual, pyarrow().string()), len(data) + 1)
            if text is None:
                raise self._broken(data, starts, ends, line)
            for index in self._unusual:
                columns[index] = self._fields[index].from_text(
                    text[index], lambda row: line_of(data, int(starts[row]), line)
                )
        filled = {field.name: field.without_nulls(_filled(columns[i], field)) for i, field in self._fields.items()}
        return pyarrow().table(filled)

    def person_of(self, record: bytearray) -> str | None:
        """The text that names the person of a line that is bad; None if the line has not as many fields as the header.

        Where its quotes or line ends are against the rule, every delimiter divides fields.
        """
        if self._person is None:
            return None
        index = next(index for index, field in self._fields.items() if field is self._person)
        line = bytes(record).rstrip(b"\r\n")
        if not _is_regular(line, self._delimiter):
            mark = self._delimiter.encode()
            pieces = line.split(mark)
            if len(pieces) != self._width:
                return None
            line = mark.join(piece if place == index else b"" for place, piece in enumerate(pieces))
            if not _is_regular(line, self._delimiter):
                return None
        text = self._read(line + b"\n", {index: pyarrow().string()}, len(line) + 2)
        if text is None or len(text[index]) != 1:
            return None
        found: str | None = self._person.without_nulls(text[index])[0].as_py()
        return found

    def _is_usual(self, data: Bytes, index: int, column: Any) -> bool:  # noqa: ANN401 - a pyarrow.ChunkedArray
        """Whether pyarrow has read these values as the column's grammar would; if in doubt, it has not."""
        match self._fields[index].column.kind:
            case "number":  # pyarrow takes nan(…) for a missing number
                return b"(" not in data or not pyarrow("compute").any(pyarrow("compute").is_nan(column)).as_py()
            case "integer":  # pyarrow takes 0x10 for 16
                return not (b"x" in data and b"0x" in data) and not (b"X" in data and b"0X" in data)
            case "datetime":
                return is_since_year_1(column)
            case "time-of-day":  # pyarrow takes 13:45:10. for a time, also with blanks behind it
                return _BARE_POINT.search(data) is None
        return True

    def _read(self, data: Bytes | memoryview, types: Mapping[int, Any], step: int) -> dict[int, Any] | None:
        """Some columns by their index, or None. Columns with the same null values are read together."""
        groups: dict[tuple[str, ...], dict[int, Any]] = {}
        for index, kind in types.items():
            groups.setdefault(self._fields[index].null_values, {})[index] = kind
        found: dict[int, Any] = {}
        for nulls, group in groups.items():
            columns = self._read_group(data, group, step, nulls)
            if columns is None:
                return None
            found |= columns
        return found

    def _read_group(
        self, data: Bytes | memoryview, types: Mapping[int, Any], step: int, nulls: tuple[str, ...]
    ) -> dict[int, Any] | None:
        """Some columns by their index, or None. pyarrow's own message is dropped: it shows values."""
        pa, pacsv = pyarrow(), pyarrow("csv")
        if bytes(data[:3]) == _MARK:  # pyarrow leaves out a mark before text, but here it is part of a field
            data, step = _MARK + bytes(data), step + len(_MARK)
        try:
            table = pacsv.read_csv(
                pa.BufferReader(data),
                pacsv.ReadOptions(column_names=[str(index) for index in range(self._width)], block_size=step),
                pacsv.ParseOptions(delimiter=self._delimiter, ignore_empty_lines=False),
                pacsv.ConvertOptions(
                    column_types={str(index): kind for index, kind in types.items()},
                    include_columns=[str(index) for index in types],
                    null_values=["", *nulls],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid:
            return None
        return {index: table.column(str(index)) for index in types}

    def _broken(self, data: bytearray, starts: Offsets, ends: Offsets, line: int) -> TableError:
        """The error for the first record that is none."""
        as_text = dict.fromkeys(self._fields, pyarrow().string())
        row = _first_failure(data, starts, ends, lambda part: self._read(part, as_text, len(part) + 1) is None)
        record = data[starts[row] : ends[row]]
        problem = NOT_UTF8
        try:
            record.decode()
            delimiters = positions_of(ord(self._delimiter), record)
            found = 1 + np.count_nonzero(np.searchsorted(positions_of(_QUOTE, record), delimiters) % 2 == 0)
            problem = TableError(
                f"the line has {found} field(s), but the header has {self._width}",
                DIVIDE,
            )
        except UnicodeDecodeError:
            pass
        return problem.at(line=line_of(data, int(starts[row]), line))


def parse_header(record: Bytes, delimiter: str, line: int) -> list[str]:
    """The column names in the first line of a file."""
    check_bytes(record, line)
    try:
        check_quotes(record, delimiter, line)
    except TableError as error:
        other = divided_otherwise(record.decode("utf-8", "replace").rstrip("\r\n"), delimiter)
        raise (other or error).at(line=line) from None
    names: list[str] | None = None
    problem = NOT_UTF8
    try:
        names = next(csv.reader(io.StringIO(record.decode().rstrip("\r\n"), newline=""), delimiter=delimiter))
    except UnicodeDecodeError:
        pass
    except (csv.Error, StopIteration):
        problem = TableError("a first line that holds no column names", "begin the file with the column names")
    if names is None:
        raise problem.at(line=line)
    return names


def check_quotes(data: Bytes, delimiter: str, line: int) -> None:
    """Raise an error where a quote stands in the middle of a field. ``data`` begins with a record."""
    quotes = positions_of(_QUOTE, data)
    if not quotes.size:
        return
    text = np.frombuffer(data, dtype=np.uint8)
    opening, closing = quotes[0::2], quotes[1::2]
    before = text[np.maximum(opening - 1, 0)]
    good = (before == ord(delimiter)) | (before == _NEWLINE) | (before == _QUOTE) | (opening == 0)
    after = text[np.minimum(closing + 1, len(data) - 1)]
    fine = (after == ord(delimiter)) | (after == _NEWLINE) | (after == _RETURN) | (after == _QUOTE)
    fine |= closing == len(data) - 1
    if good.all() and fine.all():
        return
    offset = min(int(offsets[0]) for offsets in (opening[~good], closing[~fine]) if offsets.size)
    raise TableError(
        "a quote in the middle of a field",
        'put the whole field in quotes and double the quotes in it ("…""…")',
        line=line_of(data, offset, line),
    )


def check_bytes(data: Bytes, line: int) -> None:
    """Raise an error where text holds what no CSV text holds: NUL bytes, or line ends of old machines."""
    if b"\0" in data:
        remedy = "give its encoding (--encoding utf-16), or save it as plain UTF-8 text"
        problem = "a NUL byte: this is not plain text"
        raise TableError(problem, remedy, line=line_of(data, data.index(b"\0"), line))
    if not _lone_returns(data):
        return
    text = np.frombuffer(data, dtype=np.uint8)
    returns = positions_of(_RETURN, data)
    lone = returns[text[np.minimum(returns + 1, len(data) - 1)] != _NEWLINE]
    outside = lone[np.searchsorted(positions_of(_QUOTE, data), lone) % 2 == 0]
    if outside.size:
        remedy = "end lines with a newline, and quote fields that hold line ends"
        raise TableError("a carriage return without a newline", remedy, line=line_of(data, int(outside[0]), line))


def _is_regular(line: bytes, delimiter: str) -> bool:
    """Whether one line keeps the rules for quotes and line ends."""
    try:
        check_quotes(line, delimiter, 1)
        check_bytes(line, 1)
    except TableError:
        return False
    return line.count(b'"') % 2 == 0


def is_since_year_1(column: Any) -> bool:  # noqa: ANN401 - a pyarrow.ChunkedArray of timestamps
    """Whether all times are such as Python can hold; pyarrow knows a year 0 and years before it."""
    first = pyarrow("compute").min(column.cast("int64")).as_py()
    return first is None or first >= _YEAR_1


def _newlines(data: Bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == _NEWLINE))


def _lone_returns(data: Bytes) -> bool:
    """Whether there is a return that no newline follows. Most text has none at all, and finding none is fast."""
    return b"\r" in data and data.count(b"\r") > data.count(b"\r\n")


def line_of(data: Bytes, offset: int, first: int) -> int:
    """The line of a byte, if the text begins in line ``first``."""
    return first + data.count(b"\n", 0, offset)


def _check_blank(data: Bytes, starts: Offsets, ends: Offsets, line: int) -> None:
    """Raise an error where a line is blank, and so no record of several columns."""
    short = np.flatnonzero(ends - starts <= 2)
    for row in short:
        if not data[starts[row] : ends[row]].strip(b"\r\n"):
            problem = "a blank line, which is no record of several columns"
            remedy = "remove the line; a record whose values are all missing has its delimiters"
            raise TableError(problem, remedy, line=line_of(data, int(starts[row]), line))


def _filled(column: Any, field: Field) -> Any:  # noqa: ANN401 - a pyarrow.ChunkedArray
    return column.fill_null("") if field.empty_is_text and column.null_count else column


def _first_failure(data: bytearray, starts: Offsets, ends: Offsets, fails: Callable[[memoryview], bool]) -> int:
    """Number of the first record that fails, by halving: each half is read once."""
    low, high = 0, len(ends)  # the first failure is in here
    with memoryview(data) as view:
        while high - low > 1:
            middle = (low + high) // 2
            if fails(view[starts[low] : ends[middle - 1]]):
                high = middle
            else:
                low = middle
    return low
