from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from headwater.audit.bounds import beta_mass, cannot_exceed, epsilon_lower, lower, upper


@given(a=st.floats(0.5, 5e4), b=st.floats(0.5, 5e4), x=st.floats(0, 1))
def test_the_incomplete_beta_function_is_that_of_scipy(a: float, b: float, x: float) -> None:
    assert math.isclose(beta_mass(x, a, b), special.betainc(a, b, x), rel_tol=1e-7, abs_tol=1e-12)


@pytest.mark.parametrize(("hits", "runs"), [(0, 1), (1, 1), (0, 100), (3, 100), (100, 100), (700, 1000), (5, 10**6)])
@pytest.mark.parametrize("alpha", [0.05, 0.0005, 1e-6])
def test_clopper_and_pearson_are_those_of_scipy(hits: int, runs: int, alpha: float) -> None:
    low = stats.beta.ppf(alpha, hits, runs - hits + 1) if hits else 0.0
    high = stats.beta.ppf(1 - alpha, hits + 1, runs - hits) if hits < runs else 1.0
    assert math.isclose(lower(hits, runs, alpha), low, rel_tol=1e-8)
    assert math.isclose(upper(hits, runs, alpha), high, rel_tol=1e-8)


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.2), (0.01, 0.002), (0.9, 0.9), (0.3, 0.0)])
def test_the_bound_is_wrong_as_rarely_as_it_says(p: float, q: float) -> None:
    """Exactly, over all outcomes of 24 runs of each: not one simulation."""
    runs, alpha = 24, 0.05
    chance = np.outer(stats.binom.pmf(range(runs + 1), runs, p), stats.binom.pmf(range(runs + 1), runs, q))
    true = math.log(p / q) if q else math.inf
    bound = np.array([[epsilon_lower((a, b), (runs, runs), alpha) for b in range(runs + 1)] for a in range(runs + 1)])
    assert chance[bound > true].sum() <= alpha


def test_more_runs_can_show_more() -> None:
    assert 3 < cannot_exceed(200, 0.001) < cannot_exceed(2000, 0.001) < cannot_exceed(20000, 0.001) < 10


@pytest.mark.parametrize(("hits", "runs", "alpha"), [(2, 1, 0.1), (0, 0, 0.1), (1, 2, 0.0), (-1, 2, 0.5)])
def test_counts_that_cannot_be_are_refused(hits: int, runs: int, alpha: float) -> None:
    with pytest.raises(ValueError, match="no bound"):
        lower(hits, runs, alpha)
