"""Noise has an address: the same draw whoever asks, when and in whatever company."""

from __future__ import annotations

import hashlib
import math
import pickle
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from headwater.public.partition import Integers
from headwater.secret.digits import GeometricCoins, Words
from headwater.secret.noise import CHUNK, Noise
from tests.support.noise_checks import (
    MILLION,
    ONE_WORD,
    TWO_WORDS,
    assert_fits,
    binomial,
    coin_bits,
    how_many,
)

# The addresses ------------------------------------------------------------------------------------------------------


def blocks_of(key: bytes, hi: int, lo: int, numbers: range) -> bytes:
    """The cipher blocks behind an address."""
    plain = b"".join(hi.to_bytes(8, "little") + (lo << 16 | b).to_bytes(8, "little") for b in numbers)
    return Cipher(algorithms.AES256(key), modes.ECB()).encryptor().update(plain)  # noqa: S305 - as under test


def further_words(key: bytes, hi: int, lo: int, label: int) -> Iterator[int]:
    """The words that decide ties."""
    for index in range(100):
        message = b"".join(part.to_bytes(8, "little") for part in (hi, lo, label, index))
        yield int.from_bytes(hashlib.blake2b(message, digest_size=8, key=key).digest(), "little")


def literal_draw(key: bytes, scale: float, hi: int, lo: int) -> int:
    """One draw, coin by coin, from its bits: AES of the address, then BLAKE2b where 16 bits do not decide."""
    law = GeometricCoins(scale)
    stream = blocks_of(key, hi, lo, range(law.blocks))

    def words(label: int) -> Iterator[int]:
        return further_words(key, hi, lo, label)

    def is_heads(coin: int, uniform: int, known: int, label: int) -> bool:
        further = words(label)
        while uniform == coin_bits(law, coin, known):
            uniform, known = uniform << 64 | next(further), known + 64
        return uniform < coin_bits(law, coin, known)

    value = 0
    for second, sign in ((0, 1), (1, -1)):
        for coin in range(law.digits + 1):
            place, label, unit = 2 * (second * law.coins + coin), 4 * coin + 1 + sign, sign << coin
            if is_heads(coin, int.from_bytes(stream[place : place + 2], "little"), 16, label):
                value += unit
                laps = 1
                while coin == law.digits and is_heads(coin, next(words(label + (laps << 16))), 64, -1):
                    value, laps = value + unit, laps + 1
    return value


@pytest.mark.parametrize("scale", [0.05, 0.3, 25.0, 1000.0, ONE_WORD, TWO_WORDS, 2.0**50])
def test_draws_are_the_literal_reading_of_their_bits(scale: float) -> None:
    """Bit for bit, at plain addresses and at all of 60,000 where a coin tied: saved keys must keep their noise."""
    noise, tied = Noise(seed=5), set()
    further_word = noise.further_word

    def spy(hi: int, lo: int, label: int, index: int) -> int:
        tied.add(lo)
        return further_word(hi, lo, label, index)

    hi = 2**64 - 3
    with patch.object(noise, "further_word", spy):
        values = noise.laplace_at(scale, hi, np.arange(2**48 - 60_000, 2**48))
    assert tied
    for lo in [*range(2**48 - 60_000, 2**48, 1499), *sorted(tied)[:40]]:
        assert values[lo - 2**48] == literal_draw(noise.key, scale, hi, lo)


@pytest.mark.parametrize("scale", [0.3, 25.0, 2.0**50])
def test_a_draw_depends_on_key_and_address_only(scale: float) -> None:
    """Not on the batch, its order or its neighbours, nor on where the batch is cut into chunks."""
    noise, rng = Noise(seed=6), np.random.default_rng(6)
    n = 2 * CHUNK + 7
    hi, lo = rng.integers(0, 2**64, n, dtype=np.uint64), rng.integers(0, 2**48, n, dtype=np.uint64)
    all_at_once = noise.laplace_at(scale, hi, lo)
    order = rng.permutation(n)
    assert (noise.laplace_at(scale, hi[order], lo[order]) == all_at_once[order]).all()
    for size in (0, 1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK):
        assert (noise.laplace_at(scale, hi[:size], lo[:size]) == all_at_once[:size]).all()
    for i in (0, 1, CHUNK, n - 1):
        alone = noise.laplace_at(scale, int(hi[i]), int(lo[i]))
        assert alone.shape == (1,)
        assert alone[0] == all_at_once[i]
    assert (Noise(key=noise.key).laplace_at(scale, hi, lo) == all_at_once).all()
    assert (pickle.loads(pickle.dumps(noise)).laplace_at(scale, hi, lo) == all_at_once).all()  # noqa: S301 - our own


