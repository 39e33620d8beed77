"""The law of discrete Gaussian noise in cells: how likely each is, and whether a number in it is accepted.

Whole numbers are cut into cells of ``B = 2^b``: cell ``s`` holds ``sB − h … sB − h + B − 1``, where ``h = ⌊B/2⌋``. No
number in it is nearer to 0 than ``n_s = max(|s|B − h, 0)``. A cell is proposed with ``P(s) ∝ exp(−n_s²/2σ²)``, a number
``z`` in it uniformly, and accepted with probability ``exp(−(z² − n_s²)/2σ²)``: together ``∝ exp(−z²/2σ²)``. ``B`` is 1
for ``σ < 256``, where cells are numbers and all are accepted; else ``128 ≤ σ/B < 256``, and 1 in 100 is rejected, or
fewer.

Floats decide what is clear. Where they might err, exact integers decide, with as many bits as it takes
(`proofs/gaussian.md`, step 1).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from headwater.exp_bits import exp_bits

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
Further = Callable[[int, int, int], int]
"""64 more bits of an attempt, by its row, label and number."""

CELLS = 8  # σ is less than 2^8 cells
_REACH = 8  # cells up to so many σ are in the table; the others have less than 2^-45 together
_UNIT = 2.0**52  # weights of cells are multiples of one over this, so that their sums are exact
BAND = 2.0**-40  # a cell is decided exactly if a word is so close to its end; errors of the table are below 2^-44
UNSURE = 2.0**-20  # acceptance is decided exactly if floats come so close; their error is below 2^-30
_GUIDE = 12  # bits of a word that mostly decide its cell
_FEW = 1024  # up to so many draws, making a guide takes longer than it saves
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
        """The last cell that is ever clear, and between which words each cell is, from the first to the last."""
        near = self.near(np.arange(-reach, reach + 1)).astype(np.float64)
        weights = np.rint(np.exp(np.square(near) * self._rate) * _UNIT).astype(np.int64)
        below = np.concatenate([[0], np.cumsum(weights)])
        clear = np.count_nonzero(weights > 4 * BAND * below[-1]) // 2
        share = below[reach - clear : reach + clear + 2] / below[-1]
        return int(clear), (np.stack([share[:-1] + BAND, share[1:] - BAND], axis=1) * 2.0**64).ravel().astype("u8")

    def near(self, cell: Integers) -> Integers:
        """``n_s``: a lower bound of the absolute values of the numbers in a cell."""
        nearest: Integers = np.maximum(np.abs(cell) * np.int64(self.width) - np.int64(self.offset), 0)
        return nearest

    @cached_property
    def _guide(self) -> NDArray[np.int16]:
        """For the first bits of words, the number of ends that all such words are beyond; 0 if it is not one number."""
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
        if len(words) <= _FEW:
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
        """The numbers that words choose in cells, the rows of those rejected, and the rows in which it is not clear."""
        inside = (words & np.uint64(self.width - 1)).view(np.int64)
        value = (cell << np.int64(self.shift)) + (inside - np.int64(self.offset))
        size, near = np.abs(value), self.near(cell)
        gap = np.exp((size - near) * ((size + near) * self._rate)) - words * 2.0**-64
        doubtful = np.flatnonzero(gap < UNSURE)
        clear = gap[doubtful] <= -UNSURE
        return value, doubtful[clear], doubtful[~clear]

    def accepts(self, value: int, word: int, further: Callable[[int], int]) -> bool:
        """Whether a number is accepted, exactly: what a word has left, and then further ones, are compared with bits.

        The last bits of the word have chosen the number.
        """
        cell = (value + self.offset) >> self.shift
        near = max(abs(cell) * self.width - self.offset, 0)
        word, count, index = word >> self.shift, 64 - self.shift, 0
        while word == (bits := exp_bits((value**2 - near**2) / (2 * self.square), count)):
            word, count, index = word << 64 | further(index), count + 64, index + 1
        return word < bits


@lru_cache(maxsize=512)  # they have tables
def gaussian_cells(scale: float) -> GaussianCells:
    """The cells of a scale."""
    return GaussianCells(scale)


@lru_cache(maxsize=16)
def sums(square: Fraction, shift: int, count: int) -> tuple[list[int], int]:
    """Lower bounds of the weights of all cells up to each, in units of ``2^−count``, and how much more each may be."""
    width, half = 1 << shift, [(1 << count) - 1]
    while half[-1]:
        half.append(exp_bits((len(half) * width - width // 2) ** 2 / (2 * square), count))
    return list(accumulate(half[:0:-1] + half)), 2 * len(half) + _BEYOND
