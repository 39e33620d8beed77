"""Lines of text: the bytes of an input, decompressed and in UTF-8, and where records end in them."""

from __future__ import annotations

import bz2
import codecs
import gzip
import hashlib
import io
import lzma
import os
import re
import select
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.public.errors import TableError, UnreadableFileError
from headwater.public.schema import encoding_of
from headwater.public.tables import pyarrow

Offsets = NDArray[np.int64]

STANDARD_INPUT = "standard input"
DAMAGED = TableError(
    "the compressed data is damaged or cut short", "make the file anew, and rename it when it is whole"
)
EDGE = 1 << 12  # bytes at the beginning and at the end of what was read that say whether it is still there
WAYS_OUT = (
    "files may only grow: pipe in a log that is renamed or cut (tail -F log.csv | headwater run -), write files with "
    "dated names into a folder, send it by Vector or Fluent Bit to the service, or use Kafka"
)
_PIECE = 1 << 16
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

    @property
    def key(self) -> str:
        return self.path.name if self.path else "-"


class Edges:
    """The size of what was read, and its beginning and its end: whether it is still there can be seen from them."""

    def __init__(self) -> None:
        self.size, self.head, self.tail = 0, b"", b""

    def add(self, data: bytes) -> None:
        self.size += len(data)
        if len(self.head) < EDGE:
            self.head += data[: EDGE - len(self.head)]
        self.tail = (self.tail + data[-EDGE:])[-EDGE:]

    def begin(self, file: IO[bytes]) -> bool:
        number = file.fileno()
        tail = os.pread(number, len(self.tail), self.size - len(self.tail))
        return tail == self.tail and os.pread(number, len(self.head), 0) == self.head

    @property
    def seal(self) -> str:
        return f"{self.size}-{hashlib.sha256(self.head + self.tail).hexdigest()[:16]}"


def seal_of(path: Path, name: str) -> str:
    """The seal of a file as it lies there."""
    found = Edges()
    try:
        with open(path, "rb", buffering=0) as file:
            found.size = os.fstat(file.fileno()).st_size
            found.head = os.pread(file.fileno(), EDGE, 0)
            found.tail = os.pread(file.fileno(), EDGE, max(found.size - EDGE, 0))
    except OSError as error:
        raise refused(name, error) from None
    return found.seal


class GrowingFile:
    """A file of text as it is."""

    ended = False
    most = 1 << 30

    def __init__(self, source: Input, look: Callable[[], None]) -> None:
        assert source.path is not None  # noqa: S101 - for the type checker
        self._path, self._name, self._look = source.path, source.name, look
        self.edges = Edges()

    def read(self, size: int, wait: float = 0) -> bytes:
        data = self._read(size)
        if not data and wait:
            time.sleep(wait)
            data = self._read(size)
        return data

    def _read(self, size: int) -> bytes:
        before = self.edges.size
        try:
            with open(self._path, "rb", buffering=0) as file:
                file.seek(before)
                data = file.read(size)
                # Looked at after reading: if all is as it was now, it was so when these bytes were read.
                if os.fstat(file.fileno()).st_size < before + len(data):
                    raise changed(self._name, "became shorter")
                if not self.edges.begin(file):
                    raise changed(self._name, "changed")
        except FileNotFoundError as error:
            raise (changed(self._name, "was removed") if before else refused(self._name, error)) from None
        except OSError as error:
            raise refused(self._name, error) from None
        self._look()
        self.edges.add(data)
        return data

    @property
    def seal(self) -> str:
        return self.edges.seal

    def close(self) -> None:
        """Nothing is open."""


class WholeFile:
    """A compressed file, which is whole when it is there: what it holds, decompressed."""

    ended, most = False, 1 << 30

    def __init__(self, source: Input) -> None:
        assert source.path is not None  # noqa: S101 - for the type checker
        self._path, self._name = source.path, source.name
        self._at_first = seal_of(self._path, self._name)
        self._file: IO[bytes] = open(source.path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
        self.edges = Edges()
        self._plain: Any = None
        self._kind = source.compression

    def read(self, size: int, wait: float = 0) -> bytes:
        """The next bytes, none at the end."""
        damaged = False
        try:
            self._plain = self._plain or _decompressed(self._file, str(self._kind))
            data = bytes(self._plain.read(size))
            self.edges.add(data)
        except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile):
            damaged = True
        except OSError as error:
            if error.errno is not None:
                raise refused(self._name, error) from None
            damaged = True
        if damaged:  # outside of the handler: messages of decompressors may hold data
            raise DAMAGED.at(file=self._name)
        if not data and self.seal != self._at_first:
            raise changed(self._name, "changed")
        return data

    @property
    def seal(self) -> str:
        return seal_of(self._path, self._name)

    def close(self) -> None:
        self._file.close()


class Pipe:
    """What is piped in: standard input, or a pipe that has a path."""

    most = 1 << 16  # as much as a pipe holds
    seal = ""

    def __init__(self, path: str | None = None) -> None:
        self.stopped = self.ended = False
        self._own = path is not None
        try:
            stream: Any = io.FileIO(path) if path else getattr(sys.stdin, "buffer", sys.stdin)
        except OSError as error:
            raise refused(str(path), error) from None
        self._stream, self._handle = stream, None
        with suppress(OSError, AttributeError):  # not a real file, as in tests and notebooks
            self._handle = stream.fileno()

    def read(self, size: int, wait: float = 0) -> bytes:
        """What has arrived, nothing if nothing did within ``wait`` seconds; `ended` when there will never be more."""
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

    def close(self) -> None:
        if self._own:
            self._stream.close()


