"""The model of the mechanisms that cut the cube: how many records lie in which cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headwater.public.budget import Budget
from headwater.public.files import need
from headwater.public.laws import IntegerLaplace
from headwater.public.partition import Cells, Integers, Partition, Points
from headwater.public.protocol import (
    AnySchema,
    Arrays,
    Conditions,
    ErrorBound,
    ExpectedError,
    Facts,
    Header,
    Kept,
    Span,
    State,
    nothing_proved,
)


@dataclass(frozen=True)
class CellCounts:
    """Noisy counts of some cells of one depth."""

    depth: int
    cells: Cells
    counts: Integers


@dataclass(frozen=True)
class MeasuredCells:
    """What crosses the trust boundary: the time, how the cube is cut, and noisy counts of cells, depth by depth."""

    t: int
    partition: Partition
    noisy: tuple[CellCounts, ...]
    start: ClassVar[int] = 0
    noise: ClassVar[str] = IntegerLaplace.name

    @classmethod
    def of(cls, kept: Kept, schema: AnySchema, budget: Budget, t: int) -> Self:
        return cls(t, schema.partition, tuple(one for span, one in kept.items() if span.end <= t))

    @staticmethod
    def pack(kept: Kept) -> State:
        layout = [[*span, one.depth, len(one.cells)] for span, one in kept.items()]
        cells = np.concatenate([np.empty(0, np.uint64), *(one.cells for one in kept.values())])
        return {"layout": layout}, {"cells": cells, "counts": np.concatenate([one.counts for one in kept.values()])}

    @staticmethod
    def unpack(header: Header, arrays: Arrays, schema: AnySchema) -> Kept:
        cells, counts, found = arrays["cells"], arrays["counts"], dict[Span, CellCounts]()
        for start, end, depth, size in header["layout"]:
            found[Span(start, end)] = CellCounts(depth, cells[:size], counts[:size])
            cells, counts = cells[size:], counts[size:]
        return found

    def after(self, since: int) -> Self:
        if since:
            raise ValueError("this mechanism has no windows; mechanism='cascade' can")
        return self

    def near(self, points: Points) -> dict[str, float]:
        seen: dict[str, float] = {f"t={self.t} depth": len(self.noisy)}
        for asked in self.noisy:
            for cell in np.unique(self.partition.cells(points, asked.depth)):
                for count in asked.counts[asked.cells == cell].tolist():
                    seen[f"t={self.t} depth {asked.depth} cell {cell}"] = int(count)
        return seen


_CHUNK = 1 << 15  # points at a time: what they need stays in the processor's cache


def corners(partition: Partition, cells: Cells, depths: Integers) -> tuple[Points, Points]:
    low, side = (np.empty((len(cells), partition.dimension)) for _ in range(2))
    for depth in np.flatnonzero(np.bincount(depths)):
        here = depths == depth
        low[here], high = partition.boxes(cells[here], int(depth))
        side[here] = high - low[here]
        for number, axis in enumerate(partition.axes):
            if axis.values is not None:
                side[here, number] = axis.count(*partition.prefixes(cells[here], int(depth), number))[1]
    return low, side


def sample(
    partition: Partition,
    cells: Cells,
    depths: Integers,
    counts: Integers,
    rng: np.random.Generator,
    *,
    even: bool,
) -> Points:
    low, side = corners(partition, cells, depths)
    d, total = partition.dimension, int(counts.sum())
    points, ends = np.empty((d, total)).T, np.cumsum(counts)  # each column in one piece
    # Places within a cell are whole multiples of 2^−32 of its side, so that low + place is exact and never reaches
    # the upper face, unless cells are so small that floats run out; then the minimum below sees to it.
    unit = side * 2.0**-32
    small = depths.max(initial=0) > 20
    top = np.nextafter(low + side, low) if small and side.min(initial=1) < 2.0**-20 else None
    shift, step = rng.integers(0, 1 << 32, size=d, dtype=np.uint32), _irrational(d)
    for start in range(0, total, _CHUNK):
        size = min(_CHUNK, total - start)
        first, last = np.searchsorted(ends, [start, start + size - 1], side="right")
        here = slice(first, last + 1)
        inside = np.diff(np.minimum(ends[here], start + size), prepend=start)
        turn = np.arange(start, start + size, dtype=np.uint64).astype(np.uint32)
        for axis in range(d):
            place = turn * step[axis] + shift[axis] if even else rng.integers(0, 1 << 32, size=size, dtype=np.uint32)
            column = np.multiply(place, np.repeat(unit[here, axis], inside), dtype=np.float64)
            kind = partition.axes[axis]
            if kind.values is not None:  # one of the values that the cell holds, all alike
                np.floor(column, out=column)
                column *= kind.unit
            column += np.repeat(low[here, axis], inside)
            if top is not None and kind.values is None:
                np.minimum(column, np.repeat(top[here, axis], inside), out=column)
            if kind.missing:
                column[column >= (0.5 if kind.values is None else kind.values * kind.unit)] = 0.5
            points[start : start + size, axis] = column
    return points


def round_in_order(mass: Points, total: int, offset: float) -> Integers:
    if not len(mass) or total == 0:
        return np.zeros(len(mass), dtype=np.int64)
    running = np.cumsum(mass)
    edges = np.floor(running * (total / running[-1]) + offset).astype(np.int64)
    edges[-1] = total
    counts: Integers = np.diff(np.clip(edges, 0, total), prepend=0)
    return counts


def _irrational(d: int) -> NDArray[np.uint32]:
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (d + 1))
    steps = root ** -np.arange(1, d + 1, dtype=np.float64) * 2.0**32
    return steps.astype(np.uint64).astype(np.uint32) | np.uint32(1)


_COARSE = 3  # depths at which `near` counts cells, besides the leaves
_TYPICAL, _UPPER = 0.1, 0.21  # times the spread: its median and what nine of ten cases stay below, measured


@dataclass(frozen=True, eq=False)
class CellModel:
    """Cells of any depths that do not overlap, and how many records each of them holds."""

    partition: Partition
    cells: Cells
    depths: Integers
    counts: Integers
    spread: float | None = None

    even: ClassVar[bool] = False
    """Whether records are spread evenly inside their cell, instead of independently (`cell_sampling.sample`)."""

    def __post_init__(self) -> None:
        for array in (self.cells, self.depths, self.counts):
            array.flags.writeable = False

    @classmethod
    def fit(cls, measured: Any, schema: AnySchema, seed: int) -> Self:  # noqa: ANN401 - of the mechanism's own type
        raise NotImplementedError

    @staticmethod
    def rate(mechanism: str, epsilon: float, t: int, dimension: int) -> ErrorBound:
        return nothing_proved("no theorem covers this mechanism")

    @classmethod
    def rounded(
        cls,
        partition: Partition,
        cells: Cells,
        depths: ArrayLike,
        mass: NDArray[Any],
        records: int,
        seed: int,
        spread: float | None = None,
    ) -> Self:
        some = mass > 0  # what rounding leaves over must not go where nothing can be
        cells, depths = cells[some], np.broadcast_to(depths, mass.shape)[some]
        counts = round_in_order(mass[some], records, np.random.default_rng([seed, 1]).random())
        held = counts > 0
        return cls(partition, cells[held], depths[held], counts[held], spread)

    @property
    def records(self) -> int:
        return int(self.counts.sum())

    def points(self, seed: int) -> Points:
        rng = np.random.default_rng(seed)
        return sample(self.partition, self.cells, self.depths, self.counts, rng, even=self.even)

    def sample(self, n: int, seed: int, where: Conditions | None = None) -> Points:
        rng = np.random.default_rng([seed, n])
        cells, depths, mass = self.cells, self.depths, self.counts.astype(np.float64)
        if not len(cells):
            cells, depths, mass = np.zeros(1, np.uint64), np.zeros(1, np.int64), np.ones(1)
        for axis, limits in (where or {}).items():
            mass *= _fractions(self.partition, cells, depths, axis, limits)
        if not n or not mass.sum() > 0:
            if n:
                raise ValueError("the release holds no record that fulfils these conditions; ask for less")
            return np.empty((0, self.partition.dimension))
        counts = round_in_order(mass * (n / mass.sum()), n, rng.random())
        points = sample(self.partition, cells, depths, counts, rng, even=self.even)
        for axis, limits in (where or {}).items():
            low, high = _overlap(self.partition, cells, depths, axis, limits)
            kind = self.partition.axes[axis]
            inside = np.repeat(low, counts) + rng.random(n) * np.repeat(high - low, counts)
            points[:, axis] = np.floor(inside / kind.unit) * kind.unit if kind.values is not None else inside
            if kind.missing:
                points[points[:, axis] >= 0.5, axis] = 0.5
        return rng.permutation(points)

    def expected_error(self) -> ExpectedError:
        if self.spread is None:
            return ExpectedError(math.nan, math.nan)
        each = self.spread / max(self.records, 1)
        return ExpectedError(min(_TYPICAL * each, 1.0), min(_UPPER * each, 1.0))

    @classmethod
    def error_bound(cls, facts: Facts, start: int) -> ErrorBound:
        axes = facts.schema.partition.axes
        if start or not all(axis.plain and axis.weight == axes[0].weight for axis in axes):
            what = "windows" if start else "columns of finitely many values, with missing ones, or of unequal weights"
            return nothing_proved(f"no theorem covers {what}")
        return cls.rate(facts.mechanism, facts.guarantee.record_epsilon, max(facts.t, 1), facts.dimension)

    def near(self, points: Points) -> dict[str, float]:
        seen: dict[str, float] = {"leaves": len(self.cells), "deepest": int(self.depths.max(initial=0))}
        for depth in range(1, min(_COARSE, self.partition.deepest) + 1):
            above = self.cells >> np.maximum(self.depths - depth, 0).astype(np.uint64)
            for cell in np.unique(self.partition.cells(points, depth)):
                seen[f"cell {depth}:{cell}"] = int(self.counts[(self.depths >= depth) & (above == cell)].sum())
        for number, point in enumerate(points):
            seen[f"leaf depth at {number}"], seen[f"leaf count at {number}"] = -1, 0
            for depth in np.unique(self.depths):
                here = (self.depths == depth) & (self.cells == self.partition.cells(point[None], int(depth))[0])
                if here.any():
                    seen[f"leaf depth at {number}"] = int(depth)
                    seen[f"leaf count at {number}"] = int(self.counts[here][0])
        return seen

    def state(self) -> State:
        return {"spread": self.spread}, {"cells": self.cells, "depths": self.depths, "counts": self.counts}

    @classmethod
    def restore(cls, header: Header, arrays: Arrays, schema: AnySchema, records: int) -> Self:
        """The model that a `state` describes; refused if no release can have it."""
        spread = header["spread"]
        cells, depths, counts = (arrays[name] for name in ("cells", "depths", "counts"))
        need(spread is None or (type(spread) is float and spread >= 0), "spread")
        need(cells.ndim == 1 and cells.shape == depths.shape == counts.shape, "cells, depths and counts")
        need([a.dtype.str for a in (cells, depths, counts)] == ["<u8", "<i8", "<i8"], "cells, depths and counts")
        need(bool(((depths >= 0) & (depths <= schema.partition.deepest)).all()), "depths")
        need(not (cells >> depths.astype(np.uint64)).any(), "cells")
        need(bool(((counts > 0) & (counts <= records)).all()), "counts")
        need(sum(counts.tolist()) == records, "counts")
        return cls(schema.partition, cells, depths, counts, spread)


def _overlap(
    partition: Partition, cells: Cells, depths: Integers, axis: int, limits: tuple[float, float]
) -> tuple[Points, Points]:
    low, side = corners(partition, cells, depths)
    kind = partition.axes[axis]
    if kind.values is not None:
        side[:, axis] *= kind.unit  # there it is a number of values
    end = limits[1] + (kind.unit if kind.values is not None or limits[0] == limits[1] else 0.0)
    start = np.maximum(low[:, axis], limits[0])
    return start, np.maximum(np.minimum(low[:, axis] + side[:, axis], end), start)


def _fractions(partition: Partition, cells: Cells, depths: Integers, axis: int, limits: tuple[float, float]) -> Points:
    whole_low, whole_high = _overlap(partition, cells, depths, axis, (0.0, 1.0))
    low, high = _overlap(partition, cells, depths, axis, limits)
    return (high - low) / np.maximum(whole_high - whole_low, 1e-300)
