"""JSON, one object a line, as Arrow columns.

Numbers and truth values come in columns of their type; where a line of a block has another type than the schema, all
values of the block come as text, as they are written. Whether a line is a record, and what it holds, is a function of
that line alone (`proofs/tables.md`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter
from typing import Annotated, Any

import numpy as np

from headwater.public.columns import Column
from headwater.public.errors import PERSON_MISSING, TableError, is_unicode, listed
from headwater.public.tables import pyarrow
from headwater.secret.read.csv_lines import NOT_UTF8, Bad, Parsed, is_utf8
from headwater.secret.read.fields import EXTRA, Fields, usual_text
from headwater.secret.read.lines import Offsets

DEEPEST = 128
"""Levels of nesting that a record may have."""


class NotJsonError(TableError):
    """A line that is not JSON."""


_NOT_JSON: TableError = NotJsonError("a line that is not JSON", "write one JSON object a line, and no blank lines")
_TOO_DEEP = TableError(f"a line that is nested more than {DEEPEST} levels deep", "write plain values only")
_NO_OBJECT = TableError("a line that is not a JSON object", "write one JSON object a line")
_TYPED = {"number": "double", "integer": "int64", "boolean": "bool"}  # kinds that JSON has a type for
_ESCAPED_KEY = re.compile(rb'\\(?:[^"\\]|\\.)*"\s*:')
_MINUS_ZERO = re.compile(rb"-0\s*[,}]")
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
            name: _TYPED[column.kind] if column.kind in _TYPED and usual_text(column) else "string"
            for name, column in fields.columns.items()
        }
        self._decode = None if self._objects else self._decoder()
        self._keys = [
            (json.dumps(name, ensure_ascii=False).encode(), column) for name, column in fields.columns.items()
        ]

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
        keys = [key for key, column in self._keys if column.missing or not sure or data.count(key) != len(lines)]
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
            value = read_characters(record.decode("utf-8", "surrogateescape"))
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


def _array(values: list[Any], type_: str) -> Any:  # noqa: ANN401 - a pyarrow.Array
    pa = pyarrow()
    try:
        return pa.array(values, type_)
    except (pa.ArrowTypeError, pa.ArrowInvalid):  # numbers or truth where text is wanted
        return pa.array([one if one is None or type(one) is str else _text(one) for one in values], type_)


def read_value(text: bytes) -> Any:  # noqa: ANN401 - any value of JSON
    found = read_characters(text.decode("utf-8", "surrogateescape"))
    if not is_utf8(text):
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
    try:
        read_value(text)
    except TableError as error:
        return not isinstance(error, NotJsonError)
    return True


def _is_deep(text: str) -> bool:
    """Whether text has more levels of brackets and braces, outside of strings, than a record may have."""
    if text.count("[") + text.count("{") <= DEEPEST:
        return False
    level = 0  # parsers take as many as the calls that led to them have left: so there is a limit of our own
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
    if isinstance(value, Digits):
        return str(value).replace(".", getattr(column, "decimal", "."))
    return value if value is None or isinstance(value, str) else json.dumps(value)
