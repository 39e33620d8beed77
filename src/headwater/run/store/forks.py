"""Keeps `os.fork` out of transactions: a child forked inside one would roll back what its parent is writing.

So a fork waits for the transactions of every open store. The child can then neither use a store (which checks its
process) nor harm it: closing its copy of the connection closes files and changes none.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class _Lock(Protocol):
    def acquire(self) -> bool: ...
    def release(self) -> None: ...


_locks: weakref.WeakKeyDictionary[object, _Lock] = weakref.WeakKeyDictionary()
_acquired: list[_Lock] = []


def guard(store: object, lock: _Lock) -> None:
    _locks[store] = lock


def _before() -> None:
    for lock in list(_locks.values()):
        lock.acquire()
        _acquired.append(lock)


def _after() -> None:
    while _acquired:
        _acquired.pop().release()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
