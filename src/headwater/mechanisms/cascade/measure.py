"""Cascade: buckets of time at a few timescales, and in each of them a tree that published numbers have chosen.

When a slow bucket closes, its points are counted once in the leaves of a tree, each count with noise, and forgotten.
The tree is a function of numbers that were published before, so it costs nothing: all of a bucket's budget goes into
the counts. Until a slow bucket closes, releases use its closed fast buckets. Their trees are fixed at public times,
when the slow bucket opens and half-way through; since noise has an address, they are measured when they are first
asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headwater.files import FileRefusedError, need, whole_number
from headwater.mechanisms.cascade.history import History, Measured, Trees
from headwater.mechanisms.cascade.leaf_counts import count_leaves, sum_leaves
from headwater.mechanisms.cascade.noisy_counts import EXACT, NoisyCounts
from headwater.mechanisms.cascade.plan import Plan, Stage, plan, stage_at
from headwater.mechanisms.cascade.pool import pool
from headwater.mechanisms.cascade.tree import Tree, possible, unpacked
from headwater.mechanisms.cell_rows import NULL, CellRows
from headwater.mechanisms.counted import CountedBucket, CountedBuckets, parts_by_bucket
from headwater.mechanisms.protocol import AnySchema, Arrays, Header, Rows, State
from headwater.noise import Noise
from headwater.partition import DEEPEST, Partition
from headwater.privacy import Budget, Ledger


def resolution(partition: Partition) -> int:
    """The depth to which points are kept: cells far smaller than the error that noise makes.

    In two dimensions they have a side of 2^−16, which matters only when εt comes near 10^10.
    """
    d = partition.dimension
    return min(40 if d == 1 else d * (24 // d + 4), DEEPEST - 1, partition.deepest)


class CascadeMechanism(CellRows):
    """Cascade: the same promise as the paper's mechanism, and a smaller error.

    Parameters
    ----------
    schema
        What a record is.
    budget
        Of the whole run.
    noise
        Where the noise comes from.

    Formal guarantees
    -----------------
    All noisy counts at all times together are ε-differentially private for replacing one point, of any stream, chosen
    adaptively or not: the point lies in one bucket of each timescale, where it moves two leaf counts by one each, and
    the budgets of the timescales add up to at most ε (`Stage.ledger`, `proofs/cascade.md`).
    """

    name: ClassVar[str] = "cascade"
    online: ClassVar[bool] = True
    windows: ClassVar[bool] = True
    thresholds: ClassVar[bool] = False
    partitions: ClassVar[bool] = True
    deltas: ClassVar[bool] = True
    version: ClassVar[int] = 2
    options: ClassVar[dict[str, tuple[str, ...]]] = {}

    def __init__(self, schema: AnySchema, budget: Budget | float, noise: Noise) -> None:
        self.partition, self.noise, self.t = schema.partition, noise, 0
        self.budget = Budget.of(budget)
        self.epsilon = self.budget.epsilon
        self.finest = resolution(self.partition)
        self.history = History(self.partition, self.epsilon)
        self._cells: NDArray[Any] = np.empty(0)  # of the points in the open slow bucket, in order of arrival
        self._spare: NDArray[Any] = np.empty(0)  # of the slow bucket before, to be written over
        self._open(stage_at(0, self.partition.dimension, self.budget), [])

    def _open(self, stage: Stage, trees: list[Trees]) -> None:
        """Start a slow bucket. A copy of this mechanism may still need the cells of the one before: they stay."""
        self.start, self.stage, self._trees = self.t, stage, trees
        # The first bucket's tree has a handful of leaves, and the bucket may be long: a byte a point is enough.
        self._kept = min(self.finest, 8) if self.t == 0 else self.finest
        self._cells, self._spare = self._spare, self._cells
        if self._cells.dtype != _word(self._kept):
            self._cells = np.empty(0, dtype=_word(self._kept))
        # Cells fill their words, so null records cannot be marked among them: where they are is kept beside them.
        self._null = np.empty(0, dtype=np.int64)
        self._counted = CountedBuckets()
        self._fast: dict[tuple[int, int], NoisyCounts] = {}  # (timescale, start) of what was measured so far

    @property
    def _middle(self) -> int:
        """Half-way through the open slow bucket the trees of its fast buckets are chosen anew, since streams move."""
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
                grown = np.empty(min(max(2 * held, held + take, 1 << 20), size), dtype=_word(self._kept))
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

    def bucket(self, number: int) -> tuple[int, int]:
        """The fastest bucket that record ``number`` (from 0) falls into: its first record, and its end."""
        stage = self._stage_of(number)
        size = stage.timescales[-1].size
        start = number - (number - stage.start) % size
        return start, start + size

    def coarser(self, rows: Rows, number: int) -> Rows:
        """The first cells of those that no tree of the stage of record ``number`` tells apart."""
        stage = self._stage_of(number)
        shift = np.uint64(self.finest - self._deepest(stage))
        return np.where(rows == NULL, rows, rows >> shift << shift) if shift else rows

    def update_counts(self, rows: Rows, counts: NDArray[np.int64]) -> None:
        """Take counted points, in the order of their fastest buckets and in any order inside these."""
        for start, part, numbers in parts_by_bucket(rows, counts, self.t, self.bucket):
            one = CountedBucket.of(start, part, numbers, self._counted_cells)
            self._counted = self._counted.plus(one)
            self.t += one.records
            for scale in self.stage.timescales[1:]:
                if (self.t - self.start) % scale.size == 0:  # faster buckets in this one are never measured from now on
                    self._counted = self._counted.merged(self.t - scale.size)
                    break
            self._arrived()

    def _counted_cells(self, rows: Rows) -> Rows:
        depth = self._deepest(self.stage)
        return (rows >> np.uint64(self.finest - depth)).astype(_word(depth))

    def _stage_of(self, number: int) -> Stage:
        if self.stage.start <= number < self.stage.end:
            return self.stage
        return stage_at(number, self.partition.dimension, self.budget)

    def _deepest(self, stage: Stage) -> int:
        """The depth to which counted points of a stage are kept: no tree is deeper."""
        return self.history.deepest(stage, min(self.finest, 8) if stage.start == 0 else self.finest)

    def _arrived(self) -> None:
        """Measure what has to be measured now that ``t`` records have arrived."""
        if self.t == self.start + self.stage.timescales[0].size:
            self._close()
        elif self.t == self._middle and len(self._trees) == 1:
            self._trees = [*self._trees, self._second_trees()]

    def _close(self) -> None:
        """Measure the slow bucket that is full, and open the next."""
        fast, stage = self._closed_fast(), self.stage
        if self.t == stage.end:
            stage = stage_at(self.t, self.partition.dimension, self.budget)
        scales = [self.stage.timescales[0], *stage.timescales[1:]]
        slow, *trees = self.history.next_trees(scales, self.stage, fast, self._kept)
        self.history = self.history.closed(self._measure(0, self.start, slow), fast)
        self._open(stage, [trees])

    def _second_trees(self) -> Trees:
        """Trees for the fast buckets in the second half of the open slow bucket, from those in the first half."""
        first = self._closed_fast(until=self._middle)
        return self.history.next_trees(self.stage.timescales[1:], self.stage, first, self._kept)

    def _closed_fast(self, until: int | None = None) -> list[NoisyCounts]:
        """Noisy counts of the closed fast buckets of the open slow bucket, measured now if they were not before.

        At each timescale these are the closed buckets after the last closed one of the next slower timescale.
        """
        found, covered, now = list[NoisyCounts](), self.start, self.t if until is None else until
        known = dict(self._fast)  # bound anew: a copy that is thrown away must leave nothing in the one that stays
        for number, scale in enumerate(self.stage.timescales[1:], start=1):
            for start in range(covered, now - scale.size + 1, scale.size):
                if (number, start) not in known:
                    trees = self._trees[int(start >= self._middle)][number - 1]
                    known[number, start] = self._measure(number, start, trees)
                found.append(known[number, start])
                covered = start + scale.size
        self._fast = known
        return found

    def _measure(self, number: int, start: int, trees: tuple[Tree, ...]) -> NoisyCounts:
        """The only place that turns data into numbers that may be seen: one noisy count for each leaf."""
        scale = self.stage.timescales[number]
        end, counted = start + scale.size, self._counted
        first, last = (at - self.start - counted.before(at) for at in (start, end))
        cells = self._cells[first:last]
        null = self._null[slice(*np.searchsorted(self._null, (first, last)))]
        cells = np.delete(cells, null - first) if len(null) else cells
        variance = max(scale.noise.variance, EXACT)
        parts = []
        for coarseness, tree in enumerate(trees):
            true = count_leaves(cells, self._kept, tree)
            for one in counted.within(start, end):
                true = true + sum_leaves(one.rows[:, 0], one.counts, self._deepest(self.stage), tree)
            leaf = np.arange(len(true), dtype=np.uint64)
            address = np.uint64(number << 44 | coarseness << 38) + leaf
            counts = true + scale.noise.draw(self.noise, start, address)
            if not self.partition.plain:
                counts[~possible(tree, self.partition)] = 0
            parts.append(NoisyCounts(start, start + scale.size, tree, counts, variance))
        return replace(parts[0], coarse=tuple(parts[1:])) if len(parts) > 1 else parts[0]

    def window(self, since: int) -> int:
        """The last start of a bucket, of any timescale that still tells it apart, before record ``since + 1``."""
        if not since:
            return 0
        buckets = [*self.history.slow, *self.history.recent, *self._closed_fast()]
        return max((bucket.start for bucket in buckets if bucket.start <= since), default=0)

    def measured(self, start: int, seed: int) -> Measured:
        """All that is published about the points after the first ``start``."""
        fast = self._closed_fast()
        covered = max((bucket.end for bucket in fast), default=self.start)
        return Measured(self.t, start, covered, self.history, tuple(fast))

    def status(self) -> str:
        """The stage at this time, in words."""
        sizes = " and ".join(f"{scale.size:,}" for scale in self.stage.timescales)
        return f"records {self.stage.start:,} to {self.stage.end:,}, in buckets of {sizes}"

    def ledger(self, t: int | None = None) -> Ledger:
        """What one point of a stage can move."""
        stage = self.stage if t is None else stage_at(t, self.partition.dimension, self.budget)
        return stage.ledger()

    def bucket_end(self, t: int) -> int:
        """Where the slow bucket ends that record number ``t`` (from 0) lies in. Public."""
        stage = stage_at(t, self.partition.dimension, self.budget)
        size = stage.timescales[0].size
        return stage.start + ((t - stage.start) // size + 1) * size

    def plan(self, until: int) -> Plan:
        """The schedule up to some time."""
        return plan(self.partition.dimension, self.budget, until)

    def state(self) -> State:
        """Everything that is needed to go on, but for the key: as secret as the data."""
        kept = [*self.history.slow, *self.history.recent]
        # The trees of fast buckets are kept, not chosen again: measured twice, over trees that differ because a library
        # rounds differently, the same noise would show what it should hide. So is the plan, which must not change.
        trees = [part.tree for bucket in kept for part in bucket.parts]
        trees += [tree for half in self._trees for of_timescale in half for tree in of_timescale]
        flags = [flag for tree in trees for flag in tree.splits]
        arrays: Arrays = {
            "cells": self._cells[: self.t - self.start - self._counted.records],
            "splits": np.packbits(np.concatenate([np.empty(0, dtype=bool), *flags])),
            "counts": np.concatenate([np.empty(0, dtype=np.int64), *(part.counts for b in kept for part in b.parts)]),
        }
        if len(self._null):
            arrays["null"] = self._null
        arrays |= self._counted.state()
        if np.abs(arrays["counts"]).max(initial=0) < 1 << 31:
            arrays["counts"] = arrays["counts"].astype(np.int32)
        spans = [[bucket.start, bucket.end, bucket.variance, len(bucket.parts)] for bucket in kept]
        header: Header = {"t": self.t, "start": self.start, "slow": len(self.history.slow), "spans": spans}
        header |= {"version": self.version, "speeds": self._timescales(), "halves": len(self._trees)}
        return header, arrays

    def _timescales(self) -> list[list[float]]:
        return [[scale.size, scale.epsilon, scale.siblings, scale.resolutions] for scale in self.stage.timescales]

    def restore(self, header: Header, arrays: Arrays) -> None:
        """Go on from a `state`, if it is one."""
        self._check(header, arrays)
        counts, kept = arrays["counts"].astype(np.int64), list[NoisyCounts]()
        trees = unpacked(np.unpackbits(arrays["splits"]).astype(bool))
        for start, end, variance, resolutions in header["spans"]:
            parts = []
            for tree in islice(trees, resolutions):
                parts.append(NoisyCounts(start, end, tree, counts[: tree.size], variance))
                counts = counts[tree.size :]
            kept.append(replace(parts[0], coarse=tuple(parts[1:])))
        slow = tuple(kept[: header["slow"]])
        pooled = pool(slow, self.partition)
        self.history = History(self.partition, self.epsilon, slow, tuple(kept[header["slow"] :]), pooled)
        self.t = header["start"]
        self._open(stage_at(self.t, self.partition.dimension, self.budget), [])
        self._trees = [
            [tuple(islice(trees, scale.resolutions)) for scale in self.stage.timescales[1:]]
            for _ in range(header["halves"])
        ]
        self._cells, self.t, self._null = arrays["cells"], header["t"], arrays.get("null", self._null)
        self._counted = self._restored_counts(arrays)
        if self.t >= self._middle and len(self._trees) == 1:  # versions before 0.2 chose them when somebody asked
            self._trees = [*self._trees, self._second_trees()]

    def _restored_counts(self, arrays: Arrays) -> CountedBuckets:
        depth = self._deepest(self.stage)
        found = CountedBuckets.restore(arrays, self.start, self.t, 1, _word(depth), self.bucket)
        for one in found.buckets:
            cells = one.rows[:, 0].astype(np.int64)
            need(bool((np.diff(cells) > 0).all()) and int(cells.max(initial=0)) < 1 << depth, "counted_rows")
        need(len(arrays["cells"]) == self.t - self.start - found.records, "cells")
        return found

    def _check(self, header: Header, arrays: Arrays) -> None:
        """Refuse a state that no run can have left: a checksum finds damage, not what was made up."""
        t, start, slow = (whole_number(header[name], name) for name in ("t", "start", "slow"))
        spans, halves = header["spans"], whole_number(header["halves"], "halves")
        need(header.get("version", self.version) == self.version, "version")
        need(start <= t, "start")
        need(isinstance(spans, list) and all(map(_is_span, spans)), "spans")
        need(slow <= len(spans) and len(spans) < 1 << 20, "slow")
        need(_follow(spans[:slow], 0, start), "slow")
        if spans[slow:]:  # fast buckets of the slow one that closed last
            need(slow > 0 and _follow(spans[slow:], spans[slow - 1][0], start), "spans")
        need(halves <= 2, "halves")
        stage = stage_at(start, self.partition.dimension, self.budget)
        need(t - start < stage.timescales[0].size, "t")
        kept = min(self.finest, 8) if start == 0 else self.finest
        cells, splits, counts = (arrays[name] for name in ("cells", "splits", "counts"))
        need(cells.ndim == splits.ndim == counts.ndim == 1, "arrays")
        need(cells.dtype.kind == "u" and 8 * cells.itemsize >= kept and len(cells) <= t - start, "cells")
        need(not cells.size or int(cells.max()) < 1 << kept, "cells")
        null = arrays.get("null", np.empty(0, dtype=np.int64))
        need(null.ndim == 1 and null.dtype == np.int64 and bool((np.diff(null) > 0).all()), "null")
        need(not null.size or (null[0] >= 0 and null[-1] < len(cells)), "null")
        need(splits.dtype == np.uint8 and counts.dtype.kind == "i", "splits and counts")
        # A slow bucket keeps the trees for its fast ones, unless it is the very first.
        need(halves > 0 or start == 0 or len(stage.timescales) == 1, "halves")
        if header["speeds"] != [[s.size, s.epsilon, s.siblings, s.resolutions] for s in stage.timescales]:
            raise FileRefusedError("this state was written under another plan of buckets; go on with that version")
        measured = sum(span[3] for span in spans)
        further = halves * sum(scale.resolutions for scale in stage.timescales[1:])
        sizes = list(_tree_sizes(np.unpackbits(splits).astype(bool), measured + further, self.finest))
        need(sum(sizes[:measured]) == len(counts), "counts")


def _is_span(span: object) -> bool:
    if not isinstance(span, list) or len(span) != 4:
        return False
    first, last, variance, resolutions = span
    for number in (first, last, resolutions):
        whole_number(number, "spans")
    good = first < last and 1 <= resolutions <= DEEPEST
    return good and isinstance(variance, float) and 0 < variance < float("inf")


def _follow(spans: list[list[Any]], first: int, last: int) -> bool:
    """Whether these spans cover all from the first to the last, one after another."""
    edges = [(first, first), *(span[:2] for span in spans), (last, last)]
    return all(one[1] == other[0] for one, other in pairwise(edges))


def _tree_sizes(flags: NDArray[np.bool_], trees: int, deepest: int) -> Iterator[int]:
    """How many leaves each tree has; refused unless the flags are those of exactly so many trees."""
    index = 0
    for _ in range(trees):
        nodes, depth, leaves = 1, 0, 1
        while nodes:
            need(index + nodes <= len(flags) and depth <= deepest, "splits")
            halved = int(flags[index : index + nodes].sum())
            index, nodes, depth, leaves = index + nodes, 2 * halved, depth + 1, leaves + halved
        yield leaves
    need(len(flags) - index < 8, "splits")


def _word(depth: int) -> type[np.unsignedinteger[Any]]:
    """The shortest type that holds a cell of this depth."""
    return np.uint8 if depth <= 8 else np.uint32 if depth <= 32 else np.uint64


MECHANISM = CascadeMechanism
