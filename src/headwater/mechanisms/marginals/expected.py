"""The error to expect of a release's marginals, from published numbers only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwater.mechanisms.accuracy import ExpectedError
from headwater.mechanisms.marginals.denoise import NORMAL
from headwater.mechanisms.marginals.estimate import Estimate
from headwater.mechanisms.marginals.grid import Floats

ONE_WAY = (1.0, 1.5)
"""Typical and 90% error, times what the posterior says of a column. Calibrated (docs/benchmarks/tables.md)."""
TWO_WAY = (1.0, 1.35)
"""The same of the mean over all pairs."""
UNKNOWN = 0.12
"""Total variation from independence that is typical of a pair, where nothing is known of any."""


def expected_error(estimate: Estimate, names: Sequence[str]) -> ExpectedError:
    """Typical and 90% total variation of two-way marginals; of one-way ones on average and for each column."""
    sizes = np.diff(estimate.edges)
    margins = [sizes @ m / sizes.sum() for m in estimate.margins]
    ones = np.array([column_error(*pair) for pair in zip(margins, estimate.errors, strict=True)])
    parts = {"one-way": _scaled(float(ones.mean()), ONE_WAY)}
    parts |= {f"column {name}": _scaled(float(one), ONE_WAY) for name, one in zip(names, ones, strict=True)}
    return ExpectedError(*_scaled(pair_error(estimate, ones), TWO_WAY), "two-way total variation", parts)


def column_error(shares: Floats, deviations: Floats) -> float:
    """Expected total variation of one column: normal errors, smaller where clipping at 0 cuts them off."""
    return float(np.minimum(NORMAL * np.minimum(deviations, shares + deviations / 4).sum() / 2, 1))


def pair_error(estimate: Estimate, ones: Floats) -> float:
    """Expected total variation of pairs, on average: noise in measured tables, and in one-way marginals of the rest.

    What pairs that were never measured depend on is not known. Chosen pairs are the strongest, so the others are taken
    to have about as much structure left as measured ones have noise.
    """
    columns = len(ones)
    count = columns * (columns - 1) / 2
    if not count:
        return float(ones.mean())
    mean = float(ones.mean())
    if not estimate.losses:
        return float(np.hypot(1.4 * mean, UNKNOWN))
    measured = [np.hypot(loss, np.hypot(ones[a], ones[b])) for (a, b), loss in estimate.losses.items()]
    return float(np.mean(measured))


def _scaled(error: float, factors: tuple[float, float]) -> tuple[float, float]:
    typical, upper = (min(error * factor, 1.0) for factor in factors)
    return typical, upper
