"""Integer noise, Laplace, joint and Gaussian: exact, vectorised, and addressed.

This is the only place where protecting randomness is drawn.

Formal guarantees
-----------------
*Law.* ``Noise.laplace_at(σ, …)`` returns ``Z`` with ``P(Z = z) = (1−q)/(1+q) · q^|z|``, ``q = exp(−1/σ)``, for
the exact real number that the float ``σ`` denotes, whatever floating-point arithmetic rounds: ``Z`` is the
difference of two geometric variables, a geometric variable's binary digits are independent coins with known
probabilities, and each coin compares random bits with the binary expansion of its probability, of which as many
bits are computed as it takes to decide (`proofs/noise.md`). ``Noise.gaussian_at(σ, …)`` returns ``Z`` with
``P(Z = z) ∝ exp(−z²/2σ²)``, by inversion of a table (`headwater.gaussian_cells`); floats decide only what is clear.
``Noise.jointly_at`` draws for several small tables at once (`headwater.joint_noise`, `proofs/joint.md`).

*Address.* Every draw has an address of 112 bits, and its random bits are AES-256 of that address under a secret key.
The same key and address always give the same number, so noise can be looked at again but never drawn again for
the same quantity: replaying, resuming or asking in another order changes nothing. Distinct addresses give independent
draws, as far as AES (and BLAKE2b, which breaks ties) under that key cannot be told from a random function.

*Entropy.* The key comes from the operating system. ``seed=`` replaces it for tests, and then protects nobody.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import warnings
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import ArrayLike, NDArray

from headwater.exp_bits import floor_of
from headwater.gaussian_cells import GaussianCells
from headwater.gaussian_cells import Integers as Integers
from headwater.gaussian_cells import Words as Words
from headwater.joint_noise import draw_jointly

GAUSSIAN_VERSION = 2
"""Which Gaussian draw lives at an address: a run goes on only with the draws that it began with."""

_BLOCKS = 1 << 16  # an address leaves 16 bits free, which number its cipher blocks
_UNIFORM_BLOCK = _BLOCKS - 1  # never reached by a Laplace draw, which needs at most 32 blocks
_CHUNK = 1 << 11  # draws at a time: what they need stays in the processor's cache, and in memory already at hand
_GAUSSIAN_CHUNK = 1 << 12  # these need less
_FEW = 256  # draws for which it is not worth while to copy the coins of a law beside each other
_ATTEMPTS = 64  # the cipher block of the first attempt of a Gaussian draw; each of the others has the next one
_MOST_ATTEMPTS = 128
_CELL, _VERDICT = 1 << 36, 1 << 37  # the labels of further bits of attempts, beyond those of coins
_NO_ROWS = np.empty(0, dtype=np.int64)
_HEAD = 16  # bits of a coin's first look; further bits are needed once in 65,536 coins
_CLEAR = 2.0**-20  # floats decide these bits unless they come so close to a whole number; their error is below 2^-30


class Noise:
    """A keyed source of exact integer noise and of uniform bits.

    Parameters
    ----------
    seed
        For tests only: derives the key from a number that everybody can guess.
    key
        The 32 bytes of a source that was saved earlier. As secret as the data.

    Examples
    --------
    >>> noise = Noise(seed=1)
    >>> noise.laplace_at(2.0, hi=7, lo=[0, 1, 2]).tolist() == noise.laplace_at(2.0, hi=7, lo=[0, 1, 2]).tolist()
    True
    >>> noise.stream().laplace(25.0, size=3).shape
    (3,)
    """

    def __init__(self, seed: int | None = None, *, key: bytes | None = None) -> None:
        if key is None:
            key = secrets.token_bytes(32) if seed is None else _key_of(seed)
        if len(key) != 32:
            raise ValueError(f"a noise key has 32 bytes, not {len(key)}")
        self.key = key
        self._encrypt = Cipher(algorithms.AES256(key), modes.ECB()).encryptor().update  # noqa: S305
        # ECB is right here: every block is a distinct address, so this evaluates a keyed random function.

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (self.key,)

    def laplace_at(self, scale: float, hi: ArrayLike, lo: ArrayLike) -> Integers:
        """The integer Laplace draws of scale ``scale`` that live at the addresses ``(hi, lo)``.

        ``hi`` has 64 bits, ``lo`` 48; they are broadcast against each other.
        """
        return self._draw(scale, hi, lo, signs=(1, -1))

    def geometric_at(self, scale: float, hi: ArrayLike, lo: ArrayLike) -> Integers:
        """The geometric draws, ``P(G ≥ n) = exp(−n/scale)``, that live at the addresses ``(hi, lo)``.

        Each is the first of the two variables whose difference is the integer Laplace draw at the same address.
        """
        return self._draw(scale, hi, lo, signs=(1,))

    def gaussian_at(self, scale: float, hi: ArrayLike, lo: ArrayLike) -> Integers:
        """The discrete Gaussian draws, ``P(z) ∝ exp(−z²/(2·scale²))``, that live at the addresses ``(hi, lo)``.

        One word of an attempt chooses a cell of ``2^b`` whole numbers, the next one a number in it and whether that is
        accepted; below a scale of 256 cells hold one number, which always is (`headwater.gaussian_cells`). Each attempt
        at an address has bits of its own.
        """
        his, los = _addresses(hi, lo)
        law, out = _gaussian(float(scale)), np.empty(los.shape, dtype=np.int64)
        for start in range(0, len(los), _GAUSSIAN_CHUNK):
            part = slice(start, start + _GAUSSIAN_CHUNK)
            out[part] = self._accepted(law, his[part], los[part])
        return out

    def jointly_at(self, scale: float, sizes: Sequence[int], hi: int, los: Sequence[int]) -> Integers:
        """Joint noise of tables of so many numbers each, one after the other, at the addresses ``(hi, los[i])``.

        ``P(z) ∝ exp(−N(z)/scale)`` for the norm ``N`` of `headwater.joint_noise`, which a replaced record moves by one.
        """
        return draw_jointly(self.further_word, scale, sizes, hi, los)

    def _accepted(self, law: GaussianCells, hi: Words, lo: Words) -> Integers:
        """The first accepted attempt at each address, for one chunk."""
        value, left = self._attempt(law, hi, lo, 1)
        for number in range(2, _MOST_ATTEMPTS + 1):
            if not len(left):
                return value
            value[left], rejected = self._attempt(law, hi[left], lo[left], number)
            left = left[rejected]
        raise RuntimeError(f"a draw was rejected {_MOST_ATTEMPTS} times, which has a probability below 2^-800")

    def _attempt(self, law: GaussianCells, hi: Words, lo: Words, number: int) -> tuple[Integers, Integers]:
        """Values of the attempts of this number, from 1 on, at these addresses, and the rows of those rejected."""

        def further(row: int, label: int) -> Callable[[int], int]:  # they live at addresses beyond all others
            return partial(self.further_word, int(hi[row]), int(lo[row]) | number << 48, label)

        words = self._blocks(hi, lo, range(_ATTEMPTS + number - 1, _ATTEMPTS + number))[0]
        cell, unsure = law.cells(words[:, 0])
        for row in unsure:
            cell[row] = law.exact_cell(int(words[row, 0]), further(row, _CELL))
        if law.width == 1:
            return cell, _NO_ROWS
        value, rejected, unsure = law.values(cell, words[:, 1])
        if len(unsure):
            no = [row for row in unsure if not law.accepts(int(value[row]), int(words[row, 1]), further(row, _VERDICT))]
            rejected = np.union1d(rejected, np.array(no, dtype=np.int64))
        return value, rejected

    def _draw(self, scale: float, hi: ArrayLike, lo: ArrayLike, signs: tuple[int, ...]) -> Integers:
        """Sums of geometric variables with these signs, chunk by chunk."""
        his, los = _addresses(hi, lo)
        law = _law(float(scale))
        if 0 < len(his) <= _FEW:
            return self._chunk(law, law.heads.reshape(-1, 1, 8), his, los, signs)
        out = np.empty(his.shape, dtype=np.int64)
        heads = np.repeat(law.heads.reshape(-1, 1, 8), min(len(his), _CHUNK), axis=1)
        for start in range(0, len(his), _CHUNK):
            part = slice(start, start + _CHUNK)
            out[part] = self._chunk(law, heads, his[part], los[part], signs)
        return out

    def uniform_at(self, hi: ArrayLike, lo: ArrayLike) -> Words:
        """128 uniform bits at each address, as rows of two words, the more significant first.

        They are independent of the Laplace draw at the same address.
        """
        his, los = _addresses(hi, lo)
        words: Words = self._blocks(his, los, range(_UNIFORM_BLOCK, _BLOCKS))[0]
        return words

    def further_word(self, hi: int, lo: int, label: int, index: int) -> int:
        """The ``index``-th of endlessly many 64-bit words behind an address, for ties that need more bits."""
        message = b"".join(part.to_bytes(8, "little") for part in (hi, lo, label, index))
        return int.from_bytes(hashlib.blake2b(message, digest_size=8, key=self.key).digest(), "little")

    def stream(self, hi: int = 0, lo: int = 0, *, ahead: int = 64) -> NoiseStream:
        """Draws one after the other, at the addresses ``(hi, lo)``, ``(hi, lo + 1)``, …"""
        return NoiseStream(self, hi, lo, ahead)

    def _blocks(self, hi: Words, lo: Words, numbers: range) -> Words:
        """The cipher blocks of these numbers at each address, shape ``(len(numbers), n, 2)``."""
        plain = np.empty((len(numbers), len(hi), 2), dtype="<u8")
        plain[:, :, 0] = hi
        of_block = np.arange(numbers.start, numbers.stop, dtype=np.uint64)[:, None]
        np.add(lo << np.uint64(16), of_block, out=plain[:, :, 1])
        return np.frombuffer(self._encrypt(plain.reshape(-1).view(np.uint8).data), dtype="<u8").reshape(plain.shape)

    def _chunk(self, law: _Law, heads: NDArray[np.uint16], hi: Words, lo: Words, signs: tuple[int, ...]) -> Integers:
        """One chunk of draws."""
        return self._values(law, heads[:, : len(hi)], self._blocks(hi, lo, range(law.blocks)), hi, lo, signs)

    def _values(
        self,
        law: _Law,
        heads: NDArray[np.uint16],
        blocks: Words,
        hi: Words,
        lo: Words,
        signs: tuple[int, ...],
    ) -> Integers:
        """The draws that these cipher blocks decide. A block has 8 words of 16 bits, for 8 coins: a byte of digits."""
        n, words = len(hi), blocks.view("<u2")
        lanes = np.zeros((n, 16), dtype=np.uint8)
        lanes[:, : law.blocks] = np.packbits((words < heads).reshape(-1), bitorder="little").reshape(-1, n).T
        low, high = lanes.view("<i8").T
        value = law.first(low) if signs == (1,) else law.difference(low, high)
        for position in np.flatnonzero((words == heads).reshape(-1)):
            block, row, column = np.unravel_index(position, words.shape)
            second, coin = divmod(int(8 * block + column), law.coins)
            if second < len(signs) and coin <= law.digits:  # beyond lies padding
                sign = signs[second]
                value[row] += sign * self._settle(law, int(hi[row]), int(lo[row]), sign, coin)
        return value

    def _settle(self, law: _Law, hi: int, lo: int, sign: int, coin: int) -> int:
        """What a coin adds to its geometric variable once its first bits have tied with its probability."""
        label = 4 * coin + 1 + sign
        if coin < law.digits:
            return 1 << coin if self._is_heads(law, hi, lo, label, coin) else 0
        # The last coin says that the geometric variable is beyond all its digits; from there it starts anew.
        laps = 0
        while self._is_heads(law, hi, lo, label + (laps << 16), coin, tied=laps == 0):
            laps += 1
        return laps << law.digits

    def _is_heads(self, law: _Law, hi: int, lo: int, label: int, coin: int, *, tied: bool = True) -> bool:
        """Compare random bits with a coin's probability, 64 at a time, until they differ."""
        skip, index = (_HEAD, 0) if tied else (0, 0)
        while True:
            word = self.further_word(hi, lo, label, index)
            digit = _bits(law, coin, skip + 64 * (index + 1)) & (2**64 - 1)
            if word != digit:
                return word < digit
            index += 1


