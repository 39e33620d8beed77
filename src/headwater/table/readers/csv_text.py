"""Blocks of CSV text as Arrow tables, typed by the schema."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from typing import Any

from headwater.table.errors import TableError
from headwater.table.readers.arrow import arrow
from headwater.table.readers.layout import Field, Layout
from headwater.table.readers.records import (
    Bytes,
    Records,
    check_bytes,
    check_quotes,
    end_of_records,
    fields_in,
    quotes_in,
    records_in,
)

NOT_UTF8 = TableError("text that is not UTF-8", "save the file as UTF-8")

_STEP = 1 << 20  # how much text pyarrow gives to one thread at a time


class CsvParser:
    """The CSV of one file: its header is known, blocks of whole records come one after another."""

    def __init__(
        self, header: list[str], layout: Layout, *, delimiter: str, null_text: tuple[str, ...], ignore_extra: bool
    ) -> None:
        self._width = len(header)
        self._fields = dict(zip(layout.find(header, ignore_extra), layout.fields, strict=True))
        self._delimiter, self._null_text = delimiter, list(null_text)

    def cut(self, buffer: Bytes, line: int) -> int:
        """Just behind the last complete record."""
        quotes = quotes_in(buffer)
        check_quotes(buffer, quotes, self._delimiter, line)
        return end_of_records(buffer, quotes)

    def finish(self, tail: Bytes, line: int) -> None:
        """A last line may lack its newline, but not its quotes."""
        quotes = quotes_in(tail)
        if quotes.size % 2:
            where = line + tail.count(b"\n", 0, int(quotes[-1]))
            raise TableError(
                "a quote that is never closed", "close the quotes; double those inside a field", line=where
            )

    def line(self, data: Bytes, line: int, row: int) -> int:
        """The line in which one record begins."""
        return int(records_in(data, line).lines[row])

    def start(self, data: Bytes, row: int) -> int:
        """Where one record begins."""
        return int(records_in(data, 1).starts[row])

    def parse(self, data: Bytes, line: int) -> Any:  # noqa: ANN401 - a pyarrow.Table
        """A block of records as a table; ``line`` is where it begins in the file."""
        check_bytes(data, line)
        # pyarrow cuts text at newlines to share it among threads, also inside of quotes: so quoted text is one step.
        step = len(data) + 1 if b'"' in data else _STEP
        columns = self._read(data, {place: field.types[0] for place, field in self._fields.items()}, step)
        if columns is None:
            columns = self._read_slowly(data, line)
        return arrow().table({field.name: self._finish(columns[place], field) for place, field in self._fields.items()})

    def _finish(self, column: Any, field: Field) -> Any:  # noqa: ANN401
        return column.cast("string").fill_null("") if field.empty_is_text and column.null_count else column

    def _read(self, data: Bytes | memoryview, types: Mapping[int, Any], step: int) -> dict[int, Any] | None:
        """Some columns by their place, or None. pyarrow's own message is dropped: it shows values."""
        pa, pacsv = arrow(), arrow("csv")
        cut_short = bytes(data[-1:]) != b"\n"  # then pyarrow must look for the beginning of the last record
        try:
            table = pacsv.read_csv(
                pa.BufferReader(data),
                pacsv.ReadOptions(column_names=[str(place) for place in range(self._width)], block_size=step),
                pacsv.ParseOptions(delimiter=self._delimiter, newlines_in_values=cut_short),
                pacsv.ConvertOptions(
                    column_types={str(place): kind for place, kind in types.items()},
                    include_columns=[str(place) for place in types],
                    null_values=self._null_text,
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid:
            return None
        return {place: table.column(str(place)) for place in types}

    def _read_slowly(self, data: Bytes, line: int) -> dict[int, Any]:
        """Column by column, with the next type where one does not fit; or an error that says where."""
        text, records = arrow().string(), records_in(data, line)
        if not len(records):
            return {place: arrow().array([], field.types[0]) for place, field in self._fields.items()}
        step = len(data) + 1  # a record may be longer than the usual step
        as_text = dict.fromkeys(self._fields, text)
        if self._read(data, as_text, step) is None:
            row = _first_failure(data, records, lambda part: self._read(part, as_text, step) is None)
            raise self._broken(data[records.starts[row] : records.ends[row]]).at(line=int(records.lines[row]))
        return {place: self._column(data, place, field, records) for place, field in self._fields.items()}

    def _column(self, data: Bytes, place: int, field: Field, records: Records) -> Any:  # noqa: ANN401
        step = len(data) + 1
        for kind in field.types:
            column = self._read(data, {place: kind}, step)
            if column is not None:
                return column[place]
        widest = field.types[-1]
        row = _first_failure(data, records, lambda part: self._read(part, {place: widest}, step) is None)
        problem = f"a value that is not {field.called}"
        remedy = f"write {field.called}, or leave the field empty where the schema says missing = true"
        raise TableError(problem, remedy, line=int(records.lines[row]), row=row, column=field.name)

    def _broken(self, record: Bytes) -> TableError:
        """Why one record is no record."""
        try:
            record.decode()
        except UnicodeDecodeError:
            return NOT_UTF8
        found = fields_in(record, self._delimiter)
        problem = f"the line has {found} field(s), but the header has {self._width}"
        return TableError(problem, "give every line one field for each column; quote fields that hold the delimiter")


def parse_header(record: Bytes, delimiter: str, line: int) -> list[str]:
    """The column names in the first line of a file."""
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


def _first_failure(data: Bytes, records: Records, fails: Callable[[memoryview], bool]) -> int:
    """Number of the first record that fails, by halving: each half is read once."""
    view = memoryview(data)
    low, high = 0, len(records)  # the first failure is in here
    while high - low > 1:
        middle = (low + high) // 2
        if fails(view[records.starts[low] : records.ends[middle - 1]]):
            high = middle
        else:
            low = middle
    return low
