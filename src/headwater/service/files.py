"""Tables that were made for readers, as files: so that any of them can be sent in parts, slowly, again. Public."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

_SPARE = 60.0  # seconds for which a file stays that may be about to be sent


class FileCache:
    """Files by name; the ones that were not asked for longest are removed when they take too much room.

    Nothing else is in the ``folder`` (`clear`); the files take at most ``most`` bytes.
    """

    def __init__(self, folder: Path, most: int) -> None:
        self._folder, self._ours = folder, False
        self._most, self._bytes = most, 0
        self._files: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._making: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Begin with an empty folder: a service that was killed has left its files there."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700)
        self._ours = True

    def get(self, name: str, make: Callable[[Path], None]) -> Path:
        """The file of this name; made if it is not there, once however many ask."""
        with self._lock:
            making = self._making.setdefault(name, threading.Lock())
        with making:
            path = self._folder / name
            if self.peek(name) is not None:
                return path
            hidden = path.with_name(f".{name}")
            try:
                make(hidden)
                os.rename(hidden, path)
            except BaseException:
                hidden.unlink(missing_ok=True)
                raise
            with self._lock:
                self._files[name] = (path.stat().st_size, time.monotonic())
                self._bytes += self._files[name][0]
                self._trim()
                self._making.pop(name, None)
            return path

    def peek(self, name: str) -> Path | None:
        """The file of this name if it is there."""
        with self._lock:
            if name not in self._files:
                return None
            self._files.move_to_end(name)
            self._files[name] = (self._files[name][0], time.monotonic())
            return self._folder / name

    def close(self) -> None:
        """Remove everything, unless `clear` was never called: then it is somebody else's."""
        if self._ours:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _trim(self) -> None:
        now = time.monotonic()
        for name, (size, used) in list(self._files.items()):
            if self._bytes <= self._most or (now - used < _SPARE and self._bytes <= 4 * self._most):
                break
            del self._files[name]
            self._bytes -= size
            (self._folder / name).unlink(missing_ok=True)
