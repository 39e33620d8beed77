"""The Private Measure Mechanism: one release of a data set that is already complete (He, Vershynin, Zhu 2023).

The offline baseline: what could be published at time ``t`` if it were the only release ever made.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

import numpy as np

from headwater.public.budget import Budget, Ledger, Spend
from headwater.public.cells import CellCounts
from headwater.public.files import FileRefusedError
from headwater.public.laws import IntegerLaplace, scale_for
from headwater.public.paper import STRATEGIES, Measured, measure
from headwater.public.partition import Cells
from headwater.public.protocol import AnySchema, Arrays, Header, Options, Rows, State
from headwater.secret.mechanism import NULL, CellRows
from headwater.secret.noise import Noise


class PmmMechanism(CellRows):
    """Noisy counts of all cells to depth ``⌊log2(εn)⌋``, once."""

    name: ClassVar[str] = "pmm"
    online: ClassVar[bool] = False
    options: ClassVar[Options] = {"consistency": tuple(STRATEGIES)}

    def __init__(
        self, schema: AnySchema, budget: Budget | float, noise: Noise, *, consistency: str = "halving"
    ) -> None:
        super().__init__(schema, budget, noise)
        self.consistency, self._scales = consistency, list[float]()

    @property
    def depth(self) -> int:
        return len(self._scales)

    def update(self, rows: Rows) -> None:
        if self.t:
            raise ValueError("pmm takes a data set once; mechanism='cascade' takes records one after another")
        self.t = len(rows)
        self._scales = self._plan(self.t)
        self._cells = np.sort(rows[rows[:, 0] != NULL, 0] >> np.uint64(self.finest - self.depth))

    def _plan(self, n: int) -> list[float]:
        depth = min(max(math.floor(Fraction(self.epsilon) * n).bit_length() - 1, 0), self.partition.deepest)
        weights = [2 ** (j * (1 - 1 / self.partition.dimension) / 2) for j in range(1, depth + 1)]
        share = self.epsilon / 2 * (1 - 2.0**-40) / sum(weights or [1.0])  # rounding must never overdraw
        return [scale_for(share * weight) for weight in weights]

    def measured(self, start: int, seed: int) -> Measured:
        return measure(self.noisy_counts, self.t, self.depth, self.partition, self.consistency, seed)

    def noisy_counts(self, depth: int, cells: Cells) -> CellCounts:
        shift = np.uint64(self.depth - depth)
        lower, upper = (np.searchsorted(self._cells, edge << shift) for edge in (cells, cells + np.uint64(1)))
        noise = self.noise.laplace_at(self._scales[depth - 1], np.uint64(1 << depth) | cells, 0)
        return CellCounts(depth, cells, upper - lower + noise)

    def ledger(self, t: int | None = None) -> Ledger:
        scales = self._plan(self.t if t is None else t)
        laws = [IntegerLaplace(scale) for scale in scales]
        return Ledger(Spend(f"count, depth {j}", law, touches=2) for j, law in enumerate(laws, start=1))

    def state(self) -> State:
        raise NotImplementedError("pmm makes one release; there is nothing to go on with")

    def restore(self, header: Header, arrays: Arrays) -> None:
        raise FileRefusedError("pmm makes one release; there is nothing to go on with")


MECHANISM = PmmMechanism
