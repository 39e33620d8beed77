"""One owner per state, and every way in which a state can refuse: what is wrong, what to do."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_WHY = "two runs from one state publish the same noise on different data, and subtracting them shows the difference"
COPIED = (
    "if no other run continues from it, put what it has measured (the same name with .measured) next to it and say so "
    f"with allow_copy (--allow-copy); otherwise start a new run: {_WHY}"
)


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
    """The disk failed, and what it has kept is known when the file is read again."""


class StateDamagedError(StoreError):
    """The file is not what Headwater wrote."""


def damaged(path: Path, what: str) -> StateDamagedError:
    return StateDamagedError(path, f"the state is damaged ({what})", "put back a backup of it or start a new run")


@contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """Errors of the operating system as a `StoreError` with a remedy."""
    try:
        yield
    except OSError as error:
        unknown = f"the operating system refused ({error.strerror}); nothing of this step was kept", "look at the disk"
        problem, remedy = next((said for codes, said in _TROUBLE.items() if error.errno in codes), unknown)
        raise StoreError(path, problem, f"{remedy}, then give the same command again") from None


_TROUBLE = {
    (errno.ENOSPC, errno.EDQUOT, errno.EFBIG): ("the disk is full; nothing of this step was kept", "make room"),
    (errno.EACCES, errno.EPERM, errno.EROFS): (
        "the state or its folder may not be read or written",
        "make the file and its folder writable for this user",
    ),
    (errno.ENOTDIR, errno.EISDIR): ("a folder and a file are mixed up in this path", "name a file in a folder"),
    (errno.ELOOP,): ("this is a symbolic link", "find out who made it, then remove it"),
}
_LINE = 128  # one short line, overwritten in place: needs no room on a full disk
_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Lock:
    """The right to be the only one who uses ``path``, or `StateInUseError` at once.

    Held on a file next to it, which also notes how many commits there were, and on the state itself (`hold`).
    """

    def __init__(self, path: Path) -> None:
        self._state, self._handles = path, list[int]()
        lock = path.with_name(path.name + ".lock")
        _held.add(self)
        try:
            with plain_errors(path):
                while not _is_named(lock, self.hold(lock, os.O_CREAT)):
                    self.release()  # somebody has removed the file between two calls: then this lock guards nothing
        except BaseException:
            self.release()
            raise

    def hold(self, path: Path, create: int = 0) -> int:
        """Open a file and lock it: a plain file with one name, not a link to something else."""
        problem = f"{path.name} is a link, has a second name or is no plain file"
        foreign = StoreError(self._state, problem, "find out who made it, then remove it")
        try:
            handle = os.open(path, _FLAGS | create, 0o600)
        except OSError as error:
            raise foreign if error.errno == errno.ELOOP else error from None
        self._handles.append(handle)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise foreign
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if status.st_nlink > 1:
                raise foreign
        except BaseException as error:
            self.drop(handle)
            if not isinstance(error, BlockingIOError):
                raise
            remedy = "let it end first: two runs of one state put the same noise on different data"
            raise StateInUseError(self._state, "another process or thread uses this state", remedy) from None
        return handle

    def drop(self, handle: int) -> None:
        if handle in self._handles:
            self._handles.remove(handle)
            os.close(handle)

    @property
    def commits(self) -> int:
        try:
            return int(json.loads(os.pread(self._handles[0], _LINE, 0))["commits"])
        except (ValueError, KeyError, TypeError):
            return 0

    def note(self, commits: int) -> None:
        line = json.dumps({"process": os.getpid(), "commits": commits}).ljust(_LINE - 1) + "\n"
        with suppress(OSError):  # a note that is too old protects less, but is not wrong
            os.pwrite(self._handles[0], line.encode(), 0)

    def release(self) -> None:
        handles, self._handles = self._handles, []
        for handle in handles:
            os.close(handle)


def _is_named(path: Path, handle: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False))
    return False


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _in_child() -> None:
    """A forked child can neither use a state (which checks its process) nor keep it from others."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_in_child)
