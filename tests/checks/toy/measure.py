"""The smallest mechanism there is: noisy counts on a fixed grid, in buckets of eight records."""

from __future__ import annotations

import numpy as np

from headwater.public.budget import Budget, Ledger, Spend
from headwater.public.cells import CellCounts, MeasuredCells
from headwater.public.laws import IntegerLaplace, scale_for
from headwater.public.protocol import AnySchema, Rows
from headwater.secret.mechanism import NULL, CellRows
from headwater.secret.noise import Noise

BUCKET = 8


class ToyMechanism(CellRows):
    name = "toy"
    partitions = True  # each bucket counts every one of its records once
    kept = ("open", "noisy")

    def __init__(self, schema: AnySchema, budget: Budget | float, noise: Noise) -> None:
        super().__init__(schema, budget, noise)
        self.finest = min(4, self.partition.deepest)
        self.law = IntegerLaplace(scale_for(self.epsilon / 2))  # a replaced record moves two counts of its bucket
        self.open = self.noisy = np.zeros(1 << self.finest, dtype=np.int64)

    def update(self, rows: Rows) -> None:
        while len(rows):
            part, rows = np.split(rows, [BUCKET - self.t % BUCKET])
            self.open = self.open + np.bincount(part[part != NULL].astype(np.int64), minlength=len(self.open))
            self.t += len(part)
            if self.t % BUCKET == 0:
                self.noisy = self.noisy + self.open + self.law.draw(self.noise, self.t, np.arange(len(self.open)))
                self.open = np.zeros_like(self.open)

    def measured(self, start: int, seed: int) -> MeasuredCells:
        grid = CellCounts(self.finest, np.arange(len(self.noisy), dtype=np.uint64), self.noisy)
        return MeasuredCells(self.t, self.partition, (grid,))

    def ledger(self, t: int | None = None) -> Ledger:
        return Ledger([Spend("count of a cell", self.law, touches=2)])


MECHANISM = ToyMechanism