class Memory:
    """Bytes in memory."""

    ended, most, seal = False, 1 << 30, ""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, size: int, wait: float = 0) -> bytes:
        return self._file.read(size)

    def close(self) -> None:
        """Nothing is open."""


Raw = GrowingFile | WholeFile | Pipe | Memory


def open_raw(source: Input, look: Callable[[], None] = lambda: None) -> Raw:
    if source.data is not None:
        return Memory(source.data)
    if source.path is None:
        return Pipe(None if source.name == STANDARD_INPUT else source.name)
    return WholeFile(source) if source.compression else GrowingFile(source, look)


def _decompressed(file: IO[bytes], compression: str) -> Any:  # noqa: ANN401 - readers of four libraries
    match compression:
        case "gzip":
            return gzip.GzipFile(fileobj=file)
        case "bz2":
            return _Pieces(file, bz2.BZ2Decompressor)
        case "xz":
            return _Pieces(file, lzma.LZMADecompressor)
    return pyarrow().CompressedInputStream(pyarrow().PythonFile(file, "r"), compression)


class _Pieces:
    """Compressed pieces one after another."""

    def __init__(self, file: IO[bytes], kind: Callable[[], Any]) -> None:
        self._file, self._kind = file, kind
        self._piece: Any = None

    def read(self, size: int) -> bytes:
        """The next bytes; none at the end, an error if that is inside a piece."""
        while True:
            if self._piece is None or self._piece.eof:
                rest = (self._piece.unused_data if self._piece else b"") or self._file.read(_PIECE)
                if not rest:
                    return b""
                self._piece = self._kind()
            else:
                rest = self._file.read(_PIECE) if self._piece.needs_input else b""
                if not rest and self._piece.needs_input:
                    raise EOFError
            data: bytes = self._piece.decompress(rest, size)
            if data:
                return data


def _surrogate(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)  # noqa: S101 - nothing is encoded with this
    return "\udcff" * (error.end - error.start), error.end


codecs.register_error("headwater-surrogate", _surrogate)


class Text:
    """The text of an input in UTF-8; of a JSON array (``array``), as lines."""

    def __init__(self, raw: Raw, encoding: str | None, *, array: bool) -> None:
        self.raw, self.array = raw, ArrayLines() if array else None
        name = encoding_of(encoding)
        self._decoder = codecs.getincrementaldecoder(name)("headwater-surrogate") if name else None
        self._mark: bytes | None = b"" if name == "utf-16" else None  # as far as it was read
        self._ready, self._done = b"", False

    @property
    def ended(self) -> bool:
        return self.raw.ended and not self._ready

    def read(self, size: int, wait: float = 0) -> bytes:
        """What there is next; nothing if nothing came within ``wait`` seconds."""
        if self._decoder is None and self.array is None:
            return self.raw.read(min(size, self.raw.most), wait)
        while not self._ready:
            data = self.raw.read(min(size, self.raw.most), wait)
            final = not data and (self.raw.ended or not wait)
            if not data and (self._done or not final):
                return b""
            self._done = final
            if self._decoder is not None:
                data = self._recoded(data, final)
            self._ready = self.array.convert(data, final=final) if self.array else data
        found, self._ready = self._ready[:size], self._ready[size:]
        return found

    def _recoded(self, data: bytes, final: bool) -> bytes:
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


class Records:
    """Text that was read ahead, and where records end in it: with a newline, if ``multiline`` outside of quotes."""

    def __init__(self, text: Text, *, multiline: bool) -> None:
        self._text, self._multiline = text, multiline
        self.data = bytearray()
        """What was read and not taken yet."""
        self.ends: Offsets = np.empty(0, dtype=np.int64)
        """Behind each complete record in `data`."""
        self.inside = False
        """Whether what was read so far ends inside of quotes."""

    def fill(self, size: int, wait: float) -> int:
        """Read up to ``size`` bytes ahead; 0 if none came within ``wait`` seconds."""
        known = len(self.data)
        self.data += self._text.read(size, wait)
        if len(self.data) > known:
            newlines = positions_of(_NEWLINE, self.data, known)
            if self._multiline:
                quotes = positions_of(_QUOTE, self.data, known)
                newlines = newlines[(np.searchsorted(quotes, newlines) + self.inside) % 2 == 0]
                self.inside = bool((self.inside + quotes.size) % 2)
            self.ends = np.concatenate((self.ends, newlines + 1))
        return len(self.data) - known

    def finish(self) -> None:
        if len(self.data) > (self.ends[-1] if self.ends.size else 0):
            self.ends = np.append(self.ends, len(self.data))

    def take(self, records: int) -> tuple[bytes, Offsets]:
        ends = self.ends[:records]
        size = int(ends[-1]) if ends.size else 0
        data = bytes(memoryview(self.data)[:size])
        self.data, self.ends = self.data[size:], self.ends[records:] - size
        return data, ends


def positions_of(byte: int, data: bytes | bytearray, start: int = 0) -> Offsets:
    if data.find(byte, start) < 0:  # far faster than an array of comparisons
        return np.empty(0, dtype=np.int64)
    text = np.frombuffer(data, dtype=np.uint8)
    steps = range(start, len(text), _STRIDE)
    return np.concatenate([np.flatnonzero(text[i : i + _STRIDE] == byte) + i for i in steps])
