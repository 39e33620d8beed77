"""One-way marginals over time: noisy counts of spans of arrivals smoothed by a Gaussian process with drift.

The share of a code moves as a random walk in the number of arrivals. Its variance per record is in proportion to the
share itself (plus a little), with one ``drift`` per column, that of a code of average share, chosen by maximum
likelihood; a code's records in a slot are a sample, which adds the variance ``share / records``. Given these, the best
linear estimate is one solve per code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headwater.public.partition import Floats, Integers

TINY = 1e-300
LOOKS = 4
"""After so many passes it is looked whether margins are met: that takes as long as a pass."""


def fit_margins(table: Floats, rows: Floats, columns: Floats, passes: int = 100, tolerance: float = 1e-9) -> Floats:
    """Iterative proportional fitting: the table scaled by rows and by columns until it has these margins."""
    start = table + 1e-12 * rows[..., :, None] * columns[..., None, :]
    across = np.ones((*start.shape[:-2], 1, start.shape[-1]))  # factors of the columns; the table itself is left alone
    for done in range(passes):
        down = rows[..., None] / np.maximum(np.matmul(start, across.swapaxes(-1, -2)), TINY)
        sums = np.matmul(down.swapaxes(-1, -2), start)
        before, across = across, columns[..., None, :] / np.maximum(sums, TINY)
        if done % LOOKS == LOOKS - 1 and np.abs(sums * before - columns[..., None, :]).sum(-1).max() < tolerance:
            break
    start *= down
    start *= across
    return start


def project(table: Floats, rows: Floats, columns: Floats, passes: int = 200, tolerance: float = 1e-7) -> Floats:
    """The nearest non-negative table with (almost) these margins, by alternating over its two dual vectors."""
    across = np.zeros(len(columns))
    for _ in range(passes):
        down = _threshold(table - across, rows)
        found = _threshold((table - down[:, None]).T, columns)
        moved = float(np.abs(found - across).max())
        across = found
        if moved < tolerance:
            break
    return np.maximum(table - down[:, None] - across, 0)


def _threshold(table: Floats, sums: Floats) -> Floats:
    ranked = -np.sort(-table, axis=1)
    levels = (np.cumsum(ranked, axis=1) - sums[:, None]) / np.arange(1, table.shape[1] + 1)
    last = np.maximum((ranked > levels).sum(1) - 1, 0)
    found: Floats = levels[np.arange(len(table)), last]
    return found


def lowest(function: Callable[[Integers], Floats], count: int) -> int:
    """Where a function that falls and then rises is lowest, of ``0 … count − 1``: of every third, then near it."""
    first = np.arange(0, count, 3)
    found = function(first)
    best = int(first[found.argmin()])
    near = np.arange(max(best - 2, 0), min(best + 3, count))
    others = near[near != best]
    values = np.insert(function(others), best - near[0], found.min()) if len(others) else found[:1]
    return int(near[values.argmin()])


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
    """The posterior medians of a column's shares under an estimated prior, shifted to sum to 1."""
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
    found, count = shares.copy(), len(widths)
    dense = shares[:count] / widths
    found[:count] = widths * (np.append(dense[1], dense[:-1]) + np.append(dense[1:], dense[-2])) / 2
    return found


