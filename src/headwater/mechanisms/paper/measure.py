"""Algorithm 1, fast: the paper's mechanism at a cost that does not grow with the number of cells.

Three observations turn the literal algorithm into this one without changing its law.

1. *Noise has an address.* The noise of cell θ, level ``r`` and segment ``i`` is a function of the key and of
   ``(θ, r, i)``, so it need not be drawn until somebody looks at θ, and looking twice gives the same number.
2. *Levels that ended need only their totals.* What Algorithm 2 said during a level is forgotten when it ends.
3. *Between two arrivals nothing changes*, so the moment at which a segment is sealed can be drawn as one number
   (`headwater.mechanisms.paper.seal_times`), and for almost every cell that number says at once that it was not.

So an update writes down which cell the point is in, and all the work is done for the cells that a release asks for.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import partial
from itertools import count
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headwater.counters import HybridCounter, SparseCounter
from headwater.counters.levels import level_at, level_start
from headwater.counters.sparse import THRESHOLD, SubCounter, segment_threshold
from headwater.files import need
from headwater.mechanisms.cell_counts import CellCounts
from headwater.mechanisms.cell_rows import NULL, CellRows
from headwater.mechanisms.paper.consistency import STRATEGIES, Measured, measure
from headwater.mechanisms.paper.level import Integers, Level
from headwater.mechanisms.paper.plan import cell_budget
from headwater.mechanisms.paper.seal_times import Segment, as_float, chance_above
from headwater.mechanisms.protocol import AnySchema, Arrays, Header, Options, Rows, State
from headwater.noise import Noise
from headwater.partition import Cells
from headwater.privacy import Budget, IntegerLaplace, Ledger, Spend, scale_for

_LEVEL_TOTAL, _THRESHOLD, _WAIT, _SUB = range(4)  # what a draw is for


def draw_address(purpose: int, level: int, index: ArrayLike = 0) -> NDArray[np.uint64]:
    """The lower half of a draw's address; the upper half names the cell."""
    return np.uint64(purpose << 45 | level << 38) | np.asarray(index, np.uint64)


