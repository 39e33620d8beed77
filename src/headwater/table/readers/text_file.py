"""One file of text records, read block by block from the start or from where an earlier run stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from headwater.table.errors import TableError
from headwater.table.readers.csv_text import CsvParser, parse_header
from headwater.table.readers.json_text import JsonParser
from headwater.table.readers.layout import Layout
from headwater.table.readers.options import InputChangedError, Options, changed
from headwater.table.readers.paths import Input
from headwater.table.readers.records import Bytes, check_bytes, check_quotes, end_of_first, newlines_in, quotes_in
from headwater.table.readers.stream import open_stream
from headwater.table.readers.tape import Tape

Place = dict[str, Any]
"""Where in a file reading stopped, as a JSON object."""


@dataclass(frozen=True)
class Block:
    """Some records of a file."""

    table: Any
    place: Callable[[int], Place]
    """Where in the file the block is read up to its row ``n``."""
    line: Callable[[int], int | None]
    """In which line of the file row ``n`` begins."""


class Parser(Protocol):
    """What the two text formats have to know."""

    def cut(self, buffer: Bytes, line: int) -> int:
        """Just behind the last complete record."""

    def finish(self, tail: Bytes, line: int) -> None:
        """Raise an error if what is left at the end of the file is not a record."""

    def parse(self, data: Bytes, line: int) -> Any:  # noqa: ANN401 - a pyarrow.Table
        """Whole records as a table."""

    def line(self, data: Bytes, line: int, row: int) -> int:
        """The line of one record, if the block begins in ``line``."""

    def start(self, data: Bytes, row: int) -> int:
        """Where in the block one record begins."""


class TextFile:
    """One CSV or JSON lines file.

    A place is: how long the header is, where the last block starts and ends (in bytes, decompressed), in which line
    it starts, how many of its rows were taken, and the SHA-256 of everything up to its end. So a place can be in the
    middle of a block, and what was read can be checked.
    """

    def __init__(self, source: Input, layout: Layout, options: Options, place: Place | None = None) -> None:
        self._source, self._layout, self._options = source, layout, options
        self._tape = Tape(open_stream(source, options.poll_seconds))
        self._line, self._header = 1, 0
        self._columns: list[str] | None = None
        self._parser: Parser | None = None
        self._again: tuple[bytes, int] | None = None  # a block that an earlier run took in part, and how many rows
        self._unfinished = False  # whether an earlier run took the last line without its newline
        self._continued = False
        try:
            if place is not None:
                self._resume(place)
        except BaseException:
            self.close()
            raise

    @property
    def ended(self) -> bool:
        """Whether there can never be more."""
        return self._tape.ended

    @property
    def digest(self) -> str:
        """SHA-256 of what was read."""
        return self._tape.digest

    def close(self) -> None:
        """Close the file."""
        self._tape.close()

    def digest_to_end(self) -> str:
        """SHA-256 of the whole content."""
        self._tape.take_all(self._options.block_bytes)
        return self.digest

    def next(self, *, final: bool) -> tuple[Block, int] | None:
        """The next block and how many of its rows were taken before; None if there is none at present.

        With ``final`` the file is complete: a last line without a newline is a record.
        """
        try:
            if self._again is not None:
                (data, skip), self._again = self._again, None
                return self._block(data), skip
            fresh = self._take(final)
            return None if fresh is None else (self._block(fresh, self._tape.before), 0)
        except TableError as error:
            raise error.at(file=self._source.name) from None

    def _block(self, data: Bytes, before: Any = None) -> Block:  # noqa: ANN401 - a hash object
        parser, first, end = self._parser, self._line, self._tape.offset
        assert parser is not None  # noqa: S101 - for the type checker: records come after the header
        table = parser.parse(data, first)
        self._line = after = first + newlines_in(data)
        rows, start = table.num_rows, end - len(data)
        common = {"header": self._header, "end": end, "sha256": self._tape.digest}
        if self._source.path is None:
            common |= {"columns": self._columns, "continued": self._continued}

        def place(row: int) -> Place:
            if row == rows:
                return {**common, "start": end, "line": after, "skip": 0}
            if before is None:
                return {**common, "start": start, "line": first, "skip": row}
            # Exactly behind the last record that was taken: what comes after it may still be put right.
            size = parser.start(data, row)
            taken = before.copy()
            taken.update(data[:size])
            here = {"start": start + size, "end": start + size, "sha256": taken.hexdigest()}
            return {**common, **here, "line": parser.line(data, first, row), "skip": 0}

        return Block(table, place, lambda row: parser.line(data, first, row))

    def _take(self, final: bool) -> Bytes | None:
        """The bytes of the next records."""
        tape = self._tape
        while True:
            if self._parser is None:
                self._read_header(final=False)
            if self._parser is not None and (end := self._parser.cut(tape.buffer, self._line)):
                return tape.take(end)
            if len(tape.buffer) > self._options.line_bytes:
                problem = f"a line of more than {self._options.line_bytes >> 20} MB"
                raise TableError(problem, "check the line ends and the quotes of the file", line=self._line)
            if not self._fill():
                if not (final or tape.ended):
                    return None
                if self._parser is None:
                    self._read_header(final=True)
                if not tape.buffer:
                    return None
                if self._parser is not None:
                    self._parser.finish(tape.buffer, self._line)
                return tape.take(len(tape.buffer))

    def _fill(self) -> int:
        """Read more; how much there was."""
        found = self._tape.fill(self._options.block_bytes)
        if found and self._unfinished:
            if not self._tape.buffer.startswith((b"\n", b"\r")):
                raise changed(self._source.name, "went on with its last line, which was not complete,")
            self._unfinished = False
        return found

    def _read_header(self, *, final: bool) -> None:
        """Make the parser as soon as the first line is there."""
        if self._tape.offset == 0 and self._tape.buffer.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise TableError("text in UTF-16", "save the file as UTF-8", line=1)
        if self._source.format == "jsonl":
            if self._tape.buffer or final:
                self._parser = JsonParser(self._layout, self._options.ignore_extra)
            return
        first = self._first_line(final)
        if not first:
            if final and self._columns is None:
                raise TableError("the file is empty", "begin the file with the column names")
            return
        names = self._names(first)
        if self._continued and names != self._columns:
            assert self._columns is not None  # noqa: S101 - for the type checker: kept with the place
            self._parser = self._csv_parser(self._columns)  # a pipe that goes on need not repeat its header
            return
        try:
            self._parser = self._csv_parser(names)
        except TableError as error:
            raise error.at(line=self._line) from None
        self._columns = names
        self._skip(len(first))

    def _first_line(self, final: bool) -> bytes:
        """The first line that is not blank, if it is there; lines before it are taken."""
        while True:
            buffer = self._tape.buffer
            size = end_of_first(buffer, quotes_in(buffer)) or (len(buffer) if final else 0)
            first = bytes(buffer[:size])
            if not first or first.strip(b"\r\n"):
                return first
            self._skip(size)

    def _names(self, first: bytes) -> list[str]:
        """The column names in the first line."""
        bare = first.removeprefix(b"\xef\xbb\xbf")
        check_bytes(bare, self._line)
        check_quotes(bare, quotes_in(bare), self._source.delimiter, self._line)
        return parse_header(bare, self._source.delimiter, self._line)

    def _csv_parser(self, names: list[str]) -> CsvParser:
        options = self._options
        return CsvParser(
            names,
            self._layout,
            delimiter=self._source.delimiter,
            null_text=options.null_text,
            ignore_extra=options.ignore_extra,
        )

    def _skip(self, size: int) -> None:
        self._line += newlines_in(self._tape.take(size))
        self._header = self._tape.offset

    def _resume(self, place: Place) -> None:
        """Go to where an earlier run stopped, and check that everything before is what it was."""
        if self._source.path is None and (self._options.stdin_continues or place["continued"]):
            if not self._options.stdin_continues:
                raise self._other("went on with new records")
            self._columns, self._continued = place["columns"], True
            return
        header = self._repeat(place["header"], keep=True)
        self._repeat(place["start"] - place["header"], keep=False)
        data = self._repeat(place["end"] - place["start"], keep=True)
        if self._tape.digest != place["sha256"]:
            raise self._other("changed")
        self._header, self._line = place["header"], place["line"]
        self._again = (data, place["skip"]) if data else None
        self._unfinished = self._tape.last != b"\n"
        if self._source.format == "jsonl":
            self._parser = JsonParser(self._layout, self._options.ignore_extra)
        else:
            self._columns = self._names(header.lstrip(b"\r\n"))
            self._parser = self._csv_parser(self._columns)

    def _repeat(self, size: int, *, keep: bool) -> bytes:
        data = self._tape.repeat(size, self._options.block_bytes, keep=keep)
        if data is None:
            raise self._other("became shorter")
        return data

    def _other(self, what: str) -> InputChangedError:
        """The error for input that is not what an earlier run read."""
        if self._source.path is not None:
            return changed(self._source.name, what)
        remedy = (
            "pipe in the same records again from the first one on (what was read is skipped), or, if the pipe goes on "
            "with new records only, say so with stdin_continues (--stdin-continues)"
        )
        return InputChangedError(f"the input {what} since it was read", remedy, file=self._source.name)
