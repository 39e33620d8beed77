"""Which process this is. A forked child is another one, even if a namespace gives it the number of its parent."""

from __future__ import annotations

import os

_forks = [0]  # between the first process and this one


def this_process() -> tuple[int, int]:
    """Equal in one process only, among those that share memory by forking."""
    return os.getpid(), _forks[0]  # the number as well: what is not Python may fork without saying so


def _in_child() -> None:
    _forks[0] += 1


os.register_at_fork(after_in_child=_in_child)
