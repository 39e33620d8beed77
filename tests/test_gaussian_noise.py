"""Is discrete Gaussian noise what it claims to be? The law is tested, and the tests are tested with wrong samplers.

P-values as in `test_noise.py`: a check fails when one is below ``ALPHA``, and a test that looks at ``k`` of them fails
a correct sampler with probability at most ``k · ALPHA`` over seeds.
"""

from __future__ import annotations

import math
import pickle
from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from unittest.mock import patch

import numpy as np
import opendp.prelude as dp
import pytest
from numpy.typing import NDArray
from scipy import stats

from headwater.public.laws import DiscreteGaussian, deviation_for
from headwater.public.partition import Integers
from headwater.secret import digits as cells_module
from headwater.secret import noise as module
from headwater.secret.digits import Further, GaussianCells, Words
from headwater.secret.noise import Noise
from tests.support.noise_checks import ALPHA, MILLION, assert_fits, binomial, chi_square, expansion, how_many
from tests.test_noise_addresses import blocks_of, further_words

dp.enable_features("contrib")

SCALES = [0.3, 0.75, 1.0, 2.5, 8.2, 25.0, 255.9, 256.0, 1000.0]
WIDE = [1e6, 2.0**40]


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells so large that about a tenth of all proposals is rejected, not one in some hundreds."""
    monkeypatch.setattr(cells_module, "CELLS", 3)
    monkeypatch.setattr(module, "gaussian_cells", GaussianCells)


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
    """Nothing is rejected: all numbers of a cell are equally likely."""
    values, none = GaussianCells.values, np.empty(0, dtype=np.int64)
    patched.setattr(GaussianCells, "values", lambda *args: (values(*args)[0], none, none))


def real_normal(patched: pytest.MonkeyPatch) -> None:
    """Rounded real normal noise."""
    rng = np.random.default_rng(1)
    patched.setattr(
        Noise, "gaussian_at", lambda self, scale, hi, lo: np.rint(rng.normal(0, scale, len(lo))).astype(int)
    )


def cells_weighed_in_the_middle(patched: pytest.MonkeyPatch) -> None:
    """Cells are proposed by the weight of their middle, and numbers accepted as if it were that of their near end."""
    table, near = GaussianCells.table, GaussianCells.near

    def begin(self: GaussianCells, reach: int) -> tuple[int, Words]:
        with patch.object(GaussianCells, "near", lambda self, cell: near(self, cell) + (cell != 0) * self.offset):
            return table(self, reach)

    patched.setattr(GaussianCells, "table", begin)


def one_cell_too_far(patched: pytest.MonkeyPatch) -> None:
    """Words of a cell choose the next one."""
    cells = GaussianCells.cells
    patched.setattr(GaussianCells, "cells", lambda self, words: (cells(self, words)[0] + 1, cells(self, words)[1]))


def rejected_become_zero(patched: pytest.MonkeyPatch) -> None:
    """A rejected proposal is not drawn again."""
    attempt = GaussianCells.attempt

    def once(self: GaussianCells, words: Words, further: Further) -> tuple[Integers, Integers]:
        value, rejected = attempt(self, words, further)
        value[rejected] = 0
        return value, rejected[:0]

    patched.setattr(GaussianCells, "attempt", once)


def verdict_on_used_bits(patched: pytest.MonkeyPatch) -> None:
    """The verdict reads bits that chose the cell."""
    attempt = GaussianCells.attempt
    patched.setattr(GaussianCells, "attempt", lambda self, words, *more: attempt(self, words[:, [0, 0]], *more))


WRONG = [(wider, 25.0), (every_proposal_taken, 60.0), (real_normal, 0.75), (cells_weighed_in_the_middle, 60.0)]
WRONG += [(one_cell_too_far, 60.0), (rejected_become_zero, 60.0), (verdict_on_used_bits, 60.0)]


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize(("fault", "sigma"), WRONG)
def test_goodness_of_fit_rejects_a_wrong_sampler(fault: Fault, sigma: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is rejected with a wide margin."""
    fault(monkeypatch)
    assert min(goodness_of_fit(draws(sigma, MILLION // 2), sigma).values()) < ALPHA


# The exact path -----------------------------------------------------------------------------------------------------


BITS = 160


def cell_of(sigma: float, value: int) -> tuple[int, int, int]:
    """The cell of a number, the width of cells, and how near to 0 the cell comes."""
    width = 1 if sigma < 256 else 2 ** math.floor(math.log2(sigma) - 7)
    cell = (value + width // 2) // width
    return cell, width, max(abs(cell) * width - width // 2, 0)


@lru_cache
def ends_of_cells(sigma: float) -> list[Fraction]:
    """The exact probability of a cell from −m up to each one to m, but for 2^−140: of weights in 160 bits."""
    _, width, _ = cell_of(sigma, 0)
    half = [1 << BITS]
    while half[-1]:
        exponent = (len(half) * width - width // 2) ** 2 / (2 * Fraction(sigma) ** 2)
        half.append(expansion(exponent, BITS, odds=False) if exponent < BITS else 0)
    sums = list(accumulate(half[:0:-1] + half))
    return [Fraction(part, sums[-1]) for part in sums]


def literal_gaussian(key: bytes, sigma: float, hi: int, lo: int) -> int:
    """One draw from its bits, attempt by attempt, in fractions only."""
    ends, (_, width, _) = ends_of_cells(sigma), cell_of(sigma, 0)
    for attempt in range(1, 100):
        block = blocks_of(key, hi, lo, range(63 + attempt, 64 + attempt))
        first, second = (int.from_bytes(block[part : part + 8], "little") for part in (0, 8))
        place = bisect_right(ends, Fraction(first, 2**64))
        assert place == bisect_right(ends, Fraction(first + 1, 2**64) - Fraction(1, 2**100))
        value = (place - len(ends) // 2) * width + second % width - width // 2
        assert cell_of(sigma, value)[0] == place - len(ends) // 2
        exponent = Fraction(value**2 - cell_of(sigma, value)[2] ** 2) / (2 * Fraction(sigma) ** 2)
        known, uniform = 64 - width.bit_length() + 1, second // width
        further = further_words(key, hi, lo | attempt << 48, 1 << 37)
        while exponent and uniform == expansion(exponent, known, odds=False):
            uniform, known = uniform << 64 | next(further), known + 64
        if not exponent or uniform < expansion(exponent, known, odds=False):
            return value
    raise AssertionError("rejected too often")


@pytest.mark.parametrize("sigma", [0.3, 8.2, 300.0, 12345.678, 2.0**40])
def test_draws_are_the_literal_reading_of_their_bits(sigma: float) -> None:
    """Bit for bit, also where an attempt was rejected: saved keys must keep their noise."""
    noise, hi, first, again = Noise(seed=5), 2**64 - 3, 2**48 - 3000, list[Words]()
    blocks, first_attempt = noise.blocks, list[range]()

    def spy(hi: Words, lo: Words, numbers: range) -> Words:
        first_attempt.append(numbers)
        again.extend([lo] if numbers != first_attempt[0] else [])
        return blocks(hi, lo, numbers)

    with patch.object(noise, "blocks", spy):
        values = noise.gaussian_at(sigma, hi, np.arange(first, 2**48))
    assert (len(again) > 0) == (sigma > 256)
    for lo in [*range(first, 2**48, 37), *(int(lo) for part in again for lo in part)]:
        assert values[lo - first] == literal_gaussian(noise.key, sigma, hi, lo)


@pytest.mark.parametrize("sigma", [2.0**-20, 0.3, 2.5, 25.0, 255.9, 300.0, 12345.678, 2.0**40])
def test_floats_decide_only_words_that_lie_in_one_cell(sigma: float) -> None:
    """All of the table, against exact probabilities; and what is left to exact integers is little."""
    law, ends = GaussianCells(sigma), ends_of_cells(sigma)
    middle, left = len(ends) // 2, Fraction(1)
    for i in range(2 * law.most + 1):
        start, end = (Fraction(int(word), 2**64) for word in law.ends[2 * i : 2 * i + 2])
        lower, upper = ends[middle - law.most + i - 1], ends[middle - law.most + i]
        margin = Fraction(cells_module.BAND) * 15 / 16
        assert lower + margin < start < end < upper - margin
        left -= end - start
    assert left < 2.0**-26


@pytest.mark.parametrize("sigma", [0.3, 25.0, 300.0])
def test_words_near_an_end_are_read_on_until_only_one_cell_is_left(sigma: float) -> None:
    law, ends = GaussianCells(sigma), ends_of_cells(sigma)
    for cell in (-law.most, -1, 0, law.most - 1):
        end = ends[len(ends) // 2 + cell]
        word, more = math.floor(end * 2**64), math.floor(end * 2**128) % 2**64
        no_more = lambda index: pytest.fail("not needed")  # noqa: E731
        assert law.cells(np.array([word], dtype=np.uint64))[1].tolist() == [0]
        assert law.exact_cell(word - 1, no_more) == cell
        assert law.exact_cell(word + 1, no_more) == cell + 1
        assert law.exact_cell(word, [more - 1].__getitem__) == cell
        assert law.exact_cell(word, [more + 1].__getitem__) == cell + 1


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("sigma", [0.3, 8.2, 60.0, 1000.0])
def test_exact_integers_decide_what_floats_decide(sigma: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws are the same if floats decide much less."""
    before, words = draws(sigma, 3000), Noise(seed=1).uniform_at(0, np.arange(3000))[:, 0]
    monkeypatch.setattr(cells_module, "BAND", 2.0**-10)
    monkeypatch.setattr(cells_module, "UNSURE", 0.05)
    law = GaussianCells(sigma)
    cells, unsure = law.cells(words)
    assert len(unsure) > 3
    _, rejected, unsure = law.values(cells, words[::-1])
    assert law.width == 1 or (len(rejected) > 3 and len(unsure) > 3)
    assert (draws(sigma, 3000) == before).all()


@pytest.mark.usefixtures("coarse")
def test_further_bits_of_cells_verdicts_and_attempts_are_never_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    noise, asked, further_word = Noise(seed=1), [], Noise.further_word
    exact_cell, accepts = GaussianCells.exact_cell, GaussianCells.accepts

    def spy(hi: int, lo: int, label: int, index: int) -> int:
        asked.append((hi, lo & (2**48 - 1), lo >> 48, label, index))
        return further_word(noise, hi, lo, label, index)

    def asking(way: Callable[..., int]) -> Callable[..., int]:
        return lambda *args: (args[-1](0), way(*args))[1]

    monkeypatch.setattr(cells_module, "BAND", 2.0**-10)
    monkeypatch.setattr(cells_module, "UNSURE", 0.05)
    monkeypatch.setattr(GaussianCells, "exact_cell", asking(exact_cell))
    monkeypatch.setattr(GaussianCells, "accepts", asking(accepts))
    with patch.object(noise, "further_word", spy):
        noise.gaussian_at(60.0, 7, np.arange(30_000))
    assert len(set(asked)) == len(asked)
    assert {attempt for _, _, attempt, _, _ in asked} >= {1, 2}
    assert {label for _, _, _, label, _ in asked} == {1 << 36, 1 << 37}


@pytest.mark.parametrize("sigma", [300.0, 12345.678, 2.0**40])
def test_floats_accept_what_fractions_accept_and_leave_close_cases_to_them(sigma: float) -> None:
    """Words at the edge of what floats may decide, on both sides, and far from it, for many numbers."""
    law, edge, (_, width, _) = GaussianCells(sigma), int(cells_module.UNSURE * 2**64), cell_of(sigma, 0)
    no_more = lambda index: pytest.fail("not needed")  # noqa: E731
    for value in {*range(-12, 12), *(int(sigma * part / 4) for part in range(-20, 20))}:
        cell, _, near = cell_of(sigma, value)
        exponent = Fraction(value**2 - near**2) / (2 * Fraction(sigma) ** 2)
        chance = expansion(exponent, 64, odds=False) if exponent else 2**64
        for offset in (-2 * edge, -edge - (1 << 40), -edge // 2, edge // 2, edge + (1 << 40), 2 * edge):
            word = (chance + offset) // width * width + (value + width // 2) % width
            if 0 <= word < 2**64:
                found, rejected, unsure = law.values(np.array([cell]), np.array([word], dtype=np.uint64))
                assert found.tolist() == [value]
                assert len(unsure) == (abs(offset) < edge)
                assert len(unsure) or len(rejected) == (offset > 0)
                assert law.accepts(value, word, no_more) == (offset < 0)


def test_ties_of_a_verdict_are_settled_by_further_bits() -> None:
    law, sigma, value = GaussianCells(12345.678), 12345.678, 5003
    _, width, near = cell_of(sigma, value)
    known = 64 - width.bit_length() + 1
    bits = expansion(Fraction(value**2 - near**2) / (2 * Fraction(sigma) ** 2), known + 128, odds=False)
    for last, taken in ((-1, True), (1, False)):
        words = [bits >> 64 & (2**64 - 1), (bits & (2**64 - 1)) + last]
        assert law.accepts(value, (bits >> 128) * width, words.__getitem__) is taken


# Addresses ----------------------------------------------------------------------------------------------------------


def test_a_draw_depends_on_key_and_address_only() -> None:
    """Not on the batch, its order or its neighbours, nor on how many there are."""
    noise, rng, n = Noise(seed=6), np.random.default_rng(6), 2 * module._GAUSSIAN_CHUNK + 7
    hi, lo = rng.integers(0, 2**64, n, dtype=np.uint64), rng.integers(0, 2**48, n, dtype=np.uint64)
    for sigma in (8.2, 300.0):
        all_at_once = noise.gaussian_at(sigma, hi, lo)
        order = rng.permutation(n)
        assert (noise.gaussian_at(sigma, hi[order], lo[order]) == all_at_once[order]).all()
        for size in (0, 1, 2, cells_module._FEW, cells_module._FEW + 1, module._GAUSSIAN_CHUNK + 1):
            assert (noise.gaussian_at(sigma, hi[:size], lo[:size]) == all_at_once[:size]).all()
        assert (pickle.loads(pickle.dumps(noise)).gaussian_at(sigma, hi, lo) == all_at_once).all()  # noqa: S301 - our own


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
    values, none = GaussianCells.values, np.empty(0, dtype=np.int64)
    monkeypatch.setattr(GaussianCells, "values", lambda *args: (values(*args)[0], np.arange(len(args[1])), none))
    with pytest.raises(RuntimeError, match="rejected"):
        draws(300.0, 1)
