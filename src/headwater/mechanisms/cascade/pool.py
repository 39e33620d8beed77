"""Noisy counts of several buckets, added up cell by cell with their variances."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import numpy as np

from headwater.mechanisms.cascade.noisy_counts import NoisyCounts, half_counts, merged
from headwater.mechanisms.cascade.tree import LEAF, Floats, Tree, union
from headwater.partition import Partition

SIGNIFICANCE = 4.0  # a lack of points counts beyond so many standard deviations of its noise
MOST_NULL = 0.95  # no larger share of null records is assumed: what is left would be noise


@dataclass(frozen=True, eq=False)
class Pool:
    """Sums of the noisy counts of some buckets, over the split cells of the union of their trees.

    Parameters
    ----------
    points
        How many points the buckets hold.
    tree
        The union of their trees.
    values
        The five rows of `half_counts`.
    """

    points: int = 0
    tree: Tree = LEAF
    values: Sequence[Floats] = ()

    @staticmethod
    @lru_cache(maxsize=4)  # as for `merged`
    def of(bucket: NoisyCounts, partition: Partition) -> Pool:
        """A pool of one bucket."""
        return Pool(bucket.points, bucket.tree, half_counts(bucket, partition))

    def plus(self, other: Pool) -> Pool:
        """The sum of both. A cell that only one of them splits has the values of that one."""
        if LEAF.size in (self.tree.size, other.tree.size):
            deeper = max(self, other, key=lambda pool: pool.tree.size)
            return Pool(self.points + other.points, deeper.tree, deeper.values)
        tree, mine, yours = union(self.tree, other.tree)
        values = [np.zeros(tree.size - 1) for _ in self.values]
        for row, ours, theirs in zip(values, self.values, other.values, strict=True):
            row[mine] = ours
            row[yours] += theirs
        return Pool(self.points + other.points, tree, values)


def without_nulls(pool: Pool) -> Pool:
    """The same counts, scaled up to sum to the points that were measured, if they sum to significantly less.

    A null record is in no cell, so that counts sum to less than the points. Estimates, whose root holds all points,
    would put the difference into cells in which little was counted. At most `MOST_NULL` is taken for null records.
    """
    if pool.tree.size == 1:
        return pool
    left, right, var_left, var_right, measured = pool.values
    found, expected = float(left[0] + right[0]), float(measured[0])
    if not expected or expected - found <= SIGNIFICANCE * math.sqrt(var_left[0] + var_right[0]):
        return pool
    up = expected / max(found, (1 - MOST_NULL) * expected)
    return Pool(pool.points, pool.tree, [left * up, right * up, var_left * up**2, var_right * up**2, measured])


def pool(buckets: Iterable[NoisyCounts], partition: Partition) -> Pool:
    """The sum of these buckets."""
    total = Pool()
    for bucket in buckets:
        total = total.plus(Pool.of(bucket, partition))
    return total


def pools_by_timescale(buckets: list[NoisyCounts], partition: Partition) -> list[Pool]:
    """One pool for each timescale; buckets of one timescale have one size."""
    return [pool(merged(list(run)), partition) for _, run in groupby(buckets, lambda bucket: bucket.points)]
