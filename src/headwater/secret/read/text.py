"""Records of CSV and JSON as Arrow columns: values stay as they are written, and their columns say what they mean.

Formal guarantees
-----------------
A line is a record. Whether it is one of the schema, what it holds, and whom a bad one names, is a function of that line
and of the header alone (`proofs/tables.md`). Under ``multiline`` a record ends where a line ends outside of quotes;
where quotes are not as they should be, nobody knows where that is, so the file is refused from there on.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate
from operator import attrgetter
from typing import Annotated, Any

import numpy as np

from headwater.public.columns import Column
from headwater.public.errors import PERSON_MISSING, TableError, is_unicode, listed
from headwater.public.numbers import WrittenNumber
from headwater.public.tables import pyarrow
from headwater.public.tally import BadRow
from headwater.secret.read.batch import Batch
from headwater.secret.read.fields import EXTRA, Fields, Options
from headwater.secret.read.lines import MARK, Input, Lines, Offsets, changed, positions_of

DEEPEST = 128
"""Levels of nesting that a record of JSON may have."""
STEP = 1 << 20  # how much text pyarrow gives to one thread at a time
_QUOTE, _NEWLINE, _RETURN = 0x22, 0x0A, 0x0D
_WIDE = (b"\xff\xfe", b"\xfe\xff")  # what UTF-16 begins with


class UncertainError(TableError):
    """What is wrong may be more than one record: it stops a run whatever happens to bad rows."""


class NotJsonError(TableError):
    """A line that is not JSON."""


NOT_UTF8 = TableError("text that is not UTF-8", 'declare its encoding in the schema file (encoding = "cp1252")')
OPEN_QUOTE = TableError(
    "a quote that is never closed", "close it in its line; or declare multiline = true, if fields hold line ends"
)
_DIVIDE = "give every line one field for each column, and put fields that hold the delimiter in quotes"
_INNER = TableError("a quote in the middle of a field", 'put the whole field in quotes and double those in it ("…""…")')
_NUL = TableError("a NUL byte: this is not plain text", 'declare its encoding in the schema file (encoding = "utf-16")')
_LONE = TableError("a carriage return without a newline", "end lines with a newline")
_BLANK = TableError("a blank line, which is no record of several columns", "remove the line")
_NOT_JSON: TableError = NotJsonError("a line that is not JSON", "write one JSON object a line, and no blank lines")
_UTF16: TableError = NotJsonError("text in UTF-16", 'declare encoding = "utf-16" in the schema file')
_SAME_OR_NEW = (
    "pipe in the same records again from the first one on, or say with stdin_continues (--stdin-continues) "
    "that the pipe goes on with new ones"
)
_BROKEN_ARRAY = UncertainError(
    "an array with an element that is not JSON, and may be more than one record", "write one object a line"
)
_TOO_DEEP = TableError(f"a line that is nested more than {DEEPEST} levels deep", "write plain values only")
_NO_OBJECT = TableError("a line that is not a JSON object", "write one JSON object a line")

Bad = dict[int, TableError]
Parsed = tuple[Any, Bad]  # a pyarrow.Table of the good records, and what is wrong with each of the others


class TextFile:
    """The records of one input of text, from its start or from where an earlier run stopped."""

    def __init__(
        self,
        source: Input,
        fields: Fields,
        options: Options,
        look: Callable[[], None] = lambda: None,
        place: dict[str, Any] | None = None,
    ) -> None:
        self.source, self._fields, self._options = source, fields, options
        self.lines = Lines(source, options, look)
        self.seal, self.close = self.lines.raw.seal, self.lines.raw.close
        self.idle = self._continued = False  # nothing came when it was last looked for; a pipe has new records
        self._columns: list[str] | None = None
        self._parser: Csv | Json | None = None if source.format == "csv" else Json(fields)
        if place is not None:
            try:
                self._resume(place)
            except BaseException:
                self.close()
                raise

    @property
    def place(self) -> dict[str, Any]:
        """Where reading stopped, as a JSON object."""
        known = {"end": self.lines.size, "line": self.lines.line, "sha256": self.lines.digest.hexdigest()}
        return known | {"columns": self._columns, "continued": self._continued}

    def ahead(self, records: int, wait: float) -> int:
        """Read ahead so many records, and say how many there are: fewer if no more come within ``wait`` seconds."""
        lines = self.lines
        try:
            while (found := self._readable()) < records:
                if lines.fill(wait):
                    continue
                self.idle = bool(wait) and not lines.raw.ended
                if not self.idle:
                    lines.finish()
                    found = self._readable(final=True)
                return min(found, records)
        except TableError as error:
            raise error.at(file=self.source.name) from None
        self.idle = False
        return records

    def take(self, records: int) -> Batch:
        """The next records, which have been read ahead."""
        lines, line = self.lines, self.lines.line
        first, parser = not lines.size and not self._continued, self._parser
        assert parser is not None  # noqa: S101 - for the type checker: records come after the header
        data, ends, long = lines.take(records)
        if first and data.startswith(MARK):
            data, ends = data[len(MARK) :], ends - len(MARK)
        starts = np.concatenate(([0], ends[:-1])).tolist()
        try:
            table, wrong = parser.parse(data, ends)
        except TableError as error:
            raise error.at(file=self.source.name) from None
        if long:
            wrong |= dict.fromkeys(long, self._too_long)
        if lines.array:
            wrong |= {row: _BROKEN_ARRAY for row, error in wrong.items() if isinstance(error, NotJsonError)}
        bad = [
            BadRow(row, wrong[row], person=None if row in long else parser.person_of(data[starts[row] : ends[row]]))
            for row in sorted(wrong)
        ]
        newlines = positions_of(_NEWLINE, data) if lines.multiline else None

        def line_of(row: int) -> int:
            return line + (row if newlines is None else int(np.searchsorted(newlines, starts[row])))

        def text_of(row: int) -> str:
            text = b"" if row in long else data[starts[row] : ends[row]]
            return text.decode("utf-8", "surrogateescape").rstrip("\r\n")

        return Batch(table, records, tuple(bad), line_of, text_of, self.source.name)

    def _readable(self, *, final: bool = False) -> int:
        """How many records can be taken; those of CSV as soon as the header is there."""
        lines = self.lines
        while self._parser is None and len(lines.ends):
            line = lines.line
            first, _, long = lines.take(1)
            first = first.removeprefix(MARK)
            if long:
                raise self._too_long.at(line=line)
            if first.strip(b"\r\n"):
                try:
                    self._begin(header_of(first, self.source.delimiter, self._fields))
                except TableError as error:
                    raise error.at(line=line) from None
        if self._parser is None:
            if lines.letting_go is not None:
                raise self._too_long.at(line=lines.line)
            if final:
                raise TableError("the file is empty", "begin the file with the column names")
            return 0
        if final and not lines.size and lines.data == MARK:
            lines.take(1)
        return len(lines.ends)

    @property
    def _too_long(self) -> TableError:
        kind = UncertainError if self.lines.multiline or self.lines.array else TableError
        return kind(f"a line of more than {self._options.line_bytes >> 20} MB", "check the line ends of the file")

    def _begin(self, names: list[str]) -> None:
        self._columns = names
        self._parser = Csv(names, self._fields, self.source.delimiter, multiline=self.lines.multiline)

    def _resume(self, place: dict[str, Any]) -> None:
        """Go to where an earlier run stopped, and check that everything before is what it was."""
        piped, what = self.source.path is None, ""
        if place["columns"] is not None:
            self._begin(place["columns"])
        if piped and (self._options.stdin_continues or place["continued"]):
            self._continued = True
            what = "" if self._options.stdin_continues else "went on with new records"
        else:
            found = self.lines.skip(place["end"], self._options.poll_seconds if piped else 0)
            if found != place["sha256"]:
                what = "changed" if found else "became shorter"
        if what:
            error = changed(self.source.name, what)
            error.remedy = _SAME_OR_NEW if piped else error.remedy
            raise error


# ---- CSV


class Csv:
    """The CSV of one file, whose header is known."""

    def __init__(self, header: list[str], fields: Fields, delimiter: str, *, multiline: bool = False) -> None:
        self.header, self.fields, self.delimiter, self.multiline = header, fields, delimiter, multiline
        self._found_bad = False
        self._wanted = [str(index) for index in fields.indices(header, delimiter)]

    def parse(self, data: bytes, ends: Offsets) -> Parsed:
        """Whole records: their text, and where each of them ends."""
        if not data.endswith(b"\n"):
            data, ends = data + b"\n", np.append(ends[:-1], len(data) + 1)
        doubtful = self._found_bad or b'"' in data or b"\0" in data or data.count(b"\r") != data.count(b"\r\n")
        if len(self.header) > 1:
            doubtful = doubtful or data[:1] in b"\r\n" or b"\n\n" in data or b"\n\r\n" in data
        table = None if doubtful or not is_utf8(data) else self._read(data, STEP)
        if table is not None and table.num_rows == len(ends):
            return table, {}
        bad = self._bad(data, ends)
        self._found_bad = bool(bad)  # then the next records may hold some as well: one attempt less
        last = next((row for row, error in bad.items() if isinstance(error, UncertainError)), len(ends) - 1)
        bad = {row: bad[row] for row in sorted(bad) if row <= last}
        parts, start = list[bytes](), 0
        for row in bad:
            parts.append(data[start : int(ends[row - 1]) if row else 0])
            start = int(ends[row])
        data = b"".join([*parts, data[start : int(ends[last])]])
        table = self._read(data, len(data) + 5)
        if table is None or table.num_rows != last + 1 - len(bad):
            raise UncertainError("text that cannot be read as CSV", "check that it is CSV")
        return table, bad

    def _read(self, data: bytes, step: int) -> Any:  # noqa: ANN401 - a pyarrow.Table or None
        """All records as text, or None. pyarrow's own message is dropped: it shows values."""
        pa, pacsv, names = pyarrow(), pyarrow("csv"), list(self.fields.columns)
        if not data:
            return pa.table({name: pa.array([], "string") for name in names})
        if data.startswith(MARK):  # pyarrow leaves out a mark before text, but here it is part of a field
            data = MARK + data
        try:
            table = pacsv.read_csv(
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
            ).rename_columns(names)
        except pa.ArrowInvalid:
            return None
        for index, name in enumerate(names):
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
            before = np.searchsorted(quotes, starts)
            opens = (np.arange(len(quotes)) - before[row]) % 2 == 0
            left, right = text[np.maximum(quotes - 1, 0)], text[np.minimum(quotes + 1, len(text) - 1)]
            edge = np.zeros(256, dtype=np.bool_)
            edge[[ord(self.delimiter), _NEWLINE, _QUOTE]] = True
            wrong = opens & ~(edge[left] | (quotes == 0)) | ~opens & ~(edge[right] | (right == _RETURN))
            odd = np.flatnonzero(np.bincount(row, minlength=len(ends)) % 2)
            add(quotes[wrong], _INNER)
            bad = dict.fromkeys(odd.tolist(), OPEN_QUOTE) | bad
            if self.multiline and bad:
                first = min(bad)
                bad[first] = UncertainError(bad[first].problem, bad[first].remedy)
            for one in (marks, lone):
                inside = np.searchsorted(quotes, one) - before[np.searchsorted(ends, one, side="right")]
                one[inside % 2 == 1] = -1
            marks, lone = marks[marks >= 0], lone[lone >= 0]
        add(positions_of(0, data), _NUL)
        add(lone, _LONE)
        if len(self.header) > 1:
            for number in np.flatnonzero(ends - starts <= 2).tolist():
                if not data[starts[number] : ends[number]].strip(b"\r\n"):
                    bad.setdefault(number, _BLANK)
        counts = 1 + np.diff(np.searchsorted(marks, ends), prepend=0)
        for number in np.flatnonzero(counts != len(self.header)).tolist():
            said = f"the line has {counts[number]} field(s), but the header has {len(self.header)}"
            bad.setdefault(number, TableError(said, _DIVIDE))
        if not is_utf8(data):
            rows = np.unique(np.searchsorted(ends, np.flatnonzero(text > 127), side="right")).tolist()
            bad |= {n: NOT_UTF8 for n in rows if n not in bad and not is_utf8(data[starts[n] : ends[n]])}
        return bad

    def person_of(self, record: bytes) -> str | None:
        """The text that names the person of a line that is bad."""
        person, line, mark = self.fields.person, record.rstrip(b"\r\n"), self.delimiter.encode()
        if person is None:
            return None
        index = self.header.index(person)
        for _ in range(2):
            bad = self._bad(line + b"\n", np.array([len(line) + 1]))
            table = None if bad and bad[0] is not NOT_UTF8 else self._read(line + b"\n", len(line) + 5)
            if table is not None and table.num_rows == 1:
                name: bytes | None = table[person].cast("binary")[0].as_py()
                return None if name is None or not is_utf8(name) else name.decode()
            pieces = line.split(mark)
            if len(pieces) != len(self.header):
                return None
            line = mark.join(piece if place == index else b"" for place, piece in enumerate(pieces))
        return None


