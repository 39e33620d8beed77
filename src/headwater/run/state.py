"""The state of a run in one file: a snapshot, and behind it whatever has come since. One owner at a time.

Each frame is one step, whole on the disk or not there (`headwater.run.frames`). The first one is the snapshot; when
what is behind it outgrows it, a file with a new one takes its place.
"""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from headwater.public.files import need, sync, this_process
from headwater.run.frames import Frame, append, framed, read_frames
from headwater.run.lock import COPIED, Lock, OutcomeUnknownError, StateCopiedError, StoreError, damaged, plain_errors
from headwater.secret.batch import Batch

BANNER = "headwater run 5: SECRET, protect it like the data it was made from"
README = (
    "This file is the state of a Headwater run. It is as secret as the data it was made from: it holds records and the "
    "key of all noise. Do not publish, share or copy it. Continue from it once: two runs from one state put the same "
    "noise on different data, and subtracting what they publish shows the difference."
)
LEAST_SNAPSHOT = 1 << 23
"""Bytes behind a snapshot up to which no new one is made."""
RECEIPTS = 1 << 26
"""How many bytes of receipts are kept at least."""
_UNFIT = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def state_beside(out: Path) -> Path:
    folder = out.resolve() if out.name in ("", "..") else out
    return folder.with_name(f"{folder.name}.state")


