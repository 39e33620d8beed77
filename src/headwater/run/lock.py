"""One owner per state, and every way in which a state can refuse: what is wrong, what to do."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sqlite3
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_WHY = "two runs from one state publish the same noise on different data, and subtracting them shows the difference"
COPIED = f"if no other run continues from it, say so with allow_copy (--allow-copy); otherwise start a new run: {_WHY}"


class StoreError(RuntimeError):
    """A state that cannot be used or written as things are: which file, what is wrong, what to do."""

    def __init__(self, path: str | os.PathLike[str], problem: str, remedy: str) -> None:
        super().__init__(os.fspath(path), problem, remedy)
        self.path, self.problem, self.remedy = Path(path), problem, remedy

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}; {self.remedy}"


class StateInUseError(StoreError):
    """Somebody else has this state open."""


class StateCopiedError(StoreError):
    """The file is not the one that the run wrote last: a copy, or an older one put back."""


class OutcomeUnknownError(StoreError):
    """The disk failed, and whether the step was kept cannot be read from it."""


class StateDamagedError(StoreError):
    """The file is not what Headwater wrote."""


_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_MISMATCH}
_FORBIDDEN = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_FULL = ("the disk is full; nothing of this step was kept", "make room, then give the same command again")
UNFIT = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError)


def damaged(path: Path, what: str) -> StateDamagedError:
    return StateDamagedError(path, f"the state is damaged ({what})", "put back a backup of it or start a new run")


@contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """Errors of the database and of the operating system as a `StoreError` with a remedy."""
    try:
        yield
    except sqlite3.Error as error:
        raise _of_database(path, error) from None
    except OSError as error:
        raise _of_system(path, error) from None
    except UnicodeDecodeError:  # of a name or a text in the file, or of SQLite's message about it
        raise damaged(path, "its pages cannot be read") from None


def _of_database(path: Path, error: sqlite3.Error) -> StoreError:
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None  # extended codes keep the kind in the low byte
    if primary in _DAMAGED:
        return damaged(path, "its pages cannot be read")
    if primary == sqlite3.SQLITE_FULL:
        return StoreError(path, *_FULL)
    if primary in _FORBIDDEN:
        return StoreError(path, "the state cannot be written", "make the file and its folder writable for this user")
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StateInUseError(path, "another process uses this state", "let that process end first")
    if primary == sqlite3.SQLITE_TOOBIG:
        return StoreError(path, "one part of a batch is too large to keep", "hand over smaller batches")
    if primary == sqlite3.SQLITE_IOERR:
        problem = "reading or writing the disk failed; nothing of this step was kept"
        return StoreError(path, problem, "look at the disk, its free space and limits, then give the command again")
    return StoreError(path, f"the database refused ({type(error).__name__})", "check the file, or put back a backup")


def _of_system(path: Path, error: OSError) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreError(path, *_FULL)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        remedy = "make the file and its folder readable and writable for this user"
        return StoreError(path, "the state or its folder may not be read or written", remedy)
    if error.errno in (errno.ENOTDIR, errno.EISDIR):
        return StoreError(path, "a folder and a file are mixed up in this path", "name a file in a folder")
    return StoreError(path, f"the operating system refused ({error.strerror})", "see to the cause")


_LINE = 128  # one short line, overwritten in place: needs no room on a full disk
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
        problem = f"{self.path.name} is a link or no plain file, so it is not the lock that Headwater made"
        foreign = StoreError(path, problem, "find out who made it, then remove it")
        try:
            handle = os.open(self.path, _FLAGS, 0o600)
        except OSError as error:
            raise foreign if error.errno == errno.ELOOP else error from None
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            os.close(handle)
            raise foreign
        return handle

    @property
    def commits(self) -> int:
        try:
            return int(json.loads(os.pread(self._handle, _LINE, 0))["commits"])
        except (ValueError, KeyError, TypeError):
            return 0

    def note(self, commits: int) -> None:
        line = json.dumps({"process": os.getpid(), "commits": commits}).ljust(_LINE - 1) + "\n"
        with suppress(OSError):  # a note that is too old protects less, but is not wrong
            os.pwrite(self._handle, line.encode(), 0)

    def release(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


# A child forked inside a transaction would roll back what its parent writes, so a fork waits for all of them. The child
# can then neither use a state (which checks its process) nor hold its lock.
_held: weakref.WeakSet[Lock] = weakref.WeakSet()
turns: weakref.WeakKeyDictionary[object, Any] = weakref.WeakKeyDictionary()
_acquired: list[Any] = []


def _before_fork() -> None:
    for turn in list(turns.values()):
        turn.acquire()
        _acquired.append(turn)


def _after_fork() -> None:
    while _acquired:
        _acquired.pop().release()


def _in_child() -> None:
    _after_fork()
    for lock in list(_held):
        lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
