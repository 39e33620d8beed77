"""The state of a run in one SQLite file: a snapshot, and a journal of the records since then."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.run.store import database, entries, receipt
from headwater.run.store.create import create_file, create_folder, real_path
from headwater.run.store.entries import UNFIT, Entry, Kept, Position, Rows, Snapshot
from headwater.run.store.errors import StoreError, damaged, plain_errors
from headwater.run.store.identity import identity
from headwater.run.store.lock import Lock
from headwater.run.store.opening import NOTES, Meta, check_permission, read_meta
from headwater.run.store.owned import OwnedDatabase


class Store(OwnedDatabase):
    """The durable state of one run."""

    def __init__(self, path: Path, lock: Lock, connection: sqlite3.Connection, meta: Meta) -> None:
        super().__init__(path, lock, connection)
        self._config, self._opened = meta.config, meta.opened
        self._commits = max(self._commits, meta.commits)  # the lock file may be new, or older than the state
        self._t = self._journal_bytes = self._snapshot_bytes = 0
        self._position: Position = {}
        self._notes: dict[str, Any] = {}

    @classmethod
    def create(cls, path: str | os.PathLike[str], config: Mapping[str, Any]) -> Store:
        """Create the state of a new run, owner-only, and open it."""
        path = real_path(path)
        text = json.dumps(dict(config))
        with plain_errors(path):
            create_folder(path.parent)
        lock = Lock(path)
        try:
            with plain_errors(path):
                if path.exists():
                    remedy = "continue it, or choose another path for a new run"
                    raise StoreError(path, "there is a state here already", remedy)
                lock.note(0)  # whatever the lock file holds is about another state that is gone
                create_file(path, text)
            return cls._open(path, lock, allow_copy=False, observe=False)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, allow_copy: bool = False, observe: bool = False) -> Store:
        """Open the state of a run to continue it, or only to look at it."""
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
    def _open(cls, path: Path, lock: Lock, *, allow_copy: bool, observe: bool) -> Store:
        with plain_errors(path):
            check_permission(path)
            connection = database.connect(path)
            try:
                database.check_format(path, connection)
                meta = read_meta(path, connection, None if allow_copy or observe else lock.commits)
                store = cls(path, lock, connection, meta)
                if observe:
                    connection.execute("PRAGMA query_only = ON")
                else:
                    with store.transaction():
                        connection.execute(f"PRAGMA user_version = {database.FORMAT}")
                        connection.execute(database.RECEIPTS)
                        store.set_meta({"opened": str(store._opened), **identity(path)})
                store._refresh()
            except BaseException:
                database.disconnect(path, connection)
                raise
        return store

    # ---- what is kept

    @property
    def config(self) -> dict[str, Any]:
        copy: dict[str, Any] = json.loads(json.dumps(self._config))
        return copy

    @property
    def opened(self) -> int:
        return self._opened

    @property
    def t(self) -> int:
        with self.current():
            return self._t

    @property
    def journal_bytes(self) -> int:
        with self.current():
            return self._journal_bytes

    @property
    def snapshot_bytes(self) -> int:
        with self.current():
            return self._snapshot_bytes

    def position(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        with self.current():
            return self._position.get(name)

    def append(
        self,
        rows: Rows,
        position: Mapping[str, Any] | None = None,
        receipts: bytes = b"",
        counts: NDArray[np.int64] | None = None,
        whole: bool = False,
    ) -> int:
        """Keep the next records, and with them where their source stands; return how many records there are now."""
        with self.current():
            entry = Entry(self._t, entries.check_rows(rows), dict(position or {}), counts, whole)
            packed = entries.pack_entry(entry, receipts)
            with self.transaction():
                self.connection.execute("INSERT INTO journal (head, data, sha256) VALUES (?, ?, ?)", packed)
            self._t = entry.end
            self._journal_bytes += len(packed[0]) + len(packed[1])
            entries.merge(self._position, entry.position)
            self._fresh = True
            return self._t

    def snapshot(self, t: int, data: bytes) -> None:
        """Replace the snapshot, and the journal up to ``t``, by ``data``."""
        with self.current():
            if t > self._t:
                raise ValueError(f"a snapshot of t = {t} is ahead of the state, which is at {self._t}")
            heads = list(self.connection.execute("SELECT seq, head FROM journal ORDER BY seq"))
            ahead = [json.loads(head) for _, head in heads if json.loads(head)["to"] > t]
            if t < (ahead[0]["from"] if ahead else self._t):
                raise ValueError(f"t went back from {self._t} to {t}")
            covered = [(seq,) for seq, head in heads if json.loads(head)["to"] <= t]
            receipts = b"".join(entries.receipts_in(json.loads(head)) for _, head in heads[: len(covered)])
            rows = entries.pack_snapshot(Snapshot(t, data, self._position))
            with self.transaction():
                self.connection.execute("DELETE FROM snapshot")
                self.connection.executemany("DELETE FROM journal WHERE seq = ?", covered)
                self.connection.executemany("INSERT INTO snapshot VALUES (?, ?, ?)", rows)
                receipt.keep(self.connection, receipts)
                self.set_meta({"measured_by": "null"})
            self._refresh()

    def receipts(self) -> list[bytes]:
        with self.current():
            return receipt.read(self.path, self.connection)

    def load(self) -> Kept:
        """Everything that was kept, each piece checked against its checksum."""
        with self.current():
            parts = list(self.connection.execute("SELECT part, data, sha256 FROM snapshot ORDER BY part"))
            rows = list(self.connection.execute("SELECT head, data, sha256 FROM journal ORDER BY seq"))
        try:
            snapshot = entries.unpack_snapshot(self.path, parts)
            position, t = (dict(snapshot.position), snapshot.t) if snapshot else ({}, 0)
            found = [entries.unpack_entry(self.path, *row) for row in rows]
            journal = entries.join(self.path, t, found)
            for entry in found:
                entries.merge(position, entry.position)
        except UNFIT as error:
            raise damaged(self.path, "its parts do not fit together") from error
        return Kept(snapshot, journal, position, found[-1].end if found else t)

    # ---- notes

    def note(self, **values: Any) -> None:  # noqa: ANN401 - any JSON value
        with self.current():
            with self.transaction():
                self.set_meta({name: json.dumps(value) for name, value in values.items()})
            self._refresh()

    def noted(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        with self.current():
            return self._notes.get(name)

    def published(self, t: int, sha256: str) -> None:
        """Note that the release of ``t`` was published."""
        with self.current():
            known = self.releases().get(t)
            if known is None:
                with self.transaction():
                    self.connection.execute("INSERT INTO release VALUES (?, ?)", (t, sha256))
                self._fresh = True
            elif known != sha256:
                problem = f"a release of t = {t} was published before with other content"
                raise StoreError(self.path, problem, "keep the first one: a published release never changes")

    def releases(self) -> dict[int, str]:
        with self.current():
            return dict(self.connection.execute("SELECT t, sha256 FROM release ORDER BY t"))

    def _refresh(self) -> None:
        """Read sizes, times and positions from the file, without its data."""
        run = self.connection.execute
        (self._journal_bytes,) = run("SELECT coalesce(sum(length(head) + length(data)), 0) FROM journal").fetchone()
        (self._snapshot_bytes,) = run("SELECT coalesce(sum(length(data)), 0) FROM snapshot WHERE part > 0").fetchone()
        first = run("SELECT data FROM snapshot WHERE part = 0").fetchone()
        try:
            meta = dict(run("SELECT key, value FROM meta"))
            self._commits = max(self._commits, int(meta["commits"]))
            self._notes = {name: json.loads(meta[name]) for name in NOTES if name in meta}
            head: dict[str, Any] = json.loads(first[0]) if first else {"t": 0, "position": {}}
            self._t, self._position = int(head["t"]), dict(head["position"] or {})
            for (text,) in run("SELECT head FROM journal ORDER BY seq"):
                entry = json.loads(text)
                self._t = int(entry["to"])
                entries.merge(self._position, entry["position"])
        except UNFIT as error:
            raise damaged(self.path, "its parts do not fit together") from error
        self._fresh = True
