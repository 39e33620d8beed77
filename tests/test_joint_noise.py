"""Joint noise has exactly the law that its scale and its norm name, and costs what `proofs/joint.md` says."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from headwater.public import laws as joint_law
from headwater.public.laws import IntegerLaplace, JointLaplace, Radii, fits, points_in_ball
from headwater.secret import noise as joint_noise
from headwater.secret.noise import Bits, Noise, draw_jointly, in_ball, norm
from tests.audit import faults
from tests.support import marginals_watch

Table = tuple[int, ...]
Tables = tuple[Table, ...]
Law = dict[Tables, float]


def tables_of(numbers: Sequence[int], sizes: Sequence[int]) -> Tables:
    ends = itertools.accumulate(sizes)
    return tuple(tuple(numbers[end - size : end]) for size, end in zip(sizes, ends, strict=True))


def box(sizes: Sequence[int], far: int) -> Iterator[Tables]:
    """All noise whose numbers are at most so far from 0."""
    for numbers in itertools.product(range(-far, far + 1), repeat=sum(sizes)):
        yield tables_of(numbers, sizes)


def ball(size: int, radius: int) -> list[Table]:
    """The points of a ball, by trying all."""
    far = radius if size == 1 else 2 * radius
    return [z for z in itertools.product(range(-far, far + 1), repeat=size) if sum(map(abs, z)) <= far]


def the_law(scale: float, sizes: Sequence[int], far: int) -> Law:
    """The probabilities of all noise in a box, by the definition; the sum over all noise is over shells."""
    all_ = marginals_watch.log_of_all_joint(scale, tuple(sizes))
    return {z: math.exp(-marginals_watch.norm(z) / scale - all_) for z in box(sizes, far)}


def chi_square(counts: Sequence[int], chances: Sequence[float]) -> float:
    """The p-value of counts of which at least a few are expected each."""
    seen, expected = np.array(counts), np.array(chances) * sum(counts)
    return float(stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), len(expected) - 1))


def words_of(seed: int, hi: int = 0) -> Callable[[int], Bits]:
    noise = Noise(seed=seed)
    return lambda lo: Bits(noise.further_word, hi, lo, 5)


# --- the norm and the balls -------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(-20, 20), min_size=1, max_size=5), min_size=1, max_size=4))
def test_the_norm_is_the_least_radius_whose_balls_hold_the_noise(noise: list[list[int]]) -> None:
    assert norm(noise) == marginals_watch.norm(noise)


moves = st.sampled_from(["one for another", "becomes null", "was null", "stays"])


@given(st.lists(st.tuples(st.lists(st.integers(-9, 9), min_size=1, max_size=5), moves, st.data()), max_size=4))
def test_a_replaced_record_moves_the_norm_by_at_most_one(found: list[tuple[list[int], str, st.DataObject]]) -> None:
    """In any table it takes one from a number, adds one to another, or does only one of the two."""
    before, after = [], []
    for table, how, data in found:
        moved = table.copy()
        if how in ("one for another", "becomes null"):
            moved[data.draw(st.integers(0, len(table) - 1))] -= 1
        if how == "was null" or (how == "one for another" and len(table) > 1):
            moved[data.draw(st.integers(0, len(table) - 1))] += 1
        before.append(table)
        after.append(moved)
    assert abs(norm(before) - norm(after)) <= 1


@pytest.mark.parametrize(("size", "radius"), [(1, 0), (1, 4), (2, 0), (2, 1), (2, 3), (3, 1), (3, 2), (4, 1), (5, 1)])
def test_a_ball_has_the_points_that_are_counted_and_each_is_as_likely(size: int, radius: int) -> None:
    """A χ² test that fails by chance with a probability of 1e−6."""
    points, bits = ball(size, radius), words_of(seed=size * 100 + radius)
    assert points_in_ball(size, radius) == len(points)
    runs = 40 * len(points)
    seen = Counter(tuple(in_ball(bits(lo), size, radius)) for lo in range(runs))
    assert set(seen) <= set(points)
    if len(points) > 1:
        assert chi_square([seen[z] for z in points], [1 / len(points)] * len(points)) > 1e-6


@pytest.mark.parametrize("size", [1, 2, 3, 29, 31, 32, 33, 64, 300])
def test_the_logarithm_of_points_is_as_near_as_is_claimed(size: int) -> None:
    """Against whole numbers, below and beyond the sizes at which the recurrence is rescaled: step 4 of the proof."""
    radii = np.array([0, 1, 2, 7, 40, 1000, 60_000])
    largest = 2 * math.log(2 * size) + math.log(2 * int(radii[-1]))
    claimed = 2.0**-53 * 3 * largest * (size + 3) ** 2
    for radius, found in zip(radii.tolist(), joint_law.log_points(size, radii).tolist(), strict=True):
        assert abs(found - math.log(points_in_ball(size, radius))) <= claimed


@pytest.mark.parametrize("of", range(1, 7))
def test_every_subset_is_as_likely(of: int) -> None:
    """Each test fails by chance with a probability of 1e−6."""
    bits = words_of(seed=of)
    for size in range(1, of):
        subsets = list(itertools.combinations(range(of), size))
        seen = Counter(tuple(bits(100_000 * size + lo).subset(size, of)) for lo in range(60 * len(subsets)))
        assert chi_square([seen[s] for s in subsets], [1 / len(subsets)] * len(subsets)) > 1e-6
    assert bits(0).subset(0, of) == []
    assert bits(0).subset(of, of) == list(range(of))


# --- the radius -------------------------------------------------------------------------------------------------

SOME = [
    (0.5, (1, 1)),
    (2.0, (1, 2, 3)),
    (20.0, (1,) * 10),
    (3.0, (7,) * 12),
    (0.01, (29, 29)),
    (2.0**-20, (1, 2)),
    (1.0, (29, 12, 7, 7)),
    (0.3, (120,)),
]


@pytest.mark.parametrize(("scale", "sizes"), SOME)
def test_float_odds_are_as_near_the_whole_ones_as_is_claimed(scale: float, sizes: tuple[int, ...]) -> None:
    law = Radii(scale, sizes)
    parts, error = law.whole_odds(128)
    total, sums = sum(parts), list(itertools.accumulate(parts))
    assert Fraction(error, total) < Fraction(1, 2**100)
    for m in range(len(law.odds)):
        assert abs(Fraction(law._upper[m]) - Fraction(sums[m], total)) < Fraction(law.unsure) / 2
    assert law.unsure < 2**-24


@pytest.mark.parametrize(("scale", "sizes"), SOME[:4])
def test_whole_odds_are_the_odds_rounded_down(scale: float, sizes: tuple[int, ...]) -> None:
    """Against twice as many places: no sum is too large, or too small by more than the bound."""
    law = Radii(scale, sizes)
    (few, error), (many, beyond) = law.whole_odds(128), law.whole_odds(320)
    places = [math.log2(parts[0]) for parts in (few, many)]
    by = round(places[1] - places[0])
    assert many[0] == few[0] << by
    for m in range(0, len(few), 7):
        assert few[m] << by <= many[m] + beyond
    assert sum(few) << by <= sum(many) + beyond
    assert sum(many) <= sum(few) + error << by
    last = Fraction(many[-1] + beyond, sum(many))
    assert last < Fraction(1, 2**300), "more radii come with more precision"


class Given:
    """Bits that somebody wrote down, then zeros."""

    def __init__(self, *words: int) -> None:
        self.words = [*words]

    def word(self) -> int:
        return self.words.pop(0) if self.words else 0


@pytest.mark.parametrize("radius", [0, 3, 30])
@pytest.mark.parametrize("bits", [64, 128, 256])
def test_a_number_just_beside_a_bound_is_put_on_its_side(radius: int, bits: int) -> None:
    """The first ``bits`` bits of a bound, and one less or more: distinguished by the exact way, and handed on to it."""
    law = Radii(2.0, (1, 2, 3))
    parts, _ = law.whole_odds(1024)
    at = (sum(parts[: radius + 1]) << bits) // sum(parts)
    for number, expected in ((at - 1, radius), (at + 1, radius + 1)):
        words = [number >> 64 * i & 2**64 - 1 for i in reversed(range(bits // 64))]
        assert law.draw(Given(*words).word) == expected


def test_the_last_of_all_words_is_a_radius_too() -> None:
    """Radii beyond those whose odds are listed are found with more bits: here all ones, for a while."""
    law = Radii(0.5, (1, 1))
    assert law.draw(Given(*[2**64 - 1] * 6).word) > len(law.odds)


# --- the law ----------------------------------------------------------------------------------------------------


def fit(scale: float, sizes: Sequence[int], far: int, runs: int, seed: int) -> float:
    """The p-value of draws against the exact law in a box, the rest taken together."""
    expected, noise = the_law(scale, sizes, far), Noise(seed=seed)
    los = [list(range(10 * i, 10 * i + len(sizes))) for i in range(runs)]
    seen = Counter(tables_of(noise.jointly_at(scale, sizes, 1, lo).tolist(), sizes) for lo in los)
    common = [z for z in expected if expected[z] * runs > 8]
    chances, counts = [expected[z] for z in common], [seen[z] for z in common]
    return chi_square([*counts, runs - sum(counts)], [*chances, 1 - sum(chances)])


CASES = [(0.7, (1, 1), 9), (1.5, (1, 1, 1), 6), (0.5, (2, 1), 5), (0.4, (3,), 5), (0.6, (2, 2), 4), (0.3, (1, 4), 2)]


@pytest.mark.parametrize(("scale", "sizes", "far"), CASES)
def test_draws_have_the_law(scale: float, sizes: tuple[int, ...], far: int) -> None:
    """10,000 draws; each test fails by chance with a probability of 1e−6."""
    assert fit(scale, sizes, far, 10_000, seed=2) > 1e-6


@pytest.mark.parametrize("scale", [0.3, 1.0, 6.0, 300.0])
def test_one_number_alone_has_integer_laplace_noise(scale: float) -> None:
    """The norm of a single number is its absolute value; so is its variance that of the other sampler's law."""
    assert Radii(scale, (1,)).variance(1) == pytest.approx(IntegerLaplace(scale).variance, rel=1e-9)
    if scale == 1.0:
        noise = Noise(seed=4)
        seen = Counter(abs(int(noise.jointly_at(scale, [1], 0, [lo])[0])) for lo in range(8000))
        q = math.exp(-1 / scale)
        chances = [(1 - q) / (1 + q) * q**z * (2 if z else 1) for z in range(6)]
        counts = [seen[z] for z in range(6)]
        assert chi_square([*counts, 8000 - sum(counts)], [*chances, 1 - sum(chances)]) > 1e-6


