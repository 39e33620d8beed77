"""As many records as arrived, in proportion to what was counted in the cells that can hold any."""

from __future__ import annotations

from typing import Self

import numpy as np

from headwater.public.cells import CellModel, MeasuredCells
from headwater.public.protocol import AnySchema


class ToyModel(CellModel):
    @classmethod
    def fit(cls, measured: MeasuredCells, schema: AnySchema, seed: int) -> Self:
        depth = min(4, schema.partition.deepest)
        cells, counts = np.arange(1 << depth, dtype=np.uint64), sum(one.counts for one in measured.noisy)
        mass = schema.partition.possible(cells, depth) * (np.maximum(counts, 0) + 1)
        return cls.rounded(schema.partition, cells, depth, mass, measured.t, seed)


MODEL, MEASURED = ToyModel, MeasuredCells
