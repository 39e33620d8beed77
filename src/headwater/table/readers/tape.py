"""The bytes of one input as they are taken: read ahead, cut off in order, hashed on the way."""

from __future__ import annotations

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from headwater.table.readers.stream import Stream


class RunningDigest:
    """SHA-256 of parts, computed beside the work that goes on with them."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._pool: ThreadPoolExecutor | None = None
        self._last: Future[None] | None = None

    def update(self, data: bytes | bytearray) -> None:
        """Add a part, which must not change any more."""
        if len(data) < 1 << 16:  # not worth a thread
            self.hexdigest()
            self._hash.update(data)
            return
        self._pool = self._pool or ThreadPoolExecutor(1, "headwater-digest")
        self._last = self._pool.submit(self._hash.update, data)

    def hexdigest(self) -> str:
        """The digest of all parts so far."""
        if self._last is not None:
            self._last.result()
            self._last = None
        return self._hash.hexdigest()

    def copy(self) -> Any:  # noqa: ANN401 - a hash object has no public type
        """The hash of all parts so far, to go on with by itself."""
        self.hexdigest()
        return self._hash.copy()

    def close(self) -> None:
        """End the thread."""
        if self._pool is not None:
            self._pool.shutdown()


class Tape:
    """What has been read ahead of one input (`buffer`), and how much has been taken of it (`offset`, `digest`)."""

    def __init__(self, stream: Stream) -> None:
        self._stream, self._digest = stream, RunningDigest()
        self.buffer = bytearray()
        self.offset = 0
        self.before = self._digest.copy()
        """The hash of what was taken before the last part."""
        self.last = b"\n"
        """The last byte that was taken."""

    @property
    def digest(self) -> str:
        """SHA-256 of what was taken."""
        return self._digest.hexdigest()

    @property
    def ended(self) -> bool:
        """Whether there can never be more."""
        return self._stream.ended

    def fill(self, size: int) -> int:
        """Read up to ``size`` bytes ahead; how many there were."""
        self._stream.check(self.offset, lambda: self.digest)
        # Blocks are megabytes, and copying them would be a good part of the whole work: read right into place.
        known, buffer = len(self.buffer), bytearray(len(self.buffer) + size)
        buffer[:known] = self.buffer
        with memoryview(buffer) as view:
            found = self._stream.read_into(view[known:])
        del buffer[known + found :]
        self.buffer = buffer
        return found

    def take(self, size: int) -> bytearray:
        """Cut off the next ``size`` bytes of the buffer."""
        data, self.buffer = self.buffer, self.buffer[size:]
        del data[size:]  # shorter in place, without a copy
        self.before = self._digest.copy()
        self._note(data)
        return data

    def repeat(self, size: int, step: int, *, keep: bool) -> bytes | None:
        """Take ``size`` bytes that an earlier run took; None if there are not so many. Empty unless ``keep``."""
        kept, chunk = bytearray(), bytearray(min(size, step))
        while size > 0:
            with memoryview(chunk) as view:
                found = self._stream.read_into(view[: min(size, step)])
            if not found and (self._stream.ended or not self._stream.pauses):
                return None
            data = bytes(chunk[:found])
            self._note(data)
            size -= found
            if keep:
                kept += data
        return bytes(kept)

    def take_all(self, step: int) -> None:
        """Take everything up to the present end."""
        while self.repeat(step, step, keep=False) is not None:
            pass

    def close(self) -> None:
        """Close the input."""
        self._digest.close()
        self._stream.close()

    def _note(self, data: bytes | bytearray) -> None:
        if data:
            self._digest.update(data)
            self.offset += len(data)
            self.last = bytes(data[-1:])
