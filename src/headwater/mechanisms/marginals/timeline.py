"""One-way marginals over time: noisy counts of spans of arrivals smoothed by a Gaussian process with drift.

The share of a code moves as a random walk in the number of arrivals. Its variance per record is in proportion to the
share itself (plus a little), with one ``drift`` per column, that of a code of average share, chosen by maximum
likelihood; a code's records in a slot are a sample, which adds the variance ``share / records``. Given these, the best
linear estimate is one solve per code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headwater.mechanisms.marginals.fitting import lowest
from headwater.mechanisms.marginals.grid import Floats
from headwater.mechanisms.marginals.measured import Integers
from headwater.mechanisms.marginals.nonnegative import nonnegative

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
        """Records in each slot."""
        return np.diff(self.edges)

    @cached_property
    def walk(self) -> Floats:
        """Covariance of a random walk of variance 1 per record, between the middles of slots."""
        middle = (self.edges[1:] + self.edges[:-1]) / 2 - self.edges[0]
        found: Floats = np.minimum.outer(middle, middle)
        return found

    def weights(self, start: float | Floats, end: float | Floats) -> Floats:
        """The part of the span's records that lies in each slot; sums to 1. A row for each of several spans."""
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
    """The nearest non-negative vectors that sum to 1, along the last axis."""
    ranked = -np.sort(-values, axis=-1)
    excess = (np.cumsum(ranked, axis=-1) - 1) / np.arange(1, values.shape[-1] + 1)  # grows as long as it is smaller
    found: Floats = np.maximum(values - excess.max(axis=-1, keepdims=True), 0)
    return found


@dataclass(frozen=True)
class Smoothed:
    """Shares of one column's bins in every slot (each row sums to 1), the drift that was assumed, and their error.

    ``drift`` is the variance that the share of an average bin gathers in one record; ``error`` is the posterior
    standard deviation of each bin's share over the span that was asked for.
    """

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
    """The posterior means of the shares of a column's bins in each slot, made non-negative and to sum to 1.

    Parameters
    ----------
    observed
        Noisy shares of spans; with none of them shares are even.
    slots
        The slots; every observed span is a union of some.
    bins
        How many bins the column has.
    span
        Weights of the slots in the mean that is published. It is estimated by itself (`nonnegative`), its error is
        reported, and the shares of the slots are scaled to agree with it.
    widths
        How many values each bin holds, if neighbouring bins are neighbouring values (`nonnegative`).
    drift
        The variance that the share of an average bin gathers in one record; chosen by likelihood unless given.
    rough
        Whether to project shares to the simplex instead: takes a fifth of the time, and is good enough for choices.
    """
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
        """The covariance of the observed shares of each of these codes: drift + sampling + level + noise."""
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
    """What is assumed of a column of which nothing is known: as much in each bin.

    Bins can be wide, but missing is one value: it has no more than it would have beside `FEWEST` bins.
    """
    even = np.full(bins, 1 / bins)
    if widths is not None and 0 < len(widths) < bins:
        even[-1] = 1 / (1 + max(len(widths), min(int(widths.sum()), FEWEST)))
        even[:-1] = (1 - even[-1]) / len(widths)
    return even


def shrunk(found: Floats, shares: Floats, deviations: Floats, even: Floats) -> Floats:
    """Estimates moved towards even shares, as far as noise alone could explain that they differ.

    With ``χ² = Σ ((share − even)/deviation)²``, the distance is multiplied by ``√(1 − bins/χ²)``, or by 0: the root
    since `nonnegative` has removed part of the noise before. It matters for few records only.
    """
    chi2 = float((((shares - even) / np.maximum(deviations, 1e-9)) ** 2).sum())
    kept = math.sqrt(max(1 - len(found) / chi2, 0.0)) if chi2 > 0 else 0.0
    return even + kept * (found - even)


def _consistent(shares: Floats, span: Floats, total: Floats, passes: int = 20) -> Floats:
    """Shares projected to the simplex in each slot, and in the slots of the span scaled to have the mean ``total``.

    Iterative proportional fitting: bins to ``total``, slots to 1, ``passes`` times.
    """
    found, inside = simplex(shares), span > 0
    scaled = found[inside] + 1e-5 * total
    for _ in range(passes):
        scaled *= total / np.maximum(span[inside] @ scaled, 1e-300)
        scaled /= np.maximum(scaled.sum(1, keepdims=True), 1e-300)
    found[inside] = scaled
    return found
