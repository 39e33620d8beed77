"""What crosses the wall: noisy numbers and public facts, in frozen types, and nothing else.

Left of the wall (`headwater.measure`) code has seen people's data; right of it (`headwater.publish`) nothing has.
A type belongs here only if every field of it may be published as it stands.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.partition import Cells
from headwater.table.schema import Schema
from headwater.table.unit_cube import UnitCube

AnySchema = Schema | UnitCube


@dataclass(frozen=True)
class Facts:
    """What everybody may know of a run: neither the noise nor the data is in it."""

    t: int
    epsilon: float
    schema: AnySchema
    mechanism: str

    @property
    def dimension(self) -> int:
        """How many axes the cube has that records lie in."""
        return self.schema.dimension


@dataclass(frozen=True)
class Report:
    """Noisy counts of some cells of one depth. They may be negative and need not add up."""

    depth: int
    cells: Cells
    counts: NDArray[np.int64]
