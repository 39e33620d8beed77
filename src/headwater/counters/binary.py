"""The Binary Mechanism: a count that may be read at each of at most ``T`` steps."""

from __future__ import annotations

from fractions import Fraction

from headwater.counters.protocol import Counter, check_horizon, check_increment, laplace_sum_bound, stream_of
from headwater.noise import NoiseStream
from headwater.privacy import IntegerLaplace, Ledger, Spend, check_epsilon, scale_for


class BinaryCounter(Counter):
    """Counts up to ``horizon`` steps with an error of order ``log^1.5(T)/ε`` (Chan, Shi, Song 2011, algorithm 2).

    Steps are summed in blocks whose lengths are powers of two, each block gets noise once, and a count is the sum of
    the blocks that the binary digits of the time name.

    Parameters
    ----------
    horizon
        How many steps there are at most.
    epsilon
        What one increment more or less may cost, over all counts that are ever read.
    seed
        For tests only: makes the counter repeatable, and so protects nobody.
    noise
        Where noise is drawn from; a source of its own unless given.

    Formal guarantees
    -----------------
    A step lies in at most one block of each of the ``L = ⌊log2 T⌋ + 1`` lengths, so changing an increment by one
    moves at most ``L`` block sums by one each. Each carries integer Laplace noise of scale ``L/ε``: the sequence of
    all counts is ε-differentially private.

    Examples
    --------
    >>> counter = BinaryCounter(1000, epsilon=1.0, seed=0)
    >>> for _ in range(1000):
    ...     counter.add(3)
    >>> abs(counter.count - 3000) < counter.error_bound(beta=1e-6)
    True
    """

    def __init__(
        self, horizon: int, *, epsilon: float, seed: int | None = None, noise: NoiseStream | None = None
    ) -> None:
        self.horizon, self.epsilon, self.time = check_horizon(horizon), check_epsilon(epsilon), 0
        self.lengths = self.horizon.bit_length()
        self.scale = scale_for(Fraction(self.epsilon) / max(self.lengths, 1))
        self._sums = [0] * self.lengths  # the latest block of each length
        self._noisy = [0] * self.lengths
        self._noise = stream_of(noise, seed)

    def add(self, increment: int) -> None:
        """Take one of the ``horizon`` steps."""
        increment = check_increment(increment)
        if self.time == self.horizon:
            raise ValueError(f"this counter's horizon of {self.horizon} steps is over; HybridCounter has none")
        noise = self._noise.draw(self.scale)  # before anything changes: a scale may be too large to draw
        self.time += 1
        closed = (self.time & -self.time).bit_length() - 1  # the block that ends here has length 2^closed
        self._sums[closed] = sum(self._sums[:closed]) + increment
        self._noisy[closed] = self._sums[closed] + noise
        self._sums[:closed] = self._noisy[:closed] = [0] * closed

    @property
    def count(self) -> int:
        """The private count so far."""
        return sum(self._noisy)

    def budget(self) -> Ledger:
        """One noisy block sum of each length."""
        return Ledger([Spend("binary block", IntegerLaplace(self.scale), touches=self.lengths)] if self.horizon else [])

    def error_bound(self, beta: float = 0.05) -> float:
        """A bound that holds with probability ``1 − beta``: of a sum of as many draws as the time has binary ones."""
        return laplace_sum_bound([self.scale] * self.time.bit_count(), beta)
