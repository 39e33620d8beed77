"""Permute-and-flip: the law of the choice, its privacy on every pair of neighbouring scores, and its addresses."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.public.laws import Pure
from headwater.secret.choices import SENSITIVITY, choose, distance
from headwater.secret.noise import Noise
from tests.support.marginals_watch import permute_and_flip


@pytest.mark.parametrize("scores", [[0, 0], [3, 0, -2], [5, 5, 4, 0], [0, -1000]])
def test_choices_follow_the_definition(scores: list[int]) -> None:
    """20,000 choices; the check of each frequency fails by chance with a probability below 1e−6."""
    scale, noise, runs = 2.5, Noise(seed=3), 20_000
    found = Counter(choose(scores, scale, noise, hi, 0) for hi in range(runs))
    for candidate, chance in enumerate(permute_and_flip(scores, scale)):
        slack = 5 * math.sqrt(chance * (1 - chance) / runs) + 1e-9
        assert abs(found[candidate] / runs - chance) <= slack


@pytest.mark.parametrize("candidates", [2, 3, 4])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_one_choice_costs_its_budget(candidates: int, epsilon: float) -> None:
    """Every candidate, all scores on a grid, every way to move each of them by up to the sensitivity: exactly."""
    scale = Pure.choice_law(Fraction(epsilon), 2 * SENSITIVITY).scale
    worst = 0.0
    for scores in itertools.product(range(-2, 3, 2), repeat=candidates):
        law = permute_and_flip(scores, scale)
        for moved in itertools.product((-SENSITIVITY, 0, SENSITIVITY), repeat=candidates):
            other = permute_and_flip([s + m for s, m in zip(scores, moved, strict=True)], scale)
            worst = max(worst, *(abs(math.log(a / b)) for a, b in zip(law, other, strict=True)))
    assert worst <= epsilon * (1 + 1e-9)
    assert worst > 0.5 * epsilon, "the check has teeth"


def test_half_the_sensitivity_costs_more_than_the_budget() -> None:
    """Planted fault: scores move by two, but coins are paid for one."""
    scale = Pure.choice_law(Fraction(1), SENSITIVITY).scale
    one, other = permute_and_flip([0, -2, -2], scale), permute_and_flip([-2, 0, 0], scale)
    assert max(abs(math.log(a / b)) for a, b in zip(one, other, strict=True)) > 1.5


@given(st.lists(st.integers(0, 9), min_size=2, max_size=12), st.integers(0, 10**6))
@settings(max_examples=60)
def test_replacing_a_record_moves_a_distance_by_at_most_the_sensitivity(cells: list[int], seed: int) -> None:
    """And there are tables where it does."""
    rng = np.random.default_rng(seed)
    counts, predicted = np.array(cells) + 1, rng.integers(0, 9, len(cells))
    lost, gained = rng.choice(len(cells), 2, replace=False)
    other = counts.copy()
    other[lost] -= 1
    other[gained] += 1
    assert abs(distance(counts, predicted) - distance(other, predicted)) <= SENSITIVITY
    assert distance(np.array([1, 0]), np.array([1, 0])) == distance(np.array([0, 1]), np.array([1, 0])) - SENSITIVITY


def test_a_choice_depends_on_its_address_and_scores_only() -> None:
    scores = [0] * 50
    first = [choose(scores, 1.0, Noise(seed=1), hi, 1 << 24) for hi in range(30)]
    assert first == [choose(scores, 1.0, Noise(seed=1), hi, 1 << 24) for hi in range(30)]
    assert first != [choose(scores, 1.0, Noise(seed=2), hi, 1 << 24) for hi in range(30)]
    assert first != [choose(scores, 1.0, Noise(seed=1), hi, 2 << 24) for hi in range(30)]


def test_equal_places_in_the_order_are_settled_by_further_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the first of them taken, the order would not be even. 2,000 choices; fails by chance below 1e−9."""
    monkeypatch.setattr(Noise, "uniform_at", lambda self, hi, lo: np.zeros((len(lo), 2), dtype=np.uint64))
    noise = Noise(seed=5)
    found = Counter(choose([0, 0], 1.0, noise, hi, 0) for hi in range(2000))
    assert abs(found[0] - 1000) < 140


@pytest.mark.parametrize("scale", [0.3, 1.0, 25.0, 1e6])
def test_geometric_draws_have_the_tails_of_their_definition(scale: float) -> None:
    """100,000 draws; each of the checks fails by chance with a probability below 1e−6."""
    runs = 100_000
    draws = Noise(seed=2).geometric_at(scale, 1, np.arange(runs))
    assert draws.min() >= 0
    for level in (1, math.ceil(scale / 2), math.ceil(scale), math.ceil(3 * scale)):
        chance = math.exp(-level / scale)
        assert abs((draws >= level).mean() - chance) <= 5 * math.sqrt(chance * (1 - chance) / runs)
