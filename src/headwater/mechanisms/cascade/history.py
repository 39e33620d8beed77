"""What cascade has published so far, and the trees to measure next that follow from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from headwater.mechanisms.cascade.next_tree import next_tree
from headwater.mechanisms.cascade.noisy_counts import NoisyCounts
from headwater.mechanisms.cascade.plan import Stage, Timescale
from headwater.mechanisms.cascade.pool import Pool, pool, pools_by_timescale
from headwater.mechanisms.cascade.shrinkage import Fractions, latest_fractions, shrink
from headwater.mechanisms.cascade.split_thresholds import split_thresholds, uniform_threshold
from headwater.mechanisms.cascade.tree import LEAF, Tree
from headwater.partition import Partition, Points

Trees = list[tuple[Tree, ...]]
"""For each timescale, the trees of its resolutions, finest first."""

RECENT = 4  # slow buckets, the last ones, that are one more prior for the fast ones, since streams move


@dataclass(frozen=True, eq=False)
class History:
    """The noisy counts of all closed slow buckets, and of the fast ones in the last of them.

    Parameters
    ----------
    slow
        The noisy counts of all closed slow buckets, oldest first.
    recent
        Those of the fast buckets in the slow bucket that closed last.
    pooled
        The sum of all closed slow buckets.
    """

    partition: Partition
    epsilon: float
    slow: tuple[NoisyCounts, ...] = ()
    recent: tuple[NoisyCounts, ...] = ()
    pooled: Pool = field(default_factory=Pool)

    def closed(self, slow: NoisyCounts, fast: Sequence[NoisyCounts]) -> History:
        """The history after one more slow bucket, which these fast ones were in."""
        pooled = self.pooled.plus(Pool.of(slow, self.partition))
        return History(self.partition, self.epsilon, (*self.slow, slow), tuple(fast), pooled)

    def next_trees(self, timescales: Sequence[Timescale], stage: Stage, fast: list[NoisyCounts], finest: int) -> Trees:
        """For each timescale, the trees of its resolutions, finest first, for the next buckets.

        A cell is split if its predicted count reaches the threshold of `split_thresholds`. That count is the size of a
        bucket times the estimated fractions on the way to the cell: the next points are taken to be like the last ones.

        Parameters
        ----------
        timescales
            The timescales to measure.
        stage
            The stage at this time; its end decides the largest depth, whenever releases are made.
        fast
            Noisy counts of the fast buckets since the last slow bucket.
        finest
            The depth to which points are kept.
        """
        d = self.partition.dimension
        if all(scale.size < uniform_threshold(scale, d) for scale in timescales):
            return [(LEAF,) * scale.resolutions for scale in timescales]  # nothing can reach a threshold
        estimates = self._fractions(pools_by_timescale(fast, self.partition))
        deepest = self.deepest(stage, finest)
        return [
            tuple(
                next_tree(estimates, scale.size, *of_resolution, self.partition)
                for of_resolution in split_thresholds(scale, d, deepest)
            )
            for scale in timescales
        ]

    def deepest(self, stage: Stage, finest: int) -> int:
        """The largest depth of any tree of a stage: ``d·⌈log2(ε·end)⌉``, at least ``d``, at most ``finest``.

        Cells of that depth have a side of about 1/(ε·end).
        Moving every record by such a side changes W1 as much as moving 1/ε of ``end`` records, about the noise of one
        count, across the whole cube. Smaller cells would not lower the error.
        """
        return min(self.partition.dimension * math.ceil(math.log2(max(2.0, self.epsilon * stage.end))), finest)

    @cached_property
    def _slow_fractions(self) -> Fractions:
        """Left fractions from all closed slow buckets, shrunk towards a uniform spread."""
        uniform = latest_fractions(self.pooled.tree, [], self.partition)
        return shrink(self.pooled, uniform, self.partition, settle=False)

    def _fractions(self, pools: list[Pool]) -> list[Fractions]:
        """Left fractions from the closed slow buckets, then from these pools, each shrunk towards the ones before."""
        estimates = [self._slow_fractions]
        for one in pools:
            prior = latest_fractions(one.tree, estimates, self.partition)
            estimates.append(shrink(one, prior, self.partition, settle=False))
        return estimates


@dataclass(frozen=True, eq=False)
class Measured:
    """What crosses the trust boundary: all that is published about the points after the first ``start``.

    Parameters
    ----------
    start
        Where the window starts: 0, or the start of some bucket.
    covered
        The points from here on are in no closed bucket.
    fast
        The closed fast buckets since the last slow one, each timescale after the end of the slower one.
    """

    t: int
    start: int
    covered: int
    history: History
    fast: tuple[NoisyCounts, ...]

    @property
    def uncovered(self) -> int:
        """How many points no closed bucket covers."""
        return self.t - self.covered

    def near(self, points: Points) -> dict[str, float]:
        """How many buckets are closed, and the noisy counts of the leaves that hold these points."""
        buckets = [*self.history.slow, *self.history.recent, *self.fast]
        partition = self.history.partition
        seen: dict[str, float] = {f"t={self.t} closed buckets": len(buckets)}
        for bucket in buckets:
            for coarseness, part in enumerate(bucket.parts):
                depth = len(part.tree.splits) - 1
                first, end = part.tree.edges(depth)
                for number, cell in enumerate(partition.cells(points, depth).astype(np.int64)):
                    (leaf,) = np.flatnonzero((first <= cell) & (cell < end))
                    name = f"bucket {part.start}-{part.end} tree {coarseness} count at {number}"
                    seen[name] = int(part.counts[leaf])
        return seen

    def pools(self) -> tuple[list[Pool], list[bool]]:
        """Pools in the order in which each is the prior of the next, and which of them hold the points of the window.

        They are sums of: the slow buckets before the window (a prior only), those in the window, the last `RECENT` of
        these if there are more (a prior only: they are in the sum before), and for each timescale the fast buckets in
        the window. Pools without points are left out. If the window begins inside the last closed slow bucket, its fast
        buckets stand for it.
        """
        partition, slow, fast = self.history.partition, self.history.slow, list(self.fast)
        recent = self.history.recent
        if self.start and recent and recent[0].start <= self.start:
            slow, fast = slow[:-1], [*recent, *fast]  # the last closed slow bucket, in finer steps
        fast = [bucket for bucket in fast if bucket.start >= self.start]
        within = [bucket for bucket in slow if bucket.start >= self.start]
        found = [(pool(slow[: len(slow) - len(within)], partition), False)]
        found.append((pool(within, partition) if self.start else self.history.pooled, True))
        if len(within) > RECENT:
            found.append((pool(within[-RECENT:], partition), False))
        found += [(one, True) for one in pools_by_timescale(fast, partition)]
        found = [(one, counted) for one, counted in found if one.points]
        return [one for one, _ in found], [counted for _, counted in found]