class SeededRunWarning(UserWarning):
    """A run with a seed can be repeated by anyone who guesses the seed: it protects nobody."""


def warn_of_seed(stacklevel: int) -> None:
    """Say so to whoever called, this many frames up."""
    warnings.warn("seed= is for tests: a seeded run protects nobody", SeededRunWarning, stacklevel=stacklevel)


class NoiseStream:
    """Sequential draws from one `Noise`, each used once and in order.

    Draws of one scale are made ``ahead`` at a time; which values a stream gives depends on the calls made of it
    and on nothing else.
    """

    def __init__(self, noise: Noise, hi: int, lo: int, ahead: int) -> None:
        self._noise, self._hi, self._next, self._ahead = noise, hi, lo, ahead
        self._ready: dict[float, list[int]] = {}

    def laplace(self, scale: float, size: int) -> Integers:
        """``size`` fresh draws of scale ``scale``."""
        if size < 0:  # it would turn the stream back
            raise ValueError(f"cannot draw {size} values")
        lo = np.arange(self._next, self._next + size, dtype=np.uint64)
        self._next += size
        return self._noise.laplace_at(scale, self._hi, lo)

    def draw(self, scale: float) -> int:
        """One fresh draw of scale ``scale``."""
        ready = self._ready.setdefault(scale, [])
        if not ready:
            ready.extend(self.laplace(scale, self._ahead)[::-1].tolist())
        return ready.pop()


