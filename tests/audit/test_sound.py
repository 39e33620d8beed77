"""Headwater's own mechanisms pass, and the checks come near enough to ε to mean something."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.audit import Experiment, audit_pairs, check_counting, check_sensitivity
from headwater.audit.suite import noise, tables, to_sample, to_trace, with_delta, worst_cases
from headwater.public import protocol as registry
from tests.support.audit_pairs import at_random, long_cascade
from tests.support.nightly import NIGHTLY

TRACED = [
    one for name in registry.names() for one in worst_cases(name, 3, 4.0)
]  # the conformance checks have d = 1 and 2
FIRST = [worst_cases(name, 2, 4.0)[0] for name in registry.names()]
SETTINGS = [(1, 0.5), (1, 8.0), (1, 64.0), (2, 1.0), (2, 8.0), (2, 64.0), (3, 8.0)]
EVERY = [one for name in registry.names() for d, epsilon in SETTINGS for one in worst_cases(name, d, epsilon)]
EVERY += with_delta([one for name in ("cascade", "marginals") for one in worst_cases(name, 2, 4.0)])
TABLES = [one for name in registry.online() for one in tables(name, 8.0)]
RANDOM = at_random(400 if NIGHTLY else 16, seed=7)


@pytest.mark.parametrize("experiment", TRACED, ids=lambda one: one.name)
def test_a_neighbour_costs_at_most_epsilon_whatever_is_published(experiment: Experiment) -> None:
    check_counting(experiment)
    loss = check_sensitivity(experiment, outputs=2)
    assert loss.reached == loss.bound, "the output of the largest loss is found"


@pytest.mark.parametrize("experiment", RANDOM, ids=lambda one: one.name)
def test_random_pairs_cost_at_most_epsilon(experiment: Experiment) -> None:
    check_counting(experiment)
    check_sensitivity(experiment, outputs=1)


@pytest.mark.parametrize("experiment", EVERY if NIGHTLY else FIRST, ids=lambda one: one.name)
def test_files_and_cards_hold_nothing_but_what_was_measured(experiment: Experiment) -> None:
    check_sensitivity(replace(experiment, files=True), outputs=1)


@pytest.mark.parametrize(
    ("d", "epsilon", "until", "timescales"), [(1, 20.0, 3000, 3), (2, 20.0, 6000, 3), (2, 64.0, 1100, 2)]
)
def test_a_point_in_a_bucket_of_every_timescale_costs_all_of_epsilon(
    d: int, epsilon: float, until: int, timescales: int
) -> None:
    """So every timescale's noise is looked at, and the claim is met with nothing to spare."""
    experiment = long_cascade(d, epsilon, until)
    assert f"each of {timescales} timescales" in experiment.name
    check_counting(experiment)
    assert 0.999 * epsilon < check_sensitivity(experiment, outputs=1).bound <= epsilon


@pytest.mark.parametrize("experiment", TABLES, ids=lambda one: one.name)
def test_records_of_a_table_cost_at_most_epsilon_and_their_files_show_nothing_else(experiment: Experiment) -> None:
    check_counting(experiment)
    assert check_sensitivity(replace(experiment, files=True), outputs=2).bound > 0


def test_cascade_spends_all_of_epsilon_on_a_point_of_its_first_bucket() -> None:
    assert check_sensitivity(worst_cases("cascade", 2, 8.0)[0]).bound > 7.999


def test_sampled_bounds_are_within_their_claims() -> None:
    """Each is exceeded with a probability of at most 0.1%; the seed is fixed."""
    experiments = worst_cases("cascade", 2, 8.0, noisy_counts=True)[2:4]
    found = audit_pairs(experiments, 160, processes=1, seed=0)
    assert [one.name for one in found if one.lower > one.claimed] == []
    assert max(one.lower for one in found) > 1.0


def test_the_worst_cases_have_names_of_their_own() -> None:
    for of in (to_sample, to_trace):
        names = [one.name for name in registry.names() for one in of(name)] + [one.name for one in noise(1.0)]
        assert len(set(names)) == len(names)
