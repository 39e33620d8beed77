"""The auditor has teeth: every planted fault raises the alarm, and without it there is none."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from headwater.audit import AuditAlarm, Experiment, audit_pairs, check_counting, check_ledger, check_sensitivity
from headwater.audit.experiments import JOINT_NOISE, NOISE, Draws
from headwater.audit.streams import heap, kind_of_pair, replaced
from headwater.audit.suite import tables, with_delta
from headwater.public.budget import Budget, Guarantee, OverdrawnError
from headwater.public.cascade import plan as plan_module
from headwater.public.cascade.plan import Stage, stage_at
from headwater.public.cube import unit_cube
from headwater.public.laws import deviation_for, rho_for
from headwater.secret import cascade as cascade_module
from headwater.synthesizer import Synthesizer
from tests.audit import faults
from tests.audit.faults import Fault
from tests.support.audit_pairs import crowd, long_cascade

CORNER = kind_of_pair("corner", heap(20, 2), 0)
FACE = kind_of_pair("face", heap(20, 2), 0)
LATE = kind_of_pair("corner", crowd(19, 2), 16)
EXTREME = replaced(crowd(8, 2) / 4, 3, 0.9, 0.2)
CASCADE = Experiment("first bucket", "cascade", 8.0, CORNER, (8, 12, 20), windows=(4,))
LAST = replaced(heap(64, 1), 0, 0.1, 0.99)  # into the last leaf
COUNTS = Experiment("first bucket, noisy counts", "cascade", 1.0, LAST, (64,), noisy_counts=True)
BOUNDARY = Experiment("a point on the face", "cascade", 8.0, FACE, (8,))
OPEN = Experiment("a point of the open bucket", "cascade", 4.0, LATE, (16, 17, 18, 19))
STRETCHED = Experiment("the largest point", "cascade", 8.0, EXTREME, (8,))
LEVELS = Experiment("levels", "paper", 4.0, kind_of_pair("corner", heap(16, 2), 2), (1, 2, 4, 8, 16))
TIMES = (16, 17, 18, 19, 20)
LOADED = Experiment("loads", "paper", 2.0, kind_of_pair("corner", heap(20, 2), 5), TIMES, reloads=TIMES)
DRAWS, JOINT = (Draws(kind, kind, Guarantee(1.0)) for kind in (NOISE, JOINT_NOISE))
MARGINALS = replace([*tables("marginals", 8.0)][2], reloads=())  # such a state would be refused
GAUSSIAN = replace(DRAWS, claim=Guarantee(1.0, 0.01))
WITH_DELTA = replace(CASCADE, epsilon=4.0, times=(16, 20), delta=0.3)
COUNTS_WITH_DELTA = replace(COUNTS, delta=0.3)
(LONG,) = with_delta([long_cascade(1, 20.0, 3000)], 0.3)


def ledgers() -> None:
    """Of every stage to a million records."""
    for stage in plan_module.plan(2, Budget(1.0), 10**6).stages:
        check_ledger(stage.ledger(), 1.0)


def ledgers_with_delta() -> None:
    """The same of a line, where a record counts in many trees, with a δ."""
    for stage in plan_module.plan(1, Budget(1.0, 0.01), 10**6).stages:
        check_ledger(stage.ledger(), Budget(1.0, 0.01))


def sensitivity(experiment: Experiment) -> Callable[[], None]:
    def check() -> None:
        check_sensitivity(experiment, outputs=3)

    return check


def sampling(experiment: Experiment | Draws, runs: int) -> Callable[[], None]:
    """The runs of a sound mechanism raise a false alarm with a probability of at most 0.1%, and seeds are fixed."""

    def check() -> None:
        (found,) = audit_pairs([experiment], runs, processes=1, seed=0)
        if found.alarm:
            raise AuditAlarm(found.event)

    return check


COSTS_RHO = "costs ρ = .*, more than"
COSTS, UNPROTECTED, ELSEWHERE = "costs .*, more than ε", "noise did not protect", "what to measure depends on raw data"
CAUGHT: list[tuple[Fault, Callable[[], None], str]] = [
    (faults.half_the_noise, sampling(DRAWS, 0), "count"),
    (faults.half_the_joint_noise, sampling(JOINT, 0), "count"),
    (faults.joint_noise_that_forgets_a_table, sampling(JOINT, 0), "count"),
    (faults.radii_without_points, sampling(JOINT, 0), "count"),
    (faults.small_balls, sampling(JOINT, 0), "count"),
    (faults.joint_noise_at_half_its_cost, sensitivity(MARGINALS), COSTS),
    (faults.half_the_noise_in_a_plan, sensitivity(CASCADE), COSTS),
    (faults.a_budget_that_does_not_sum, ledgers, "the draws cost ε = 1.1"),
    (faults.a_budget_that_does_not_sum, sensitivity(CASCADE), COSTS),
    (faults.noise_reused_between_levels, sensitivity(LEVELS), "one draw of noise protects two different counts"),
    (faults.bucket_ends_by_data, sensitivity(CASCADE), ELSEWHERE),
    (faults.bounds_from_data, sensitivity(STRETCHED), COSTS),
    (faults.a_count_without_noise, sensitivity(CASCADE), f"{UNPROTECTED}|{ELSEWHERE}"),  # it grows trees, too
    (faults.a_count_without_noise, sampling(COUNTS, 400), "bucket 0-64"),
    (faults.noise_drawn_anew_after_load, sensitivity(LOADED), COSTS),
    (faults.truncated_noise, sampling(DRAWS, 0), "count"),
    (faults.clipped_noise, sampling(DRAWS, 0), "count"),
    (faults.a_constant_seed, sampling(COUNTS, 400), "bucket 0-64"),
    (faults.rounding_by_raw_counts, sensitivity(replace(OPEN, files=True)), UNPROTECTED),
    (faults.error_from_raw_data, sensitivity(OPEN), UNPROTECTED),
    (faults.an_uncounted_boundary_point, lambda: check_counting(BOUNDARY), "counted in no cell"),
    (faults.sensitivity_of_one, sensitivity(CASCADE), COSTS),
    (faults.sensitivity_of_one, sampling(COUNTS, 1200), "bucket 0-64"),
    (faults.trees_from_raw_counts, sensitivity(CASCADE), ELSEWHERE),
    (faults.a_small_sigma, sampling(GAUSSIAN, 0), "count"),
    (faults.a_small_sigma, sampling(COUNTS_WITH_DELTA, 800), "bucket 0-64"),
    (faults.a_small_sigma_in_a_plan, sensitivity(WITH_DELTA), COSTS_RHO),
    (faults.a_timescale_that_is_not_composed, sensitivity(LONG), COSTS_RHO),
    (faults.a_timescale_that_is_not_composed, ledgers_with_delta, "the draws cost ρ"),
    (faults.a_cut_tail, sampling(GAUSSIAN, 0), "count"),
    (faults.a_loose_conversion, sampling(GAUSSIAN, 0), "count"),
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
    (found,) = audit_pairs([replace(GAUSSIAN, claim=Guarantee(1.0, 0.3))], 0, processes=1, seed=1)
    sigma = deviation_for(rho_for(1.0, 0.3))
    values = np.arange(-200, 201)
    one, other = (np.exp(-(((values - shift) / sigma) ** 2) / 2) for shift in (1, 0))
    true = float(np.maximum(one / one.sum() - math.e * other / other.sum(), 0).sum())
    assert 0.75 * true < found.delta_lower <= true < 0.3
    assert not found.alarm


def test_a_run_with_a_delta_that_would_overdraw_its_budget_does_not_begin() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faults, "nobody_adds_up", lambda _: None)
        faults.a_small_sigma_in_a_plan(patch)
        with pytest.raises(OverdrawnError, match="ρ"):
            Synthesizer(unit_cube(2), epsilon=1.0, delta=0.3)


@pytest.mark.parametrize("fault", [faults.half_the_noise_in_a_plan, faults.a_budget_that_does_not_sum])
def test_a_run_that_would_overdraw_its_budget_does_not_begin(fault: Fault) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faults, "nobody_adds_up", lambda _: None)
        fault(patch)
        with pytest.raises(OverdrawnError):
            Synthesizer(unit_cube(2), epsilon=1.0)


def test_a_run_whose_later_stages_would_overdraw_stops_before_them() -> None:
    """The first stage is sound, so the run begins; the batch that reaches the second one is refused as a whole."""
    find = stage_at

    def generous_later(t: int, dimension: int, budget: Budget) -> Stage:
        stage = find(t, dimension, budget)
        if not stage.start:
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
