"""The laws of protecting randomness: how wide each is, and what a shift of its centre costs.

A cost is named twice: in ε (pure differential privacy) and in ρ (zero-concentrated differential privacy, Bun and
Steinke 2016). Both add up over everything that one record can move, and both are exact fractions here: a scale is a
float, and a float is a fraction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from headwater.noise import Noise

Cost = Fraction | float
"""An exact number, or infinity."""


class Law(Protocol):
    """A law of integer noise or of a private choice."""

    name: ClassVar[str]

    @property
    def scale(self) -> float:
        """How wide it is."""

    def epsilon(self, shift: int) -> Cost:
        """What one draw costs in ε if its centre moves by at most ``shift``."""

    def rho(self, shift: int) -> Fraction:
        """What one draw costs in ρ if its centre moves by at most ``shift``."""


class CountLaw(Law, Protocol):
    """A law of the noise in a count."""

    @property
    def variance(self) -> float:
        """The variance of one draw."""

    @property
    def deviation(self) -> float:
        """A close upper bound of its standard deviation."""

    def draw(self, noise: Noise, hi: ArrayLike, lo: ArrayLike) -> NDArray[np.int64]:
        """The draws that live at these addresses."""


@dataclass(frozen=True)
class Exponential:
    """What the laws have in common whose odds fall with ``exp(−…/scale)``: log ratios move by at most shift/scale."""

    scale: float

    def epsilon(self, shift: int) -> Fraction:
        """What one draw costs in ε: ``shift/scale``."""
        return shift / Fraction(self.scale)

    def rho(self, shift: int) -> Fraction:
        """What one draw costs in ρ: half the square of its ε."""
        return self.epsilon(shift) ** 2 / 2


@dataclass(frozen=True)
class IntegerLaplace(Exponential):
    """The law of the noise in a count: ``P(z) ∝ exp(−|z|/scale)`` on the integers.

    Examples
    --------
    >>> round(IntegerLaplace(2.0).variance, 3)
    7.835
    """

    name: ClassVar[str] = "integer Laplace"

    @property
    def variance(self) -> float:
        """Its variance, ``2q/(1−q)²`` with ``q = exp(−1/scale)``."""
        return 2 * math.exp(-1 / self.scale) / math.expm1(-1 / self.scale) ** 2

    @property
    def deviation(self) -> float:
        """A close upper bound of its standard deviation: that of real Laplace noise of the same scale."""
        return math.sqrt(2) * self.scale

    def draw(self, noise: Noise, hi: ArrayLike, lo: ArrayLike) -> NDArray[np.int64]:
        """The draws that live at these addresses."""
        return noise.laplace_at(self.scale, hi, lo)


@dataclass(frozen=True)
class DiscreteGaussian:
    """The law of the noise in a count: ``P(z) ∝ exp(−z²/(2·scale²))`` on the integers.

    The scale is ``σ``, a close upper bound of the standard deviation.

    Examples
    --------
    >>> round(DiscreteGaussian(2.0).variance, 6), round(DiscreteGaussian(0.25).variance, 6)
    (4.0, 0.00067)
    """

    scale: float
    name: ClassVar[str] = "discrete Gaussian"

    @property
    def variance(self) -> float:
        """Its variance: ``σ²`` but for a relative error below ``1e-13`` from ``σ = 2`` on, else by its series."""
        if self.scale >= 2:
            return self.scale**2
        weights = [(z * z, math.exp(-((z / self.scale) ** 2) / 2)) for z in range(1, 80)]
        return 2 * math.fsum(square * weight for square, weight in weights) / (1 + 2 * math.fsum(w for _, w in weights))

    @property
    def deviation(self) -> float:
        """An upper bound of its standard deviation, and a close one from ``σ = 1`` on: ``σ``."""
        return self.scale

    def epsilon(self, shift: int) -> Cost:
        """Infinite: its log ratios have no bound."""
        return math.inf if shift else Fraction(0)

    def rho(self, shift: int) -> Fraction:
        """What one draw costs in ρ: ``shift²/(2σ²)`` (Canonne, Kamath, Steinke 2020)."""
        return shift**2 / Fraction(self.scale) ** 2 / 2

    def draw(self, noise: Noise, hi: ArrayLike, lo: ArrayLike) -> NDArray[np.int64]:
        """The draws that live at these addresses."""
        return noise.gaussian_at(self.scale, hi, lo)


@dataclass(frozen=True)
class JointLaplace(Exponential):
    """The law of the noise in several small tables at once: ``P(z) ∝ exp(−N(z)/scale)`` on the integers.

    ``N`` is the largest of the norms of the tables (`headwater.joint_noise`). A replaced record moves all tables, and
    still ``N`` by at most one: so the noise of a number grows with the numbers of *all* tables less than if each had a
    part of ε for itself (the K-norm mechanism of Hardt and Talwar 2010, on integers).
    """

    name: ClassVar[str] = "joint Laplace"


@dataclass(frozen=True)
class PermuteAndFlip(Exponential):
    """The law of a private choice by permute-and-flip (McKenna and Sheldon 2020).

    Its shift is how far the difference of two scores can move: twice the sensitivity of a score. Its scale is that of
    the geometric variables that decide its coins.
    """

    name: ClassVar[str] = "permute-and-flip"


@dataclass(frozen=True)
class ExponentialChoice(Exponential):
    """The law of a private choice by the exponential mechanism: ``P(i) ∝ exp(score_i/scale)``.

    Its shift is how far the difference of two scores can move: twice the sensitivity of a score.
    """

    name: ClassVar[str] = "exponential mechanism"

    def rho(self, shift: int) -> Fraction:
        """What one choice costs in ρ: ``ε²/8``, since all its log ratios lie in a range of length ε (bounded range)."""
        return self.epsilon(shift) ** 2 / 8


def scale_for(cost: float | Fraction) -> float:
    """A scale of Laplace noise, as small as a float can be, whose exact ε for a shift of one is at most ``cost``.

    >>> IntegerLaplace(scale_for(Fraction(1, 3))).epsilon(1) <= Fraction(1, 3)
    True
    """
    whole, parts = Fraction(cost).as_integer_ratio()
    scale = float(1 / cost)
    while True:
        over, under = scale.as_integer_ratio()
        if over * whole >= under * parts:
            return scale
        scale = math.nextafter(scale, math.inf)


_NARROWEST = 2.0**-20
"""The least ``σ`` that noise is drawn with: all of it is zero."""


def deviation_for(cost: Fraction) -> float:
    """A ``σ`` of Gaussian noise, as small as a float can be, whose exact ρ for a shift of one is at most ``cost``.

    >>> DiscreteGaussian(deviation_for(Fraction(1, 3))).rho(1) <= Fraction(1, 3)
    True
    """
    sigma = max(math.sqrt(1 / (2 * cost)), _NARROWEST)
    while 2 * cost * Fraction(sigma) ** 2 < 1:
        sigma = math.nextafter(sigma, math.inf)
    return sigma


def choice_scale_for(cost: Fraction, shift: int) -> float:
    """A scale of a choice, as small as a float can be, whose exact ρ for this shift is at most ``cost``.

    >>> ExponentialChoice(choice_scale_for(Fraction(1, 3), 4)).rho(4) <= Fraction(1, 3)
    True
    """
    scale = shift * math.sqrt(1 / (8 * cost))
    while 8 * cost * Fraction(scale) ** 2 < shift**2:
        scale = math.nextafter(scale, math.inf)
    return scale


class Pure:
    """Budgets in ε: counts get integer Laplace noise."""

    gaussian: ClassVar[bool] = False
    power: ClassVar[float] = 1.0
    """Weights that divide ε, to this power, divide a budget of this kind."""

    @staticmethod
    def count_law(budget: Fraction, moved: int = 2) -> CountLaw:
        """The law of the noise in a table of which a record moves so many counts, by one each."""
        return IntegerLaplace(scale_for(budget / moved))

    @staticmethod
    def choice_law(budget: Fraction, shift: int) -> Law:
        """The law of a private choice among scores whose differences move by at most ``shift``: permute-and-flip."""
        return PermuteAndFlip(scale_for(budget / shift))

    @staticmethod
    def width(budget: float, tables: float = 1.0) -> float:
        """The scale of Laplace noise with about the variance of a count, if so many tables share a budget equally."""
        return 2 * tables / budget


class Concentrated:
    """Budgets in ρ: counts get discrete Gaussian noise."""

    gaussian: ClassVar[bool] = True
    power: ClassVar[float] = 4 / 3  # the sum of a/ε is smallest for ε ∝ a^(1/2), and that of a/√ρ for ρ ∝ a^(2/3)

    @staticmethod
    def count_law(budget: Fraction, moved: int = 2) -> CountLaw:
        """The law of the noise in a table of which a record moves so many counts, by one each."""
        return DiscreteGaussian(deviation_for(budget / moved))

    @staticmethod
    def choice_law(budget: Fraction, shift: int) -> Law:
        """The law of a private choice among scores whose differences move by at most ``shift``."""
        return ExponentialChoice(choice_scale_for(budget, shift))

    @staticmethod
    def width(budget: float, tables: float = 1.0) -> float:
        """The scale of Laplace noise with about the variance of a count, if so many tables share a budget equally."""
        return math.sqrt(0.5 * tables / budget)


Accounting = type[Pure] | type[Concentrated]
"""What budgets are counted in, and which laws they buy."""
