"""Exact losses of counters on small horizons: every output, every pair of neighbours, no sampling.

The counters are run as they are, on a scripted noise source that plays chosen values and writes down the scales it was
asked for. What the counters claim is not used anywhere here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.secret.counters import Counter
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


def linear_loss(make: Make, horizon: int) -> float:
    """The exact ε of a counter like `BinaryCounter` or `HybridCounter`, of horizons to about 6.

    >>> from headwater import BinaryCounter
    >>> round(linear_loss(lambda noise: BinaryCounter(4, epsilon=1.0, noise=noise), 4), 6)
    1.0
    """
    return Linear.of(make, horizon).loss(box=2 if horizon < 5 else 1)
