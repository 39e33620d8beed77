"""Is the noise what it claims to be? The law itself is tested, and the tests are tested with wrong samplers.

Every check returns p-values, each of them valid (exact binomial) or nearly so (chi-square, with at least 100 expected
in each bin). A check fails when one of them is below ``ALPHA``, so a test that looks at ``k`` of them fails a correct
sampler with probability at most ``k · ALPHA`` over seeds. Seeds are fixed; OpenDP has none, so its tests say "a run".
"""

from __future__ import annotations

import hashlib
import math
import pickle
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import opendp.prelude as dp
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray
from scipy import stats

from headwater.measure import noise as module
from headwater.measure.noise import Integers, Noise, Words, _Law

dp.enable_features("contrib")

ALPHA = 1e-9
MILLION = 1_000_000
SCALES = [0.05, 0.3, 1.0, 2.5, 25.0, 1000.0, 1e6]
ONE_WORD, TWO_WORDS = 1.78e8, 1.8e8  # 31 digits fill one machine word with two variables; 32 need two
WIDE = [ONE_WORD, TWO_WORDS, 1e12, 2.0**50]
LAST_COIN = 2.0**14 / 12 * (1 - 1e-9)  # its last coin is as frequent as can be, e^−12

Sampler = Callable[[float, int], Integers]


# The exact law, from its formula ------------------------------------------------------------------------------------


class Exact:
    """``P(Z = z) = (1−q)/(1+q) · q^|z|``, in 50 decimal digits."""

    def __init__(self, scale: float) -> None:
        with localcontext(prec=50):
            self.log_q = -1 / Decimal(scale)
            self.q = self.log_q.exp()

    def zero(self) -> float:
        with localcontext(prec=50):
            return float((1 - self.q) / (1 + self.q))

    def from_(self, k: int) -> float:
        """``P(Z ≥ k)`` for ``k ≥ 1``."""
        with localcontext(prec=50):
            return float((k * self.log_q).exp() / (1 + self.q))

    def between(self, k: int, m: int) -> float:
        """``P(k ≤ Z < m)`` for ``1 ≤ k < m``."""
        with localcontext(prec=50):
            return float(((k * self.log_q).exp() - (m * self.log_q).exp()) / (1 + self.q))

    def odds(self, lag: int) -> float:
        with localcontext(prec=50):
            return float((lag * self.log_q).exp())

    def where_tail_is(self, tail: float) -> int:
        """The smallest ``k ≥ 1`` with ``P(Z ≥ k) ≤ tail``."""
        with localcontext(prec=50):
            k = (Decimal(tail) * (1 + self.q)).ln() / self.log_q
            return max(1, math.ceil(k))


