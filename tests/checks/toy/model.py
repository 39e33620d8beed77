from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np

from headwater.mechanisms.accuracy import ErrorBound, nothing_proved
from headwater.mechanisms.cell_model import CellModel
from headwater.mechanisms.protocol import AnySchema

if TYPE_CHECKING:
    from tests.checks.toy.measure import Measured


class ToyModel(CellModel):
    @classmethod
    def fit(cls, measured: Measured, schema: AnySchema, seed: int) -> Self:
        """As many records as arrived, in proportion to what was counted in the cells that can hold any."""
        cells = np.arange(len(measured.counts), dtype=np.uint64)
        mass = np.where(schema.partition.possible(cells, measured.depth), np.maximum(measured.counts, 0) + 1, 0)
        edges = np.floor(np.cumsum(mass) * (measured.t / mass.sum()) + 1e-9).astype(np.int64)
        counts = np.diff(edges, prepend=0)
        held = counts > 0
        return cls(schema.partition, cells[held], np.full(held.sum(), measured.depth), counts[held])

    @staticmethod
    def rate(epsilon: float, t: int, dimension: int) -> ErrorBound:
        return nothing_proved("nobody has tried")


MODEL = ToyModel
