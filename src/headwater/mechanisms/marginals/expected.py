"""The error to expect of a release's marginals, from published numbers only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwater.mechanisms.accuracy import ExpectedError
from headwater.mechanisms.marginals.denoise import NORMAL
from headwater.mechanisms.marginals.estimate import Estimate
from headwater.mechanisms.marginals.grid import Floats, widths
from headwater.mechanisms.marginals.measured import Coding, Integers
from headwater.mechanisms.marginals.shape import Shape

ONE_WAY = (1.0, 1.4)
"""Typical and 90% error, times what the posterior says of a column: the mean over all columns. Calibrated
(docs/decisions/marginals.md)."""
ONE_COLUMN = (0.95, 1.55)
"""The same of a column by itself, whose error varies more than the mean does."""
TWO_WAY = (1.08, 1.2)
"""The same of the mean over all pairs, as far as tables and one-way marginals say."""
LEFT = ((1.3, 0.001, 0.049), (2.0, 0.003, 0.07))
"""Typical and 90% structure that a pair has beyond that if it was not measured while others were: so many times what
noise leaves of measured ones, and so much that is left without noise, and at most so much."""
BLIND = (1.08, 1.4)
"""As `TWO_WAY`, where no pair was measured at all."""
HEAVY = 0.5
"""A wide part that holds this much of the mass may have one value that does."""
UNMEASURED = 0.7
"""Of a column whose values are all in one bin, so that they are spread evenly: rarely are they so in the data."""
UNKNOWN = 0.12
"""Total variation from independence that is typical of a pair, where nothing is known of any."""


def expected_error(estimate: Estimate, names: Sequence[str], codings: Sequence[Coding]) -> ExpectedError:
    """Typical and 90% total variation of two-way marginals; of one-way ones on average and for each column."""
    sizes = np.diff(estimate.edges)
    margins = [sizes @ m / sizes.sum() for m in estimate.margins]
    ones = np.array([column_error(*pair) for pair in zip(margins, estimate.errors, strict=True)])
    blind = [unmeasured(*pair) for pair in zip(estimate.grids, codings, strict=True)]
    ones[blind] = np.maximum(ones[blind], UNMEASURED)
    ones = np.maximum(ones, [UNMEASURED * unresolved(*pair) for pair in zip(estimate.shapes, codings, strict=True)])
    parts = {"one-way": _scaled(float(ones.mean()), ONE_WAY)}
    parts |= {f"column {name}": _scaled(float(one), ONE_COLUMN) for name, one in zip(names, ones, strict=True)}
    return ExpectedError(*pair_errors(estimate, ones), "two-way total variation", parts)


def unmeasured(grid: Integers, coding: Coding) -> bool:
    """Whether several values of a column share the only bin, which then has no error of its own: it has no table."""
    return coding.values > 1 and len(grid) - coding.missing <= 1


def unresolved(shape: Shape, coding: Coding) -> float:
    """The share of a part that has most of the mass and several values, of which one may have it all; 0 if none has."""
    wide = widths(shape.edges, coding.size) > 1
    most = float(shape.shares[wide].max(initial=0.0))
    return most if most >= HEAVY else 0.0


def column_error(shares: Floats, deviations: Floats) -> float:
    """Expected total variation of one column: normal errors, smaller where clipping at 0 cuts them off."""
    return float(np.minimum(NORMAL * np.minimum(deviations, shares + deviations / 4).sum() / 2, 1))


def pair_errors(estimate: Estimate, ones: Floats) -> tuple[float, float]:
    """Typical and 90% total variation of pairs, on average: of noise in tables and one-way marginals, and of the rest.

    How a pair depends that was never measured is not known. The strongest pairs are chosen first, so the others are
    taken to have structure in proportion to the noise of measured ones, up to a limit.
    """
    columns = len(ones)
    count = columns * (columns - 1) // 2
    if not count:
        return _scaled(float(ones.mean()), BLIND)
    if not estimate.losses:
        return _scaled(1.4 * float(ones.mean()) + UNKNOWN, BLIND)
    errors = np.sqrt(np.add.outer(ones**2, ones**2))
    for (a, b), loss in estimate.losses.items():
        errors[a, b] = np.hypot(loss, errors[a, b])
    known, loss = float(errors[np.triu_indices(columns, 1)].mean()), float(np.mean(list(estimate.losses.values())))
    open_ = 1 - len(estimate.losses) / count
    parts = zip(TWO_WAY, LEFT, strict=True)
    typical, upper = (
        min(factor * known + open_ * min(times * loss + least, most), 1.0) for factor, (times, least, most) in parts
    )
    return typical, upper


def _scaled(error: float, factors: tuple[float, float]) -> tuple[float, float]:
    typical, upper = (min(error * factor, 1.0) for factor in factors)
    return typical, upper
