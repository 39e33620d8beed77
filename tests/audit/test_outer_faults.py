"""Whatever the mechanism: faults round it raise the alarm of the exact audit, and a run without noise is refuted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest

import headwater as hw
from headwater.audit import AuditAlarm, Case, Experiment, audit_pairs, check_sensitivity
from headwater.audit.conformance import EPSILON, IN_RHO
from headwater.audit.suite import DELTA, people, with_delta, worst_cases
from headwater.audit.traits import traits_of
from headwater.public import protocol as registry
from tests.audit import outer_faults as faults
from tests.audit.toys import TOYS

pytestmark = pytest.mark.usefixtures("toys")
FAULTS = (faults.too_little_noise, faults.bounds_from_data, faults.seed_from_records)
PEOPLE = (faults.one_more, faults.counted_after, faults.colliding, faults.forgetting, faults.shifting)
NAMES = (*registry.names(), *TOYS)
ONLINE = (*registry.online(), *TOYS)
WITH_DELTA = [name for name in registry.names() if traits_of(name).deltas]
CASES = [*((name, 0.0) for name in NAMES), *((name, DELTA) for name in WITH_DELTA)]


def alarms(experiment: Experiment) -> bool:
    try:
        check_sensitivity(experiment, outputs=1)
    except AuditAlarm:
        return True
    return False


@pytest.mark.filterwarnings("ignore::headwater.public.budget.DeltaWarning")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("mechanism", "delta"), CASES)
def test_a_fault_round_a_mechanism_raises_the_alarm(
    mechanism: str, delta: float, fault: Callable[[Case], AbstractContextManager[object]]
) -> None:
    """Too little noise, records that depend on each other, released records drawn with a seed from the data."""
    experiments = with_delta(worst_cases(mechanism, 2, 8.0), delta)
    experiments += [replace(one, times=one.times[-1:], reloads=()) for one in experiments]  # all records in one batch
    with fault(Case(mechanism, hw.unit_cube(2), delta)):
        assert any(map(alarms, experiments))


@pytest.mark.filterwarnings("ignore::headwater.public.budget.DeltaWarning")
@pytest.mark.parametrize(("mechanism", "delta"), CASES)
def test_a_run_whose_noise_is_zero_is_refuted_by_a_hundred_runs(mechanism: str, delta: float) -> None:
    with faults.without_noise():
        for experiment in with_delta(worst_cases(mechanism, 2, 1.0), delta)[:3]:
            counts = replace(experiment, noisy_counts=experiment.online, windows=(), reloads=())
            (found,) = audit_pairs([counts], 100, processes=1, seed=0)
            if found.alarm:
                return
    pytest.fail("not refuted")


@pytest.mark.parametrize("fault", PEOPLE)
@pytest.mark.parametrize("mechanism", ONLINE)
def test_a_fault_in_caps_raises_the_alarm(mechanism: str, fault: Callable[[], AbstractContextManager[object]]) -> None:
    """Caps count too late, forget, collide, or shift the records of others.

    Where counts are compared with thresholds the trace sees a part of the loss only: what shifts, and no sums.
    """
    if traits_of(mechanism).thresholds and fault is not faults.shifting:
        pytest.skip("a mechanism with thresholds")
    with fault():
        assert any(map(alarms, people(mechanism, EPSILON, noisy_counts=True)[::-1]))


@pytest.mark.parametrize("mechanism", WITH_DELTA)
def test_buckets_without_their_cap_raise_the_alarm(mechanism: str) -> None:
    (experiment, *_) = with_delta(people(mechanism, IN_RHO, noisy_counts=True))
    assert experiment.person is not None
    capped = replace(experiment, person=replace(experiment.person, per_bucket=1))
    assert not alarms(capped)
    with faults.uncapped_buckets():
        assert alarms(capped)
