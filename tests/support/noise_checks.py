"""The exact law of integer Laplace noise, and checks of samples against it."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from headwater.public.partition import Integers
from headwater.secret.digits import GeometricCoins
from headwater.secret.noise import Noise

ALPHA = 1e-9
MILLION = 1_000_000
SCALES = [0.05, 0.3, 1.0, 2.5, 25.0, 1000.0, 1e6]
ONE_WORD, TWO_WORDS = 1.78e8, 1.8e8  # 31 digits fill one machine word with two variables; 32 need two
WIDE = [ONE_WORD, TWO_WORDS, 1e12, 2.0**50]
LAST_COIN = 2.0**14 / 12 * (1 - 1e-9)  # its last coin is as frequent as can be, e^−12

Sampler = Callable[[float, int], Integers]


# The exact law, from its formula ------------------------------------------------------------------------------------


class Exact:
    """``P(Z = z) = (1−q)/(1+q) · q^|z|``, in 50 decimal digits."""

    def __init__(self, scale: float) -> None:
        with localcontext(prec=50):
            self.log_q = -1 / Decimal(scale)
            self.q = self.log_q.exp()

    def zero(self) -> float:
        with localcontext(prec=50):
            return float((1 - self.q) / (1 + self.q))

    def from_(self, k: int) -> float:
        """``P(Z ≥ k)`` for ``k ≥ 1``."""
        with localcontext(prec=50):
            return float((k * self.log_q).exp() / (1 + self.q))

    def between(self, k: int, m: int) -> float:
        """``P(k ≤ Z < m)`` for ``1 ≤ k < m``."""
        with localcontext(prec=50):
            return float(((k * self.log_q).exp() - (m * self.log_q).exp()) / (1 + self.q))

    def odds(self, lag: int) -> float:
        with localcontext(prec=50):
            return float((lag * self.log_q).exp())

    def where_tail_is(self, tail: float) -> int:
        """The smallest ``k ≥ 1`` with ``P(Z ≥ k) ≤ tail``."""
        with localcontext(prec=50):
            k = (Decimal(tail) * (1 + self.q)).ln() / self.log_q
            return max(1, math.ceil(k))


def expansion(exponent: Fraction, count: int, *, odds: bool) -> int:
    """The first ``count`` bits of ``p = e^−x``, or with ``odds`` of ``p = e^−x/(1 + e^−x)``, by interval arithmetic.

    Integers only, and not the way of `GeometricCoins.bits`: the power series of ``e^(x/2^k)``, squared ``k`` times.
    """
    halvings = max(0, math.ceil(exponent).bit_length() + 1)
    y = exponent / (1 << halvings)
    work = count + 64
    while True:
        one = 1 << work
        term_low = term_high = low = high = one
        n = 1
        while term_high > 1:
            term_low = term_low * y.numerator // (y.denominator * n)
            term_high = -(-term_high * y.numerator // (y.denominator * n))
            low, high, n = low + term_low, high + term_high, n + 1
        high += 2 * term_high  # what is left of the series is less than its last term, as y ≤ 1/2
        for _ in range(halvings):
            low, high = low * low >> work, -(-high * high >> work)
        ends = [(one << count) // (end + one * odds) for end in (high, low)]
        if ends[0] == ends[1]:
            return ends[0]
        work *= 2


def coin_bits(law: GeometricCoins, coin: int, count: int) -> int:
    return expansion(law.rate * (1 << coin), count, odds=coin < law.digits)


# The checks ---------------------------------------------------------------------------------------------------------


def how_many(mask: NDArray[np.bool_] | NDArray[np.int64]) -> int:
    return int(np.count_nonzero(mask))


def binomial(hits: int, n: int, p: float) -> float:
    """Two-sided exact p-value."""
    return float(min(1.0, 2 * min(stats.binom.cdf(hits, n, p), stats.binom.sf(hits - 1, n, p))))


def bins(exact: Exact, n: int) -> list[int]:
    """Edges ``1 = k_0 < k_1 < …`` that cut the positive half into at most 40 parts, with 100 expected in each."""
    edges, least = [1], max(100 / n, exact.from_(1) / 40)
    while (rest := exact.from_(edges[-1])) > 2 * least:
        step = max(edges[-1] + 1, exact.where_tail_is(rest - least))
        if exact.from_(step) < least:
            break
        edges.append(step)
    return edges


def tally(sample: Integers, exact: Exact) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Observed counts and probabilities: zero first, then outwards on both sides."""
    edges = bins(exact, len(sample))
    halves = [np.histogram(side, [*edges, 2**62])[0] for side in (sample, -sample)]
    outward = [exact.between(k, m) for k, m in pairwise(edges)] + [exact.from_(edges[-1])]
    counts = np.concatenate([[how_many(sample == 0)], *halves])
    return counts, np.array([exact.zero(), *outward, *outward])


def chi_square(counts: NDArray[np.int64], chances: NDArray[np.float64]) -> float:
    """Bins with fewer than 100 expected are put together, and with the largest bin if they are still too few."""
    expected = chances * counts.sum()
    small = expected < 100
    if expected[small].sum() < 100:
        small[expected.argmax()] = True
    if small.all():
        return 1.0
    observed = np.append(counts[~small], counts[small].sum())
    expected = np.append(expected[~small], expected[small].sum())
    return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1))


def goodness_of_fit(sample: Integers, scale: float) -> dict[str, float]:
    """16 p-values: the whole law, the mass at zero, symmetry, the slope of the log ratio, and the tails."""
    exact, n = Exact(scale), len(sample)
    found = {"chi-square": chi_square(*tally(sample, exact))}
    found["zero"] = binomial(how_many(sample == 0), n, exact.zero())
    positive, negative = how_many(sample > 0), how_many(sample < 0)
    found["symmetry"] = binomial(positive, positive + negative, 0.5)
    for lag in (1, math.ceil(scale)):
        # Cut 0, 1, 2, … into pairs of runs of length `lag`: the second of a pair has odds q^lag against the first.
        for name, side in (("up", sample[sample >= 0]), ("down", -1 - sample[sample < 0])):
            second = how_many(side // lag % 2)
            odds = exact.odds(lag)
            found[f"slope {name}, lag {lag} of {scale}"] = binomial(second, len(side), odds / (1 + odds))
    for expected in (30, 35, 300, 3000):
        k = exact.where_tail_is(expected / n / 2)
        for name, side in (("upper", sample), ("lower", -sample)):
            found[f"{name} tail, {expected} expected"] = binomial(how_many(side >= k), n, exact.from_(k))
    k = exact.where_tail_is(35 / n / 2)
    found["both tails"] = binomial(how_many(np.abs(sample) >= k), n, 2 * exact.from_(k))
    return found


def assert_fits(found: dict[str, float]) -> None:
    assert {name: p for name, p in found.items() if p < ALPHA} == {}


def draws(scale: float, n: int, seed: int = 1) -> Integers:
    return Noise(seed=seed).laplace_at(scale, hi=seed, lo=np.arange(n))
