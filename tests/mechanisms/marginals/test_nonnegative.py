"""Non-negative shares from noisy ones."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.public.marginals.smooth import CLEAR, EMPTY, PRIOR, VALUES, medians, nonnegative, posterior


def test_the_posterior_is_bayes_rule_bin_by_bin() -> None:
    rng = np.random.default_rng(1)
    shares, deviations, values = rng.normal(size=3), rng.random(3) + 0.5, np.array([0.0, 0.5, 2.0])
    weights = rng.dirichlet(np.ones(3))
    found = posterior(shares, deviations, values, weights)
    for j in range(3):
        literal = [
            w * np.exp(-((shares[j] - v) ** 2) / 2 / deviations[j] ** 2) for v, w in zip(values, weights, strict=True)
        ]
        assert np.allclose(found[:, j], np.array(literal) / sum(literal))


@pytest.mark.parametrize("bins", [1, 2, 3, 17, 300])
def test_the_result_is_a_distribution_whatever_comes_in(bins: int) -> None:
    rng = np.random.default_rng(2)
    for deviation in (1e-12, 0.01, 100.0):
        found = nonnegative(rng.normal(0, 1, bins), np.full(bins, deviation))
        assert found.min() >= 0
        assert np.isclose(found.sum(), 1)


def _literal(shares: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """EM and bisection, each with the posterior of every bin every time."""
    values = np.concatenate([[0.0], np.geomspace(deviations.min() / 3, 1.2 * shares.max(), VALUES)])
    prior = np.concatenate([[EMPTY], np.full(VALUES, (1 - EMPTY) / VALUES)])
    weights = prior
    for _ in range(20):
        weights = (posterior(shares, deviations, values, weights).sum(1) + PRIOR * prior) / (len(shares) + PRIOR)

    def shifted(shift: float) -> np.ndarray:
        moved = shares + shift * deviations**2
        between = medians(posterior(moved, deviations, values, weights), values)
        return np.where(moved > CLEAR * deviations, moved, between)

    low, high = -1e9, 1e9
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if shifted(middle).sum() < 1 else (low, middle)
    found = shifted(high)
    return np.asarray(found / found.sum())


def test_the_result_is_that_of_plain_bisection() -> None:
    rng = np.random.default_rng(4)
    for bins in (3, 17, 60, 200):
        for deviation in (1e-4, 1e-3, 5e-3):
            shares = rng.dirichlet(np.full(bins, 0.3))
            deviations = deviation * (1 + rng.random(bins))
            noisy = shares + rng.normal(0, deviations)
            assert np.abs(nonnegative(noisy, deviations) - _literal(noisy, deviations)).max() < 1e-7
