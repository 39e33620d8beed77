"""The binary digits of exponentials, exactly."""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction


def floor_of(exponent: Fraction, count: int, chance_of: Callable[[Context, Decimal], Decimal]) -> int:
    """``⌊2^count · chance_of(exp(−exponent))⌋``, exactly, for a probability that is irrational."""
    if exponent > count:  # then the probability is below e^−count, and so are all these bits
        return 0
    precision = 20 + count // 3
    while True:
        context = Context(prec=precision, Emin=MIN_EMIN, Emax=MAX_EMAX)
        power = context.exp(context.divide(Decimal(-exponent.numerator), Decimal(exponent.denominator)))
        scaled = Fraction(chance_of(context, power)) * (1 << count)
        # Rounding the exponent and the four operations moves the result by less than this, relatively.
        slack = scaled * (exponent + 10) / 10 ** (precision - 1)
        below, above = int(scaled - slack), int(scaled + slack)  # both are positive
        if below == above:
            return below
        precision *= 2


def exp_bits(exponent: Fraction, count: int) -> int:
    """The first ``count`` bits after the point of ``exp(−exponent)``; all of them ones if the exponent is 0."""
    if not exponent:
        return (1 << count) - 1
    return floor_of(exponent, count, lambda context, power: power)
