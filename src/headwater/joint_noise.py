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

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from headwater.joint_law import fits, points_in_ball, radii, with_nonzero

Word = Callable[[int, int, int, int], int]
"""`Noise.further_word`: 64 bits behind an address, by label and number."""
Integers = NDArray[np.int64]

_RADIUS, _TABLE = 1 << 56, 1 << 57  # labels of the bits of joint noise: no coin, verdict or tie has them


def draw_jointly(word: Word, scale: float, sizes: Sequence[int], hi: int, los: Sequence[int]) -> Integers:
    """The noise of several tables, one after the other.

    Table ``i`` has ``sizes[i]`` numbers and the address ``(hi, los[i])``; the radius has that of the first table, under
    another label.
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


class Bits:
    """Random bits behind an address, one after the other."""

    def __init__(self, word: Word, hi: int, lo: int, label: int) -> None:
        self._word, self._address, self._next = word, (hi, lo, label), 0

    def word(self) -> int:
        """The next 64 bits."""
        self._next += 1
        return self._word(*self._address, self._next - 1)

    def below(self, count: int) -> int:
        """A uniform number from 0 to ``count − 1``, by rejection: bits are drawn until they make one."""
        length = (count - 1).bit_length()
        words = -(-length // 64)
        while True:
            number = self.word() if words == 1 else sum(self.word() << 64 * i for i in range(words))
            number >>= 64 * words - length
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

    How many numbers are not 0 is drawn with odds `with_nonzero`. Given that, which ones, their signs and their absolute
    values are uniform: the latter are the gaps between as many marks among ``2·radius`` places.
    """
    if size == 1:
        return [bits.below(2 * radius + 1) - radius]
    rank, nonzero = bits.below(points_in_ball(size, radius)), 0
    while rank >= (here := with_nonzero(size, 2 * radius, nonzero)):
        rank, nonzero = rank - here, nonzero + 1
    places, marks = bits.subset(nonzero, size), [-1, *bits.subset(nonzero, 2 * radius)]
    signs, found = bits.below(2**nonzero), [0] * size
    for i, place in enumerate(places):
        found[place] = (marks[i + 1] - marks[i]) * (1 - 2 * (signs >> i & 1))
    return found