def half_a_ball(patch: pytest.MonkeyPatch) -> None:
    """Tables of several numbers have L1 norms of at most the radius, instead of twice as much."""
    real = in_ball
    patch.setattr(joint_noise, "in_ball", lambda bits, size, m: real(bits, size, m if size == 1 else m // 2))


FAULTS = (
    faults.half_the_joint_noise,
    faults.joint_noise_that_forgets_a_table,
    faults.radii_without_points,
    half_a_ball,
)


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_of_the_sampler_are_found(fault: Callable[[pytest.MonkeyPatch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        assert fit(0.5, (2, 1), 5, 10_000, seed=2) < 1e-12


@pytest.mark.parametrize(
    ("scale", "sizes"), [(1.0, (1, 1, 1)), (4.0, (1, 1)), (2.0, (3, 2)), (1.0, (10, 5)), (9.0, (2,))]
)
def test_the_variance_is_that_of_the_draws(scale: float, sizes: tuple[int, ...]) -> None:
    """4,000 draws of the first number of each table, within five standard errors: by chance below 1e−6 each."""
    noise, ends = Noise(seed=6), np.cumsum(sizes)
    draws = np.array([noise.jointly_at(scale, sizes, 3, range(9 * i, 9 * i + len(sizes))) for i in range(4000)])
    for size, end in zip(sizes, ends, strict=True):
        squares = draws[:, end - 1].astype(float) ** 2
        variance = Radii(scale, sizes).variance(size)
        assert abs(squares.mean() - variance) < 5 * squares.std() / math.sqrt(len(draws))


@pytest.mark.parametrize(("size", "tables"), [(1, 10), (1, 50), (3, 10), (6, 10), (20, 5)])
def test_what_joint_noise_gains(size: int, tables: int) -> None:
    """Beside noise for each table alone: near k²/((k+1)(k+2)) of the variance, if there are many numbers in all."""
    budget = 0.02
    joint = Radii(1 / budget, (size,) * tables).variance(size)
    alone = IntegerLaplace((1 if size == 1 else 2) * tables / budget).variance
    numbers = size * tables
    expected = size**2 / ((size + 1) * (size + 2)) * (numbers + 1) * (numbers + 2) / numbers**2
    assert joint / alone == pytest.approx(expected, rel=0.02)


# --- what it costs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scale", "sizes", "far"), CASES[:5])
def test_a_replaced_record_changes_no_probability_by_more_than_its_cost(
    scale: float, sizes: tuple[int, ...], far: int
) -> None:
    """In a box, for all ways in which a record may move the tables; and some way costs all of it."""
    chances, cost = the_law(scale, sizes, far), float(JointLaplace(scale).epsilon(1))
    ways = []
    for size in sizes:
        units = [tuple(int(i == j) for j in range(size)) for i in range(size)] + [(0,) * size]
        pairs = itertools.product(units, repeat=2)
        ways.append({tuple(x - y for x, y in zip(*pair, strict=True)) for pair in pairs})
    worst = 0.0
    for moved in itertools.product(*ways):
        for z, chance in chances.items():
            there = tuple(tuple(x + y for x, y in zip(*two, strict=True)) for two in zip(z, moved, strict=True))
            if there in chances:
                worst = max(worst, abs(math.log(chance / chances[there])))
    assert worst == pytest.approx(cost, rel=1e-12)


# --- addresses --------------------------------------------------------------------------------------------------


def test_no_word_is_used_twice() -> None:
    """Not within a draw, nor by draws at other addresses."""
    used, noise = list[tuple[int, ...]](), Noise(seed=5)

    def word(*address: int) -> int:
        used.append(address)
        return noise.further_word(*address)

    for hi in range(3):
        draw_jointly(word, 3.0, (1, 1, 5), hi, (0, 1, 2))
        draw_jointly(word, 3.0, (5, 2), hi, (3, 9))
    assert len(set(used)) == len(used)
    assert {label for _, _, label, _ in used} == {1 << 56, 1 << 57}


@settings(max_examples=30)
@given(st.floats(1e-9, 1e9), st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_what_does_not_fit_is_refused(scale: float, sizes: list[int]) -> None:
    los = range(len(sizes))
    if fits(scale, sizes):
        assert len(Noise(seed=1).jointly_at(scale, sizes, 0, los)) == sum(sizes)
    else:
        with pytest.raises(ValueError, match="no joint noise of scale"):
            Noise(seed=1).jointly_at(scale, sizes, 0, los)


@pytest.mark.parametrize("scale", [math.nan, math.inf, 0.0, -1.0, 2.0**-21])
def test_a_scale_that_is_none_is_refused(scale: float) -> None:
    assert not fits(scale, (1, 2))
    with pytest.raises(ValueError, match="no joint noise of scale"):
        Noise(seed=1).jointly_at(scale, (1, 2), 0, (0, 1))


@pytest.mark.parametrize("los", [(1, 1), (0, 1 << 48), (-1, 0)])
def test_an_address_that_is_none_or_another_tables_is_refused(los: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="an address of its own"):
        Noise(seed=1).jointly_at(1.0, (1, 2), 0, los)
