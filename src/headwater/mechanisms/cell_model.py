"""The model of the mechanisms that cut the cube: how many records lie in which cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headwater.files import need
from headwater.mechanisms.accuracy import ErrorBound, ExpectedError, nothing_proved
from headwater.mechanisms.cell_sampling import corners, round_in_order, sample
from headwater.mechanisms.protocol import AnySchema, Arrays, Conditions, Facts, Header, State
from headwater.partition import Cells, Partition, Points

_COARSE = 3  # depths at which `near` counts cells, besides the leaves
_TYPICAL, _UPPER = 0.1, 0.21  # times the spread: its median and what nine of ten cases stay below, measured


def expected_w1(spread: float | None) -> ExpectedError:
    """The error to expect, given the spread per record. W1 is never above 1."""
    if spread is None:
        return ExpectedError(math.nan, math.nan)
    return ExpectedError(min(_TYPICAL * spread, 1.0), min(_UPPER * spread, 1.0))


@dataclass(frozen=True, eq=False)
class CellModel:
    """Cells of any depths that do not overlap, and how many records each of them holds.

    Parameters
    ----------
    cells, depths, counts
        Which cells hold records, how deep they are, and how many records they hold. Cells that hold none are left out.
    spread
        A bound on W1 times the number of records that noise may have caused, up to a factor; ``None`` if unknown.
    """

    partition: Partition
    cells: Cells
    depths: NDArray[np.int64]
    counts: NDArray[np.int64]
    spread: float | None = None

    even: ClassVar[bool] = False
    """Whether records are spread evenly inside their cell, instead of independently (`cell_sampling.sample`)."""

    def __post_init__(self) -> None:
        for array in (self.cells, self.depths, self.counts):
            array.flags.writeable = False

    @classmethod
    def fit(cls, measured: Any, schema: AnySchema, seed: int) -> Self:  # noqa: ANN401 - of the mechanism's own type
        """The model of what was measured."""
        raise NotImplementedError

    @staticmethod
    def rate(epsilon: float, t: int, dimension: int) -> ErrorBound:
        """What is proved of plain streams in the cube."""
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
        """Whole counts in proportion to masses, for as many records. Cells without mass stay empty."""
        some = mass > 0  # what rounding leaves over must not go where nothing can be
        cells, depths = cells[some], np.broadcast_to(depths, mass.shape)[some]
        counts = round_in_order(mass[some], records, np.random.default_rng([seed, 1]).random())
        held = counts > 0
        return cls(partition, cells[held], depths[held], counts[held], spread)

    @property
    def records(self) -> int:
        """How many records it is about."""
        return int(self.counts.sum())

    def points(self, seed: int) -> Points:
        """The synthetic records, cell by cell."""
        rng = np.random.default_rng(seed)
        return sample(self.partition, self.cells, self.depths, self.counts, rng, even=self.even)

    def sample(self, n: int, seed: int, where: Conditions | None = None) -> Points:
        """Any number of synthetic records: cells in proportion to their counts, as far as conditions leave of them.

        Inside a cell coordinates are independent, so the conditioned ones are drawn by themselves. Of no records
        nothing is known: then any place of the cube is as likely as any other.
        """
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
        """The spread per record, scaled by what it was found to amount to."""
        return expected_w1(None if self.spread is None else self.spread / max(self.records, 1))

    @classmethod
    def error_bound(cls, facts: Facts, start: int) -> ErrorBound:
        """The theorem that covers whole streams in a cube. Of all else only the cube's size is known."""
        axes = facts.schema.partition.axes
        if start or not all(axis.plain and axis.weight == axes[0].weight for axis in axes):
            what = "windows" if start else "columns of finitely many values, with missing ones, or of unequal weights"
            return nothing_proved(f"no theorem covers {what}")
        return cls.rate(facts.guarantee.record_epsilon, max(facts.t, 1), facts.dimension)

    def near(self, points: Points) -> dict[str, float]:
        """How many leaves there are, and the counts of the leaves and of coarse cells that hold these points."""
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
        """The model as plain values and arrays."""
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
    partition: Partition, cells: Cells, depths: NDArray[np.int64], axis: int, limits: tuple[float, float]
) -> tuple[Points, Points]:
    """The part of each cell's side on one axis that lies within limits; of a finite axis up to the next value."""
    low, side = corners(partition, cells, depths)
    kind = partition.axes[axis]
    if kind.values is not None:
        side[:, axis] *= kind.unit  # there it is a number of values
    end = limits[1] + (kind.unit if kind.values is not None or limits[0] == limits[1] else 0.0)
    start = np.maximum(low[:, axis], limits[0])
    return start, np.maximum(np.minimum(low[:, axis] + side[:, axis], end), start)


def _fractions(
    partition: Partition, cells: Cells, depths: NDArray[np.int64], axis: int, limits: tuple[float, float]
) -> Points:
    """The fraction of each cell that lies within limits on one axis."""
    whole_low, whole_high = _overlap(partition, cells, depths, axis, (0.0, 1.0))
    low, high = _overlap(partition, cells, depths, axis, limits)
    return (high - low) / np.maximum(whole_high - whole_low, 1e-300)
