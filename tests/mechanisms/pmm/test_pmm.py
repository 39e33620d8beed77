"""Offline PMM: the budget, what is drawn, and how it does."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

import headwater as hw
from headwater.public.partition import Integers, Partition
from headwater.secret import pmm
from headwater.secret.noise import Noise


@pytest.mark.parametrize("d", range(1, 11))
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0, 50.0])
def test_ledger_adds_up_to_epsilon(d: int, epsilon: float) -> None:
    total = pmm.ledger(3000, Partition(d), epsilon).total
    assert Fraction(epsilon) * Fraction(999, 1000) < total <= Fraction(epsilon)


class Listening(Noise):
    """Writes down what is drawn."""

    def laplace_at(self, scale: float, hi: ArrayLike, lo: ArrayLike) -> Integers:
        self.drawn = scale, super().laplace_at(scale, hi, lo)
        return self.drawn[1]


def counting(points: np.ndarray, epsilon: float, noise: Noise, patch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401
    """The noisy counts of any cells, asked for or not."""
    patch.setattr(pmm, "measure", lambda noisy_counts, *_: noisy_counts)
    return pmm.measure_once(points, Partition(points.shape[1]), epsilon, noise, 0)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_counts_are_true_counts_plus_noise_of_the_ledgers_scale(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, noise, addresses = np.random.default_rng(0).random((40, d)) ** 2, Listening(seed=1), list[int]()
    noisy_counts = counting(x, 2.0, noise, monkeypatch)
    for depth, spend in enumerate(pmm.ledger(40, Partition(d), 2.0), start=1):
        cells = np.arange(1 << depth, dtype=np.uint64)
        true = np.bincount(Partition(d).cells(x, depth).astype(np.int64), minlength=len(cells))
        found = noisy_counts(depth, cells)
        scale, drawn = noise.drawn
        assert scale == spend.scale
        assert found.counts.tolist() == (true + drawn).tolist()
        addresses += drawn.tolist()
    assert depth == 6
    assert len(set(addresses)) > 5


def test_edges_and_that_it_follows_the_data() -> None:
    assert hw.pmm(np.empty((0, 2)), hw.unit_cube(2), epsilon=1.0).points().shape == (0, 2)
    assert hw.pmm([[0.5, 0.5]], hw.unit_cube(2), epsilon=0.1).points().shape == (1, 2)
    assert hw.pmm(np.full((100, 50), 1.0), hw.unit_cube(50), epsilon=50.0).points().shape == (100, 50)
    x = np.random.default_rng(0).normal(0.2, 0.02, size=(20_000, 2)).clip(0, 1)
    release = hw.pmm(x, hw.unit_cube(2), epsilon=1.0, seed=0)
    assert np.abs(release.points().mean(axis=0) - 0.2).max() < 0.01
    assert release.mechanism == "pmm"
