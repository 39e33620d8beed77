"""Every way a state can refuse: what is wrong and what to do, never a message of the database itself."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
_SAME_COMMAND = "then give the same command again"


@contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """Turn errors of the database and of the operating system into a `StoreError` with a remedy."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explain(path, error) from None
    except OSError as error:
        raise _explain_os(path, error) from None
    except UnicodeDecodeError:  # of a name or a text in the file, or of SQLite's message about it
        raise damaged(path, "its pages cannot be read") from None


def damaged(path: Path, what: str) -> StateDamagedError:
    return StateDamagedError(path, f"the state is damaged ({what})", "put back a backup of it or start a new run")


def unknown(path: Path) -> OutcomeUnknownError:
    problem = "writing the disk failed, and whether this step was kept cannot be read from it"
    remedy = (
        "look at the disk, then give the same command again: the state decides what was kept. Records without a "
        "position or a key might count twice if they are sent again"
    )
    return OutcomeUnknownError(path, problem, remedy)


def _explain(path: Path, error: sqlite3.Error) -> StoreError:
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None  # extended codes keep the kind in the low byte
    if primary in _DAMAGED:
        return damaged(path, "its pages cannot be read")
    if primary == sqlite3.SQLITE_FULL:
        return StoreError(path, "the disk is full; nothing of this step was kept", f"make room, {_SAME_COMMAND}")
    if primary in _FORBIDDEN:
        remedy = f"make the file and its folder writable for this user, {_SAME_COMMAND}"
        return StoreError(path, "the state cannot be written", remedy)
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StateInUseError(path, "another process uses this state", "let that process end first")
    if primary == sqlite3.SQLITE_TOOBIG:
        return StoreError(path, "one part of a batch is too large to keep", "hand over smaller batches")
    if primary == sqlite3.SQLITE_IOERR:
        problem = "reading or writing the disk failed; nothing of this step was kept"
        return StoreError(path, problem, f"look at the disk, its free space and limits, {_SAME_COMMAND}")
    return StoreError(path, f"the database refused ({type(error).__name__})", "check the file, or put back a backup")


def _explain_os(path: Path, error: OSError) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreError(path, "the disk is full; nothing of this step was kept", f"make room, {_SAME_COMMAND}")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        remedy = f"make the file and its folder readable and writable for this user, {_SAME_COMMAND}"
        return StoreError(path, "the state or its folder may not be read or written", remedy)
    if error.errno in (errno.ENOTDIR, errno.EISDIR):
        return StoreError(path, "a folder and a file are mixed up in this path", "name a file in a folder")
    return StoreError(path, f"the operating system refused ({error.strerror})", f"see to the cause, {_SAME_COMMAND}")