def is_state(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(8 + len(BANNER))[8:] == BANNER.encode()


@dataclass
class _Kept:
    """What the frames of a file say, added up. Values by name are kept as JSON: nobody can change them by mistake."""

    config: str = "{}"
    named: dict[str, dict[str, str]] = field(default_factory=lambda: {"positions": {}, "notes": {}, "releases": {}})
    receipts: list[bytes] = field(default_factory=list)
    identity: list[int] = field(default_factory=lambda: [0, 0])
    t: int = 0
    commits: int = 0
    size: int = 0  # of the snapshot
    end: int = 0
    has_journal: bool = False

    def add(self, frame: Frame) -> None:
        said, records = frame.header, int(frame.header.get("records", 0))
        commits, after = int(said["commits"]), self.commits + 1
        if self.end and ("config" in said or (commits < after if "identity" in said else commits != after)):
            raise ValueError("a frame is missing, or there twice")
        for kind, known in self.named.items():
            known.update((name, json.dumps(value)) for name, value in said.get(kind, {}).items())
            for name in [name for name, value in known.items() if value == "null"]:
                del known[name]
        if "receipts" in said:
            data = frame.arrays["receipts"].tobytes()
            need(sum(said["receipts"]) == len(data), "receipts")
            self.receipts += [data[a:b] for a, b in pairwise(accumulate(said["receipts"], initial=0))]
        if "config" in said:
            self.config = json.dumps(dict(said["config"]))
        if "identity" in said:
            self.identity = list(map(int, said["identity"]))
        self.has_journal = self.has_journal or (self.end > 0 and records > 0)
        self.t, self.commits = self.t + records, commits
        self.size, self.end = self.size or frame.end, frame.end

    def snapshot(self, data: bytes, handle: int) -> bytes:
        """The first frame of another file, which says all of this."""
        while len(self.receipts) > 1 and sum(map(len, self.receipts[1:])) >= RECEIPTS:
            del self.receipts[0]
        said: dict[str, Any] = {
            "readme": README,
            "config": json.loads(self.config),
            "commits": self.commits + 1,
            "records": self.t,
        }
        said |= {"identity": _identity(handle), "receipts": list(map(len, self.receipts))}
        arrays = {"data": np.frombuffer(data, np.uint8), "receipts": np.frombuffer(b"".join(self.receipts), np.uint8)}
        for kind, known in self.named.items():
            said[kind] = {name: json.loads(value) for name, value in known.items()}
        return framed(BANNER, said, arrays)


def _identity(handle: int) -> list[int]:
    status = os.fstat(handle)
    return [status.st_ino, status.st_dev]


class State:
    """The durable state of one run. Every method that writes is one step, on the disk when it returns.

    Made by `create` or `open`; or without a path for a run that keeps nothing on the disk.
    """

    def __init__(self, path: Path | None = None, lock: Lock | None = None) -> None:
        self.path, self._lock, self._handle = path, lock, -1
        self._kept: _Kept | None = None if path else _Kept()  # None in a step, and after a broken one: the file says
        self._process, self._turn, self._closed = this_process(), threading.RLock(), False

    @classmethod
    def create(cls, path: str | os.PathLike[str], config: Mapping[str, Any], data: bytes = b"") -> Self:
        """Create the state of a new run, owner-only from the first moment, whole or not at all, and open it."""
        path = Path(os.path.realpath(path))
        with plain_errors(path):
            for folder in reversed([one for one in path.parents if not one.exists()]):
                folder.mkdir(mode=0o700, exist_ok=True)
        with _locked(path) as lock:
            if path.exists():
                remedy = "continue it, or choose another path for a new run"
                raise StoreError(path, "there is a state here already", remedy)
            lock.note(0)  # whatever the lock file holds is about another state that is gone
            state = cls(path, lock)
            state._write(_Kept(json.dumps(dict(config))), data)
        return state

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, allow_copy: bool = False, observe: bool = False) -> Self:
        """Open the state of a run to continue it, or only to look at it."""
        path = Path(os.path.realpath(path))
        if not path.is_file():
            raise StoreError(path, "there is no state here", "check the path, or start a new run")
        with _locked(path) as lock:
            state = cls(path, lock)
            state._handle = lock.hold(path)
            if stat.S_IMODE(os.fstat(state._handle).st_mode) & 0o077:
                problem = "other users may read this state, which is as secret as the data"
                raise StoreError(path, problem, f"think who may have read it, then: chmod 600 {path.name}")
            if not is_state(path):
                raise StoreError(path, "this is not the state of a Headwater run", "name the right file")
            state._check(path, lock, allow_copy=allow_copy, observe=observe)
        return state

    def _check(self, path: Path, lock: Lock, *, allow_copy: bool, observe: bool) -> None:
        """Refuse a damaged file, a copy, and an older one that was put back, unless they are allowed from now on."""
        known, here = self._known, _identity(self._handle)
        stable = os.major(known.identity[1]) and os.major(here[1])
        copied = known.identity[0] != here[0] or bool(stable and known.identity[1] != here[1])
        older = known.commits < lock.commits
        if not (allow_copy or observe):
            if (older or not lock.commits) and os.fstat(self._handle).st_size > known.end:  # else a kill has torn it
                raise damaged(path, "its last step does not match its checksum")
            if copied or older:
                problem = "this is a copy of a state, or a backup that was put back"
                older_one = "an older version of this state was put back in its place"
                raise StateCopiedError(path, older_one if older else problem, COPIED)
        if not observe:
            os.fsync(self._handle)  # what a killed process wrote last is shown only if it stays
        if not observe and (older or known.identity != here):
            known.commits = max(known.commits, lock.commits)
            self._append({"identity": here}, {})

    def close(self) -> None:
        with self._turn:
            if not self._closed and self._lock and this_process() == self._process:  # a child leaves it to its parent
                self._lock.release()
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what is kept

    @property
    def config(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._known.config)
        return found

    @property
    def t(self) -> int:
        return self._known.t

    @property
    def has_journal(self) -> bool:
        return self._known.has_journal

    @property
    def outgrown(self) -> bool:
        """Whether what came behind the snapshot is larger: so all snapshots together cost linear time."""
        return self._known.end > self._known.size + max(self._known.size, LEAST_SNAPSHOT)

    def position(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        return json.loads(self._known.named["positions"].get(name, "null"))

    def noted(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        return json.loads(self._known.named["notes"].get(name, "null"))

    def receipts(self) -> list[bytes]:
        """What was answered to the sources of records, oldest first; very old receipts are forgotten."""
        return list(self._known.receipts)

    def releases(self) -> dict[int, str]:
        found = {int(t): json.loads(digest) for t, digest in self._known.named["releases"].items()}
        return {t: found[t] for t in sorted(found)}

    def load(self) -> tuple[int, bytes, list[tuple[int, Batch]]]:
        """The time and the data of the snapshot, and the records after it, each with how many came before it."""
        known, found = self._known, list[tuple[int, Batch]]()
        if self.path is None:
            return known.t, b"", found
        with self._current(), _readable(self.path):
            first, *later = read_frames(self.path, self.path.read_bytes()[: known.end], BANNER)
            t = begin = int(first.header["records"])
            for said, arrays, _, _ in later:
                if "rows" not in arrays:
                    continue
                rows = arrays["rows"].astype(arrays["rows"].dtype.newbyteorder("="))
                batch = Batch(rows, arrays.get("counts"), until=said["until"])
                if rows.ndim != 2 or batch.records != said["records"]:
                    raise ValueError("rows and counts say how many records there are")
                found.append((t, batch))
                t += batch.records
        return begin, first.arrays["data"].tobytes(), found

    # ---- steps

    def append(self, batch: Batch | None, position: Mapping[str, Any], receipts: bytes = b"") -> None:
        """Keep the next records, and with them where their source stands; a position of None is removed."""
        said = dict[str, Any](positions=dict(position))
        arrays = dict[str, NDArray[Any]]()
        if batch is not None and batch.records:
            said |= {"records": batch.records, "until": batch.until}
            arrays["rows"] = batch.rows
            if batch.counts is not None:
                arrays["counts"] = batch.counts
        if receipts:
            said["receipts"], arrays["receipts"] = [len(receipts)], np.frombuffer(receipts, np.uint8)
        self._append(said, arrays)

    def note(self, **values: Any) -> None:  # noqa: ANN401 - any JSON value
        self._append({"notes": values}, {})

    def published(self, t: int, sha256: str) -> None:
        with self._turn:
            if (known := self._known.named["releases"].get(str(t))) is None:
                self._append({"releases": {str(t): sha256}}, {})
            elif known != json.dumps(sha256):
                problem = f"a release of t = {t} was published before with other content"
                raise StoreError(self.path or "", problem, "keep the first one: a published release never changes")

    def snapshot(self, t: int, data: bytes) -> None:
        """Let a file with ``data``, in which all ``t`` records are, take the place of this one."""
        with self._turn:
            if t != self._known.t:
                raise ValueError(f"a snapshot of {t} records in a state of {self._known.t}")
            self._write(self._known, data)

    def _append(self, said: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        with self._current():
            known, self._kept = self._known, None
            said["commits"], end = known.commits + 1, 0
            try:
                if self.path is not None:
                    frame = framed(BANNER, said, arrays)
                    end = known.end + len(frame)
                    append(self._handle, known.end, frame)
            except OSError:
                self._take_back(known.end)
                self._kept = known
                raise
            known.add(Frame(said, dict(arrays), end, ""))
            if self._lock is not None:
                self._lock.note(known.commits)
            self._kept = known

    def _take_back(self, end: int) -> None:
        """What was not brought to the disk must not be there later either."""
        try:
            os.ftruncate(self._handle, end)
            os.fsync(self._handle)
        except OSError:
            problem = "writing the disk failed, and whether this step was kept is not known until it is read again"
            remedy = "look at the disk, then give the same command again: the state decides what was kept"
            raise OutcomeUnknownError(self.path or "", problem, remedy) from None

    def _write(self, known: _Kept, data: bytes) -> None:
        """Under another name, then renamed: a kill leaves the old file, or none, or the whole new one."""
        if self.path is None or self._lock is None:
            return
        with self._current():
            new = self.path.with_name(f".{self.path.name}.new")
            new.unlink(missing_ok=True)
            try:
                with open(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), "r+b", buffering=0) as file:
                    frame = known.snapshot(data, file.fileno())
                    append(file.fileno(), 0, frame)
                self._kept = None
                os.rename(new, self.path)
            except BaseException:
                new.unlink(missing_ok=True)
                raise
            sync(self.path.parent)
            self._reopen(self.path, self._lock)
            known.commits, known.has_journal, known.size, known.end = known.commits + 1, False, len(frame), len(frame)
            self._lock.note(known.commits)
            self._kept = known

    # ---- turns

    @property
    def _known(self) -> _Kept:
        with self._current():
            if self._kept is None and self.path is not None and self._lock is not None:
                self._reopen(self.path, self._lock)
                known = _Kept()
                with _readable(self.path):
                    for frame in read_frames(self.path, self.path.read_bytes(), BANNER):
                        known.add(frame)
                self._kept = known
            assert self._kept is not None  # noqa: S101 - of a run without a path too
            return self._kept

    def _reopen(self, path: Path, lock: Lock) -> None:
        """The file, if another one has taken its place."""
        if self._handle < 0 or not os.path.samestat(os.fstat(self._handle), os.stat(path)):
            handle = lock.hold(path)  # first: if that fails, the one before it is still open, and it is tried again
            lock.drop(self._handle)
            self._handle = handle

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Hold the turn, with plain errors."""
        if self.path is None:
            with self._turn:
                yield
            return
        if self._closed:
            raise StoreError(self.path, "this state is closed", "open it again")
        if self._process != this_process():
            problem = "this is a forked process: the state belongs to its parent"
            raise StoreError(self.path, problem, "open the state in one process only")
        with self._turn, plain_errors(self.path):
            yield


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """What does not fit is damage."""
    try:
        yield
    except _UNFIT as error:
        raise damaged(path, "its parts do not fit together or their checksums") from error
    except MemoryError:  # sizes are behind checksums: this is no damage
        raise StoreError(path, "there is not enough memory to read it", "give this process more, and go on") from None


@contextmanager
def _locked(path: Path) -> Iterator[Lock]:
    lock = Lock(path)
    try:
        with plain_errors(path):
            yield lock
    except BaseException:
        lock.release()
        raise
