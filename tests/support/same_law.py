"""Do two samples of random vectors come from the same law?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2_contingency

Sample = NDArray[np.float64]  # runs × numbers


def p_value(first: Sample, second: Sample, *, directions: int = 12) -> float:
    """The smallest p-value over all coordinates and some random combinations of them, corrected for their number.

    Under equality this is below ``p`` with a probability of at most about ``p``.
    """
    rng = np.random.default_rng(0)
    pooled = np.concatenate([first, second])
    spread = pooled.std(axis=0)
    mixes = rng.choice([-1.0, 0.0, 1.0], size=(pooled.shape[1], directions)) / np.where(spread > 0, spread, 1)[:, None]
    views = [(first, second), (first @ mixes, second @ mixes)]
    centre = pooled.mean(axis=0)
    views.append((((first - centre) @ mixes) ** 2, ((second - centre) @ mixes) ** 2))
    values = [_one(a[:, i], b[:, i]) for a, b in views for i in range(a.shape[1])]
    return min(1.0, min(values) * len(values))


def _one(first: Sample, second: Sample) -> float:
    """A chi-square test on bins of about equal weight."""
    pooled = np.sort(np.concatenate([first, second]))
    edges = np.unique(pooled[:: max(len(pooled) // 12, 1)][1:])
    table = np.array(
        [np.bincount(np.searchsorted(edges, s, "left"), minlength=len(edges) + 1) for s in (first, second)]
    )
    # Neighbouring bins are joined until each holds enough for the chi-square approximation.
    group = np.cumsum(table.sum(axis=0)) // 30
    table = np.array([np.bincount(np.unique(group, return_inverse=True)[1], row) for row in table])
    return 1.0 if table.shape[1] < 2 else float(chi2_contingency(table).pvalue)
