"""Cascade: buckets of time at a few speeds, and in each of them a tree that earlier releases have chosen.

When a slow bucket closes, its points are counted once in the leaves of a tree, each count with noise, and forgotten.
The tree is a function of numbers that were published before, so it costs nothing: all of a bucket's budget goes into
the counts. While a slow bucket is open, its closed fast buckets speak for it; with noise that has an address they
need not be measured until somebody asks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.files import FileRefusedError
from headwater.measure.budget import Ledger
from headwater.measure.leaves import count_leaves
from headwater.measure.noise import Noise
from headwater.measure.plan import Plan, Speed, Stage, plan, stage_at
from headwater.partition import DEEPEST, Cells, Partition, Points
from headwater.publish.belief import Belief, believe, shares
from headwater.publish.estimate import Pooled
from headwater.publish.grow import grow
from headwater.publish.pool import Pool
from headwater.publish.tree import LEAF, NOTHING, Summary, Tree, possible, together, unpacked
from headwater.publish.worth import prices, worth

Trees = list[tuple[Tree, ...]]  # for each speed, the trees of its rungs

GROWTH = 2  # the number of the rule that chooses trees: another rule needs another number (`_restored` of the pipeline)
RECENT = 4  # fast buckets are first compared with so many slow ones: a stage, since streams move


def resolution(partition: Partition) -> int:
    """The depth to which points are kept: cells far smaller than the error that noise makes.

    In two dimensions they have a side of 2^−16, which matters only when εt comes near 10^10.
    """
    d = partition.dimension
    return min(40 if d == 1 else d * (24 // d + 4), DEEPEST - 1, partition.deepest)


def histogram(points: Points, partition: Partition) -> tuple[Cells, NDArray[np.int64]]:
    """Which cells of depth `resolution` the points are in, and how many are in each. Pure: run it anywhere."""
    cells, counts = np.unique(partition.cells(points, resolution(partition)), return_counts=True)
    return cells, counts.astype(np.int64)


class CascadeMechanism:
    """The second mechanism: same promise as the paper's, smaller error.

    Formal guarantees
    -----------------
    All summaries at all times together are ε-differentially private for replacing one point, of any stream, chosen
    adaptively or not: the point lies in one bucket of each speed, where it moves two leaf counts by one each, and the
    budgets of the speeds add up to at most ε (`Stage.ledger`, `proofs/cascade.md`).
    """

    name = "cascade"

    def __init__(self, partition: Partition, epsilon: float, noise: Noise) -> None:
        self.partition, self.epsilon, self.noise, self.t = partition, epsilon, noise, 0
        self.finest = resolution(partition)
        self.slow: list[Summary] = []  # of all closed slow buckets, oldest first
        self.recent: list[Summary] = []  # of the fast buckets in the slow bucket that closed last
        self._pool = Pool()  # of all closed slow buckets
        self._belief: Belief | None = None  # what it makes one believe
        self._cells: NDArray[Any] = np.empty(0)  # of the points in the open slow bucket, in order of arrival
        self._open(stage_at(0, partition.dimension, epsilon))

    def _open(self, stage: Stage) -> None:
        """Start a slow bucket."""
        self.start, self.stage = self.t, stage
        # The first bucket's tree has a handful of leaves, and the bucket may be long: a byte a point is enough.
        self._kept = min(self.finest, 8) if self.t == 0 else self.finest
        if self._cells.dtype != _word(self._kept):  # else what was there is written over
            self._cells = np.empty(0, dtype=_word(self._kept))
        self._trees: list[Trees] = []  # of the fast speeds, in the first half of the bucket and in the second
        self._fast: dict[tuple[int, int], Summary] = {}  # (speed, start) of what was measured so far

    def _grow(self, speeds: Sequence[Speed], fast: list[Summary]) -> Trees:
        """Trees for buckets of these speeds, finest first, if the next points are like those that spoke last."""
        d = self.partition.dimension
        if all(speed.size < worth(speed, d) for speed in speeds):
            return [(LEAF,) * speed.rungs for speed in speeds]  # whatever is known, nothing is worth splitting
        beliefs = self._believe(pools_of(fast, self.partition))
        # Of the stage, not of this moment: when somebody asks must not matter.
        halvings = math.ceil(math.log2(max(2.0, self.epsilon * self.stage.end)))
        deepest = min(d * halvings, self._kept)
        return [
            tuple(grow(beliefs, speed.size, *of_rung, self.partition) for of_rung in prices(speed, d, deepest))
            for speed in speeds
        ]

    def _believe(self, pools: list[Pool]) -> list[Belief]:
        """What the closed slow buckets make one believe, then these pools, one after the other."""
        if self._belief is None:
            even = shares(self._pool.tree, [], self.partition)
            self._belief = believe(self._pool, even, self.partition, settle=False)
        beliefs = [self._belief]
        for pool in pools:
            before = shares(pool.tree, beliefs, self.partition)
            beliefs.append(believe(pool, before, self.partition, settle=False))
        return beliefs

    @property
    def room(self) -> int:
        """How many points fit into the fastest bucket that is open."""
        size = self.stage.speeds[-1].size
        return size - (self.t - self.start) % size

    def update(self, points: Points) -> None:
        """Take points in order of arrival."""
        self.take(self.locate(points))

    def locate(self, points: Points) -> Cells:
        """What is kept of points: their cells of depth ``finest``. Reads nothing of the run."""
        return self.partition.cells(points, self.finest)

    def update_counts(self, cells: Cells, counts: NDArray[np.int64]) -> None:
        """Take points that were counted elsewhere. They must fit into the `room` of the open bucket.

        Their order is lost, and order decides which bucket a point is in: if it were made up from the cells, replacing
        one point would move others from bucket to bucket, and no longer cost ε.
        """
        if (total := sum(counts.tolist())) > self.room:  # Python's numbers do not wrap around
            raise ValueError(
                f"{total} counted records do not fit: the open bucket has room for {self.room}. "
                "Count the records up to there by themselves, or give the records in order with update()"
            )
        self.take(np.repeat(cells, counts))

    def take(self, cells: Cells) -> None:
        """Take points in order of arrival, as `locate` gives them."""
        while len(cells):
            held, size, shift = self.t - self.start, self.stage.speeds[0].size, np.uint64(self.finest - self._kept)
            take = min(size - held, len(cells))
            if held + take > len(self._cells):
                grown = np.empty(min(max(2 * held, held + take, 1 << 20), size), dtype=_word(self._kept))
                grown[:held] = self._cells[:held]
                self._cells = grown
            self._cells[held : held + take] = cells[:take] >> shift if shift else cells[:take]
            self.t += take
            cells = cells[take:]
            if held + take == size:
                self._close()

    def _close(self) -> None:
        """Measure the slow bucket that is full, and open the next."""
        fast = self._closed_fast()
        stage = self.stage
        if self.t == stage.end:
            stage = stage_at(self.t, self.partition.dimension, self.epsilon)
        slow, *trees = self._grow([self.stage.speeds[0], *stage.speeds[1:]], fast)
        summary = self._measure(0, self.start, slow)
        pooled = self._pool.plus(Pool.of(summary, self.partition))
        # From here on nothing can fail half-way.
        self.slow.append(summary)
        self._pool, self._belief, self.recent = pooled, None, fast
        self._open(stage)
        self._trees.append(trees)

    def _closed_fast(self) -> list[Summary]:
        """What the closed fast buckets of the open slow bucket say, measured now if nobody has asked before.

        At each speed these are the closed buckets after the last closed one of the speed before. Half-way through the
        slow bucket their trees are grown anew, from what its first half has said: streams move.
        """
        found, covered = list[Summary](), self.start
        middle = self.start + self.stage.speeds[0].size // 2
        for speed, spec in enumerate(self.stage.speeds[1:], start=1):
            for start in range(covered, self.t - spec.size + 1, spec.size):
                if start >= middle and len(self._trees) == 1:
                    first = [summary for summary in found if summary.end <= middle]
                    self._trees.append(self._grow(self.stage.speeds[1:], first))
                if (speed, start) not in self._fast:
                    trees = self._trees[int(start >= middle)][speed - 1]
                    self._fast[speed, start] = self._measure(speed, start, trees)
                found.append(self._fast[speed, start])
                covered = start + spec.size
        return found

    def _measure(self, speed: int, start: int, trees: tuple[Tree, ...]) -> Summary:
        """The only place that turns data into numbers that may be seen: one noisy count for each leaf."""
        spec = self.stage.speeds[speed]
        cells = self._cells[start - self.start : start - self.start + spec.size]
        variance = max(2 * math.exp(-1 / spec.scale) / math.expm1(-1 / spec.scale) ** 2, NOTHING)
        parts = []
        for rung, tree in enumerate(trees):
            true = count_leaves(cells, self._kept, tree)
            leaf = np.arange(len(true), dtype=np.uint64)
            noise = self.noise.laplace_at(spec.scale, start, np.uint64(speed << 44 | rung << 38) + leaf)
            counts = true + noise
            if not self.partition.plain:
                counts[~possible(tree, self.partition)] = 0
            parts.append(Summary(start, start + spec.size, tree, counts, variance))
        return replace(parts[0], coarse=tuple(parts[1:])) if len(parts) > 1 else parts[0]

    def pooled(self, since: int = 0) -> Pooled:
        """What is published about the points after the first ``since`` ones, or a few more: whole buckets only."""
        fast = self._closed_fast()
        covered, start, slow = max((summary.end for summary in fast), default=self.start), 0, self.slow
        if since:
            if self.recent and self.recent[0].start <= since:
                slow, fast = slow[:-1], self.recent + fast  # the last closed slow bucket, in finer steps
            start = max((s.start for s in slow + fast if s.start <= since), default=0)
            fast = [s for s in fast if s.start >= start]
        within = [s for s in slow if s.start >= start]
        known = [(pool(slow[: len(slow) - len(within)], self.partition), False)]
        known.append((pool(within, self.partition) if start else self._pool, True))
        if len(within) > RECENT:  # once more by themselves, since they are more like what came after
            known.append((pool(within[-RECENT:], self.partition), False))
        known += [(of_speed, True) for of_speed in pools_of(fast, self.partition)]
        known = [(some, counted) for some, counted in known if some.points]
        return Pooled([some for some, _ in known], [counted for _, counted in known], start, self.t - covered)

    def ledger(self) -> Ledger:
        """What one point of this stage can move."""
        return self.stage.ledger()

    def plan(self, until: int) -> Plan:
        """The schedule up to some time."""
        return plan(self.partition.dimension, self.epsilon, until)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything that is needed to go on, but for the key: as secret as the data."""
        kept = [*self.slow, *self.recent]
        # The trees of fast buckets are kept, not grown again: measured twice, over trees that differ because a library
        # rounds differently, the same noise would show what it should hide. So is the plan, which must not change.
        trees = [part.tree for summary in kept for part in summary.parts]
        trees += [tree for half in self._trees for of_speed in half for tree in of_speed]
        flags = [flag for tree in trees for flag in tree.splits]
        arrays: dict[str, NDArray[Any]] = {
            "cells": self._cells[: self.t - self.start],
            "splits": np.packbits(np.concatenate([np.empty(0, dtype=bool), *flags])),
            "counts": np.concatenate([np.empty(0, dtype=np.int64), *(part.counts for s in kept for part in s.parts)]),
        }
        if np.abs(arrays["counts"]).max(initial=0) < 1 << 31:
            arrays["counts"] = arrays["counts"].astype(np.int32)
        spans = [[summary.start, summary.end, summary.variance, len(summary.parts)] for summary in kept]
        header: dict[str, Any] = {"t": self.t, "start": self.start, "slow": len(self.slow), "spans": spans}
        header |= {"speeds": self._speeds(), "halves": len(self._trees)}
        return header, arrays

    def _speeds(self) -> list[list[float]]:
        return [[speed.size, speed.epsilon, speed.siblings, speed.rungs] for speed in self.stage.speeds]

    def restore(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a `state`."""
        counts, kept = arrays["counts"].astype(np.int64), list[Summary]()
        trees = unpacked(np.unpackbits(arrays["splits"]).astype(bool))
        for start, end, variance, rungs in header["spans"]:
            parts = []
            for tree in islice(trees, rungs):
                parts.append(Summary(start, end, tree, counts[: tree.size], variance))
                counts = counts[tree.size :]
            kept.append(replace(parts[0], coarse=tuple(parts[1:])))
        self.slow, self.recent = kept[: header["slow"]], kept[header["slow"] :]
        self.t = header["start"]
        self._open(stage_at(self.t, self.partition.dimension, self.epsilon))
        if self._speeds() != header["speeds"]:
            raise FileRefusedError("this state was written under another plan of buckets; go on with that version")
        for _ in range(header["halves"]):
            self._trees.append([tuple(islice(trees, speed.rungs)) for speed in self.stage.speeds[1:]])
        self._pool, self._belief = pool(self.slow, self.partition), None
        self._cells, self.t = arrays["cells"], header["t"]


def pool(summaries: Iterable[Summary], partition: Partition) -> Pool:
    """The sum of these summaries."""
    total = Pool()
    for summary in summaries:
        total = total.plus(Pool.of(summary, partition))
    return total


def pools_of(fast: list[Summary], partition: Partition) -> list[Pool]:
    """One pool for each speed; buckets of one speed have one size."""
    return [pool(together(list(run)), partition) for _, run in groupby(fast, lambda summary: summary.points)]


def _word(depth: int) -> type[np.unsignedinteger[Any]]:
    """The shortest type that holds a cell of this depth."""
    return np.uint8 if depth <= 8 else np.uint32 if depth <= 32 else np.uint64
