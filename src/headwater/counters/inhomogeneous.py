"""Algorithm 3: a count without a horizon whose budget may change from level to level."""

from __future__ import annotations

from collections.abc import Callable

from headwater.counters.hybrid import HybridCounter
from headwater.counters.levels import level_at, level_start
from headwater.counters.protocol import Counter, check_beta, check_increment, laplace_sum_bound, stream_of
from headwater.counters.sparse import THRESHOLD, SparseCounter, SubCounter
from headwater.noise import NoiseStream
from headwater.privacy import IntegerLaplace, Ledger, Spend, check_epsilon, scale_for


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
