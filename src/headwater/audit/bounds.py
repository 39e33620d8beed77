"""How sure one can be of a probability, and of a ratio of two, after counting.

Formal guarantees
-----------------
`lower` and `upper` are the one-sided bounds of Clopper and Pearson: each is wrong with a probability of at most its
``alpha``, for every true probability and every number of runs. `epsilon_lower` uses one of each, at half its
``alpha``, so it exceeds the true ``log(p/q)`` with a probability of at most ``alpha``.
"""

from __future__ import annotations

import math

_TINY = 1e-300


def lower(hits: int, runs: int, alpha: float) -> float:
    """A bound that the true probability is below with a chance of at most ``alpha``.

    >>> round(lower(10, 10, 0.05), 4)
    0.7411
    """
    _check(hits, runs, alpha)
    return 0.0 if hits == 0 else _quantile(alpha, hits, runs - hits + 1)


def upper(hits: int, runs: int, alpha: float) -> float:
    """A bound that the true probability is above with a chance of at most ``alpha``.

    >>> round(upper(0, 10, 0.05), 4)
    0.2589
    """
    _check(hits, runs, alpha)
    return 1.0 if hits == runs else _quantile(1 - alpha, hits + 1, runs - hits)


def epsilon_lower(hits: tuple[int, int], runs: tuple[int, int], alpha: float) -> float:
    """A bound that ``log(p/q)`` of an event is below with a chance of at most ``alpha``; never negative.

    ``hits`` and ``runs`` are those of the stream on which the event should be likelier, then those of the other.

    >>> round(epsilon_lower((900, 100), (1000, 1000), alpha=0.001), 2)
    1.86
    """
    p, q = lower(hits[0], runs[0], alpha / 2), upper(hits[1], runs[1], alpha / 2)
    return max(math.log(p / q), 0.0) if p > 0 else 0.0


def cannot_exceed(runs: int, alpha: float) -> float:
    """The largest bound that so many runs can ever give: with hits in all of one stream's and none of the other's."""
    return epsilon_lower((runs, 0), (runs, runs), alpha)


def _check(hits: int, runs: int, alpha: float) -> None:
    if not (0 <= hits <= runs and runs > 0 and 0 < alpha < 1):
        raise ValueError(f"no bound for {hits} hits in {runs} runs at alpha = {alpha!r}")


def _quantile(level: float, a: int, b: int) -> float:
    """Where the beta distribution of ``a`` and ``b`` has this much mass below, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if beta_mass(middle, a, b) < level else (low, middle)
    return (low + high) / 2


def beta_mass(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function ``I_x(a, b)``.

    >>> round(beta_mass(0.3, 2, 5), 6)
    0.579825
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # there the fraction of the other side converges faster
        return 1 - beta_mass(1 - x, b, a)
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log) * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, from the front, until it no longer moves."""
    result = d = 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    c, m = 1.0, 0
    while True:
        m += 1
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _away_from_zero(1 + term * d)
            c = _away_from_zero(1 + term / c)
            result *= d * c
        if abs(d * c - 1) < 1e-15 or m > 100_000:
            return result


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
