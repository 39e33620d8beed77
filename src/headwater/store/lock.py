"""One owner per state: a lock that dies with its process, and a note of how far the state had come.

The lock is `flock` on a small file beside the state. The kernel lets go of it when the process ends, however it ends.
The lock file stays when the run is over: it remembers the number of commits, so that an older copy of the state which
was put back in its place is noticed.
"""

from __future__ import annotations

import fcntl
import json
import os
import weakref
from contextlib import suppress
from pathlib import Path

from headwater.store.errors import StateInUseError, plain_errors

_SIZE = 128  # one short line, overwritten in place: needs no room on a full disk


class Lock:
    """The right to be the only one who uses ``path``, or `StateInUseError` at once."""

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(path.name + ".lock")
        with plain_errors(path):
            self._handle = self._take(path)
        _held.add(self)

    def _take(self, path: Path) -> int:
        while True:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Someone may have removed the file between the two calls: then this lock guards nothing.
                if os.path.samestat(os.fstat(handle), os.stat(self.path)):
                    return handle
            except BlockingIOError:
                os.close(handle)
                problem = "another process or thread uses this state"
                raise StateInUseError(
                    path, problem, "let it end first: two runs of one state betray the data"
                ) from None
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)

    @property
    def commits(self) -> int:
        """How many commits the state had when the lock file was written last; 0 if nobody knows."""
        try:
            return int(json.loads(os.pread(self._handle, _SIZE, 0))["commits"])
        except (ValueError, KeyError, TypeError):
            return 0

    def note(self, commits: int) -> None:
        """Write down how far the state has come. Called after the commit, so the note is never ahead of the state."""
        line = json.dumps({"process": os.getpid(), "commits": commits}).ljust(_SIZE - 1) + "\n"
        with suppress(OSError):  # a note that is too old protects less, but is not wrong
            os.pwrite(self._handle, line.encode(), 0)

    def release(self) -> None:
        """Let others in. May be called twice."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _let_go_in_child() -> None:
    """A forked child shares the open lock file: without this it would keep the lock when its parent is killed."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_let_go_in_child)
