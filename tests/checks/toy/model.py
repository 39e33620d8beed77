"""As many records as arrived, in proportion to what was counted in the cells that can hold any."""

from __future__ import annotations

from typing import Self

import numpy as np

from headwater.public.cells import CellModel, MeasuredCells
from headwater.public.protocol import AnySchema


class ToyModel(CellModel):
    @classmethod
    def fit(cls, measured: MeasuredCells, schema: AnySchema, seed: int) -> Self:
        (grid,) = measured.noisy
        mass = schema.partition.possible(grid.cells, grid.depth) * (np.maximum(grid.counts, 0) + 1)
        return cls.rounded(schema.partition, grid.cells, grid.depth, mass, measured.t, seed)


MODEL = ToyModel
