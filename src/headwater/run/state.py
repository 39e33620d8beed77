"""The state of a run in one SQLite file: a snapshot, a journal of the records since then, receipts, and one owner."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import numpy as np

from headwater.public.files import sync, this_process
from headwater.run.lock import (
    COPIED,
    UNFIT,
    Lock,
    OutcomeUnknownError,
    StateCopiedError,
    StoreError,
    damaged,
    plain_errors,
    turns,
)
from headwater.secret.batch import Batch

FORMAT = 4
APPLICATION = 0x48_57_41_54  # "HWAT", where `file` and others look for the kind of an SQLite file
README = (
    "This file is the state of a Headwater run. It is as secret as the data it was made from: it holds records and the "
    "key of all noise. Do not publish, share or copy it. Continue from it once: two runs from one state put the same "
    "noise on different data, and subtracting what they publish shows the difference."
)
PART = 1 << 26
"""SQLite takes blobs below 1 GB: a snapshot is kept in parts."""
RECEIPTS = 1 << 26
"""How many bytes of receipts are kept at least."""

_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE position (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE snapshot (part INTEGER PRIMARY KEY, data BLOB NOT NULL, sha256 BLOB NOT NULL);
CREATE TABLE journal (seq INTEGER PRIMARY KEY, head TEXT NOT NULL, data BLOB NOT NULL, sha256 BLOB NOT NULL);
CREATE TABLE receipt (seq INTEGER PRIMARY KEY, data BLOB NOT NULL, sha256 BLOB NOT NULL);
CREATE TABLE release (t INTEGER PRIMARY KEY, sha256 TEXT NOT NULL);
"""
_PRAGMAS = (
    "page_size = 65536",  # blobs of megabytes: large pages halve the time of a commit
    "locking_mode = EXCLUSIVE",  # a second guard, where two names lead to one file
    "journal_mode = TRUNCATE",
    "journal_size_limit = 0",  # no old pages left beside the state
    "synchronous = FULL",
    "secure_delete = FAST",
    "temp_store = MEMORY",  # no data in temporary files
)


