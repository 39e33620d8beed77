"""Exact laws of counters on small horizons: every output, every pair of neighbours, no sampling.

The counters are run as they are, on a scripted noise source that plays chosen values and writes down the scales it was
asked for. What the counters claim is not used anywhere here.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headwater.public.budget import Ledger
from headwater.secret.counters import Counter, SparseCounter
from headwater.secret.noise import NoiseStream

Make = Callable[["Script"], Counter]


class Script(NoiseStream):
    """Plays chosen values in order, then zeros; remembers the scale of every draw."""

    def __init__(self, values: Sequence[int] = ()) -> None:
        self.values, self.scales = list(values), list[float]()

    def draw(self, scale: float) -> int:
        """The next chosen value."""
        self.scales.append(scale)
        return self.values.pop(0) if self.values else 0


def log_pmf(z: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """``log P(Z = z)`` of integer Laplace noise."""
    q = math.exp(-1 / scale)
    value: NDArray[np.float64] = math.log((1 - q) / (1 + q)) - np.abs(z) / scale
    return value


@dataclass(frozen=True)
class Linear:
    """A counter whose outputs are linear in its increments and its noise, read off by running it."""

    steps: NDArray[np.int64]  # outputs × increments
    noise: NDArray[np.int64]  # outputs × draws
    scales: tuple[float, ...]

    @staticmethod
    def of(make: Make, horizon: int) -> Linear:
        """Run the counter on every unit increment and every unit of noise."""
        nothing = [0] * horizon
        scales = counts(make, nothing)[1]
        unit = np.eye(max(horizon, len(scales)), dtype=int).tolist()
        steps = np.array([counts(make, unit[i][:horizon])[0] for i in range(horizon)]).T
        noise = np.array([counts(make, nothing, unit[i][: len(scales)])[0] for i in range(len(scales))]).T
        return Linear(steps, noise, tuple(scales))

    def log_density(self, residuals: NDArray[np.int64]) -> NDArray[np.float64]:
        """Log probability that the noise adds up to each row.

        One draw per output is solved for; the others are summed over all their values, to where the rest no longer
        counts.
        """
        solved = [int(np.flatnonzero(row)[-1]) for row in self.noise]  # the newest draw of each output
        hidden = [i for i in range(self.noise.shape[1]) if i not in solved]
        inverse = np.rint(np.linalg.inv(self.noise[:, solved])).astype(np.int64)
        widest = max((self.scales[i] for i in hidden), default=0.0)
        reach = 2 * int(np.abs(residuals).max()) + math.ceil(24 * widest)
        total = np.full(len(residuals), -np.inf)
        for values in itertools.product(range(-reach, reach + 1), repeat=len(hidden)):
            given = np.array(values, dtype=np.int64)
            z = (residuals - self.noise[:, hidden] @ given) @ inverse.T
            log = sum((log_pmf(z[:, k], self.scales[i]) for k, i in enumerate(solved)), np.zeros(len(z)))
            log = log + sum(float(log_pmf(given[k : k + 1], self.scales[i])[0]) for k, i in enumerate(hidden))
            total = np.logaddexp(total, log)
        return total

    def loss(self, box: int) -> float:
        """The largest log ratio of probabilities, over outputs in a box, between inputs that differ by one in one step.

        A linear counter has the same ratios for every input, so every neighbouring pair is covered.
        """
        grid = np.array(list(itertools.product(range(-box, box + 1), repeat=len(self.steps))), dtype=np.int64)
        before = self.log_density(grid)
        return max(float(np.abs(before - self.log_density(grid - column)).max()) for column in self.steps.T)


def counts(make: Make, increments: Sequence[int], values: Sequence[int] = ()) -> tuple[list[int], list[float]]:
    """All counts that a counter says when its noise is this, and the scales that it asked for."""
    script = Script(values)
    counter, said = make(script), list[int]()
    for increment in increments:
        counter.add(increment)
        said.append(counter.count)
    return said, script.scales


Cuts = tuple[tuple[int, int], ...]  # the step of every seal, and the count that was sealed
States = dict[tuple[Cuts, int], tuple[SparseCounter, float]]
"""For cuts and threshold noise, a counter and its probability."""
_FAR = 1 << 12  # a noise value beyond every threshold


class Bare:
    """A sub-counter without noise: it shows the sealed counts themselves."""

    given: ClassVar[float] = 0.0  # the budget that the last one was made with

    def __init__(self, *, epsilon: float, noise: NoiseStream) -> None:
        self.epsilon, self.count, self.sealed = epsilon, 0, 0
        Bare.given = epsilon

    def add(self, increment: int) -> None:
        """Take a sealed count."""
        self.count += increment
        self.sealed += 1

    def budget(self) -> Ledger:
        """It has none."""
        raise NotImplementedError("a counter without noise has no budget")

    def error_bound(self, beta: float = 0.05) -> float:
        """It makes no error."""
        return 0.0


def sealings(
    make: Callable[[Script], SparseCounter], values: Sequence[int], horizon: int, reach: int
) -> dict[tuple[int, ...], dict[Cuts, float]]:
    """For every stream of these increments, the exact probability of each way of cutting its steps into segments.

    ``make`` must give the counter the sub-counter `Bare`. Threshold noise is summed over ``±reach``. What a state does
    with a test's noise is found by trying values, so nothing of the counter's rule is repeated here.
    """
    start: States = {}
    for value in range(-reach, reach + 1):
        script = Script([value])
        counter = make(script)
        start[(), value] = counter, _pmf(value, script.scales[0])
    known, laws = dict[object, int](), dict[tuple[int, ...], dict[Cuts, float]]()

    def visit(stream: tuple[int, ...], states: States) -> None:  # streams share what is known of their beginning
        if len(stream) < horizon:
            for increment in values:
                visit((*stream, increment), _stepped(states, len(stream) + 1, increment, reach, known))
            return
        law = laws[stream] = dict[Cuts, float]()
        for (cuts, _), (_, chance) in states.items():
            law[cuts] = law.get(cuts, 0.0) + chance

    visit((), start)
    return laws


def _stepped(states: States, step: int, increment: int, reach: int, known: dict[object, int]) -> States:
    """All states after one more step."""
    following: States = {}
    leaving: dict[Cuts, tuple[SparseCounter, float]] = {}
    for (cuts, value), (counter, chance) in states.items():
        inside = (increment, *(item for item in vars(counter).items() if item[0] not in ("_noise", "_sub")))
        if inside not in known:
            known[inside] = _turning_point(counter, increment)
        stayed, scales, _ = _tried(counter, increment, known[inside])
        following[cuts, value] = stayed, chance * _at_most(known[inside], scales[0])
        left, total = leaving.get(cuts, (counter, 0.0))
        leaving[cuts] = left, total + chance * _at_most(-known[inside] - 1, scales[0])
    for cuts, (counter, chance) in leaving.items():
        for value in range(-reach, reach + 1):
            opened, scales, _ = _tried(counter, increment, _FAR, value)
            here = (*cuts, (step, opened.count - counter.count))
            following[here, value] = opened, chance * _pmf(value, scales[1])
    return following


@cache
def _pmf(value: int, scale: float) -> float:
    return math.exp(float(log_pmf(np.array(value), scale)))


def _at_most(z: int, scale: float) -> float:
    """``P(Z ≤ z)``."""
    q = math.exp(-1 / scale)
    return q**-z / (1 + q) if z < 0 else 1 - q ** (z + 1) / (1 + q)


def _turning_point(counter: SparseCounter, increment: int) -> int:
    """The largest test noise that leaves the segment open."""
    low, high = -_FAR, _FAR
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _tried(counter, increment, middle)[2] else (middle, high)
    return low


def _tried(counter: SparseCounter, increment: int, *values: int) -> tuple[SparseCounter, list[float], bool]:
    """A copy of the counter after one more step with these noise values, the scales drawn, and whether it sealed."""
    after, script = copy.copy(counter), Script(values)
    before: Bare = counter._sub  # type: ignore[assignment]
    after._noise, sub = script, copy.copy(before)
    after._sub = sub
    after.add(increment)
    return after, script.scales, sub.sealed > before.sealed
