"""Algorithm 4: noisy counts become non-negative whole counts that add up.

Formal guarantees
-----------------
Post-processing: this module reads noisy counts and public randomness only, so it costs no privacy. For a parent
that holds ``m`` and children whose noisy counts, negatives set to zero, are ``n_0`` and ``n_1``, it returns whole
numbers ``m_0, m_1 ≥ 0`` with ``m_0 + m_1 = m`` and ``(m_0 − n_0)(m_1 − n_1) ≥ 0``: both children move the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headwater.mechanisms.cell_counts import CellCounts, Counts, MeasuredCells
from headwater.partition import Cells, Partition

Strategy = Callable[[Counts, Counts, Counts, Counts], Counts]


def halving(parent: Counts, left: Counts, right: Counts, odd: Counts) -> Counts:
    """Share what is missing or left over equally; ``odd`` (0 or 1) is what the left child gets of an odd unit."""
    gap = parent - left - right
    missing = np.maximum(gap, 0)
    excess = np.maximum(-gap, 0)
    taken = np.minimum((excess + odd) // 2, left)
    taken = np.maximum(taken, excess - right)  # what the right child cannot give, the left one gives
    result: Counts = left + (missing + odd) // 2 - taken
    return result


def proportional(parent: Counts, left: Counts, right: Counts, odd: Counts) -> Counts:
    """Scale both children by the same factor; two zeros share equally."""
    total = left + right
    shared = np.floor(parent * (left / np.maximum(total, 1)) + 0.5).astype(np.int64)
    # Rounding may step over a child's own count; these bounds are what "both move the same way" allows.
    grows = parent >= total
    low = np.where(grows, left, parent - np.minimum(right, parent))
    high = np.where(grows, parent - right, np.minimum(left, parent))
    return np.where(total == 0, (parent + odd) // 2, np.clip(shared, low, high))


STRATEGIES: dict[str, Strategy] = {"halving": halving, "proportional": proportional}


@dataclass(frozen=True)
class Layer:
    """Consistent counts of the cells of one depth. Cells that hold nothing are left out."""

    depth: int
    cells: Cells
    counts: Counts

    @staticmethod
    def root(t: int) -> Layer:
        """The whole cube, which holds ``t`` points: public, no noise."""
        held = [t] if t else []
        return Layer(0, np.zeros(len(held), dtype=np.uint64), np.array(held, dtype=np.int64))

    def children(self) -> Cells:
        """The cells of the next depth that can hold anything: left and right child of every cell, in order."""
        first = self.cells << np.uint64(1)
        return np.stack([first, first | np.uint64(1)], axis=1).reshape(-1)

    def refine(self, noisy: CellCounts, strategy: Strategy, rng: np.random.Generator, partition: Partition) -> Layer:
        """The next depth, out of noisy counts of `children`. A half in which nothing can be gets nothing."""
        halves = np.maximum(noisy.counts, 0).reshape(-1, 2)
        odd = rng.integers(0, 2, size=len(halves))
        left = strategy(self.counts, halves[:, 0], halves[:, 1], odd)
        share = partition.shares(self.cells, self.depth)
        left = np.where(share == 1, self.counts, np.where(share == 0, 0, left))
        counts = np.stack([left, self.counts - left], axis=1).reshape(-1)
        held = counts > 0
        return Layer(noisy.depth, noisy.cells[held], counts[held])


@dataclass(frozen=True)
class Measured(MeasuredCells):
    """What crosses the trust boundary: the noisy counts that were asked for, and the whole counts they lead to."""

    counts: Layer


def measure(
    noisy_counts: Callable[[int, Cells], CellCounts],
    t: int,
    depth: int,
    partition: Partition,
    strategy: str,
    seed: int,
) -> Measured:
    """Consistent counts of the cells of one depth that hold anything, from noisy counts on the way down.

    ``noisy_counts`` is asked about cells of a depth, of those only that are below cells that hold something. ``t`` is
    public, and so is ``seed``, which decides odd units.
    """
    rng = np.random.default_rng([seed, 1])  # apart from the generator that places the points
    layer, asked = Layer.root(t), list[CellCounts]()
    for level in range(1, depth + 1):
        asked.append(noisy_counts(level, layer.children()))
        layer = layer.refine(asked[-1], STRATEGIES[strategy], rng, partition)
    return Measured(t, partition, tuple(asked), layer)
