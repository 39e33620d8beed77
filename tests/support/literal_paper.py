"""Algorithm 1, letter by letter: slow, short, and the oracle that the fast engine is tested against.

Every live cell owns an `InhomogeneousCounter`, and every counter takes a step, with fresh noise, at every time. That
is ``O(εt)`` draws a point. Read it beside the paper; run `headwater.secret.paper` instead.

Formal guarantees
-----------------
All noisy counts at all times together are ε-differentially private for replacing one point of the stream: the point
moves two counters of each depth, by one, and what they may spend adds up to at most ε (`proofs/paper.md`).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from headwater.public.cells import CellCounts
from headwater.public.paper import cell_budget
from headwater.public.partition import Cells, Points
from headwater.public.protocol import AnySchema, Rows
from headwater.secret.batch import Batch
from headwater.secret.counters import THRESHOLD, HybridCounter, InhomogeneousCounter, SubCounter, level_at, level_start
from headwater.secret.noise import Noise


class LiteralPaper:
    """The paper's mechanism as written. See `headwater.secret.paper.PaperMechanism` for its guarantee."""

    def __init__(
        self,
        schema: AnySchema,
        epsilon: float,
        noise: Noise,
        *,
        constant: float = THRESHOLD,
        sub: SubCounter = HybridCounter,
    ) -> None:
        self.partition, self.epsilon, self.t, self.depth = schema.partition, epsilon, 0, 0
        self._counter = partial(InhomogeneousCounter, epsilon=epsilon, constant=constant, sub=sub, noise=noise.stream())
        self._cells: dict[tuple[int, int], InhomogeneousCounter] = {}  # A_θ for every θ = (depth, cell)
        self._history: list[int] = []  # d = 1 only

    def encode(self, points: Points) -> Rows:
        """The cell of every point."""
        return self.partition.cells(points, self.partition.deepest)[:, None]

    def update(self, batch: Batch) -> LiteralPaper:
        """Take the points one by one."""
        for point in batch.rows[:, 0].tolist():
            self._step(point)
        return self

    def _step(self, point: int) -> None:
        self.t += 1
        r = min(level_at(self.t, self.epsilon), self.partition.deepest)
        while self.depth < r:  # new binary partition, new subroutines
            self.depth += 1
            for cell in range(1 << self.depth):
                self._cells[self.depth, cell] = self._new_counter(self.depth, cell)
        for (depth, cell), counter in self._cells.items():  # perturbation
            counter.add(self._is_in(point, depth, cell))
        if self.partition.dimension == 1:
            self._history.append(point)

    def _new_counter(self, depth: int, cell: int) -> InhomogeneousCounter:
        d = self.partition.dimension
        counter = self._counter(
            start=depth if d >= 2 else 0,
            budget=lambda level: cell_budget(depth, level, d, self.epsilon),
        )
        if d >= 2:
            counter.skip_to(level_start(depth, self.epsilon) - 1)
        for point in self._history:
            counter.add(self._is_in(point, depth, cell))
        return counter

    def noisy_counts(self, depth: int, cells: Cells) -> CellCounts:
        """The noisy counts of these cells, at this time."""
        counts = [self._cells[depth, int(cell)].count for cell in cells]
        return CellCounts(depth, cells, np.array(counts, dtype=np.int64))

    def _is_in(self, point: int, depth: int, cell: int) -> int:
        """Whether a point, named by its deepest cell, lies in a cell of this depth."""
        return int(point >> (self.partition.deepest - depth) == cell)
