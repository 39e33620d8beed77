"""Integer noise, Laplace, joint and Gaussian: exact, vectorised, and addressed.

This is the only place where protecting randomness is drawn.

Formal guarantees
-----------------
*Law.* ``Noise.laplace_at(σ, …)`` returns ``Z`` with ``P(Z = z) = (1−q)/(1+q) · q^|z|``, ``q = exp(−1/σ)``, for
the exact real number that the float ``σ`` denotes, whatever floating-point arithmetic rounds: ``Z`` is the
difference of two geometric variables, a geometric variable's binary digits are independent coins with known
probabilities, and each coin compares random bits with the binary expansion of its probability, of which as many
bits are computed as it takes to decide (`proofs/noise.md`). ``Noise.gaussian_at(σ, …)`` returns ``Z`` with
``P(Z = z) ∝ exp(−z²/2σ²)``, by rejection from Laplace draws (`proofs/gaussian.md`). Floats decide only what is clear.
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
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import ArrayLike, NDArray

from headwater.exp_digits import exp_bits, floor_of
from headwater.joint_noise import draw_jointly

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

_BLOCKS = 1 << 16  # an address leaves 16 bits free, which number its cipher blocks
_UNIFORM_BLOCK = _BLOCKS - 1  # never reached by a Laplace draw, which needs at most 32 blocks
_CHUNK = 1 << 14  # draws at a time: what they need stays in the processor's cache
_GAUSSIAN_CHUNK = 1 << 13  # these need more
_FEW = 256  # draws for which it is not worth while to copy the coins of a law beside each other
_ATTEMPT = 64  # cipher blocks for each attempt of a Gaussian draw, from the 64th on: a proposal takes at most 32
_MOST_ATTEMPTS = 1020  # before they would reach the block of uniform bits
_AT_ONCE = 4  # attempts at once, of few draws: hardly any needs more
_UNSURE = 2.0**-20  # acceptance is decided exactly if floats come so close; their error is below 2^-30
_VERDICT = 1 << 36  # the label of further bits of a verdict, beyond those of coins
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

        Rejection from integer Laplace noise of scale ``t = ⌊scale⌋ + 1``: a draw ``y`` is accepted with probability
        ``exp(−(|y| − scale²/t)²/(2·scale²))``. Each attempt at an address has bits of its own.
        """
        his, los = _addresses(hi, lo)
        law, out = _gaussian(float(scale)), np.empty(los.shape, dtype=np.int64)
        heads = law.proposal.heads.reshape(-1, 1, 8)
        if len(los) > _FEW:
            heads = np.repeat(heads, min(len(los), _GAUSSIAN_CHUNK), axis=1)
        for start in range(0, len(los), _GAUSSIAN_CHUNK):
            part = slice(start, start + _GAUSSIAN_CHUNK)
            self._accepted(law, heads, his[part], los[part], out[part])
        return out

    def jointly_at(self, scale: float, sizes: Sequence[int], hi: int, los: Sequence[int]) -> Integers:
        """Joint noise of tables of so many numbers each, one after the other, at the addresses ``(hi, los[i])``.

        ``P(z) ∝ exp(−N(z)/scale)`` for the norm ``N`` of `headwater.joint_noise`, which a replaced record moves by one.
        """
        return draw_jointly(self.further_word, scale, sizes, hi, los)

    def _accepted(self, law: _Gaussian, heads: NDArray[np.uint16], hi: Words, lo: Words, out: Integers) -> None:
        """Write the first accepted attempt at each address, for one chunk."""
        left, first = np.arange(len(lo)), 0
        while len(left):
            # Few draws are mostly overhead: then some attempts are made at once, and the first accepted one counts.
            few = max(_FEW, len(lo) // 8) if first else _FEW // _AT_ONCE
            count = _AT_ONCE if len(left) <= few else 1
            if first + count > _MOST_ATTEMPTS:
                raise RuntimeError(f"a draw was rejected {first} times, which has a probability below 2^-800")
            if first == 0 and count == 1:
                out[:], taken = self._attempts(law, heads, hi, lo, 1)
                left, first = np.flatnonzero(~taken), 1
                continue
            rows = np.concatenate([left] * count) if count > 1 else left
            numbers = np.repeat(np.arange(first + 1, first + count + 1, dtype=np.uint64), len(left))
            value, taken = self._attempts(law, heads, hi[rows], lo[rows], numbers)
            accepted = np.flatnonzero(taken)[::-1]  # of several at one address the first is written last, and stays
            out[rows[accepted]] = value[accepted]
            left, first = left[~taken.reshape(count, -1).any(axis=0)], first + count

    def _attempts(
        self, law: _Gaussian, heads: NDArray[np.uint16], hi: Words, lo: Words, number: Words | int
    ) -> tuple[Integers, Flags]:
        """Values and verdicts of the attempts of these numbers, from 1 on, at these addresses."""
        each, proposal = np.asarray(number, np.uint64), law.proposal
        words = self._blocks(hi, lo, range(proposal.blocks + 1), each * np.uint64(_ATTEMPT))
        lo = lo | each << np.uint64(48)  # further bits live at addresses beyond all others
        heads = heads[:, : len(hi)] if heads.shape[1] >= len(hi) else proposal.heads.reshape(-1, 1, 8)
        value = self._values(proposal, heads, words[:-1], hi, lo, (1, -1))
        word = words[-1, :, 0]
        taken, unsure = law.verdicts(value, word)
        for row in np.flatnonzero(unsure):
            taken[row] = self._is_below(law, abs(int(value[row])), int(word[row]), int(hi[row]), int(lo[row]))
        return value, taken

    def _is_below(self, law: _Gaussian, size: int, word: int, hi: int, lo: int) -> bool:
        """Compare random bits, the first 64 of them ``word``, with the probability to accept, until they differ."""
        index = 0
        while word == (digits := law.bits(size, 64 * (index + 1)) & (2**64 - 1)):
            word = self.further_word(hi, lo, _VERDICT, index)
            index += 1
        return word < digits

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

    def _blocks(self, hi: Words, lo: Words, numbers: range, beyond: Words | None = None) -> Words:
        """The cipher blocks of these numbers at each address, ``beyond`` it or not, shape ``(len(numbers), n, 2)``."""
        plain = np.empty((len(numbers), len(hi), 2), dtype="<u8")
        plain[:, :, 0] = hi
        of_block = np.arange(numbers.start, numbers.stop, dtype=np.uint64)[:, None]
        first = lo << np.uint64(16)
        np.add(first if beyond is None else first + beyond, of_block, out=plain[:, :, 1])
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


class _Gaussian:
    """The proposal of a discrete Gaussian law, and the probability to accept what it proposes."""

    def __init__(self, scale: float) -> None:
        if not (math.isfinite(scale) and 2.0**-20 <= scale <= 2.0**40):
            raise ValueError(f"the scale of Gaussian noise must lie between 2^-20 and 2^40, not {scale!r}")
        self.square, self.width = Fraction(scale) ** 2, math.floor(scale) + 1
        self.proposal = _law(float(self.width))
        self._centre, self._rate = float(self.square / self.width), float(-1 / (2 * self.square))

    def verdicts(self, value: Integers, word: Words) -> tuple[Flags, Flags]:
        """Which values are accepted, and for which of them that is not sure: floats decide only clear cases."""
        chance = np.exp(np.square(np.abs(value) - self._centre) * self._rate)
        gap = chance - word * 2.0**-64
        taken: Flags = gap > 0
        unsure: Flags = np.abs(gap) < _UNSURE
        return taken, unsure

    def bits(self, size: int, count: int) -> int:
        """The first ``count`` bits after the point of the probability to accept ``±size``, exactly."""
        return exp_bits((size - self.square / self.width) ** 2 / (2 * self.square), count)


@lru_cache(maxsize=4096)
def _gaussian(scale: float) -> _Gaussian:
    return _Gaussian(scale)


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
