"""Lines of text: the bytes of an input, decompressed and in UTF-8, where records end, and how far they were taken."""

from __future__ import annotations

import codecs
import hashlib
import io
import lzma
import os
import re
import select
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.public.errors import TableError, UnreadableFileError
from headwater.public.schema import encoding_of
from headwater.public.tables import pyarrow
from headwater.secret.read.fields import Options

Offsets = NDArray[np.int64]

STANDARD_INPUT = "standard input"
MARK = codecs.BOM_UTF8  # what some editors put before text
DAMAGED = TableError(
    "the compressed data is damaged or cut short", "make the file anew, and rename it when it is whole"
)
EDGE = 1 << 12  # bytes at the beginning and at the end of what was read that say whether it is still there
WAYS_OUT = (
    "files may only grow: pipe in a log that is renamed or cut (tail -F log.csv | headwater run -), write files with "
    "dated names into a folder, send it by Vector or Fluent Bit to the service, or use Kafka"
)
_PIECE = 1 << 16  # as much as a pipe holds
_STRIDE = 1 << 17  # so much text at a time that comparisons stay in the cache
_QUOTE, _NEWLINE = 0x22, 0x0A


class InputChangedError(TableError):
    """What was read before is not there any more as it was: going on would count other records than the run did."""


def changed(name: str, what: str) -> InputChangedError:
    return InputChangedError(f"the input {what} since it was read", WAYS_OUT, file=name)


def refused(name: str, error: OSError) -> UnreadableFileError:
    """The error for a file that the operating system does not hand over."""
    match error:
        case FileNotFoundError():
            return UnreadableFileError("there is no such file", "check the path", file=name)
        case PermissionError():
            return UnreadableFileError("no permission to read this", "ask its owner for it", file=name)
        case IsADirectoryError() | NotADirectoryError():
            return UnreadableFileError("a folder and a file are mixed up in this path", "check the path", file=name)
    return UnreadableFileError(f"the file cannot be read ({error.strerror})", "see to the cause", file=name)


class Input(NamedTuple):
    """One file, standard input, or bytes in memory."""

    name: str
    path: Path | None
    format: str
    compression: str | None = None
    delimiter: str = ","
    data: bytes | None = None
    key: str = "-"
    """The name of a file without its folder."""


# ---- bytes


class Edges:
    """How much was read, and its beginning and its end: whether it is still there can be seen from them."""

    size, head, tail = 0, b"", b""

    def add(self, data: bytes) -> None:
        self.size += len(data)
        if len(self.head) < EDGE:
            self.head += data[: EDGE - len(self.head)]
        self.tail = (self.tail + data[-EDGE:])[-EDGE:]

    def seal(self) -> str:
        return f"{self.size}-{hashlib.sha256(self.head + self.tail).hexdigest()[:16]}"


def seal_of(source: Input, *, text: bool = False) -> str:
    """The seal of a file as it lies there, or of its ``text``, decompressed."""
    if text and source.compression is not None:
        with closing(Compressed(source)) as file:
            while file.read(1 << 20):
                pass
            return Edges.seal(file)
    found = Edges()
    try:
        with open(str(source.path), "rb", buffering=0) as raw:
            found.size = os.fstat(raw.fileno()).st_size
            found.head = os.pread(raw.fileno(), EDGE, 0)
            found.tail = os.pread(raw.fileno(), EDGE, max(found.size - EDGE, 0))
    except OSError as error:
        raise refused(source.name, error) from None
    return found.seal()


class GrowingFile(Edges):
    """A file of text as it is. It is opened for every read, since another one may have its name now."""

    ended, most = False, 1 << 30

    def __init__(self, source: Input, look: Callable[[], None]) -> None:
        self._source, self._look = source, look

    def read(self, size: int, wait: float = 0) -> bytes:
        """The next bytes; none at the end, after ``wait`` seconds."""
        name, before = self._source.name, self.size
        try:
            with open(str(self._source.path), "rb", buffering=0) as file:
                file.seek(before)
                data = file.read(size)
                # Looked at after reading: if all is as it was now, it was so when these bytes were read.
                if os.fstat(file.fileno()).st_size < before + len(data):
                    raise changed(name, "became shorter")
                tail = os.pread(file.fileno(), len(self.tail), before - len(self.tail))
                if tail != self.tail or os.pread(file.fileno(), len(self.head), 0) != self.head:
                    raise changed(name, "changed")
        except FileNotFoundError as error:
            raise (changed(name, "was removed") if before else refused(name, error)) from None
        except OSError as error:
            raise refused(name, error) from None
        self._look()
        self.add(data)
        if wait and not data:
            time.sleep(wait)
        return data

    def close(self) -> None:
        """Nothing is open."""


