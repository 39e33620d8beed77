"""The plan is public: it follows from t, ε, the columns and what is expected, and never spends more than ε."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.public.marginals.plan import Stage, divide, plan, stage_at

columns = st.integers(1, 120) | st.just(1000)
budgets = st.floats(1e-6, 1e6)
times = st.integers(0, 60).flatmap(lambda q: st.integers(0, 2**q))
expectations = st.none() | st.integers(0, 50).flatmap(lambda q: st.integers(1, 2**q))


def spent(stage: Stage) -> Fraction:
    return stage.one_way + stage.tree_choice + stage.extra_choice + stage.pairs + stage.fast_budget


@given(columns, budgets, times, expectations)
def test_every_stage_spends_epsilon_and_no_more(k: int, epsilon: float, t: int, expect: int | None) -> None:
    """Exactly, in rational arithmetic; the ledger names scales, which are rounded up."""
    stage = stage_at(t, epsilon, k, expect)
    assert stage.start <= t < stage.end
    assert min(stage.one_way, stage.tree_choice, stage.extra_choice, stage.pairs, stage.fast_budget) >= 0
    assert spent(stage) == Fraction(epsilon)
    assert Fraction(epsilon) * Fraction(999, 1000) < stage.ledger().total <= Fraction(epsilon)


@pytest.mark.parametrize("k", [1, 2, 10, 100])
@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1.0, 50.0, 1e6])
@pytest.mark.parametrize("expect", [None, 1, 63, 1000, 58_788, 10**12 + 1])
def test_stages_cover_time_without_gaps(k: int, epsilon: float, expect: int | None) -> None:
    stages = plan(k, epsilon, 2**60, expect).stages
    assert stages[0].start == 0
    assert stages[-1].end >= 2**60
    for stage, following in pairwise(stages):
        assert stage.end == following.start
        assert stage_at(stage.end - 1, epsilon, k, expect) == stage


@given(columns, budgets, st.integers(1, 2**50))
def test_a_stage_ends_with_the_records_that_are_expected(k: int, epsilon: float, expect: int) -> None:
    """Whether they come before pairs can be measured or after; and stages with pairs go on doubling."""
    last, following, later = (stage_at(t, epsilon, k, expect) for t in (expect - 1, expect, 2 * expect - 1))
    assert last.end == following.start == expect
    if last.pairs:
        assert later.end == 2 * expect


def test_halves_of_a_doubling_ask_for_different_things() -> None:
    """Ten columns at ε = 1: the first two doublings with pairs are whole, and so are those of very many records."""
    stages = [stage for stage in plan(10, 1.0, 2**20).stages if stage.extra_choice or stage.tree_choice]
    halves = [stage for stage in stages if not (stage.extra_choice and stage.tree_choice)][
        1:
    ]  # the first has no extras
    assert [(stage.start, stage.end) for stage in halves] == [
        (16384, 24576),
        (24576, 32768),
        (32768, 49152),
        (49152, 65536),
    ]
    for first, second in zip(halves[::2], halves[1::2], strict=True):
        assert first.tree_choice
        assert not first.one_way + first.extra_choice
        assert second.one_way == first.other_half > 0
        assert second.extra_choice
        assert not second.tree_choice
        assert first.opened == second.opened == first.start
        assert first.fast == second.fast
        assert bool(first.fast) == (first.start >= 32768)  # before, fast buckets would say nothing
        assert not first.fast or (first.end - first.start) % first.fast == 0


@given(columns, budgets, times, expectations)
def test_fast_buckets_cut_their_stage(k: int, epsilon: float, t: int, expect: int | None) -> None:
    stage = stage_at(t, epsilon, k, expect)
    end = stage.fast_end(t)
    assert t < end <= stage.end
    if stage.fast:
        assert end == stage.end or (end - stage.start) % stage.fast == 0
        assert end - t <= stage.fast


@given(
    st.fractions(Fraction(1, 10**9), 10**6),
    st.lists(st.floats(0.0, 1e9), min_size=1, max_size=200).filter(lambda w: sum(w) > 0),
)
def test_a_budget_is_divided_into_no_more_than_itself(budget: Fraction, weights: list[float]) -> None:
    shares = divide(budget, weights)
    assert sum(shares) <= budget
    assert min(shares) >= 0
    assert sum(shares) >= budget * Fraction(999, 1000)
