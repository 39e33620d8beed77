"""Text that is not written as lines of UTF-8, turned into such lines while it is read.

A converter takes bytes as they come and gives what they stand for. It keeps no more than the piece of a character, and
what it makes of one record does not depend on others, as long as each of them is whole (``proofs/tables.md``).
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Callable
from typing import Protocol

from headwater.public.errors import TableError


class Converter(Protocol):
    """Bytes in, lines of UTF-8 out."""

    @property
    def transparent(self) -> bool:
        """Whether what came out is what came in, and will be."""

    def convert(self, data: bytes, *, final: bool) -> bytes:
        """What some more bytes stand for; ``final`` if none come after them."""


class Raw(Protocol):
    """Bytes of an input, as `headwater.secret.read.stream` reads them."""

    @property
    def ended(self) -> bool:
        """Whether there can never be more."""

    @property
    def most(self) -> int:
        """How many bytes can come at once."""

    @property
    def moved(self) -> bool:
        """Whether the name of the file has gone to another one."""

    @property
    def linked(self) -> bool:
        """Whether the file still has a name."""

    @property
    def grown(self) -> bool:
        """Whether there is more in the file than was read."""

    @property
    def written(self) -> int:
        """When the file was last written to."""

    @property
    def inode(self) -> tuple[int, int]:
        """Which file it is, whatever its name."""

    def read_into(self, view: memoryview, wait: float = 0) -> int:
        """Fill ``view``; how many bytes came."""

    def check(self, consumed: int, sha256: Callable[[], str]) -> None:
        """Raise an error if what was read is not there any more."""

    def close(self) -> None:
        """Close it."""


class Recoder:
    """Text of another encoding as UTF-8.

    What is no text becomes bytes that are no UTF-8 either: so the record that holds it is refused, and no other.
    """

    transparent = False

    def __init__(self, encoding: str) -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)("headwater-surrogate")
        self._mark: bytes | None = b"" if encoding == "utf-16" else None  # as far as it was read

    def convert(self, data: bytes, *, final: bool) -> bytes:
        """The next piece of text in UTF-8."""
        if self._mark is not None and data:  # without one, the first record could say how all others are read
            self._mark += data[: 2 - len(self._mark)]
            if not any(mark.startswith(self._mark) for mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise TableError(
                    "UTF-16 that does not begin with a mark",
                    "give utf-16-le or utf-16-be (--encoding)",
                )
        return self._decoder.decode(data, final).encode("utf-8", "surrogatepass")


def _surrogate(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)  # noqa: S101 - nothing is encoded with this
    return "\udcff" * (error.end - error.start), error.end


codecs.register_error("headwater-surrogate", _surrogate)


class ConvertedStream:
    """A stream whose bytes go through a converter."""

    def __init__(self, raw: Raw, converter: Converter) -> None:
        self.raw, self.converter = raw, converter
        self._ready = bytearray()
        self._read, self._hash, self._done = 0, hashlib.sha256(), False
        self.most = raw.most

    @property
    def ended(self) -> bool:
        """Whether there can never be more."""
        return self.raw.ended and not self._ready

    @property
    def moved(self) -> bool:
        """Whether the name of the file has gone to another one."""
        return self.raw.moved

    @property
    def linked(self) -> bool:
        """Whether the file still has a name."""
        return self.raw.linked

    @property
    def grown(self) -> bool:
        """Whether there is more in the file than was read."""
        return self.raw.grown

    @property
    def written(self) -> int:
        """When the file was last written to."""
        return self.raw.written

    @property
    def inode(self) -> tuple[int, int]:
        """Which file it is, whatever its name."""
        return self.raw.inode

    def read_into(self, view: memoryview, wait: float = 0) -> int:
        """What there is, converted; 0 if nothing came within ``wait`` seconds."""
        if self.converter.transparent and not self._ready:
            return self.raw.read_into(view, wait)
        while not self._ready:
            chunk = bytearray(len(view))
            with memoryview(chunk) as space:
                found = self.raw.read_into(space, wait)
            data = bytes(chunk[:found])
            self._read += found
            self._hash.update(data)
            final = not found and (self.raw.ended or not wait)
            if not found and (self._done or not final):
                return 0
            self._done = final
            self._ready += self.converter.convert(data, final=final)
        size = min(len(view), len(self._ready))
        view[:size] = self._ready[:size]
        del self._ready[:size]
        return size

    def check(self, consumed: int, sha256: Callable[[], str]) -> None:
        """Raise an error if what was read, converted or not, is not there any more."""
        if self.converter.transparent:
            self.raw.check(consumed, sha256)
        else:
            self.raw.check(self._read, self._hash.hexdigest)

    def close(self) -> None:
        """Close the input."""
        self.raw.close()
