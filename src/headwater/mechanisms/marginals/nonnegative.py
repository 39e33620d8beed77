"""Non-negative shares of a column's bins from estimates with known errors, by empirical Bayes.

Many bins are empty or nearly so, some hold most of the records, and which are which is unknown. A bin's share is taken
to be 0, one of a geometric grid of values or, where neighbouring bins are neighbouring values, near the mean of its
neighbours; how often each occurs is estimated from the bins of the column by EM, with a weak prior. The estimate of a
bin is its posterior median, the best in total variation. That the shares sum to 1 is one more observation: it shifts
every estimate in proportion to its variance.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headwater.mechanisms.marginals.grid import Floats
from headwater.mechanisms.marginals.measured import Integers

VALUES = 60
"""How many values the grid has, besides 0."""
EMPTY = 0.3
"""The prior probability that a bin is empty."""
PRIOR = 3.0
"""How many bins the prior counts as in EM."""
CLEAR = 6.0
"""Standard deviations above 0 from which on an estimate is taken as it is: the grid is coarser than its error."""
_RATIOS = np.exp(np.geomspace(0.05, 1.2, 6))
NEIGHBOURS = np.concatenate([1 / _RATIOS[::-1], [1.0], _RATIOS])
"""Multiples of the mean of its neighbours that a bin's share may be."""
SMOOTH = 0.5
"""The prior probability that it is one of these."""
ITERATIONS = (8, 6, 6)
"""Iterations of EM: without neighbours, then twice with their latest estimates."""
EXACT = 1e-10
"""How near to 1 the sum is brought."""


def nonnegative(shares: Floats, deviations: Floats, widths: Integers | None = None) -> Floats:
    """The posterior medians of a column's shares under an estimated prior, shifted to sum to 1.

    Fewer than three shares are only clipped at 0 and scaled.

    Parameters
    ----------
    shares
        Unbiased estimates; they may be negative.
    deviations
        Their standard deviations.
    widths
        How many values each bin holds, if neighbouring bins are neighbouring values. There may be fewer of them than
        bins: the last ones have no neighbours.
    """
    if len(shares) < 3:
        clipped = np.maximum(shares, 0)
        return clipped / max(clipped.sum(), 1e-300) if clipped.any() else np.full(len(shares), 1 / len(shares))
    deviations = np.maximum(deviations, 1e-9)
    least, most = max(deviations.min() / 3, 1e-7), 1.2 * max(shares.max(), deviations.max())
    grid = np.concatenate([[0.0], np.geomspace(least, most, VALUES)])
    values = np.repeat(grid[:, None], len(shares), 1)
    prior = weights = np.concatenate([[EMPTY], np.full(VALUES, (1 - EMPTY) / VALUES)])
    phases = ITERATIONS if widths is not None and len(widths) > 3 else (sum(ITERATIONS),)
    for phase, iterations in enumerate(phases):
        if phase and widths is not None:
            far, heavy = _increasing(values, weights)
            predicted = neighbours(medians(posterior(shares, deviations, far, heavy), far), widths)
            values = np.concatenate([values[: len(grid)], np.multiply.outer(NEIGHBOURS, predicted)])
        if phase == 1:
            near = np.full(len(NEIGHBOURS), SMOOTH / len(NEIGHBOURS))
            prior, weights = (np.concatenate([(1 - SMOOTH) * some, near]) for some in (prior, weights))
        likely = likelihood(shares, deviations, values)
        for _ in range(iterations):
            weights = (weights * (likely @ (1 / (weights @ likely))) + PRIOR * prior) / (len(shares) + PRIOR)
    values, weights = _increasing(values, weights)

    def shifted(shift: float) -> Floats:
        """The estimates if every share were larger by ``shift`` times its variance: medians, unless it is clear."""
        moved = shares + shift * deviations**2
        unclear = np.flatnonzero(moved <= CLEAR * deviations)
        moved[unclear] = medians(
            posterior(moved[unclear], deviations[unclear], values[:, unclear], weights[:, unclear]), values[:, unclear]
        )
        return moved

    result = _summing_to_one(shifted, float(1 / (deviations**2).sum()))
    result /= result.sum()
    return result


def neighbours(shares: Floats, widths: Integers) -> Floats:
    """Each bin's width times the mean share of one value in the bins beside it; bins without widths keep their own.

    >>> neighbours(np.array([0.2, 0.5, 0.4, 0.1]), np.array([1, 1, 2])).tolist()
    [0.5, 0.2, 1.0, 0.1]
    """
    found, count = shares.copy(), len(widths)
    dense = shares[:count] / widths
    found[:count] = widths * (np.append(dense[1], dense[:-1]) + np.append(dense[1:], dense[-2])) / 2
    return found


def _increasing(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """The values of each bin in increasing order, and their weights."""
    order = np.argsort(values, axis=0, kind="stable")
    return np.take_along_axis(values, order, 0), weights[order]


def _summing_to_one(shifted: Callable[[float], Floats], step: float) -> Floats:
    """``shifted(x)`` for the ``x`` at which its sum, which grows with ``x``, is 1.

    If the sum jumps over 1, the vectors of both sides are interpolated. The root is bracketed by ever longer steps from
    0, then found by secants, and every third time by bisection, since secants are slow where the sum jumps.
    """
    at, ends = 0.0, dict[bool, tuple[float, float, Floats]]()
    for turn in range(100):
        found = shifted(at)
        excess = float(found.sum()) - 1
        if abs(excess) < EXACT:
            break
        ends[excess > 0] = at, excess, found
        if len(ends) < 2:
            at -= 2.0**turn * step * excess
            continue
        (low, under, first), (high, over, last) = ends[False], ends[True]
        part = under / (under - over)
        if high - low <= 1e-12 * abs(at):
            return (1 - part) * first + part * last
        at = low + (high - low) * (part if turn % 3 else 0.5)
    return found


def likelihood(shares: Floats, deviations: Floats, values: Floats) -> Floats:
    """The likelihood of each value (first axis) for each bin, under normal errors; the largest of a bin is 1.

    Values may be the same for all bins, or have a second axis for them.
    """
    log = -(((shares - _per_bin(values)) / deviations) ** 2) / 2
    found: Floats = np.exp(log - log.max(0))
    return found


def posterior(shares: Floats, deviations: Floats, values: Floats, weights: Floats) -> Floats:
    """The probability of each value (first axis) for each bin, under normal errors."""
    found = likelihood(shares, deviations, values) * _per_bin(weights)
    found /= found.sum(0)
    return found


def medians(probabilities: Floats, values: Floats) -> Floats:
    """The median of each bin's posterior, interpolated between neighbouring values, which increase."""
    values, upper = np.broadcast_to(_per_bin(values), probabilities.shape), np.cumsum(probabilities, axis=0)
    at = np.minimum((upper < 0.5).sum(0), len(values) - 1)
    before, bins = np.maximum(at - 1, 0), np.arange(upper.shape[1])
    below = np.where(at > 0, upper[before, bins], 0)
    part = np.clip((0.5 - below) / np.maximum(upper[at, bins] - below, 1e-9), 0, 1)
    high, low = values[at, bins], values[before, bins]
    found: Floats = np.where(at > 0, low + (high - low) * part, high)
    return found


def _per_bin(numbers: Floats) -> Floats:
    """The same numbers with a second axis for bins, of length 1 if they are the same for all."""
    return numbers.reshape(len(numbers), -1)
