"""Geometric variables out of random bits, exactly: every binary digit is a coin of a known probability.

Each coin compares random bits with the binary expansion of its probability. Its first 16 bits are compared for many
draws at once; of a tie, once in 65,536 coins, exact integers decide, with as many bits as it takes (`proofs/noise.md`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from headwater.exp_bits import floor_of
from headwater.gaussian_cells import Integers, Words

Word = Callable[[int, int], int]
"""64 bits behind the address of a draw, by label and number."""
Tie = tuple[int, int, int]
"""Row of the draw, sign of the variable, number of the coin."""

HEAD = 16
"""How many bits of a coin are compared at first."""
_FEW = 256  # up to so many draws, copying the coins beside each other takes longer than it saves
_CLEAR = 2.0**-20  # floats decide these bits unless they come so close to a whole number; their error is below 2^-30


class GeometricCoins:
    """The coins of one geometric variable of ratio ``q = exp(−1/σ)``.

    Digit ``i`` is 1 with odds ``q^(2^i)``, for ``i < digits``; one more coin, of probability ``q^(2^digits)``, says
    whether the variable is at least ``2^digits``. ``digits`` is as small as makes that last coin rarer than
    ``2^−16``, so that it shows only among the ties.
    """

    def __init__(self, scale: float) -> None:
        if not (math.isfinite(scale) and scale > 0):
            raise ValueError(f"the scale of noise must be positive and finite, not {scale!r}")
        if scale > 2.0**50:
            raise ValueError(f"the scale of noise must be at most 2^50, not {scale!r}")
        self.rate, self._rate = 1 / Fraction(scale), 1 / scale
        self.digits = (math.ceil(12 * Fraction(scale)) - 1).bit_length()  # 2^digits/σ ≥ 12, and e^−12 < 2^−16
        # Two geometric variables' coins side by side: in one machine word if they fit, else in one word each.
        self.coins = self.digits + 1 if self.digits < 32 else 64
        heads = np.zeros(2 * self.coins + -2 * self.coins % 8, dtype=np.uint16)
        for coin in range(self.digits):
            heads[[coin, self.coins + coin]] = self.bits(coin, HEAD)
        self.heads = heads
        self.blocks = len(heads) // 8

    def difference(self, low: Integers, high: Integers) -> Integers:
        """First geometric variable less the second, out of the packed digits of both."""
        mask = np.int64((1 << self.digits) - 1)
        return (low & mask) - (high if self.coins == 64 else low >> np.int64(self.coins) & mask)

    def first(self, low: Integers) -> Integers:
        """The first geometric variable alone."""
        return low & np.int64((1 << self.digits) - 1)

    def heads_for(self, draws: int) -> NDArray[np.uint16]:
        """The first bits of all coins, block by block, to compare with blocks of at most so many draws."""
        heads = self.heads.reshape(-1, 1, 8)
        return heads if draws <= _FEW else np.repeat(heads, draws, axis=1)

    def values(self, blocks: Words, heads: NDArray[np.uint16], signs: tuple[int, ...]) -> tuple[Integers, list[Tie]]:
        """The draws that cipher blocks decide, and the coins that tied, which count as tails so far.

        A block has 8 words of 16 bits, for 8 coins: a byte of digits.
        """
        n, words = blocks.shape[1], blocks.view("<u2")
        heads = heads[:, :n]
        lanes = np.zeros((n, 16), dtype=np.uint8)
        lanes[:, : self.blocks] = np.packbits((words < heads).reshape(-1), bitorder="little").reshape(-1, n).T
        low, high = lanes.view("<i8").T
        value = self.first(low) if signs == (1,) else self.difference(low, high)
        ties = list[Tie]()
        for position in np.flatnonzero((words == heads).reshape(-1)):
            block, row, column = np.unravel_index(position, words.shape)
            second, coin = divmod(int(8 * block + column), self.coins)
            if second < len(signs) and coin <= self.digits:  # beyond lies padding
                ties.append((int(row), signs[second], coin))
        return value, ties

    def settle(self, word: Word, sign: int, coin: int) -> int:
        """What a coin adds to its geometric variable once its first bits have tied with its probability."""
        label = 4 * coin + 1 + sign
        if coin < self.digits:
            return 1 << coin if self.is_heads(partial(word, label), coin) else 0
        # The last coin says that the geometric variable is beyond all its digits; from there it starts anew.
        laps = 0
        while self.is_heads(partial(word, label + (laps << 16)), coin, tied=laps == 0):
            laps += 1
        return laps << self.digits

    def is_heads(self, word: Callable[[int], int], coin: int, *, tied: bool = True) -> bool:
        """Compare words 0, 1, … with a coin's probability, behind its first bits if they tied, until they differ."""
        skip, index = HEAD if tied else 0, 0
        while True:
            digit = _bits(self, coin, skip + 64 * (index + 1)) & (2**64 - 1)
            if (drawn := word(index)) != digit:
                return drawn < digit
            index += 1

    def bits(self, coin: int, count: int) -> int:
        """The first ``count`` bits after the point of the coin's probability, exactly."""
        last = coin == self.digits
        if count == HEAD and not last:  # a hundred times as fast, and nearly always clear
            scaled = 2.0**HEAD / (1 + math.exp(self._rate * 2.0**coin))
            if abs(scaled - round(scaled)) > _CLEAR:
                return int(scaled)
        return floor_of(
            self.rate * (1 << coin),
            count,
            lambda context, power: power if last else context.divide(power, context.add(power, Decimal(1))),
        )


@lru_cache(maxsize=4096)
def geometric_coins(scale: float) -> GeometricCoins:
    """The coins of a scale."""
    return GeometricCoins(scale)


@lru_cache(maxsize=4096)  # a law has few coins, and hardly any tie needs a second look
def _bits(coins: GeometricCoins, coin: int, count: int) -> int:
    return coins.bits(coin, count)
