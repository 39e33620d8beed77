"""Blocks of JSON lines as Arrow tables: one object a line."""

from __future__ import annotations

import json
from typing import Any

from headwater.table.errors import TableError, is_unicode, listed
from headwater.table.readers.arrow import arrow
from headwater.table.readers.layout import Field, Layout
from headwater.table.readers.records import Bytes, newlines_in

_TYPES: dict[str, set[type]] = {"number": {int, float}, "integer": {int}, "boolean": {bool}}
"""What JSON values of a kind are, where there is an Arrow type for them; all others are handed on as text."""


class JsonParser:
    """The JSON of one file: blocks of whole lines come one after another."""

    def __init__(self, layout: Layout, ignore_extra: bool) -> None:
        if not layout.named:
            raise TableError("JSON lines need column names, which this schema has not", "use a CSV or Parquet file")
        self._fields, self._ignore_extra = layout.fields, ignore_extra

    def cut(self, buffer: Bytes, line: int) -> int:
        """Just behind the last complete line."""
        return buffer.rfind(b"\n") + 1

    def finish(self, tail: Bytes, line: int) -> None:
        """A last line may lack its newline."""

    def line(self, data: Bytes, line: int, row: int) -> int:
        """The line of one record; blank lines are none."""
        return _lines(data, line)[row][0]

    def start(self, data: Bytes, row: int) -> int:
        """Where the line of one record begins."""
        number = self.line(data, 0, row)
        return sum(len(text) + 1 for text in bytes(data).split(b"\n", number)[:number])

    def parse(self, data: Bytes, line: int) -> Any:  # noqa: ANN401 - a pyarrow.Table
        """A block of lines as a table."""
        table = self._read(data)
        lines = newlines_in(data) + (not data.endswith(b"\n"))
        gaps = table is not None and any(table[f.name].null_count and not f.missing for f in self._fields)
        if table is None or gaps or table.num_rows != lines:
            table = self._read_slowly(data, line)
        return arrow().table({field.name: _moments(table[field.name], field) for field in self._fields})

    def _read(self, data: Bytes) -> Any:  # noqa: ANN401
        """The fast way, or None. pyarrow's own message is dropped: it may show values."""
        pa, pajson = arrow(), arrow("json")
        fields = [(field.name, field.types[0] if field.kind in _TYPES else pa.string()) for field in self._fields]
        extra = "ignore" if self._ignore_extra else "error"
        try:
            if not data.isascii():
                data.decode()
            return pajson.read_json(
                pa.BufferReader(data),
                pajson.ReadOptions(block_size=1 << 20),
                pajson.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior=extra),
            )
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return None

    def _read_slowly(self, data: Bytes, line: int) -> dict[str, Any]:
        """Line by line, to find what is wrong and where, or to take what only the codecs understand."""
        rows = [self._object(text, where) for where, text in _lines(data, line)]
        return {field.name: _array([row.get(field.name) for row in rows], field) for field in self._fields}

    def _object(self, text: bytes, line: int) -> dict[str, Any]:
        record: Any = None
        error = TableError("a line that is not a JSON object", "write one JSON object a line")
        try:
            record = json.loads(text.decode(), object_pairs_hook=_once)
        except UnicodeDecodeError:
            error = TableError("text that is not UTF-8", "save the file as UTF-8")
        except _TwiceError:
            error = TableError("an object that has a key twice", "write every key once")
        except (ValueError, RecursionError):
            error = TableError("a line that is not JSON", "write one JSON object a line")
        if isinstance(record, dict):
            wrong = self._wrong(record)
            if wrong is None:
                return record
            error = wrong
        raise error.at(line=line)  # outside of the handlers: their exceptions hold the text

    def _wrong(self, record: dict[str, Any]) -> TableError | None:
        missing = [field.name for field in self._fields if field.name not in record and not field.missing]
        if missing:
            return TableError(f"missing key {listed(missing)}", "add it, or declare missing = true for the column")
        extra = len(record) - sum(field.name in record for field in self._fields)
        if extra and not self._ignore_extra:
            remedy = "add them to the schema, or read with ignore_extra (--ignore-extra)"
            return TableError(f"{extra} extra key(s) that the schema does not name", remedy)
        for field in self._fields:
            value = record.get(field.name)
            if isinstance(value, dict | list):
                return TableError("a nested value", "write plain values only", column=field.name)
            if isinstance(value, str) and not is_unicode(value):
                return TableError("text with half a character in it", "write whole characters", column=field.name)
        return None


def _array(values: list[Any], field: Field) -> Any:  # noqa: ANN401 - a pyarrow.Array
    """Values of one column; as text where they are not of one plain kind, so that the codec finds the wrong one."""
    pa = arrow()
    kinds = {type(value) for value in values if value is not None}
    if kinds and kinds <= _TYPES.get(field.kind, set()):
        try:
            return pa.array(values, field.types[0])
        except (pa.ArrowInvalid, OverflowError):  # whole numbers beyond a machine word
            pass
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pa.array(texts, "string")


def _moments(column: Any, field: Field) -> Any:  # noqa: ANN401
    """Text as dates and times, if all of it is written in the usual way; otherwise the codec has a look."""
    pa = arrow()
    if field.kind == "datetime":
        try:
            return column.cast(field.types[0])
        except pa.ArrowInvalid:
            pass
    return column


class _TwiceError(Exception):
    """A key that is there twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise _TwiceError
    return record


def _lines(data: Bytes, first: int) -> list[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers."""
    return [(number, text) for number, text in enumerate(bytes(data).split(b"\n"), first) if text.strip()]
