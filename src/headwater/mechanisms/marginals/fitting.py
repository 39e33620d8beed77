"""Proportional fitting and projection of two-way tables to given margins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headwater.mechanisms.marginals.grid import Floats
from headwater.mechanisms.marginals.measured import Integers

TINY = 1e-300
LOOKS = 4
"""After so many passes it is looked whether margins are met: that takes as long as a pass."""

Function = Callable[[Integers], Floats]
"""Of whole numbers, several at once."""


def fit_margins(table: Floats, rows: Floats, columns: Floats, passes: int = 100, tolerance: float = 1e-9) -> Floats:
    """Iterative proportional fitting: the table scaled by rows and by columns until it has these margins.

    Works on the last two axes; leading axes of table and margins are broadcast against each other. A cell that is 0
    gets a trace of independence, so that any margins can be met.
    """
    start = table + 1e-12 * rows[..., :, None] * columns[..., None, :]
    across = np.ones((*start.shape[:-2], 1, start.shape[-1]))  # factors of the columns; the table itself is left alone
    for done in range(passes):
        down = rows[..., None] / np.maximum(np.matmul(start, across.swapaxes(-1, -2)), TINY)
        sums = np.matmul(down.swapaxes(-1, -2), start)
        before, across = across, columns[..., None, :] / np.maximum(sums, TINY)
        if done % LOOKS == LOOKS - 1 and np.abs(sums * before - columns[..., None, :]).sum(-1).max() < tolerance:
            break
    start *= down
    start *= across
    return start


def project(table: Floats, rows: Floats, columns: Floats, passes: int = 200, tolerance: float = 1e-7) -> Floats:
    """The nearest non-negative table with (almost) these margins, by alternating over its two dual vectors."""
    across = np.zeros(len(columns))
    for _ in range(passes):
        down = _threshold(table - across, rows)
        found = _threshold((table - down[:, None]).T, columns)
        moved = float(np.abs(found - across).max())
        across = found
        if moved < tolerance:
            break
    return np.maximum(table - down[:, None] - across, 0)


def _threshold(table: Floats, sums: Floats) -> Floats:
    """For each row the number ``u`` with ``Σ max(row − u, 0) =`` its sum."""
    ranked = -np.sort(-table, axis=1)
    levels = (np.cumsum(ranked, axis=1) - sums[:, None]) / np.arange(1, table.shape[1] + 1)
    last = np.maximum((ranked > levels).sum(1) - 1, 0)
    found: Floats = levels[np.arange(len(table)), last]
    return found


def lowest(function: Function, count: int, rough: Function | None = None) -> int:
    """Where a function that falls and then rises is lowest, of ``0 … count − 1``: of every third, then near it.

    It is asked for several values at once. A rough version of it, if there is one, is enough for the first look.
    """
    first = np.arange(0, count, 3)
    found = (rough or function)(first)
    best = int(first[found.argmin()])
    near = np.arange(max(best - 2, 0), min(best + 3, count))
    if rough:
        return int(near[function(near).argmin()])
    others = near[near != best]
    values = np.insert(function(others), best - near[0], found.min()) if len(others) else found[:1]
    return int(near[values.argmin()])