def expansion(exponent: Fraction, count: int, *, odds: bool) -> int:
    """The first ``count`` bits of ``p = e^−x``, or with ``odds`` of ``p = e^−x/(1 + e^−x)``, by interval arithmetic.

    Integers only, and not the way of `_Law.bits`: the power series of ``e^(x/2^k)``, squared ``k`` times.
    """
    halvings = max(0, math.ceil(exponent).bit_length() + 1)
    y = exponent / (1 << halvings)
    work = count + 64
    while True:
        one = 1 << work
        term_low = term_high = low = high = one
        n = 1
        while term_high > 1:
            term_low = term_low * y.numerator // (y.denominator * n)
            term_high = -(-term_high * y.numerator // (y.denominator * n))
            low, high, n = low + term_low, high + term_high, n + 1
        high += 2 * term_high  # what is left of the series is less than its last term, as y ≤ 1/2
        for _ in range(halvings):
            low, high = low * low >> work, -(-high * high >> work)
        ends = [(one << count) // (end + one * odds) for end in (high, low)]
        if ends[0] == ends[1]:
            return ends[0]
        work *= 2


def coin_bits(law: _Law, coin: int, count: int) -> int:
    return expansion(law.rate * (1 << coin), count, odds=coin < law.digits)


# The checks ---------------------------------------------------------------------------------------------------------


def count(mask: NDArray[np.bool_] | NDArray[np.int64]) -> int:
    return int(np.count_nonzero(mask))


def binomial(hits: int, n: int, p: float) -> float:
    """Two-sided exact p-value."""
    return float(min(1.0, 2 * min(stats.binom.cdf(hits, n, p), stats.binom.sf(hits - 1, n, p))))


def bins(exact: Exact, n: int) -> list[int]:
    """Edges ``1 = k_0 < k_1 < …`` that cut the positive half into at most 40 parts, with 100 expected in each."""
    edges, least = [1], max(100 / n, exact.from_(1) / 40)
    while (rest := exact.from_(edges[-1])) > 2 * least:
        step = max(edges[-1] + 1, exact.where_tail_is(rest - least))
        if exact.from_(step) < least:
            break
        edges.append(step)
    return edges


def tally(sample: Integers, exact: Exact) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Observed counts and probabilities: zero first, then outwards on both sides."""
    edges = bins(exact, len(sample))
    halves = [np.histogram(side, [*edges, 2**62])[0] for side in (sample, -sample)]
    outward = [exact.between(k, m) for k, m in pairwise(edges)] + [exact.from_(edges[-1])]
    counts = np.concatenate([[count(sample == 0)], *halves])
    return counts, np.array([exact.zero(), *outward, *outward])


def chi_square(counts: NDArray[np.int64], chances: NDArray[np.float64]) -> float:
    """Bins with fewer than 100 expected are put together, and with the largest bin if they are still too few."""
    expected = chances * counts.sum()
    small = expected < 100
    if expected[small].sum() < 100:
        small[expected.argmax()] = True
    if small.all():
        return 1.0
    observed = np.append(counts[~small], counts[small].sum())
    expected = np.append(expected[~small], expected[small].sum())
    return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1))


def goodness_of_fit(sample: Integers, scale: float) -> dict[str, float]:
    """16 p-values: the whole law, the mass at zero, symmetry, the slope of the log ratio, and the tails."""
    exact, n = Exact(scale), len(sample)
    found = {"chi-square": chi_square(*tally(sample, exact))}
    found["zero"] = binomial(count(sample == 0), n, exact.zero())
    positive, negative = count(sample > 0), count(sample < 0)
    found["symmetry"] = binomial(positive, positive + negative, 0.5)
    for lag in (1, math.ceil(scale)):
        # Cut 0, 1, 2, … into pairs of runs of length `lag`: the second of a pair has odds q^lag against the first.
        for name, side in (("up", sample[sample >= 0]), ("down", -1 - sample[sample < 0])):
            second = count(side // lag % 2)
            odds = exact.odds(lag)
            found[f"slope {name}, lag {lag} of {scale}"] = binomial(second, len(side), odds / (1 + odds))
    for expected in (30, 35, 300, 3000):
        k = exact.where_tail_is(expected / n / 2)
        for name, side in (("upper", sample), ("lower", -sample)):
            found[f"{name} tail, {expected} expected"] = binomial(count(side >= k), n, exact.from_(k))
    k = exact.where_tail_is(35 / n / 2)
    found["both tails"] = binomial(count(np.abs(sample) >= k), n, 2 * exact.from_(k))
    return found


def assert_fits(found: dict[str, float]) -> None:
    assert {name: p for name, p in found.items() if p < ALPHA} == {}


def draws(scale: float, n: int, seed: int = 1) -> Integers:
    return Noise(seed=seed).laplace_at(scale, hi=seed, lo=np.arange(n))


# The law ------------------------------------------------------------------------------------------------------------


def test_the_exact_law_sums_to_one() -> None:
    for scale in SCALES + WIDE:
        exact = Exact(scale)
        assert exact.zero() + 2 * exact.from_(1) == pytest.approx(1, abs=1e-15)
        assert tally(np.zeros(MILLION, np.int64), exact)[1].sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("scale", SCALES + WIDE)
def test_a_million_draws_fit_the_exact_law(scale: float) -> None:
    """Fails for a random seed with probability below 2e-8 (16 p-values)."""
    assert_fits(goodness_of_fit(draws(scale, MILLION), scale))


def test_draws_beyond_the_digits_are_as_frequent_as_they_should_be() -> None:
    """Fails for a random seed with probability below 2e-8 (17 p-values)."""
    law, n = _Law(LAST_COIN), 6 * MILLION
    assert law.digits == 14
    sample = draws(LAST_COIN, n)
    beyond = count(np.abs(sample) >= 1 << law.digits)
    last = binomial(beyond, n, 2 * Exact(LAST_COIN).from_(1 << law.digits))
    assert_fits(goodness_of_fit(sample, LAST_COIN) | {"beyond": last})


@pytest.mark.parametrize("scale", WIDE)
def test_low_digits_of_wide_noise_are_uniform(scale: float) -> None:
    """Fails for a random seed with probability below 2e-9 (one p-value; the remainders are uniform within 1e-13)."""
    remainders = np.bincount(draws(scale, MILLION // 2) % 256, minlength=256)
    assert stats.chisquare(remainders).pvalue > ALPHA


def test_noise_of_a_very_small_scale_is_zero() -> None:
    """A value other than 0 has probability e^−10^9, or less."""
    for scale in (1e-9, 1e-300, 5e-324):
        assert not draws(scale, MILLION // 4).any()


# OpenDP -------------------------------------------------------------------------------------------------------------


def opendp_draws(scale: float, n: int) -> Integers:
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    measurement = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale)
    return np.array(measurement([0] * n), dtype=np.int64)


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5, 25.0, 1000.0, 1e6])
def test_headwater_and_opendp_draw_from_one_law(scale: float) -> None:
    """Two-sample chi-square, and OpenDP's draws against the exact law. Fails in a run with probability below 2e-8."""
    n, exact = 60_000, Exact(scale)
    theirs = opendp_draws(scale, n)
    table = np.array([tally(sample, exact)[0] for sample in (draws(scale, n, seed=2), theirs)])
    table = table[:, table.sum(axis=0) >= 100]
    two_samples = float(stats.chi2_contingency(table, correction=False).pvalue)
    assert_fits(goodness_of_fit(theirs, scale) | {"two samples": two_samples})


# Wrong samplers are caught ------------------------------------------------------------------------------------------


def scaled_by(factor: float) -> Sampler:
    return lambda scale, n: draws(scale * factor, n)


def real_laplace(to_integer: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Sampler:
    return lambda scale, n: to_integer(np.random.default_rng(1).laplace(scale=scale, size=n)).astype(np.int64)


def zero_counted_twice(scale: float, n: int) -> Integers:
    rng = np.random.default_rng(1)
    return rng.choice([-1, 1], n) * (rng.geometric(-math.expm1(-1 / scale), n) - 1)


def capped(scale: float, n: int) -> Integers:
    return np.clip(draws(scale, n), -int(10 * scale), int(10 * scale))


def lowest_digit_shared(scale: float, n: int) -> Integers:
    return draws(scale, n) // 2 * 2


def last_coin_dropped(scale: float, n: int) -> Integers:
    class Dropped(Noise):
        def _settle(self, law: _Law, hi: int, lo: int, sign: int, coin: int) -> int:
            return 0 if coin == law.digits else super()._settle(law, hi, lo, sign, coin)

    return Dropped(seed=1).laplace_at(scale, 1, np.arange(n))


def undivided_digit(coin_at_fault: int) -> Sampler:
    class Undivided(_Law):
        def bits(self, coin: int, count: int) -> int:
            if coin == coin_at_fault:
                return int(Fraction(math.exp(-self.rate * 2**coin)) * 2**count)
            return super().bits(coin, count)

    def sampler(scale: float, n: int) -> Integers:
        with patch.object(module, "_law", Undivided):
            return draws(scale, n)

    return sampler


WRONG: dict[str, tuple[Sampler, float, int]] = {
    "scale 2% too large": (scaled_by(1.02), 25.0, MILLION),
    "scale 2% too small": (scaled_by(0.98), 1000.0, MILLION),
    "scale 2% too large, wide": (scaled_by(1.02), 2.0**49, MILLION),
    "real noise cut toward zero": (real_laplace(np.trunc), 25.0, MILLION),
    "real noise rounded down": (real_laplace(np.floor), 25.0, MILLION),
    "real noise rounded": (real_laplace(np.rint), 0.3, MILLION),
    "real noise rounded, scale 1": (real_laplace(np.rint), 1.0, MILLION),
    "zero counted twice": (zero_counted_twice, 25.0, MILLION),
    "tails cut at ten scales": (capped, 25.0, MILLION),
    "lowest digit shared": (lowest_digit_shared, 25.0, MILLION),
    "last coin dropped": (last_coin_dropped, LAST_COIN, 6 * MILLION),
    "odds for chance, lowest digit": (undivided_digit(0), 25.0, MILLION),
    "odds for chance, digit 5": (undivided_digit(5), 25.0, MILLION),
    "odds for chance, digit 6": (undivided_digit(6), 25.0, MILLION),
}
# Faults too small for a million draws to show (a rarer digit, a tie decided wrongly) are left to the exact path below.


@pytest.mark.parametrize("name", WRONG)
def test_goodness_of_fit_rejects_a_wrong_sampler(name: str) -> None:
    """Each is rejected with a wide margin; another seed would miss one with probability below 1e-6."""
    sampler, scale, n = WRONG[name]
    assert min(goodness_of_fit(sampler(scale, n), scale).values()) < ALPHA


# The exact path -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.05, 0.08, 0.3, 1.0, 2.5, 25.0, 1000.0, 1e6, *WIDE])
def test_bits_of_every_coin_are_the_binary_expansion_of_its_chance(scale: float) -> None:
    law = _Law(scale)
    assert law.rate * Fraction(scale) == 1
    assert law.digits == min(d for d in range(60) if 2**d >= 12 * Fraction(scale))
    for coin in range(law.digits + 1):
        for count in (1, 16, 52, 80, 144, 333):
            assert law.bits(coin, count) == coin_bits(law, coin, count), (coin, count)
    heads = [coin_bits(law, coin, 16) for coin in range(law.digits)]
    for start in (0, law.coins):
        assert law.heads[start : start + law.digits].tolist() == heads
    assert law.heads.sum() == 2 * sum(heads)  # all others are 0, and for the last coin that is right:
    assert coin_bits(law, law.digits, 16) == 0


def test_bits_are_right_where_a_first_approximation_cannot_tell() -> None:
    """For ``x = 2^−50``: ``2^52/(1 + e^x) = 2^51 − 1 + 2^−103.6…``, more digits than are tried at first."""
    law = _Law(2.0**50)
    assert law.bits(0, 52) == 2**51 - 1
    assert law.bits(0, 16) == 2**15 - 1
    for count in range(48, 60):
        assert law.bits(0, count) == coin_bits(law, 0, count)


@pytest.mark.parametrize("count", [999, 1000, 1001, 1442, 1443, 1500, 2000])
def test_bits_of_a_tiny_chance(count: int) -> None:
    law = _Law(1 / 1000)
    assert law.bits(0, count) == coin_bits(law, 0, count)


class Tied(Noise):
    """All coins of one geometric variable tie with their first 16 bits; all of the other are tails."""

    law: _Law
    second: bool

    def _blocks(self, hi: Words, lo: Words, numbers: range) -> Words:
        law = self.law
        words = np.full((len(hi), 8 * law.blocks), 0xFFFF, dtype="<u2")
        start = law.coins if self.second else 0
        words[:, start : start + law.digits + 1] = law.heads[start : start + law.digits + 1]
        return words.reshape(len(hi), law.blocks, 8).swapaxes(0, 1).copy().view("<u8")


def ties(source: type[Tied], scale: float, n: int, second: bool) -> dict[str, float]:
    """A p-value per coin: is a tied coin heads as often as its further bits say?"""
    noise, law = source(seed=3), _Law(scale)
    noise.law, noise.second = law, second
    value = noise.laplace_at(scale, 5, np.arange(n)) * (-1 if second else 1)
    found = {}
    for coin in range(law.digits + 1):
        rest = (coin_bits(law, coin, 80) & (2**64 - 1)) / 2**64
        came = value >> coin & 1 if coin < law.digits else value >> coin > 0
        found[f"coin {coin}"] = binomial(count(came), n, rest)
    return found


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize(("scale", "n"), [(0.05, 40_000), (0.3, 3000), (25.0, 3000), (ONE_WORD, 600), (2.0**50, 400)])
def test_a_tied_coin_is_settled_by_its_further_bits(scale: float, n: int, second: bool) -> None:
    """P(heads | 16 bits tie) is what is left of ``p·2^16``. Fails for a random seed with probability below 6e-8."""
    assert_fits(ties(Tied, scale, n, second))


class AlwaysTails(Tied):
    def _settle(self, law: _Law, hi: int, lo: int, sign: int, coin: int) -> int:
        return 0


class AlwaysHeads(Tied):
    def _settle(self, law: _Law, hi: int, lo: int, sign: int, coin: int) -> int:
        return 1 << coin


class StartsAgain(Tied):
    """Compares with the first bits again, instead of those behind them."""

    def _is_heads(self, law: _Law, hi: int, lo: int, label: int, coin: int, *, tied: bool = True) -> bool:
        return super()._is_heads(law, hi, lo, label, coin, tied=False)


@pytest.mark.parametrize("wrong", [AlwaysTails, AlwaysHeads, StartsAgain])
def test_the_check_of_ties_rejects_a_wrong_sampler(wrong: type[Tied]) -> None:
    """Another seed would miss one with probability below 1e-9."""
    assert min(ties(wrong, 25.0, 2000, second=False).values()) < ALPHA


def test_laps_beyond_the_last_digit_are_geometric() -> None:
    """With only 3 digits at scale 25 the last coin is often heads. Fails for a random seed with probability 2e-9."""
    noise, law, n = Noise(seed=4), _Law(25.0), 6000
    law.digits = 3
    laps = np.array([noise._settle(law, 6, lo, 1, 3) for lo in range(n)])
    assert not (laps % 8).any()
    p, tied = coin_bits(law, 3, 64) / 2**64, (coin_bits(law, 3, 80) & (2**64 - 1)) / 2**64
    most = 12
    chances = np.array([1 - tied, *(tied * p**k * (1 - p) for k in range(most)), tied * p**most])
    counts = np.bincount(np.minimum(laps // 8, most + 1), minlength=most + 2)
    assert_fits({"laps": chi_square(counts, chances), "none": binomial(int(counts[0]), n, 1 - tied)})


def test_a_coin_reads_on_while_words_tie() -> None:
    law = _Law(2.5)
    p = coin_bits(law, 1, 16 + 64 * 3)
    for last, heads in ((-1, True), (1, False)):

        class Scripted(Noise):
            def further_word(self, hi: int, lo: int, label: int, index: int, last: int = last) -> int:
                word = p >> 64 * (2 - index) & (2**64 - 1)
                return word + last if index == 2 else word

        assert Scripted(seed=0)._is_heads(law, 0, 0, 0, 1) is heads


# The addresses ------------------------------------------------------------------------------------------------------


def literal_draw(key: bytes, scale: float, hi: int, lo: int) -> int:
    """One draw, coin by coin, from its bits: AES of the address, then BLAKE2b where 16 bits do not decide."""
    law = _Law(scale)
    plain = b"".join(hi.to_bytes(8, "little") + (lo << 16 | b).to_bytes(8, "little") for b in range(law.blocks))
    stream = Cipher(algorithms.AES256(key), modes.ECB()).encryptor().update(plain)  # noqa: S305 - as under test

    def words(label: int) -> Iterator[int]:
        for index in range(100):
            message = b"".join(part.to_bytes(8, "little") for part in (hi, lo, label, index))
            yield int.from_bytes(hashlib.blake2b(message, digest_size=8, key=key).digest(), "little")

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
    settle = noise._settle

    def spy(law: _Law, hi: int, lo: int, sign: int, coin: int) -> int:
        tied.add(lo)
        return settle(law, hi, lo, sign, coin)

    hi = 2**64 - 3
    with patch.object(noise, "_settle", spy):
        values = noise.laplace_at(scale, hi, np.arange(2**48 - 60_000, 2**48))
    assert tied
    for lo in [*range(2**48 - 60_000, 2**48, 1499), *sorted(tied)[:40]]:
        assert values[lo - 2**48] == literal_draw(noise.key, scale, hi, lo)


@pytest.mark.parametrize("scale", [0.3, 25.0, 2.0**50])
def test_a_draw_depends_on_key_and_address_only(scale: float) -> None:
    """Not on the batch, its order or its neighbours, nor on where the batch is cut into chunks."""
    noise, rng = Noise(seed=6), np.random.default_rng(6)
    n = 2 * module._CHUNK + 7
    hi, lo = rng.integers(0, 2**64, n, dtype=np.uint64), rng.integers(0, 2**48, n, dtype=np.uint64)
    all_at_once = noise.laplace_at(scale, hi, lo)
    order = rng.permutation(n)
    assert (noise.laplace_at(scale, hi[order], lo[order]) == all_at_once[order]).all()
    for size in (0, 1, 2, module._CHUNK - 1, module._CHUNK, module._CHUNK + 1, 2 * module._CHUNK):
        assert (noise.laplace_at(scale, hi[:size], lo[:size]) == all_at_once[:size]).all()
    for i in (0, 1, module._CHUNK, n - 1):
        alone = noise.laplace_at(scale, int(hi[i]), int(lo[i]))
        assert alone.shape == (1,)
        assert alone[0] == all_at_once[i]
    assert (Noise(key=noise.key).laplace_at(scale, hi, lo) == all_at_once).all()
    assert (pickle.loads(pickle.dumps(noise)).laplace_at(scale, hi, lo) == all_at_once).all()  # noqa: S301 - our own


def test_addresses_are_broadcast() -> None:
    noise, many = Noise(seed=7), np.arange(5)
    assert (noise.laplace_at(25.0, 3, many) == noise.laplace_at(25.0, [3] * 5, many)).all()
    assert (noise.laplace_at(25.0, many, 3) == noise.laplace_at(25.0, many, [3] * 5)).all()
    assert noise.laplace_at(25.0, [], []).shape == (0,)
    assert noise.uniform_at([], []).shape == (0, 2)


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
        found[name] = binomial(count(signs > 0), count(signs), 0.5)
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
        found[f"bit {bit}"] = binomial(count(ones), len(lo), 0.5)
        found[f"bit {bit}, draw > 0"] = binomial(count(ones & positive), count(positive), 0.5)
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


def test_a_stream_cannot_be_turned_back() -> None:
    with pytest.raises(ValueError, match="-1"):
        Noise(seed=16).stream().laplace(25.0, -1)


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


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Noise(key=b"short")
