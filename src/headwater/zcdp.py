"""From ρ to (ε, δ): the conversion of Canonne, Kamath and Steinke (2020), with certified rounding.

If everything that is published is ρ-zCDP, it is (ε, δ)-differentially private for every ``α > 1`` and

    δ = exp((α−1)(αρ−ε)) · (1−1/α)^α / (α−1).

Solved for ρ this is a bound for each ``α``; the best ``α`` is found with floats, and then, whatever it is, the bound is
computed with it in decimal arithmetic and rounded down (`proofs/gaussian.md`).
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

_DIGITS = 100
_SLACK = Fraction(1, 10**20)  # taken off ρ, relatively: far more than rounding can have added to it


@lru_cache(maxsize=256)
def rho_for(epsilon: float, delta: float) -> Fraction:
    """The largest ρ that is certified to give ``epsilon`` and ``delta``, rounded down.

    Examples
    --------
    >>> round(float(rho_for(1.0, 1e-9)), 6)
    0.014973
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie between 0 and 1, not {delta!r}")
    alpha = _best_order(epsilon, delta)
    context = Context(prec=_DIGITS)
    a, one = Decimal(alpha), Decimal(1)
    less = context.subtract(a, one)
    logs = context.add(context.ln(Decimal(delta)), context.ln(less))
    logs = context.subtract(logs, context.multiply(a, context.ln(context.divide(less, a))))
    rho = context.divide(context.add(Decimal(epsilon), context.divide(logs, less)), a)
    if rho <= 0:
        raise ValueError(f"no noise is enough for ε = {epsilon:g} and δ = {delta:g}")
    return Fraction(rho) * (1 - _SLACK)


def _best_order(epsilon: float, delta: float) -> float:
    """About the best ``α``: golden section on ``log(α−1)``, where the bound has one maximum."""

    def bound(x: float) -> float:
        less = math.exp(x)
        logs = math.log(delta) + x - (1 + less) * math.log(less / (1 + less))
        return (epsilon + logs / less) / (1 + less)

    low, high, ratio = -20.0, 60.0, (math.sqrt(5) - 1) / 2
    for _ in range(120):
        first, second = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (first, high) if bound(first) < bound(second) else (low, second)
    return 1 + math.exp((low + high) / 2)
