"""Algorithm 1, fast: the paper's mechanism at a cost that does not grow with the number of cells.

Three observations turn the literal algorithm into this one without changing its law.

1. *Noise has an address.* The noise of cell θ, level ``r`` and segment ``i`` is a function of the key and of
   ``(θ, r, i)``, so it need not be drawn until somebody looks at θ, and looking twice gives the same number.
2. *Levels that ended need only their totals.* What Algorithm 2 said during a level is forgotten when it ends.
3. *Between two arrivals nothing changes*, so the moment at which a segment is sealed can be drawn as one number
   (`Segment`), and for almost every cell that number says at once that it was not.

So an update writes down which cell the point is in, and all the work is done for the cells that a release asks for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import cached_property, partial
from itertools import count
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headwater.public.budget import Budget, Ledger, Spend
from headwater.public.cells import CellCounts
from headwater.public.laws import IntegerLaplace, scale_for
from headwater.public.paper import Measured, cell_budget, measure
from headwater.public.partition import Cells, Floats, Integers
from headwater.public.protocol import AnySchema, Arrays, Header, Span, State
from headwater.secret.batch import Batch
from headwater.secret.counters import (
    THRESHOLD,
    HybridCounter,
    SubCounter,
    level_at,
    level_start,
    segment_threshold,
)
from headwater.secret.mechanism import NULL, PURE, CellRows, twin
from headwater.secret.noise import Noise

Sealed = tuple[int, int]  # the step of a seal, and the segment's count then

DOUBT = 1e-9
"""Relative distance within which exact arithmetic decides: floating point errs some thousand times less."""


def chance_above(margin: Integers, scale: float) -> Floats:
    q = math.exp(-1 / scale)
    tail = np.exp(-np.abs(np.where(margin >= 0, margin + 1, margin)) / scale) / (1 + q)
    return np.where(margin >= 0, tail, 1 - tail)


def hazard(margin: Integers, scale: float) -> Floats:
    q = math.exp(-1 / scale)
    upper = np.exp(-(np.maximum(margin, 0) + 1) / scale) / (1 + q)
    lower = np.maximum(-margin, 0) / scale + math.log1p(q)
    return np.where(margin >= 0, -np.log1p(-upper), lower)


def as_float(words: NDArray[np.uint64]) -> Floats:
    value: Floats = words[:, 0] * 2.0**-64 + words[:, 1] * 2.0**-128
    return np.minimum(value, 1 - 2.0**-53)


@dataclass(frozen=True)
class Segment:
    """One open segment, as seen at step ``now``: its margin while empty, and the steps at which points arrived."""

    margin: int
    scale: float
    begin: int
    now: int
    arrivals: Integers

    def stretches(self) -> tuple[Integers, Integers]:
        starts = np.concatenate([[self.begin + 1], self.arrivals])
        return starts, np.diff(starts, append=self.now + 1)

    def sealed_at(self, words: NDArray[np.uint64], further: Callable[[int], int]) -> Sealed | None:
        """The step at which the segment is sealed and its count then; ``None`` if it is still open at ``now``."""
        starts, lengths = self.stretches()
        rates = hazard(self.margin - np.arange(len(starts)), self.scale)
        ends = np.cumsum(rates * lengths)
        v = float(as_float(words[None])[0])
        wait = -math.log1p(-v)
        stretch = int(np.searchsorted(ends, wait))
        if stretch == len(ends):
            step, lower, upper = None, float(ends[-1]), math.inf
        else:
            before = float(ends[stretch - 1]) if stretch else 0.0
            offset = min(max(math.ceil((wait - before) / rates[stretch]), 1), int(lengths[stretch]))
            step = int(starts[stretch]) + offset - 1
            lower, upper = before + rates[stretch] * (offset - 1), before + rates[stretch] * offset
        doubt = DOUBT + len(ends) * 2.0**-52  # the sum's own rounding
        sure = lower * (1 + doubt) < wait < upper * (1 - doubt)
        if not (sure and 2.0**-75 < v < 1 - 2.0**-20):
            return self.settle_exactly(words, further)
        return None if step is None else (step, stretch)

    def settle_exactly(self, words: NDArray[np.uint64], further: Callable[[int], int]) -> Sealed | None:
        bits, known = int(words[0]) << 64 | int(words[1]), 128
        while True:
            # V lies in [bits, bits + 1)·2^−known, and decimals err by less than 2^−known: look a little beyond both.
            ends = [self._sealed_for(Fraction(bits + beyond, 1 << known), known) for beyond in (-1, 2)]
            if ends[0] == ends[1]:
                return ends[0]
            bits, known = bits << 64 | further(known // 64 - 2), known + 64

    def _sealed_for(self, v: Fraction, bits: int) -> Sealed | None:
        """Where ``1 − Π(1−p)`` first exceeds ``v``, with an absolute error in ``v`` far below ``2^−bits``."""
        if v >= 1:
            return None
        context = Context(prec=bits // 3 + 30, Emin=MIN_EMIN, Emax=MAX_EMAX)
        q = context.exp(context.divide(Decimal(-1), Decimal(self.scale)))
        target = context.ln(context.divide(Decimal((1 - v).numerator), Decimal((1 - v).denominator)))
        total = Decimal(0)
        starts, lengths = (array.tolist() for array in self.stretches())
        for passed, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            log_stay = _log_stay(self.margin - passed, q, context)
            after = context.add(total, context.multiply(log_stay, Decimal(length)))
            if after < target:
                return start + int(context.divide(context.subtract(target, total), log_stay)), passed
            total = after
        return None


def _log_stay(margin: int, q: Decimal, context: Context) -> Decimal:
    one = Decimal(1)
    if margin >= 0:
        return context.ln(context.subtract(one, context.divide(context.power(q, margin + 1), context.add(one, q))))
    return context.ln(context.divide(context.power(q, -margin), context.add(one, q)))


@dataclass(frozen=True, eq=False)
class Level:
    """The points of one level, as cells of one depth: in order of arrival while it lasts, sorted when it is over."""

    level: int
    depth: int
    parts: tuple[Cells, ...] = ()
    ends: Integers | None = None
    """Of a closed level: how many points lie in the distinct cells before each."""

    @cached_property
    def cells(self) -> Cells:
        return np.concatenate(self.parts) if self.parts else np.empty(0, dtype=np.uint64)

    @property
    def steps(self) -> int:
        return sum(map(len, self.parts))

    def plus(self, cells: Cells) -> Level:
        """With more points. Parts of similar size are joined, so few are left."""
        parts = list(self.parts)
        while parts and len(parts[-1]) <= 2 * len(cells):
            cells = np.concatenate((parts.pop(), cells))
        return Level(self.level, self.depth, (*parts, cells))

    def closed(self) -> Level:
        cells, counts = np.unique(self.cells, return_counts=True)
        if len(cells) and cells[-1] == NULL:
            cells, counts = cells[:-1], counts[:-1]
        return Level(self.level, self.depth, (cells,), np.concatenate([[0], np.cumsum(counts)]))

    def count(self, depth: int, cells: Cells) -> Integers:
        lower, upper = self._span(depth, cells)
        if self.ends is None:
            return upper - lower
        result: Integers = self.ends[upper] - self.ends[lower]
        return result

    def arrivals(self, depth: int, cell: int) -> Integers:
        (lower,), (upper,) = self._span(depth, np.array([cell], dtype=np.uint64))
        return np.sort(self._order[lower:upper]) + 1

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        return np.argsort(self.cells, kind="stable")

    @cached_property
    def _sorted(self) -> Cells:
        return self.cells if self.ends is not None else self.cells[self._order]

    def _span(self, depth: int, cells: Cells) -> tuple[Integers, Integers]:
        shift = np.uint64(self.depth - depth)
        lower, upper = (np.searchsorted(self._sorted, edge << shift) for edge in (cells, cells + np.uint64(1)))
        return lower, upper


_LEVEL_TOTAL, _THRESHOLD, _WAIT, _SUB = range(4)  # what a draw is for


def draw_address(purpose: int, level: int, index: ArrayLike = 0) -> NDArray[np.uint64]:
    return np.uint64(purpose << 45 | level << 38) | np.asarray(index, np.uint64)


class PaperMechanism(CellRows):
    name: ClassVar[str] = "paper"

    def __init__(
        self,
        schema: AnySchema,
        budget: Budget | float,
        noise: Noise,
        expect: int | None = None,
        *,
        constant: float = THRESHOLD,
        sub: SubCounter = HybridCounter,
    ) -> None:
        super().__init__(schema, budget, noise, expect)
        if self.budget.delta:
            raise ValueError(PURE.format(self.name))
        self.constant, self.sub = constant, sub
        self._past: list[Level] = []
        self._open_level()

    @property
    def depth(self) -> int:
        return min(max(level_at(self.t, self.epsilon), 0), self.partition.deepest)

    def _open_level(self) -> None:
        level = level_at(self.t + 1, self.epsilon)
        self._now = Level(level, self._resolution(level))
        self._end = level_start(level + 1, self.epsilon)

    def _resolution(self, level: int) -> int:
        if level < 0:
            return 0
        deepest = self.partition.deepest
        return min(level, deepest) if self.partition.dimension >= 2 else deepest

    def _budget(self, depth: int, level: int) -> float:
        return cell_budget(depth, level, self.partition.dimension, self.epsilon)

    def update(self, batch: Batch) -> Self:
        new, cells = twin(self), batch.rows[:, 0]
        while len(cells):
            if new.t + 1 == new._end:
                new._past = [*new._past, new._now.closed()]
                new._open_level()
            take = min(new._end - 1 - new.t, len(cells))
            if new._now.depth:  # no cell ever counts a point of a level without one
                kept = cells[:take] >> np.uint64(self.finest - new._now.depth)
                kept[cells[:take] == NULL] = NULL  # a step without an arrival
                new._now = new._now.plus(kept)
            new.t += take
            cells = cells[take:]
        new.known = {span: one for span, one in new.known.items() if span.end >= new.t}
        return new

    def measured(self, seed: int) -> Measured:
        """What a release of this moment draws."""
        span = Span(0, self.t)
        found: Measured = self.once(span, lambda: measure(self.noisy_counts, self.t, self.depth, self.partition, seed))
        return found

    def noisy_counts(self, depth: int, cells: Cells) -> CellCounts:
        """The noisy counts ``N_θ`` of these cells of one depth, at this time."""
        names = np.uint64(1 << depth) | cells
        counts = self._sealed(depth, cells, names)
        first = depth if self.partition.dimension >= 2 else 0
        for past in self._past:
            if past.level >= first:
                scale = scale_for(self._budget(depth, past.level) / 2)
                counts += past.count(depth, cells)
                counts += self.noise.laplace_at(scale, names, draw_address(_LEVEL_TOTAL, past.level))
        return CellCounts(depth, cells, counts)

    def _sealed(self, depth: int, cells: Cells, names: Cells) -> Integers:
        """What Algorithm 2 says in each cell about the level that is not over."""
        counts = np.zeros(len(cells), dtype=np.int64)
        level, steps = self._now.level, self._now.steps
        if not steps:
            return counts
        epsilon = self._budget(depth, level) / 2
        scale = scale_for(epsilon / 2)
        horizon = level_start(level + 1, self.epsilon) - level_start(level, self.epsilon)
        base = segment_threshold(horizon, epsilon, self.constant)
        # A cell's chance of a first seal so far is at most `steps` times its chance with all its points there.
        margins = base + self.noise.laplace_at(scale, names, draw_address(_THRESHOLD, level))
        chance = chance_above(margins - self._now.count(depth, cells), scale)
        v = as_float(self.noise.uniform_at(names, draw_address(_WAIT, level)))
        for index in np.flatnonzero(v <= 1.001 * steps * chance):
            arrivals = self._now.arrivals(depth, int(cells[index]))
            counts[index] = self._walk(int(names[index]), arrivals, epsilon, scale, base)
        return counts

    def _walk(self, name: int, arrivals: Integers, epsilon: float, scale: float, base: int) -> int:
        """Seal one cell's segments one after the other; the private count of what they held."""
        level, begin = self._now.level, 0
        sub = self.sub(epsilon=epsilon / 2, noise=self.noise.stream(name, int(draw_address(_SUB, level)), ahead=8))
        for first in count(0, 8):
            addresses = [draw_address(purpose, level, np.arange(first, first + 8)) for purpose in (_THRESHOLD, _WAIT)]
            margins = base + self.noise.laplace_at(scale, name, addresses[0])
            waits = self.noise.uniform_at(name, addresses[1])
            for margin, words, address in zip(margins.tolist(), waits, addresses[1].tolist(), strict=True):
                segment = Segment(margin, scale, begin, self._now.steps, arrivals[arrivals > begin])
                sealed = segment.sealed_at(words, partial(self.noise.further_word, name, address, 1 << 32))
                if sealed is None:
                    return sub.count
                begin, held = sealed
                sub.add(held)
        raise AssertionError("counting never ends")

    def ledger(self, t: int | None = None) -> Ledger:
        return self.ledger_of(max(level_at((self.t if t is None else t) + 1, self.epsilon), 0))

    def ledger_of(self, level: int) -> Ledger:
        """Every draw that one point arriving during this level can move, now or later, on its two paths."""
        deepest = self.partition.deepest
        spends: list[Spend] = []
        for depth in range(1, (min(level, deepest) if self.partition.dimension >= 2 else deepest) + 1):
            budget = self._budget(depth, level)
            spends.append(Spend(f"level total, depth {depth}", IntegerLaplace(scale_for(budget / 2)), touches=2))
            if depth <= level:  # a cell that is born later never runs Algorithm 2 on this level
                test = Spend("segment threshold or test", IntegerLaplace(scale_for(budget / 4)))
                sub = self.sub(epsilon=budget / 4, noise=Noise(seed=0).stream(ahead=1))  # nothing is measured with it
                spends += [
                    replace(spend, what=f"{spend.what}, depth {depth}", touches=2 * spend.touches)
                    for spend in (test, *sub.budget())
                ]
        return Ledger(spends)

    def state(self) -> State:
        levels = [*self._past, self._now]
        arrays: Arrays = {f"cells{i}": level.cells for i, level in enumerate(levels)}
        arrays |= {f"ends{i}": level.ends for i, level in enumerate(levels) if level.ends is not None}
        return {"t": self.t, "levels": [[level.level, level.depth] for level in levels]}, arrays

    def _resume(self, header: Header, arrays: Arrays) -> None:
        super()._resume(header, arrays)
        *self._past, self._now = [
            Level(level, depth, (arrays[f"cells{i}"],), arrays.get(f"ends{i}"))
            for i, (level, depth) in enumerate(header["levels"])
        ]
        self._end = level_start(self._now.level + 1, self.epsilon)


MECHANISM = PaperMechanism
