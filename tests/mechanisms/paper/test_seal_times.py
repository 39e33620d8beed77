"""The waiting time has the law of testing step by step: exactly, and at every probability."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.secret.noise import Noise
from headwater.secret.paper import Segment, chance_above, hazard


def words_of(v: Fraction) -> np.ndarray:
    bits = math.floor(v * 2**128)
    return np.array([bits >> 64, bits & (2**64 - 1)], dtype=np.uint64)


def never(index: int) -> int:
    raise AssertionError("128 bits were enough")


def step_by_step(segment: Segment) -> list[tuple[Fraction, int]]:
    """``P(sealed by this step)`` and the count then, for every step, by going through the steps one by one."""
    laws, stay, count = [], Decimal(1), 0
    with localcontext() as context:
        context.prec = 120
        q = (-1 / Decimal(segment.scale)).exp()
        for step in range(segment.begin + 1, segment.now + 1):
            count += int(step in segment.arrivals)
            margin = segment.margin - count
            above = q ** (margin + 1) / (1 + q) if margin >= 0 else 1 - q**-margin / (1 + q)
            stay *= 1 - above
            laws.append((Fraction(1 - stay), count))
    return laws


segments = st.builds(
    lambda margin, scale, begin, flags: Segment(
        margin, scale, begin, begin + len(flags), np.flatnonzero(flags).astype(np.int64) + begin + 1
    ),
    st.integers(-20, 60),
    st.sampled_from([0.3, 1.0, 2.5, 10.0]),
    st.integers(0, 5),
    st.lists(st.booleans(), min_size=1, max_size=30),
)


@given(segments, st.data())
@settings(max_examples=150)
def test_each_step_is_chosen_for_exactly_its_own_range_of_v(segment: Segment, data: st.DataObject) -> None:
    """``V`` just below ``P(sealed by s)`` seals at ``s`` or before, just above it later: no step's law is off."""
    laws = step_by_step(segment)
    index = data.draw(st.integers(0, len(laws) - 1))
    edge, _ = laws[index]
    before = laws[index - 1][0] if index else Fraction(0)
    tiny = Fraction(1, 2**127)
    if edge - before > 8 * tiny and edge < 1 - 8 * tiny:
        inside = segment.sealed_at(words_of(edge - 3 * tiny), never)
        assert inside == (segment.begin + 1 + index, laws[index][1])
        beyond = segment.sealed_at(words_of(edge + 3 * tiny), never)
        assert beyond is None or beyond[0] > segment.begin + 1 + index


@given(segments, st.integers(0, 2**32))
@settings(max_examples=150)
def test_floating_point_and_exact_arithmetic_agree(segment: Segment, seed: int) -> None:
    noise = Noise(seed)
    words = noise.uniform_at(1, 2)[0]
    further = lambda index: noise.further_word(1, 2, 3, index)  # noqa: E731
    assert segment.sealed_at(words, further) == segment.settle_exactly(words, further)


def test_probabilities_below_2_to_the_minus_128_are_not_lost() -> None:
    """A step that seals with probability 10^−45 seals when V begins with 128 zero bits and the next ones say so."""
    segment = Segment(margin=103, scale=1.0, begin=0, now=1, arrivals=np.array([], dtype=np.int64))
    chance = float(chance_above(np.array([103]), 1.0)[0])
    assert 1e-46 < chance < 1e-44
    edge = math.floor(Fraction(chance) * 2**192)  # the first 192 bits of the chance, up to rounding
    zeros = np.zeros(2, dtype=np.uint64)
    assert segment.sealed_at(zeros, lambda index: edge // 2 if index == 0 else 0) == (1, 0)
    assert segment.sealed_at(zeros, lambda index: 2 * edge if index == 0 else 0) is None
    assert segment.sealed_at(np.array([0, 3], dtype=np.uint64), never) is None


@pytest.mark.parametrize("scale", [0.05, 1.0, 50.0, 1e6])
def test_chance_and_hazard_match_high_precision(scale: float) -> None:
    getcontext().prec = 200
    q = (-1 / Decimal(scale)).exp()
    for margin in (-int(40 * scale) - 1, -3, -1, 0, 1, 7, int(100 * scale)):
        stay = 1 - q ** (margin + 1) / (1 + q) if margin >= 0 else q**-margin / (1 + q)
        got_chance = float(chance_above(np.array([margin]), scale)[0])
        got_hazard = float(hazard(np.array([margin]), scale)[0])
        assert math.isclose(got_chance, float(1 - stay), rel_tol=1e-12)
        assert math.isclose(got_hazard, float(-stay.ln()), rel_tol=1e-12)