def header_of(record: bytes, delimiter: str, fields: Fields) -> list[str]:
    """The column names in the first line of a file."""
    if not is_utf8(record):
        raise (_UTF16 if record.startswith(_WIDE) else NOT_UTF8).at()
    text = record.decode().rstrip("\r\n")
    if "\0" in text or "\r" in text:
        raise (_NUL if "\0" in text else _LONE).at()
    field = rf'(?:"(?:[^"]|"")*"|[^"{re.escape(delimiter)}]*)'
    if not re.fullmatch(f"{field}(?:{re.escape(delimiter)}{field})*", text):
        remedy = fields.other_delimiter(text, delimiter)
        raise TableError("a header that is divided otherwise", remedy) if remedy else _INNER.at()
    return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


def is_utf8(text: bytes) -> bool:
    try:
        return text.isascii() or text.decode() is not None
    except UnicodeDecodeError:
        return False


# ---- JSON


_TYPED = {"number": "double", "integer": "int64", "boolean": "bool"}  # kinds that JSON has a type for
_ESCAPED_KEY = re.compile(rb'\\(?:[^"\\]|\\.)*"\s*:')
_MINUS_ZERO = re.compile(rb"-0\s*[,}]")
_MARKS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)


class Pairs(list[tuple[str, Any]]):
    """An object of JSON with its keys as they stand there."""


