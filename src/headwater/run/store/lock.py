"""One owner per state: a lock that ends with its process, and a note of how many commits the state has had.

The lock is `flock` on a small file beside the state; the kernel releases it when the process ends, however it ends.
The lock file stays when the run is over: it holds the number of commits, so that an older copy of the state that was
put back in its place is noticed, unless the lock file was put back too.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import weakref
from contextlib import suppress
from pathlib import Path

from headwater.run.store.errors import StateInUseError, StoreError, plain_errors

_SIZE = 128  # one short line, overwritten in place: needs no room on a full disk
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Lock:
    """The right to be the only one who uses ``path``, or `StateInUseError` at once."""

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(path.name + ".lock")
        with plain_errors(path):
            self._handle = self._acquire(path)
        _held.add(self)

    def _acquire(self, path: Path) -> int:
        while True:
            handle = self._open(path)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Someone may have removed the file between the two calls: then this lock guards nothing.
                if os.path.samestat(os.fstat(handle), os.stat(self.path, follow_symlinks=False)):
                    return handle
            except BlockingIOError:
                os.close(handle)
                problem = "another process or thread uses this state"
                remedy = "let it end first: two runs of one state put the same noise on different data"
                raise StateInUseError(path, problem, remedy) from None
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)

    def _open(self, path: Path) -> int:
        """The lock file is written to, so it must be a plain file with one name, not a link to something else."""
        try:
            handle = os.open(self.path, _FLAGS, 0o600)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise self._foreign(path) from None
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            os.close(handle)
            raise self._foreign(path)
        return handle

    def _foreign(self, path: Path) -> StoreError:
        problem = f"{self.path.name} is a link or no plain file, so it is not the lock that Headwater made"
        return StoreError(path, problem, "find out who made it, then remove it")

    @property
    def commits(self) -> int:
        try:
            return int(json.loads(os.pread(self._handle, _SIZE, 0))["commits"])
        except (ValueError, KeyError, TypeError):
            return 0

    def note(self, commits: int) -> None:
        line = json.dumps({"process": os.getpid(), "commits": commits}).ljust(_SIZE - 1) + "\n"
        with suppress(OSError):  # a note that is too old protects less, but is not wrong
            os.pwrite(self._handle, line.encode(), 0)

    def release(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _release_in_child() -> None:
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_release_in_child)
