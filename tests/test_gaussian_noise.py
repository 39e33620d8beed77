"""Is discrete Gaussian noise what it claims to be? The law is tested, and the tests are tested with wrong samplers.

P-values as in `test_noise.py`: a check fails when one is below ``ALPHA``, and a test that looks at ``k`` of them fails
a correct sampler with probability at most ``k · ALPHA`` over seeds.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import opendp.prelude as dp
import pytest
from numpy.typing import NDArray
from scipy import stats

from headwater import noise as module
from headwater.laws import DiscreteGaussian, deviation_for
from headwater.noise import Flags, Integers, Noise, Words, _Gaussian
from tests.support.noise_checks import ALPHA, MILLION, assert_fits, binomial, chi_square, expansion, how_many
from tests.test_noise_addresses import blocks_of, further_words, literal_draw

dp.enable_features("contrib")

SCALES = [0.3, 0.75, 1.0, 2.5, 8.2, 25.0, 1000.0]
WIDE = [1e6, 2.0**40]

# The law ------------------------------------------------------------------------------------------------------------


class Exact:
    """``P(z) ∝ exp(−z²/(2σ²))``, from its definition, for ``σ`` of at most a few thousand."""

    def __init__(self, sigma: float) -> None:
        self.reach = math.ceil(40 * sigma) + 2
        values = np.arange(self.reach + 1)
        weights = np.exp(-((values / sigma) ** 2) / 2)
        self.chances = weights / (2 * math.fsum(weights) - 1)
        self.above = np.cumsum(self.chances[::-1])[::-1]  # P(Z ≥ k)

    def where_tail_is(self, tail: float) -> int:
        return int(np.argmax(self.above <= tail))


def draws(sigma: float, n: int, seed: int = 1) -> Integers:
    return Noise(seed=seed).gaussian_at(sigma, seed, np.arange(n))


def tally(sample: Integers, exact: Exact) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Counts and probabilities of runs of values, with at least 100 expected in each, on both sides."""
    edges, least = [1], max(100 / len(sample), exact.above[1] / 40)
    while exact.above[edges[-1]] > 2 * least:
        edges.append(max(edges[-1] + 1, exact.where_tail_is(exact.above[edges[-1]] - least)))
    halves = [np.histogram(side, [*edges, 2**62])[0] for side in (sample, -sample)]
    outward = np.append(-np.diff(exact.above[edges]), exact.above[edges[-1]])
    counts = np.concatenate([[how_many(sample == 0)], *halves])
    return counts, np.concatenate([[exact.chances[0]], outward, outward])


def goodness_of_fit(sample: Integers, sigma: float) -> dict[str, float]:
    """12 p-values: the whole law, the mass at zero, symmetry, the parity of values, and the tails."""
    exact, n = Exact(sigma), len(sample)
    found = {"chi-square": chi_square(*tally(sample, exact))}
    found["zero"] = binomial(how_many(sample == 0), n, float(exact.chances[0]))
    positive, negative = how_many(sample > 0), how_many(sample < 0)
    found["symmetry"] = binomial(positive, positive + negative, 0.5)
    odd = 2 * float(exact.chances[1::2].sum())
    found["odd"] = binomial(how_many(sample % 2), n, odd)
    for expected in (30, 300, 3000):
        k = exact.where_tail_is(expected / n / 2)
        for name, side in (("upper", sample), ("lower", -sample)):
            found[f"{name} tail, {expected}"] = binomial(how_many(side >= k), n, float(exact.above[k]))
        found[f"both tails, {expected}"] = binomial(how_many(np.abs(sample) >= k), n, 2 * float(exact.above[k]))
    return found


