"""Records of text as Arrow columns: CSV, and JSON with one object a line.

Values stay text, as they are written; what they mean says the grammar of their column, which is read elsewhere.
Numbers and truth values of JSON, which have a type, come in columns of that type.

Formal guarantees
-----------------
A line is a record. Whether it is one of the schema, what it holds, and whom a bad one names, is a function of that line
and of the header alone (`proofs/tables.md`). Under ``multiline`` a record ends where a line ends outside of quotes;
where quotes are not as they should be, nobody knows where that is, so the file is refused from there on.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

import numpy as np

from headwater.table.arrow import pyarrow
from headwater.table.bad_rows import BadRow
from headwater.table.columns import Column
from headwater.table.errors import GIVE_PERSON, LEAVE_OUT, PERSON_MISSING, TableError, is_unicode, listed
from headwater.table.readers.batch import Part
from headwater.table.readers.fields import EXTRA, Fields, other_delimiter
from headwater.table.readers.lines import (
    Input,
    InputChangedError,
    Offsets,
    Raw,
    Records,
    Text,
    changed,
    positions_of,
)
from headwater.table.readers.options import Options

MARK = b"\xef\xbb\xbf"  # what some editors put before UTF-8 text
DEEPEST = 128
"""Levels of nesting that a record of JSON may have."""
STEP = 1 << 20  # how much text pyarrow gives to one thread at a time
_QUOTE, _NEWLINE, _RETURN = 0x22, 0x0A, 0x0D


class UncertainError(TableError):
    """What is wrong may be more than one record: it stops a run whatever happens to bad rows."""


NOT_UTF8 = TableError(
    "text that is not UTF-8", 'declare its encoding in the schema file (encoding = "cp1252")', sender="send it as UTF-8"
)
DIVIDE = "give every line one field for each column, and put fields that hold the delimiter in quotes"
OPEN_QUOTE = TableError(
    "a quote that is never closed", "close it in its line; or declare multiline = true, if fields hold line ends"
)
_INNER = TableError("a quote in the middle of a field", 'put the whole field in quotes and double those in it ("…""…")')
_NUL = TableError("a NUL byte: this is not plain text", 'declare its encoding in the schema file (encoding = "utf-16")')
_LONE = TableError("a carriage return without a newline", "end lines with a newline")
_BLANK = TableError("a blank line, which is no record of several columns", "remove the line")

Place = dict[str, Any]
"""Where in a file reading stopped, as a JSON object."""
Bad = dict[int, TableError]
Parsed = tuple[Any, Bad]
"""A ``pyarrow.Table`` of the good records, and what is wrong with each of the others."""


class Csv:
    """The CSV of one file, whose header is known."""

    def __init__(self, header: list[str], fields: Fields, delimiter: str, *, multiline: bool = False) -> None:
        self.header, self.fields, self.delimiter, self.multiline = header, fields, delimiter, multiline
        self._wanted = [str(index) for index in fields.indices(header, delimiter)]

    def parse(self, data: bytes, ends: Offsets) -> Parsed:
        """Whole records: their text, and where each of them ends. After what may be several records comes no other."""
        if not len(ends):
            return self._nothing(), {}
        if not data.endswith(b"\n"):
            data, ends = data + b"\n", np.append(ends[:-1], len(data) + 1)
        doubtful = b'"' in data or b"\0" in data or not _is_utf8(data) or data.count(b"\r") != data.count(b"\r\n")
        if not doubtful and len(self.header) > 1:
            doubtful = data[:1] in b"\r\n" or b"\n\n" in data or b"\n\r\n" in data
        table = None if doubtful else self._read(data, STEP)
        if table is not None and table.num_rows == len(ends):
            return self._named(table), {}
        bad = self._bad(data, ends)
        last = next((row for row, error in bad.items() if isinstance(error, UncertainError)), len(ends) - 1)
        data = _without(data[: int(ends[last])], ends, sorted(bad))
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
                pacsv.ParseOptions(delimiter=self.delimiter, ignore_empty_lines=False, newlines_in_values=step > len(data)),
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
            edges = np.array([ord(self.delimiter), _NEWLINE, _QUOTE])
            left, right = text[np.maximum(quotes - 1, 0)], text[np.minimum(quotes + 1, len(text) - 1)]
            wrong = opens & ~(np.isin(left, edges) | (quotes == 0)) | ~opens & ~np.isin(right, [*edges, _RETURN])
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
        if not _is_utf8(data):
            rows = np.unique(np.searchsorted(ends, np.flatnonzero(text > 127), side="right")).tolist()
            bad |= {n: NOT_UTF8 for n in rows if n not in bad and not _is_utf8(data[starts[n] : ends[n]])}
        return bad

    @staticmethod
    def _outside(offsets: Offsets, quotes: Offsets, starts: Offsets, ends: Offsets) -> Any:  # noqa: ANN401 - flags
        """Which bytes are outside of the quotes of their records."""
        first = np.searchsorted(quotes, starts[np.searchsorted(ends, offsets, side="right")])
        return (np.searchsorted(quotes, offsets) - first) % 2 == 0

    def person_of(self, record: bytes) -> str | None:
        """The text that names the person of a line that is bad; None if the line has not as many fields as the header.

        Where its quotes or line ends are against the rule, every delimiter divides fields.
        """
        if self.fields.person is None:
            return None
        line, mark = record.rstrip(b"\r\n"), self.delimiter.encode()
        index = self.header.index(self.fields.person)
        for _ in range(2):
            bad = self._bad(line + b"\n", np.array([len(line) + 1]))
            table = None if bad and bad[0] is not NOT_UTF8 else self._read(line + b"\n", len(line) + 5)
            if table is not None and table.num_rows == 1:
                name: bytes | None = table[str(index)].cast("binary")[0].as_py()
                return None if name is None or not _is_utf8(name) else name.decode()
            pieces = line.split(mark)
            if len(pieces) != len(self.header):
                return None
            line = mark.join(piece if place == index else b"" for place, piece in enumerate(pieces))
        return None


def header_of(record: bytes, delimiter: str, fields: Fields) -> list[str]:
    """The column names in the first line of a file."""
    if not _is_utf8(record):
        raise NOT_UTF8.at()
    text = record.decode().rstrip("\r\n")
    if "\0" in text or "\r" in text:
        raise (_NUL if "\0" in text else _LONE).at()
    field = rf'(?:"(?:[^"]|"")*"|[^"{re.escape(delimiter)}]*)'
    if not re.fullmatch(f"{field}(?:{re.escape(delimiter)}{field})*", text):
        raise other_delimiter(text, delimiter, set(fields.columns)) or _INNER.at()
    return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


def _is_utf8(text: bytes) -> bool:
    try:
        return text.isascii() or text.decode() is not None
    except UnicodeDecodeError:
        return False


def _without(data: bytes, ends: Offsets, rows: list[int]) -> bytes:
    """The text without some records."""
    parts, at = [], 0
    for row in sorted(rows):
        parts.append(data[at : int(ends[row - 1]) if row else 0])
        at = int(ends[row])
    return b"".join([*parts, data[at:]])


# ---- JSON


class NotJsonError(TableError):
    """A line that is not JSON. As part of an array it may be several elements, or part of one."""


_NOT_JSON: TableError = NotJsonError("a line that is not JSON", "write one JSON object a line, and no blank lines")
_TOO_DEEP = TableError(f"a line that is nested more than {DEEPEST} levels deep", "write plain values only")
_NO_OBJECT = TableError("a line that is not a JSON object", "write one JSON object a line")
_BROKEN_ARRAY = UncertainError(
    "an array with an element that is not JSON, and may be more than one record", "write one object a line"
)
_TYPED = {"number": "double", "integer": "int64", "boolean": "bool"}  # kinds that JSON has a type for
_MARKS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)


class Pairs(list[tuple[str, Any]]):
    """An object of JSON with its keys as they stand there."""


class Digits(str):
    """A number of JSON as it is written."""

    __slots__ = ()


class Json:
    """The JSON of one file. msgspec reads a line that has the types of the schema, Python's parser any other."""

    def __init__(self, fields: Fields) -> None:
        if not fields.named:
            raise TableError("JSON lines need column names, which this schema has not", "use a CSV or Parquet file")
        self._fields = fields
        parts = [name.split(".") for name in fields.columns]
        self._objects = {".".join(part[:end]) for part in parts for end in range(1, len(part))}
        """What may be an object that holds columns."""
        self._types = {
            name: _TYPED[column.kind] if column.kind in _TYPED and column.usual_text else "string"
            for name, column in fields.columns.items()
        }
        self._decode = None if self._objects else self._decoder()

    def _decoder(self) -> Callable[[bytes], Any]:
        import msgspec  # here: what reads no JSON starts faster

        whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
        kinds: dict[str, Any] = {"double": float, "int64": whole, "bool": bool, "string": str | int | bool}
        columns = self._fields.columns.items()
        keys = [
            (f"c{n}", kinds[self._types[name]] | None, *([None] if column.missing else []))
            for n, (name, column) in enumerate(columns)
        ]
        names = {f"c{n}": name for n, (name, _) in enumerate(columns)}
        how: Any = {"rename": names, "forbid_unknown_fields": not self._fields.ignore_extra, "kw_only": True}
        return msgspec.json.Decoder(msgspec.defstruct("Record", keys, gc=False, **how)).decode

    def parse(self, data: bytes, ends: Offsets) -> Parsed:
        """Whole lines: their text, and where each of them ends."""
        starts = np.concatenate(([0], ends[:-1])).tolist() if len(ends) else []
        lines = [data[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]
        odd, records = dict[int, list[str | None]](), list[Any]()
        bad: Bad = {}
        decode, plain = self._decode, _is_utf8(data) and data.count(b"[") + data.count(b"{") - len(ends) < DEEPEST
        for row, line in enumerate(lines):
            if decode is not None and (plain or (_is_utf8(line) and line.count(b"[") + line.count(b"{") <= DEEPEST)):
                try:
                    records.append(decode(line))
                    continue
                except (ValueError, RecursionError):  # of msgspec; the message may hold values
                    pass
            try:
                odd[row] = self._values(line)
            except TableError as error:
                bad[row] = error
        columns = {}
        for n, (name, type_) in enumerate(self._types.items()):
            column = _array(list(map(attrgetter(f"c{n}"), records)), type_)
            if odd:
                pa = pyarrow()
                texts = pa.array([values[n] for values in odd.values()], "string")
                column = pa.concat_arrays([column.cast("string"), texts]) if records else texts
            columns[name] = column
        table = pyarrow().table(columns)
        if odd and records:
            fast = [row for row in range(len(lines)) if row not in odd and row not in bad]
            table = table.take(np.argsort([*fast, *odd]))
        return table, bad

    def person_of(self, record: bytes) -> str | None:
        """The text that names the person of a line that is bad; None unless it is an object with that key."""
        if self._fields.person is None:
            return None
        try:
            value = read_characters(record.decode("utf-8", "surrogateescape"))
        except TableError:
            return None
        found = dict(self._flat(value)).get(self._fields.person) if isinstance(value, Pairs) else None
        text = None if isinstance(found, list) else _text(found)
        return text if text is not None and is_unicode(text) else None

    def _values(self, line: bytes) -> list[str | None]:
        """The values of one line as text, in the order of the schema."""
        pairs = read_value(line)
        if not isinstance(pairs, Pairs):
            raise _NO_OBJECT.at()
        record = dict(self._flat(pairs) if self._objects else pairs)
        columns, person = self._fields.columns, self._fields.person
        missing = [name for name, column in columns.items() if name not in record and not column.missing]
        if missing == [person]:
            raise TableError(
                f"missing key {listed(missing)}, which names the person", PERSON_MISSING, sender=GIVE_PERSON
            )
        if missing:
            raise TableError(f"missing key {listed(missing)}", "add it, or declare missing = true", sender="add it")
        extra = sum(name not in columns for name in record)
        if extra and not self._fields.ignore_extra:
            raise TableError(f"{extra} key(s) that the schema does not name", EXTRA, sender=LEAVE_OUT)
        for name in columns:
            value = record.get(name)
            if isinstance(value, list):
                raise TableError("a nested value", "write plain values only", column=name)
            if isinstance(value, str) and not is_unicode(value):
                raise TableError("text with half a character in it", "write whole characters", column=name)
        return [_text(record.get(name), column) for name, column in columns.items()]

    def _flat(self, pairs: Pairs, prefix: str = "") -> Pairs:
        """Keys with the keys inside of them: ``{"a": {"b": 1}}`` has ``a.b`` where the schema names that.

        Where an object may be, null is one without keys, unless the schema names it as a column too.
        """
        found = Pairs()
        for key, value in pairs:
            name = prefix + key
            if value is None and name in self._objects and name not in self._fields.columns:
                continue
            inner = isinstance(value, Pairs) and name in self._objects
            found += self._flat(value, f"{name}.") if inner else [(name, value)]
        return found


def _array(values: list[Any], type_: str) -> Any:  # noqa: ANN401 - a pyarrow.Array
    pa = pyarrow()
    try:
        return pa.array(values, type_)
    except (pa.ArrowTypeError, pa.ArrowInvalid):  # numbers or truth where text is wanted
        return pa.array([one if one is None or type(one) is str else _text(one) for one in values], type_)


def read_value(text: bytes) -> Any:  # noqa: ANN401 - any value of JSON
    """Objects as `Pairs`, numbers as they are written; an error says first of all whether it is JSON.

    >>> read_value(b'{"a": 1.50, "a": null}')
    [('a', '1.50'), ('a', None)]
    """
    found = read_characters(text.decode("utf-8", "surrogateescape"))
    if not _is_utf8(text):
        raise NOT_UTF8.at()
    return found


def read_characters(text: str) -> Any:  # noqa: ANN401 - any value of JSON
    """The same of text in which bytes that are no UTF-8 may stand as half characters."""
    error = _NOT_JSON
    if _is_deep(text):
        error = _TOO_DEEP if _is_deep_json(text) else _NOT_JSON
    else:
        try:
            return json.loads(text, object_pairs_hook=Pairs, parse_int=Digits, parse_float=Digits, parse_constant=str)
        except (ValueError, RecursionError):
            pass
    raise error.at()  # outside of the handler: its exception holds the text


def is_json(text: bytes) -> bool:
    """Whether text is JSON, of any depth, and of whatever bytes inside of its strings."""
    try:
        read_value(text)
    except TableError as error:
        return not isinstance(error, NotJsonError)
    return True


def _is_deep(text: str) -> bool:
    """Whether text has more levels of brackets and braces, outside of strings, than a record may have.

    Parsers take as many levels as the calls that led to them have left; so there is a limit of our own, far below.
    """
    if text.count("[") + text.count("{") <= DEEPEST:
        return False
    level = 0
    for found in _MARKS.finditer(text):
        mark = text[found.start()]
        level += (mark in "[{") - (mark in "]}")
        if level > DEEPEST:
            return True
    return False


def _is_deep_json(text: str) -> bool:
    """Whether text of any depth is JSON, by Arrow's parser, which needs no calls inside of calls."""
    pa, pajson = pyarrow(), pyarrow("json")
    line = b'{"":' + text.encode("utf-8", "replace") + b"}"
    reading = pajson.ReadOptions(use_threads=False, block_size=len(line) + 1)
    ignoring = pajson.ParseOptions(explicit_schema=pa.schema([]), unexpected_field_behavior="ignore")
    try:
        return bool(pajson.read_json(pa.BufferReader(line), reading, ignoring).num_rows == 1)
    except pa.ArrowInvalid:
        return False


def _text(value: Any, column: Column | None = None) -> str | None:  # noqa: ANN401 - a plain value of JSON
    """The text of a value; a number has its point where text of the column has its decimal sign."""
    if isinstance(value, Digits):
        return str(value).replace(".", getattr(column, "decimal", "."))
    return value if value is None or isinstance(value, str) else json.dumps(value)


# ---- one file


class _Block(NamedTuple):
    """Records that have been parsed."""

    table: Any
    data: bytes
    ends: Offsets
    lines: Offsets
    """The line in which each record begins, and the line behind the last."""
    bad: tuple[BadRow, ...] = ()
    long: frozenset[int] = frozenset()
    """Records that are too long to be looked at."""


class TextFile:
    """The records of one input of text, from its start or from where an earlier run stopped.

    A position is: how long the header is, the byte (decompressed, in UTF-8) and the line behind the last record that was
    taken, and the SHA-256 of everything before that byte, so that what was read can be checked.
    """

    def __init__(self, source: Input, fields: Fields, options: Options, raw: Raw, place: Place | None = None) -> None:
        self.source, self._fields, self._options, self.raw = source, fields, options, raw
        self._multiline = options.multiline and source.format == "csv"
        self._text = Text(raw, options.encoding, array=source.format == "json")
        self._records = Records(self._text, multiline=self._multiline)
        self._digest, self._size, self._last = hashlib.sha256(), 0, b"\n"
        self._line, self._header = 1, 0
        self._columns: list[str] | None = None
        self._parser: Csv | Json | None = None
        self._block, self._taken = _Block(None, b"", np.empty(0, np.int64), np.empty(0, np.int64)), 0
        self._unfinished = self._continued = False  # the last line had no end; a pipe goes on with new records
        self._before_long: Place | None = None  # the place, if part of a line that is too long was let go
        self.idle = False
        """Whether nothing more came when it was last looked for."""
        if place is not None:
            self._resume(place)

    @property
    def ended(self) -> bool:
        """Whether there can never be more."""
        return self._text.ended

    @property
    def unfinished(self) -> int:
        """How many bytes were read of a record that has not ended."""
        return len(self._records.data)

    def close(self) -> None:
        """Close the input."""
        self.raw.close()

    @property
    def place(self) -> Place:
        """The place behind the last record that was taken."""
        if self._before_long is not None:
            return self._before_long
        known: Place = {"header": self._header, "end": self._size, "line": self._line}
        if self.source.path is None:
            known |= {"columns": self._columns, "continued": self._continued}
        return {**known, "sha256": self._digest.hexdigest()}

    def next(self, limit: int, wait: float) -> Part | None:
        """At most ``limit`` of the next records; None if no more come within ``wait`` seconds.

        With ``wait = 0`` the file is complete: a last line without a newline is a record.
        """
        if self._taken == len(self._block.ends):
            try:
                if not self._load(limit, wait):
                    return None
            except TableError as error:
                raise error.at(file=self.source.name) from None
            self._before_long = None
        block, first = self._block, self._taken
        start = int(block.ends[first - 1]) if first else 0
        self._taken = last = min(first + limit, len(block.ends))
        self._take(memoryview(block.data)[start : int(block.ends[last - 1])])
        self._line = int(block.lines[last])
        bad = tuple(replace(bad, row=bad.row - first) for bad in block.bad if first <= bad.row < last)
        before = sum(bad.row < first for bad in block.bad)
        table = block.table.slice(first - before, last - first - len(bad))

        def text(row: int) -> str:
            if (row := first + row) in block.long:
                return ""
            start = int(block.ends[row - 1]) if row else 0
            return block.data[start : int(block.ends[row])].decode("utf-8", "surrogateescape").rstrip("\r\n")

        return Part(table, last - first, bad, lambda row: int(block.lines[first + row]), text)

    def _load(self, limit: int, wait: float) -> bool:
        """Parse the next block: some megabytes of records, or all that there are. False if there are none."""
        records = self._records
        while True:
            if self._parser is None:
                self._read_header(final=False)
            found = len(records.ends) if self._parser else 0
            if found >= limit or (found and len(records.data) >= self._options.block_bytes):
                break
            if not found and len(records.data) > self._options.line_bytes:
                self._let_go()
            if self._fill(wait):
                continue
            self.idle = bool(wait) and not self._text.ended
            if found:
                break
            if self.idle:
                return False
            if self._parser is None:
                self._read_header(final=True)
            if self._parser is None or not records.data:
                return False
            records.finish()
            break
        data, ends = records.take(len(records.ends))
        self._block, self._taken = self._parsed(data, ends), 0
        return True

    def _parsed(self, data: bytes, ends: Offsets) -> _Block:
        """Some records that begin in this line of the file."""
        parser = self._parser
        assert parser is not None  # noqa: S101 - for the type checker: records come after the header
        starts, long = np.concatenate(([0], ends[:-1])), np.empty(0, np.int64)
        if len(data) > self._options.line_bytes or self._before_long is not None:
            size = ends - starts
            size[0] += 0 if self._before_long is None else self._options.line_bytes
            long = np.flatnonzero(size > self._options.line_bytes)
        if long.size and self._is_uncertain:
            ends = ends[: int(long[0]) + 1]
            long = long[:1]
        kept = _without(data[: int(ends[-1])], ends, long.tolist())
        rows = np.delete(np.arange(len(ends)), long)
        table, wrong = parser.parse(kept, np.cumsum((ends - starts[: len(ends)])[rows]))
        last = int(rows[table.num_rows + len(wrong) - 1]) + 1 if table.num_rows + len(wrong) < len(rows) else len(ends)
        errors = {int(rows[row]): error for row, error in wrong.items()} | {int(row): self._too_long for row in long}
        if self._text.array and (broken := [r for r, e in sorted(errors.items()) if isinstance(e, NotJsonError)]):
            last, errors[broken[0]] = broken[0] + 1, _BROKEN_ARRAY
        ends = ends[:last]
        people = {
            row: parser.person_of(data[starts[row] : ends[row]]) for row in errors if row < last and row not in long
        }
        bad = tuple(BadRow(row, errors[row].at(), person=people.get(row)) for row in sorted(errors) if row < last)
        if self._multiline:
            newlines = positions_of(_NEWLINE, data)
            lines = self._line + np.searchsorted(newlines, np.append(starts[:last], ends[-1]))
        else:
            lines = self._line + np.arange(last + 1)
            lines[-1] -= not data[: int(ends[-1])].endswith(b"\n")
        return _Block(table, data, ends, lines, bad, frozenset(long.tolist()))

    @property
    def _is_uncertain(self) -> bool:
        """Whether what is too long may be several records."""
        return self._multiline or self._text.array is not None

    @property
    def _too_long(self) -> TableError:
        kind = UncertainError if self._is_uncertain else TableError
        return kind(f"a line of more than {self._options.line_bytes >> 20} MB", "check the line ends of the file")

    def _let_go(self) -> None:
        """Keep of a line that is too long no more than its last byte so far; a later run begins with the line again."""
        if self._parser is None or self._is_uncertain:
            raise self._too_long.at(line=self._line)
        self._before_long = self._before_long or self.place
        self._take(bytes(self._records.data[:-1]))
        del self._records.data[:-1]

    def _take(self, data: bytes | memoryview) -> None:
        """Count bytes as read."""
        self._digest.update(data)
        self._size += len(data)
        self._last = bytes(data[-1:]) or self._last

    def _fill(self, wait: float) -> int:
        """Read more; how much there was."""
        found = self._records.fill(self._options.block_bytes, wait)
        self.idle = False
        if found and self._unfinished and self._records.data != b"\r":
            if not self._records.data.startswith((b"\n", b"\r\n")):
                raise changed(self.source.name, "went on with its last line, which was not complete,")
            self._take(self._records.take(1)[0])  # the newline of the line that was taken
            self._line += 1
            self._unfinished = False
        return found

    def _read_header(self, *, final: bool) -> None:
        """Make the parser as soon as the first line is there."""
        records, is_json = self._records, self.source.format != "csv"
        anything = self._continued or is_json  # what comes first is a record, and may be anything
        wide = records.data.startswith((b"\xff\xfe", b"\xfe\xff")) and not self._size
        if wide and not (anything and self._options.bad_rows != "stop"):
            raise TableError(
                "text in UTF-16", 'declare encoding = "utf-16" in the schema file', sender="send it as UTF-8", line=1
            )
        if is_json:
            if final or not MARK.startswith(records.data[: len(MARK)]) or len(records.data) >= len(MARK):
                if records.data.startswith(MARK) and not self._continued:
                    self._header = len(MARK)
                    self._take(MARK)
                    del records.data[: len(MARK)]
                    records.ends = records.ends - len(MARK)
                self._parser = Json(self._fields)
            return
        if self._continued:
            assert self._columns is not None  # noqa: S101 - for the type checker: kept with the position
            self._parser = self._csv(self._columns)  # a pipe that goes on has no second header
            return
        if final:
            records.finish()
        while len(records.ends):
            first, _ = records.take(1)
            self._take(first)
            self._header = self._size
            self._line += first.count(b"\n")
            if first.strip(b"\r\n"):
                line = self._line - first.count(b"\n")
                try:
                    self._columns = header_of(first.removeprefix(MARK), self.source.delimiter, self._fields)
                    self._parser = self._csv(self._columns)
                except TableError as error:
                    raise error.at(line=line) from None
                return
        if final:
            raise TableError("the file is empty", "begin the file with the column names")

    def _csv(self, names: list[str]) -> Csv:
        return Csv(names, self._fields, self.source.delimiter, multiline=self._multiline)

    def _resume(self, place: Place) -> None:
        """Go to where an earlier run stopped, and check that everything before is what it was."""
        if self.source.path is None and (self._options.stdin_continues or place["continued"]):
            if not self._options.stdin_continues:
                raise self._other("went on with new records")
            self._columns, self._continued = place["columns"], True
            return
        header = self._skip(place["header"], keep=True)
        if header is None or self._skip(place["end"] - place["header"]) is None:
            raise self._other("became shorter")
        if self._digest.hexdigest() != place["sha256"]:
            raise self._other("changed")
        self._header, self._line = place["header"], place["line"]
        self._unfinished = self._last != b"\n"
        if self.source.format != "csv":
            self._parser = Json(self._fields)
        elif header:
            self._columns = header_of(header.lstrip(b"\r\n").removeprefix(MARK), self.source.delimiter, self._fields)
            self._parser = self._csv(self._columns)

    def _skip(self, size: int, *, keep: bool = False) -> bytes | None:
        """Take bytes that an earlier run took; None if there are not so many. Empty unless ``keep``."""
        kept, piped = b"", self.source.path is None
        wait = self._options.poll_seconds if piped else 0
        while size > 0:
            data = self._text.read(min(size, self._options.block_bytes), wait)
            if not data and (self._text.ended or not piped):
                return None
            self._take(data)
            kept, size = kept + data if keep else kept, size - len(data)
        return kept

    def _other(self, what: str) -> InputChangedError:
        """The error for input that is not what an earlier run read."""
        if self.source.path is not None:
            return changed(self.source.name, what)
        remedy = (
            "pipe in the same records again from the first one on, or say with stdin_continues (--stdin-continues) that "
            "the pipe goes on with new ones"
        )
        return InputChangedError(f"the input {what} since it was read", remedy, file=self.source.name)
