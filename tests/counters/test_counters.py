"""What every counter does, checked over every counter."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from headwater.secret.counters import (
    BinaryCounter,
    Counter,
    HybridCounter,
    InhomogeneousCounter,
    SparseCounter,
    laplace_sum_bound,
    level_start,
)
from headwater.secret.noise import Noise

Make = Callable[[float, int], Counter]

COUNTERS: dict[str, Make] = {
    "binary": lambda epsilon, seed: BinaryCounter(3000, epsilon=epsilon, seed=seed),
    "hybrid": lambda epsilon, seed: HybridCounter(epsilon=epsilon, seed=seed),
    "sparse": lambda epsilon, seed: SparseCounter(3000, epsilon=epsilon, seed=seed),
    "inhomogeneous": lambda epsilon, seed: InhomogeneousCounter(epsilon=epsilon, seed=seed),
}
every_counter = pytest.mark.parametrize("make", COUNTERS.values(), ids=COUNTERS)


@every_counter
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0, 50.0])
def test_budget_is_at_most_epsilon(make: Make, epsilon: float) -> None:
    counter = make(epsilon, 0)
    for _ in range(300):
        counter.add(1)
        assert counter.budget().total <= Fraction(epsilon)
    assert counter.budget().total > Fraction(epsilon) * Fraction(99, 100), "nearly all of the budget is used"


@every_counter
def test_reading_changes_nothing(make: Make) -> None:
    read, unread = make(1.0, 3), make(1.0, 3)
    for i in range(500):
        for counter in (read, unread):
            counter.add(i % 3)
        assert read.count == read.count
    assert read.count == unread.count


@every_counter
def test_error_bound_holds(make: Make) -> None:
    """True error below the bound for β = 0.2, in at least 80 % of 60 runs at each of three times.

    A bound that held in exactly 80 % of runs would fail here with probability below 10^−3 a time; the bounds are
    conservative, so they hold far more often.
    """
    times, missed = (10, 200, 2000), dict.fromkeys((10, 200, 2000), 0)
    for seed in range(60):
        counter, true = make(1.0, seed), 0
        for t in range(1, times[-1] + 1):
            increment = int(t % 3 == 0) * 2
            counter.add(increment)
            true += increment
            if t in times:
                missed[t] += abs(counter.count - true) > counter.error_bound(0.2)
    assert max(missed.values()) <= 60 * 0.2 + 10


@every_counter
@pytest.mark.parametrize(
    ("wrong", "error"), [(-1, ValueError), (0.5, TypeError), ("1", TypeError), (True, TypeError), (None, TypeError)]
)
def test_wrong_increments_are_refused_and_change_nothing(make: Make, wrong: object, error: type[Exception]) -> None:
    counter, other = make(1.0, 5), make(1.0, 5)
    counter.add(2)
    other.add(2)
    with pytest.raises(error, match="increment"):
        counter.add(wrong)  # type: ignore[arg-type]
    for _ in range(20):
        counter.add(1)
        other.add(1)
    assert counter.count == other.count


@every_counter
@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan"), float("inf")])
def test_wrong_budgets_are_refused(make: Make, epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        make(epsilon, 0)


@every_counter
def test_pickled_counters_go_on_with_the_same_noise(make: Make) -> None:
    counter = make(1.0, 9)
    for _ in range(37):
        counter.add(1)
    copy = pickle.loads(pickle.dumps(counter))  # noqa: S301 - it was written on the line above
    for _ in range(200):
        counter.add(1)
        copy.add(1)
    assert copy.count == counter.count


@pytest.mark.parametrize("counter", [BinaryCounter, SparseCounter])
def test_horizons_of_zero_and_one(counter: type[BinaryCounter] | type[SparseCounter]) -> None:
    none = counter(0, epsilon=1.0, seed=0)
    assert none.count == 0
    with pytest.raises(ValueError, match="horizon of 0 steps is over"):
        none.add(1)
    one = counter(1, epsilon=1.0, seed=0)
    one.add(1)
    assert isinstance(one.count, int)
    assert one.error_bound() >= 0
    with pytest.raises(ValueError, match="horizon of 1 steps is over"):
        one.add(1)
    with pytest.raises(ValueError, match="must not be negative"):
        counter(-1, epsilon=1.0)


def test_binary_counter_is_exact_without_noise() -> None:
    class Silent(type(Noise().stream())):  # type: ignore[misc]
        def draw(self, scale: float) -> int:
            return 0

    counter = BinaryCounter(100, epsilon=1.0, noise=Silent(Noise(seed=0), 0, 0, 1))
    for t in range(1, 101):
        counter.add(t)
        assert counter.count == t * (t + 1) // 2


def test_inhomogeneous_counter_ignores_what_comes_before_its_start() -> None:
    counter = InhomogeneousCounter(epsilon=1e4, start=20, seed=0)
    start = level_start(20, 1e4)
    for _ in range(start - 1):
        counter.add(1)
    assert counter.count == 0
    assert counter.budget().total == 0
    for _ in range(50):
        counter.add(1)
    assert counter.count == 50


def test_laplace_sum_bound_holds_for_one_draw() -> None:
    """For one draw of scale σ the exact tail is ``≤ e^{−x/σ}``, so the bound lies above ``σ·log(1/β)``."""
    assert laplace_sum_bound([3.0], 0.01) >= 3.0 * np.log(100)
    assert laplace_sum_bound([], 0.01) == 0.0
    with pytest.raises(ValueError, match="beta"):
        laplace_sum_bound([1.0], 1.5)


@pytest.mark.parametrize("counter", [BinaryCounter(9, epsilon=2.0**-60), HybridCounter(epsilon=2.0**-60)])
def test_a_step_whose_noise_cannot_be_drawn_changes_nothing(counter: BinaryCounter | HybridCounter) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="scale of noise must be at most"):
            counter.add(1)
    assert counter.time == counter.count == 0
