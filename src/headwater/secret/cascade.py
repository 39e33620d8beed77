"""Cascade: buckets of time at a few timescales, and in each of them a tree that published numbers have chosen.

When a slow bucket closes, its points are counted once in the leaves of a tree, each count with noise, and forgotten.
The tree is a function of numbers that were published before, so it costs nothing: all of a bucket's budget goes into
the counts. Until a slow bucket closes, releases use its closed fast buckets. Their trees are fixed at public times,
when the slow bucket opens and half-way through; since noise has an address, they are measured when they are first
asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headwater.public.budget import Budget, Ledger
from headwater.public.cascade.counts import EXACT, NoisyCounts, pool
from headwater.public.cascade.history import History, Measured, Trees
from headwater.public.cascade.plan import Plan, Stage, plan, stage_at
from headwater.public.cascade.tree import Tree, possible, unpacked
from headwater.public.files import FileRefusedError, need, whole_number
from headwater.public.partition import DEEPEST, Partition
from headwater.public.protocol import AnySchema, Arrays, Header, Rows, State
from headwater.secret.held import CountedBucket, CountedBuckets, parts_by_bucket
from headwater.secret.leaves import count_leaves, sum_leaves
from headwater.secret.mechanism import NULL, CellRows, word
from headwater.secret.noise import Noise


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


def timescales(stage: Stage) -> list[list[float]]:
    return [[scale.size, scale.epsilon, scale.siblings, scale.resolutions] for scale in stage.timescales]


def check(header: Header, arrays: Arrays, stage: Stage, kept: int, finest: int) -> None:
    """Refuse a state that no run can have left: a checksum finds damage, not what was made up."""
    t, start, slow = (whole_number(header[name], name) for name in ("t", "start", "slow"))
    spans, halves = header["spans"], whole_number(header["halves"], "halves")
    need(start <= t, "start")
    need(isinstance(spans, list) and all(map(_is_span, spans)), "spans")
    need(slow <= len(spans) and len(spans) < 1 << 20, "slow")
    need(_follow(spans[:slow], 0, start), "slow")
    if spans[slow:]:  # fast buckets of the slow one that closed last
        need(slow > 0 and _follow(spans[slow:], spans[slow - 1][0], start), "spans")
    need(halves <= 2, "halves")
    need(t - start < stage.timescales[0].size, "t")
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
    if header["speeds"] != timescales(stage):
        raise FileRefusedError("this state was written under another plan of buckets; go on with that version")
    measured = sum(span[3] for span in spans)
    further = halves * sum(scale.resolutions for scale in stage.timescales[1:])
    sizes = list(_tree_sizes(np.unpackbits(splits).astype(bool), measured + further, finest))
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


TREE_BIT, TIMESCALE_BIT = 38, 44
"""Where the numbers of a tree and of its timescale begin in the address of a draw; below is the number of the leaf."""


def resolution(partition: Partition) -> int:
    d = partition.dimension
    return min(40 if d == 1 else d * (24 // d + 4), DEEPEST - 1, partition.deepest)


class CascadeMechanism(CellRows):
    """Noisy counts of the leaves of trees of cells, in buckets of time at a few timescales."""

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
        """Start a slow bucket at time ``t``, whose fast buckets are measured on ``trees``."""
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
        return min(self.finest, 8) if start == 0 else self.finest

    @property
    def _middle(self) -> int:
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
        stage = self._stage_of(number)
        start, size = number, 0
        for scale in stage.timescales[1:] or stage.timescales:
            start, size = number - (number - stage.start) % scale.size, scale.size
            if until is not None and start + size <= until:
                break
        return start, start + size

    def coarser(self, rows: Rows, number: int) -> Rows:
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
        depth = self._deepest(self.stage)
        shift = rows.dtype.type(self.finest - depth)
        return (rows >> shift if shift else rows).astype(word(depth), copy=False)

    def check(self, rows: NDArray[Any]) -> Rows:
        beyond = min(1 << self.finest, int(np.iinfo(np.uint32).max))
        short = rows.dtype == np.uint32 and rows.shape[1:] == (1,) and int(rows.max(initial=0)) < beyond
        return rows if short else super().check(rows)

    def _stage_of(self, number: int) -> Stage:
        if self.stage.start <= number < self.stage.end:
            return self.stage
        return stage_at(number, self.partition.dimension, self.budget)

    def _deepest(self, stage: Stage) -> int:
        return self.history.deepest(stage, self._kept_depth(stage.start))

    def _arrived(self) -> None:
        if self.t == self.start + self.stage.timescales[0].size:
            self._close()
        elif self.t == self._middle and len(self._trees) == 1:
            self._trees = [*self._trees, self._second_trees()]

    def _close(self) -> None:
        fast, stage = self.closed_fast(), self.stage
        if self.t == stage.end:
            stage = stage_at(self.t, self.partition.dimension, self.budget)
        scales = [self.stage.timescales[0], *stage.timescales[1:]]
        slow, *trees = self.history.next_trees(scales, self.stage, fast, self._kept)
        self.history = self.history.closed(self.measure_bucket(0, self.start, slow), fast)
        self._open(stage, [trees])

    def _second_trees(self) -> Trees:
        first = self.closed_fast(until=self._middle)
        return self.history.next_trees(self.stage.timescales[1:], self.stage, first, self._kept)

    def closed_fast(self, until: int | None = None) -> list[NoisyCounts]:
        """Noisy counts of the closed fast buckets of the open slow bucket, measured now if they were not before."""
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
        """One noisy count for each leaf of the trees of a bucket; 0 where no record of the schema can be."""
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
        if not since:
            return 0
        buckets = [*self.history.slow, *self.history.recent, *self.closed_fast()]
        return max((bucket.start for bucket in buckets if bucket.start <= since), default=0)

    def measured(self, start: int, seed: int) -> Measured:
        fast = self.closed_fast()
        covered = max((bucket.end for bucket in fast), default=self.start)
        return Measured(self.t, start, covered, self.history, tuple(fast))

    def status(self) -> str:
        sizes = " and ".join(f"{scale.size:,}" for scale in self.stage.timescales)
        return f"records {self.stage.start:,} to {self.stage.end:,}, in buckets of {sizes}"

    def ledger(self, t: int | None = None) -> Ledger:
        return (self.stage if t is None else self._stage_of(t)).ledger()

    def bucket_end(self, t: int) -> int:
        stage = self._stage_of(t)
        size = stage.timescales[0].size
        return stage.start + ((t - stage.start) // size + 1) * size

    def plan(self, until: int) -> Plan:
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
        depth = self._deepest(self.stage)
        found = CountedBuckets.restore(arrays, self.start, self.t, 1, word(depth), self.bucket)
        for one in found.buckets:
            cells = one.rows[:, 0].astype(np.int64)
            need(bool((np.diff(cells) > 0).all()) and int(cells.max(initial=0)) < 1 << depth, "counted_rows")
        need(len(arrays["cells"]) == self.t - self.start - found.records, "cells")
        return found


MECHANISM = CascadeMechanism
