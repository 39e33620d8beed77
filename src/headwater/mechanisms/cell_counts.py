"""Noisy counts of cells of fixed depths: what mechanisms that choose no trees hand over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.partition import Cells, Partition, Points

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class CellCounts:
    """Noisy counts of some cells of one depth. They may be negative and need not add up."""

    depth: int
    cells: Cells
    counts: Counts


@dataclass(frozen=True)
class MeasuredCells:
    """What crosses the trust boundary: the time, how the cube is cut, and noisy counts of cells, depth by depth."""

    t: int
    partition: Partition
    noisy: tuple[CellCounts, ...]

    def near(self, points: Points) -> dict[str, float]:
        """The noisy counts of the cells that hold these points, of those that were counted."""
        seen: dict[str, float] = {f"t={self.t} depth": len(self.noisy)}
        for asked in self.noisy:
            for cell in np.unique(self.partition.cells(points, asked.depth)):
                for count in asked.counts[asked.cells == cell].tolist():
                    seen[f"t={self.t} depth {asked.depth} cell {cell}"] = int(count)
        return seen