class Digits(str):
    """A number of JSON as it is written."""


class Json:
    """The JSON of one file. msgspec reads a line that has the types of the schema, Python's parser any other."""

    def __init__(self, fields: Fields) -> None:
        if not fields.named:
            raise TableError("JSON lines need column names, which this schema has not", "use a CSV or Parquet file")
        self._fields = fields
        parts = [name.split(".") for name in fields.columns]
        self._objects = {".".join(part[:end]) for part in parts for end in range(1, len(part))}  # that hold columns
        self._types = {name: _type_of(column) for name, column in fields.columns.items()}
        self._decode = None if self._objects else self._decoder()
        self._keys = {json.dumps(name, ensure_ascii=False).encode(): one for name, one in fields.columns.items()}

    def _decoder(self) -> Callable[[bytes], Any]:
        import msgspec  # here: what reads no JSON starts faster

        whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
        kinds: dict[str, Any] = {"double": float, "int64": whole, "bool": bool, "string": str | int | bool}
        typed = zip(self._types.values(), self._fields.columns.values(), strict=True)
        keys = [(f"c{n}", kinds[type_] | None, *([None] * column.missing)) for n, (type_, column) in enumerate(typed)]
        how: Any = {"rename": {f"c{n}": name for n, name in enumerate(self._types)}, "kw_only": True, "gc": False}
        how |= {"forbid_unknown_fields": not self._fields.ignore_extra}
        return msgspec.json.Decoder(msgspec.defstruct("Record", keys, **how)).decode

    def parse(self, data: bytes, ends: Offsets) -> Parsed:
        """Whole lines: their text, and where each of them ends."""
        starts = np.concatenate(([0], ends[:-1])).tolist()
        lines = [data[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]
        fast = self._fast(lines, data)
        odd, bad = dict[int, list[str | None]](), Bad()
        for row in range(len(lines)):
            if row not in fast:
                try:
                    odd[row] = self._values(lines[row])
                except TableError as error:
                    bad[row] = error
        records = list(fast.values())
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
            table = table.take(np.argsort([*fast, *odd]))
        return table, bad

    def _fast(self, lines: list[bytes], data: bytes) -> dict[int, Any]:
        """The records that msgspec reads, by line: those with the types of the schema, and with every key once."""
        found, decode = dict[int, Any](), self._decode
        if decode is None:
            return found
        plain = is_utf8(data) and data.count(b"[") + data.count(b"{") - len(lines) < DEEPEST
        for row, line in enumerate(lines):
            if plain or (is_utf8(line) and line.count(b"[") + line.count(b"{") <= DEEPEST):
                with suppress(ValueError, RecursionError):  # of msgspec; the message may hold values
                    found[row] = decode(line)
        escaped = b"\\" in data
        # A number in a column of text is what is written there, and the decoder makes 0 of −0.
        signed = "string" in self._types.values() and _MINUS_ZERO.search(data) is not None
        # Where every line has been read, a key that must be there is there as often as there are lines.
        sure = len(found) == len(lines) and not escaped
        keys = [
            key for key, column in self._keys.items() if column.missing or not sure or data.count(key) != len(lines)
        ]
        if keys or escaped or signed:
            for row in list(found):
                line = lines[row]
                odd = (escaped and _ESCAPED_KEY.search(line)) or (signed and _MINUS_ZERO.search(line))
                if odd or any(line.count(key) > 1 for key in keys):
                    del found[row]
        return found

    def person_of(self, record: bytes) -> str | None:
        """The text that names the person of a line that is bad; None unless it is an object with that key."""
        if self._fields.person is None:
            return None
        try:
            value = read_value(record, lenient=True)
        except TableError:
            return None
        pairs = self._flat(value) if isinstance(value, Pairs) else []
        found = [value for name, value in pairs if name == self._fields.person]
        text = None if len(found) != 1 or isinstance(found[0], list) else _text(found[0])
        return text if text is not None and is_unicode(text) else None

    def _values(self, line: bytes) -> list[str | None]:
        """The values of one line as text, in the order of the schema."""
        pairs = read_value(line)
        if not isinstance(pairs, Pairs):
            raise _NO_OBJECT.at()
        pairs = self._flat(pairs) if self._objects else pairs
        record = dict(pairs)
        columns, person = self._fields.columns, self._fields.person
        if sum(name in columns for name, _ in pairs) > sum(name in columns for name in record):
            raise TableError("an object that has a key twice", "write every key once")
        missing = [name for name, column in columns.items() if name not in record and not column.missing]
        if missing == [person]:
            raise TableError(f"missing key {listed(missing)}, which names the person", PERSON_MISSING)
        if missing:
            raise TableError(f"missing key {listed(missing)}", "add it, or declare missing = true")
        extra = sum(name not in columns for name in record)
        if extra and not self._fields.ignore_extra:
            raise TableError(f"{extra} key(s) that the schema does not name", EXTRA)
        for name in columns:
            value = record.get(name)
            if isinstance(value, list):
                raise TableError("a nested value", "write plain values only", column=name)
            if isinstance(value, str) and not is_unicode(value):
                raise TableError("text with half a character in it", "write whole characters", column=name)
        return [_text(record.get(name), column) for name, column in columns.items()]

    def _flat(self, pairs: Pairs, prefix: str = "") -> Pairs:
        """Keys with the keys inside of them: ``{"a": {"b": 1}}`` has ``a.b`` where the schema names that."""
        found = Pairs()
        for key, value in pairs:
            name = prefix + key
            if value is None and name in self._objects and name not in self._fields.columns:
                continue
            inner = isinstance(value, Pairs) and name in self._objects
            found += self._flat(value, f"{name}.") if inner else [(name, value)]
        return found


def _type_of(column: Column) -> str:
    """The type of Arrow that a column's values have, if JSON has it too, and they are written in the usual way."""
    usual = getattr(column, "format", None) is None and not (isinstance(column, WrittenNumber) and not column.is_plain)
    for text in column.null_values if usual else ():
        with suppress(TableError):
            usual = usual and column.text(text) is None  # else one value means two things
    return _TYPED.get(column.kind, "string") if usual else "string"


def _array(values: list[Any], type_: str) -> Any:  # noqa: ANN401 - a pyarrow.Array
    pa = pyarrow()
    try:
        return pa.array(values, type_)
    except (pa.ArrowTypeError, pa.ArrowInvalid):  # numbers or truth where text is wanted
        return pa.array([one if one is None or type(one) is str else _text(one) for one in values], type_)


def read_value(line: bytes, *, lenient: bool = False) -> Any:  # noqa: ANN401 - any value of JSON
    """A value; if ``lenient``, bytes that are no UTF-8 may stand in it, as half characters."""
    text, error = line.decode("utf-8", "surrogateescape"), _UTF16 if line.startswith(_WIDE) else _NOT_JSON
    if _is_deep(text):
        error = _TOO_DEEP if _is_deep_json(text) else _NOT_JSON
    else:
        with suppress(ValueError, RecursionError):
            found = json.loads(text, object_pairs_hook=Pairs, parse_int=Digits, parse_float=Digits, parse_constant=str)
            if lenient or is_utf8(line):
                return found
            error = NOT_UTF8
    raise error.at()  # outside of the handler: its exception holds the text


def is_json(text: bytes) -> bool:
    try:
        read_value(text)
    except TableError as error:
        return not isinstance(error, NotJsonError)
    return True


def _is_deep(text: str) -> bool:
    """Whether text has more levels of brackets and braces, outside of strings, than a record may have."""
    if text.count("[") + text.count("{") <= DEEPEST:
        return False
    # Parsers take as many as the calls that led to them have left: so there is a limit of our own.
    marks = (text[found.start()] for found in _MARKS.finditer(text))
    return any(level > DEEPEST for level in accumulate((mark in "[{") - (mark in "]}") for mark in marks))


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
    if isinstance(value, Digits):
        return value.replace(".", getattr(column, "decimal", "."))
    return value if value is None or isinstance(value, str) else json.dumps(value)
