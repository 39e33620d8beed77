"""The text of one input: read ahead, divided into records, hashed as it is taken."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.secret.read.stream import Stream

Offsets = NDArray[np.int64]

_QUOTE, _NEWLINE = 0x22, 0x0A
_EDGE = 1 << 12
_STRIDE = 1 << 17  # so much text at a time that comparisons stay in the cache


class TextBuffer:
    """Bytes of a stream that have been read ahead, and where records end in them.

    A record ends with a newline. In CSV (``quoted``) a newline inside quotes is part of its record: under the rule that
    `csv_text.check_quotes` enforces, a byte is inside quotes exactly if an odd number of quotes is before it.
    """

    def __init__(self, stream: Stream, *, quoted: bool) -> None:
        self._stream, self._quoted, self._inside = stream, quoted, False
        self.data = bytearray()
        """What was read and not taken yet."""
        self.ends: Offsets = np.empty(0, dtype=np.int64)
        """Behind each complete record in `data`."""
        self.multiline = False
        """Whether a record of more than one line has been read."""

    @property
    def ended(self) -> bool:
        """Whether there can never be more."""
        return self._stream.ended

    @property
    def unclosed(self) -> bool:
        """Whether what was read so far ends inside quotes."""
        return self._inside

    def fill(self, size: int, wait: float) -> int:
        """Read up to ``size`` bytes ahead; 0 if none came within ``wait`` seconds."""
        known, size = len(self.data), min(size, self._stream.most)
        if known < size:  # blocks are megabytes: read right into place, without a copy of them
            rest, self.data = self.data, bytearray(known + size)
            self.data[:known] = rest
        else:
            self.data += bytes(size)
        found = 0
        try:
            with memoryview(self.data) as view, view[known:] as space:
                found = self._stream.read_into(space, wait)
        finally:
            del self.data[known + found :]
        if found:
            newlines = positions_of(_NEWLINE, self.data, known)
            if self._quoted and (quotes := positions_of(_QUOTE, self.data, known)).size:
                outside = (np.searchsorted(quotes, newlines) + self._inside) % 2 == 0
                self._inside = bool((self._inside + quotes.size) % 2)
                self.multiline = self.multiline or not outside.all()
                newlines = newlines[outside]
            elif self._inside:
                self.multiline, newlines = True, newlines[:0]
            self.ends = np.concatenate((self.ends, newlines + 1))
        return found

    def finish(self) -> None:
        """The input is complete: what is left of it is a record, also without a newline."""
        if len(self.data) > (self.ends[-1] if self.ends.size else 0):
            self.ends = np.append(self.ends, len(self.data))

    def take(self, records: int) -> tuple[bytearray, Offsets]:
        """Cut off the next records: their text, and where each of them ends in it."""
        ends, self.ends = self.ends[:records], self.ends[records:]
        size = int(ends[-1]) if ends.size else 0
        data, self.data = self.data, self.data[size:]
        del data[size:]  # shorter in place, without a copy
        self.ends = self.ends - size
        return data, ends

    def put_back(self, data: bytes | bytearray, ends: Offsets) -> None:
        """Undo part of a `take`."""
        self.ends = np.concatenate((ends, self.ends + len(data)))
        self.data[:0] = data


class TextDigest:
    """SHA-256 of the text that has been taken, computed beside the work that goes on with it."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._pool: ThreadPoolExecutor | None = None
        self._last: Future[Any] | None = None
        self.size = 0
        """How many bytes there were."""
        self.last = b"\n"
        """The last of them."""
        self.head = self.tail = b""
        """The first and the last few thousand of them."""

    def update(self, data: bytes | bytearray | memoryview) -> None:
        """Add text, which must not change any more."""
        if not len(data):
            return
        self.size += len(data)
        self.last = bytes(data[-1:])
        if len(self.head) < _EDGE:
            self.head += bytes(data[: _EDGE - len(self.head)])
        self.tail = (self.tail + bytes(data[-_EDGE:]))[-_EDGE:]
        if len(data) < 1 << 16:  # not worth a thread
            self._settle()
            self._hash.update(data)
        else:
            self._pool = self._pool or ThreadPoolExecutor(1, "headwater-digest")
            self._last = self._pool.submit(self._hash.update, data)

    def snapshot(self) -> Callable[[], str]:
        """What gives the digest of the text so far, also later."""
        if self._pool is None or self._last is None or self._last.done():
            self._settle()
            digest = self._hash.hexdigest()
            return lambda: digest
        self._last = self._pool.submit(self._hash.hexdigest)  # one thread: in the order of submission
        return self._last.result

    def _settle(self) -> None:
        if self._last is not None:
            self._last.result()
            self._last = None

    def close(self) -> None:
        """End the thread."""
        if self._pool is not None:
            self._pool.shutdown()


def positions_of(byte: int, data: bytes | bytearray, start: int = 0) -> Offsets:
    """Where a byte is in some text."""
    if data.find(byte, start) < 0:  # far faster than an array of comparisons
        return np.empty(0, dtype=np.int64)
    text = np.frombuffer(data, dtype=np.uint8)
    steps = range(start, len(text), _STRIDE)
    return np.concatenate([np.flatnonzero(text[i : i + _STRIDE] == byte) + i for i in steps])
