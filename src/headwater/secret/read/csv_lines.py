"""CSV as Arrow columns of text: values stay as they are written, and their columns say elsewhere what they mean.

Formal guarantees
-----------------
A line is a record. Whether it is one of the schema, what it holds, and whom a bad one names, is a function of that line
and of the header alone (`proofs/tables.md`). Under ``multiline`` a record ends where a line ends outside of quotes;
where quotes are not as they should be, nobody knows where that is, so the file is refused from there on.
"""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import numpy as np

from headwater.public.errors import TableError
from headwater.public.tables import pyarrow
from headwater.secret.read.fields import Fields, other_delimiter
from headwater.secret.read.lines import Offsets, positions_of

MARK = b"\xef\xbb\xbf"  # what some editors put before UTF-8 text
STEP = 1 << 20  # how much text pyarrow gives to one thread at a time
_QUOTE, _NEWLINE, _RETURN = 0x22, 0x0A, 0x0D


class UncertainError(TableError):
    """What is wrong may be more than one record: it stops a run whatever happens to bad rows."""


NOT_UTF8 = TableError("text that is not UTF-8", 'declare its encoding in the schema file (encoding = "cp1252")')
DIVIDE = "give every line one field for each column, and put fields that hold the delimiter in quotes"
OPEN_QUOTE = TableError(
    "a quote that is never closed",
    "close it in its line; or declare multiline = true, if fields hold line ends",
)
_INNER = TableError("a quote in the middle of a field", 'put the whole field in quotes and double those in it ("…""…")')
_NUL = TableError(
    "a NUL byte: this is not plain text",
    'declare its encoding in the schema file (encoding = "utf-16")',
)
_LONE = TableError("a carriage return without a newline", "end lines with a newline")
_BLANK = TableError("a blank line, which is no record of several columns", "remove the line")

Bad = dict[int, TableError]
Parsed = tuple[Any, Bad]
"""A ``pyarrow.Table`` of the good records, and what is wrong with each of the others."""


