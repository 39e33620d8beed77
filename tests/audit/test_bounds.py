from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from headwater.audit.findings import epsilon_lower, lower, upper
from headwater.cli.exit_codes import Exit


@pytest.mark.parametrize(("hits", "runs"), [(0, 1), (1, 1), (0, 100), (3, 100), (100, 100), (700, 1000), (5, 10**6)])
@pytest.mark.parametrize("alpha", [0.05, 0.0005, 1e-6])
def test_bounds_are_where_the_binomial_tail_is_alpha(hits: int, runs: int, alpha: float) -> None:
    """Clopper and Pearson's definition: as many hits or more, or as few or fewer, have a probability of alpha there."""
    low, high = lower(hits, runs, alpha), upper(hits, runs, alpha)
    assert low == 0 if hits == 0 else math.isclose(stats.binom.sf(hits - 1, runs, low), alpha, rel_tol=1e-6)
    assert high == 1 if hits == runs else math.isclose(stats.binom.cdf(hits, runs, high), alpha, rel_tol=1e-6)


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.2), (0.01, 0.002), (0.9, 0.9), (0.3, 0.0)])
def test_the_bound_is_wrong_as_rarely_as_it_says(p: float, q: float) -> None:
    """Exactly, over all outcomes of 24 runs of each: not one simulation."""
    runs, alpha = 24, 0.05
    chance = np.outer(stats.binom.pmf(range(runs + 1), runs, p), stats.binom.pmf(range(runs + 1), runs, q))
    true = math.log(p / q) if q else math.inf
    bound = np.array([[epsilon_lower((a, b), (runs, runs), alpha) for b in range(runs + 1)] for a in range(runs + 1)])
    assert chance[bound > true].sum() <= alpha


def test_without_scipy_the_audit_says_what_to_install_before_it_begins() -> None:
    """In a process of its own, since this one has imported it."""
    script = "import sys; sys.modules['scipy'] = None; from headwater.cli.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", script, "audit"], capture_output=True, text=True, check=False)
    assert done.returncode == Exit.MISSING
    assert "pip install 'headwater[audit]'" in done.stderr


@pytest.mark.parametrize(("hits", "runs", "alpha"), [(2, 1, 0.1), (0, 0, 0.1), (1, 2, 0.0), (-1, 2, 0.5)])
def test_counts_that_cannot_be_are_refused(hits: int, runs: int, alpha: float) -> None:
    with pytest.raises(ValueError, match="no bound"):
        lower(hits, runs, alpha)
