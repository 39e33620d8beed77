from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Self

import numpy as np

from headwater.public.partition import Points
from headwater.public.protocol import Rows
from headwater.secret.batch import Batch
from headwater.secret.mechanism import NULL
from tests.audit.toy.measure import ToyMechanism


class WideToyMechanism(ToyMechanism):
    name: ClassVar[str] = "wide toy"
    sizes = (4, 4, 2)  # the upper bits of the cell, the lower bits, and a bit that says nothing

    def encode(self, points: Points) -> Rows:
        (cell,) = super().encode(points).T
        return np.stack([cell >> np.uint64(2), cell & np.uint64(3), cell & np.uint64(1)], axis=1)

    def update(self, batch: Batch) -> Self:
        cells = (batch.rows[:, :1] << np.uint64(2)) | batch.rows[:, 1:2]
        cells[batch.rows[:, :1] == NULL] = NULL
        return super().update(replace(batch, rows=cells))


MECHANISM = WideToyMechanism
