"""The bytes of one input, decompressed, and a check that the file they come from is still the same."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import select
import stat
import sys
import time
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from headwater.public.errors import TableError
from headwater.public.schema import encoding_of
from headwater.public.tables import pyarrow
from headwater.secret.read.encodings import ConvertedStream, Recoder
from headwater.secret.read.json_array import ArrayLines
from headwater.secret.read.options import InputChangedError, OverwrittenError, changed
from headwater.secret.read.paths import STANDARD_INPUT, Input, refused
from headwater.secret.read.zip_member import member

DAMAGED = TableError(
    "the compressed data is damaged or cut short",
    "make the file anew; if it was still being written, give the command again when it is whole, and let files for a "
    "followed folder be written under another name and renamed when they are whole",
)
_CHUNK = 1 << 22
_PIECE = 1 << 16
_TAIL = 1 << 12  # so many bytes before the present end must still be there when a file has grown


class FileStream:
    """A file, read from the start."""

    ended = False  # a file may always grow
    most = 1 << 30

    def __init__(self, source: Input, *, rotates: bool = False) -> None:
        self._rotates = rotates
        self.moved = False
        """Whether the name is no longer that of this file. What was opened is read on."""
        assert source.path is not None  # noqa: S101 - for the type checker: standard input has its own class
        self._name, self._path = source.name, source.path
        try:
            self._file: IO[bytes] = open(source.path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
            self._seen = os.fstat(self._file.fileno())
        except OSError as error:
            raise refused(source.name, error) from None
        self._compressed = source.compression is not None
        self._stays = stat.S_ISREG(self._seen.st_mode)  # what was read of a pipe is gone, and opening it anew waits
        try:
            self._plain: Any = _decompressed(self._file, source.compression) if source.compression else self._file
        except TableError as error:
            self._file.close()
            raise error.at(file=source.name) from None
        self._tail = b""

    def read_into(self, view: memoryview, wait: float = 0) -> int:
        """Fill ``view`` as far as there is something; how many bytes came, 0 if none did within ``wait`` seconds."""
        found = self._read_on(view)
        if not found and wait:
            time.sleep(wait)
            found = self._read_on(view)
        return found

    def _read_on(self, view: memoryview) -> int:
        """The next bytes, or an error if they do not go on with what was read: `check` was before that, or long ago.

        What was read before is looked at afterwards: if it is still there then, it was there when these were read.
        """
        if self._compressed or not self._stays:
            return self._read(view)
        before, start = self._tail, self._file.tell()
        found = self._read(view)
        if found and os.pread(self._file.fileno(), len(before), start - len(before)) != before:
            self._file.seek(start)  # nothing was read: `check` finds the same
            self._tail = before
            raise self._overwritten("changed")
        return found

    def _read(self, view: memoryview) -> int:
        damaged = False
        try:
            place = 0 if self._compressed else self._file.tell()
            found = int(self._plain.readinto(view) or 0)
            if found:
                # It may have been cut and written anew since it was checked, as in the pause before this read.
                if not self._compressed and not self._ends_as_read(place):
                    raise self._overwritten("changed")
                self._tail = (self._tail + bytes(view[max(found - _TAIL, 0) : found]))[-_TAIL:]
            return found
        except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile):
            damaged = True
        except OSError as error:
            if error.errno is not None:
                raise refused(self._name, error) from None
            damaged = True
        if damaged:  # outside of the handler: messages of decompressors may hold data
            raise DAMAGED.at(file=self._name)
        return 0

    def check(self, consumed: int, sha256: Callable[[], str]) -> None:
        """Raise an error if the file is not the one whose first ``consumed`` bytes were read."""
        if self.moved or not self._stays:
            return
        try:
            now = os.stat(self._path)
        except OSError:
            if self._rotates:
                self.moved = True
                return
            raise changed(self._name, "was removed") from None
        if not os.path.samestat(now, self._seen):
            if self._rotates:
                self.moved = True
                return
            raise changed(self._name, "was replaced by another file")
        if now.st_size < self._seen.st_size:
            raise self._overwritten("became shorter")
        if (now.st_mtime_ns, now.st_size) == (self._seen.st_mtime_ns, self._seen.st_size):
            return
        # It grew, which is fine if what was read last is still there; or somebody wrote into it.
        same = now.st_size == self._seen.st_size
        if self._compressed or not (self._digest(consumed) == sha256() if same else self._ends_as_read()):
            raise self._overwritten("changed")
        self._seen = now

    def _overwritten(self, what: str) -> InputChangedError:
        error = changed(self._name, what)
        return OverwrittenError(error.problem, error.remedy, file=self._name) if self._rotates else error

    @property
    def inode(self) -> tuple[int, int]:
        """What identifies this file among all that are there."""
        return self._seen.st_dev, self._seen.st_ino

    @property
    def linked(self) -> bool:
        """Whether the file still has a name, this one or another."""
        return os.fstat(self._file.fileno()).st_nlink > 0

    @property
    def written(self) -> int:
        """When the file was last written to, in nanoseconds, as it was seen before it was read."""
        return max(self._seen.st_mtime_ns, 0)

    @property
    def grown(self) -> bool:
        """Whether there is more in the file than was read, whatever its name is now."""
        return not self._compressed and os.fstat(self._file.fileno()).st_size > self._file.tell()

    def _ends_as_read(self, place: int | None = None) -> bool:
        """Whether the last bytes that were read, up to a place or the present one, are still where they were."""
        place = self._file.tell() if place is None else place
        return os.pread(self._file.fileno(), len(self._tail), place - len(self._tail)) == self._tail

    def _digest(self, size: int) -> str:
        """SHA-256 of the first bytes of the file, as they are now."""
        digest = hashlib.sha256()
        with open(self._path, "rb") as file:
            while size > 0 and (data := file.read(min(size, _CHUNK))):
                digest.update(data)
                size -= len(data)
        return digest.hexdigest()

    def close(self) -> None:
        """Close the file."""
        self._plain.close()
        self._file.close()


class StandardInput:
    """What is piped in: standard input, or a pipe that has a ``path``."""

    most = 1 << 16  # as much as a pipe holds
    moved, linked, grown, written, inode = False, True, False, 0, (0, 0)

    def __init__(self, path: str | None = None) -> None:
        self.stopped = False
        """Whether no more is to be taken out of the pipe: what has been read is read on by whatever stands before."""
        self._own = path is not None
        try:
            stream: Any = io.FileIO(path) if path else getattr(sys.stdin, "buffer", sys.stdin)
        except OSError as error:
            raise refused(str(path), error) from None
        self._stream, self._handle = stream, None
        with suppress(OSError, AttributeError):  # not a real file, as in tests and notebooks
            self._handle = stream.fileno()
        self.ended = False

    def read_into(self, view: memoryview, wait: float = 0) -> int:
        """What has arrived, 0 if nothing did within ``wait`` seconds; `ended` when there will never be more."""
        if self.stopped:
            return 0
        if self._handle is None:
            data = self._stream.read(len(view))
            view[: len(data)] = data
            found = len(data)
        elif not select.select([self._handle], [], [], wait)[0]:
            return 0
        else:
            found = os.readv(self._handle, [view])
        self.ended = not found
        return found

    def check(self, consumed: int, sha256: Callable[[], str]) -> None:
        """A pipe cannot be changed behind our back."""

    def close(self) -> None:
        """Standard input is not ours to close."""
        if self._own:
            self._stream.close()


Stream = FileStream | StandardInput | ConvertedStream


def open_stream(source: Input, encoding: str | None = None, *, rotates: bool = False) -> Stream:
    """The text of an input, in UTF-8; of JSON, as lines. With ``rotates`` a file is read on when its name has gone."""
    pipe = None if source.name == STANDARD_INPUT else source.name
    stream: Stream = StandardInput(pipe) if source.path is None else FileStream(source, rotates=rotates)
    if (name := encoding_of(encoding)) is not None:
        stream = ConvertedStream(stream, Recoder(name))
    return ConvertedStream(stream, ArrayLines()) if source.format == "json" else stream


def file_digest(path: Path, name: str) -> str:
    """SHA-256 of a whole file as it lies there."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise refused(name, error) from None