def is_state(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(72)
    return head.startswith(b"SQLite format 3\0") and head[68:72] == APPLICATION.to_bytes(4, "big")


def _digest(*parts: bytes | memoryview) -> bytes:
    result = hashlib.sha256()
    for part in parts:
        result.update(len(part).to_bytes(8, "big"))
        result.update(part)
    return result.digest()


def _connect(path: Path) -> sqlite3.Connection:
    """A connection that never creates a file, never blocks, and returns from a commit when it is on the disk."""
    journal = _journal_of(path)
    if journal.is_symlink():  # SQLite would follow it and write over its target
        raise StoreError(path, f"{journal.name} is a symbolic link", "find out who made it, then remove it")
    # Autocommit mode: transactions are begun and ended by hand. Threads take turns by the state's own lock.
    address = f"file:{quote(str(path))}?mode=rw"
    connection = sqlite3.connect(address, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def _journal_of(path: Path) -> Path:
    return path.with_name(path.name + "-journal")


def _identity(path: Path) -> dict[str, int]:
    status = os.stat(path)
    return {"inode": status.st_ino, "device": status.st_dev}


class State:
    """The durable state of one run. Every method that writes is one transaction, on the disk when it returns."""

    def __init__(self, path: Path, lock: Lock, connection: sqlite3.Connection, *, allow_copy: bool) -> None:
        self.path, self._lock, self._connection = path, lock, connection
        self._process, self._turn, self._closed = this_process(), threading.RLock(), False
        self._check(allow_copy)
        turns[self] = self._turn

    @classmethod
    def create(cls, path: str | os.PathLike[str], config: Mapping[str, Any]) -> Self:
        """Create the state of a new run, owner-only from the first moment, whole or not at all, and open it."""
        path = Path(os.path.realpath(path))
        with plain_errors(path):
            for folder in reversed([one for one in path.parents if not one.exists()]):
                folder.mkdir(mode=0o700, exist_ok=True)
        with _locked(path) as lock, plain_errors(path):
            if path.exists():
                remedy = "continue it, or choose another path for a new run"
                raise StoreError(path, "there is a state here already", remedy)
            lock.note(0)  # whatever the lock file holds is about another state that is gone
            cls._build(path, json.dumps(dict(config)))
            return cls._opened(path, lock, allow_copy=False, observe=False)

    @staticmethod
    def _build(path: Path, config: str) -> None:
        """Under another name, then renamed: a kill leaves no state or a whole one."""
        new = path.with_name(f".{path.name}.new")
        for left in (new, _journal_of(new)):
            left.unlink(missing_ok=True)
        try:
            os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            connection = _connect(new)
            try:
                marks = f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT};"
                connection.executescript(f"BEGIN IMMEDIATE; {marks} {_TABLES}")  # one commit: each is slow
                checked = {"readme": README, "config": [config, hashlib.sha256(config.encode()).hexdigest()]}
                _set_meta(connection, {**checked, "commits": 0, "t": 0, "journal": 0, **_identity(new)})
                connection.execute("COMMIT")
            finally:
                connection.close()
            os.rename(new, path)
        finally:
            for left in (new, _journal_of(new)):
                left.unlink(missing_ok=True)
        sync(path.parent)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, allow_copy: bool = False, observe: bool = False) -> Self:
        """Open the state of a run to continue it, or only to look at it."""
        path = Path(os.path.realpath(path))
        with plain_errors(path):
            if not path.is_file():
                raise StoreError(path, "there is no state here", "check the path, or start a new run")
        with _locked(path) as lock:
            return cls._opened(path, lock, allow_copy=allow_copy, observe=observe)

    @classmethod
    def _opened(cls, path: Path, lock: Lock, *, allow_copy: bool, observe: bool) -> Self:
        with plain_errors(path):
            if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
                problem = "other users may read this state, which is as secret as the data"
                raise StoreError(path, problem, f"think who may have read it, then: chmod 600 {path.name}")
            connection = _connect(path)
            try:
                state = cls(path, lock, connection, allow_copy=allow_copy or observe)
                if observe:
                    connection.execute("PRAGMA query_only = ON")
                else:
                    with state._transaction():
                        _set_meta(connection, _identity(path))
            except BaseException:
                connection.close()
                raise
        return state

    def _check(self, allow_copy: bool) -> None:
        """Refuse a file that is no state, one of another format, a copy, and an older one that was put back."""
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION:
            raise StoreError(self.path, "this is not the state of a Headwater run", "name the right file")
        if version != FORMAT:
            problem = f"the state has format {version}, and this version of Headwater knows {FORMAT}"
            raise StoreError(self.path, problem, "continue with the version that it began with, or start a new run")
        try:
            config, checksum = self._meta("config")
            if hashlib.sha256(config.encode()).hexdigest() != checksum:
                raise damaged(self.path, "the configuration does not match its checksum")
            self._config, self._commits = json.loads(config), int(self._meta("commits"))
            kept, now = {name: int(self._meta(name)) for name in ("inode", "device")}, _identity(self.path)
        except UNFIT as error:
            raise damaged(self.path, "its notes about itself cannot be read") from error
        stable = os.major(kept["device"]) and os.major(now["device"])
        if not allow_copy and (kept["inode"] != now["inode"] or (stable and kept["device"] != now["device"])):
            raise StateCopiedError(self.path, "this is a copy of a state, or a backup that was put back", COPIED)
        if not allow_copy and self._commits < self._lock.commits:
            raise StateCopiedError(self.path, "an older version of this state was put back in its place", COPIED)
        self._commits = max(self._commits, self._lock.commits)

    def close(self) -> None:
        if self._closed or this_process() != self._process:  # a forked child leaves its parent's file alone
            return
        with self._turn:
            with suppress(sqlite3.Error, OSError):
                self._connection.close()
                journal = _journal_of(self.path)
                if journal.is_file() and not journal.stat().st_size:
                    journal.unlink(missing_ok=True)
            self._lock.release()
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what is kept

    @property
    def config(self) -> dict[str, Any]:
        """The configuration that the run was begun with."""
        copy: dict[str, Any] = json.loads(json.dumps(self._config))
        return copy

    @property
    def t(self) -> int:
        """How many records have been kept."""
        found: int = self.noted("t")
        return found

    @property
    def has_journal(self) -> bool:
        return bool(self.noted("journal"))

    @property
    def outgrown(self) -> bool:
        """Whether the journal is larger than the snapshot: so all snapshots together cost linear time."""
        _, _, size = self.noted("snapshot") or (0, 0, 0)
        return bool(self.noted("journal") > max(size, LEAST_SNAPSHOT))

    def position(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        with self._current():
            return self._value("SELECT value FROM position WHERE name = ?", name)

    def append(self, batch: Batch | None, position: Mapping[str, Any], receipts: bytes = b"") -> None:
        """Keep the next records, and with them where their source stands."""
        with self._current(), self._transaction():
            run, t = self._connection.execute, self._meta("t")
            if batch is not None and batch.records:
                packed = _packed(t, batch)
                run("INSERT INTO journal (head, data, sha256) VALUES (?, ?, ?)", packed)
                size = self._meta("journal") + len(packed[1])
                _set_meta(self._connection, {"t": t + batch.records, "journal": size})
            if receipts:
                run("INSERT INTO receipt (data, sha256) VALUES (?, ?)", (receipts, _digest(receipts)))
            for name, value in position.items():
                if value is None:
                    run("DELETE FROM position WHERE name = ?", (name,))
                else:
                    run("INSERT OR REPLACE INTO position VALUES (?, ?)", (name, json.dumps(value)))

    def snapshot(self, t: int, data: bytes) -> None:
        """Replace the snapshot and the journal by ``data``, in which all ``t`` records are."""
        view = memoryview(data)
        rows = [(number, view[start : start + PART]) for number, start in enumerate(range(0, len(view), PART))]
        with self._current(), self._transaction():
            run = self._connection.execute
            if t != self._meta("t"):
                raise ValueError(f"a snapshot of {t} records in a state of {self._meta('t')}")
            for table in ("snapshot", "journal"):
                run(f"DELETE FROM {table}")  # noqa: S608 - two fixed names
            for number, piece in rows:
                run("INSERT INTO snapshot VALUES (?, ?, ?)", (number, piece, _digest(b"%d" % number, piece)))
            _set_meta(self._connection, {"snapshot": [t, len(rows), len(view)], "journal": 0})
            kept = 0
            for seq, size in list(run("SELECT seq, length(data) FROM receipt ORDER BY seq DESC")):
                if kept >= RECEIPTS:
                    run("DELETE FROM receipt WHERE seq <= ?", (seq,))
                    break
                kept += size

    def load(self) -> tuple[int, bytes, list[tuple[int, Batch]]]:
        """The time and the data of the snapshot, and the records after it, each with how many came before it."""
        with self._current():
            noted = self._meta("snapshot") or (0, 0, 0)
            parts = list(self._connection.execute("SELECT part, data, sha256 FROM snapshot ORDER BY part"))
            journal = list(self._connection.execute("SELECT head, data, sha256 FROM journal ORDER BY seq"))
            until = self._meta("t")
        if any(_digest(b"%d" % number, data) != checksum for number, data, checksum in parts):
            raise damaged(self.path, "the snapshot does not match its checksum")
        if any(_digest(head.encode(), data) != checksum for head, data, checksum in journal):
            raise damaged(self.path, "a part of the journal does not match its checksum")
        try:
            t, count, _ = noted
            found = [_unpacked(json.loads(text), data) for text, data, _ in journal]
        except UNFIT as error:
            raise damaged(self.path, "its parts do not fit together") from error
        ends = [t, *(first + batch.records for first, batch in found)]
        if len(parts) != count or ends != [*(first for first, _ in found), until]:
            raise damaged(self.path, "a part of the snapshot or of the journal is missing")
        return t, b"".join(data for _, data, _ in parts), found

    def receipts(self) -> list[bytes]:
        """What was answered to the sources of records, oldest first; very old receipts are forgotten."""
        with self._current():
            rows = list(self._connection.execute("SELECT data, sha256 FROM receipt ORDER BY seq"))
        if any(_digest(data) != checksum for data, checksum in rows):
            raise damaged(self.path, "the receipts do not match their checksum")
        return [data for data, _ in rows]

    def note(self, **values: Any) -> None:  # noqa: ANN401 - any JSON value
        """Keep facts about the run itself."""
        with self._current(), self._transaction():
            _set_meta(self._connection, values)

    def noted(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        with self._current():
            return self._meta(name)

    def published(self, t: int, sha256: str) -> None:
        """Note that the release of ``t`` was published."""
        with self._current():
            known = self.releases().get(t)
            if known is None:
                with self._transaction():
                    self._connection.execute("INSERT INTO release VALUES (?, ?)", (t, sha256))
            elif known != sha256:
                problem = f"a release of t = {t} was published before with other content"
                raise StoreError(self.path, problem, "keep the first one: a published release never changes")

    def releases(self) -> dict[int, str]:
        """The digests of all releases that were published, by their number of records."""
        with self._current():
            return dict(self._connection.execute("SELECT t, sha256 FROM release ORDER BY t"))

    # ---- turns and transactions

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Hold the lock, with plain errors."""
        if self._closed:
            raise StoreError(self.path, "this state is closed", "open it again")
        if self._process != this_process():
            problem = "this is a forked process: the state belongs to its parent"
            raise StoreError(self.path, problem, "open the state in one process only")
        with self._turn, plain_errors(self.path):
            yield

    def _meta(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        return self._value("SELECT value FROM meta WHERE name = ?", name)

    def _value(self, query: str, name: str) -> Any:  # noqa: ANN401 - any JSON value
        row = self._connection.execute(query, (name,)).fetchone()
        try:
            return None if row is None else json.loads(row[0])
        except UNFIT as error:
            raise damaged(self.path, "its parts do not fit together") from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All of it or nothing, and counted."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._commits = max(self._commits, self._meta("commits"))  # an interrupt may have come after a commit
            yield
            _set_meta(self._connection, {"commits": self._commits + 1})
            self._commit()
        except BaseException:
            self._rollback()
            raise
        self._commits += 1
        self._lock.note(self._commits)

    def _commit(self) -> None:
        """A commit that fails may have happened: the last thing SQLite does is to sync that its journal was cut."""
        try:
            self._connection.execute("COMMIT")
            return
        except sqlite3.Error as error:
            failed = error
        self._rollback()
        try:
            happened = self._meta("commits") > self._commits
            if happened:  # one more brings it to the disk for good
                self._commits += 1
                self._connection.execute("BEGIN IMMEDIATE")
                _set_meta(self._connection, {"commits": self._commits + 1})
                self._connection.execute("COMMIT")
        except sqlite3.Error:
            problem = "writing the disk failed, and whether this step was kept cannot be read from it"
            remedy = "look at the disk, then give the same command again: the state decides what was kept"
            raise OutcomeUnknownError(self.path, problem, remedy) from None
        if not happened:
            raise failed

    def _rollback(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.execute("ROLLBACK")


@contextmanager
def _locked(path: Path) -> Iterator[Lock]:
    """The lock, which is given back after an error."""
    lock = Lock(path)
    try:
        yield lock
    except BaseException:
        lock.release()
        raise


def _set_meta(connection: sqlite3.Connection, values: Mapping[str, Any]) -> None:
    rows = [(name, json.dumps(value)) for name, value in values.items()]
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)


LEAST_SNAPSHOT = 1 << 23
"""Bytes of journal up to which no snapshot is made."""


def _packed(t: int, batch: Batch) -> tuple[str, bytes, bytes]:
    """Head, data and checksum of a journal entry."""
    rows = np.ascontiguousarray(batch.rows)
    rows = rows.astype(rows.dtype.newbyteorder("<"), copy=False)
    head: dict[str, Any] = {"from": t, "to": t + batch.records, "dtype": rows.dtype.str, "shape": rows.shape}
    data = rows.tobytes()
    if batch.counts is not None:
        counts = batch.counts.astype(batch.counts.dtype.newbyteorder("<"))
        head |= {"counts": counts.dtype.str, "until": batch.until}
        data += counts.tobytes()
    text = json.dumps(head)
    return text, data, _digest(text.encode(), data)


def _unpacked(head: dict[str, Any], data: bytes) -> tuple[int, Batch]:
    shape, counts, until = head["shape"], None, head.get("until")
    if "counts" in head:
        size = shape[0] * np.dtype(head["counts"]).itemsize
        counts, data = np.frombuffer(data[-size:], dtype=head["counts"]), data[:-size]
    rows = np.frombuffer(data, dtype=head["dtype"]).reshape(shape)
    batch = Batch(rows.astype(rows.dtype.newbyteorder("=")), counts, until=until)
    if batch.records != head["to"] - head["from"]:
        raise ValueError("rows and counts say how many records there are")
    return head["from"], batch
