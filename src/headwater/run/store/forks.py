"""Keeps forked children away from the stores of their parents.

A child forked inside a transaction would roll back what its parent is writing, so a fork waits for the transactions of
every open store. A child that closes its copy of a connection, if only by ending, would merge and remove the log that
its parent goes on writing to, so in a child these copies are never closed. Using a store there is refused by the store.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import weakref
from typing import Protocol


class _Lock(Protocol):
    def acquire(self) -> bool: ...
    def release(self) -> None: ...


class _Owner(Protocol):
    _connection: sqlite3.Connection


_locks: weakref.WeakKeyDictionary[_Owner, _Lock] = weakref.WeakKeyDictionary()
_acquired: list[_Lock] = []


def guard(store: _Owner, lock: _Lock) -> None:
    """Let forks wait for this lock as long as its store exists."""
    _locks[store] = lock


def _before() -> None:
    for lock in list(_locks.values()):
        lock.acquire()
        _acquired.append(lock)


def _after() -> None:
    while _acquired:
        _acquired.pop().release()


def _in_child() -> None:
    for store in list(_locks):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(store._connection))  # a reference that nobody gives back
    _after()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
