"""Offline PMM: the budget, the law of its counts, and how it does."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import headwater as hw
from headwater.secret.noise import Noise
from headwater.secret.pmm import PmmMechanism
from tests.support.runs import feed


def measured(points: np.ndarray, epsilon: float, noise: Noise) -> PmmMechanism:
    mechanism = PmmMechanism(hw.unit_cube(points.shape[1]), epsilon, noise)
    feed(mechanism, points)
    return mechanism


@pytest.mark.parametrize("d", range(1, 11))
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0, 50.0])
def test_ledger_adds_up_to_epsilon(d: int, epsilon: float) -> None:
    total = measured(np.full((3000, d), 0.5), epsilon, Noise(seed=0)).ledger().total
    assert Fraction(epsilon) * Fraction(999, 1000) < total <= Fraction(epsilon)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_counts_are_true_counts_plus_noise_of_the_ledgers_scale(d: int) -> None:
    """Mean and spread of 2,000 runs at every depth; fails by chance with probability below 10^−5."""
    x = np.random.default_rng(0).random((40, d)) ** 2
    runs = [measured(x, 2.0, Noise(seed)) for seed in range(2000)]
    ledger = runs[0].ledger()
    assert runs[0].depth == 6
    for depth, spend in enumerate(ledger, start=1):
        cell = np.zeros(1, dtype=np.uint64)
        counts = np.array([run.noisy_counts(depth, cell).counts[0] for run in runs])
        true = (runs[0].partition.cells(x, depth) == 0).sum()
        q = np.exp(-1 / spend.scale)
        deviation = np.sqrt(2 * q) / (1 - q)
        assert abs(counts.mean() - true) < 5 * deviation / np.sqrt(2000)
        assert abs(counts.std() / deviation - 1) < 0.3


def test_replacing_a_point_moves_two_counts_a_depth_by_one() -> None:
    rng = np.random.default_rng(3)
    x = rng.random((50, 2))
    for _ in range(40):
        y = x.copy()
        y[rng.integers(50)] = rng.random(2)
        one, other = (measured(points, 1.0, Noise(seed=0)) for points in (x, y))
        for depth in range(1, one.depth + 1):
            cells = np.arange(2**depth, dtype=np.uint64)
            moved = one.noisy_counts(depth, cells).counts - other.noisy_counts(depth, cells).counts
            assert abs(moved).max() <= 1
            assert abs(moved).sum() in (0, 2)


def test_edges() -> None:
    assert hw.pmm(np.empty((0, 2)), hw.unit_cube(2), epsilon=1.0).points().shape == (0, 2)
    assert hw.pmm([[0.5, 0.5]], hw.unit_cube(2), epsilon=0.1).points().shape == (1, 2)
    assert hw.pmm(np.full((100, 50), 1.0), hw.unit_cube(50), epsilon=50.0).points().shape == (100, 50)


def test_it_follows_the_data() -> None:
    x = np.random.default_rng(0).normal(0.2, 0.02, size=(20_000, 2)).clip(0, 1)
    release = hw.pmm(x, hw.unit_cube(2), epsilon=1.0, seed=0)
    assert np.abs(release.points().mean(axis=0) - 0.2).max() < 0.01
    assert release.mechanism == "pmm"
