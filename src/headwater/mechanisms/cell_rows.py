"""What mechanisms that cut the cube keep of a record: the number of the small cell that it lies in."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from headwater.files import need, whole_number
from headwater.mechanisms.protocol import AnySchema, Arrays, Header, Options, Rows, State
from headwater.noise import Noise
from headwater.partition import Points
from headwater.privacy import Budget

NULL = np.uint64(2**64 - 1)
"""The row of a null record. No cell has this number: there are at most 2^62."""


def word(depth: int) -> type[np.unsignedinteger[Any]]:
    """The shortest type that holds a cell of this depth."""
    return np.uint8 if depth <= 8 else np.uint32 if depth <= 32 else np.uint64


class CellRows:
    """Rows of one integer: the cell of depth `finest`, or `NULL`. What a mechanism does not say is as here."""

    name: ClassVar[str]
    online: ClassVar[bool] = True
    windows: ClassVar[bool] = False
    thresholds: ClassVar[bool] = False
    partitions: ClassVar[bool] = False
    deltas: ClassVar[bool] = False
    version: ClassVar[int] = 1
    options: ClassVar[Options] = {}
    kept: ClassVar[tuple[str, ...]] = ()
    """Names of attributes that a state holds: arrays of the type and shape that they have before the first record."""
    width = 1

    def __init__(self, schema: AnySchema, budget: Budget | float, noise: Noise) -> None:
        self.partition, self.noise, self.t = schema.partition, noise, 0
        self.budget = Budget.of(budget)
        self.epsilon = self.budget.epsilon
        self.finest = self.partition.deepest

    @property
    def depth(self) -> int:
        """The depth of the cells that are counted at this time."""
        return self.finest

    def status(self) -> str:
        """How deep the cells are that are counted at this time, in words."""
        return f"depth {self.depth} of the partition"

    def window(self, since: int) -> int:
        """0: every release is about all records. Another start is refused."""
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
        if rows.size and (int(rows.min()) < 0 or int(rows.max()) >= 1 << self.finest):
            good = rows[rows != NULL] if rows.dtype == np.uint64 else rows
            if not good.size or (int(good.min()) >= 0 and int(good.max()) < 1 << self.finest):
                return rows.astype(np.uint64, copy=False)
            raise ValueError(f"rows must lie between 0 and 2^{self.finest} − 1, as encode() gives them")
        return rows.astype(np.uint64, copy=False)

    def state(self) -> State:
        """Everything that is needed to go on, but for the key: as secret as the data."""
        return {"t": self.t, "version": self.version}, {name: getattr(self, name) for name in self.kept}

    def restore(self, header: Header, arrays: Arrays) -> None:
        """Go on from a `state`, if it is one of this version."""
        need(header.get("version", self.version) == self.version, "version")
        self.t = whole_number(header["t"], "t")
        for name in self.kept:
            new, saved = getattr(self, name), arrays[name]
            need(saved.dtype == new.dtype and saved.shape == new.shape, name)
            setattr(self, name, saved)