def _increasing(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    order = np.argsort(values, axis=0, kind="stable")
    return np.take_along_axis(values, order, 0), weights[order]


def _summing_to_one(shifted: Callable[[float], Floats], step: float) -> Floats:
    """``shifted(x)`` for the ``x`` at which its sum, which grows with ``x``, is 1."""
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
    log = -(((shares - _per_bin(values)) / deviations) ** 2) / 2
    found: Floats = np.exp(log - log.max(0))
    return found


def posterior(shares: Floats, deviations: Floats, values: Floats, weights: Floats) -> Floats:
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
    return numbers.reshape(len(numbers), -1)


DRIFTS = np.concatenate([[0.0], np.geomspace(1e-7, 10.0, 17)])
"""Candidates for the drift over all records: the variance that a code of average share, 1/bins, gathers."""
ROUNDING = 1e-12
"""Variance, as a part of a code's prior variance, that is added to each observation: keeps matrices definite."""
EVEN_DRIFT = 0.1
"""Times 1/bins, added to the share that the drift of a code is in proportion to: rare codes move, too."""
FEWEST = 16
"""Beside fewer bins than this, a missing value is not taken to be as frequent as one of them (`even_shares`)."""
LIKELIHOOD_CODES = 48
"""The drift is chosen by the likelihood of this many codes, the most frequent ones."""


@dataclass(frozen=True)
class Slots:
    """Arrivals cut where any counted span begins or ends: everything is constant inside a slot."""

    edges: Floats

    @cached_property
    def sizes(self) -> Floats:
        return np.diff(self.edges)

    @cached_property
    def walk(self) -> Floats:
        middle = (self.edges[1:] + self.edges[:-1]) / 2 - self.edges[0]
        found: Floats = np.minimum.outer(middle, middle)
        return found

    def weights(self, start: float | Floats, end: float | Floats) -> Floats:
        first, last = np.asarray(start)[..., None], np.asarray(end)[..., None]
        held = np.maximum(np.minimum(self.edges[1:], last) - np.maximum(self.edges[:-1], first), 0)
        found: Floats = held / np.maximum(held.sum(-1, keepdims=True), 1e-300)
        return found


@dataclass(frozen=True)
class Share:
    """Estimated shares of a column's bins in the records of one span, and the variance of each estimate."""

    start: int
    end: int
    shares: Floats
    variance: Floats


def simplex(values: Floats) -> Floats:
    ranked = -np.sort(-values, axis=-1)
    excess = (np.cumsum(ranked, axis=-1) - 1) / np.arange(1, values.shape[-1] + 1)  # grows as long as it is smaller
    found: Floats = np.maximum(values - excess.max(axis=-1, keepdims=True), 0)
    return found


@dataclass(frozen=True)
class Smoothed:
    """Shares of one column's bins in every slot (each row sums to 1), the drift that was assumed, and their error."""

    shares: Floats
    drift: float
    error: Floats


def smooth(
    observed: Sequence[Share],
    slots: Slots,
    bins: int,
    span: Floats,
    widths: Integers | None = None,
    drift: float | None = None,
    *,
    rough: bool = False,
) -> Smoothed:
    """The posterior means of the shares of a column's bins in each slot, made non-negative and to sum to 1."""
    even = even_shares(bins, widths)
    if not observed or bins == 1:
        return Smoothed(np.tile(even, (len(slots.sizes), 1)), 0.0, np.sqrt(even * (1 - even)))
    average = slots.weights(np.array([o.start for o in observed]), np.array([o.end for o in observed]))
    noisy, noise = np.array([o.shares for o in observed]), np.array([o.variance for o in observed])
    precision = (1 / noise).sum(0)
    mean = simplex((noisy / noise).sum(0) / precision)
    speed = mean + EVEN_DRIFT / bins
    speed /= speed.mean()
    sizes = np.maximum(slots.sizes, 1.0)
    level, walk, sampled = 0.25 / bins, average @ slots.walk @ average.T, (average / sizes) @ average.T
    residual, length = (noisy - mean).T, slots.edges[-1] - slots.edges[0]

    still, index = mean[:, None, None] * sampled, np.arange(len(observed))

    def covariance(drifts: Floats, codes: slice | Integers) -> Floats:
        found: Floats = (drifts[:, None] * speed[codes])[..., None, None] * walk + still[codes] + level
        extra = ROUNDING * (level + drifts[:, None] * length * speed[codes])
        found[..., index, index] += noise.T[codes] + extra[..., None]
        return found

    frequent: Integers = np.argsort(-mean, kind="stable")[:LIKELIHOOD_CODES]

    def surprise(numbers: Integers) -> Floats:
        """The negative log-likelihood of the observed shares under these of `DRIFTS`, up to a constant."""
        both = np.empty((len(numbers), len(frequent), len(observed) + 1, len(observed) + 1))
        both[..., :-1, :-1] = covariance(DRIFTS[numbers] / length, frequent)
        both[..., -1, :-1] = residual[frequent]
        both[..., -1, -1] = 1e200  # so its row of the root is the residual, whitened; the upper triangle is not read
        root = np.linalg.cholesky(both)
        diagonal = np.diagonal(root, axis1=-2, axis2=-1)[..., :-1]
        found: Floats = 0.5 * (root[..., -1, :-1] ** 2).sum((1, 2)) + np.log(diagonal).sum((1, 2))
        return found

    if drift is None:
        drift = float(DRIFTS[lowest(surprise, len(DRIFTS))] / length) if len(observed) > 1 else 0.0
    cross = drift * speed[:, None] * (average @ (slots.walk @ span)) + level
    cross = cross + mean[:, None] * (average @ (span / sizes))
    both = np.stack([residual, cross], 2)
    solved = np.linalg.solve(covariance(np.array([drift]), slice(None))[0], both)
    back = solved[:, :, 0] @ average  # per bin and slot
    found = drift * speed[:, None] * (back @ slots.walk) + mean[:, None] * back / sizes + level * back.sum(1)[:, None]
    shares = found.T + mean

    prior = drift * speed * (span @ slots.walk @ span) + mean * (span @ (span / sizes)) + level
    error = np.sqrt(np.maximum(prior - (solved[:, :, 1] * cross).sum(1), 0))
    if rough:
        return Smoothed(simplex(shares), drift, error)
    estimated = span @ shares
    total = shrunk(nonnegative(estimated, error, widths), estimated, error, even)
    return Smoothed(_consistent(shares, span, total), drift, error)


def even_shares(bins: int, widths: Integers | None) -> Floats:
    even = np.full(bins, 1 / bins)
    if widths is not None and 0 < len(widths) < bins:
        even[-1] = 1 / (1 + max(len(widths), min(int(widths.sum()), FEWEST)))
        even[:-1] = (1 - even[-1]) / len(widths)
    return even


def shrunk(found: Floats, shares: Floats, deviations: Floats, even: Floats) -> Floats:
    chi2 = float((((shares - even) / np.maximum(deviations, 1e-9)) ** 2).sum())
    kept = math.sqrt(max(1 - len(found) / chi2, 0.0)) if chi2 > 0 else 0.0
    return even + kept * (found - even)


def _consistent(shares: Floats, span: Floats, total: Floats, passes: int = 20) -> Floats:
    found, inside = simplex(shares), span > 0
    scaled = found[inside] + 1e-5 * total
    for _ in range(passes):
        scaled *= total / np.maximum(span[inside] @ scaled, 1e-300)
        scaled /= np.maximum(scaled.sum(1, keepdims=True), 1e-300)
    found[inside] = scaled
    return found
