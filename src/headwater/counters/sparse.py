"""Algorithm 2: a count with a horizon, whose noise grows with how often the count changes, not with time."""

from __future__ import annotations

import math
from typing import Protocol

from headwater.counters.hybrid import HybridCounter
from headwater.counters.protocol import Counter, check_beta, check_horizon, check_increment, stream_of
from headwater.noise import NoiseStream
from headwater.privacy import IntegerLaplace, Ledger, Spend, check_epsilon, scale_for

THRESHOLD = 9.0
"""The constant in the paper's threshold ``T_0 = 9·log T/ε``."""


class SubCounter(Protocol):
    """Makes the counter that adds up sealed segments: anything built as ``HybridCounter`` is."""

    def __call__(self, *, epsilon: float, noise: NoiseStream) -> Counter:
        """A fresh counter without a horizon."""


def segment_threshold(horizon: int, epsilon: float, constant: float = THRESHOLD) -> int:
    """The whole part of ``T_0 = 9·log T/ε``; counts are whole, so the fraction never matters."""
    return math.floor(constant * math.log(max(horizon, 1)) / epsilon)


class SparseCounter(Counter):
    """Sparse counting with a finite horizon (Algorithm 2; Dwork, Naor, Reingold, Rothblum 2015).

    Time is cut into segments. A segment is sealed at the first step at which its count plus fresh noise exceeds its
    noisy threshold; its count then goes to the sub-counter, whose output is the count until the next seal. Every
    step tests once, after its increment, and the count read at a step already knows whether that step sealed.

    Parameters
    ----------
    horizon, epsilon, seed, noise
        As for `BinaryCounter`.
    constant
        Of the threshold of Algorithm 2; the paper has 9.
    sub
        The counter that sealed segments go through.

    Formal guarantees
    -----------------
    Changing one increment by one moves the counts of one segment, from that step to its seal, all by one and the
    same way. Up: that segment's threshold noise moves up by one with them, and every test turns out as before.
    Down: tests that failed fail all the more, and the noise of the one test that sealed moves up by one. Either way
    one draw of scale ``2/ε`` moves by one, which costs ε/2; one sealed count moves by one, and the sub-counter
    protects it with ε/2. The sequence of all counts is ε-differentially private (`proofs/counters.md`).

    Examples
    --------
    >>> counter = SparseCounter(100_000, epsilon=1.0, seed=0)
    >>> for step in range(5_000):
    ...     counter.add(step % 5 == 0)
    Traceback (most recent call last):
    TypeError: an increment must be a whole number, not bool
    >>> for step in range(5_000):
    ...     counter.add(int(step % 5 == 0))
    >>> abs(counter.count - 1_000) < counter.error_bound(beta=0.01)
    True
    """

    def __init__(
        self,
        horizon: int,
        *,
        epsilon: float,
        constant: float = THRESHOLD,
        sub: SubCounter = HybridCounter,
        seed: int | None = None,
        noise: NoiseStream | None = None,
    ) -> None:
        self.horizon, self.epsilon, self.time = check_horizon(horizon), check_epsilon(epsilon), 0
        self._noise = stream_of(noise, seed)
        self.scale = scale_for(self.epsilon / 2)
        self._base = segment_threshold(self.horizon, self.epsilon, constant)
        self._sub = sub(epsilon=self.epsilon / 2, noise=self._noise)
        self._segment, self._threshold = 0, self.draw_threshold()

    def draw_threshold(self) -> int:
        """The noisy threshold of the next segment."""
        return self._base + self._noise.draw(self.scale)

    def add(self, increment: int) -> None:
        """Take one of the ``horizon`` steps, and seal the segment if its count has become large."""
        increment = check_increment(increment)
        if self.time == self.horizon:
            raise ValueError(f"this counter's horizon of {self.horizon} steps is over")
        self.time += 1
        self._segment += increment
        if self._segment + self._noise.draw(self.scale) > self._threshold:
            self._sub.add(self._segment)
            self._segment, self._threshold = 0, self.draw_threshold()

    @property
    def count(self) -> int:
        """The private count of what has been sealed so far."""
        return self._sub.count

    def budget(self) -> Ledger:
        """Either a threshold or a test moves, never both; and the sub-counter sees one count move."""
        return Ledger([Spend("segment threshold or test", IntegerLaplace(self.scale)), *self._sub.budget()])

    def error_bound(self, beta: float = 0.05) -> float:
        """A bound that holds with probability ``1 − beta``: all draws so far are bounded, so the open segment is."""
        check_beta(beta)
        draws = 2 * self.time + 1
        widest = self.scale * math.log(2 * draws / beta)
        unsealed = max(self._base + 2 * widest, 0.0) if self.time else 0.0
        return unsealed + self._sub.error_bound(beta / 2)