@pytest.mark.parametrize("sigma", SCALES)
def test_half_a_million_draws_fit_the_exact_law(sigma: float) -> None:
    """Fails for a random seed with probability below 2e-8."""
    assert_fits(goodness_of_fit(draws(sigma, MILLION // 2), sigma))


@pytest.mark.parametrize("sigma", WIDE)
def test_wide_draws_are_normal_to_the_eye(sigma: float) -> None:
    """Kolmogorov and Smirnov against the normal law, which is within 1/σ of it, and even remainders; two p-values."""
    sample = draws(sigma, 100_000)
    remainders = np.bincount(sample % 64, minlength=64)
    normal = float(stats.kstest(sample / sigma, "norm").pvalue)
    assert_fits({"normal": normal, "remainders": float(stats.chisquare(remainders).pvalue)})


@pytest.mark.parametrize("sigma", [0.2, 0.5, 0.999, 1.0, 1.9, 2.0, 7.3])
def test_the_variance_that_is_stated_is_that_of_the_law(sigma: float) -> None:
    exact = Exact(sigma)
    values = np.arange(exact.reach + 1)
    assert DiscreteGaussian(sigma).variance == pytest.approx(2 * float((exact.chances * values**2).sum()), rel=1e-12)
    assert DiscreteGaussian(sigma).variance <= sigma**2 * (1 + 1e-15)


@pytest.mark.parametrize("sigma", [0.3, 2.5, 25.0])
def test_headwater_and_opendp_draw_from_one_law(sigma: float) -> None:
    """Two-sample chi-square, and OpenDP's draws against the exact law. Fails in a run with probability below 2e-8."""
    n, exact = 20_000, Exact(sigma)
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    theirs = np.array(dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), sigma)([0] * n), dtype=np.int64)
    table = np.array([tally(sample, exact)[0] for sample in (draws(sigma, n, seed=2), theirs)])
    table = table[:, table.sum(axis=0) >= 100]
    two_samples = float(stats.chi2_contingency(table, correction=False).pvalue)
    assert_fits(goodness_of_fit(theirs, sigma) | {"two samples": two_samples})


# Wrong samplers are caught ------------------------------------------------------------------------------------------

Fault = Callable[[pytest.MonkeyPatch], None]


def wider(patched: pytest.MonkeyPatch) -> None:
    """σ is 1% too large."""
    draw = Noise.gaussian_at
    patched.setattr(Noise, "gaussian_at", lambda self, scale, hi, lo: draw(self, 1.01 * scale, hi, lo))


def every_proposal_taken(patched: pytest.MonkeyPatch) -> None:
    """Nothing is rejected: it is Laplace noise."""
    sure = lambda self, value, word: (np.ones(len(value), dtype=bool), np.zeros(len(value), dtype=bool))  # noqa: E731
    patched.setattr(_Gaussian, "verdicts", sure)


def real_normal(patched: pytest.MonkeyPatch) -> None:
    """Rounded real normal noise."""
    rng = np.random.default_rng(1)
    patched.setattr(
        Noise, "gaussian_at", lambda self, scale, hi, lo: np.rint(rng.normal(0, scale, len(lo))).astype(int)
    )


def wrong_centre(patched: pytest.MonkeyPatch) -> None:
    """The peak of the acceptance lies at σ instead of σ²/t."""
    start = _Gaussian.__init__

    def begin(self: _Gaussian, scale: float) -> None:
        start(self, scale)
        self._centre = scale

    patched.setattr(_Gaussian, "__init__", begin)


def rejected_become_zero(patched: pytest.MonkeyPatch) -> None:
    """A rejected proposal is not drawn again."""
    attempts = Noise._attempts

    def once(self: Noise, *args: object) -> tuple[Integers, Flags]:
        value, taken = attempts(self, *args)  # type: ignore[arg-type]
        return np.where(taken, value, 0), np.ones_like(taken)

    patched.setattr(Noise, "_attempts", once)


def verdict_on_used_bits(patched: pytest.MonkeyPatch) -> None:
    """The verdict reads bits that decided the proposal."""
    blocks = Noise._blocks

    def shared(self: Noise, hi: Words, lo: Words, numbers: range, *beyond: Words) -> Words:
        found = blocks(self, hi, lo, numbers, *beyond).copy()
        found[-1] = found[0]
        return found

    patched.setattr(Noise, "_blocks", shared)


WRONG = [(wider, 25.0), (every_proposal_taken, 8.2), (real_normal, 0.75), (wrong_centre, 2.5)]
WRONG += [(rejected_become_zero, 8.2), (verdict_on_used_bits, 8.2)]


@pytest.mark.parametrize(("fault", "sigma"), WRONG)
def test_goodness_of_fit_rejects_a_wrong_sampler(fault: Fault, sigma: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is rejected with a wide margin."""
    module._gaussian.cache_clear()
    fault(monkeypatch)
    sample = draws(sigma, MILLION // 2)
    module._gaussian.cache_clear()
    assert min(goodness_of_fit(sample, sigma).values()) < ALPHA


# The exact path -----------------------------------------------------------------------------------------------------


def exponent_of(sigma: float, value: int) -> Fraction:
    """Canonne, Kamath and Steinke, Algorithm 3: a proposal ``y`` is accepted with probability ``exp(−this)``."""
    square, t = Fraction(sigma) ** 2, math.floor(sigma) + 1
    return (abs(value) - square / t) ** 2 / (2 * square)


def literal_gaussian(key: bytes, sigma: float, hi: int, lo: int) -> int:
    """One draw from its bits, attempt by attempt, in fractions only."""
    for attempt in range(1, 100):
        value = literal_draw(key, float(math.floor(sigma) + 1), hi, lo, attempt)
        last = 64 * attempt + module._law(float(math.floor(sigma) + 1)).blocks
        uniform, known = int.from_bytes(blocks_of(key, hi, lo, range(last, last + 1))[:8], "little"), 64
        further = further_words(key, hi, lo | attempt << 48, 1 << 36)
        while uniform == expansion(exponent_of(sigma, value), known, odds=False):
            uniform, known = uniform << 64 | next(further), known + 64
        if uniform < expansion(exponent_of(sigma, value), known, odds=False):
            return value
    raise AssertionError("rejected too often")


@pytest.mark.parametrize("sigma", [0.3, 8.2, 1000.0, 2.0**40])
def test_draws_are_the_literal_reading_of_their_bits(sigma: float) -> None:
    """Bit for bit: saved keys must keep their noise."""
    noise, hi, first = Noise(seed=5), 2**64 - 3, 2**48 - 3000
    values = noise.gaussian_at(sigma, hi, np.arange(first, 2**48))
    for lo in range(first, 2**48, 37):
        assert values[lo - first] == literal_gaussian(noise.key, sigma, hi, lo)


@pytest.mark.parametrize("sigma", [0.3, 2.5, 25.0, 12345.678])
def test_floats_decide_what_fractions_decide_and_leave_close_cases_to_them(sigma: float) -> None:
    """Words at the edge of what floats may decide, on both sides, and far from it, for many values."""
    law, edge = _Gaussian(sigma), int(module._UNSURE * 2**64)
    for size in {*range(12), *(int(sigma * part / 4) for part in range(40))}:
        exact = min(expansion(exponent_of(sigma, size), 64, odds=False), 2**64 - 1)
        assert law.bits(size, 64) == exact
        for offset in (-2 * edge, -edge - (1 << 40), -edge // 2, -1, 0, 1, edge // 2, edge + (1 << 40), 2 * edge):
            word = exact + offset
            if 0 <= word < 2**64:
                taken, unsure = law.verdicts(np.array([-size]), np.array([word], dtype=np.uint64))
                assert unsure[0] == (abs(offset) < edge)
                assert unsure[0] or taken[0] == (word < exact)


def test_close_cases_are_settled_by_further_bits() -> None:
    law, noise, sigma, size = _Gaussian(2.5), Noise(seed=0), 2.5, 3
    bits = expansion(exponent_of(sigma, size), 192, odds=False)
    for last, taken in ((-1, True), (1, False)):
        words = [bits >> 64 & (2**64 - 1), (bits & (2**64 - 1)) + last]
        with patch.object(noise, "further_word", lambda hi, lo, label, index, words=words: words[index]):
            assert noise._is_below(law, size, bits >> 128, 0, 0) is taken
    with patch.object(noise, "further_word", side_effect=AssertionError):
        assert noise._is_below(law, size, (bits >> 128) - 1, 0, 0)
        assert not noise._is_below(law, size, (bits >> 128) + 1, 0, 0)


def test_close_cases_do_occur_and_are_settled() -> None:
    """One attempt in half a million: with two million draws at least one comes up but with probability e^−5."""
    seen, below = [], Noise._is_below

    def spy(self: Noise, law: _Gaussian, size: int, word: int, hi: int, lo: int) -> bool:
        seen.append((size, word))
        return below(self, law, size, word, hi, lo)

    with patch.object(Noise, "_is_below", spy):
        draws(25.0, 2 * MILLION, seed=3)
    assert 0 < len(seen) < 40
    assert all(abs(expansion(exponent_of(25.0, size), 64, odds=False) - word) < 2**45 for size, word in seen)


# Addresses ----------------------------------------------------------------------------------------------------------


def test_a_draw_depends_on_key_and_address_only() -> None:
    """Not on the batch, its order or its neighbours, nor on whether attempts are made at once."""
    noise, rng, n = Noise(seed=6), np.random.default_rng(6), module._CHUNK + 7
    hi, lo = rng.integers(0, 2**64, n, dtype=np.uint64), rng.integers(0, 2**48, n, dtype=np.uint64)
    all_at_once = noise.gaussian_at(8.2, hi, lo)
    order = rng.permutation(n)
    assert (noise.gaussian_at(8.2, hi[order], lo[order]) == all_at_once[order]).all()
    for size in (0, 1, 2, module._FEW, module._FEW + 1, 4 * module._FEW + 1, module._CHUNK):
        assert (noise.gaussian_at(8.2, hi[:size], lo[:size]) == all_at_once[:size]).all()
    assert (pickle.loads(pickle.dumps(noise)).gaussian_at(8.2, hi, lo) == all_at_once).all()  # noqa: S301 - our own


def test_draws_at_one_address_under_other_laws_share_no_bits() -> None:
    """Signs agree in half of all pairs. Fails for a random seed with probability below 4e-9 (3 p-values)."""
    noise, lo = Noise(seed=8), np.arange(MILLION // 4, dtype=np.uint64)
    base, found = noise.gaussian_at(25.0, 0, lo), {}
    others = {"Laplace": noise.laplace_at(25.0, 0, lo), "next": noise.gaussian_at(25.0, 0, lo + np.uint64(1))}
    others["uniform"] = (noise.uniform_at(0, lo)[:, 0] >> np.uint64(63)).astype(np.int64) * 2 - 1
    for name, other in others.items():
        signs = np.sign(base) * np.sign(other)
        found[name] = binomial(how_many(signs > 0), how_many(signs), 0.5)
    assert_fits(found)


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf, 2.0**-21, 2.0**41])
def test_a_scale_that_cannot_be_is_refused(sigma: float) -> None:
    with pytest.raises(ValueError, match="between"):
        Noise(seed=0).gaussian_at(sigma, 0, 0)


def test_however_large_a_budget_is_its_noise_can_be_drawn() -> None:
    """Of people with a huge ε, who are in ρ whatever else would be better."""
    assert draws(deviation_for(Fraction(2) ** 60), 5).tolist() == [0] * 5


def test_a_draw_that_is_never_accepted_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    never = lambda self, value, word: (np.zeros(len(value), dtype=bool),) * 2  # noqa: E731
    monkeypatch.setattr(_Gaussian, "verdicts", never)
    with pytest.raises(RuntimeError, match="rejected"):
        draws(2.5, 1)
