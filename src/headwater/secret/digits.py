"""Discrete Gaussian and geometric variables out of random bits, exactly. No bits are drawn here: they are given.

`GaussianCells` looks words up in a table of cells and accepts or rejects a number in one; `GeometricCoins` makes every
binary digit a coin of known probability. Floats and the first 16 bits decide nearly all; what is too close for them,
exact integers decide, with as many bits as it takes (`proofs/gaussian.md`, `noise.md`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from headwater.public.laws import exp_bits, floor_of
from headwater.public.partition import Integers

Words = NDArray[np.uint64]
Further = Callable[[int, int, int], int]  # 64 more bits of an attempt, by its row, label and number
CELLS = 8  # σ is less than 2^8 cells
_REACH = 8  # cells up to so many σ are in the table; the others have less than 2^-45 together
_UNIT = 2.0**52  # weights of cells are multiples of one over this, so that their sums are exact
BAND = 2.0**-40  # a cell is decided exactly if a word is so close to its end; errors of the table are below 2^-44
UNSURE = 2.0**-20  # acceptance is decided exactly if floats come so close; their error is below 2^-30
_GUIDE = 12  # bits of a word that mostly decide its cell
_FEW_CELLS = 1024  # up to so many draws, making a guide takes longer than it saves
_CELL, _VERDICT = 1 << 36, 1 << 37  # the labels of further bits of attempts, beyond those of coins
_NO_ROWS = np.empty(0, dtype=np.int64)
_BEYOND = 64  # an upper bound of the weight of all cells that are not summed up, in units of the last bit


class GaussianCells:
    """The sampler of one law: which 64-bit words propose which cell, and which numbers in it are accepted."""

    def __init__(self, scale: float) -> None:
        if not (math.isfinite(scale) and 2.0**-20 <= scale <= 2.0**40):
            raise ValueError(f"the scale of Gaussian noise must lie between 2^-20 and 2^40, not {scale!r}")
        self.square = Fraction(scale) ** 2
        self.shift = max(0, math.frexp(scale)[1] - CELLS)
        self.width = 1 << self.shift
        self.offset = self.width // 2
        self._rate = float(-1 / (2 * self.square))
        self.most, self.ends = self.table(math.ceil(_REACH * scale / self.width) + 1)

    def table(self, reach: int) -> tuple[int, Words]:
        near = self.near(np.arange(-reach, reach + 1)).astype(np.float64)
        weights = np.rint(np.exp(np.square(near) * self._rate) * _UNIT).astype(np.int64)
        below = np.concatenate([[0], np.cumsum(weights)])
        clear = np.count_nonzero(weights > 4 * BAND * below[-1]) // 2
        share = below[reach - clear : reach + clear + 2] / below[-1]
        return int(clear), (np.stack([share[:-1] + BAND, share[1:] - BAND], axis=1) * 2.0**64).ravel().astype("u8")

    def near(self, cell: Integers) -> Integers:
        nearest: Integers = np.maximum(np.abs(cell) * np.int64(self.width) - np.int64(self.offset), 0)
        return nearest

    @cached_property
    def _guide(self) -> NDArray[np.int16]:
        first = np.arange(1 << _GUIDE, dtype=np.uint64) << np.uint64(64 - _GUIDE)
        last = first | np.uint64((1 << (64 - _GUIDE)) - 1)
        passed = self.ends.searchsorted(first, "right")
        return np.where(passed == self.ends.searchsorted(last, "right"), passed, 0).astype(np.int16)

    def attempt(self, words: Words, further: Further) -> tuple[Integers, Integers]:
        """What pairs of words, one of each attempt, propose; and the rows of what is rejected."""
        cell, unsure = self.cells(words[:, 0])
        for row in unsure:
            cell[row] = self.exact_cell(int(words[row, 0]), partial(further, row, _CELL))
        if self.width == 1:
            return cell, _NO_ROWS
        value, rejected, unsure = self.values(cell, words[:, 1])
        if len(unsure):
            accepts = [self.accepts(int(value[i]), int(words[i, 1]), partial(further, i, _VERDICT)) for i in unsure]
            rejected = np.union1d(rejected, unsure[~np.array(accepts)])
        return value, rejected

    def cells(self, words: Words) -> tuple[Integers, Integers]:
        """The cell that each word proposes, and the rows in which that is not clear."""
        # A word that is beyond an odd number of ends lies between the two of one cell; else it is near an end.
        if len(words) <= _FEW_CELLS:
            passed = self.ends.searchsorted(words, "right")
            unsure = np.flatnonzero(passed & 1 == 0)
        else:
            passed = self._guide.take(words >> np.uint64(64 - _GUIDE)).astype(np.int64)
            again = np.flatnonzero(passed & 1 == 0)
            passed[again] = self.ends.searchsorted(words[again], "right")
            unsure = again[passed[again] & 1 == 0]
        passed >>= 1
        passed -= self.most
        return passed, unsure

    def exact_cell(self, word: int, further: Callable[[int], int]) -> int:
        """The cell that a word proposes: it is read on, ``further`` words 0, 1, …, until only one cell is left."""
        count, index = 64, 0
        while True:
            below, error = sums(self.square, self.shift, count + 32)
            least, most = below[-1], below[-1] + error  # between these is the sum of all cells
            place = bisect_left(below, (word + 1) * most, key=lambda weight: weight << count)
            if place < len(below) and below[place - 1] + error << count <= word * least:
                return place - len(below) // 2
            word, count, index = word << 64 | further(index), count + 64, index + 1

    def values(self, cell: Integers, words: Words) -> tuple[Integers, Integers, Integers]:
        inside = (words & np.uint64(self.width - 1)).view(np.int64)
        value = (cell << np.int64(self.shift)) + (inside - np.int64(self.offset))
        size, near = np.abs(value), self.near(cell)
        gap = np.exp((size - near) * ((size + near) * self._rate)) - words * 2.0**-64
        doubtful = np.flatnonzero(gap < UNSURE)
        clear = gap[doubtful] <= -UNSURE
        return value, doubtful[clear], doubtful[~clear]

    def accepts(self, value: int, word: int, further: Callable[[int], int]) -> bool:
        cell = (value + self.offset) >> self.shift
        near = max(abs(cell) * self.width - self.offset, 0)
        word, count, index = word >> self.shift, 64 - self.shift, 0
        while word == (bits := exp_bits((value**2 - near**2) / (2 * self.square), count)):
            word, count, index = word << 64 | further(index), count + 64, index + 1
        return word < bits


@lru_cache(maxsize=512)  # they have tables
def gaussian_cells(scale: float) -> GaussianCells:
    return GaussianCells(scale)


@lru_cache(maxsize=16)
def sums(square: Fraction, shift: int, count: int) -> tuple[list[int], int]:
    width, half = 1 << shift, [(1 << count) - 1]
    while half[-1]:
        half.append(exp_bits((len(half) * width - width // 2) ** 2 / (2 * square), count))
    return list(accumulate(half[:0:-1] + half)), 2 * len(half) + _BEYOND


Word = Callable[[int, int], int]  # 64 bits behind the address of a draw, by label and number
Tie = tuple[int, int, int]  # row of the draw, sign of the variable, number of the coin
HEAD = 16  # how many bits of a coin are compared at first
_FEW = 256  # up to so many draws, copying the coins beside each other takes longer than it saves
_CLEAR = 2.0**-20  # floats decide these bits unless they come so close to a whole number; their error is below 2^-30


class GeometricCoins:
    """The coins of one geometric variable of ratio ``q = exp(−1/σ)``."""

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

    def heads_for(self, draws: int) -> NDArray[np.uint16]:
        heads = self.heads.reshape(-1, 1, 8)
        return heads if draws <= _FEW else np.repeat(heads, draws, axis=1)

    def values(self, blocks: Words, heads: NDArray[np.uint16], signs: tuple[int, ...]) -> tuple[Integers, list[Tie]]:
        """The draws that cipher blocks decide, and the coins that tied, which count as tails so far."""
        n, words = blocks.shape[1], blocks.view("<u2")
        heads = heads[:, :n]
        lanes = np.zeros((n, 16), dtype=np.uint8)
        lanes[:, : self.blocks] = np.packbits((words < heads).reshape(-1), bitorder="little").reshape(-1, n).T
        low, high = lanes.view("<i8").T
        mask = np.int64((1 << self.digits) - 1)
        value = low & mask
        if len(signs) > 1:
            value -= high if self.coins == 64 else low >> np.int64(self.coins) & mask
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
    return GeometricCoins(scale)


@lru_cache(maxsize=4096)  # a law has few coins, and hardly any tie needs a second look
def _bits(coins: GeometricCoins, coin: int, count: int) -> int:
    return coins.bits(coin, count)
