"""The law of joint noise: numbers of points in balls, probabilities of radii, and variances. Nothing is drawn here.

Public: a function of the scale and of the sizes of tables. `headwater.joint_noise` draws by it
(`proofs/joint.md`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headwater.exp_bits import exp_bits

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

WIDEST = 1 << 14
"""The mean radius, and the numbers of all tables, at most: the odds of radii up to some multiple of it are listed."""
NARROWEST = 2.0**-20
"""The smallest scale."""
_NEGLIGIBLE = -90.0  # radii whose odds are below e^-90 of the largest are left to the exact way
_ROUNDING = 2.0**-53
_RESCALED = 32  # steps after which numbers of points are divided by themselves: no power of a radius overflows
NODES = 257
"""Radii at which mean squares are computed."""


class Words(Protocol):
    """Random bits, one word after the other."""

    def word(self) -> int:
        """The next 64 bits."""


def fits(scale: float, sizes: Sequence[int]) -> bool:
    """Whether noise of this scale can be drawn for tables of so many numbers."""
    return scale >= NARROWEST and sum(sizes) < WIDEST and (sum(sizes) + 1) * scale <= WIDEST


def points_in_ball(size: int, radius: int) -> int:
    """The number of points of a ball ``B(radius)``: `with_nonzero`, summed over how many numbers are not 0.

    >>> points_in_ball(1, 3), points_in_ball(2, 1)
    (7, 13)
    """
    if size == 1:
        return 2 * radius + 1
    return sum(with_nonzero(size, 2 * radius, j) for j in range(min(size, 2 * radius) + 1))


def with_nonzero(size: int, sum_: int, j: int) -> int:
    """The number of points with ``j`` of ``size`` numbers not 0 whose absolute values sum to at most ``sum_``.

    There are C(size, j) choices of which, C(sum_, j) of absolute values, and 2^j of signs.
    """
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
        """Twice a bound on the error of sums of `odds` (`proofs/joint.md`, step 4): where floats decide nothing."""
        count, terms = len(self.odds), sum(n * (size + 3) ** 2 for size, n in self.sizes.items())
        log = 2 * math.log(2 * max(self.sizes)) + math.log(2 * count)
        return 2 * _ROUNDING * (3 * (15 + len(self.sizes)) * terms * log + 2 * count + 64)

    def variance(self, size: int) -> float:
        """The variance of each number of a table of this size; never 0.

        Given the radius ``m`` it is nearly a multiple of ``(m + 1/2)²``. Their ratio is computed for `NODES` radii and
        interpolated between these.
        """
        m = np.flatnonzero(self.odds > 1e-18)
        spaced = np.linspace(m[0], m[-1], NODES).round().astype(np.int64)  # np.unique would import masked arrays
        nodes = m if size == 1 else spaced[np.diff(spaced, prepend=-1) > 0]
        squares = np.interp(m, nodes, _mean_squares(size, nodes) / (nodes + 0.5) ** 2) * (m + 0.5) ** 2
        return max(float(self.odds[m] @ squares), 1e-9)

    def draw(self, bits: Words) -> int:
        """A radius, by inversion of the cumulative `odds`; exact where floats might err."""
        word = bits.word()
        at = word * 2.0**-64
        found = int(np.searchsorted(self._upper, at, side="right"))
        near = [abs(bound - at) for bound in (1.0, *self._upper[max(found - 1, 0) : found + 1])]
        return found if min(near) >= self.unsure else self.draw_exactly(bits, word)

    def draw_exactly(self, bits: Words, word: int) -> int:
        """The radius whose part of the unit interval holds a number that begins with these 64 bits.

        Digits of the parts, and bits of the number, are found until no bound can lie between.
        """
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
            word, length = word << 64 | bits.word(), length + 64

    def whole_odds(self, precision: int) -> tuple[list[int], int]:
        """The odds of radii as whole numbers, rounded down, and a bound on what is missing in a sum of any of them.

        Both more places and more radii come with more precision. Powers of ``exp(−1/scale)`` are fixed-point numbers:
        each product loses less than two units of the last place.
        """
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
        """How many points the balls of this radius have, all tables taken together."""
        return math.prod(points_in_ball(size, m) ** n for size, n in self.sizes.items())

    def _falling_from(self, m: int) -> bool:
        """Whether odds fall so fast from a radius on that those beyond add up to at most ``2·scale`` times its own.

        Of the points with ``j`` numbers that are not 0, the next radius has ``C(2m + 2, j)/C(2m, j)`` times as many,
        which is largest for the largest ``j`` and falls with ``m``. If that is at most ``exp(0.4/scale)`` for all
        tables together, odds fall by ``exp(−0.6/scale)`` each time, and ``1/(exp(0.6/scale) − 1) < 2·scale``.
        """
        if 2 * m < max(self.sizes):
            return False
        growth = math.fsum(
            n
            * math.log(
                (2 * m + 3) / (2 * m + 1)
                if size == 1
                else (2 * m + 2) * (2 * m + 1) / ((2 * m + 2 - size) * (2 * m + 1 - size))
            )
            for size, n in self.sizes.items()
        )
        return growth <= 0.4 / self.scale


@lru_cache(maxsize=16)  # some may have a million odds
def radii(scale: float, sizes: tuple[int, ...]) -> Radii:
    """The radii of tables of these sizes, in increasing order."""
    return Radii(scale, sizes)


def log_points(size: int, m: Integers) -> Floats:
    """The logarithm of the number of points of the balls of radius ``m``.

    With ``a = 4m + 1`` the numbers ``V_j`` of points of balls in ``j`` dimensions, Delannoy numbers, follow
    ``j·V_j = a·V_{j−1} + (j − 1)·V_{j−2}``: nothing is ever subtracted, so hardly a digit is lost.
    """
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
    """The logarithm of how many points of a ball have ``j = 0 … size`` numbers that are not 0."""
    with np.errstate(divide="ignore"):
        j = np.arange(1, size + 1)[:, None]
        steps = np.log(2 * (size - j + 1) / j**2) + np.log(np.maximum(2.0 * m - j + 1, 0))
    return np.concatenate([np.zeros((1, len(m))), np.cumsum(steps, axis=0)])


def _mean_squares(size: int, m: Integers) -> Floats:
    """The mean square of one number of a uniform point of balls.

    The first of ``j`` marks among ``R = 2m`` has mean ``(R+1)/(j+1)``, and ``a(a+1)`` has ``2(R+1)(R+2)/((j+1)(j+2))``.
    """
    if size == 1:
        return m * (m + 1) / 3
    log = log_terms(size, m)
    weights, j, r = np.exp(log - log.max(0)), np.arange(size + 1)[:, None], 2.0 * m
    squares = 2 * (r + 1) * (r + 2) / ((j + 1) * (j + 2)) - (r + 1) / (j + 1)
    found: Floats = (weights * squares * j / size).sum(0) / weights.sum(0)
    return found
