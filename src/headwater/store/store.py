"""The state of a run in one SQLite file: a snapshot, and a journal of what came after it."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import sqlite3
import stat
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from headwater.store import tables
from headwater.store.errors import StateCopiedError, StateDamagedError, StoreError, damaged, plain_errors
from headwater.store.lock import Lock
from headwater.store.making import make_file, make_folder, real_path

Position = Any  # any JSON value that says how far the input has been read

_UNFIT = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError)
"""What can go wrong when parts are put together that do not belong together; NumPy reads some types as Python."""

_PART = 1 << 26  # SQLite takes blobs below 1 GB: a snapshot is kept in parts


class Kept(NamedTuple):
    """What a state holds: with ``journal`` on top of ``snapshot`` the run is at ``t``, its input at ``position``."""

    snapshot: bytes | None
    journal: list[NDArray[Any]]
    position: Position
    t: int


class Store:
    """The durable state of one run. Made by `create` or `open`, used by one process, closed at the end.

    Every method that writes is one transaction: after a kill, a full disk or a power cut the state is what it was
    before the call or what it was after it. When the call has returned, the change is on the disk.

    Formal guarantees
    -----------------
    One owner: while a store is open no other process, thread or forked child can use the same file. A copy of the
    file, or an older one put back in its place, is refused wherever it can be told apart.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "run.state"
    >>> with Store.create(path, {"epsilon": 1.0}) as store:
    ...     store.append(3, np.array([[0.1], [0.2], [0.3]]), position={"row": 3})
    >>> with Store.open(path) as store:
    ...     kept = store.load()
    >>> kept.t, kept.position, kept.journal[0].shape
    (3, {'row': 3}, (3, 1))
    """

    def __init__(self, path: Path, lock: Lock, connection: sqlite3.Connection) -> None:
        self.path = path
        self._lock, self._connection = lock, connection
        self._process, self._turn = os.getpid(), threading.RLock()
        self._commits = self._journal_bytes = self._snapshot_bytes = self._t = 0
        self._config: dict[str, Any] = {}
        self._opened = 0
        _open_stores.add(self)

    # ---- beginning and end

    @classmethod
    def create(cls, path: str | os.PathLike[str], config: Mapping[str, Any]) -> Store:
        """Make the state of a new run, owner-only, and open it. ``config`` (JSON) is kept with it for ever."""
        path = real_path(path)
        text = json.dumps(dict(config))
        with plain_errors(path):
            make_folder(path.parent)
        lock = Lock(path)
        try:
            with plain_errors(path):
                if path.exists():
                    remedy = "go on with it, or choose another path for a new run"
                    raise StoreError(path, "there is a state here already", remedy)
                lock.note(0)  # whatever the lock file says is of another state that is gone
                make_file(path, text)
            return cls._open(path, lock, allow_copy=False)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, allow_copy: bool = False, observe: bool = False) -> Store:
        """Open the state of a run to go on with it, or only to look at it.

        ``allow_copy=True`` says: I know that this is a copy or a backup, and no other run goes on from this state.
        ``observe=True`` writes nothing, so it takes copies as well, and leaves them copies.
        """
        path = real_path(path)
        with plain_errors(path):
            if not path.is_file():
                raise StoreError(path, "there is no state here", "check the path, or start a new run")
        lock = Lock(path)
        try:
            return cls._open(path, lock, allow_copy=allow_copy, observe=observe)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def _open(cls, path: Path, lock: Lock, *, allow_copy: bool, observe: bool = False) -> Store:
        with plain_errors(path):
            if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
                problem = "other users may read this state, which is as secret as the data"
                raise StoreError(path, problem, f"think who may have read it, then: chmod 600 {path.name}")
            connection = tables.connect(path)
            try:
                tables.check_kind(path, connection)
                store = cls(path, lock, connection)
                store._begin(allow_copy, observe)
            except BaseException:
                connection.close()
                raise
        return store

    def _begin(self, allow_copy: bool, observe: bool) -> None:
        """Read the public part, make sure that this is the one true file, and count this opening."""
        meta = dict(self._connection.execute("SELECT key, value FROM meta"))
        try:
            if hashlib.sha256(meta["config"].encode()).hexdigest() != meta["config_sha256"]:
                raise damaged(self.path, "the configuration does not match its checksum")
            self._config = json.loads(meta["config"])
            self._commits, self._opened = int(meta["commits"]), int(meta["opened"]) + 1
            if not allow_copy and not observe:
                self._refuse_copy(meta)
        except _UNFIT as error:
            raise damaged(self.path, "its notes about itself cannot be read") from error
        self._commits = max(self._commits, self._lock.commits)  # an allowed copy goes on above the old count
        if observe:
            self._connection.execute("PRAGMA query_only = ON")
        else:
            with self._transaction():
                changes = {"opened": str(self._opened), **tables.identity(self.path)}
                self._connection.executemany("UPDATE meta SET value = ?2 WHERE key = ?1", changes.items())
        self._measure()

    def _refuse_copy(self, meta: dict[str, str]) -> None:
        why = "two runs from one state publish the same noise on different data, and that betrays the data"
        remedy = (
            "if no other run goes on from this state or from the one it was copied from, "
            f"say so with allow_copy (--allow-copy); otherwise start a new run: {why}"
        )
        if not tables.same_file(meta, self.path):
            raise StateCopiedError(self.path, "this is a copy of a state, or a backup that was put back", remedy)
        if self._commits < self._lock.commits:
            raise StateCopiedError(self.path, "an older version of this state was put back in its place", remedy)

    def close(self) -> None:
        """Let go of the file. May be called twice."""
        if os.getpid() != self._process:  # closed before, or in a forked child, which leaves its parent's file alone
            return
        with self._turn:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._lock.release()
            self._process = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what is kept

    @property
    def config(self) -> dict[str, Any]:
        """What `create` was given: the run's configuration, which never changes."""
        copy: dict[str, Any] = json.loads(json.dumps(self._config))
        return copy

    @property
    def t(self) -> int:
        """How many records the state has taken."""
        return self._t

    @property
    def opened(self) -> int:
        """How many times this state has been opened, this time included."""
        return self._opened

    @property
    def journal_bytes(self) -> int:
        """Size of the arrays since the snapshot: when it outgrows `snapshot_bytes`, a new snapshot pays."""
        return self._journal_bytes

    @property
    def snapshot_bytes(self) -> int:
        """Size of the snapshot, 0 if there is none."""
        return self._snapshot_bytes

    def append(self, t: int, points: NDArray[Any], position: Position = None) -> None:
        """Keep the next part of the stream: ``points`` took the run from `t` to ``t``.

        Any array of numbers will do (points, cells, counts). Without ``position`` the last one stays.
        """
        if t < self._t:
            raise ValueError(f"t went back from {self._t} to {t}")
        array = np.ascontiguousarray(points)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"points must be an array of numbers, not of {array.dtype}")
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        data = array.data.cast("B") if array.size else memoryview(b"")
        place = {"from": self._t, "to": t, "dtype": array.dtype.str, "shape": array.shape, "position": position}
        head = json.dumps(place)
        with self._transaction():
            row = (head, data, tables.digest(head.encode(), data))
            self._connection.execute("INSERT INTO journal (head, data, sha256) VALUES (?, ?, ?)", row)
        self._t = t
        self._journal_bytes += len(data)

    def snapshot(self, t: int, data: bytes, position: Position = None) -> None:
        """Replace the snapshot and the whole journal by ``data``, the state of the run at ``t``."""
        if t < self._t:
            raise ValueError(f"t went back from {self._t} to {t}")
        view = memoryview(data)
        parts = [view[start : start + _PART] for start in range(0, len(view), _PART)]
        if position is None:
            position = self._last_position()
        head = json.dumps({"t": t, "position": position, "parts": len(parts)}).encode()
        rows = [(i, p, tables.digest(str(i).encode(), p)) for i, p in enumerate([memoryview(head), *parts])]
        with self._transaction():
            self._connection.execute("DELETE FROM snapshot")
            self._connection.execute("DELETE FROM journal")
            self._connection.executemany("INSERT INTO snapshot VALUES (?, ?, ?)", rows)
        self._t, self._journal_bytes, self._snapshot_bytes = t, 0, len(view)

    def load(self) -> Kept:
        """Everything that was kept, each piece checked against its checksum."""
        with self._use():
            parts = list(self._connection.execute("SELECT part, data, sha256 FROM snapshot ORDER BY part"))
            rows = list(self._connection.execute("SELECT head, data, sha256 FROM journal ORDER BY seq"))
        try:
            snapshot, position, t = self._join(parts)
            journal = []
            for head, data, checksum in rows:
                if tables.digest(head.encode(), data) != checksum:
                    raise damaged(self.path, "a part of the journal does not match its checksum")
                place = json.loads(head)
                if place["from"] != t or type(place["to"]) is not int:
                    raise damaged(self.path, "a part of the journal is missing")
                journal.append(np.frombuffer(data, dtype=place["dtype"]).reshape(place["shape"]))
                position, t = place["position"] if place["position"] is not None else position, place["to"]
        except _UNFIT as error:
            raise damaged(self.path, "its parts do not fit together") from error
        return Kept(snapshot, journal, position, t)

    def published(self, t: int, sha256: str) -> None:
        """Note that the release of ``t`` was published with this content. Other content for it is refused."""
        with self._turn:
            known = self.releases().get(t)
            if known is None:
                with self._transaction():
                    self._connection.execute("INSERT INTO release VALUES (?, ?)", (t, sha256))
            elif known != sha256:
                problem = f"a release of t = {t} was published before with other content"
                raise StoreError(self.path, problem, "keep the first one: a published release never changes")

    def releases(self) -> dict[int, str]:
        """SHA-256 of every published release by its ``t``, in order."""
        with self._use():
            return dict(self._connection.execute("SELECT t, sha256 FROM release ORDER BY t"))

    # ---- inside

    @contextmanager
    def _use(self) -> Iterator[None]:
        """Check that we may, take turns, and speak plainly."""
        if self._process == -1:
            raise StoreError(self.path, "this store is closed", "open it again")
        if self._process != os.getpid():
            problem = "this is a forked process: the state belongs to its parent"
            raise StoreError(self.path, problem, "open the state in one process only")
        with self._turn, plain_errors(self.path):
            yield

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All of it or nothing, and counted."""
        with self._use():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("UPDATE meta SET value = ? WHERE key = 'commits'", (str(self._commits + 1),))
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise
            self._commits += 1
            self._lock.note(self._commits)

    def _measure(self) -> None:
        """Read sizes and `t` without reading the data."""
        with self._use():
            sizes = "SELECT coalesce(sum(length(data)), 0) FROM "
            (self._journal_bytes,) = self._connection.execute(sizes + "journal").fetchone()
            (self._snapshot_bytes,) = self._connection.execute(sizes + "snapshot WHERE part > 0").fetchone()
            last = self._connection.execute("SELECT head FROM journal ORDER BY seq DESC LIMIT 1").fetchone()
            first = self._connection.execute("SELECT data FROM snapshot WHERE part = 0").fetchone()
        try:
            self._t = int(json.loads(last[0])["to"] if last else json.loads(first[0])["t"] if first else 0)
        except _UNFIT as error:
            raise damaged(self.path, "its parts do not fit together") from error

    def _last_position(self) -> Position:
        """The newest position that was handed in."""
        with self._use():
            heads = self._connection.execute("SELECT head FROM journal ORDER BY seq DESC")
            found = next((p for (head,) in heads if (p := json.loads(head)["position"]) is not None), None)
            first = self._connection.execute("SELECT data FROM snapshot WHERE part = 0").fetchone()
        return found if found is not None or first is None else json.loads(first[0])["position"]

    def _join(self, parts: list[tuple[int, bytes, bytes]]) -> tuple[bytes | None, Position, int]:
        """The snapshot out of its parts."""
        if not parts:
            return None, None, 0
        for number, data, checksum in parts:
            if tables.digest(str(number).encode(), data) != checksum:
                raise damaged(self.path, "the snapshot does not match its checksum")
        head = json.loads(parts[0][1])
        if head["parts"] != len(parts) - 1 or [number for number, _, _ in parts] != list(range(len(parts))):
            raise StateDamagedError(self.path, "a part of the snapshot is missing", "put back a backup of the state")
        return b"".join(data for _, data, _ in parts[1:]), head["position"], int(head["t"])


_open_stores: weakref.WeakSet[Store] = weakref.WeakSet()


def _abandon_in_child() -> None:
    """A forked child must never close its parent's database: SQLite would tidy up files that the parent still uses.

    So the child's connection is never freed.
    """
    for store in list(_open_stores):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(store._connection))


os.register_at_fork(after_in_child=_abandon_in_child)
