"""A database that one process owns: one transaction at a time, and fields that are read again after an interrupt."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from headwater.public.files import this_process
from headwater.run.store import database, forks
from headwater.run.store.errors import StoreError, plain_errors, unknown
from headwater.run.store.lock import Lock


class OwnedDatabase:
    """What `Store` needs of its file: turns, transactions, and closing."""

    def __init__(self, path: Path, lock: Lock, connection: sqlite3.Connection) -> None:
        self.path = path
        self._lock, self.connection = lock, connection
        self._process, self._turn = this_process(), threading.RLock()
        self._closed = False
        self._commits = lock.commits
        self._fresh = False  # whether the fields in memory are those of the file
        forks.guard(self, self._turn)

    def close(self) -> None:
        if self._closed or this_process() != self._process:  # a forked child leaves its parent's file alone
            return
        with self._turn:
            with suppress(sqlite3.Error, OSError):
                database.disconnect(self.path, self.connection)
            self._lock.release()
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refresh(self) -> None:
        raise NotImplementedError

    @contextmanager
    def current(self) -> Iterator[None]:
        """Hold the lock, with plain errors, and with fields that are those of the file."""
        if self._closed:
            raise StoreError(self.path, "this store is closed", "open it again")
        if self._process != this_process():
            problem = "this is a forked process: the state belongs to its parent"
            raise StoreError(self.path, problem, "open the state in one process only")
        with self._turn, plain_errors(self.path):
            if not self._fresh:
                self._refresh()
            yield

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing, and counted."""
        self._fresh = False
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            yield
            self.set_meta({"commits": str(self._commits + 1)})
            self._commit()
        except BaseException:
            self._rollback()
            raise
        self._commits += 1
        self._lock.note(self._commits)

    def _commit(self) -> None:
        """Commit."""
        try:
            self.connection.execute("COMMIT")
            return
        except sqlite3.Error as error:
            failed = error
        self._rollback()
        try:
            (commits,) = self.connection.execute("SELECT value FROM meta WHERE key = 'commits'").fetchone()
            happened = int(commits) > self._commits
            if happened:
                self._commits += 1
                self.connection.execute("BEGIN IMMEDIATE")
                self.set_meta({"commits": str(self._commits + 1)})
                self.connection.execute("COMMIT")
        except sqlite3.Error:
            raise unknown(self.path) from None
        if not happened:
            raise failed

    def _rollback(self) -> None:
        with suppress(sqlite3.Error):
            self.connection.execute("ROLLBACK")

    def set_meta(self, values: Mapping[str, str]) -> None:
        self.connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())
