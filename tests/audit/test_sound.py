"""Headwater's own mechanisms pass, and the checks come near enough to ε to mean something."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.audit import Case, check_sensitivity
from headwater.audit.cases import DELTA, tables, to_sample, to_trace, with_delta, worst_cases
from headwater.audit.exact import check_counting
from headwater.audit.sampled import sample
from headwater.public import protocol
from tests.support.audit_pairs import at_random, long_cascade, people_in_pairs
from tests.support.nightly import NIGHTLY

NAMES = protocol.names()
FIRST = [worst_cases(name, 2, 4.0)[0] for name in NAMES] + [
    one for name in protocol.online() for one in tables(name, 8)
]
SETTINGS = [(1, 0.5), (1, 8.0), (1, 64.0), (2, 1.0), (2, 8.0), (2, 64.0), (3, 8.0)]
EVERY = [one for name in NAMES for d, epsilon in SETTINGS for one in worst_cases(name, d, epsilon)]
EVERY += with_delta([one for name in ("cascade", "marginals") for one in worst_cases(name, 2, 4.0)])
FILES = [replace(one, files=True) for one in (EVERY + FIRST if NIGHTLY else FIRST)]
TRACED = [one for name in NAMES for one in worst_cases(name, 3, 4.0)]  # the conformance checks have d = 1 and 2
PEOPLE = [*people_in_pairs(192.0), *people_in_pairs(16.0, delta=DELTA)]


@pytest.mark.parametrize(
    "case", [*TRACED, *FILES, *at_random(400 if NIGHTLY else 16, seed=7)], ids=lambda one: one.name
)
def test_a_neighbour_costs_at_most_epsilon_whatever_is_published(case: Case) -> None:
    """Releases at any times, cards, states that are loaded; files byte by byte; and pairs of any kind at random."""
    check_counting(case)
    loss = check_sensitivity(case, outputs=1)
    assert loss.reached == loss.bound or case.delta, "the output of the largest loss is found"


@pytest.mark.parametrize("case", PEOPLE, ids=lambda one: one.name)
def test_a_person_in_marginals_costs_at_most_epsilon_through_the_stage_with_pairs(case: Case) -> None:
    """All that is measured and released, without a δ and with one in ρ: all of ε where more arrive than count."""
    cost = float(check_sensitivity(case, outputs=1).cost(case.claim))
    assert 0 < cost <= case.epsilon
    assert cost > 0.999999 * case.epsilon or "more than count, 2 columns" not in case.name


@pytest.mark.parametrize(
    ("d", "epsilon", "until", "timescales"), [(1, 20.0, 3000, 3), (2, 20.0, 6000, 3), (2, 64.0, 1100, 2)]
)
def test_a_point_in_a_bucket_of_every_timescale_costs_all_of_epsilon(
    d: int, epsilon: float, until: int, timescales: int
) -> None:
    """So every timescale's noise is looked at, and the claim is met with nothing to spare."""
    case = long_cascade(d, epsilon, until)
    assert f"each of {timescales} timescales" in case.name
    check_counting(case)
    assert 0.999 * epsilon < check_sensitivity(case, outputs=1).bound <= epsilon


def test_cascade_spends_all_of_epsilon_on_a_point_of_its_first_bucket() -> None:
    assert check_sensitivity(worst_cases("cascade", 2, 8.0)[0]).bound > 7.999


def test_sampled_bounds_are_within_their_claims() -> None:
    """Each is exceeded with a probability of at most 0.1%; the seed is fixed."""
    found = [sample(case, 160, seed=0).lower or 0.0 for case in worst_cases("cascade", 2, 8.0, noisy_counts=True)[2:4]]
    assert 1.0 < max(found) <= 8.0


def test_the_cases_have_names_of_their_own() -> None:
    names = [one.name for one in (*to_sample(), *to_trace())]
    assert sorted(set(names)) == sorted(names)
