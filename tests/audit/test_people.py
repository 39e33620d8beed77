"""People in whole runs of marginals: exact losses through the stage with pairs, sampled releases, planted faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch

import pytest

from headwater.audit import AuditAlarm, Experiment, audit_pairs, check_sensitivity
from headwater.audit.suite import DELTA
from headwater.public.budget import Budget
from tests.audit.outer_faults import counted_after, forgetting, one_more, without_noise
from tests.support.audit_pairs import people_in_pairs, released_people

EXACT = [*people_in_pairs(192.0), *people_in_pairs(16.0, delta=DELTA)]
MORE = [one for one in EXACT if "more than count, 2 columns" in one.name]


@pytest.mark.parametrize("experiment", EXACT, ids=lambda one: one.name)
def test_a_person_in_marginals_costs_at_most_epsilon_through_the_stage_with_pairs(experiment: Experiment) -> None:
    """All that is measured and released, of one-way marginals and of pairs; without a δ, and with one in ρ."""
    loss = check_sensitivity(experiment, outputs=1)
    assert 0 < loss.cost(experiment.claim) <= experiment.epsilon


def test_it_comes_near_epsilon_where_more_records_arrive_than_count() -> None:
    costs = [float(check_sensitivity(one, outputs=1).cost(one.claim)) / one.epsilon for one in MORE]
    assert costs == pytest.approx([1.0, 1.0])


@contextmanager
def a_budget_for_each_record() -> Iterator[None]:
    """A record may cost what its person may."""
    whole = property(lambda self: Budget(self.epsilon, self.delta))
    with patch.object(Budget, "of_record", whole):
        yield


@pytest.mark.parametrize("fault", [one_more, counted_after, forgetting, a_budget_for_each_record])
@pytest.mark.parametrize("experiment", MORE, ids=["pure", "with a δ"])
def test_planted_faults_raise_the_alarm(
    fault: Callable[[], AbstractContextManager[None]], experiment: Experiment
) -> None:
    with fault(), pytest.raises(AuditAlarm):
        check_sensitivity(experiment, outputs=1)


@pytest.mark.parametrize(("delta", "runs"), [(0.0, 60), (DELTA, 120)])
def test_whole_releases_are_sampled_and_a_run_without_noise_is_refuted(delta: float, runs: int) -> None:
    """With a seed, so it never fails by chance. Bounds are low: a release hides more than it must."""
    experiment = released_people("marginals", 1.0, delta)[0]
    (found,) = audit_pairs([experiment], runs, processes=1, seed=0)
    assert not found.alarm
    assert found.lower < experiment.epsilon
    with without_noise():
        (bare,) = audit_pairs([experiment], runs, processes=1, seed=0)
    assert bare.alarm
