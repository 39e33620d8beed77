"""The smallest mechanism there is: noisy counts on a fixed grid, in buckets of eight records."""

from __future__ import annotations

from copy import copy
from typing import Self

import numpy as np

from headwater.public.budget import Budget, Ledger, Spend
from headwater.public.cells import CellCounts, MeasuredCells
from headwater.public.laws import IntegerLaplace, scale_for
from headwater.public.protocol import AnySchema, Span
from headwater.secret.batch import Batch
from headwater.secret.mechanism import NULL, CellRows
from headwater.secret.noise import Noise

BUCKET = 8


class ToyMechanism(CellRows):
    name = "toy"
    saved = ("open", "noisy")

    def __init__(self, schema: AnySchema, budget: Budget | float, noise: Noise, expect: int | None = None) -> None:
        super().__init__(schema, budget, noise)
        self.finest = min(4, self.partition.deepest)
        self.law = IntegerLaplace(scale_for(self.epsilon / 2))  # a replaced record moves two counts of its bucket
        self.open = self.noisy = np.zeros(1 << self.finest, dtype=np.int64)

    def update(self, batch: Batch) -> Self:
        new, cells = copy(self), batch.rows[:, 0]
        while len(cells):
            part, cells = np.split(cells, [BUCKET - new.t % BUCKET])
            new.open = new.open + np.bincount(part[part != NULL].astype(np.int64), minlength=len(new.open))
            new.t += len(part)
            if new.t % BUCKET == 0:
                new.noisy = new.noisy + new.once(Span(new.t - BUCKET, new.t), new.counted).counts
                new.open = np.zeros_like(new.open)
        return new

    def counted(self) -> CellCounts:
        cells = np.arange(len(self.open), dtype=np.uint64)
        return CellCounts(self.finest, cells, self.open + self.law.draw(self.noise, self.t, cells))

    def measured(self, seed: int) -> MeasuredCells:
        grid = CellCounts(self.finest, np.arange(len(self.noisy), dtype=np.uint64), self.noisy)
        return MeasuredCells(self.t, self.partition, (grid,))

    def ledger(self, t: int | None = None) -> Ledger:
        return Ledger([Spend("count of a cell", self.law, touches=2)])


MECHANISM = ToyMechanism
