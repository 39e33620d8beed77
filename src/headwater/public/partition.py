"""The binary partition of ``[0,1]^d``: which axis is cut at which depth, and which cell a point is in.

Every depth halves the cells of the depth before across one axis, the same for all of them: the axis that has been cut
least for its weight and still has something to cut. A cell of depth ``j`` is named by a number of ``j`` bits, the
choices on the way down; its children are ``2c`` and ``2c + 1``. This module is public knowledge: it holds no counts
and sees no stream, and both sides of the trust boundary use it.

Formal guarantees
-----------------
At each depth every point of ``[0,1]^d`` belongs to exactly one cell: a cut belongs to the upper half, and the face
``x = 1`` to the last cell. All comparisons are exact: a coordinate is scaled by a power of two and truncated. A value
of a finite axis is one point, so no cut divides it; a half that holds no possible value has the share 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
Floats = NDArray[np.float64]
Cells = NDArray[np.uint64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

DEEPEST = 60
"""Cells are never cut beyond this depth: their names, with a bit to spare for the depth, fit in a machine word."""

_BYTE = np.uint64(255)

MOST_VALUES = 1 << 53  # of a finite axis: beyond this, whole numbers are no longer exact in floating point


@dataclass(frozen=True)
class Axis:
    """One coordinate of the cube: a continuum or ``values`` many values, perhaps with a place for missing ones."""

    values: int | None = None
    missing: bool = False
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.values is not None and not 1 <= self.values <= MOST_VALUES:
            raise ValueError(f"an axis must have between 1 and 2^53 values, not {self.values}")
        if not 0 < self.weight < float("inf"):
            raise ValueError(f"a weight must be a positive number, not {self.weight}")

    @property
    def plain(self) -> bool:
        return self.values is None and not self.missing

    @property
    def cuts(self) -> int:
        return DEEPEST if self.values is None else (self.values - 1).bit_length() + self.missing

    @property
    def unit(self) -> float:
        return 2.0**-self.cuts if self.values is not None else 0.5 if self.missing else 1.0

    def place(self, values: Points | Integers, missing: Flags | None = None) -> Points:
        places = np.multiply(values, self.unit, dtype=np.float64)
        if self.missing:
            if self.values is None:
                np.minimum(places, np.nextafter(0.5, 0), out=places)
            if missing is not None:
                places[missing] = 0.5
        return places

    def value(self, places: Points) -> tuple[Points | Integers, Flags | None]:
        gone = places >= 0.5 if self.missing else None
        values = places / self.unit
        if self.values is not None:
            return np.minimum(values.astype(np.int64), self.values - 1), gone
        return np.minimum(values, 1.0, out=values) if self.missing else values, gone

    def count(self, prefixes: Integers, cuts: int) -> tuple[Integers, Integers]:
        values, rest = self.values or 1, self.cuts - cuts
        first = prefixes << rest
        held = np.minimum(np.maximum(values - first, 0), 1 << rest)  # np.clip is slow on short arrays
        if self.missing:
            held += (first <= 1 << (self.cuts - 1)) & (first + (1 << rest) > 1 << (self.cuts - 1))
        return first, held


@dataclass(frozen=True)
class Partition:
    """The partition of a cube with these axes; a number stands for as many plain ones."""

    axes: tuple[Axis, ...]
    order: tuple[int, ...] = field(compare=False)  # which axis is cut at each depth

    def __init__(self, axes: int | tuple[Axis, ...] | list[Axis]) -> None:
        if not isinstance(axes, tuple | list):
            if isinstance(axes, bool) or not hasattr(axes, "__index__"):
                raise TypeError(f"the dimension must be a whole number, not {type(axes).__name__}")
            if (dimension := axes.__index__()) < 1:  # NumPy's numbers too
                raise ValueError(f"the dimension must be at least 1, not {dimension}")
            axes = (Axis(),) * dimension
        object.__setattr__(self, "axes", tuple(axes))
        object.__setattr__(self, "order", _order(self.axes))

    @property
    def dimension(self) -> int:
        return len(self.axes)

    @property
    def deepest(self) -> int:
        return len(self.order)

    @cached_property
    def plain(self) -> bool:
        return all(axis.plain for axis in self.axes)

    def cells(self, points: Points, depth: int) -> Cells:
        """The cell of depth ``depth`` that holds each point."""
        scales, last, tables = _tables(self.order[:depth], self.dimension)
        ticks = np.multiply(points.T, scales, order="C").astype("<u8")
        np.minimum(ticks, last, out=ticks)
        cells = np.zeros(len(points), dtype=np.uint64)
        for axis, byte, table in tables:
            cells |= table.take(ticks[axis].view(np.uint8)[byte::8])
        return cells

    def prefixes(self, cells: Cells, depth: int, axis: int) -> tuple[Integers, int]:
        cuts, tables = _prefix_tables(self.order[:depth], axis)
        found = np.zeros(len(cells), dtype=np.int64)
        for byte, table in tables:
            found |= table.take((cells >> byte & _BYTE).view(np.int64))
        return found, cuts

    def boxes(self, cells: Cells, depth: int) -> tuple[Points, Points]:
        low, side = np.zeros((len(cells), self.dimension)), np.ones(self.dimension)
        for level, axis in enumerate(self.order[:depth]):
            side[axis] /= 2
            low[:, axis] += side[axis] * (cells >> np.uint64(depth - 1 - level) & np.uint64(1))
        return low, low + side

    def shares(self, cells: Cells, depth: int) -> Points:
        """The part of each cell that its lower half makes up: ½, or by number of values; 0 or 1 if a half is empty."""
        axis = self.axes[self.order[depth]]
        if axis.plain:
            return np.full(len(cells), 0.5)
        prefixes, cuts = self.prefixes(cells, depth, self.order[depth])
        if axis.values is None:  # a missing value stays in the lowest part of its half
            return np.where(prefixes >> max(cuts - 1, 0) > 0, 1.0, 0.5)
        (_, lower), (_, upper) = (axis.count(2 * prefixes + half, cuts + 1) for half in (0, 1))
        share: Points = lower / np.maximum(lower + upper, 1)
        share[(share == 1.0) & (upper > 0)] = np.nextafter(1.0, 0.0)  # one value beside 2^53 is rounded away, but there
        return share

    def possible(self, cells: Cells, depth: int) -> Flags:
        found = np.ones(len(cells), dtype=bool)
        for number, axis in enumerate(self.axes):
            if not axis.plain:
                cuts = self.order[:depth].count(number)
                if axis.values is not None and (1 << cuts) - 1 <= (axis.values - 1) >> (axis.cuts - cuts):
                    continue  # every part of the axis holds a value
                prefixes, _ = self.prefixes(cells, depth, number)
                if axis.values is not None:
                    there = prefixes <= (axis.values - 1) >> (axis.cuts - cuts)
                    found &= there | (prefixes == 1 << (cuts - 1)) if axis.missing and cuts else there
                elif cuts:  # beside the continuum there is only the point ½
                    found &= prefixes <= 1 << (cuts - 1)
        return found

    def diameter(self, depth: int) -> float:
        return _diameters(self)[depth]


@lru_cache
def _order(axes: tuple[Axis, ...]) -> tuple[int, ...]:
    order, cuts = list[int](), [0] * len(axes)
    while len(order) < DEEPEST and any(done < axis.cuts for done, axis in zip(cuts, axes, strict=True)):
        due = [(cuts[i] + 1) / axis.weight if cuts[i] < axis.cuts else float("inf") for i, axis in enumerate(axes)]
        order.append(due.index(min(due)))
        cuts[order[-1]] += 1
    return tuple(order)


@lru_cache
def _tables(order: tuple[int, ...], dimension: int) -> tuple[Points, Cells, list[tuple[int, int, Cells]]]:
    """The number of parts of each axis, its last part, and where the bits of each byte of a part go in a cell."""
    cuts, tables = [order.count(axis) for axis in range(dimension)], list[tuple[int, int, Cells]]()
    for axis in range(dimension):
        bits = [1 << level for level, cut in enumerate(reversed(order)) if cut == axis]
        for byte, group in enumerate(bits[start : start + 8] for start in range(0, len(bits), 8)):
            words = [sum(bit for i, bit in enumerate(group) if value >> i & 1) for value in range(256)]
            tables.append((axis, byte, np.array(words, dtype=np.uint64)))
    last = np.array([[(1 << n) - 1] for n in cuts], dtype=np.uint64)
    return np.array([[2.0**n] for n in cuts]), last, tables


@lru_cache(maxsize=1024)  # one for each depth and axis that is asked about
def _prefix_tables(order: tuple[int, ...], axis: int) -> tuple[int, list[tuple[np.uint64, Integers]]]:
    """The number of cuts of an axis, and for each byte of a cell that has any of them, where the byte's bits go."""
    levels = [level for level, cut in enumerate(reversed(order)) if cut == axis]  # lowest first, as the bits of a cell
    tables = []
    for byte in range(0, len(order), 8):
        bits = [(1 << level - byte, 1 << place) for place, level in enumerate(levels) if byte <= level < byte + 8]
        words = [sum(to for bit, to in bits if value & bit) for value in range(256)]
        if bits:
            tables.append((np.uint64(byte), np.array(words, dtype=np.int64)))
    return len(levels), tables


@lru_cache
def _diameters(partition: Partition) -> list[float]:
    found = []
    for depth in range(partition.deepest + 1):
        done = [partition.order[:depth].count(axis) for axis in range(partition.dimension)]
        open_ = [2.0**-cuts for cuts, axis in zip(done, partition.axes, strict=True) if cuts < axis.cuts]
        found.append(max(open_, default=0.0))
    return found