class Compressed(Edges):
    """A compressed file, which is whole when it is there: what it holds, decompressed."""

    ended, most = False, 1 << 30

    def __init__(self, source: Input) -> None:
        self._source, self._at_first = source, seal_of(source)
        self._file: IO[bytes] = open(str(source.path), "rb", buffering=0)  # noqa: SIM115 - closed by close()
        if source.compression == "xz":
            self._plain: Any = _Xz(self._file)
        else:
            self._plain = pyarrow().CompressedInputStream(pyarrow().PythonFile(self._file, "r"), source.compression)

    def read(self, size: int, wait: float = 0) -> bytes:
        """The next bytes, none at the end."""
        data = None
        try:
            data = bytes(self._plain.read(size))
        except (EOFError, lzma.LZMAError):
            pass
        except OSError as error:
            if error.errno is not None:
                raise refused(self._source.name, error) from None
        if data is None:  # outside of the handler: messages of decompressors may hold data
            raise DAMAGED.at(file=self._source.name)
        self.add(data)
        if not data:
            self.seal()
        return data

    def seal(self) -> str:
        """The seal of the file, which must be as it was."""
        if seal_of(self._source) != self._at_first:
            raise changed(self._source.name, "changed")
        return self._at_first

    def close(self) -> None:
        self._file.close()