class _Law:
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
            heads[[coin, self.coins + coin]] = self.bits(coin, _HEAD)
        self.heads = heads
        self.blocks = len(heads) // 8

    def difference(self, low: Integers, high: Integers) -> Integers:
        """First geometric variable less the second, out of the packed digits of both."""
        mask = np.int64((1 << self.digits) - 1)
        return (low & mask) - (high if self.coins == 64 else low >> np.int64(self.coins) & mask)

    def first(self, low: Integers) -> Integers:
        """The first geometric variable alone."""
        return low & np.int64((1 << self.digits) - 1)

    def bits(self, coin: int, count: int) -> int:
        """The first ``count`` bits after the point of the coin's probability, exactly."""
        last = coin == self.digits
        if count == _HEAD and not last:  # a hundred times as fast, and nearly always clear
            scaled = 2.0**_HEAD / (1 + math.exp(self._rate * 2.0**coin))
            if abs(scaled - round(scaled)) > _CLEAR:
                return int(scaled)
        return floor_of(
            self.rate * (1 << coin),
            count,
            lambda context, power: power if last else context.divide(power, context.add(power, Decimal(1))),
        )


@lru_cache(maxsize=512)  # they have tables
def _gaussian(scale: float) -> GaussianCells:
    return GaussianCells(scale)


@lru_cache(maxsize=4096)
def _law(scale: float) -> _Law:
    return _Law(scale)


@lru_cache(maxsize=4096)  # a law has few coins, and hardly any tie needs a second look
def _bits(law: _Law, coin: int, count: int) -> int:
    return law.bits(coin, count)


def _addresses(hi: ArrayLike, lo: ArrayLike) -> tuple[Words, Words]:
    his, los = np.asarray(hi, np.uint64), np.asarray(lo, np.uint64)
    if los.size and los.max() >> np.uint64(48):  # the bits beyond would be lost, and two addresses share one draw
        raise ValueError("the lower part of an address must be below 2^48 and not negative")
    shape = np.broadcast(his, los).shape or (1,)
    # np.broadcast_arrays and np.broadcast_to are slow.
    return his if his.shape == shape else np.full(shape, his), los if los.shape == shape else np.full(shape, los)


def _key_of(seed: int) -> bytes:
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise TypeError(f"seed must be a whole number, not {type(seed).__name__}")
    return hashlib.sha256(b"headwater test seed %d" % seed).digest()


def _restore(key: bytes) -> Noise:
    return Noise(key=key)
