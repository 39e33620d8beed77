"""One number counted for ever: private running sums, usable on their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from headwater.public.budget import Ledger, Spend, check_epsilon
from headwater.public.laws import IntegerLaplace, scale_for
from headwater.secret.noise import Noise, NoiseStream, warn_of_seed


class Counter(Protocol):
    """A running sum of non-negative whole numbers that may be read after every step.

    Formal guarantees
    -----------------
    Two streams of increments are neighbours when one increment differs by one. The sequence of all counts that
    could be read, taken together, is ``budget().total``-differentially private.
    """

    def add(self, increment: int) -> None:
        """Take one time step.

        Parameters
        ----------
        increment
            How many things to be counted happened in this step.
        """

    @property
    def count(self) -> int:
        """The private count so far. Reading it costs nothing and changes nothing."""

    def budget(self) -> Ledger:
        """Every kind of draw that one increment can move."""

    def error_bound(self, beta: float = 0.05) -> float:
        """At this step, ``|count − true count|`` exceeds this with a probability of at most ``beta``.

        Parameters
        ----------
        beta
            The probability with which the bound may be exceeded.
        """


def check_increment(increment: int) -> int:
    if (value := _whole("an increment", increment)) < 0:
        raise ValueError("an increment must not be negative: counters only count up")
    return value


def stream_of(noise: NoiseStream | None, seed: int | None) -> NoiseStream:
    if noise is not None:
        return noise
    if seed is not None:
        warn_of_seed(4)
    return Noise(seed).stream()


def check_horizon(horizon: int) -> int:
    if (value := _whole("the horizon", horizon)) < 0:
        raise ValueError(f"the horizon must not be negative, but is {value}")
    return value


def _whole(what: str, number: int) -> int:
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{what} must be a whole number, not {type(number).__name__}")
    return number.__index__()


def check_beta(beta: float) -> float:
    if not 0 < beta < 1:
        raise ValueError(f"beta must lie strictly between 0 and 1, not {beta!r}")
    return beta


def laplace_sum_bound(scales: Sequence[float], beta: float) -> float:
    check_beta(beta)
    if not scales:
        return 0.0
    widest = max(scales)
    slopes = (share / 256 / widest for share in range(1, 256))
    return min((math.log(2 / beta) - sum(math.log1p(-((s * scale) ** 2)) for scale in scales)) / s for s in slopes)


@lru_cache(maxsize=1024)  # many counters step through the same times
def level_start(level: int, epsilon: float) -> int:
    return math.ceil((1 << level) / Fraction(epsilon))


@lru_cache(maxsize=1024)
def level_at(t: int, epsilon: float) -> int:
    return math.floor(Fraction(epsilon) * t).bit_length() - 1


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


THRESHOLD = 9.0
"""The constant in the paper's threshold ``T_0 = 9·log T/ε``."""


SubCounter = Callable[..., Counter]
"""Makes the counter that adds up sealed segments: anything built as ``HybridCounter`` is."""


def segment_threshold(horizon: int, epsilon: float, constant: float = THRESHOLD) -> int:
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


class InhomogeneousCounter(Counter):
    """Inhomogeneous sparse counting (Algorithm 3).

    Level ``r`` lasts from ``t_r = ⌈2^r/ε⌉`` until ``t_{r+1}``. During it a `SparseCounter` with half the level's
    budget counts; when it ends, the level's true total, with noise from the other half, replaces what it said.
    Time starts at 1. Steps before level ``start`` are not counted, and levels of length zero cost nothing.

    Parameters
    ----------
    epsilon
        Sets the levels; unless ``budget`` is given it is also the budget of every level.
    start
        The first level that counts (``r_0``).
    budget
        The budget ``ε_r`` of level ``r``.
    constant, sub, seed, noise
        As for `SparseCounter`.

    Formal guarantees
    -----------------
    An increment of level ``r`` moves that level's sparse counter (``ε_r/2``-private) and its total (noise of scale
    ``2/ε_r``), and nothing else: changing it by one is ``ε_r``-private, or free if ``r < start`` (Lemma 3.3).

    Examples
    --------
    >>> counter = InhomogeneousCounter(epsilon=1.0, seed=0)
    >>> for _ in range(5_000):
    ...     counter.add(1)
    >>> abs(counter.count - 5_000) < counter.error_bound(beta=0.01)
    True
    """

    def __init__(
        self,
        *,
        epsilon: float,
        start: int = 0,
        budget: Callable[[int], float] | None = None,
        constant: float = THRESHOLD,
        sub: SubCounter = HybridCounter,
        seed: int | None = None,
        noise: NoiseStream | None = None,
    ) -> None:
        self.epsilon, self.start, self.time = check_epsilon(epsilon), start, 0
        self._budgets = budget
        self._constant, self._sub = constant, sub
        self._noise = stream_of(noise, seed)
        self._past = 0  # noisy total of the finished levels
        self._total = 0  # true total of the current level
        self._scales: list[float] = []  # of the noise in the past
        self._level = -1
        self._counter: SparseCounter | None = None

    def _budget(self, level: int) -> float:
        return self.epsilon if self._budgets is None else self._budgets(level)

    def skip_to(self, time: int) -> None:
        """Let time pass before the first counted level without stepping through it.

        Parameters
        ----------
        time
            How many steps are left out.
        """
        if not self.time <= time < level_start(self.start, self.epsilon):
            raise ValueError("only time before the first counted level can be skipped")
        self.time = time

    def add(self, increment: int) -> None:
        """Take one step."""
        increment = check_increment(increment)
        self.time += 1
        level = level_at(self.time, self.epsilon)
        if level < self.start:
            return
        if level != self._level:
            self._open_level(level)
        assert self._counter is not None  # noqa: S101 - a level is open from here on
        self._total += increment
        self._counter.add(increment)

    def _open_level(self, level: int) -> None:
        if self._counter is not None:
            self._scales.append(scale_for(self._budget(self._level) / 2))
            self._past += self._total + self._noise.draw(self._scales[-1])
        self._level, self._total = level, 0
        horizon = level_start(level + 1, self.epsilon) - level_start(level, self.epsilon)
        self._counter = SparseCounter(
            horizon, epsilon=self._budget(level) / 2, constant=self._constant, sub=self._sub, noise=self._noise
        )

    @property
    def count(self) -> int:
        """The private count since the first counted level."""
        return self._past + (0 if self._counter is None else self._counter.count)

    def budget(self) -> Ledger:
        """What an increment of the current level can move."""
        if self._counter is None:
            return Ledger()
        law = IntegerLaplace(scale_for(self._budget(self._level) / 2))
        return Ledger([Spend("level total", law), *self._counter.budget()])

    def error_bound(self, beta: float = 0.05) -> float:
        """A bound that holds with probability ``1 − beta``, for the count since the first counted level."""
        check_beta(beta)
        if self._counter is None:
            return 0.0
        return laplace_sum_bound(self._scales, beta / 2) + self._counter.error_bound(beta / 2)
