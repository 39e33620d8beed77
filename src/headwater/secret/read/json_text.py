"""JSON lines as Arrow tables: one line, one object, one record.

The grammar is that of Python's parser. Numbers are kept as they are written and read by the grammar of their column
(`Column.read_text`), but for their point, which is JSON's own: ``decimal`` and ``thousands`` are about text. pyarrow
reads only blocks that it cannot read otherwise: each line looks like one plain object, and nothing occurs where it is
more lenient (several objects on a line, ``Inf``, deep nesting).
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from headwater.public.arrow import pyarrow
from headwater.public.column import Column
from headwater.public.errors import GIVE_PERSON, LEAVE_OUT, PERSON_MISSING, UNDECLARED, TableError, is_unicode, listed
from headwater.public.near_names import closest
from headwater.secret.read.csv_text import Bytes, is_since_year_1
from headwater.secret.read.fields import Field, Fields
from headwater.secret.read.json_value import DEEPEST, Digits, Pairs, read_characters, read_value
from headwater.secret.read.text_buffer import Offsets, positions_of

_TYPED = ("number", "integer", "boolean")  # kinds that JSON has a type for; all others are text
_INF = re.compile(rb"[:\[,]\s*-?Inf(?!inity)")  # what pyarrow takes for a number and Python does not
_BLOCK = 1 << 20  # bytes that pyarrow parses at a time; a thread for less would cost more than it saves


class JsonParser:
    """The JSON of one file: blocks of whole lines come one after another."""

    def __init__(self, fields: Fields, ignore_extra: bool) -> None:
        if not fields.named:
            raise TableError("JSON lines need column names, which this schema has not", "use a CSV or Parquet file")
        self._fields, self._naming, self._ignore_extra = fields.fields, fields.naming, ignore_extra
        self._person, self._names = fields.person, {field.name for field in fields.fields}
        parts = [field.name.split(".") for field in fields.fields]
        self._objects = {".".join(part[:end]) for part in parts for end in range(1, len(part))}
        """What may be an object that holds columns: pyarrow does not look into them."""

    def check_open(self, data: Bytes, line: int) -> None:
        """Any line may become a record."""

    def parse(self, data: bytearray, ends: Offsets, line: int) -> Any:  # noqa: ANN401 - a pyarrow.Table
        """Whole lines as a table."""
        table = self._read(data) if not self._objects and self._is_usual(data, ends) else None
        if table is not None and table.num_rows == len(ends) and not self._is_doubtful(table):
            columns = {field.name: self._converted(table[field.name], field, line) for field in self._fields}
        else:
            starts = np.concatenate(([0], ends[:-1])).tolist()
            texts = [bytes(data[start:end]) for start, end in zip(starts, ends.tolist(), strict=True)]
            rows = [self._values(text, line + row) for row, text in enumerate(texts)]
            columns = {}
            for index, field in enumerate(self._fields):
                column = pyarrow().chunked_array([[row[index] for row in rows]], "string")
                columns[field.name] = self._converted(column, field, line)
        return pyarrow().table(columns)

    def person_of(self, record: bytearray) -> str | None:
        """The text that names the person of a line that is bad; None unless it is an object with that key once."""
        if self._naming is None:
            return None
        try:
            value = read_characters(bytes(record).decode("utf-8", "surrogateescape"))
        except TableError:
            return None
        pairs = self._flat(value) if isinstance(value, Pairs) else []
        found = [value for name, value in pairs if name == self._naming.name]
        if len(found) != 1 or isinstance(found[0], list):
            return None
        text = _text(found[0])
        if text is None or not is_unicode(text):
            return None
        name: str | None = self._naming.without_nulls(pyarrow().chunked_array([[text]], "string"))[0].as_py()
        return name

    def _is_usual(self, data: bytearray, ends: Offsets) -> bool:
        """Whether every line begins and ends as an object does, so that pyarrow can only find whole objects in it.

        Between a closing and an opening brace JSON wants a comma, so no object goes on in the next line; with as many
        objects as lines, each line holds one.
        """
        text = np.frombuffer(data, dtype=np.uint8)
        starts, last = np.concatenate(([0], ends[:-1])), ends - 1
        last = last - (text[last] == 0x0A)
        last = last - (text[np.maximum(last, 0)] == 0x0D)
        plain = bool((text[starts] == 0x7B).all() and (text[np.maximum(last, 0)] == 0x7D).all())
        odd = (b"Inf" in data and _INF.search(data)) or b"-NaN" in data  # pyarrow takes them, and Python does not
        return plain and not odd and not self._is_deep(data, ends)

    def _is_deep(self, data: bytearray, ends: Offsets) -> bool:
        """Whether a line may be nested too deeply for a record; only in what is ignored can it be nested."""
        if not self._ignore_extra or data.count(b"[") + data.count(b"{") - len(ends) < DEEPEST:
            return False
        opening = np.concatenate((positions_of(0x5B, data), positions_of(0x7B, data)))
        return int(np.bincount(np.searchsorted(ends, opening, side="right")).max()) > DEEPEST

    def _is_doubtful(self, table: Any) -> bool:  # noqa: ANN401 - a pyarrow.Table
        """Whether values are missing where none may be, or are no finite numbers: then Python's parser has a look."""
        pc = pyarrow("compute")
        for field in self._fields:
            if table[field.name].null_count and not field.column.missing:
                return True
            if str(table[field.name].type) == "double" and pc.all(pc.is_finite(table[field.name])).as_py() is False:
                return True
        return False

    def _read(self, data: bytearray) -> Any:  # noqa: ANN401 - a pyarrow.Table or None
        """All lines with pyarrow, or None. Its own message is dropped: it may show values."""
        pa, pajson = pyarrow(), pyarrow("json")
        types = [(field.name, field.type if _is_typed(field) else pa.string()) for field in self._fields]
        extra = "ignore" if self._ignore_extra else "error"
        try:
            if not data.isascii():
                data.decode()
            return pajson.read_json(
                pa.BufferReader(data),
                pajson.ReadOptions(use_threads=len(data) > _BLOCK, block_size=_BLOCK),
                pajson.ParseOptions(explicit_schema=pa.schema(types), unexpected_field_behavior=extra),
            )
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return None

    def _converted(self, column: Any, field: Field, line: int) -> Any:  # noqa: ANN401 - a pyarrow.ChunkedArray
        if str(column.type) != "string":
            return column
        try:
            if field.column.kind == "datetime" and field.column.usual_text:
                times = column.cast(field.type)
                if is_since_year_1(times):
                    return times
        except pyarrow().ArrowInvalid:
            pass
        return field.without_nulls(field.from_text(column, lambda row: line + row))

    def _values(self, text: bytes, line: int) -> list[str | None]:
        """The values of one line as text, in the order of the schema."""
        try:
            pairs = read_value(text)
        except TableError as wrong:
            raise wrong.at(line=line) from None
        error = TableError("a line that is not a JSON object", "write one JSON object a line, and no blank lines")
        if isinstance(pairs, Pairs):
            pairs = self._flat(pairs) if self._objects else pairs
            record = dict(pairs)
            found = self._wrong(pairs, record)
            if found is None:
                return [_text(record.get(field.name), field.column) for field in self._fields]
            error = found
        raise error.at(line=line)

    def _flat(self, pairs: Pairs, prefix: str = "") -> Pairs:
        """Keys with the keys inside of them: ``{"a": {"b": 1}}`` has ``a.b`` where the schema names that.

        Where an object may be, null is one without keys, unless the schema names it as a column too.
        """
        found = Pairs()
        for key, value in pairs:
            name = prefix + key
            if value is None and name in self._objects and name not in self._names:
                continue
            inner = isinstance(value, Pairs) and name in self._objects
            found += self._flat(value, f"{name}.") if inner else [(name, value)]
        return found

    def _wrong(self, pairs: list[tuple[str, Any]], record: dict[str, Any]) -> TableError | None:
        names = [field.name for field in self._fields]
        known = [name for name, _ in pairs if name in names]
        if len(known) > len(set(known)):
            return TableError("an object that has a key twice", "write every key once")
        missing = [field.name for field in self._fields if field.name not in record and not field.column.missing]
        if missing:
            close = closest([name for name in names if name not in record], names, list(record))
            also = " (the record has one that is nearly the same)" if close else ""  # names are the sender's
            if missing == [self._person] and not close:
                problem = f"missing key {listed(missing)}, which names the person"
                return TableError(problem, PERSON_MISSING, sender=GIVE_PERSON)
            remedy = "add it, write its name as the file has it, or declare missing = true for the column"
            sender = "write the name as the schema has it" if close else "add it"
            return TableError(f"missing key {listed(missing)}{also}", remedy, sender=sender)
        extra = [name for name in record if name not in names]
        if extra and not self._ignore_extra:
            return TableError(f"{len(extra)} key(s) that the schema does not name", UNDECLARED, sender=LEAVE_OUT)
        for name in known:
            value = record[name]
            if isinstance(value, list):
                return TableError("a nested value", "write plain values only", column=name)
            if isinstance(value, str) and not is_unicode(value):
                return TableError("text with half a character in it", "write whole characters", column=name)
        return None


def _is_typed(field: Field) -> bool:
    """Whether JSON has a type for what the column holds, and text in it is not read in some way of its own."""
    return field.column.kind in _TYPED and field.column.usual_text


def _text(value: Any, column: Column | None = None) -> str | None:  # noqa: ANN401 - a plain value of JSON
    """The text of a value; a number has its point where text of the column has its decimal sign."""
    if isinstance(value, Digits):
        return str(value).replace(".", getattr(column, "decimal", "."))
    return value if value is None or isinstance(value, str) else json.dumps(value)
