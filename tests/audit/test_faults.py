"""The auditor has teeth: every planted fault raises the alarm, and without it there is none."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

import numpy as np
import pytest

import headwater as hw
from headwater.audit import AuditAlarm, Case, Subject, check_sensitivity
from headwater.audit.cases import (
    DELTA,
    Draws,
    heap,
    kind_of_pair,
    people,
    replaced,
    tables,
    traits_of,
    with_delta,
    worst_cases,
)
from headwater.audit.conformance import EPSILON, IN_RHO
from headwater.audit.exact import check_counting, check_ledger
from headwater.audit.sampled import sample
from headwater.public import protocol
from headwater.public.budget import Budget, Guarantee, OverdrawnError
from headwater.public.cascade import plan as plan_module
from headwater.public.cascade.plan import Stage, stage_at
from headwater.public.cube import unit_cube
from headwater.public.laws import deviation_for, rho_for
from headwater.secret import cascade as cascade_module
from headwater.synthesizer import Synthesizer
from tests.audit import faults, outer_faults
from tests.audit.faults import Fault
from tests.audit.toys import TOYS
from tests.support.audit_pairs import crowd, long_cascade, people_in_pairs, released_people

pytestmark = [
    pytest.mark.usefixtures("toys"),
    pytest.mark.filterwarnings("ignore::headwater.public.budget.DeltaWarning"),
]
CORNER = kind_of_pair("corner", heap(20, 2), 0)
FACE = kind_of_pair("face", heap(20, 2), 0)
LATE = kind_of_pair("corner", crowd(19, 2), 16)
EXTREME = replaced(crowd(8, 2) / 4, 3, 0.9, 0.2)
CASCADE = Case("first bucket", "cascade", 8.0, CORNER, (8, 12, 20), windows=(4,))
LAST = replaced(heap(64, 1), 0, 0.1, 0.99)  # into the last leaf
COUNTS = Case("first bucket, noisy counts", "cascade", 1.0, LAST, (64,), noisy_counts=True)
BOUNDARY = Case("a point on the face", "cascade", 8.0, FACE, (8,))
OPEN = Case("a point of the open bucket", "cascade", 4.0, LATE, (16, 17, 18, 19))
STRETCHED = Case("the largest point", "cascade", 8.0, EXTREME, (8,))
LEVELS = Case("levels", "paper", 4.0, kind_of_pair("corner", heap(16, 2), 2), (1, 2, 4, 8, 16))
TIMES = (16, 17, 18, 19, 20)
LOADED = Case("loads", "paper", 2.0, kind_of_pair("corner", heap(20, 2), 5), TIMES, reloads=TIMES)
DRAWS, JOINT = (Draws("draws", Guarantee(1.0), joint) for joint in (False, True))
MARGINALS = replace([*tables("marginals", 8.0)][2], reloads=())  # such a state would be refused
GAUSSIAN = replace(DRAWS, claim=Guarantee(1.0, 0.01))
WITH_DELTA = replace(CASCADE, epsilon=4.0, times=(16, 20), delta=0.3)
COUNTS_WITH_DELTA = replace(COUNTS, delta=0.3)
BUCKETS = long_cascade(2, 20.0, 1024)
(LONG,) = with_delta([long_cascade(1, 20.0, 3000)], 0.3)


def ledgers(dimension: int, budget: Budget) -> Callable[[], None]:
    """Of every stage to a million records."""

    def check() -> None:
        for stage in plan_module.plan(dimension, budget, 10**6).stages:
            check_ledger(stage.ledger(), budget)

    return check


LEDGERS, LEDGERS_IN_RHO = ledgers(2, Budget(1.0)), ledgers(1, Budget(1.0, 0.01))


def sensitivity(case: Case, outputs: int = 3) -> Callable[[], None]:
    def check() -> None:
        check_sensitivity(case, outputs=outputs)

    return check


def sampling(case: Case | Draws, runs: int) -> Callable[[], None]:
    """The runs of a sound mechanism raise a false alarm with a probability of at most 0.1%, and seeds are fixed."""

    def check() -> None:
        found = sample(case, runs, seed=0)
        if found.alarm:
            raise AuditAlarm(found.how)

    return check


BARE, TABLES, SIGMA, FIRST = sampling(DRAWS, 0), sampling(JOINT, 0), sampling(GAUSSIAN, 0), sensitivity(CASCADE)
COSTS_RHO = "costs ρ = .*, more than"
COSTS, UNPROTECTED, ELSEWHERE = "costs .*, more than ε", "noise did not protect", "what to measure depends on raw data"
CAUGHT: list[tuple[Fault, Callable[[], None], str]] = [
    (faults.half_the_noise, BARE, "count"),
    (faults.half_the_joint_noise, TABLES, "count"),
    (faults.joint_noise_that_forgets_a_table, TABLES, "count"),
    (faults.radii_without_points, TABLES, "count"),
    (faults.small_balls, TABLES, "count"),
    (faults.joint_noise_at_half_its_cost, sensitivity(MARGINALS), COSTS),
    (faults.half_the_noise_in_a_plan, FIRST, COSTS),
    (faults.a_budget_that_does_not_sum, LEDGERS, "the draws cost ε = 1.1"),
    (faults.a_budget_that_does_not_sum, FIRST, COSTS),
    (faults.noise_reused_between_levels, sensitivity(LEVELS), "one draw of noise protects two different counts"),
    (faults.noise_shared_by_buckets, sensitivity(BUCKETS), "one draw of noise protects two|two scales"),
    (faults.overlapping_buckets, sensitivity(BUCKETS), COSTS),
    (faults.bucket_ends_by_data, FIRST, ELSEWHERE),
    (faults.bounds_from_data, sensitivity(STRETCHED), COSTS),
    (faults.a_count_without_noise, FIRST, f"{UNPROTECTED}|{ELSEWHERE}"),  # it grows trees, too
    (faults.a_count_without_noise, sampling(COUNTS, 400), "bucket 0-64"),
    (faults.noise_drawn_anew_after_load, sensitivity(LOADED), COSTS),
    (faults.truncated_noise, BARE, "count"),
    (faults.clipped_noise, BARE, "count"),
    (faults.a_constant_seed, sampling(COUNTS, 400), "bucket 0-64"),
    (faults.rounding_by_raw_counts, sensitivity(replace(OPEN, files=True)), UNPROTECTED),
    (faults.error_from_raw_data, sensitivity(OPEN), UNPROTECTED),
    (faults.an_uncounted_boundary_point, lambda: check_counting(BOUNDARY), "counted in no cell"),
    (faults.sensitivity_of_one, FIRST, COSTS),
    (faults.sensitivity_of_one, sampling(COUNTS, 1200), "bucket 0-64"),
    (faults.trees_from_raw_counts, FIRST, ELSEWHERE),
    (faults.a_small_sigma, SIGMA, "count"),
    (faults.a_small_sigma, sampling(COUNTS_WITH_DELTA, 800), "bucket 0-64"),
    (faults.a_small_sigma_in_a_plan, sensitivity(WITH_DELTA), COSTS_RHO),
    (faults.a_timescale_that_is_not_composed, sensitivity(LONG), COSTS_RHO),
    (faults.a_timescale_that_is_not_composed, LEDGERS_IN_RHO, "the draws cost ρ"),
    (faults.a_cut_tail, SIGMA, "count"),
    (faults.a_loose_conversion, SIGMA, "count"),
]


@pytest.mark.parametrize(("fault", "check", "why"), CAUGHT, ids=lambda one: getattr(one, "__name__", None))
def test_a_planted_fault_raises_the_alarm(fault: Fault, check: Callable[[], None], why: str) -> None:
    """And for the reason that it was planted for."""
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        with pytest.raises(AuditAlarm, match=why):
            check()


def test_bounds_on_epsilon_and_delta_come_near_the_truth_and_not_beyond() -> None:
    """One Gaussian draw with ε = 1 and δ = 0.3; its exact δ is computed from its law. Wrong with 0.1% at most."""
    found = sample(replace(GAUSSIAN, claim=Guarantee(1.0, 0.3)), 0, seed=1)
    sigma = deviation_for(rho_for(1.0, 0.3))
    values = np.arange(-200, 201)
    one, other = (np.exp(-(((values - shift) / sigma) ** 2) / 2) for shift in (1, 0))
    true = float(np.maximum(one / one.sum() - math.e * other / other.sum(), 0).sum())
    assert 0.75 * true < found.delta_lower <= true < 0.3
    assert not found.alarm


@pytest.mark.parametrize(
    ("fault", "delta"),
    [
        (faults.half_the_noise_in_a_plan, 0.0),
        (faults.a_budget_that_does_not_sum, 0.0),
        (faults.a_small_sigma_in_a_plan, 0.3),
    ],
)
def test_a_run_that_would_overdraw_its_budget_does_not_begin(fault: Fault, delta: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faults, "nobody_adds_up", lambda _: None)
        fault(patch)
        with pytest.raises(OverdrawnError):
            Synthesizer(unit_cube(2), epsilon=1.0, delta=delta)


def test_a_run_whose_later_stages_would_overdraw_stops_before_them() -> None:
    """The first stages are sound, so the run begins; the batch that reaches another one is refused as a whole."""
    find = stage_at

    def generous_later(t: int, dimension: int, budget: Budget) -> Stage:
        stage = find(t, dimension, budget)
        if stage.start < 1000:
            return stage
        return replace(stage, timescales=tuple(replace(s, epsilon=2 * s.epsilon) for s in stage.timescales))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cascade_module, "stage_at", generous_later)
        synth = Synthesizer(unit_cube(2), epsilon=1.0)
        synth.update(np.full((8, 2), 0.5))
        with pytest.raises(OverdrawnError):
            synth.update(np.full((100_000, 2), 0.5))
        assert synth.t == 8


@pytest.mark.parametrize("check", list(dict.fromkeys(check for _, check, _ in CAUGHT)))
def test_without_the_fault_there_is_no_alarm(check: Callable[[], None]) -> None:
    check()


ONLINE = (*protocol.online(), *TOYS)
DELTAS = [name for name in protocol.names() if traits_of(name).deltas]
CASES = [*((name, 0.0) for name in (*protocol.names(), *TOYS)), *((name, DELTA) for name in DELTAS)]


def alarms(case: Case) -> bool:
    try:
        check_sensitivity(case, outputs=1)
    except AuditAlarm:
        return True
    return False


@pytest.mark.parametrize(
    "fault", [outer_faults.too_little_noise, outer_faults.bounds_from_data, outer_faults.seed_from_records]
)
@pytest.mark.parametrize(("mechanism", "delta"), CASES)
def test_a_fault_round_a_mechanism_raises_the_alarm(
    mechanism: str, delta: float, fault: Callable[[Subject], AbstractContextManager[object]]
) -> None:
    """Too little noise, records that depend on each other, released records drawn with a seed from the data."""
    cases = with_delta(worst_cases(mechanism, 2, 8.0), delta)
    cases += [replace(one, times=one.times[-1:], reloads=()) for one in cases]  # all records in one batch
    with fault(Subject(mechanism, hw.unit_cube(2), delta)):
        assert any(map(alarms, cases))


@pytest.mark.parametrize(("mechanism", "delta"), CASES)
def test_a_run_whose_noise_is_zero_is_refuted_by_a_hundred_runs(mechanism: str, delta: float) -> None:
    cases = with_delta(worst_cases(mechanism, 2, 1.0), delta)[:3]
    counts = [replace(case, noisy_counts=case.online, windows=(), reloads=()) for case in cases]
    with outer_faults.without_noise():
        assert any(sample(case, 100, seed=0).alarm for case in counts)


CAPS = (outer_faults.one_more, outer_faults.counted_after, outer_faults.colliding, outer_faults.forgetting)
SUMMED = [
    name for name in ONLINE if not traits_of(name).thresholds
]  # else the trace sees only what shifts, and no sums


@pytest.mark.parametrize(
    ("mechanism", "fault"),
    [*((name, fault) for name in SUMMED for fault in CAPS), *((name, outer_faults.shifting) for name in ONLINE)],
)
def test_a_fault_in_caps_raises_the_alarm(mechanism: str, fault: Callable[[], AbstractContextManager[object]]) -> None:
    """Caps count too late, forget, collide, or shift the records of others."""
    with fault():
        assert any(map(alarms, people(mechanism, EPSILON, noisy_counts=True)[::-1]))


@pytest.mark.parametrize("mechanism", DELTAS)
def test_buckets_without_their_cap_raise_the_alarm(mechanism: str) -> None:
    case = with_delta(people(mechanism, IN_RHO, noisy_counts=True))[0]
    assert case.person is not None
    capped = replace(case, person=replace(case.person, per_bucket=1))
    assert not alarms(capped)
    with outer_faults.uncapped_buckets():
        assert alarms(capped)


@pytest.mark.parametrize("fault", [*CAPS[:2], CAPS[3], outer_faults.a_budget_for_each_record])
@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_faults_in_caps_of_whole_runs_of_marginals_raise_the_alarm(
    delta: float, fault: Callable[[], AbstractContextManager[object]]
) -> None:
    """Through the first stage with pairs; `test_sound.py` has the same runs without the fault."""
    found = people_in_pairs(16.0, delta=delta) if delta else people_in_pairs(192.0)
    (case,) = [one for one in found if "more than count, 2 columns" in one.name]
    with fault():
        assert alarms(case)


@pytest.mark.parametrize(("delta", "runs"), [(0.0, 60), (DELTA, 120)])
def test_whole_releases_are_sampled_and_a_run_without_noise_is_refuted(delta: float, runs: int) -> None:
    """With a seed, so it never fails by chance. Bounds are low: a release hides more than it must."""
    case = released_people("marginals", 1.0, delta)[0]
    found = sample(case, runs, seed=0)
    assert not found.alarm
    assert (found.lower or 0.0) < case.epsilon
    with outer_faults.without_noise():
        assert sample(case, runs, seed=0).alarm
