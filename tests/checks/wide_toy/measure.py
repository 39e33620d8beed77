from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headwater.public.partition import Points
from headwater.public.protocol import Rows, null_records
from tests.checks.toy.measure import ToyMechanism


class WideToyMechanism(ToyMechanism):
    name: ClassVar[str] = "wide toy"
    width = 3  # the upper bits of the cell, the lower bits, and a bit that says nothing

    def encode(self, points: Points) -> Rows:
        (cell,) = super().encode(points).T
        return np.stack([cell >> np.uint64(2), cell & np.uint64(3), cell & np.uint64(1)], axis=1)

    def check(self, rows: NDArray[Any]) -> Rows:
        if rows.ndim != 2 or rows.shape[1] != self.width or rows.dtype.kind not in "iu":
            raise ValueError("rows must be as encode() gives them")
        good = rows[~null_records(rows)] if rows.dtype == np.uint64 else rows
        if good.size and (good.min() < 0 or good.max() > 3):
            raise ValueError("rows must be as encode() gives them")
        return rows.astype(np.uint64)

    def update(self, rows: Rows) -> None:
        super().update((rows[:, :1] << np.uint64(2)) | rows[:, 1:2])


MECHANISM = WideToyMechanism
