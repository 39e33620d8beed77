"""One file of text records, read from the start or from where an earlier run stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headwater.public.errors import TableError
from headwater.public.tally import BadRow, with_way_out
from headwater.secret.read.bad_lines import read_lines
from headwater.secret.read.csv_text import CsvParser, line_of, parse_header
from headwater.secret.read.encodings import ConvertedStream
from headwater.secret.read.fields import Fields
from headwater.secret.read.json_array import ArrayLines
from headwater.secret.read.json_text import JsonParser
from headwater.secret.read.json_value import NotJsonError
from headwater.public.narrowing import narrowed
from headwater.secret.read.options import InputChangedError, Options, changed
from headwater.secret.read.paths import Input
from headwater.secret.read.stream import StandardInput, open_stream
from headwater.secret.read.text_buffer import Offsets, TextBuffer, TextDigest

FilePosition = dict[str, Any]
"""Where in a file reading stopped, as a JSON object."""

_MARK = b"\xef\xbb\xbf"  # what some editors put before UTF-8 text
_BROKEN_ARRAY = TableError(
    "an array with an element that is not JSON, and may be more than one record",
    "make the file anew; or write one object a line, where bad rows can be left out one by one (bad_rows)",
)
_NO_ARRAY = TableError(
    "a file of lines that is called JSON: its first record would decide how all are read",
    "call it .jsonl, or give jsonl as its format (--input-format)",
)


@dataclass(frozen=True)
class Part:
    """Some records of a file."""

    table: Any
    """A ``pyarrow.Table`` of those that could be read."""
    line: Callable[[int], int | None]
    """In which line of the file record ``n`` begins."""
    records: int
    """How many records there are, with the bad ones."""
    bad: tuple[BadRow, ...] = ()
    """Those that could not be read: they are in the order of arrival, and not in the table."""
    text: Callable[[int], str | None] = lambda row: None
    """Record ``n`` as it stands in the file."""


@dataclass
class _Block:
    """Records that have been parsed; the first ``taken`` of them have been handed out."""

    table: Any
    data: bytearray
    ends: Offsets
    lines: Offsets
    """The line in which each record begins, and the line behind the last."""
    bad: tuple[BadRow, ...] = ()
    """Records that are not in the table."""
    long: frozenset[int] = frozenset()
    """Those that are too long to be looked at."""
    taken: int = 0

    def text(self, record: int) -> str:
        """One record as it stands in the file; bytes that are no text are kept as half characters."""
        if record in self.long:
            return ""
        start = int(self.ends[record - 1]) if record else 0
        return bytes(self.data[start : int(self.ends[record])]).decode("utf-8", "surrogateescape").rstrip("\r\n")


_NOTHING = np.empty(0, dtype=np.int64)


class TextFile:
    """One CSV or JSON lines file.

    A position is: how long the header is, the byte (decompressed) and the line behind the last record that was taken,
    and the SHA-256 of everything before that byte, so that what was read can be checked.
    """

    def __init__(self, source: Input, fields: Fields, options: Options, position: FilePosition | None = None) -> None:
        self._source, self._fields, self._options = source, fields, options
        self._stream = open_stream(source, options.encoding, rotates=options.follow)
        # Where bad rows do not stop the run, a line is a record whatever is in it: a quote that is never closed must
        # not take the lines after it along.
        self._lines = options.bad_rows != "stop"
        self._buffer = TextBuffer(self._stream, quoted=source.format == "csv" and not self._lines)
        self._digest = TextDigest()
        self._line, self._header = 1, 0
        self._columns: list[str] | None = None
        self._parser: CsvParser | JsonParser | None = None
        self._block = _Block(None, bytearray(), _NOTHING, _NOTHING)
        self._cautious = False  # after a block with a refused record, no more is parsed than is asked for
        self._unfinished = False  # whether an earlier run took the last line without its newline
        self._continued = False
        self._before_long: Callable[[], FilePosition] | None = None  # the position, if part of a line was let go
        self.idle = False
        """Whether nothing more came when it was last looked for."""
        try:
            if position is not None:
                self._resume(position)
        except BaseException:
            self.close()
            raise

    @property
    def ended(self) -> bool:
        """Whether there can never be more."""
        return self._buffer.ended

    @property
    def digest(self) -> str:
        """SHA-256 of what was read."""
        return self._digest.snapshot()()

    @property
    def moved(self) -> bool:
        """Whether the file no longer has its name. It is read on all the same."""
        return self._stream.moved

    @property
    def linked(self) -> bool:
        """Whether the file has any name."""
        return self._stream.linked

    @property
    def written(self) -> int:
        """When the file was last written to, in nanoseconds, as it was seen before it was read."""
        return self._stream.written

    @property
    def grown(self) -> bool:
        """Whether there is more in the file than was read, whatever its name is now."""
        return self._stream.grown

    @property
    def inode(self) -> tuple[int, int]:
        """What identifies this file among all that are there."""
        return self._stream.inode

    @property
    def edges(self) -> tuple[int, bytes, bytes]:
        """How much was read, and the beginning and the end of it."""
        return self._digest.size, self._digest.head, self._digest.tail

    @property
    def unfinished(self) -> int:
        """How many bytes were read of a record that has not ended."""
        return len(self._buffer.data)

    def stop(self) -> None:
        """Take no more out of a pipe: `next` gives the records that were read, and nothing then."""
        stream = self._stream.raw if isinstance(self._stream, ConvertedStream) else self._stream
        if isinstance(stream, StandardInput):
            stream.stopped = True

    def close(self) -> None:
        """Close the file."""
        self._digest.close()
        self._stream.close()

    def digest_to_end(self) -> str:
        """SHA-256 of the whole content."""
        while self._skip(self._options.block_bytes) is not None:
            pass
        return self.digest

    def next(self, limit: int, wait: float) -> Part | None:
        """At most ``limit`` of the next records; None if no more come within ``wait`` seconds.

        With ``wait = 0`` the file is complete: a last line without a newline is a record.
        """
        block = self._block
        if block.taken == len(block.ends):
            try:
                if not self._load(limit, wait):
                    return None
            except TableError as error:
                raise error.at(file=self._source.name) from None
            block, self._before_long = self._block, None
        first, lines = block.taken, block.lines
        start = int(block.ends[first - 1]) if first else 0
        block.taken = last = min(first + limit, len(block.ends))
        self._digest.update(memoryview(block.data)[start : int(block.ends[last - 1])])
        self._line = int(lines[last])
        before = sum(bad.row < first for bad in block.bad)
        bad = tuple(replace(bad, row=bad.row - first) for bad in block.bad if first <= bad.row < last)
        table = block.table.slice(first - before, last - first - len(bad))
        return Part(table, lambda row: int(lines[first + row]), last - first, bad, lambda row: block.text(first + row))

    def position(self) -> Callable[[], FilePosition]:
        """What gives the position behind the last part: the digest may still be on its way."""
        if self._before_long is not None:
            return self._before_long
        known: FilePosition = {"header": self._header, "end": self._digest.size, "line": self._line}
        if self._source.path is None:
            known |= {"columns": self._columns, "continued": self._continued}
        digest = self._digest.snapshot()
        return lambda: {**known, "sha256": digest()}

    def _load(self, limit: int, wait: float) -> bool:
        """Parse the next block: some megabytes of records, or all that there are. False if there are none."""
        buffer = self._buffer
        while True:
            if self._parser is None:
                self._read_header(final=False)
            found = len(buffer.ends) if self._parser else 0
            if found >= limit or (found and len(buffer.data) >= self._options.block_bytes):
                break
            if not found:
                self._check_open()  # also where a line is a record: no line is longer than memory allows
            if self._fill(wait):
                continue
            self.idle = bool(wait) and not buffer.ended
            if found:
                break
            if self.idle:
                return False
            if self._parser is None:
                self._read_header(final=True)
            if self._parser is None or not buffer.data:
                return False
            if buffer.unclosed:
                line = line_of(buffer.data, buffer.data.rindex(b'"'), self._line)
                remedy = "close the quotes; double those inside a field"
                raise TableError("a quote that is never closed", remedy, line=line)
            buffer.finish()
            break
        data, ends = buffer.take(limit if self._cautious else len(buffer.ends))
        while True:
            try:
                self._block = self._parsed(data, ends, self._line)
            except TableError as error:
                self._cautious = True
                if limit >= len(ends):
                    first = error if self._lines else self._first_error(data, ends, error)
                    final = self._lines or first.problem == _BROKEN_ARRAY.problem
                    raise first if final else with_way_out(first) from None
                # What is before the refused record is handed out first, whatever was read with it.
                size = int(ends[limit - 1])
                buffer.put_back(data[size:], ends[limit:] - size)
                data, ends = data[:size], ends[:limit]
            else:
                return True

    def _first_error(self, data: bytearray, ends: Offsets, error: TableError) -> TableError:
        """What is wrong with the first of some records: of those before the one with this ``error`` also the values."""
        starts = np.concatenate(([0], ends[:-1]))

        def parsed(first: int, last: int) -> _Block:
            start = int(starts[first])
            text, line = data[start : int(ends[last - 1])], line_of(data, start, self._line)
            return self._parsed(text, ends[first:last] - start, line)

        for _, _, found in narrowed(len(ends), parsed):
            if isinstance(found, TableError):
                return found
            wrong = self._fields.first_wrong(found.table)
            if wrong is not None and wrong.row is not None:
                return wrong.at(line=int(found.lines[wrong.row]))
        return error

    def _parsed(self, data: bytearray, ends: Offsets, line: int) -> _Block:
        """Some records that begin in this line of the file."""
        parser, starts = self._parser, np.concatenate(([0], ends[:-1]))
        assert parser is not None  # noqa: S101 - for the type checker: records come after the header
        array = self._is_array
        long = dict.fromkeys(np.flatnonzero(ends - starts > self._options.line_bytes).tolist(), self._too_long)
        if self._before_long is not None:
            long[0] = self._too_long
        if long and (array or not self._lines):
            raise self._too_long.at(line=line_of(data, int(starts[min(long)]), line))
        bad: tuple[BadRow, ...] = ()
        try:
            if self._lines:
                how: Any = {"quoted": self._source.format == "csv", "refused": (NotJsonError,) if array else ()}
                table, bad = read_lines(parser, data, ends, line, empty=self._fields.empty, unread=long, **how)
            else:
                table = parser.parse(data, ends, line)
        except NotJsonError as error:
            raise _BROKEN_ARRAY.at(line=error.line) if array else error from None
        if self._buffer.multiline:
            newlines = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == 0x0A)
            lines = line + np.searchsorted(newlines, np.append(starts, len(data)))
        else:
            lines = line + np.arange(len(ends) + 1)
            lines[-1] -= not data.endswith(b"\n")
        return _Block(table, data, ends, lines, bad, frozenset(long))

    @property
    def _is_array(self) -> bool:
        """Whether the lines are elements of a JSON array."""
        converter = getattr(self._stream, "converter", None)
        return isinstance(converter, ArrayLines) and not converter.transparent

    def _check_open(self) -> None:
        """Refuse a record as soon as it is clear that it cannot be one."""
        if len(self._buffer.data) > self._options.line_bytes:
            if self._parser is None or self._is_array or not self._lines:
                raise self._too_long.at(line=self._line)
            self._let_go()
        if self._parser is not None and not self._lines:
            self._parser.check_open(self._buffer.data, self._line)

    def _let_go(self) -> None:
        """Keep of a line that is too long no more than its last byte so far; a later run begins with the line again."""
        self._before_long = self._before_long or self.position()
        self._digest.update(bytes(self._buffer.data[:-1]))
        del self._buffer.data[:-1]

    @property
    def _too_long(self) -> TableError:
        problem = f"a line of more than {self._options.line_bytes >> 20} MB"
        return TableError(problem, "check the line ends and the quotes of the file")

    def _fill(self, wait: float) -> int:
        """Read more; how much there was."""
        self._stream.check(self._digest.size, lambda: self.digest)
        found = self._buffer.fill(self._options.block_bytes, wait)
        self.idle = False
        if found and self._unfinished and self._buffer.data != b"\r":
            if not self._buffer.data.startswith((b"\n", b"\r\n")):
                raise changed(self._source.name, "went on with its last line, which was not complete,")
            self._digest.update(self._buffer.take(1)[0])  # the newline of the line that was taken
            self._line += 1
            self._unfinished = False
        return found

    def _read_header(self, *, final: bool) -> None:
        """Make the parser as soon as the first line is there."""
        buffer = self._buffer
        records = self._source.is_json or self._continued  # if so, what comes first is one, and may be anything
        if buffer.data.startswith((b"\xff\xfe", b"\xfe\xff")) and not (self._digest.size or (records and self._lines)):
            remedy = "give encoding utf-16 (--encoding), or save it as UTF-8"
            raise TableError("text in UTF-16", remedy, line=1)
        if self._source.is_json:
            if final or not _MARK.startswith(buffer.data[: len(_MARK) - 1]) or len(buffer.data) >= len(_MARK):
                if self._source.format == "json" and self._lines and buffer.data and not self._is_array:
                    raise _NO_ARRAY.at()
                if buffer.data.startswith(_MARK) and not self._continued:
                    self._header = len(_MARK)
                    self._digest.update(_MARK)
                    del buffer.data[: len(_MARK)]
                    buffer.ends = buffer.ends - len(_MARK)
                self._parser = JsonParser(self._fields, self._options.ignore_extra)
            return
        if self._continued:
            assert self._columns is not None  # noqa: S101 - for the type checker: kept with the position
            self._parser = self._csv_parser(self._columns)  # a pipe that goes on has no second header
            return
        if final:
            buffer.finish()
        while len(buffer.ends):
            first, _ = buffer.take(1)
            line = self._line
            self._line += first.count(b"\n")
            self._digest.update(first)
            self._header = self._digest.size
            if first.strip(b"\r\n"):
                self._columns = parse_header(first.removeprefix(_MARK), self._source.delimiter, line)
                try:
                    self._parser = self._csv_parser(self._columns)
                except TableError as error:
                    raise error.at(line=line) from None
                return
        if final:
            raise TableError("the file is empty", "begin the file with the column names")

    def _csv_parser(self, names: list[str]) -> CsvParser:
        options = self._options
        return CsvParser(
            names,
            self._fields,
            delimiter=self._source.delimiter,
            ignore_extra=options.ignore_extra,
        )

    def _resume(self, position: FilePosition) -> None:
        """Go to where an earlier run stopped, and check that everything before is what it was."""
        if self._source.path is None and (self._options.stdin_continues or position["continued"]):
            if not self._options.stdin_continues:
                raise self._other("went on with new records")
            self._columns, self._continued = position["columns"], True
            return
        header = self._skip(position["header"], keep=True)
        if header is None or self._skip(position["end"] - position["header"]) is None:
            raise self._other("became shorter")
        if self.digest != position["sha256"]:
            raise self._other("changed")
        self._header, self._line = position["header"], position["line"]
        self._unfinished = self._digest.last != b"\n"
        if self._source.is_json:
            self._parser = JsonParser(self._fields, self._options.ignore_extra)
        elif header:
            names = header.lstrip(b"\r\n").removeprefix(_MARK)
            self._columns = parse_header(names, self._source.delimiter, 1)
            self._parser = self._csv_parser(self._columns)

    def _skip(self, size: int, *, keep: bool = False) -> bytes | None:
        """Take bytes that an earlier run took; None if there are not so many. Empty unless ``keep``."""
        kept, chunk = bytearray(), bytearray(min(size, self._options.block_bytes))
        piped = self._source.path is None
        wait = self._options.poll_seconds if piped else 0
        while size > 0:
            with memoryview(chunk) as view:
                found = self._stream.read_into(view[: min(size, len(chunk))], wait)
            if not found and (self._stream.ended or not piped):
                return None
            data = bytes(chunk[:found])
            self._digest.update(data)
            size -= found
            kept += data if keep else b""
        return bytes(kept)

    def _other(self, what: str) -> InputChangedError:
        """The error for input that is not what an earlier run read."""
        if self._source.path is not None:
            return changed(self._source.name, what)
        remedy = (
            "pipe in the same records again from the first one on (what was read is skipped), or, if the pipe goes on "
            "with new records only, say so with stdin_continues (--stdin-continues)"
        )
        return InputChangedError(f"the input {what} since it was read", remedy, file=self._source.name)
