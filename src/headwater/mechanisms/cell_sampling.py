"""Leaf counts become points inside their leaves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.partition import Axis, Cells, Partition, Points

_CHUNK = 1 << 15  # points at a time: what they need stays in the processor's cache


def corners(partition: Partition, cells: Cells, depths: NDArray[np.int64]) -> tuple[Points, Points]:
    """The lower corners and the sides of cells of several depths. On a finite axis, a side is a number of values."""
    low, side = (np.empty((len(cells), partition.dimension)) for _ in range(2))
    for depth in np.flatnonzero(np.bincount(depths)):
        here = depths == depth
        low[here], high = partition.boxes(cells[here], int(depth))
        side[here] = high - low[here]
        for number, axis in enumerate(partition.axes):
            if axis.values is not None:
                side[here, number] = axis.count(*partition.prefixes(cells[here], int(depth), number))[1]
    return low, side


def sample(
    partition: Partition,
    cells: Cells,
    depths: NDArray[np.int64],
    counts: NDArray[np.int64],
    rng: np.random.Generator,
    *,
    even: bool,
) -> Points:
    """``counts`` many points in each cell, cell by cell. Each is uniform in its cell.

    Independent points are ragged: they leave gaps and make heaps, which costs as much W1 as all the noise of a good
    mechanism. With ``even`` the places within cells go round the unit cube in steps of a fixed irrational vector, from
    a random start, so that any run of points fills its cell evenly.
    """
    low, side = corners(partition, cells, depths)
    d, total = partition.dimension, int(counts.sum())
    points, ends = np.empty((d, total)).T, np.cumsum(counts)  # each column in one piece
    # Places within a cell are whole multiples of 2^−32 of its side, so that low + place is exact and never reaches
    # the upper face, unless cells are so small that floats run out; then the minimum below sees to it.
    unit = side * 2.0**-32
    small = depths.max(initial=0) > 20
    top = np.nextafter(low + side, low) if small and side.min(initial=1) < 2.0**-20 else None
    shift, step = rng.integers(0, 1 << 32, size=d, dtype=np.uint32), _irrational(d)
    for start in range(0, total, _CHUNK):
        size = min(_CHUNK, total - start)
        first, last = np.searchsorted(ends, [start, start + size - 1], side="right")
        here = slice(first, last + 1)
        inside = np.diff(np.minimum(ends[here], start + size), prepend=start)
        turn = np.arange(start, start + size, dtype=np.uint64).astype(np.uint32)
        for axis in range(d):
            place = turn * step[axis] + shift[axis] if even else rng.integers(0, 1 << 32, size=size, dtype=np.uint32)
            column = np.multiply(place, np.repeat(unit[here, axis], inside), dtype=np.float64)
            kind = partition.axes[axis]
            if kind.values is not None:  # one of the values that the cell holds, all alike
                np.floor(column, out=column)
                column *= kind.unit
            column += np.repeat(low[here, axis], inside)
            if top is not None and kind.values is None:
                np.minimum(column, np.repeat(top[here, axis], inside), out=column)
            if kind.missing:
                _snap(column, kind)
            points[start : start + size, axis] = column
    return points


def round_in_order(mass: Points, total: int, offset: float) -> NDArray[np.int64]:
    """Whole counts that sum to ``total``; every run of neighbours, so every cell, is off by less than one.

    ``mass`` is not negative and sums to ``total`` up to rounding; a random ``offset`` in [0, 1) favours no cell.
    """
    if not len(mass) or total == 0:
        return np.zeros(len(mass), dtype=np.int64)
    running = np.cumsum(mass)
    edges = np.floor(running * (total / running[-1]) + offset).astype(np.int64)
    edges[-1] = total
    counts: NDArray[np.int64] = np.diff(np.clip(edges, 0, total), prepend=0)
    return counts


def _snap(column: Points, axis: Axis) -> None:
    """Whatever lies beyond the values of an axis with missing ones is missing: the point ½, and nothing else."""
    last = 0.5 if axis.values is None else axis.values * axis.unit
    column[column >= last] = 0.5


def _irrational(d: int) -> NDArray[np.uint32]:
    """Steps ``1/φ, 1/φ², …`` with ``φ^{d+1} = φ + 1``, in units of 2^−32: the golden ratio and its like."""
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (d + 1))
    steps = root ** -np.arange(1, d + 1, dtype=np.float64) * 2.0**32
    return steps.astype(np.uint64).astype(np.uint32) | np.uint32(1)