def _decompressed(file: IO[bytes], compression: str) -> Any:  # noqa: ANN401 - readers of five libraries
    match compression:
        case "gzip":
            return gzip.GzipFile(fileobj=file)
        case "bz2":
            return _Pieces(file, bz2.BZ2Decompressor)
        case "zip":
            return member(file)[1]
        case "xz":
            return _Pieces(file, lzma.LZMADecompressor)
        case _:
            return pyarrow().CompressedInputStream(pyarrow().PythonFile(file, "r"), compression)


class _Pieces:
    """Compressed pieces one after another. Python's own files end silently where something else than a piece begins."""

    def __init__(self, file: IO[bytes], kind: Callable[[], Any]) -> None:
        self._file, self._kind = file, kind
        self._piece: Any = None

    def readinto(self, view: memoryview) -> int:
        """Fill ``view`` as far as there is something; 0 at the end, an error if that is inside a piece."""
        while True:
            if self._piece is None or self._piece.eof:
                rest = self._piece.unused_data if self._piece else b""
                rest = rest or self._file.read(_PIECE)
                if not rest:
                    return 0
                self._piece = self._kind()
            else:
                rest = self._file.read(_PIECE) if self._piece.needs_input else b""
                if not rest and self._piece.needs_input:
                    raise EOFError
            data = self._piece.decompress(rest, len(view))
            view[: len(data)] = data
            if data:
                return len(data)

    def close(self) -> None:
        """Whoever has opened the file closes it."""
