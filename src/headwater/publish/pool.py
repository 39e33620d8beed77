"""Sums of summaries: what the buckets of one speed say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from headwater.partition import Partition
from headwater.publish.tree import LEAF, Floats, Summary, Tree, halves, union


@dataclass(frozen=True, eq=False)
class Pool:
    """Sums of the summaries of some buckets: over the split cells of the union of their trees, as `halves` has them."""

    points: int = 0
    tree: Tree = LEAF
    values: Sequence[Floats] = ()

    @staticmethod
    @lru_cache(maxsize=4)  # as for `together`
    def of(summary: Summary, partition: Partition) -> Pool:
        """A pool of one bucket."""
        return Pool(summary.points, summary.tree, halves(summary, partition))

    def plus(self, other: Pool) -> Pool:
        """Both together."""
        if LEAF.size in (self.tree.size, other.tree.size):
            deeper = max(self, other, key=lambda pool: pool.tree.size)
            return Pool(self.points + other.points, deeper.tree, deeper.values)
        tree, mine, yours = union(self.tree, other.tree)
        values = [np.zeros(tree.size - 1) for _ in self.values]
        for row, ours, theirs in zip(values, self.values, other.values, strict=True):
            row[mine] = ours
            row[yours] += theirs
        return Pool(self.points + other.points, tree, values)
