"""Exact output distributions of counters, without sampling.

The counters are run as they are, on a scripted noise source that plays chosen values and writes down the scales it was
asked for. What the counters claim is not used anywhere here.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.measure.budget import Ledger
from headwater.measure.counters import Counter, SparseCounter
from headwater.measure.noise import NoiseStream

FAR = 1 << 12
"""A noise value beyond every threshold."""


class Script(NoiseStream):
    """Plays chosen values in order, then zeros; remembers the scale of every draw."""

    def __init__(self, values: Sequence[int] = ()) -> None:
        self.values, self.scales = list(values), list[float]()

    def draw(self, scale: float) -> int:
        self.scales.append(scale)
        return self.values.pop(0) if self.values else 0


def log_pmf(z: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """``log P(Z = z)`` of integer Laplace noise."""
    q = math.exp(-1 / scale)
    return math.log((1 - q) / (1 + q)) - np.abs(z) / scale


def chance_at_most(z: int, scale: float) -> float:
    """``P(Z ≤ z)``."""
    q = math.exp(-1 / scale)
    return q**-z / (1 + q) if z < 0 else 1 - q ** (z + 1) / (1 + q)


@dataclass(frozen=True)
class Linear:
    """A counter whose outputs are linear in its increments and its noise, read off by running it."""

    steps: NDArray[np.int64]  # outputs × increments
    noise: NDArray[np.int64]  # outputs × draws
    scales: tuple[float, ...]

    @staticmethod
    def of(make: Callable[[Script], Counter], horizon: int) -> Linear:
        def run(increments: Sequence[int], values: Sequence[int]) -> tuple[list[int], list[float]]:
            script = Script(values)
            counter, outputs = make(script), []
            for increment in increments:
                counter.add(increment)
                outputs.append(counter.count)
            return outputs, script.scales

        nothing = [0] * horizon
        scales = run(nothing, [])[1]
        unit = np.eye(max(horizon, len(scales)), dtype=int).tolist()
        steps = np.array([run(unit[i][:horizon], [])[0] for i in range(horizon)]).T
        noise = np.array([run(nothing, unit[i][: len(scales)])[0] for i in range(len(scales))]).T
        return Linear(steps, noise, tuple(scales))

    def log_density(self, residuals: NDArray[np.int64]) -> NDArray[np.float64]:
        """Log probability that the noise adds up to each row of ``residuals``.

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

    def worst_log_ratio(self, box: int) -> float:
        """The largest log ratio of output probabilities between inputs that differ by one in one increment.

        Linear counters have the same ratio for every input, so every neighbouring pair is covered.
        """
        outputs = len(self.steps)
        grid = np.array(list(itertools.product(range(-box, box + 1), repeat=outputs)), dtype=np.int64)
        before = self.log_density(grid)
        worst = 0.0
        for column in self.steps.T:
            after = self.log_density(grid - column)
            worst = max(worst, float(np.abs(before - after).max()))
        return worst


class Exact:
    """A sub-counter without noise: it shows the sealed counts themselves."""

    def __init__(self, *, epsilon: float, noise: NoiseStream) -> None:
        self.epsilon, self.count, self.sealed = epsilon, 0, 0

    def add(self, increment: int) -> None:
        self.count += increment
        self.sealed += 1

    def budget(self) -> Ledger:
        raise AssertionError("a counter without noise has no budget")

    def error_bound(self, beta: float = 0.05) -> float:
        return 0.0


Cuts = tuple[tuple[int, int], ...]  # the step of every seal, and the count that was sealed


def sealings(make: Callable[[Script], SparseCounter], increments: Sequence[int], reach: int) -> dict[Cuts, float]:
    """The exact probability of every way in which a sparse counter can cut its steps into segments.

    ``make`` must give the counter the sub-counter `Exact`. Threshold noise is summed over ``±reach``. What a state
    does with a test's noise is found by trying values, so nothing of the counter's rule is repeated here.
    """
    # Which cuts were made, and the noise of the open segment's threshold → (a counter in that state, its probability).
    states: dict[tuple[Cuts, int], tuple[SparseCounter, float]] = {}
    for value in range(-reach, reach + 1):
        script = Script([value])
        counter = make(script)
        states[(), value] = counter, math.exp(float(log_pmf(np.array(value), script.scales[0])))
    known: dict[object, int] = {}
    for step, increment in enumerate(increments, start=1):
        following: dict[tuple[Cuts, int], tuple[SparseCounter, float]] = {}
        leaving: dict[Cuts, tuple[SparseCounter, float]] = {}
        for (cuts, value), (counter, chance) in states.items():
            inside = (increment, *(item for item in vars(counter).items() if item[0] not in ("_noise", "_sub")))
            if inside not in known:
                known[inside] = _turning_point(counter, increment)
            stayed, scales, _ = _tried(counter, increment, known[inside])
            following[cuts, value] = stayed, chance * chance_at_most(known[inside], scales[0])
            left, total = leaving.get(cuts, (counter, 0.0))
            leaving[cuts] = left, total + chance * chance_at_most(-known[inside] - 1, scales[0])
        for cuts, (counter, chance) in leaving.items():
            for value in range(-reach, reach + 1):
                opened, scales, _ = _tried(counter, increment, FAR, value)
                here = (*cuts, (step, opened.count - counter.count))
                following[here, value] = opened, chance * math.exp(float(log_pmf(np.array(value), scales[1])))
        states = following
    law: dict[Cuts, float] = {}
    for (cuts, _), (_, chance) in states.items():
        law[cuts] = law.get(cuts, 0.0) + chance
    return law


def _turning_point(counter: SparseCounter, increment: int) -> int:
    """The largest test noise that leaves the segment open."""
    low, high = -FAR, FAR
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _tried(counter, increment, middle)[2] else (middle, high)
    return low


def _tried(counter: SparseCounter, increment: int, *values: int) -> tuple[SparseCounter, list[float], bool]:
    """A copy of the counter after one more step with these noise values, the scales drawn, and whether it sealed."""
    after, script = copy.copy(counter), Script(values)
    after._noise, after._sub = script, copy.copy(counter._sub)
    after.add(increment)
    return after, script.scales, after._sub.sealed > counter._sub.sealed  # type: ignore[attr-defined]
