"""What cascade has published so far, and the trees to measure next that follow from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from headwater.public.budget import Budget
from headwater.public.cascade.counts import EXACT, NoisyCounts, Pool, pack, pool, pools_by_timescale, unpack
from headwater.public.cascade.estimate import Fractions, latest_fractions, overwritten, shrink
from headwater.public.cascade.plan import Timescale, split_thresholds, stage_at, uniform_threshold
from headwater.public.cascade.tree import LEAF, Tree, children, unpacked
from headwater.public.files import need, whole_number
from headwater.public.laws import DiscreteGaussian, IntegerLaplace, laplace_scale
from headwater.public.measurements import Row
from headwater.public.partition import Flags, Floats, Partition, Points
from headwater.public.protocol import AnySchema, Arrays, Header, Kept, Span, State


def next_tree(
    estimates: Sequence[Fractions], points: int, thresholds: Sequence[float], base: float, partition: Partition
) -> Tree:
    """Split the cells that are predicted to hold enough of the next points."""
    mass = np.array([float(points)])
    cells = np.zeros(1, dtype=np.uint64)  # not kept on plain axes, where a uniform spread is the same everywhere
    uniform, splits = mass, list[Flags]()
    index = [np.zeros(1, dtype=np.int64)] * len(estimates)
    for depth, threshold in enumerate(thresholds):
        split = (mass >= threshold) | (uniform >= base)
        splits.append(split)
        (at,) = split.nonzero()
        if not len(at):
            break
        mass = mass[at]
        if partition.plain:
            left, uniform = np.full(len(at), 0.5), uniform * 0.5
        else:
            cells = cells[at]
            left = partition.shares(cells, depth)
            cells, uniform = children(cells), _halves(uniform[at], left)
        for i, estimate in enumerate(estimates):
            if depth + 1 >= len(estimate.tree.splits):
                continue  # it has no cells so deep down
            here = index[i][at]
            left = overwritten(left, estimate, here)
            index[i] = estimate.tree.below().take(here, axis=0).reshape(-1)
        mass = _halves(mass, left)
    else:
        splits.append(np.zeros(len(mass), dtype=bool))
    return Tree(tuple(splits))


def _halves(mass: Floats, left: Floats) -> Floats:
    both = np.empty((len(mass), 2))
    np.multiply(mass, left, out=both[:, 0])
    np.subtract(mass, both[:, 0], out=both[:, 1])
    return both.reshape(-1)


Trees = list[tuple[Tree, ...]]  # for each timescale, the trees of its resolutions, finest first
RECENT = 4  # slow buckets, the last ones, that are one more prior for the fast ones, since streams move


@dataclass(frozen=True, eq=False)
class History:
    """The noisy counts of all closed slow buckets, and of the fast ones in the last of them."""

    partition: Partition
    epsilon: float
    slow: tuple[NoisyCounts, ...] = ()
    recent: tuple[NoisyCounts, ...] = ()
    pooled: Pool = field(default_factory=Pool)

    def closed(self, slow: NoisyCounts, fast: Sequence[NoisyCounts]) -> History:
        pooled = self.pooled.plus(Pool.of(slow, self.partition))
        return History(self.partition, self.epsilon, (*self.slow, slow), tuple(fast), pooled)

    def next_trees(self, timescales: Sequence[Timescale], fast: list[NoisyCounts], deepest: int) -> Trees:
        """For each timescale, the trees of its resolutions, finest first, for the next buckets."""
        d = self.partition.dimension
        if all(scale.size < uniform_threshold(scale, d) for scale in timescales):
            return [(LEAF,) * scale.resolutions for scale in timescales]  # nothing can reach a threshold
        estimates = self._fractions(pools_by_timescale(fast, self.partition))
        return [
            tuple(
                next_tree(estimates, scale.size, *of_resolution, self.partition)
                for of_resolution in split_thresholds(scale, d, deepest)
            )
            for scale in timescales
        ]

    @cached_property
    def _slow_fractions(self) -> Fractions:
        uniform = latest_fractions(self.pooled.tree, [], self.partition)
        return shrink(self.pooled, uniform, self.partition, settle=False)

    def _fractions(self, pools: list[Pool]) -> list[Fractions]:
        estimates = [self._slow_fractions]
        for one in pools:
            prior = latest_fractions(one.tree, estimates, self.partition)
            estimates.append(shrink(one, prior, self.partition, settle=False))
        return estimates


@dataclass(frozen=True, eq=False)
class Measured:
    """What crosses the trust boundary: all that is published about the points after the first ``start``."""

    noise: ClassVar[str] = IntegerLaplace.name

    t: int
    start: int  # of the window: 0, or the start of some bucket
    covered: int  # the points from here on are in no closed bucket
    history: History
    fast: tuple[NoisyCounts, ...]  # the closed ones since the last slow one, each timescale after the slower one

    @classmethod
    def of(cls, kept: Kept, schema: AnySchema, budget: Budget, t: int) -> Measured:
        partition, slow, fast_of_last, start = schema.partition, list[NoisyCounts](), list[Span](), 0
        while (end := start + (stage := stage_at(start, partition.dimension, budget)).timescales[0].size) <= t:
            slow.append(kept[Span(start, end)])
            fast_of_last, start = [span for _, span in stage.fast_spans(start, end)], end
        recent = [kept[span] for span in fast_of_last]
        fast = tuple(kept[span] for _, span in stage.fast_spans(start, t))
        history = History(partition, budget.epsilon, tuple(slow), tuple(recent), pool(slow, partition))
        return cls(t, 0, max((one.end for one in fast), default=start), history, fast)

    @staticmethod
    def pack(kept: Kept) -> State:
        return pack(list(kept.values()), ())

    @staticmethod
    def unpack(header: Header, arrays: Arrays, schema: AnySchema) -> Kept:
        return {Span(one.start, one.end): one for one in unpack(header, arrays)[0]}

    def after(self, since: int) -> Measured:
        buckets = self._buckets()
        start = max((bucket.start for bucket in buckets if bucket.start <= since), default=0)
        return replace(self, start=start if since else 0)

    @property
    def uncovered(self) -> int:
        return self.t - self.covered

    def rows(self, gaussian: bool) -> list[Row]:
        """For a file that anyone can use (`headwater.public.measurements`)."""
        every, found = tuple(range(self.history.partition.dimension)), list[Row]()
        law = DiscreteGaussian if gaussian else IntegerLaplace
        for role, buckets in (("slow", self.history.slow), ("recent", self.history.recent), ("fast", self.fast)):
            for bucket in buckets:
                for number, part in enumerate(bucket.parts):
                    splits = np.concatenate(part.tree.splits).astype(np.int64)
                    scale = math.sqrt(part.variance) if gaussian else laplace_scale(part.variance)
                    noise = law.name, scale, part.variance
                    place = part.start, part.end, (), splits
                    found.append(Row(every, *place, part.counts, *noise, role=f"{role} {number}"))
        return found

    def facts(self) -> dict[str, Any]:
        return {"epsilon": self.history.epsilon, "covered": self.covered}

    @classmethod
    def of_rows(cls, rows: Sequence[Row], facts: Mapping[str, Any], schema: AnySchema) -> Measured:
        partition, buckets = schema.partition, dict[str, list[NoisyCounts]](slow=[], recent=[], fast=[])
        trees = unpacked(np.concatenate([np.empty(0, bool), *(row.splits.astype(bool) for row in rows)]))
        for row in rows:
            role, number = row.role.split()
            tree = next(trees)
            need(sum(map(len, tree.splits)) == len(row.splits) and tree.size == len(row.counts), "splits")
            one = NoisyCounts(row.start, row.end, tree, row.counts, max(row.variance, EXACT))
            if int(number):
                last = buckets[role].pop()
                one = replace(last, coarse=(*last.coarse, one))
            buckets[role].append(one)
        slow = tuple(buckets["slow"])
        need(whole_number(facts["covered"], "covered") <= facts["t"], "covered")
        history = History(partition, float(facts["epsilon"]), slow, tuple(buckets["recent"]), pool(slow, partition))
        return cls(facts["t"], facts["start"], facts["covered"], history, tuple(buckets["fast"]))

    def unsure(self, _: Sequence[int]) -> float:
        """The deviation of a count of one cell in the release, by noise."""
        return math.sqrt(sum(one.variance for one in (*self.history.slow, *self.fast) if one.end > self.start))

    def bins(self, axes: Sequence[int]) -> dict[int, Floats] | None:
        """Where cells begin, as coordinates, at the depth that most records are told apart at."""
        partition, tree = (
            self.history.partition,
            max((one.tree for one in self._buckets()), key=lambda t: t.size, default=LEAF),
        )
        if tree.size == 1:
            return None
        depth = int(np.median(tree.levels()))  # cells hold about as many records each
        found = {}
        for axis in axes:
            kind, cuts = partition.axes[axis], partition.order[:depth].count(axis)
            top = kind.unit * (kind.values or 1)
            found[axis] = np.arange(0.0, 1.0, 2.0**-cuts)
            found[axis] = found[axis][found[axis] < top]
        return found

    def _buckets(self) -> list[NoisyCounts]:
        return [*self.history.slow, *self.history.recent, *self.fast]

    def near(self, points: Points) -> dict[str, float]:
        """How many buckets are closed, and the noisy counts of the leaves that hold these points."""
        buckets = self._buckets()
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
