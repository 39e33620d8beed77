"""The Hybrid Mechanism: a count that may be read at every step, for ever."""

from __future__ import annotations

from headwater.counters.binary import BinaryCounter
from headwater.counters.protocol import Counter, check_beta, check_increment, laplace_sum_bound, stream_of
from headwater.noise import NoiseStream
from headwater.privacy import IntegerLaplace, Ledger, Spend, check_epsilon, scale_for


class HybridCounter(Counter):
    """Counts without a horizon, with an error of order ``log^1.5(t)/ε`` at step ``t`` (Chan, Shi, Song 2011).

    Time is cut into epochs of 1, 2, 4, … steps. When an epoch ends its total gets noise once; inside an epoch a
    `BinaryCounter` of that horizon counts.

    Parameters
    ----------
    epsilon, seed, noise
        As for `BinaryCounter`.

    Formal guarantees
    -----------------
    A step lies in one epoch. Its increment moves that epoch's total, noised with scale ``2/ε``, and the epoch's
    binary counter, which is ε/2-private: the infinite sequence of all counts is ε-differentially private.

    Examples
    --------
    >>> counter = HybridCounter(epsilon=0.5, seed=0)
    >>> for _ in range(10_000):
    ...     counter.add(1)
    >>> abs(counter.count - 10_000) < counter.error_bound(beta=1e-6)
    True
    """

    def __init__(self, *, epsilon: float, seed: int | None = None, noise: NoiseStream | None = None) -> None:
        self.epsilon, self.time = check_epsilon(epsilon), 0
        self._scale = scale_for(self.epsilon / 2)
        self._noise = stream_of(noise, seed)
        self._past = 0  # noisy total of the finished epochs
        self._total = 0  # true total of the current epoch
        self._inner = BinaryCounter(1, epsilon=self.epsilon / 2, noise=self._noise)

    def add(self, increment: int) -> None:
        """Take one step."""
        increment = check_increment(increment)
        if self._inner.time == self._inner.horizon:
            self._past += self._total + self._noise.draw(self._scale)
            self._total = 0
            self._inner = BinaryCounter(2 * self._inner.horizon, epsilon=self.epsilon / 2, noise=self._noise)
        self._inner.add(increment)
        self.time += 1
        self._total += increment

    @property
    def count(self) -> int:
        """The private count so far."""
        return self._past + self._inner.count

    def budget(self) -> Ledger:
        """One epoch total, and the epoch's binary counter. The sum is the same for every epoch."""
        return Ledger([Spend("epoch total", IntegerLaplace(self._scale)), *self._inner.budget()])

    def error_bound(self, beta: float = 0.05) -> float:
        """A bound that holds with probability ``1 − beta``: of past epochs, and of the binary counter of this one."""
        check_beta(beta)
        epochs = self._inner.horizon.bit_length() - 1
        past = laplace_sum_bound([self._scale] * epochs, beta / 2)
        return past + self._inner.error_bound(beta / 2)