def test_draws_at_distinct_addresses_have_nothing_in_common() -> None:
    """Signs agree in half of all pairs. Fails for a random seed with probability below 7e-9 (6 p-values)."""
    noise, lo = Noise(seed=8), np.arange(MILLION // 2, dtype=np.uint64)
    base = noise.laplace_at(25.0, 0, lo)
    others = {
        "next lo": noise.laplace_at(25.0, 0, lo + np.uint64(1)),
        "top bit of lo": noise.laplace_at(25.0, 0, lo + np.uint64(1 << 47)),
        "next hi": noise.laplace_at(25.0, 1, lo),
        "top bit of hi": noise.laplace_at(25.0, 1 << 63, lo),
        "hi and lo exchanged": noise.laplace_at(25.0, lo, 0)[::-1],
        "another key": Noise(seed=9).laplace_at(25.0, 0, lo),
    }
    found = {}
    for name, other in others.items():
        assert not np.array_equal(base, other)
        signs = np.sign(base) * np.sign(other)
        found[name] = binomial(how_many(signs > 0), how_many(signs), 0.5)
    assert_fits(found)


def test_uniform_bits_are_even_and_independent_of_the_draw_beside_them() -> None:
    """Fails for a random seed with probability below 3e-7 (256 p-values)."""
    noise, lo = Noise(seed=10), np.arange(100_000, dtype=np.uint64)
    words, draw = noise.uniform_at(4, lo), noise.laplace_at(25.0, 4, lo)
    assert (noise.uniform_at(4, lo[::-1]) == words[::-1]).all()
    assert words.dtype == np.uint64
    found, positive = {}, draw > 0
    for bit in range(128):
        ones = (words[:, bit // 64] >> np.uint64(bit % 64) & np.uint64(1)).astype(bool)
        found[f"bit {bit}"] = binomial(how_many(ones), len(lo), 0.5)
        found[f"bit {bit}, draw > 0"] = binomial(how_many(ones & positive), how_many(positive), 0.5)
    assert_fits(found)


def test_further_words_depend_on_all_that_names_them() -> None:
    """Fails for a random key with probability below 1e-18: two of six 64-bit words would have to be equal."""
    noise = Noise(seed=11)
    names = [(1, 2, 3, 4), (0, 2, 3, 4), (1, 0, 3, 4), (1, 2, 0, 4), (1, 2, 3, 0)]
    words = {noise.further_word(*name) for name in names} | {Noise(seed=12).further_word(1, 2, 3, 4)}
    assert len(words) == 6
    assert noise.further_word(1, 2, 3, 4) in words


# Streams, seeds, keys -----------------------------------------------------------------------------------------------


def test_a_stream_gives_the_draws_of_its_addresses_once_and_in_order() -> None:
    noise = Noise(seed=13)
    there = noise.laplace_at(25.0, 9, np.arange(100, 200)).tolist()
    stream = noise.stream(hi=9, lo=100, ahead=4)
    taken = stream.laplace(25.0, 3).tolist() + [stream.draw(25.0) for _ in range(6)]
    taken += stream.laplace(25.0, 5).tolist()
    taken += [stream.draw(25.0) for _ in range(3)]
    # 3 in a row, 6 of the 8 made ahead, 5 beyond those, the 2 left over, and the first of the next 4.
    assert taken == there[:9] + there[11:16] + there[9:11] + there[16:17]


def test_streams_of_several_scales_never_use_an_address_twice() -> None:
    noise = Noise(seed=14)
    used: list[int] = []

    def spy(scale: float, hi: int, lo: Words) -> Integers:
        used.extend(lo.tolist())
        return Noise.laplace_at(noise, scale, hi, lo)

    with patch.object(noise, "laplace_at", spy):
        stream = noise.stream(ahead=5)
        for scale in (1.0, 25.0, 1.0, 2.5, 25.0) * 7:
            stream.draw(scale)
            stream.laplace(scale, 2)
            stream.laplace(scale, 0)
    assert used == list(range(len(used)))


def test_a_stream_can_be_repeated_and_pickled_half_way() -> None:
    def take(first: int, second: int) -> list[int]:
        stream = Noise(seed=15).stream(hi=1)
        values = [stream.draw(3.0) for _ in range(first)]
        stream = pickle.loads(pickle.dumps(stream))  # noqa: S301 - our own
        return values + [stream.draw(3.0) for _ in range(second)]

    assert take(10, 140) == take(75, 75) == take(150, 0)


def test_a_seed_can_be_repeated_and_no_seed_cannot() -> None:
    """Two keys of the operating system are equal with probability 2^−256."""
    lo = np.arange(100)
    assert (Noise(seed=17).laplace_at(25.0, 0, lo) == Noise(seed=17).laplace_at(25.0, 0, lo)).all()
    assert Noise(seed=17).key != Noise(seed=18).key
    assert Noise().key != Noise().key
    assert len(Noise().key) == 32


@pytest.mark.parametrize("scale", [0.0, -0.0, -1.0, math.nan, math.inf, -math.inf, math.nextafter(2.0**50, math.inf)])
def test_a_scale_that_is_no_scale_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="the scale of noise must be"):
        Noise(seed=0).laplace_at(scale, 0, 0)


@pytest.mark.parametrize("lo", [1 << 48, (1 << 64) - 1, np.array([0, 1 << 48]), np.array([0, -1])])
def test_an_address_beyond_48_bits_is_refused(lo: int | NDArray[np.int64]) -> None:
    """Its upper bits would be lost, and two quantities would share their noise."""
    with pytest.raises(ValueError, match="2\\^48"):
        Noise(seed=0).laplace_at(25.0, 0, lo)
    with pytest.raises(ValueError, match="2\\^48"):
        Noise(seed=0).uniform_at(0, lo)
