"""What a pool makes one believe, the slow way: from cell to cell, with plain numbers in dictionaries.

Each split cell has a `Word`: what the pool says of its halves, how noisy that is, and what was believed before. A walk
down from the root says what each cell holds (`masses`). From that follow which cells are heard (`heard`), how much of
their surprise is believed (`trusted`), and what to believe of every cell (`oracle`). Of the code that is tested it
takes three constants and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headwater.mechanisms.cascade.pool import Pool
from headwater.mechanisms.cascade.shrinkage import MAX_SHIFT, PRIOR_CELLS, SIGNIFICANCE
from headwater.mechanisms.cascade.tree import Floats
from headwater.partition import Partition
from tests.support.trees import Cell, split_cells


@dataclass
class Word:
    """All that is said of one split cell, and what was believed of it."""

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
        """What the buckets that were asked say, at least their part of what is held, at most all of it, and never 0."""
        return max(1.0, middle(held * self.part, self.left + self.right, held))

    def said(self, base: float) -> float:
        """The left one of the two numbers that sum to ``base`` and are nearest to the measured ones.

        Near is what is few deviations away.
        """
        missing = base - (self.left + self.right)
        return self.left + missing * self.var_left / (self.var_left + self.var_right)

    def surprise(self, base: float) -> float:
        return self.said(base) - base * self.before

    def alone(self, base: float) -> float:
        """The share of the left half by the cell's own word."""
        return middle(0.0, self.said(base) / base, 1.0)

    def drawn(self, base: float, trust: float) -> float:
        """The same share, drawn towards what was believed: not far."""
        away, limit = (1 - trust) * self.surprise(base), MAX_SHIFT * math.sqrt(self.noise)
        return middle(0.0, (self.said(base) - middle(-limit, away, limit)) / base, 1.0)


@dataclass
class Found:
    """What to believe of one cell. ``base`` is the mass that the share is a share of."""

    left: float
    variance: float
    base: float


def middle(low: float, value: float, high: float) -> float:
    return sorted((low, value, high))[1]


def read(pool: Pool, before: Floats, partition: Partition) -> dict[Cell, Word]:
    found = {}
    rows = zip(*(row.tolist() for row in pool.values), before.tolist(), strict=True)
    for (depth, cell), (left, right, var_left, var_right, asked, share) in zip(
        split_cells(pool.tree), rows, strict=True
    ):
        even = float(partition.shares(np.array([cell], dtype=np.uint64), depth)[0])
        found[depth, cell] = Word(left, right, var_left, var_right, asked / pool.points, share, 0 < even < 1)
    return found


def masses(words: dict[Cell, Word], points: int, left: Callable[[Cell, float], float]) -> dict[Cell, float]:
    """Walk down from the root: each cell tells its halves what they hold, by a share that may depend on its base."""
    found: dict[Cell, float] = {}

    def visit(depth: int, cell: int, held: float) -> None:
        if (depth, cell) in words:
            found[depth, cell] = held
            lower = held * left((depth, cell), words[depth, cell].base(held))
            visit(depth + 1, 2 * cell, lower)
            visit(depth + 1, 2 * cell + 1, held - lower)

    visit(0, 0, float(points))
    return found


def by_own_word(words: dict[Cell, Word], points: int) -> dict[Cell, float]:
    return masses(words, points, lambda name, base: words[name].alone(base))


def heard(words: dict[Cell, Word], points: int) -> dict[Cell, tuple[Word, float]]:
    """The cells that hold more than rounding and have two halves that can hold something, each with its base."""
    held = by_own_word(words, points)
    return {name: (one, one.base(held[name])) for name, one in words.items() if held[name] > 1e-9 * points and one.open}


def weighted(cells: list[tuple[Word, float]], s: float, against: float, if_so: float) -> tuple[float, float, float]:
    """Moments of the squares: what they say beyond ``against``, by how much that may be chance, and all weights.

    A square is weighted by how precise it is if ``s`` is what it was; it may be off by chance as if ``if_so`` were.
    """
    said, chance, weights = list[float](), list[float](), list[float]()
    for one, base in cells:
        weight = 1 / (one.noise / base + s) ** 2
        said.append(weight * ((one.surprise(base) ** 2 - one.noise) / base - against))
        chance.append(2 * (weight * (one.noise / base + if_so)) ** 2)
        weights.append(weight)
    return math.fsum(said), math.sqrt(math.fsum(chance)), math.fsum(weights)


def trusted(words: dict[Cell, Word], points: int) -> dict[Cell, float]:
    """How much of a surprise to believe, for all cells that are heard."""
    known, found = heard(words, points), {}
    for (depth, cell), (word, base) in known.items():
        level = [other for (at, _), other in known.items() if at == depth]
        near = [other for (at, place), other in known.items() if at == depth and place // 4 == cell // 4]
        s = 0.25
        for _ in range(2):
            said, chance, weights = weighted(level, s, 0.0, 0.0)
            s = max(0.0, (said - SIGNIFICANCE * chance) / weights)
        said, chance, weights = weighted(near, s, s, s)
        beyond = said - middle(-chance, said, chance)
        local = max(0.0, s + beyond / (weights + PRIOR_CELLS * weights / len(near)))
        found[depth, cell] = local / (local + word.noise / base)
    return found


def oracle(pool: Pool, before: Floats, partition: Partition, settle: bool) -> dict[Cell, Found]:
    """Who is heard and trusted follows from the masses by the pool's own word; so do the shares, or they settle."""
    words = read(pool, before, partition)
    trust = trusted(words, pool.points)

    def share(name: Cell, base: float) -> float:
        return words[name].drawn(base, trust[name]) if name in trust else words[name].before

    held = masses(words, pool.points, share) if settle else by_own_word(words, pool.points)
    found = {}
    for name, word in words.items():
        base = word.base(held[name])
        found[name] = Found(share(name, base), trust.get(name, 0.0) * word.noise / base**2, base)
    return found
