"""Cascade: buckets of time at a few timescales, and in each of them a tree that published numbers have chosen.

When a slow bucket closes, its points are counted once in the leaves of a tree, each count with noise, and forgotten.
The tree is a function of numbers that were published before, so it costs nothing: all of a bucket's budget goes into
the counts. Until a slow bucket closes, releases use its closed fast buckets. Their trees are fixed at public times,
when the slow bucket opens and half-way through; since noise has an address, they are measured when they are first
asked for.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headwater.files import need, whole_number
from headwater.mechanisms.cascade.history import History, Measured, Trees
from headwater.mechanisms.cascade.leaf_counts import count_leaves, sum_leaves
from headwater.mechanisms.cascade.noisy_counts import EXACT, NoisyCounts
from headwater.mechanisms.cascade.plan import Plan, Stage, plan, stage_at
from headwater.mechanisms.cascade.pool import pool
from headwater.mechanisms.cascade.saving import check, pack, timescales, unpack
from headwater.mechanisms.cascade.tree import Tree, possible
from headwater.mechanisms.cell_rows import NULL, CellRows, word
from headwater.mechanisms.open_counts import CountedBucket, CountedBuckets, parts_by_bucket
from headwater.mechanisms.protocol import AnySchema, Arrays, Header, Rows, State
from headwater.noise import Noise
from headwater.partition import DEEPEST, Partition
from headwater.privacy import Budget, Ledger

TREE_BIT, TIMESCALE_BIT = 38, 44
"""Where the numbers of a tree and of its timescale begin in the address of a draw; below is the number of the leaf."""


def resolution(partition: Partition) -> int:
    """The depth of the cells that points are kept as: about 24 + 4·d, and 40 in one dimension.

    Such cells are far smaller than the error of noise: in two dimensions they have a side of 2^−16, and noise is larger
    than that until εt comes near 10^10.
    """
    d = partition.dimension
    return min(40 if d == 1 else d * (24 // d + 4), DEEPEST - 1, partition.deepest)


class CascadeMechanism(CellRows):
    """Noisy counts of the leaves of trees of cells, in buckets of time at a few timescales.

    Formal guarantees
    -----------------
    All noisy counts at all times together are ε-differentially private for replacing one point, of any stream, chosen
    adaptively or not: the point lies in one bucket of each timescale, where it moves two leaf counts by one each, and
    the budgets of the timescales add up to at most ε (`Stage.ledger`, `proofs/cascade.md`); with a δ, to the ρ that
    keeps (ε, δ), in stages with Gaussian noise (`proofs/gaussian.md`).
    """

    name: ClassVar[str] = "cascade"
    windows: ClassVar[bool] = True
    partitions: ClassVar[bool] = True
    deltas: ClassVar[bool] = True
    version: ClassVar[int] = 2

    def __init__(self, schema: AnySchema, budget: Budget | float, noise: Noise) -> None:
        super().__init__(schema, budget, noise)
        self.finest = resolution(self.partition)
        self.history = History(self.partition, self.epsilon)
        self._cells: NDArray[Any] = np.empty(0)  # of the points in the open slow bucket, in order of arrival
        self._spare: NDArray[Any] = np.empty(0)  # of the slow bucket before, to be written over
        self._open(stage_at(0, self.partition.dimension, self.budget), [])

    def _open(self, stage: Stage, trees: list[Trees]) -> None:
        """Start a slow bucket at time ``t``, whose fast buckets are measured on ``trees``.

        A copy of this mechanism may still need the cells of the bucket before: they stay as they are.
        """
        self.start, self.stage, self._trees = self.t, stage, trees
        self._kept = self._kept_depth(self.t)
        self._cells, self._spare = self._spare, self._cells
        if self._cells.dtype != word(self._kept):
            self._cells = np.empty(0, dtype=word(self._kept))
        # Cells fill their words, so null records cannot be marked among them: where they are is kept beside them.
        self._null = np.empty(0, dtype=np.int64)
        self._counted = CountedBuckets()
        self._fast: dict[tuple[int, int], NoisyCounts] = {}  # (timescale, start) of what was measured so far

    def _kept_depth(self, start: int) -> int:
        """The depth to which the points of a slow bucket are kept.

        The first bucket's tree has a handful of leaves, and the bucket may be long: a byte a point is enough.
        """
        return min(self.finest, 8) if start == 0 else self.finest

    @property
    def _middle(self) -> int:
        """``t`` half-way through the open slow bucket: fast buckets after it get new trees, since streams move."""
        return self.start + self.stage.timescales[0].size // 2

    def update(self, rows: Rows) -> None:
        """Take points in order of arrival."""
        cells = rows[:, 0]
        protected = self._cells  # a copy of this mechanism may still need what is in it
        while len(cells):
            size, shift = self.stage.timescales[0].size, np.uint64(self.finest - self._kept)
            held = self.t - self.start - self._counted.records
            end = self._middle if self.t < self._middle else self.start + size
            take = min(end - self.t, len(cells))
            if held + take > len(self._cells) or (held == 0 and self._cells is protected):
                grown = np.empty(min(max(2 * held, held + take, 1 << 20), size), dtype=word(self._kept))
                grown[:held] = self._cells[:held]
                self._cells = grown
            (null,) = (cells[:take] == NULL).nonzero()
            self._cells[held : held + take] = cells[:take] >> shift if shift else cells[:take]
            if len(null):
                self._cells[held + null] = 0
                self._null = np.concatenate((self._null, held + null))
            self.t += take
            cells = cells[take:]
            self._arrived()

    def bucket(self, number: int, until: int | None = None) -> tuple[int, int]:
        """The fastest bucket that record ``number`` (from 0) falls into: its first record, and its end.

        With ``until``, the slowest fast bucket around it that is closed when there are so many records: `closed_fast`
        asks for no faster one inside it then or later.
        """
        stage = self._stage_of(number)
        start, size = number, 0
        for scale in stage.timescales[1:] or stage.timescales:
            start, size = number - (number - stage.start) % scale.size, scale.size
            if until is not None and start + size <= until:
                break
        return start, start + size

    def coarser(self, rows: Rows, number: int) -> Rows:
        """Rows without the bits of a cell that no tree of the stage of record ``number`` looks at."""
        stage = self._stage_of(number)
        shift = np.uint64(self.finest - self._deepest(stage))
        return np.where(rows == NULL, rows, rows >> shift << shift) if shift else rows

    def update_counts(self, rows: Rows, counts: NDArray[np.int64], until: int | None = None) -> None:
        """Take counted points, in the order of their buckets and in any order inside these."""
        buckets = parts_by_bucket(rows, counts, self.t, lambda number: self.bucket(number, until))
        for start, records, part, numbers in buckets:
            found = CountedBucket.of(start, records, part, numbers, self._counted_cells)
            self._counted = self._counted.plus(found)
            self.t += records
            for scale in self.stage.timescales[1:]:
                if (self.t - self.start) % scale.size == 0:  # faster buckets in this one are never measured from now on
                    self._counted = self._counted.merged(self.t - scale.size)
                    break
            self._arrived()

    def _counted_cells(self, rows: Rows) -> Rows:
        """Cells as counted points are kept: no deeper than trees of this stage are."""
        depth = self._deepest(self.stage)
        shift = rows.dtype.type(self.finest - depth)
        return (rows >> shift if shift else rows).astype(word(depth), copy=False)

    def check(self, rows: NDArray[Any]) -> Rows:
        """As `CellRows.check`; but shorter words stay as they are, unless one looks like a null record of them."""
        beyond = min(1 << self.finest, int(np.iinfo(np.uint32).max))
        short = rows.dtype == np.uint32 and rows.shape[1:] == (1,) and int(rows.max(initial=0)) < beyond
        return rows if short else super().check(rows)

    def _stage_of(self, number: int) -> Stage:
        """The stage that record ``number`` (from 0) arrives in."""
        if self.stage.start <= number < self.stage.end:
            return self.stage
        return stage_at(number, self.partition.dimension, self.budget)

    def _deepest(self, stage: Stage) -> int:
        """The depth to which counted points of a stage are kept: no tree is deeper."""
        return self.history.deepest(stage, self._kept_depth(stage.start))

    def _arrived(self) -> None:
        """Measure what has to be measured now that ``t`` records have arrived."""
        if self.t == self.start + self.stage.timescales[0].size:
            self._close()
        elif self.t == self._middle and len(self._trees) == 1:
            self._trees = [*self._trees, self._second_trees()]

    def _close(self) -> None:
        """Measure the slow bucket that is full, and open the next.

        The trees of the one, and of the fast buckets in the first half of the other, are chosen here.
        """
        fast, stage = self.closed_fast(), self.stage
        if self.t == stage.end:
            stage = stage_at(self.t, self.partition.dimension, self.budget)
        scales = [self.stage.timescales[0], *stage.timescales[1:]]
        slow, *trees = self.history.next_trees(scales, self.stage, fast, self._kept)
        self.history = self.history.closed(self.measure_bucket(0, self.start, slow), fast)
        self._open(stage, [trees])

    def _second_trees(self) -> Trees:
        """Trees for the fast buckets in the second half of the open slow bucket, from those in the first half."""
        first = self.closed_fast(until=self._middle)
        return self.history.next_trees(self.stage.timescales[1:], self.stage, first, self._kept)

    def closed_fast(self, until: int | None = None) -> list[NoisyCounts]:
        """Noisy counts of the closed fast buckets of the open slow bucket, measured now if they were not before.

        At each timescale these are the closed buckets after the last closed one of the next slower timescale.
        """
        found, covered, now = list[NoisyCounts](), self.start, self.t if until is None else until
        known = dict(self._fast)  # bound anew: a copy that is thrown away must leave nothing in the one that stays
        for number, scale in enumerate(self.stage.timescales[1:], start=1):
            for start in range(covered, now - scale.size + 1, scale.size):
                if (number, start) not in known:
                    trees = self._trees[int(start >= self._middle)][number - 1]
                    known[number, start] = self.measure_bucket(number, start, trees)
                found.append(known[number, start])
                covered = start + scale.size
        self._fast = known
        return found

    def measure_bucket(self, number: int, start: int, trees: tuple[Tree, ...]) -> NoisyCounts:
        """One noisy count for each leaf of the trees of a bucket; 0 where no record of the schema can be.

        The only place that turns records into numbers that are published.
        """
        scale = self.stage.timescales[number]
        end, counted = start + scale.size, self._counted
        first, last = (at - self.start - counted.before(at) for at in (start, end))
        cells = self._cells[first:last]
        null = self._null[slice(*np.searchsorted(self._null, (first, last)))]
        cells = np.delete(cells, null - first) if len(null) else cells
        within = [(one.rows[:, 0], one.counts) for one in counted.within(start, end)]
        variance = max(scale.noise.variance, EXACT)
        parts = []
        for coarseness, tree in enumerate(trees):
            true = count_leaves(cells, self._kept, tree)
            if within:
                true = true + sum_leaves(within, self._deepest(self.stage), tree)
            leaf = np.arange(len(true), dtype=np.uint64)
            address = np.uint64(number << TIMESCALE_BIT | coarseness << TREE_BIT) + leaf
            counts = true + scale.noise.draw(self.noise, start, address)
            if not self.partition.plain:
                counts[~possible(tree, self.partition)] = 0
            parts.append(NoisyCounts(start, end, tree, counts, variance))
        return replace(parts[0], coarse=tuple(parts[1:])) if len(parts) > 1 else parts[0]

    def window(self, since: int) -> int:
        """The latest start of a bucket whose noisy counts are kept that is not after ``since``; 0 if there is none."""
        if not since:
            return 0
        buckets = [*self.history.slow, *self.history.recent, *self.closed_fast()]
        return max((bucket.start for bucket in buckets if bucket.start <= since), default=0)

    def measured(self, start: int, seed: int) -> Measured:
        """The noisy counts of all closed slow buckets and of the fast ones since, for a window from ``start`` on."""
        fast = self.closed_fast()
        covered = max((bucket.end for bucket in fast), default=self.start)
        return Measured(self.t, start, covered, self.history, tuple(fast))

    def status(self) -> str:
        """The records of the stage at this time and the sizes of its buckets, in words."""
        sizes = " and ".join(f"{scale.size:,}" for scale in self.stage.timescales)
        return f"records {self.stage.start:,} to {self.stage.end:,}, in buckets of {sizes}"

    def ledger(self, t: int | None = None) -> Ledger:
        """Every draw that record number ``t + 1``, the next one unless given, can move: the same for all of a stage."""
        return (self.stage if t is None else self._stage_of(t)).ledger()

    def bucket_end(self, t: int) -> int:
        """Where the slow bucket ends that record number ``t`` (from 0) lies in. Public."""
        stage = self._stage_of(t)
        size = stage.timescales[0].size
        return stage.start + ((t - stage.start) // size + 1) * size

    def plan(self, until: int) -> Plan:
        """The schedule up to some time."""
        return plan(self.partition.dimension, self.budget, until)

    def state(self) -> State:
        """Everything that is needed to go on, but for the key: as secret as the data."""
        header: Header = {"t": self.t, "start": self.start, "slow": len(self.history.slow)} | super().state()[0]
        header |= {"speeds": timescales(self.stage), "halves": len(self._trees)}
        arrays: Arrays = {"cells": self._cells[: self.t - self.start - self._counted.records]}
        if len(self._null):
            arrays["null"] = self._null
        trees = [tree for half in self._trees for of_timescale in half for tree in of_timescale]
        published = pack([*self.history.slow, *self.history.recent], trees)
        return header | published[0], arrays | published[1] | self._counted.state()

    def restore(self, header: Header, arrays: Arrays) -> None:
        """Go on from a `state`, if it is one."""
        super().restore(header, arrays)
        start = whole_number(header["start"], "start")
        stage = stage_at(start, self.partition.dimension, self.budget)
        check(header, arrays, stage, self._kept_depth(start), self.finest)
        kept, trees = unpack(header, arrays)
        slow = tuple(kept[: header["slow"]])
        pooled = pool(slow, self.partition)
        self.history = History(self.partition, self.epsilon, slow, tuple(kept[header["slow"] :]), pooled)
        self.t = start
        self._open(stage, [])
        self._trees = [
            [tuple(islice(trees, scale.resolutions)) for scale in stage.timescales[1:]] for _ in range(header["halves"])
        ]
        self._cells, self.t, self._null = arrays["cells"], header["t"], arrays.get("null", self._null)
        self._counted = self._restored_counts(arrays)
        if self.t >= self._middle and len(self._trees) == 1:  # versions before 0.2 chose them when somebody asked
            self._trees = [*self._trees, self._second_trees()]

    def _restored_counts(self, arrays: Arrays) -> CountedBuckets:
        """The counted points of the open slow bucket, from a state; refused if no run can have left them."""
        depth = self._deepest(self.stage)
        found = CountedBuckets.restore(arrays, self.start, self.t, 1, word(depth), self.bucket)
        for one in found.buckets:
            cells = one.rows[:, 0].astype(np.int64)
            need(bool((np.diff(cells) > 0).all()) and int(cells.max(initial=0)) < 1 << depth, "counted_rows")
        need(len(arrays["cells"]) == self.t - self.start - found.records, "cells")
        return found


MECHANISM = CascadeMechanism
