"""Draws of integer Laplace noise, counted as they come: a tally is small, and tallies add."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from decimal import Decimal, localcontext
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from headwater.public.partition import Integers
from headwater.secret.noise import Noise
from tests.support.noise_checks import Exact, binomial, bins, chi_square, how_many

Counts = NDArray[np.int64]
Chances = NDArray[np.float64]
Draw = Callable[[float, int, int], Integers]  # scale, first address, how many

TAILS = (30, 300, 3000)  # how many draws are expected beyond each threshold
LEVELS = 5  # far below 0, below 0, 0, above 0, far above 0: the classes of a draw in a pair


class Law:
    """The exact law of one scale, cut into bins for ``n`` draws."""

    def __init__(self, scale: float, n: int) -> None:
        self.exact, self.scale, self.n = Exact(scale), scale, n
        positive = bins(self.exact, n)
        self.edges = np.array([1 - edge for edge in reversed(positive)] + positive)
        outward = [self.exact.between(k, m) for k, m in pairwise(positive)] + [self.exact.from_(positive[-1])]
        self.chances = np.array([*reversed(outward), self.exact.zero(), *outward])
        self.zero = len(positive)  # the bin of 0
        far = max(len(positive) // 2, 1)
        signed = np.arange(len(self.chances)) - self.zero
        self.level = (np.sign(signed) * np.where(np.abs(signed) > far, 2, 1) + 2) * (signed != 0) + 2 * (signed == 0)
        self.levels = np.array([self.chances[self.level == level].sum() for level in range(LEVELS)])
        self.pairs: Chances = np.multiply.outer(self.levels, self.levels).ravel()
        self.tails = [self.exact.where_tail_is(expected / n / 2) for expected in TAILS]
        self.lags = sorted({1, math.ceil(scale)})

    def moments(self) -> tuple[float, float]:
        """Mean and variance of ``|Z|``, exactly but for the last rounding."""
        with localcontext(prec=50):
            q = self.exact.q
            mean, square = 2 * q / (1 - q * q), 2 * q / (1 - q) ** 2
            return float(mean), float(square - mean * mean)

    def rare(self) -> float:
        """How many draws are expected that are not 0."""
        with localcontext(prec=50):
            return float(self.n * (1 - Decimal(self.exact.zero())))


@lru_cache(maxsize=64)
def law_of(scale: float, n: int) -> Law:
    return Law(scale, n)


@dataclass
class Tally:
    """What some draws of one scale have in common with all others of it: counts, and nothing else."""

    draws: int
    bins: Counts
    size: float  # the sum of |Z|
    tails: Counts  # (upper, lower) × thresholds
    seconds: Counts  # (up, down) × lags: draws in the second of a pair of runs
    pairs: Counts  # levels of neighbouring draws

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, item.name) + getattr(other, item.name) for item in fields(self)))


def count(law: Law, sample: Integers) -> Tally:
    """The tally of draws at neighbouring addresses."""
    place = np.searchsorted(law.edges, sample, side="right")
    folded = sample ^ (sample >> 63)  # z, or −1 − z below 0: both sides begin with 0
    up = sample >= 0
    seconds = np.empty((2, len(law.lags)), dtype=np.int64)
    for i, lag in enumerate(law.lags):
        second = ((folded if lag == 1 else folded // lag) & 1).astype(bool)
        seconds[:, i] = how_many(second & up), how_many(second & ~up)
    return Tally(
        len(sample),
        np.bincount(place, minlength=len(law.chances)),
        float(np.abs(sample).sum(dtype=np.float64)),
        np.array([[how_many(side >= k) for k in law.tails] for side in (sample, -sample)]),
        seconds,
        paired(law.level[place[0::2]], law.level[place[1::2]]),
    )


def levels(law: Law, sample: Integers) -> Counts:
    found: Counts = law.level[np.searchsorted(law.edges, sample, side="right")]
    return found


def paired(first: Counts, second: Counts, kinds: int = LEVELS) -> Counts:
    """How often each pair of levels came."""
    both = min(len(first), len(second))
    return np.bincount(first[:both] * kinds + second[:both], minlength=LEVELS * kinds)


def judge(law: Law, tally: Tally) -> dict[str, float]:
    """All p-values of one scale. Where next to nothing is expected, a check says nothing and is left out."""
    n, exact = tally.draws, law.exact
    found = {"whole law": chi_square(tally.bins, law.chances)}
    found["zero"] = binomial(int(tally.bins[law.zero]), n, exact.zero())
    below, above = int(tally.bins[: law.zero].sum()), int(tally.bins[law.zero + 1 :].sum())
    found["symmetry"] = binomial(above, above + below, 0.5)
    if law.rare() > 1000:
        found["size"] = float(2 * stats.norm.sf(abs(deviation(law, tally))))
    for i, lag in enumerate(law.lags):
        chance = exact.odds(lag) / (1 + exact.odds(lag))
        for name, second, of in zip(("up", "down"), tally.seconds[:, i], (n - below, below), strict=True):
            found[f"slope {name}, {'1' if lag == 1 else 'scale'}"] = binomial(int(second), of, chance)
    for expected, k, upper, lower in zip(TAILS, law.tails, *tally.tails, strict=True):
        found[f"upper tail {expected}"] = binomial(int(upper), n, exact.from_(k))
        found[f"lower tail {expected}"] = binomial(int(lower), n, exact.from_(k))
    found["neighbours"] = chi_square(tally.pairs, law.pairs)
    return found


def deviation(law: Law, tally: Tally) -> float:
    """How far the sum of all |Z| is from what is expected, in standard deviations."""
    mean, variance = law.moments()
    return (tally.size - tally.draws * mean) / math.sqrt(tally.draws * variance)


def together(deviations: list[tuple[int, float]]) -> float:
    """One p-value for the sizes at many scales: an error that they share adds up."""
    weights = np.sqrt([draws for draws, _ in deviations])
    total = float(weights @ np.array([z for _, z in deviations])) / float(np.linalg.norm(weights))
    return float(2 * stats.norm.sf(abs(total)))


def even(law: Law, sample: Integers, seed: int) -> float:
    """Kolmogorov and Smirnov: draws, spread evenly within their step of the distribution function, are uniform."""
    exact, size = law.exact, np.abs(sample).astype(np.float64)
    with localcontext(prec=50):
        tail = float(exact.log_q)  # P(Z ≥ k) = q^k / (1 + q)
        one = float(1 / (1 + exact.q))
    beyond = np.exp((size + 1) * tail) * one  # P(Z > |z|)
    atom = np.exp(size * tail) * exact.zero()
    place = beyond + atom * np.random.default_rng(seed).random(len(sample))
    return float(stats.kstest(np.where(sample < 0, place, 1 - place), "uniform", method="asymp").pvalue)


def laplace(seed: int, hi: int) -> Draw:
    """The sampler under test, at consecutive addresses."""
    noise = Noise(seed=seed)
    return lambda scale, first, n: noise.laplace_at(scale, hi, np.arange(first, first + n, dtype=np.uint64))
