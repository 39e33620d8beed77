"""The only place where protecting randomness is drawn: exact integer noise, each draw a function of key and address.

Laplace and Gaussian draws are made of the coins and tables of `headwater.secret.digits`; joint noise of a radius and
of uniform points in balls, by the law of `headwater.public.laws` (`proofs/noise.md`, `gaussian.md`, `joint.md`). At the
end are the keys of a run: of the noise and of hashes of people, which are secret, and of releases, which is public.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
import warnings
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import ArrayLike, NDArray

from headwater.public.laws import fits, points_in_ball, radii, with_nonzero
from headwater.public.partition import Integers
from headwater.secret.digits import GaussianCells, GeometricCoins, gaussian_cells, geometric_coins
from headwater.secret.digits import Words as Words

Word = Callable[[int, int, int, int], int]  # `Noise.further_word`: 64 bits behind an address, by label and number
_RADIUS, _TABLE = 1 << 56, 1 << 57  # labels of the bits of joint noise: no coin, verdict or tie has them


def draw_jointly(word: Word, scale: float, sizes: Sequence[int], hi: int, los: Sequence[int]) -> Integers:
    if not sizes or min(sizes) < 1 or not fits(scale, sizes):
        raise ValueError(f"there is no joint noise of scale {scale!r} for tables of {list(sizes)} numbers")
    if len(set(los)) != len(los) or min(los) < 0 or max(los) >> 48:
        raise ValueError("every table needs an address of its own, below 2^48 and not negative")
    radius = radii(scale, tuple(sorted(sizes))).draw(Bits(word, hi, los[0], _RADIUS).word)
    parts = (in_ball(Bits(word, hi, lo, _TABLE), size, radius) for size, lo in zip(sizes, los, strict=True))
    return np.array([number for part in parts for number in part], dtype=np.int64)


def norm(noise: Sequence[Sequence[int]]) -> int:
    return max((abs(t[0]) if len(t) == 1 else -(-sum(map(abs, t)) // 2) for t in noise), default=0)


class Bits:
    """Random bits behind an address, one after the other."""

    def __init__(self, word: Word, hi: int, lo: int, label: int) -> None:
        self._word, self._address, self._next = word, (hi, lo, label), 0

    def word(self) -> int:
        self._next += 1
        return self._word(*self._address, self._next - 1)

    def below(self, count: int) -> int:
        length = (count - 1).bit_length()
        words = -(-length // 64)
        while True:
            number = self.word() if words == 1 else sum(self.word() << 64 * i for i in range(words))
            number >>= 64 * words - length
            if number < count:
                return number

    def subset(self, size: int, of: int) -> list[int]:
        found = set[int]()
        for last in range(of - size, of):
            one = self.below(last + 1)
            found.add(last if one in found else one)
        return sorted(found)


def in_ball(bits: Bits, size: int, radius: int) -> list[int]:
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


GAUSSIAN_VERSION = 2  # which Gaussian draw lives at an address: a run goes on only with the draws that it began with
_FOUR_WORDS = struct.Struct("<4Q")
_BLOCKS = 1 << 16  # an address leaves 16 bits free, which number its cipher blocks
_UNIFORM_BLOCK = _BLOCKS - 1  # never reached by a Laplace draw, which needs at most 32 blocks
CHUNK = 1 << 11  # draws at a time: what they need stays in the processor's cache, and in memory already at hand
_GAUSSIAN_CHUNK = 1 << 12  # these need less
_ATTEMPTS = 64  # the cipher block of the first attempt of a Gaussian draw; each of the others has the next one
_MOST_ATTEMPTS = 128


class Noise:
    """A keyed source of exact integer noise and of uniform bits."""

    def __init__(self, seed: int | None = None, *, key: bytes | None = None) -> None:
        if key is None:
            key = secrets.token_bytes(32) if seed is None else _key_of(seed)
        if len(key) != 32:
            raise ValueError(f"a noise key has 32 bytes, not {len(key)}")
        self.key = key
        self._encrypt = Cipher(algorithms.AES256(key), modes.ECB()).encryptor().update  # noqa: S305
        # ECB is right here: every block is a distinct address, so this evaluates a keyed random function.

    def __reduce__(self) -> tuple[object, ...]:
        return partial(Noise, key=self.key), ()

    def laplace_at(self, scale: float, hi: ArrayLike, lo: ArrayLike) -> Integers:
        return self._draw(scale, hi, lo, signs=(1, -1))

    def geometric_at(self, scale: float, hi: ArrayLike, lo: ArrayLike) -> Integers:
        return self._draw(scale, hi, lo, signs=(1,))

    def gaussian_at(self, scale: float, hi: ArrayLike, lo: ArrayLike) -> Integers:
        his, los = _addresses(hi, lo)
        law, out = gaussian_cells(float(scale)), np.empty(los.shape, dtype=np.int64)
        for start in range(0, len(los), _GAUSSIAN_CHUNK):
            part = slice(start, start + _GAUSSIAN_CHUNK)
            out[part] = self._accepted(law, his[part], los[part])
        return out

    def jointly_at(self, scale: float, sizes: Sequence[int], hi: int, los: Sequence[int]) -> Integers:
        return draw_jointly(self.further_word, scale, sizes, hi, los)

    def uniform_at(self, hi: ArrayLike, lo: ArrayLike) -> Words:
        his, los = _addresses(hi, lo)
        words: Words = self.blocks(his, los, range(_UNIFORM_BLOCK, _BLOCKS))[0]
        return words

    def further_word(self, hi: int, lo: int, label: int, index: int) -> int:
        message = _FOUR_WORDS.pack(hi, lo, label, index)
        return int.from_bytes(hashlib.blake2b(message, digest_size=8, key=self.key).digest(), "little")

    def blocks(self, hi: Words, lo: Words, numbers: range) -> Words:
        plain = np.empty((len(numbers), len(hi), 2), dtype="<u8")
        plain[:, :, 0] = hi
        of_block = np.arange(numbers.start, numbers.stop, dtype=np.uint64)[:, None]
        np.add(lo << np.uint64(16), of_block, out=plain[:, :, 1])
        return np.frombuffer(self._encrypt(plain.reshape(-1).view(np.uint8).data), dtype="<u8").reshape(plain.shape)

    def stream(self, hi: int = 0, lo: int = 0, *, ahead: int = 64) -> NoiseStream:
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
        value, ties = coins.values(self.blocks(hi, lo, range(coins.blocks)), heads, signs)
        for row, sign, coin in ties:
            value[row] += sign * coins.settle(partial(self.further_word, int(hi[row]), int(lo[row])), sign, coin)
        return value

    def _accepted(self, law: GaussianCells, hi: Words, lo: Words) -> Integers:
        value, left = self._attempt(law, hi, lo, 1)
        for number in range(2, _MOST_ATTEMPTS + 1):
            if not len(left):
                return value
            value[left], rejected = self._attempt(law, hi[left], lo[left], number)
            left = left[rejected]
        raise RuntimeError(f"a draw was rejected {_MOST_ATTEMPTS} times, which has a probability below 2^-800")

    def _attempt(self, law: GaussianCells, hi: Words, lo: Words, number: int) -> tuple[Integers, Integers]:

        def word(row: int, label: int, index: int) -> int:  # further bits live at addresses beyond all others
            return self.further_word(int(hi[row]), int(lo[row]) | number << 48, label, index)

        return law.attempt(self.blocks(hi, lo, range(_ATTEMPTS + number - 1, _ATTEMPTS + number))[0], word)


class SeededRunWarning(UserWarning):
    """A run with a seed can be repeated by anyone who guesses the seed: it protects nobody."""


def warn_of_seed(stacklevel: int) -> None:
    warnings.warn("seed= is for tests: a seeded run protects nobody", SeededRunWarning, stacklevel=stacklevel)


class NoiseStream:
    """Sequential draws from one `Noise`, each used once and in order."""

    def __init__(self, noise: Noise, hi: int, lo: int, ahead: int) -> None:
        self._noise, self._hi, self._next, self._ahead = noise, hi, lo, ahead
        self._ready: dict[float, list[int]] = {}

    def laplace(self, scale: float, size: int) -> Integers:
        if size < 0:  # it would turn the stream back
            raise ValueError(f"cannot draw {size} values")
        lo = np.arange(self._next, self._next + size, dtype=np.uint64)
        self._next += size
        return self._noise.laplace_at(scale, self._hi, lo)

    def draw(self, scale: float) -> int:
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


def new_keys(seed: int | None) -> tuple[Noise, bytes]:
    if seed is None:
        return Noise(), secrets.token_bytes(32)
    noise = Noise(seed)
    warn_of_seed(4)
    return noise, hashlib.sha256(b"headwater public seed %d" % seed).digest()


def new_person_key(seed: int | None) -> bytes:
    return secrets.token_bytes(32) if seed is None else hashlib.sha256(b"headwater people seed %d" % seed).digest()


def restored_keys(secret: str, public: str) -> tuple[Noise, bytes]:
    return Noise(key=bytes.fromhex(secret)), bytes.fromhex(public)
