"""The laws of noise and of private choices: what a draw costs in ε and in ρ, the scale that a budget buys, variances.

From ρ to (ε, δ) by `rho_for`; at the end the law of joint noise: points in balls and odds of radii (`proofs/joint.md`).
Nothing is drawn here: `headwater.secret.noise` draws by these laws.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headwater.public.partition import Floats, Integers

if TYPE_CHECKING:
    from headwater.secret.noise import Noise


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
    if not exponent:
        return (1 << count) - 1
    return floor_of(exponent, count, lambda context, power: power)


_DIGITS = 100
_SLACK = Fraction(1, 10**20)  # taken off ρ, relatively: far more than rounding can have added to it


@lru_cache(maxsize=256)
def rho_for(epsilon: float, delta: float) -> Fraction:
    """The largest ρ that is certified to give ``epsilon`` and ``delta``, rounded down."""
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


Cost = Fraction | float  # an exact number, or infinity


@dataclass(frozen=True)
class Exponential:
    """What the laws have in common whose odds fall with ``exp(−…/scale)``: log ratios move by at most shift/scale."""

    scale: float

    def epsilon(self, shift: int) -> Fraction:
        return shift / Fraction(self.scale)

    def rho(self, shift: int) -> Fraction:
        return self.epsilon(shift) ** 2 / 2


@dataclass(frozen=True)
class IntegerLaplace(Exponential):
    """The law of the noise in a count: ``P(z) ∝ exp(−|z|/scale)`` on the integers."""

    name: ClassVar[str] = "integer Laplace"

    @property
    def variance(self) -> float:
        return 2 * math.exp(-1 / self.scale) / math.expm1(-1 / self.scale) ** 2

    @property
    def deviation(self) -> float:
        return math.sqrt(2) * self.scale

    def draw(self, noise: Noise, hi: ArrayLike, lo: ArrayLike) -> NDArray[np.int64]:
        return noise.laplace_at(self.scale, hi, lo)


@dataclass(frozen=True)
class DiscreteGaussian:
    """The law of the noise in a count: ``P(z) ∝ exp(−z²/(2·scale²))`` on the integers."""

    scale: float
    name: ClassVar[str] = "discrete Gaussian"

    @property
    def variance(self) -> float:
        if self.scale >= 2:
            return self.scale**2
        weights = [(z * z, math.exp(-((z / self.scale) ** 2) / 2)) for z in range(1, 80)]
        return 2 * math.fsum(square * weight for square, weight in weights) / (1 + 2 * math.fsum(w for _, w in weights))

    @property
    def deviation(self) -> float:
        return self.scale

    def epsilon(self, shift: int) -> Cost:
        return math.inf if shift else Fraction(0)

    def rho(self, shift: int) -> Fraction:
        return shift**2 / Fraction(self.scale) ** 2 / 2

    def draw(self, noise: Noise, hi: ArrayLike, lo: ArrayLike) -> NDArray[np.int64]:
        return noise.gaussian_at(self.scale, hi, lo)


@dataclass(frozen=True)
class JointLaplace(Exponential):
    """The law of the noise in several small tables at once: ``P(z) ∝ exp(−N(z)/scale)`` on the integers."""

    name: ClassVar[str] = "joint Laplace"


@dataclass(frozen=True)
class PermuteAndFlip(Exponential):
    """The law of a private choice by permute-and-flip (McKenna and Sheldon 2020)."""

    name: ClassVar[str] = "permute-and-flip"


@dataclass(frozen=True)
class ExponentialChoice(Exponential):
    """The law of a private choice by the exponential mechanism: ``P(i) ∝ exp(score_i/scale)``."""

    name: ClassVar[str] = "exponential mechanism"

    def rho(self, shift: int) -> Fraction:
        return self.epsilon(shift) ** 2 / 8


CountLaw = IntegerLaplace | DiscreteGaussian
"""A law of the noise in a count: its scale, its variance, a close upper bound of its deviation, and its draws."""
Law = CountLaw | JointLaplace | PermuteAndFlip | ExponentialChoice
"""A law of integer noise or of a private choice: what one draw costs in ε and in ρ if its centre moves so far."""


def scale_for(cost: float | Fraction) -> float:
    whole, parts = Fraction(cost).as_integer_ratio()
    scale = float(1 / cost)
    while True:
        over, under = scale.as_integer_ratio()
        if over * whole >= under * parts:
            return scale
        scale = math.nextafter(scale, math.inf)


def laplace_scale(variance: float) -> float:
    """The scale of integer Laplace noise of a variance."""
    if variance < 1e-9:
        return NARROWEST
    odds = 1 + 1 / variance
    return -1 / math.log(1 / (odds + math.sqrt(odds**2 - 1)))


NARROWEST = 2.0**-20  # the smallest scale: all noise is zero


def deviation_for(cost: Fraction) -> float:
    sigma = max(math.sqrt(1 / (2 * cost)), NARROWEST)
    while 2 * cost * Fraction(sigma) ** 2 < 1:
        sigma = math.nextafter(sigma, math.inf)
    return sigma


def choice_scale_for(cost: Fraction, shift: int) -> float:
    scale = shift * math.sqrt(1 / (8 * cost))
    while 8 * cost * Fraction(scale) ** 2 < shift**2:
        scale = math.nextafter(scale, math.inf)
    return scale


class Pure:
    """Budgets in ε: counts get integer Laplace noise."""

    gaussian: ClassVar[bool] = False
    power: ClassVar[float] = 1.0  # weights that divide ε, to this power, divide a budget of this kind

    @staticmethod
    def count_law(budget: Fraction, moved: int = 2) -> CountLaw:
        return IntegerLaplace(scale_for(budget / moved))

    @staticmethod
    def choice_law(budget: Fraction, shift: int) -> Law:
        return PermuteAndFlip(scale_for(budget / shift))

    @staticmethod
    def width(budget: float, tables: float = 1.0) -> float:
        return 2 * tables / budget


class Concentrated:
    """Budgets in ρ: counts get discrete Gaussian noise."""

    gaussian: ClassVar[bool] = True
    power: ClassVar[float] = 4 / 3  # the sum of a/ε is smallest for ε ∝ a^(1/2), and that of a/√ρ for ρ ∝ a^(2/3)

    @staticmethod
    def count_law(budget: Fraction, moved: int = 2) -> CountLaw:
        return DiscreteGaussian(deviation_for(budget / moved))

    @staticmethod
    def choice_law(budget: Fraction, shift: int) -> Law:
        return ExponentialChoice(choice_scale_for(budget, shift))

    @staticmethod
    def width(budget: float, tables: float = 1.0) -> float:
        return math.sqrt(0.5 * tables / budget)


Accounting = type[Pure] | type[Concentrated]


WIDEST = 1 << 14
"""The mean radius, and the numbers of all tables, at most: the odds of radii up to some multiple of it are listed."""
_NEGLIGIBLE = -90.0  # radii whose odds are below e^-90 of the largest are left to the exact way
_ROUNDING = 2.0**-53
_RESCALED = 32  # steps after which numbers of points are divided by themselves: no power of a radius overflows
NODES = 257  # radii at which mean squares are computed


def fits(scale: float, sizes: Sequence[int]) -> bool:
    return scale >= NARROWEST and sum(sizes) < WIDEST and (sum(sizes) + 1) * scale <= WIDEST


def points_in_ball(size: int, radius: int) -> int:
    if size == 1:
        return 2 * radius + 1
    return sum(with_nonzero(size, 2 * radius, j) for j in range(min(size, 2 * radius) + 1))


def with_nonzero(size: int, sum_: int, j: int) -> int:
    return math.comb(size, j) * math.comb(sum_, j) << j


class Radii:
    """The law of the radius: ``P(m) ∝ exp(−m/scale)`` times the number of points in the balls of all tables."""

    def __init__(self, scale: float, sizes: tuple[int, ...]) -> None:
        self.rate, self.sizes, self.scale = 1 / Fraction(scale), Counter(sizes), scale

    @cached_property
    def odds(self) -> Floats:
        """The probability of each radius from 0 on, as floats; those below e^−90 of the largest are left out."""
        numbers = 1 + sum(size * n for size, n in self.sizes.items())
        count = math.ceil(64 + self.scale * (numbers + 16 * math.sqrt(numbers) + 100))  # a guess that is mostly enough
        while True:
            m = np.arange(count)
            log = sum(n * log_points(size, m) for size, n in self.sizes.items()) - m / self.scale
            if log[-1] - log.max() < _NEGLIGIBLE and self._falling_from(count - 1):
                odds: Floats = np.exp(log - log.max())
                odds /= odds.sum()
                return odds
            count *= 2

    @cached_property
    def _upper(self) -> Floats:
        found: Floats = np.cumsum(self.odds)
        return found

    @cached_property
    def unsure(self) -> float:
        count, terms = len(self.odds), sum(n * (size + 3) ** 2 for size, n in self.sizes.items())
        log = 2 * math.log(2 * max(self.sizes)) + math.log(2 * count)
        return 2 * _ROUNDING * (3 * (15 + len(self.sizes)) * terms * log + 2 * count + 64)

    def variance(self, size: int) -> float:
        m = np.flatnonzero(self.odds > 1e-18)
        spaced = np.linspace(m[0], m[-1], NODES).round().astype(np.int64)  # np.unique would import masked arrays
        nodes = m if size == 1 else spaced[np.diff(spaced, prepend=-1) > 0]
        squares = np.interp(m, nodes, _mean_squares(size, nodes) / (nodes + 0.5) ** 2) * (m + 0.5) ** 2
        return max(float(self.odds[m] @ squares), 1e-9)

    def draw(self, next_word: Callable[[], int]) -> int:
        word = next_word()
        at = word * 2.0**-64
        found = int(np.searchsorted(self._upper, at, side="right"))
        near = [abs(bound - at) for bound in (1.0, *self._upper[max(found - 1, 0) : found + 1])]
        return found if min(near) >= self.unsure else self.draw_exactly(next_word, word)

    def draw_exactly(self, next_word: Callable[[], int], word: int) -> int:
        """The radius whose part of the unit interval holds a number that begins with these 64 bits."""
        length = 64
        while True:
            parts, error = self.whole_odds(2 * length)
            total, below = sum(parts), 0
            low, high = word, word + 1
            for radius, part in enumerate(parts):
                # with sums that are too small by at most ``error``, the total among them
                starts = radius == 0 or low * total >= (below + error) << length
                if starts and high * (total + error) <= (below + part) << length:
                    return radius
                below += part
            word, length = word << 64 | next_word(), length + 64

    def whole_odds(self, precision: int) -> tuple[list[int], int]:
        """The odds of radii as whole numbers, rounded down, and a bound on what is missing in a sum of any of them."""
        most = len(self.odds) * precision // 64
        bits = min(math.ceil(1.5 * most * self.rate), self._points(most).bit_length())
        places = precision + bits + 2 * most.bit_length()
        ratio, power = exp_bits(self.rate, places), 1 << places
        parts, error = list[int](), 0
        for m in range(most):
            points = self._points(m)
            parts.append(points * power)
            error += 2 * m * points
            power = power * ratio >> places
        return parts, error + math.ceil((parts[-1] + error) * 2 * Fraction(self.scale))

    def _points(self, m: int) -> int:
        return math.prod(points_in_ball(size, m) ** n for size, n in self.sizes.items())

    def _falling_from(self, m: int) -> bool:
        """Whether odds fall so fast from a radius on that those beyond add up to at most ``2·scale`` times its own."""
        if 2 * m < max(self.sizes):
            return False

        def grown(size: int) -> float:
            if size == 1:
                return (2 * m + 3) / (2 * m + 1)
            return (2 * m + 2) * (2 * m + 1) / ((2 * m + 2 - size) * (2 * m + 1 - size))

        return math.fsum(n * math.log(grown(size)) for size, n in self.sizes.items()) <= 0.4 / self.scale


@lru_cache(maxsize=16)  # some may have a million odds
def radii(scale: float, sizes: tuple[int, ...]) -> Radii:
    return Radii(scale, sizes)


def log_points(size: int, m: Integers) -> Floats:
    """The logarithm of the number of points of the balls of radius ``m``."""
    if size == 1:
        single: Floats = np.log(2 * m + 1.0)
        return single
    a: Floats = 4 * m.astype(np.float64) + 1
    found, before, here = np.zeros(len(m)), np.ones(len(m)), a
    for j in range(2, size + 1):
        if j % _RESCALED == 0:
            found += np.log(here)
            before, here = before / here, np.ones(len(m))
        before, here = here, (a * here + (j - 1) * before) / j
    found += np.log(here)
    return found


def log_terms(size: int, m: Integers) -> Floats:
    with np.errstate(divide="ignore"):
        j = np.arange(1, size + 1)[:, None]
        steps = np.log(2 * (size - j + 1) / j**2) + np.log(np.maximum(2.0 * m - j + 1, 0))
    return np.concatenate([np.zeros((1, len(m))), np.cumsum(steps, axis=0)])


def _mean_squares(size: int, m: Integers) -> Floats:
    if size == 1:
        return m * (m + 1) / 3
    log = log_terms(size, m)
    weights, j, r = np.exp(log - log.max(0)), np.arange(size + 1)[:, None], 2.0 * m
    squares = 2 * (r + 1) * (r + 2) / ((j + 1) * (j + 2)) - (r + 1) / (j + 1)
    found: Floats = (weights * squares * j / size).sum(0) / weights.sum(0)
    return found
