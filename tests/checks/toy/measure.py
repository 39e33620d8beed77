from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headwater.files import need
from headwater.mechanisms.cell_rows import NULL, CellRows
from headwater.mechanisms.protocol import AnySchema, Arrays, Header, Rows, State
from headwater.noise import Noise
from headwater.partition import Partition, Points
from headwater.privacy import Budget, IntegerLaplace, Ledger, Spend, scale_for

FIRST = 8  # records in the first bucket; each further one is as long as all before it


@dataclass(frozen=True)
class Measured:
    t: int
    partition: Partition
    depth: int
    counts: NDArray[np.int64]
    buckets: int

    def near(self, points: Points) -> dict[str, float]:
        seen: dict[str, float] = {f"t={self.t} buckets": self.buckets}
        cells = self.partition.cells(points, self.depth).tolist()
        return seen | {f"t={self.t} count at {i}": int(self.counts[cell]) for i, cell in enumerate(cells)}


class ToyMechanism(CellRows):
    name: ClassVar[str] = "toy"
    online: ClassVar[bool] = True
    partitions: ClassVar[bool] = True

    def __init__(self, schema: AnySchema, budget: Budget | float, noise: Noise) -> None:
        self.partition, self.noise, self.t, self.buckets = schema.partition, noise, 0, 0
        self.finest = min(4, self.partition.deepest)
        self.scale = scale_for(Budget.of(budget).epsilon / 2)  # a replaced record moves two counts of one bucket
        self.open = self.noisy = np.zeros(1 << self.finest, dtype=np.int64)

    def update(self, rows: Rows) -> None:
        while len(rows):
            end = FIRST << self.buckets
            part, rows = rows[: end - self.t, 0], rows[end - self.t :]
            counts = np.bincount(part[part != NULL].astype(np.int64), minlength=len(self.open))
            self.open = self.open + counts
            self.t += len(part)
            if self.t == end:
                noise = self.noise.laplace_at(self.scale, self.buckets, np.arange(len(self.open)))
                self.noisy, self.open = self.noisy + (self.open + noise), np.zeros_like(self.open)
                self.buckets += 1

    def measured(self, start: int, seed: int) -> Measured:
        return Measured(self.t, self.partition, self.finest, self.noisy, self.buckets)

    def ledger(self, t: int | None = None) -> Ledger:
        return Ledger([Spend("count of a cell", IntegerLaplace(self.scale), touches=2)])

    def status(self) -> str:
        return f"{self.buckets} buckets are closed"

    def state(self) -> State:
        return {"t": self.t, "buckets": self.buckets}, {"open": self.open, "noisy": self.noisy}

    def restore(self, header: Header, arrays: Arrays) -> None:
        counts: dict[str, Any] = {name: arrays[name] for name in ("open", "noisy")}
        need(all(c.dtype == np.int64 and c.shape == self.open.shape for c in counts.values()), "counts")
        self.t, self.buckets = header["t"], header["buckets"]
        self.open, self.noisy = counts["open"], counts["noisy"]


MECHANISM = ToyMechanism