class Csv:
    """The CSV of one file, whose header is known."""

    def __init__(self, header: list[str], fields: Fields, delimiter: str, *, multiline: bool = False) -> None:
        self.header, self.fields, self.delimiter, self.multiline = header, fields, delimiter, multiline
        self._found_bad = False
        self._wanted = [str(index) for index in fields.indices(header, delimiter)]

    def parse(self, data: bytes, ends: Offsets) -> Parsed:
        """Whole records: their text, and where each of them ends."""
        if not len(ends):
            return self._nothing(), {}
        if not data.endswith(b"\n"):
            data, ends = data + b"\n", np.append(ends[:-1], len(data) + 1)
        doubtful = (
            self._found_bad
            or b'"' in data
            or b"\0" in data
            or not is_utf8(data)
            or data.count(b"\r") != data.count(b"\r\n")
        )
        if not doubtful and len(self.header) > 1:
            doubtful = data[:1] in b"\r\n" or b"\n\n" in data or b"\n\r\n" in data
        table = None if doubtful else self._read(data, STEP)
        if table is not None and table.num_rows == len(ends):
            return self._named(table), {}
        bad = self._bad(data, ends)
        self._found_bad = bool(bad)  # then the next block may hold some as well: one attempt less
        last = next((row for row, error in bad.items() if isinstance(error, UncertainError)), len(ends) - 1)
        data = without(data[: int(ends[last])], ends, sorted(bad))
        if len(bad) > last:
            return self._nothing(), bad
        table = self._read(data, len(data) + 5)
        if table is None or table.num_rows != last + 1 - len(bad):
            raise UncertainError("text that cannot be read as CSV", "check that it is CSV")
        return self._named(table), bad

    def _read(self, data: bytes, step: int) -> Any:  # noqa: ANN401 - a pyarrow.Table or None
        """All records as text, or None. pyarrow's own message is dropped: it shows values."""
        pa, pacsv = pyarrow(), pyarrow("csv")
        if data.startswith(MARK):  # pyarrow leaves out a mark before text, but here it is part of a field
            data = MARK + data
        try:
            return pacsv.read_csv(
                pa.BufferReader(data),
                pacsv.ReadOptions(column_names=[str(n) for n in range(len(self.header))], block_size=step),
                # pyarrow cuts text at line ends, also a lone return, to share it among threads: not in one step
                pacsv.ParseOptions(
                    delimiter=self.delimiter, ignore_empty_lines=False, newlines_in_values=step > len(data)
                ),
                pacsv.ConvertOptions(
                    check_utf8=False,
                    column_types=dict.fromkeys(self._wanted, pa.string()),
                    include_columns=self._wanted,
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid:
            return None

    def _nothing(self) -> Any:  # noqa: ANN401 - a pyarrow.Table
        return pyarrow().table({name: pyarrow().array([], "string") for name in self.fields.columns})

    def _named(self, table: Any) -> Any:  # noqa: ANN401 - a pyarrow.Table
        table = table.rename_columns(list(self.fields.columns))
        for index, name in enumerate(self.fields.columns):
            if table[name].null_count and self.fields.empty_is_text(name):
                table = table.set_column(index, name, table[name].fill_null(""))
        return table

    def _bad(self, data: bytes, ends: Offsets) -> Bad:
        """What is wrong with each record that is none, judged by itself."""
        text, starts = np.frombuffer(data, dtype=np.uint8), np.concatenate(([0], ends[:-1]))
        bad: Bad = {}

        def add(offsets: Offsets, error: TableError) -> None:
            for row in np.unique(np.searchsorted(ends, offsets, side="right")).tolist():
                bad.setdefault(row, error)

        quotes, marks, returns = (positions_of(one, data) for one in (_QUOTE, ord(self.delimiter), _RETURN))
        lone = returns[text[np.minimum(returns + 1, len(text) - 1)] != _NEWLINE]
        if quotes.size:
            row = np.searchsorted(ends, quotes, side="right")
            opens = (np.arange(len(quotes)) - np.searchsorted(quotes, starts[row])) % 2 == 0
            left, right = text[np.maximum(quotes - 1, 0)], text[np.minimum(quotes + 1, len(text) - 1)]
            edge = np.zeros(256, dtype=np.bool_)
            edge[[ord(self.delimiter), _NEWLINE, _QUOTE]] = True
            wrong = opens & ~(edge[left] | (quotes == 0)) | ~opens & ~(edge[right] | (right == _RETURN))
            odd = np.flatnonzero(np.bincount(row, minlength=len(ends)) % 2)
            if self.multiline and (wrong.any() or odd.size):
                last = int(row[wrong][0] if wrong.any() else odd[0])
                error = _INNER if wrong.any() else OPEN_QUOTE
                before = self._bad(data[: starts[last]], ends[:last]) if last else {}
                return {**before, last: UncertainError(error.problem, error.remedy)}
            add(quotes[wrong], _INNER)
            bad = dict.fromkeys(odd.tolist(), OPEN_QUOTE) | bad
            marks, lone = (one[self._outside(one, quotes, starts, ends)] for one in (marks, lone))
        add(positions_of(0, data), _NUL)
        add(lone, _LONE)
        if len(self.header) > 1:
            short = np.flatnonzero(ends - starts <= 2)
            blank = [n for n in short.tolist() if not data[starts[n] : ends[n]].strip(b"\r\n")]
            bad |= {n: _BLANK for n in blank if n not in bad}
        counts = 1 + np.diff(np.searchsorted(marks, ends), prepend=0)
        for number in np.flatnonzero(counts != len(self.header)).tolist():
            said = f"the line has {counts[number]} field(s), but the header has {len(self.header)}"
            bad.setdefault(number, TableError(said, DIVIDE))
        if not is_utf8(data):
            rows = np.unique(np.searchsorted(ends, np.flatnonzero(text > 127), side="right")).tolist()
            bad |= {n: NOT_UTF8 for n in rows if n not in bad and not is_utf8(data[starts[n] : ends[n]])}
        return bad

    @staticmethod
    def _outside(offsets: Offsets, quotes: Offsets, starts: Offsets, ends: Offsets) -> Any:  # noqa: ANN401 - flags
        first = np.searchsorted(quotes, starts[np.searchsorted(ends, offsets, side="right")])
        return (np.searchsorted(quotes, offsets) - first) % 2 == 0

    def person_of(self, record: bytes) -> str | None:
        """The text that names the person of a line that is bad."""
        if self.fields.person is None:
            return None
        line, mark = record.rstrip(b"\r\n"), self.delimiter.encode()
        index = self.header.index(self.fields.person)
        for _ in range(2):
            bad = self._bad(line + b"\n", np.array([len(line) + 1]))
            table = None if bad and bad[0] is not NOT_UTF8 else self._read(line + b"\n", len(line) + 5)
            if table is not None and table.num_rows == 1:
                name: bytes | None = table[str(index)].cast("binary")[0].as_py()
                return None if name is None or not is_utf8(name) else name.decode()
            pieces = line.split(mark)
            if len(pieces) != len(self.header):
                return None
            line = mark.join(piece if place == index else b"" for place, piece in enumerate(pieces))
        return None


def header_of(record: bytes, delimiter: str, fields: Fields) -> list[str]:
    """The column names in the first line of a file."""
    if not is_utf8(record):
        raise NOT_UTF8.at()
    text = record.decode().rstrip("\r\n")
    if "\0" in text or "\r" in text:
        raise (_NUL if "\0" in text else _LONE).at()
    field = rf'(?:"(?:[^"]|"")*"|[^"{re.escape(delimiter)}]*)'
    if not re.fullmatch(f"{field}(?:{re.escape(delimiter)}{field})*", text):
        raise other_delimiter(text, delimiter, set(fields.columns)) or _INNER.at()
    return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


def is_utf8(text: bytes) -> bool:
    try:
        return text.isascii() or text.decode() is not None
    except UnicodeDecodeError:
        return False


def without(data: bytes, ends: Offsets, rows: list[int]) -> bytes:
    parts, at = [], 0
    for row in sorted(rows):
        parts.append(data[at : int(ends[row - 1]) if row else 0])
        at = int(ends[row])
    return b"".join([*parts, data[at:]])
