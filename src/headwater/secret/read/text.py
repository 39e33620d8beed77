"""One input of text: its header, its records, and the place behind those that were taken."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from headwater.public.errors import TableError
from headwater.public.tally import BadRow
from headwater.secret.read.batch import Part
from headwater.secret.read.csv_lines import MARK, Csv, UncertainError, header_of, without
from headwater.secret.read.fields import Fields
from headwater.secret.read.json_lines import Json, NotJsonError
from headwater.secret.read.lines import Input, InputChangedError, Offsets, Raw, Records, Text, changed, positions_of
from headwater.secret.read.options import Options

Place = dict[str, Any]
"""Where in a file reading stopped, as a JSON object."""
_BROKEN_ARRAY = UncertainError(
    "an array with an element that is not JSON, and may be more than one record", "write one object a line"
)


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
    """The records of one input of text, from its start or from where an earlier run stopped."""

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
        return self._text.ended

    @property
    def unfinished(self) -> int:
        return len(self._records.data)

    def close(self) -> None:
        self.raw.close()

    @property
    def place(self) -> Place:
        if self._before_long is not None:
            return self._before_long
        known: Place = {"header": self._header, "end": self._size, "line": self._line}
        if self.source.path is None:
            known |= {"columns": self._columns, "continued": self._continued}
        return {**known, "sha256": self._digest.hexdigest()}

    def next(self, limit: int, wait: float) -> Part | None:
        """At most ``limit`` of the next records; None if no more come within ``wait`` seconds."""
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
        """Parse the next block: some megabytes of records, or all that there are."""
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
        kept = without(data[: int(ends[-1])], ends, long.tolist())
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
            newlines = positions_of(0x0A, data)
            lines = self._line + np.searchsorted(newlines, np.append(starts[:last], ends[-1]))
        else:
            lines = self._line + np.arange(last + 1)
            lines[-1] -= not data[: int(ends[-1])].endswith(b"\n")
        return _Block(table, data, ends, lines, bad, frozenset(long.tolist()))

    @property
    def _is_uncertain(self) -> bool:
        return self._multiline or self._text.array is not None

    @property
    def _too_long(self) -> TableError:
        kind = UncertainError if self._is_uncertain else TableError
        return kind(f"a line of more than {self._options.line_bytes >> 20} MB", "check the line ends of the file")

    def _let_go(self) -> None:
        if self._parser is None or self._is_uncertain:
            raise self._too_long.at(line=self._line)
        self._before_long = self._before_long or self.place
        self._take(bytes(self._records.data[:-1]))
        del self._records.data[:-1]

    def _take(self, data: bytes | memoryview) -> None:
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
            raise TableError("text in UTF-16", 'declare encoding = "utf-16" in the schema file', line=1)
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
        """Take bytes that an earlier run took; None if there are not so many."""
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
        if self.source.path is not None:
            return changed(self.source.name, what)
        remedy = (
            "pipe in the same records again from the first one on, or say with stdin_continues (--stdin-continues) "
            "that the pipe goes on with new ones"
        )
        return InputChangedError(f"the input {what} since it was read", remedy, file=self.source.name)
