"""Smoothing of one-way marginals against the textbook formula, and what it does with drift."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.public.marginals.estimate import Estimator
from headwater.public.marginals.smooth import DRIFTS, EVEN_DRIFT, Share, Slots, simplex, smooth


def test_the_nearest_point_of_the_simplex_by_brute_force() -> None:
    rng = np.random.default_rng(1)
    grid = np.array([(a, b, 100 - a - b) for a in range(101) for b in range(101 - a)]) / 100
    for values in rng.normal(0.3, 0.5, (20, 3)):
        found = simplex(values)
        assert found.min() >= 0
        assert np.isclose(found.sum(), 1)
        assert ((found - values) ** 2).sum() <= ((grid - values) ** 2).sum(1).min() + 1e-12


def test_counts_of_the_same_span_are_averaged_by_precision_and_sum_to_its_records() -> None:
    rng = np.random.default_rng(2)
    spans = [(0, 100), (100, 200), (0, 100), (0, 200), (100, 200)]
    counts, variance = rng.normal(30, 9, (5, 4)), rng.random((5, 4)) + 1
    found = Estimator.observed(spans, [(counts[:3], variance[:3]), (counts[3:], variance[3:])])
    assert [(one.start, one.end) for one in found] == [(0, 100), (0, 200), (100, 200)]
    for one in found:
        here = [number for number, span in enumerate(spans) if span == (one.start, one.end)]
        known = 1 / sum(1 / variance[number] for number in here)
        mean = sum(counts[number] / variance[number] for number in here) * known
        records = one.end - one.start
        mean = mean + (records - mean.sum()) * known / known.sum()
        assert np.allclose(one.shares, mean / records)
        assert np.allclose(one.variance, known * (1 - known / known.sum()) / records**2)


def _stream(drift: float, seed: int, noise: float = 0.01) -> tuple[list[Share], Slots, np.ndarray]:
    rng = np.random.default_rng(seed)
    slots = Slots(np.linspace(0.0, 16_000.0, 17))
    steps = rng.normal(0, np.sqrt(drift * 1000), (16, 4)).cumsum(0)
    shares = simplex(np.array([0.4, 0.3, 0.2, 0.1]) + steps - steps.mean(1, keepdims=True))
    observed = [
        Share(i * 1000, (i + 1) * 1000, shares[i] + rng.normal(0, noise, 4), np.full(4, noise**2)) for i in range(16)
    ]
    return observed, slots, shares


@pytest.mark.parametrize("drift", [0.0, 1e-7])
def test_smoothing_is_gaussian_regression(drift: float) -> None:
    """One bin at a time, with the drift that was chosen: the conditional mean and variance of a normal vector."""
    observed, slots, _ = _stream(drift, 2, noise=0.002)
    observed.append(Share(0, 8000, observed[3].shares, np.full(4, 1e-5)))
    span = np.full(16, 1 / 16)
    found = smooth(observed, slots, 4, span)
    noisy, noise = (np.array([getattr(o, name) for o in observed]) for name in ("shares", "variance"))
    mean = simplex((noisy / noise).sum(0) / (1 / noise).sum(0))
    speed = mean + EVEN_DRIFT / 4
    speed /= speed.mean()
    for code in range(4):
        prior = np.empty((16, 16))
        for i in range(16):
            for j in range(16):
                prior[i, j] = 0.25 / 4 + found.drift * speed[code] * (1000 * min(i, j) + 500)
            prior[i, i] += mean[code] / 1000
        watch = np.vstack([np.eye(16), np.repeat([1 / 8, 0], 8)])
        gain = prior @ watch.T @ np.linalg.inv(watch @ prior @ watch.T + np.diag(noise[:, code]))
        level = mean[code] + gain @ (noisy[:, code] - mean[code])
        after = prior - gain @ watch @ prior
        assert np.isclose(found.error[code], np.sqrt(span @ after @ span))
        assert np.allclose(found.shares[:, code], level, atol=3e-3)  # rows are made to sum to 1


@pytest.mark.parametrize("drift", [0.0, 1e-9, 1e-7, 1e-6])
def test_the_drift_is_the_likeliest_of_all(drift: float) -> None:
    """By the density of a normal vector, bin by bin, for every candidate."""
    observed, slots, _ = _stream(drift, 7)
    found = smooth(observed, slots, 4, np.full(16, 1 / 16))
    noisy, noise = (np.array([getattr(o, name) for o in observed]) for name in ("shares", "variance"))
    mean = simplex((noisy / noise).sum(0) / (1 / noise).sum(0))
    speed = mean + EVEN_DRIFT / 4
    speed /= speed.mean()
    likely = []
    for candidate in DRIFTS / 16_000:
        log = 0.0
        for code in range(4):
            law = candidate * speed[code] * slots.walk + np.diag(mean[code] / 1000 + noise[:, code]) + 0.25 / 4
            gap = noisy[:, code] - mean[code]
            log -= (gap @ np.linalg.solve(law, gap) + np.linalg.slogdet(law)[1]) / 2
        likely.append(log)
    assert found.drift == DRIFTS[int(np.argmax(likely))] / 16_000


def test_a_stream_of_a_billion_records_is_smoothed() -> None:
    """Seventeen stages of eight buckets; at the end noise is a millionth of a millionth of what a share may move."""
    rng, observed, start = np.random.default_rng(6), [], 8192
    truth = np.array([0.6, 0.3, 0.1])
    while start < 1 << 30:
        for part in range(8):
            low, high = start + part * start // 8, start + (part + 1) * start // 8
            noisy = truth + rng.normal(0, 300 / (high - low), 3)
            observed.append(Share(low, high, noisy, np.full(3, (300 / (high - low)) ** 2)))
        start *= 2
    slots = Slots(np.array([0, *sorted({o.start for o in observed}), start], dtype=np.float64))
    found = smooth(observed, slots, 3, slots.weights(0, start))
    assert np.abs(slots.weights(0, start) @ found.shares - truth).max() < 1e-4
