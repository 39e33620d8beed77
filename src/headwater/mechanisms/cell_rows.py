"""What mechanisms that cut the cube keep of a record: the number of the small cell that it lies in."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from headwater.mechanisms.protocol import Options, Rows
from headwater.partition import Partition, Points

NULL = np.uint64(2**64 - 1)
"""The row of a null record. No cell has this number: there are at most 2^62."""


def word(depth: int) -> type[np.unsignedinteger[Any]]:
    """The shortest type that holds a cell of this depth."""
    return np.uint8 if depth <= 8 else np.uint32 if depth <= 32 else np.uint64


class CellRows:
    """Rows of one integer: the cell of depth `finest`, or `NULL`. What a mechanism does not say is as here."""

    name: ClassVar[str]
    windows: ClassVar[bool] = False
    thresholds: ClassVar[bool] = False
    partitions: ClassVar[bool] = False
    deltas: ClassVar[bool] = False
    version: ClassVar[int] = 1
    options: ClassVar[Options] = {}
    partition: Partition
    finest: int
    width = 1

    def window(self, since: int) -> int:
        """Always all records."""
        if since:
            raise ValueError(f"the {self.name} mechanism has no windows; mechanism='cascade' can")
        return 0

    def __copy__(self) -> Self:
        """A copy that shares everything: an update binds names anew and changes nothing that they stood for."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def encode(self, points: Points) -> Rows:
        """The cell of every point."""
        return self.partition.cells(points, self.finest)[:, None]

    def place_bits(self, axis: int) -> int:
        """How often an axis is cut: so many binary digits of a coordinate decide the row of a record."""
        return self.partition.order[: self.finest].count(axis)

    def check(self, rows: NDArray[Any]) -> Rows:
        """Cells that were found elsewhere, or an error that says what is wrong with them."""
        if rows.ndim != 2 or rows.shape[1] != 1:
            raise ValueError(f"rows must have shape (n, 1), as encode() gives them, not {rows.shape}")
        if rows.dtype.kind not in "iu" and rows.size:
            raise TypeError(f"rows must be whole numbers, not {rows.dtype}")
        good = rows[rows != NULL] if rows.dtype == np.uint64 else rows
        if good.size and (good.min() < 0 or int(good.max()) >= 1 << self.finest):
            raise ValueError(f"rows must lie between 0 and 2^{self.finest} − 1, as encode() gives them")
        return rows.astype(np.uint64, copy=False)
