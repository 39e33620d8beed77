"""The points of one level of the paper's mechanism, and how many of them lie in a cell."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.mechanisms.cell_rows import NULL
from headwater.partition import Cells

Integers = NDArray[np.int64]


class Level:
    """The points of one level, as cells of one depth: in order of arrival while it lasts, sorted when it is over."""

    def __init__(
        self, level: int, depth: int, cells: NDArray[np.uint64] | None = None, ends: Integers | None = None
    ) -> None:
        self.level, self.depth = level, depth
        self._cells = np.empty(0, dtype=np.uint64) if cells is None else cells
        self.steps = len(self._cells)
        self._ends = ends  # of a closed level: how many points lie in the distinct cells before each
        self._sorted: tuple[Cells, Integers] | None = None

    def append(self, cells: Cells) -> None:
        """Take points. What was there before stays, so that a copy made earlier is not changed."""
        if self.steps + len(cells) > len(self._cells):
            self._cells = np.resize(self._cells, max(2 * self.steps, self.steps + len(cells), 64))
        self._cells[self.steps : self.steps + len(cells)] = cells
        self.steps += len(cells)
        self._sorted = None

    def closed(self) -> Level:
        """The same points without their order: distinct cells and how many points they hold. Null records are none."""
        cells, counts = np.unique(self._cells[: self.steps], return_counts=True)
        if len(cells) and cells[-1] == NULL:
            cells, counts = cells[:-1], counts[:-1]
        return Level(self.level, self.depth, cells, np.concatenate([[0], np.cumsum(counts)]))

    def count(self, depth: int, cells: Cells) -> Integers:
        """How many points of this level lie in each of these cells."""
        lower, upper = self._span(depth, cells)
        if self._ends is None:
            return upper - lower
        result: Integers = self._ends[upper] - self._ends[lower]
        return result

    def arrivals(self, depth: int, cell: int) -> Integers:
        """The steps of this level, from 1, at which points arrived in a cell. The level must be open."""
        (lower,), (upper,) = self._span(depth, np.array([cell], dtype=np.uint64))
        assert self._sorted is not None  # noqa: S101 - _span has just sorted
        return np.sort(self._sorted[1][lower:upper]) + 1

    def _span(self, depth: int, cells: Cells) -> tuple[Integers, Integers]:
        """Where the cells that make up each of these begin and end, among the sorted ones."""
        if self._ends is None and self._sorted is None:
            order = np.argsort(self._cells[: self.steps], kind="stable")
            self._sorted = self._cells[order], order
        cells_here = self._cells if self._sorted is None else self._sorted[0]
        shift = np.uint64(self.depth - depth)
        lower, upper = (np.searchsorted(cells_here, edge << shift) for edge in (cells, cells + np.uint64(1)))
        return lower, upper

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is kept, by name, for a file."""
        cells = self._cells[: self.steps] if self._ends is None else self._cells
        return {"cells": cells} if self._ends is None else {"cells": cells, "ends": self._ends}
