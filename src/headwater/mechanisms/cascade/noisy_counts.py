"""What crosses the trust boundary in cascade: noisy counts of the leaves of a public tree, bucket by bucket."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import groupby

import numpy as np

from headwater.mechanisms.cascade.tree import Floats, Integers, Tree, possible
from headwater.partition import Partition

EXACT = 1e-12  # the variance of a number without noise: above 0, so that one can divide by it


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """What was measured of the points ``start … end − 1``: a noisy count for every leaf of a public tree.

    Parameters
    ----------
    counts
        One for each leaf; they may be negative.
    variance
        Of the noise in one count.
    coarse
        Further measurements of the same points, over smaller trees whose splits are all splits of this one.
    """

    start: int
    end: int
    tree: Tree
    counts: Integers
    variance: float
    coarse: tuple[NoisyCounts, ...] = ()

    def __post_init__(self) -> None:
        self.counts.flags.writeable = False

    @property
    def parts(self) -> tuple[NoisyCounts, ...]:
        """All measurements of the points: the finest one, then the coarse ones."""
        return self, *self.coarse

    def keys(self) -> list[bytes]:
        """Which trees were measured: equal keys, equal trees, however the objects came about."""
        return [part.tree.key for part in self.parts]

    def plus(self, other: NoisyCounts) -> NoisyCounts:
        """The sum of two buckets over the same trees: counts add up, and so do variances."""
        coarse = tuple(a.plus(b) for a, b in zip(self.coarse, other.coarse, strict=True))
        counts, variance = self.counts + other.counts, self.variance + other.variance
        return NoisyCounts(self.start, other.end, self.tree, counts, variance, coarse)

    @property
    def points(self) -> int:
        """How many points it is about."""
        return self.end - self.start


def merged(buckets: list[NoisyCounts]) -> list[NoisyCounts]:
    """The same buckets, with neighbouring ones over the same trees added up."""
    return [_sum(tuple(same)) for _, same in groupby(buckets, NoisyCounts.keys)]


@lru_cache(maxsize=4)  # when a slow bucket closes, its first half is asked for again
def _sum(buckets: tuple[NoisyCounts, ...]) -> NoisyCounts:
    return reduce(NoisyCounts.plus, buckets)


def half_counts(bucket: NoisyCounts, partition: Partition) -> list[Floats]:
    """Noisy counts summed over both halves of every split cell, by depth, then from left to right.

    The five rows: counts of the left and the right half, their variances, and how many points were measured.
    """
    flags = np.concatenate(bucket.tree.splits)
    (leaf,), (split,) = (~flags).nonzero(), flags.nonzero()
    counts, variances = np.empty(len(flags)), np.empty(len(flags))
    counts[leaf], variances[leaf] = bucket.counts, bucket.variance
    if not partition.plain:
        variances[leaf[~possible(bucket.tree, partition)]] = EXACT
    end = len(split)
    for depth in reversed(bucket.tree.splits):
        start = end - int(np.count_nonzero(depth))
        if start < end:
            for row in (counts, variances):  # the halves of split cell number i are nodes 2i + 1 and 2i + 2
                row[split[start:end]] = row[2 * start + 1 : 2 * end : 2] + row[2 * start + 2 : 2 * end + 1 : 2]
        end = start
    # Row by row: arrays that are not too large are in memory that was used before.
    found = [row[half::2].copy() for row in (counts, variances) for half in (1, 2)]
    found.append(np.full(len(split), float(bucket.points)))
    for coarse in bucket.coarse:
        _combine(found, bucket.tree, half_counts(coarse, partition), coarse.tree)
    return found


def _combine(fine: list[Floats], tree: Tree, coarse: list[Floats], part: Tree) -> None:
    """Add a second measurement of the same points, over a part of the tree: means weighted by precision."""
    index = part.index_in(tree)
    for side in (0, 1):
        mean, variance = fine[side][index], fine[2 + side][index]
        weight = variance / (variance + coarse[2 + side])
        fine[side][index] = mean + weight * (coarse[side] - mean)
        fine[2 + side][index] = weight * coarse[2 + side]
