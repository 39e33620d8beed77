"""Leaf counts become points inside their leaves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.partition import Cells, Partition, Points

_CHUNK = 1 << 15  # points at a time: what they need stays in the processor's cache


def corners(partition: Partition, cells: Cells, depths: NDArray[np.int64]) -> tuple[Points, Points]:
    """The lower corners and the sides of cells of several depths."""
    low, side = (np.empty((len(cells), partition.dimension)) for _ in range(2))
    for depth in np.unique(depths):
        here = depths == depth
        low[here], high = partition.boxes(cells[here], int(depth))
        side[here] = high - low[here]
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
    top = np.nextafter(low + side, low)  # rounding may reach the upper face, which belongs to the next cell
    points = np.empty((int(counts.sum()), partition.dimension))
    ends = np.cumsum(counts)
    shift, step = rng.random(partition.dimension), _irrational(partition.dimension)
    for start in range(0, len(points), _CHUNK):
        part = points[start : start + _CHUNK]
        first, last = np.searchsorted(ends, [start, start + len(part) - 1], side="right")
        here = slice(first, last + 1)
        inside = np.diff(np.minimum(ends[here], start + len(part)), prepend=start)
        if even:
            np.multiply.outer(np.arange(start, start + len(part), dtype=np.float64), step, out=part)
            part += shift
            part -= np.floor(part)
        else:
            rng.random(out=part)
        if len(inside) == 1:
            part *= side[first]
            part += low[first]
            np.minimum(part, top[first], out=part)
        else:
            leaf = np.repeat(np.arange(first, last + 1), inside)
            part *= side[leaf]
            part += low[leaf]
            np.minimum(part, top[leaf], out=part)
    return points


def _irrational(d: int) -> NDArray[np.float64]:
    """Steps ``1/φ, 1/φ², …`` with ``φ^{d+1} = φ + 1``: the golden ratio and its like in more dimensions."""
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (d + 1))
    return root ** -np.arange(1, d + 1, dtype=np.float64)