class PaperMechanism(CellRows):
    """The paper's mechanism (Algorithms 1 to 3).

    Parameters
    ----------
    schema, budget, noise
        As of any `headwater.mechanisms.protocol.Mechanism`.
    consistency
        How noisy counts are made to add up: a name of `headwater.mechanisms.paper.consistency.STRATEGIES`.
    constant
        Of the threshold in Algorithm 2.
    sub
        The counter that Algorithm 2 uses for sealed segments.

    Formal guarantees
    -----------------
    For any stream in ``[0,1]^d``, chosen adaptively or not, all noisy counts at all times together are ε-differentially
    private for replacing one point: `ledger` lists what that point can move and adds up to at most ε
    (`proofs/paper.md`). They have the same joint law as those of the literal algorithm, which the tests run beside it.
    """

    name: ClassVar[str] = "paper"
    thresholds: ClassVar[bool] = True
    options: ClassVar[Options] = {"consistency": tuple(STRATEGIES)}

    def __init__(
        self,
        schema: AnySchema,
        budget: Budget | float,
        noise: Noise,
        *,
        consistency: str = "halving",
        constant: float = THRESHOLD,
        sub: SubCounter = HybridCounter,
    ) -> None:
        super().__init__(schema, budget, noise)
        self.consistency, self.constant, self.sub = consistency, constant, sub
        self._past: list[Level] = []
        self._open_level()

    @property
    def depth(self) -> int:
        """How deep the partition is at this time: the largest ``r`` with ``t_r ≤ t``."""
        return min(max(level_at(self.t, self.epsilon), 0), self.partition.deepest)

    def _open_level(self) -> None:
        """Start the level of the next point. It lasts until just before ``_end``."""
        level = level_at(self.t + 1, self.epsilon)
        self._now = Level(level, self._resolution(level))
        self._end = level_start(level + 1, self.epsilon)

    def _resolution(self, level: int) -> int:
        """The depth to which a point of this level must be known: for ``d = 1`` every deeper cell will count it."""
        if level < 0:
            return 0
        deepest = self.partition.deepest
        return min(level, deepest) if self.partition.dimension >= 2 else deepest

    def _budget(self, depth: int, level: int) -> float:
        return cell_budget(depth, level, self.partition.dimension, self.epsilon)

    def update(self, rows: Rows) -> None:
        """Take points in order of arrival."""
        cells = rows[:, 0]
        self._now = copy(self._now)  # what a copy of this mechanism shares stays as it is
        while len(cells):
            if self.t + 1 == self._end:
                self._past = [*self._past, self._now.closed()]
                self._open_level()
            take = min(self._end - 1 - self.t, len(cells))
            if self._now.depth:  # no cell ever counts a point of a level without one
                kept = cells[:take] >> np.uint64(self.finest - self._now.depth)
                kept[cells[:take] == NULL] = NULL  # a step without an arrival
                self._now.append(kept)
            self.t += take
            cells = cells[take:]

    def measured(self, start: int, seed: int) -> Measured:
        """Whole counts of the cells of this time's depth, from noisy counts of the cells on the way down."""
        return measure(self.noisy_counts, self.t, self.depth, self.partition, self.consistency, seed)

    def noisy_counts(self, depth: int, cells: Cells) -> CellCounts:
        """The noisy counts ``N_θ`` of these cells of one depth, at this time. Asking changes nothing."""
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
        """Every draw that point number ``t + 1``, the next one unless given, can move, then or later."""
        return self.ledger_of(max(level_at((self.t if t is None else t) + 1, self.epsilon), 0))

    def ledger_of(self, level: int) -> Ledger:
        """Every draw that one point arriving during this level can move, now or later, on its two paths."""
        deepest = self.partition.deepest
        horizon = level_start(level + 1, self.epsilon) - level_start(level, self.epsilon)
        spends: list[Spend] = []
        for depth in range(1, (min(level, deepest) if self.partition.dimension >= 2 else deepest) + 1):
            budget = self._budget(depth, level)
            spends.append(Spend(f"level total, depth {depth}", IntegerLaplace(scale_for(budget / 2)), touches=2))
            if depth <= level:  # a cell that is born later never runs Algorithm 2 on this level
                sparse = SparseCounter(
                    horizon,
                    epsilon=budget / 2,
                    constant=self.constant,
                    sub=self.sub,
                    noise=Noise(seed=0).stream(ahead=1),  # nothing is measured with it
                )
                for spend in sparse.budget():
                    what = f"{spend.what}, depth {depth}"
                    spends.append(replace(spend, what=what, touches=2 * spend.touches))
        return Ledger(spends)

    def state(self) -> State:
        """Everything that is needed to go on, but for the key: as secret as the data."""
        levels = [*self._past, self._now]
        arrays = {f"{name}{i}": array for i, lev in enumerate(levels) for name, array in lev.arrays().items()}
        return super().state()[0] | {"levels": [[lev.level, lev.depth] for lev in levels]}, arrays

    def restore(self, header: Header, arrays: Arrays) -> None:
        """Go on from a `state`, if it is one."""
        super().restore(header, arrays)
        self._check(header, arrays)
        *past, now = [
            Level(level, depth, arrays[f"cells{i}"], arrays.get(f"ends{i}"))
            for i, (level, depth) in enumerate(header["levels"])
        ]
        self._past, self._now = past, now
        self._end = level_start(now.level + 1, self.epsilon)

    def _check(self, header: Header, arrays: Arrays) -> None:
        """Refuse a state that no run can have left: a checksum finds damage, not what was made up."""
        expected, time = list[list[int]](), 1
        while not expected or time <= self.t:
            level = level_at(time, self.epsilon)
            depth, end = self._resolution(level), level_start(level + 1, self.epsilon)
            expected.append([level, depth, max(min(end, self.t + 1) - time, 0) if depth else 0])
            time = end
        need(header["levels"] == [one[:2] for one in expected], "levels")
        for i, (_, depth, points) in enumerate(expected):
            cells = arrays[f"cells{i}"]
            need(cells.ndim == 1 and cells.dtype == np.uint64, f"cells{i}")
            last = i == len(expected) - 1
            good = cells[cells != NULL] if last else cells
            need(not good.size or int(good.max()) < 1 << depth, f"cells{i}")
            if last:
                need(len(cells) == points and f"ends{i}" not in arrays, f"cells{i}")
                continue
            ends = arrays[f"ends{i}"]
            need(ends.dtype == np.int64 and ends.shape == (len(cells) + 1,), f"ends{i}")
            need(ends[0] == 0 and ends[-1] <= points and bool((ends[1:] > ends[:-1]).all()), f"ends{i}")
            need(bool((cells[1:] > cells[:-1]).all()), f"cells{i}")


MECHANISM = PaperMechanism
