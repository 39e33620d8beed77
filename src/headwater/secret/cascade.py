"""Cascade: buckets of time at a few timescales, and in each of them a tree that published numbers have chosen.

When a slow bucket closes, its points are counted once in the leaves of a tree, each count with noise, and forgotten.
The tree is a function of numbers that were published before, so it costs nothing: all of a bucket's budget goes into
the counts. Until a slow bucket closes, releases use its closed fast buckets. Their trees are fixed at public times,
when the slow bucket opens and half-way through; since noise has an address, they are measured when they are first
asked for.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice
from typing import ClassVar, Self

import numpy as np

from headwater.public.budget import Budget, Ledger
from headwater.public.cascade.counts import EXACT, NoisyCounts, pack, pool, unpack
from headwater.public.cascade.history import History, Measured, Trees
from headwater.public.cascade.plan import Plan, Stage, plan, stage_at
from headwater.public.cascade.tree import Tree, possible
from headwater.public.files import FileRefusedError
from headwater.public.partition import DEEPEST, Partition
from headwater.public.protocol import AnySchema, Arrays, Header, Kept, Rows, Span, State
from headwater.secret.batch import Batch, fastest
from headwater.secret.held import Held, Part, cut
from headwater.secret.leaves import count_leaves, sum_leaves
from headwater.secret.mechanism import NULL, CellRows, twin, word
from headwater.secret.noise import Noise

TREE_BIT, TIMESCALE_BIT = 38, 44
"""Where the numbers of a tree and of its timescale begin in the address of a draw; below is the number of the leaf."""


def resolution(partition: Partition) -> int:
    d = partition.dimension
    return min(40 if d == 1 else d * (24 // d + 4), DEEPEST - 1, partition.deepest)


class CascadeMechanism(CellRows):
    """Noisy counts of the leaves of trees of cells, in buckets of time at a few timescales."""

    name: ClassVar[str] = "cascade"
    version: ClassVar[int] = 3
    windows: ClassVar[bool] = True

    def __init__(self, schema: AnySchema, budget: Budget | float, noise: Noise, expect: int | None = None) -> None:
        super().__init__(schema, budget, noise)
        self.finest = resolution(self.partition)
        self.history = History(self.partition, self.epsilon)
        self._open(stage_at(0, self.partition.dimension, self.budget), [])

    def _open(self, stage: Stage, trees: list[Trees]) -> None:
        """Start a slow bucket at time ``t``, whose fast buckets are measured on ``trees``."""
        self.start, self.stage, self._trees, self._held = self.t, stage, trees, Held()

    @property
    def _middle(self) -> int:
        return self.start + self.stage.timescales[0].size // 2

    def update(self, batch: Batch) -> Self:
        new = twin(self)  # what happens to it binds its attributes anew
        first = self.history.slow[-1].start if self.history.slow else 0
        new.known = {span: one for span, one in self.known.items() if span.start >= first}
        # Buckets inside a slower one that is closed by then are never measured. Counted rows are of some already.
        until = self.t + len(batch.rows) if batch.counts is None else batch.until
        for part in cut(batch, self.t, lambda number: fastest(new.spans(number), until)):
            new._take(part)
        return new  # which knows all that was measured on the way, so that it can be kept

    def _take(self, part: Part) -> None:
        self._held = self._held.plus(part, self._cells)
        self.t += part.records
        for scale in self.stage.timescales[1:]:
            if (self.t - self.start) % scale.size == 0:  # faster buckets in this one are never measured from now on
                self._held = self._held.merged(self.t - scale.size)
                break
        if self.t == self.start + self.stage.timescales[0].size:
            self._close()
        elif self.t == self._middle and len(self._trees) == 1:
            self._trees = [*self._trees, self._second_trees()]

    def _cells(self, rows: Rows) -> Rows:
        """Rows as cells of the depth that trees of this stage can have."""
        depth = self._deepest(self.stage)
        return (rows >> rows.dtype.type(self.finest - depth)).astype(word(depth))

    def spans(self, number: int) -> tuple[Span, ...]:
        stage, found = self._stage_of(number), list[Span]()
        for scale in stage.timescales:
            start = number - (number - stage.start) % scale.size
            found.append(Span(start, start + scale.size))
        return tuple(found)

    def coarser(self, rows: Rows, number: int) -> Rows:
        shift = np.uint64(self.finest - self._deepest(self._stage_of(number)))
        return np.where(rows == NULL, rows, rows >> shift << shift) if shift else rows

    def _stage_of(self, number: int) -> Stage:
        if self.stage.start <= number < self.stage.end:
            return self.stage
        return stage_at(number, self.partition.dimension, self.budget)

    def _deepest(self, stage: Stage) -> int:
        deepest = self.partition.dimension * math.ceil(math.log2(max(2.0, self.epsilon * stage.end)))
        return min(deepest, self.finest, 8 if stage.start == 0 else self.finest)

    def _close(self) -> None:
        fast, stage, start = self.closed_fast(), self._stage_of(self.t), self.start
        scales = [self.stage.timescales[0], *stage.timescales[1:]]
        slow, *trees = self.history.next_trees(scales, fast, self._deepest(self.stage))
        self.history = self.history.closed(self.measure_bucket(0, start, slow), fast)
        self._open(stage, [trees])

    def _second_trees(self) -> Trees:
        first, deepest = self.closed_fast(until=self._middle), self._deepest(self.stage)
        return self.history.next_trees(self.stage.timescales[1:], first, deepest)

    def closed_fast(self, until: int | None = None) -> list[NoisyCounts]:
        """Noisy counts of the closed fast buckets of the open slow bucket, measured now if they were not before."""
        found = list[NoisyCounts]()
        for number, span in self.stage.fast_spans(self.start, self.t if until is None else until):
            trees = self._trees[int(span.start >= self._middle)][number - 1]
            found.append(self.measure_bucket(number, span.start, trees))
        return found

    def measure_bucket(self, number: int, start: int, trees: tuple[Tree, ...]) -> NoisyCounts:
        """One noisy count for each leaf of the trees of a bucket; 0 where no record of the schema can be."""
        span = Span(start, start + self.stage.timescales[number].size)
        found: NoisyCounts = self.once(span, lambda: self._measure(number, span, trees))
        return found

    def _measure(self, number: int, span: Span, trees: tuple[Tree, ...]) -> NoisyCounts:
        scale, depth, parts = self.stage.timescales[number], self._deepest(self.stage), list[NoisyCounts]()
        plain, counted = self._held.within(span)
        cells = np.concatenate(plain)[:, 0] if plain else np.empty(0, dtype=word(depth))
        within = []
        for rows, counts in counted:
            order = np.argsort(rows[:, 0], kind="stable")
            within.append((rows[order, 0], counts[order]))
        variance = max(scale.noise.variance, EXACT)
        for coarseness, tree in enumerate(trees):
            true = count_leaves(cells, depth, tree)
            if within:
                true = true + sum_leaves(within, depth, tree)
            leaf = np.arange(len(true), dtype=np.uint64)
            address = np.uint64(number << TIMESCALE_BIT | coarseness << TREE_BIT) + leaf
            counts = true + scale.noise.draw(self.noise, span.start, address)
            if not self.partition.plain:
                counts[~possible(tree, self.partition)] = 0
            parts.append(NoisyCounts(*span, tree, counts, variance))
        return replace(parts[0], coarse=tuple(parts[1:]))

    def measured(self, seed: int) -> Measured:
        fast = self.closed_fast()
        covered = max((bucket.end for bucket in fast), default=self.start)
        return Measured(self.t, 0, covered, self.history, tuple(fast))

    def kept(self) -> Kept:
        return {Span(one.start, one.end): one for one in (*self.history.slow, *self.history.recent)} | self.known

    def ledger(self, t: int | None = None) -> Ledger:
        return (self.stage if t is None else self._stage_of(t)).ledger()

    def plan(self, until: int) -> Plan:
        return plan(self.partition.dimension, self.budget, until)

    def state(self) -> State:
        trees = [tree for half in self._trees for of_timescale in half for tree in of_timescale]
        fast = [one for one in self.known.values() if one.start >= self.start]
        published = pack([*self.history.slow, *self.history.recent, *fast], trees)
        sizes = {"slow": len(self.history.slow), "recent": len(self.history.recent), "halves": len(self._trees)}
        header: Header = {"t": self.t, "start": self.start, "timescales": timescales(self.stage)}
        return header | sizes | published[0], published[1] | self._held.state()

    def _resume(self, header: Header, arrays: Arrays) -> None:
        stage = self._stage_of(header["start"])
        if header["timescales"] != timescales(stage):
            raise FileRefusedError("this state was written under another plan of buckets; go on with that version")
        buckets, trees = unpack(header, arrays)
        slow, rest = tuple(buckets[: header["slow"]]), buckets[header["slow"] :]
        recent, known = tuple(rest[: header["recent"]]), rest[header["recent"] :]
        self.history = History(self.partition, self.epsilon, slow, recent, pool(slow, self.partition))
        self.t = header["start"]
        self._open(stage, [])
        scales = stage.timescales[1:]
        self._trees = [[tuple(islice(trees, scale.resolutions)) for scale in scales] for _ in range(header["halves"])]
        self.t, self.known = header["t"], {Span(one.start, one.end): one for one in known}
        self._held = Held.restore(arrays, 1, word(self._deepest(stage)))


def timescales(stage: Stage) -> list[list[float]]:
    return [[scale.size, scale.epsilon, scale.siblings, scale.resolutions] for scale in stage.timescales]


MECHANISM = CascadeMechanism
