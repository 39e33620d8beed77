"""Integer noise, Laplace, joint and Gaussian: exact, vectorised, and addressed.

This is the only place where protecting randomness is drawn.

Formal guarantees
-----------------
*Law.* ``Noise.laplace_at(σ, …)`` returns ``Z`` with ``P(Z = z) = (1−q)/(1+q) · q^|z|``, ``q = exp(−1/σ)``, for
the exact real number that the float ``σ`` denotes, whatever floating-point arithmetic rounds: ``Z`` is the
difference of two geometric variables, a geometric variable's binary digits are independent coins with known
probabilities, and each coin compares random bits with the binary expansion of its probability, of which as many
bits are computed as it takes to decide (`headwater.geometric_coins`, `proofs/noise.md`). ``Noise.gaussian_at(σ, …)``
returns ``Z`` with ``P(Z = z) ∝ exp(−z²/2σ²)``, by inversion of a table (`headwater.gaussian_cells`); floats decide only
what is clear.
``Noise.jointly_at`` draws for several small tables at once (`headwater.joint_noise`, `proofs/joint.md`).

*Address.* Every draw has an address of 112 bits, and its random bits are AES-256 of that address under a secret key.
The same key and address always give the same number, so noise can be looked at again but never drawn again for
the same quantity: replaying, resuming or asking in another order changes nothing. Distinct addresses give independent
draws, as far as AES (and BLAKE2b, which breaks ties) under that key cannot be distinguished from a random function.

*Entropy.* The key comes from the operating system. ``seed=`` replaces it for tests, and then protects nobody.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
import warnings
from collections.abc import Sequence
from functools import partial

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import ArrayLike, NDArray

from headwater.gaussian_cells import GaussianCells, gaussian_cells
from headwater.gaussian_cells import Integers as Integers
from headwater.gaussian_cells import Words as Words
from headwater.geometric_coins import GeometricCoins, geometric_coins
from headwater.joint_noise import draw_jointly

GAUSSIAN_VERSION = 2
"""Which Gaussian draw lives at an address: a run goes on only with the draws that it began with."""

_FOUR_WORDS = struct.Struct("<4Q")
_BLOCKS = 1 << 16  # an address leaves 16 bits free, which number its cipher blocks
_UNIFORM_BLOCK = _BLOCKS - 1  # never reached by a Laplace draw, which needs at most 32 blocks
CHUNK = 1 << 11  # draws at a time: what they need stays in the processor's cache, and in memory already at hand
_GAUSSIAN_CHUNK = 1 << 12  # these need less
_ATTEMPTS = 64  # the cipher block of the first attempt of a Gaussian draw; each of the others has the next one
_MOST_ATTEMPTS = 128


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
        law, out = gaussian_cells(float(scale)), np.empty(los.shape, dtype=np.int64)
        for start in range(0, len(los), _GAUSSIAN_CHUNK):
            part = slice(start, start + _GAUSSIAN_CHUNK)
            out[part] = self._accepted(law, his[part], los[part])
        return out

    def jointly_at(self, scale: float, sizes: Sequence[int], hi: int, los: Sequence[int]) -> Integers:
        """Joint noise of tables of so many numbers each, one after the other, at the addresses ``(hi, los[i])``.

        ``P(z) ∝ exp(−N(z)/scale)`` for the norm ``N`` of `headwater.joint_noise`, which a replaced record moves by one.
        """
        return draw_jointly(self.further_word, scale, sizes, hi, los)

    def uniform_at(self, hi: ArrayLike, lo: ArrayLike) -> Words:
        """128 uniform bits at each address, as rows of two words, the more significant first.

        They are independent of the Laplace draw at the same address.
        """
        his, los = _addresses(hi, lo)
        words: Words = self.blocks(his, los, range(_UNIFORM_BLOCK, _BLOCKS))[0]
        return words

    def further_word(self, hi: int, lo: int, label: int, index: int) -> int:
        """The ``index``-th of endlessly many 64-bit words behind an address, for ties that need more bits."""
        message = _FOUR_WORDS.pack(hi, lo, label, index)
        return int.from_bytes(hashlib.blake2b(message, digest_size=8, key=self.key).digest(), "little")

    def blocks(self, hi: Words, lo: Words, numbers: range) -> Words:
        """The cipher blocks of these numbers at each address, shape ``(len(numbers), n, 2)``."""
        plain = np.empty((len(numbers), len(hi), 2), dtype="<u8")
        plain[:, :, 0] = hi
        of_block = np.arange(numbers.start, numbers.stop, dtype=np.uint64)[:, None]
        np.add(lo << np.uint64(16), of_block, out=plain[:, :, 1])
        return np.frombuffer(self._encrypt(plain.reshape(-1).view(np.uint8).data), dtype="<u8").reshape(plain.shape)

    def stream(self, hi: int = 0, lo: int = 0, *, ahead: int = 64) -> NoiseStream:
        """Draws one after the other, at the addresses ``(hi, lo)``, ``(hi, lo + 1)``, …"""
        return NoiseStream(self, hi, lo, ahead)

    def _draw(self, scale: float, hi: ArrayLike, lo: ArrayLike, signs: tuple[int, ...]) -> Integers:
        """Sums of geometric variables with these signs, chunk by chunk."""
        his, los = _addresses(hi, lo)
        coins = geometric_coins(float(scale))
        heads = coins.heads_for(min(len(los), CHUNK))
        if 0 < len(los) <= CHUNK:
            return self._chunk(coins, heads, his, los, signs)
        out = np.empty(los.shape, dtype=np.int64)
        for start in range(0, len(los), CHUNK):
            part = slice(start, start + CHUNK)
            out[part] = self._chunk(coins, heads, his[part], los[part], signs)
        return out

    def _chunk(
        self, coins: GeometricCoins, heads: NDArray[np.uint16], hi: Words, lo: Words, signs: tuple[int, ...]
    ) -> Integers:
        """One chunk of draws."""
        value, ties = coins.values(self.blocks(hi, lo, range(coins.blocks)), heads, signs)
        for row, sign, coin in ties:
            value[row] += sign * coins.settle(partial(self.further_word, int(hi[row]), int(lo[row])), sign, coin)
        return value

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

        def word(row: int, label: int, index: int) -> int:  # further bits live at addresses beyond all others
            return self.further_word(int(hi[row]), int(lo[row]) | number << 48, label, index)

        return law.attempt(self.blocks(hi, lo, range(_ATTEMPTS + number - 1, _ATTEMPTS + number))[0], word)


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
