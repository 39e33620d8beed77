"""Shrinkage the slow way: from cell to cell, with plain numbers in dictionaries.

Each split cell has a `Split`: the noisy counts of its halves, their variances, and the prior fraction. A walk down from
the root gives the mass of each cell (`masses`). From that follow which cells can be estimated (`estimable`), their
shrinkage weights (`shrinkage_weights`), and the fraction of every cell (`oracle`). Of the code that is tested it takes
four constants and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headwater.public.cascade.counts import Pool
from headwater.public.cascade.estimate import MAX_SHIFT, OPEN, PRIOR_CELLS, SIGNIFICANCE
from headwater.public.partition import Floats, Partition
from tests.support.trees import Cell, split_cells


@dataclass
class Split:
    """The noisy counts of one split cell, and its prior fraction."""

    left: float
    right: float
    var_left: float
    var_right: float
    part: float
    before: float
    open: bool

    @property
    def noise(self) -> float:
        return 1 / (1 / self.var_left + 1 / self.var_right)

    def base(self, held: float) -> float:
        """The sum of the noisy halves, clamped to [part · held, held], at least 1."""
        return max(1.0, middle(held * self.part, self.left + self.right, held))

    def fitted(self, base: float) -> float:
        """The left one of the two numbers that sum to ``base`` and are nearest to the measured ones.

        Near is what is few deviations away.
        """
        missing = base - (self.left + self.right)
        return self.left + missing * self.var_left / (self.var_left + self.var_right)

    def residual(self, base: float) -> float:
        return self.fitted(base) - base * self.before

    def unshrunk(self, base: float) -> float:
        """The left fraction by least squares, unshrunk."""
        return middle(0.0, self.fitted(base) / base, 1.0)

    def shrunk(self, base: float, keep: float) -> float:
        """The same fraction, shrunk towards the prior by at most MAX_SHIFT deviations."""
        away, limit = (1 - keep) * self.residual(base), MAX_SHIFT * math.sqrt(self.noise)
        return middle(0.0, (self.fitted(base) - middle(-limit, away, limit)) / base, 1.0)


@dataclass
class Found:
    """The estimate for one cell. ``base`` is the mass that the fraction is of."""

    left: float
    variance: float
    base: float


def middle(low: float, value: float, high: float) -> float:
    return sorted((low, value, high))[1]


def read(pool: Pool, before: Floats, partition: Partition) -> dict[Cell, Split]:
    found = {}
    rows = zip(*(row.tolist() for row in pool.values), before.tolist(), strict=True)
    for (depth, cell), (left, right, var_left, var_right, asked, share) in zip(
        split_cells(pool.tree), rows, strict=True
    ):
        even = float(partition.shares(np.array([cell], dtype=np.uint64), depth)[0])
        found[depth, cell] = Split(left, right, var_left, var_right, asked / pool.points, share, 0 < even < 1)
    return found


def masses(splits: dict[Cell, Split], points: int, left: Callable[[Cell, float], float]) -> dict[Cell, float]:
    """Walk down from the root: each cell divides its mass by a left fraction that may depend on its base."""
    found: dict[Cell, float] = {}

    def visit(depth: int, cell: int, held: float) -> None:
        if (depth, cell) in splits:
            found[depth, cell] = held
            lower = held * left((depth, cell), splits[depth, cell].base(held))
            visit(depth + 1, 2 * cell, lower)
            visit(depth + 1, 2 * cell + 1, held - lower)

    visit(0, 0, float(points))
    return found


def unshrunk_masses(splits: dict[Cell, Split], points: int) -> dict[Cell, float]:
    return masses(splits, points, lambda name, base: splits[name].unshrunk(base))


def estimable(splits: dict[Cell, Split], points: int) -> dict[Cell, tuple[Split, float]]:
    """The cells that hold more than rounding and have two halves that can hold something, each with its base."""
    held = unshrunk_masses(splits, points)
    return {
        name: (one, one.base(held[name])) for name, one in splits.items() if held[name] > 1e-9 * points and one.open
    }


def weighted(cells: list[tuple[Split, float]], s: float, against: float, if_so: float) -> tuple[float, float, float]:
    """Moments of the squares: their excess over ``against``, its standard error, and the sum of weights.

    A square is weighted by how precise it is if ``s`` is what it was; it may be off by chance as if ``if_so`` were.
    """
    excess, chance, weights = list[float](), list[float](), list[float]()
    for one, base in cells:
        weight = 1 / (one.noise / base + s) ** 2
        excess.append(weight * ((one.residual(base) ** 2 - one.noise) / base - against))
        chance.append(2 * (weight * (one.noise / base + if_so)) ** 2)
        weights.append(weight)
    return math.fsum(excess), math.sqrt(math.fsum(chance)), math.fsum(weights)


def shrinkage_weights(splits: dict[Cell, Split], points: int) -> dict[Cell, float]:
    """The part of each residual that is kept, for all cells that can be estimated."""
    known, found = estimable(splits, points), {}
    for (depth, cell), (split, base) in known.items():
        level = [other for (at, _), other in known.items() if at == depth]
        near = [other for (at, place), other in known.items() if at == depth and place // 4 == cell // 4]
        s = 0.25
        for _ in range(2):
            excess, chance, weights = weighted(level, s, 0.0, 0.0)
            s = max(0.0, (excess - SIGNIFICANCE * chance) / weights)
        excess, chance, weights = weighted(near, s, s, s)
        beyond = excess - middle(-chance, excess, chance)
        local = max(0.0, s + beyond / (weights + PRIOR_CELLS * weights / len(near)))
        found[depth, cell] = local / (local + split.noise / base)
    return found


def oracle(pool: Pool, before: Floats, partition: Partition, settle: bool) -> dict[Cell, Found]:
    """Weights come from the unshrunk masses; so do the fractions, unless they settle."""
    splits = read(pool, before, partition)
    keep = shrinkage_weights(splits, pool.points)

    def share(name: Cell, base: float) -> float:
        return splits[name].shrunk(base, keep[name]) if name in keep else splits[name].before

    held = masses(splits, pool.points, share) if settle else unshrunk_masses(splits, pool.points)
    found = {}
    for name, split in splits.items():
        base = split.base(held[name])
        left_open = max(keep[name], OPEN) if name in keep else 0.0
        found[name] = Found(share(name, base), left_open * split.noise / base**2, base)
    return found
