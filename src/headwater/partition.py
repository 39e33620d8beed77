"""The binary partition of ``[0,1]^d``: which axis is cut at which depth, and which cell a point is in.

Depth ``j`` halves every cell of depth ``j − 1`` across axis ``(j − 1) mod d``. A cell of depth ``j`` is named by a
number of ``j`` bits, the choices on the way down; its children are ``2c`` and ``2c + 1``. This module is public
knowledge: it holds no counts and sees no stream, and both sides of the wall use it.

Formal guarantees
-----------------
At each depth every point of ``[0,1]^d`` belongs to exactly one cell: a cut belongs to the upper half, and the face
``x = 1`` to the last cell. All comparisons are exact: a coordinate is scaled by a power of two and truncated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
Cells = NDArray[np.uint64]

DEEPEST = 60
"""Cells are never cut beyond this depth: their names, with a bit to spare for the depth, fit in a machine word."""


@dataclass(frozen=True)
class Partition:
    """The partition of the unit cube of a given dimension.

    Examples
    --------
    >>> square = Partition(2)
    >>> square.cells(np.array([[0.0, 0.0], [0.5, 0.2], [1.0, 1.0]]), depth=3).tolist()
    [0, 4, 7]
    >>> low, high = square.boxes(np.array([4], dtype=np.uint64), depth=3)
    >>> low.tolist(), high.tolist()
    ([[0.5, 0.0]], [[0.75, 0.5]])
    """

    dimension: int

    def __post_init__(self) -> None:
        if isinstance(self.dimension, bool) or not hasattr(self.dimension, "__index__"):
            raise TypeError(f"the dimension must be a whole number, not {type(self.dimension).__name__}")
        object.__setattr__(self, "dimension", self.dimension.__index__())  # NumPy's numbers too
        if self.dimension < 1:
            raise ValueError(f"the dimension must be at least 1, not {self.dimension}")

    def cells(self, points: Points, depth: int) -> Cells:
        """The cell of depth ``depth`` that holds each point."""
        d = self.dimension
        cells = np.zeros(len(points), dtype=np.uint64)
        for axis in range(min(d, depth)):
            cuts = -(-(depth - axis) // d)  # of this axis; its last one is bit `lowest` of the cell
            lowest = depth - 1 - axis - (cuts - 1) * d
            ticks = (points[:, axis] * 2.0**cuts).astype(np.uint64)
            np.minimum(ticks, np.uint64((1 << cuts) - 1), out=ticks)
            for byte in range(0, cuts, 8):
                spread = _spread(d)[(ticks >> np.uint64(byte)) & np.uint64(255)]
                cells |= spread << np.uint64(lowest + byte * d)
        return cells

    def boxes(self, cells: Cells, depth: int) -> tuple[Points, Points]:
        """The lower and upper corners of cells of one depth, each of shape ``(n, d)``."""
        d = self.dimension
        low, side = np.zeros((len(cells), d)), np.ones(d)
        for level in range(depth):
            axis = level % d
            side[axis] /= 2
            low[:, axis] += side[axis] * (cells >> np.uint64(depth - 1 - level) & np.uint64(1))
        return low, low + side

    def diameter(self, depth: int) -> float:
        """The ℓ∞ diameter of a cell of this depth: ``2^−⌊depth/d⌋``."""
        return 2.0 ** -(depth // self.dimension)


@lru_cache
def _spread(d: int) -> Cells:
    """For every byte, the word whose bit ``i·d`` is the byte's bit ``i``."""
    table = [sum(1 << i * d for i in range(8) if byte >> i & 1 and i * d < 64) for byte in range(256)]
    return np.array(table, dtype=np.uint64)
