"""The plan is public: it follows from t, d and ε, cuts time without gaps, and never spends more than ε."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.public.cascade import plan as plan_module
from headwater.public.cascade.plan import Stage, Timescale, plan, stage_at
from headwater.public.laws import IntegerLaplace, scale_for

FOREVER = 2**60
EXTREMES = [1e-6, 0.01, 0.1, 1.0, 5.0, 50.0, 1e6]

dimensions = st.integers(1, 12) | st.just(50)
budgets = st.floats(1e-6, 1e6)
times = st.integers(0, 60).flatmap(lambda q: st.integers(0, 2**q))


def spent(stage: Stage) -> Fraction:
    """What replacing one point of a stage costs, from its noise alone: twice a count in each tree of each timescale."""
    return sum(
        (2 * timescale.resolutions / Fraction(timescale.noise.scale) for timescale in stage.timescales), Fraction(0)
    )


@pytest.mark.parametrize("d", [*range(1, 11), 50])
@pytest.mark.parametrize("epsilon", EXTREMES)
def test_every_stage_spends_at_most_epsilon_and_nearly_all_of_it(d: int, epsilon: float) -> None:
    """Exactly, in rational arithmetic, for 2^60 points."""
    stages = plan(d, epsilon, FOREVER).stages
    assert stages[-1].end >= FOREVER
    for stage in stages:
        assert stage.ledger().total == spent(stage)
        assert Fraction(epsilon) * Fraction(999, 1000) < stage.ledger().total <= Fraction(epsilon)


@given(dimensions, budgets, times)
def test_the_ledger_closes_for_any_budget_at_any_time(d: int, epsilon: float, t: int) -> None:
    stage = stage_at(t, d, epsilon)
    assert stage.ledger().total == spent(stage) <= Fraction(epsilon)


def noise_for_one_count(patch: pytest.MonkeyPatch) -> None:
    """A replaced point moves two counts; this pays for one."""
    half = property(lambda scale: IntegerLaplace(scale_for(Fraction(scale.epsilon) / scale.resolutions)))
    patch.setattr(Timescale, "noise", half)


def resolutions_for_free(patch: pytest.MonkeyPatch) -> None:
    """Every tree of a bucket spends all of the bucket's budget."""
    patch.setattr(Timescale, "noise", property(lambda scale: IntegerLaplace(scale_for(scale.epsilon / 2))))


def timescales_for_free(patch: pytest.MonkeyPatch) -> None:
    """Slow buckets spend ε, and fast ones their share on top."""
    make = plan_module.timescale_of
    patch.setattr(plan_module, "timescale_of", lambda size, epsilon, *rest: make(size, epsilon * 1.15, *rest))


def no_margin(patch: pytest.MonkeyPatch) -> None:
    """Rounding to the nearest float, which in half of all cases is too little noise."""
    patch.setattr(plan_module, "scale_for", lambda cost: float(1 / cost) * (1 - 2**-36))


@pytest.mark.parametrize("fault", [noise_for_one_count, resolutions_for_free, timescales_for_free, no_margin])
def test_planted_overdrafts_are_seen(fault: Callable[[pytest.MonkeyPatch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        assert max(spent(stage) for d in (1, 2) for stage in plan(d, 1.0, 2**40).stages) > 1


@pytest.mark.parametrize("d", [1, 2, 3, 10, 50])
@pytest.mark.parametrize("epsilon", EXTREMES)
def test_stages_and_buckets_tile_time(d: int, epsilon: float) -> None:
    """No gap and no overlap: stages follow one another, and buckets divide those of the timescale before."""
    end = 0
    for stage in plan(d, epsilon, FOREVER).stages:
        assert stage.start == end
        end, parent = stage.end, stage.end - stage.start
        for timescale in stage.timescales:
            assert 1 <= timescale.size <= parent
            assert parent % timescale.size == 0
            assert stage.start % timescale.size == 0
            parent = timescale.size
        sizes = [timescale.size for timescale in stage.timescales]
        assert sizes == sorted(set(sizes), reverse=True)


@given(dimensions, budgets, times)
@settings(max_examples=200)
def test_a_point_lies_in_one_bucket_of_each_timescale_of_its_stage(d: int, epsilon: float, t: int) -> None:
    """The stage holds the point, and every other point of the stage is given the same stage."""
    stage = stage_at(t, d, epsilon)
    assert stage.start <= t < stage.end
    for other in (stage.start, (stage.start + t) // 2, (t + stage.end) // 2, stage.end - 1):
        assert stage_at(other, d, epsilon) == stage
    for timescale in stage.timescales:
        first = t - (t - stage.start) % timescale.size
        assert stage.start <= first <= t < first + timescale.size <= stage.end


@pytest.mark.parametrize("d", [1, 2, 3, 50])
@pytest.mark.parametrize("epsilon", EXTREMES)
def test_addresses_have_room_for_all_timescales_and_resolutions(d: int, epsilon: float) -> None:
    """Four bits for the timescale, six for the resolution: beyond that two counts would share their noise."""
    for stage in plan(d, epsilon, 2**62).stages:
        assert len(stage.timescales) <= 16
        assert all(1 <= timescale.resolutions <= 64 for timescale in stage.timescales)