class _Xz:
    """Compressed pieces one after another."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._piece: lzma.LZMADecompressor | None = None

    def read(self, size: int) -> bytes:
        """The next bytes; none at the end, an error if that is inside a piece."""
        while True:
            if self._piece is None or self._piece.eof:
                rest = (self._piece.unused_data if self._piece else b"") or self._file.read(_PIECE)
                if not rest:
                    return b""
                self._piece = lzma.LZMADecompressor()
            else:
                rest = self._file.read(_PIECE) if self._piece.needs_input else b""
                if not rest and self._piece.needs_input:
                    raise EOFError
            if data := self._piece.decompress(rest, size):
                return data


class Pipe:
    """What is piped in: standard input, a pipe that has a path, or bytes in memory."""

    def __init__(self, source: Input) -> None:
        self.most = _PIECE if source.data is None else 1 << 30
        self.stopped = self.ended = False
        self._named = source.data is None and source.name != STANDARD_INPUT
        try:
            if source.data is not None:
                self._stream: Any = io.BytesIO(source.data)
            else:
                self._stream = io.FileIO(source.name) if self._named else getattr(sys.stdin, "buffer", sys.stdin)
        except OSError as error:
            raise refused(source.name, error) from None
        self._handle = None
        with suppress(OSError, AttributeError):  # not a real file, as in tests and notebooks
            self._handle = self._stream.fileno()

    def read(self, size: int, wait: float = 0) -> bytes:
        """What has come, nothing if nothing did within ``wait`` seconds; `ended` when there will never be more."""
        if self.stopped:
            return b""
        if self._handle is None:
            data: bytes = self._stream.read(size)
        elif select.select([self._handle], [], [], wait)[0]:
            data = os.read(self._handle, size)
        else:
            return b""
        self.ended = not data
        return data

    def seal(self) -> str:
        return ""

    def close(self) -> None:
        if self._named:
            self._stream.close()


# ---- text


def _surrogate(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)  # noqa: S101 - nothing is encoded with this
    return "\udcff" * (error.end - error.start), error.end


codecs.register_error("headwater-surrogate", _surrogate)


class Lines:
    """The text of an input in UTF-8: records that were read ahead and not taken yet, and a digest of all that were.

    A record ends with a newline; if ``multiline``, outside of quotes. Of a JSON array (``array``) each element is a
    line. A record that is too long is let go while it is read, and a digest takes its place.
    """

    def __init__(self, source: Input, options: Options, look: Callable[[], None] = lambda: None) -> None:
        self._options = options
        self.multiline, self.array = options.multiline and source.format == "csv", source.format == "json"
        self._elements = ArrayLines() if self.array else None
        name = encoding_of(options.encoding)
        self._decoder = codecs.getincrementaldecoder(name)("headwater-surrogate") if name else None
        self._mark: bytes | None = b"" if name == "utf-16" else None  # as far as it was read
        if source.path is None:
            self.raw: GrowingFile | Compressed | Pipe = Pipe(source)
        else:
            self.raw = Compressed(source) if source.compression else GrowingFile(source, look)
        self._name, self._ended = source.name, False
        self.data = bytearray()
        self.ends: Offsets = np.empty(0, dtype=np.int64)
        """Behind each complete record in `data`."""
        self.long = set[int]()
        """Which of them were too long."""
        self._inside = False  # of quotes
        self.letting_go: Any = None
        """The digest of a record that is too long already."""
        self.digest, self.size, self.line, self._open = hashlib.sha256(), 0, 1, False
        """Of what was taken: a digest, how much it is, the line behind it, and whether its last line has no end yet."""

    @property
    def unfinished(self) -> int:
        """How many bytes were read of a record that has not ended."""
        return len(self.data) - (int(self.ends[-1]) if len(self.ends) else 0)

    def fill(self, wait: float) -> bool:
        """Read ahead; False if nothing came within ``wait`` seconds, or at the end."""
        text: bytes = b""
        while not text:
            data = text = self.raw.read(min(self._options.block_bytes, self.raw.most), wait)
            final = not data and (self.raw.ended or not wait)
            if not data and (self._ended or not final):
                return False
            self._ended = final
            if self._decoder is not None:
                text = self._recoded(data, final=final)
            if self._elements is not None:
                text = self._elements.convert(text, final=final)
        if self.letting_go is not None:
            cut = text.find(b"\n")
            self.letting_go.update(text if cut < 0 else text[:cut])
            if cut < 0:
                return True
            self.finish()
            self.ends, text = self.ends[:-1], text[cut:]
        known = len(self.data)
        self.data += text
        newlines = positions_of(_NEWLINE, self.data, known)
        if self.multiline:
            quotes = positions_of(_QUOTE, self.data, known)
            newlines = newlines[(np.searchsorted(quotes, newlines) + self._inside) % 2 == 0]
            self._inside = bool((self._inside + quotes.size) % 2)
        self.ends = np.concatenate((self.ends, newlines + 1))
        if len(self.data) > self._options.line_bytes:
            self._let_go(len(self.ends) - len(newlines))
        if self._open:
            self._close_line()
        return True

    def finish(self) -> None:
        """What was read ends here: also its last record."""
        if self.letting_go is not None:
            self.data += b"\0" + self.letting_go.hexdigest().encode()  # with a NUL no format takes it for a record
            self.long.add(len(self.ends))
            self.letting_go = None
        if len(self.data) > (self.ends[-1] if len(self.ends) else 0):
            self.ends = np.append(self.ends, len(self.data))

    def take(self, records: int) -> tuple[bytes, Offsets, set[int]]:
        """The text of the next records, where each ends in it, and which were too long."""
        ends, long = self.ends[:records], {row for row in self.long if row < records}
        data = self._take(int(ends[-1]) if len(ends) else 0)
        self.long = {row - records for row in self.long if row >= records}
        self._open = not data.endswith(b"\n")
        return data, ends, long

    def skip(self, size: int, wait: float) -> str:
        """Take what an earlier run took, and return its digest; none if there is not so much."""
        while self.size < size:
            if not len(self.ends) and not self.fill(wait):
                if wait and not self.raw.ended:
                    continue
                self.finish()
                if not self.data:
                    return ""
            data = self._take(min(size - self.size, len(self.data) - self.unfinished))
            self.long = set()
            self._open = self.size == size and not data.endswith(b"\n")
        digest = self.digest.hexdigest()
        if self._open:
            self._close_line()
        return digest

    def _take(self, size: int) -> bytes:
        data = bytes(memoryview(self.data)[:size])
        del self.data[:size]
        self.ends = self.ends[np.searchsorted(self.ends, size, side="right") :] - size
        self.digest.update(data)
        self.size += size
        self.line += data.count(b"\n")
        return data

    def _close_line(self) -> None:
        """Take the end of a line that was taken without it; nothing else may come behind that."""
        if self.data and self.data != b"\r":
            if not self.data.startswith((b"\n", b"\r\n")):
                raise changed(self._name, "went on with its last line, which was not complete,")
            self._open = False
            self._take(self.data.index(b"\n") + 1)

    def _let_go(self, first: int) -> None:
        """Put digests in the place of records that are too long, from the ``first`` that was not looked at on."""
        most = self._options.line_bytes
        long = np.flatnonzero(np.diff(self.ends, prepend=0)[first:] - 1 > most) + first
        for row in long[::-1].tolist():
            start, end = int(self.ends[row - 1]) if row else 0, int(self.ends[row]) - 1
            digest = b"\0" + hashlib.sha256(self.data[start:end]).hexdigest().encode()
            self.data[start:end] = digest
            self.ends[row:] -= end - start - len(digest)
            self.long.add(row)
        if (size := self.unfinished) > most:
            self.letting_go = hashlib.sha256(self.data[-size:])
            del self.data[-size:]
            if self.multiline or self.array:  # nobody knows where it ends: it is refused
                self.finish()
                self.data += b"\n"
                self.ends[-1] += 1

    def _recoded(self, data: bytes, *, final: bool) -> bytes:
        if self._mark is not None and data:  # without one, the first record could say how all others are read
            self._mark += data[: 2 - len(self._mark)]
            if not any(mark.startswith(self._mark) for mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise TableError(
                    "UTF-16 that does not begin with a mark",
                    'declare encoding = "utf-16-le" or "utf-16-be" in the schema file',
                )
        assert self._decoder is not None  # noqa: S101 - for the type checker
        return self._decoder.decode(data, final).encode("utf-8", "surrogatepass")


class ArrayLines:
    """Turns one JSON array of objects into lines: one element, one line."""

    def __init__(self) -> None:
        self._held = b""  # what cannot be judged yet
        self._begun = self._inside = self._filled = False
        self._depth = 1  # 0 behind the array

    def convert(self, data: bytes, *, final: bool) -> bytes:
        """The next piece of text as lines."""
        data, self._held = self._held + data, b""
        if not self._begun:
            text = data.removeprefix(codecs.BOM_UTF8).lstrip(b" \t\r\n")
            if not final and (not text or codecs.BOM_UTF8.startswith(data)):
                self._held = data
                return b""
            if text and not text.startswith(b"["):
                raise TableError(
                    "a file that is called JSON and holds no array",
                    'declare input_format = "jsonl"',
                )
            self._begun, data = True, text[1:]
        if not self._depth:
            return b"]" + data if data.strip(b" \t\r\n") else b""
        if not final and (len(data) - len(data.rstrip(b"\\"))) % 2:
            data, self._held = data[:-1], data[-1:]  # what is escaped comes later
        text_ = np.frombuffer(data, dtype=np.uint8).copy()
        quotes = text_ == _QUOTE
        if b"\\" in data:
            quotes[[match.end() - 1 for match in re.finditer(rb"\\.", data, re.DOTALL)]] = False
        passed = np.cumsum(quotes) + self._inside
        outside = ((passed - quotes) % 2 == 0) & ~quotes
        nests = ((text_ == 0x7B) | (text_ == 0x5B)) & outside
        closes = ((text_ == 0x7D) | (text_ == 0x5D)) & outside
        depth = self._depth + np.cumsum(nests.astype(np.int64) - closes)
        last = np.flatnonzero((text_ == 0x5D) & outside & (depth == 0))
        end = int(last[0]) if last.size else len(text_)
        breaks = (text_ == _NEWLINE) | (text_ == 0x0D)
        text_[breaks & outside] = 0x20
        text_[breaks & ~outside] = 0x01  # a line end in a string is no JSON, and no end of a record
        level = outside & (depth == 1)
        text_[level & (text_ == 0x2C)] = _NEWLINE
        kept: bytes = text_[:end][~(level & ((text_ == 0x20) | (text_ == 0x09)))[:end]].tobytes()
        self._filled = self._filled or bool(kept)
        if last.size:
            self._depth = 0
            return kept + (b"\n" if self._filled else b"") + self.convert(data[end + 1 :], final=final)
        if text_.size:
            self._depth, self._inside = int(depth[-1]), bool(passed[-1] % 2)
        return kept + b"[" if final else kept  # an array that is not closed ends in a line that is no JSON


def positions_of(byte: int, data: bytes | bytearray, start: int = 0) -> Offsets:
    if data.find(byte, start) < 0:  # far faster than an array of comparisons
        return np.empty(0, dtype=np.int64)
    text = np.frombuffer(data, dtype=np.uint8)
    steps = range(start, len(text), _STRIDE)
    return np.concatenate([np.flatnonzero(text[i : i + _STRIDE] == byte) + i for i in steps])
