"""Joint noise of several small tables: exact, and addressed as all noise is.

A table of ``k`` numbers has the balls ``B(m) = {z : |z₁| + … + |z_k| ≤ 2m}``, a single number ``B(m) = {|z| ≤ m}``. The
norm ``N(z)`` of the noise of several tables is the least whole ``m`` with the noise of every table in its ball.

Formal guarantees
-----------------
*Law.* `draw_jointly` returns ``z`` with ``P(z) ∝ exp(−N(z)/scale)``, for the exact number that the float ``scale``
denotes. Since ``exp(−N/σ) ∝ Σ_{m ≥ N} exp(−m/σ)``, a radius ``m`` is drawn first, with odds ``exp(−m/σ)`` times the
number of points in all balls, and then the noise of each table, uniform in its ball. Floats decide only what is clear;
everything else is integers (`proofs/joint.md`).

*Address.* Every table has one of its own. The bits are those of `Noise.further_word`, under labels that nothing else
uses.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from headwater.exp_bits import exp_bits

Word = Callable[[int, int, int, int], int]
"""`Noise.further_word`: 64 bits behind an address, by label and number."""
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

WIDEST = 1 << 14
"""The mean radius, and the numbers of all tables, at most: the odds of radii up to some multiple of it are listed."""
NARROWEST = 2.0**-20
"""The smallest scale."""
_RADIUS, _TABLE = 1 << 56, 1 << 57  # labels of the bits of joint noise: no coin, verdict or tie has them
_NEGLIGIBLE = -90.0  # radii whose odds are below e^-90 of the largest are left to the exact way
_ROUNDING = 2.0**-53
NODES = 257
"""Radii at which mean squares are computed."""


def fits(scale: float, sizes: Sequence[int]) -> bool:
    """Whether noise of this scale can be drawn for tables of so many numbers."""
    return scale >= NARROWEST and sum(sizes) < WIDEST and (sum(sizes) + 1) * scale <= WIDEST


def draw_jointly(word: Word, scale: float, sizes: Sequence[int], hi: int, los: Sequence[int]) -> Integers:
    """The noise of several tables, one after the other.

    Parameters
    ----------
    word
        Where random bits come from.
    scale
        Of the law.
    sizes
        How many numbers each table has.
    hi, los
        The address of each table is ``(hi, los[i])``; the radius has that of the first, under another label.
    """
    if not sizes or min(sizes) < 1 or not fits(scale, sizes):
        raise ValueError(f"there is no joint noise of scale {scale!r} for tables of {list(sizes)} numbers")
    if len(set(los)) != len(los) or min(los) < 0 or max(los) >> 48:
        raise ValueError("every table needs an address of its own, below 2^48 and not negative")
    radius = radii(scale, tuple(sorted(sizes))).draw(Bits(word, hi, los[0], _RADIUS))
    parts = (in_ball(Bits(word, hi, lo, _TABLE), size, radius) for size, lo in zip(sizes, los, strict=True))
    return np.array([number for part in parts for number in part], dtype=np.int64)


def norm(noise: Sequence[Sequence[int]]) -> int:
    """The norm of the noise of several tables.

    >>> norm([[3], [1, -2, 0]]), norm([[1], [1, -2, 0]])
    (3, 2)
    """
    return max((abs(t[0]) if len(t) == 1 else -(-sum(map(abs, t)) // 2) for t in noise), default=0)


def points_in_ball(size: int, radius: int) -> int:
    """How many points a ball has: of ``j`` numbers that are not 0, so many choices, signs and sizes.

    >>> points_in_ball(1, 3), points_in_ball(2, 1)
    (7, 13)
    """
    if size == 1:
        return 2 * radius + 1
    return sum(points_with(size, 2 * radius, j) for j in range(min(size, 2 * radius) + 1))


def points_with(size: int, sum_: int, j: int) -> int:
    """Points with so many numbers that are not 0, whose absolute values add up to at most ``sum_``."""
    return math.comb(size, j) * math.comb(sum_, j) << j


class Bits:
    """Random bits behind an address, one after the other."""

    def __init__(self, word: Word, hi: int, lo: int, label: int) -> None:
        self._word, self._address, self._next = word, (hi, lo, label), 0

    def word(self) -> int:
        """The next 64 bits."""
        self._next += 1
        return self._word(*self._address, self._next - 1)

    def below(self, count: int) -> int:
        """A uniform number from 0 to ``count − 1``: bits are taken until they are one."""
        length = (count - 1).bit_length()
        while True:
            words = -(-length // 64)
            number = sum(self.word() << 64 * i for i in range(words)) >> (64 * words - length)
            if number < count:
                return number

    def subset(self, size: int, of: int) -> list[int]:
        """A uniform set of so many of the numbers ``0 … of − 1``, in order (Floyd)."""
        found = set[int]()
        for last in range(of - size, of):
            one = self.below(last + 1)
            found.add(last if one in found else one)
        return sorted(found)


def in_ball(bits: Bits, size: int, radius: int) -> list[int]:
    """A uniform point of a ball.

    First how many numbers are not 0. Then which ones, and their absolute values, which are the gaps between as many
    marks on a line, and their signs: all equally likely.
    """
    if size == 1:
        return [bits.below(2 * radius + 1) - radius]
    rank, nonzero = bits.below(points_in_ball(size, radius)), 0
    while rank >= (here := points_with(size, 2 * radius, nonzero)):
        rank, nonzero = rank - here, nonzero + 1
    places, marks = bits.subset(nonzero, size), [-1, *bits.subset(nonzero, 2 * radius)]
    signs, found = bits.below(2**nonzero), [0] * size
    for i, place in enumerate(places):
        found[place] = (marks[i + 1] - marks[i]) * (1 - 2 * (signs >> i & 1))
    return found


class Radii:
    """The odds of radii: ``exp(−m/scale)`` times the number of points in all balls of radius ``m``."""

    def __init__(self, scale: float, sizes: tuple[int, ...]) -> None:
        self.rate, self.sizes, self.scale = 1 / Fraction(scale), Counter(sizes), scale

    @cached_property
    def odds(self) -> Floats:
        """Of all radii that matter; they sum to 1."""
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
        """Of each number of a table of this size; never 0.

        The mean square is nearly in proportion to ``(m + 1/2)²``: how nearly is interpolated between some radii.
        """
        m = np.flatnonzero(self.odds > 1e-18)
        nodes = m if size == 1 else np.unique(np.linspace(m[0], m[-1], NODES).round().astype(np.int64))
        squares = np.interp(m, nodes, _mean_squares(size, nodes) / (nodes + 0.5) ** 2) * (m + 0.5) ** 2
        return max(float(self.odds[m] @ squares), 1e-9)

    def draw(self, bits: Bits) -> int:
        """A radius: floats decide it if they are clear."""
        word = bits.word()
        at = word * 2.0**-64
        found = int(np.searchsorted(self._upper, at, side="right"))
        near = [abs(bound - at) for bound in (1.0, *self._upper[max(found - 1, 0) : found + 1])]
        return found if min(near) >= self.unsure else self.draw_exactly(bits, word)

    def draw_exactly(self, bits: Bits, word: int) -> int:
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
    """The logarithm of the number of points of balls."""
    if size == 1:
        single: Floats = np.log(2 * m + 1.0)
        return single
    terms = log_terms(size, m)
    largest = terms.max(0)
    terms -= largest
    found: Floats = np.log(np.exp(terms, out=terms).sum(0)) + largest
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
