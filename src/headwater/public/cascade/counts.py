"""Noisy counts of several buckets, added up cell by cell with their variances."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import groupby, islice

import numpy as np

from headwater.public.cascade.tree import LEAF, Tree, possible, union, unpacked
from headwater.public.partition import Floats, Integers, Partition
from headwater.public.protocol import Arrays, Header, State

EXACT = 1e-12  # the variance of a number without noise: above 0, so that one can divide by it


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """What was measured of the points ``start … end − 1``: a noisy count for every leaf of a public tree."""

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
        return self, *self.coarse

    def keys(self) -> list[bytes]:
        return [part.tree.key for part in self.parts]

    def plus(self, other: NoisyCounts) -> NoisyCounts:
        coarse = tuple(a.plus(b) for a, b in zip(self.coarse, other.coarse, strict=True))
        counts, variance = self.counts + other.counts, self.variance + other.variance
        return NoisyCounts(self.start, other.end, self.tree, counts, variance, coarse)

    @property
    def points(self) -> int:
        return self.end - self.start


def pack(buckets: Sequence[NoisyCounts], further: Sequence[Tree]) -> State:
    """The noisy counts of these buckets with their trees, and further trees that are still to be measured."""
    parts = [part for bucket in buckets for part in bucket.parts]
    flags = [flag for tree in (*(part.tree for part in parts), *further) for flag in tree.splits]
    counts = np.concatenate([np.empty(0, dtype=np.int64), *(part.counts for part in parts)])
    arrays: Arrays = {
        "splits": np.packbits(np.concatenate([np.empty(0, dtype=bool), *flags])),
        "counts": counts.astype(np.int32) if np.abs(counts).max(initial=0) < 1 << 31 else counts,
    }
    return {"spans": [[b.start, b.end, b.variance, len(b.parts)] for b in buckets]}, arrays


def unpack(header: Header, arrays: Arrays) -> tuple[list[NoisyCounts], Iterator[Tree]]:
    """The buckets that `pack` packed, and the further trees."""
    counts, buckets = arrays["counts"].astype(np.int64), list[NoisyCounts]()
    trees = unpacked(np.unpackbits(arrays["splits"]).astype(bool))
    for start, end, variance, resolutions in header["spans"]:
        parts = []
        for tree in islice(trees, resolutions):
            parts.append(NoisyCounts(start, end, tree, counts[: tree.size], variance))
            counts = counts[tree.size :]
        buckets.append(replace(parts[0], coarse=tuple(parts[1:])))
    return buckets, trees


def merged(buckets: list[NoisyCounts]) -> list[NoisyCounts]:
    return [_sum(tuple(same)) for _, same in groupby(buckets, NoisyCounts.keys)]


@lru_cache(maxsize=4)  # when a slow bucket closes, its first half is asked for again
def _sum(buckets: tuple[NoisyCounts, ...]) -> NoisyCounts:
    return reduce(NoisyCounts.plus, buckets)


def half_counts(bucket: NoisyCounts, partition: Partition) -> list[Floats]:
    """Noisy counts summed over both halves of every split cell, by depth, then from left to right."""
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
    index = part.index_in(tree)
    for side in (0, 1):
        mean, variance = fine[side][index], fine[2 + side][index]
        weight = variance / (variance + coarse[2 + side])
        fine[side][index] = mean + weight * (coarse[side] - mean)
        fine[2 + side][index] = weight * coarse[2 + side]


SIGNIFICANCE = 4.0  # a lack of points counts beyond so many standard deviations of its noise
MOST_NULL = 0.95  # no larger share of null records is assumed: what is left would be noise


@dataclass(frozen=True, eq=False)
class Pool:
    """Sums of the noisy counts of some buckets, over the split cells of the union of their trees."""

    points: int = 0
    tree: Tree = LEAF
    values: Sequence[Floats] = ()

    @staticmethod
    @lru_cache(maxsize=4)  # as for `merged`
    def of(bucket: NoisyCounts, partition: Partition) -> Pool:
        return Pool(bucket.points, bucket.tree, half_counts(bucket, partition))

    def plus(self, other: Pool) -> Pool:
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
    """The same counts, scaled up to sum to the points that were measured, if they sum to significantly less."""
    if pool.tree.size == 1:
        return pool
    left, right, var_left, var_right, measured = pool.values
    found, expected = float(left[0] + right[0]), float(measured[0])
    if not expected or expected - found <= SIGNIFICANCE * math.sqrt(var_left[0] + var_right[0]):
        return pool
    up = expected / max(found, (1 - MOST_NULL) * expected)
    return Pool(pool.points, pool.tree, [left * up, right * up, var_left * up**2, var_right * up**2, measured])


def pool(buckets: Iterable[NoisyCounts], partition: Partition) -> Pool:
    total = Pool()
    for bucket in buckets:
        total = total.plus(Pool.of(bucket, partition))
    return total


def pools_by_timescale(buckets: list[NoisyCounts], partition: Partition) -> list[Pool]:
    return [pool(merged(list(run)), partition) for _, run in groupby(buckets, lambda bucket: bucket.points)]
