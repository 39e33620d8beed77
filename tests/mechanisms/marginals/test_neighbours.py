"""Neighbouring streams: the same questions, counts and scores moved as claimed, the costs at most ε, or ρ with a δ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.public import laws
from headwater.public.budget import Budget, Ledger, OverdrawnError, Spend
from headwater.public.laws import choice_scale_for, deviation_for, scale_for
from headwater.public.marginals import plan as plan_module
from headwater.public.marginals import questions as questions_module
from headwater.public.marginals.plan import stage_at
from headwater.public.protocol import Span
from headwater.secret import bucket as bucket_module
from headwater.secret import bucket as slow
from headwater.secret.bucket import Bucket, SlowBucket
from headwater.secret.held import Held
from tests.support.marginals_watch import (
    Choice,
    Event,
    Fault,
    Table,
    Watched,
    a_schema,
    a_stream,
    decided,
    norm,
    run,
)


def both(
    columns: int, records: int, budget: Budget | float, position: int, seed: int, fault: Fault | None = None
) -> tuple[list[Event], list[Event]]:
    """The events of two runs whose streams differ in one record, and whose published numbers agree."""
    schema = a_schema(columns)
    x = a_stream(schema, records, seed)
    y = x.copy()
    y[position] = a_stream(schema, 50, seed + 1)[np.abs(a_stream(schema, 50, seed + 1) - x[position]).sum(1).argmax()]
    found = []
    for stream in (x, y):
        noise = Watched(*decided(seed))
        run(schema, stream, budget, noise, fault=fault)
        found.append(noise.events)
    return found[0], found[1]


def check(one: Sequence[Event], other: Sequence[Event], position: int, budget: Budget | float) -> Ledger:
    """The exact cost of replacing that record: what its tables and choices would cost, were all of them moved most."""
    spends, joint = list[Spend](), defaultdict[tuple[int, int, int], list[list[int]]](list)
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert a.what == b.what, "a question depends on raw data"
        inside = a.start <= position < a.end
        if isinstance(a, Table) and isinstance(b, Table):
            moved = (a.true - b.true).ravel()
            assert np.abs(moved).max(initial=0) <= inside
            assert np.abs(moved).sum() <= 2 * inside
            assert moved.sum() == 0
            if not a.joint:
                spends.append(Spend("table", a.law, touches=inside * (2 if a.draws > 1 else a.true.size > 1)))
                continue
            if a.group not in joint:  # all tables that share the noise are paid for once
                spends.append(Spend("tables", a.law, touches=inside))
            joint[a.group].append(moved.tolist()[a.draws == 1 :])
            assert norm(joint[a.group]) <= inside
        elif isinstance(a, Choice) and isinstance(b, Choice):
            moved = np.abs(np.array(a.scores) - np.array(b.scores))
            assert moved.max() <= 2 * inside
            spends.append(Spend("choice", a.law, touches=inside, shift=4))
    ledger = Ledger(spend for spend in spends if spend.touches)
    ledger.check(budget)
    return ledger


@given(
    columns=st.integers(1, 7),
    epsilon=st.sampled_from([0.5, 8.0, 64.0, 500.0]),
    delta=st.sampled_from([0.0, 1e-9, 0.3]),
    records=st.integers(1, 1300),
    position=st.integers(0, 1299),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=12)
def test_replacing_a_record_moves_what_the_ledger_says(
    columns: int, epsilon: float, delta: float, records: int, position: int, seed: int
) -> None:
    budget = Budget(epsilon, delta)
    check(*both(columns, records, budget, position % records, seed), position % records, budget)


@pytest.fixture
def halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doublings are halved, however large ε is."""
    monkeypatch.setattr(plan_module, "NOISY", 10**9)


@pytest.mark.usefixtures("halves")
@given(
    columns=st.integers(1, 7),
    epsilon=st.sampled_from([8.0, 64.0, 500.0]),
    records=st.integers(300, 1100),
    part=st.floats(0, 1),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_replacing_a_record_of_a_half_moves_what_the_ledger_says(
    columns: int, epsilon: float, records: int, part: float, seed: int
) -> None:
    position = int(part * (records - 1))
    check(*both(columns, records, epsilon, position, seed), position, epsilon)


WIDE = Budget(16.0, 0.4)  # five columns have Gaussian noise then, and short stages


@pytest.mark.parametrize("position", [0, 100, 600])
def test_with_a_delta_nearly_all_of_rho_is_spent_on_a_record(position: int) -> None:
    """Stages end at 8, 24, 72, 512 and 1,024; pairs are chosen in the fourth, and beyond a tree in the fifth."""
    one, other = both(5, 1024, WIDE, position, seed=3)
    ledger = check(one, other, position, WIDE)
    assert WIDE.rho is not None
    assert WIDE.rho * Fraction(97, 100) < ledger.rho <= WIDE.rho
    assert ledger.laws == "discrete Gaussian" + (" and exponential mechanism" if position > 72 else "")


@pytest.mark.parametrize("position", [0, 40, 129])
def test_a_record_is_found_in_every_table_of_its_buckets_and_nearly_all_of_epsilon_is_spent(position: int) -> None:
    """ε = 64 and five columns: the first stage with pairs ends at 128, and extras are chosen from there on."""
    one, other = both(5, 256, 64.0, position, seed=3)
    cost = check(one, other, position, 64.0).total
    assert cost > Fraction(64) * Fraction(97, 100)
    tables = [[event for event in events if isinstance(event, Table)] for events in (one, other)]
    moved = [a for a, b in zip(*tables, strict=True) if not np.array_equal(a.true, b.true)]
    stage = stage_at(position, 64.0, 5)
    assert any(a.timescale == 0 for a in moved)
    assert any(len(a.question.columns) == 2 for a in moved) == bool(stage.pairs)
    choices = [a for a in one if isinstance(a, Choice) and a.start <= position < a.end]
    assert bool(choices) == bool(stage.pairs)


def test_questions_follow_published_numbers_not_data() -> None:
    """Two streams with nothing in common: the same questions as long as the published numbers agree, others if not."""
    schema = a_schema(5)
    x, y = a_stream(schema, 1100, 1), a_stream(schema, 1100, 2)
    asked = []
    for stream, seed in ((x, 5), (y, 5), (x, 6)):
        noise = Watched(*decided(seed))
        run(schema, stream, 64.0, noise)
        asked.append([event.what for event in noise.events])
    assert asked[0] == asked[1]
    assert asked[0] != asked[2]


@pytest.mark.parametrize("halved", [False, True])
def test_no_address_is_used_twice(halved: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if halved:
        monkeypatch.setattr(plan_module, "NOISY", 10**9)
    noise = Watched(seed=4)
    run(a_schema(6), a_stream(a_schema(6), 1100), 64.0, noise)
    assert len(noise.addresses) == len(set(noise.addresses)) > 2000
    joint = [event for event in noise.events if isinstance(event, Table) and event.joint]
    assert len({event.group for event in joint}) > 3
    assert {event.timescale for event in joint} == {0}


def test_without_noise_tables_are_the_counts_of_their_records() -> None:
    """One by one, by a plain search for each record's bin."""
    schema, noise = a_schema(5), Watched(lambda question, start, counts, scale: counts)
    points = a_stream(schema, 300)
    mechanism = run(schema, points, 64.0, noise)
    codes = mechanism.encode(points)
    pairs = 0
    for table in mechanism.tables:
        expected = np.zeros(table.counts.shape, dtype=np.int64)
        for record in codes[table.start : table.end]:
            expected[
                tuple(int((e <= record[c]).sum()) - 1 for c, e in zip(table.columns, table.edges, strict=True))
            ] += 1
        assert np.array_equal(table.counts, expected)
        pairs += len(table.columns) == 2
    assert pairs > 5


# --- planted faults ---------------------------------------------------------------------------------------


def half_the_noise(patch: pytest.MonkeyPatch) -> None:
    """A replaced record moves two counts; this pays for one."""
    for module in (laws, bucket_module):
        patch.setattr(module, "scale_for", lambda cost: scale_for(2 * cost))


def half_the_joint_noise(patch: pytest.MonkeyPatch) -> None:
    """Tables that share their noise take twice what they have."""
    patch.setattr(bucket_module, "scale_for", lambda cost: scale_for(2 * cost))


def half_the_sensitivity(patch: pytest.MonkeyPatch) -> None:
    """A replaced record moves a score by two; this pays for one."""
    patch.setattr(bucket_module, "SENSITIVITY", 1)


def every_pair_pays_alone(patch: pytest.MonkeyPatch) -> None:
    """Each pair takes the budget of all."""
    patch.setattr(slow, "divide", lambda budget, weights: [budget] * len(weights))


def a_tree_at_half_price(patch: pytest.MonkeyPatch) -> None:
    """Half of what choosing and measuring a tree cost is spent once more."""
    choose_tree = SlowBucket.choose_tree
    patch.setattr(SlowBucket, "choose_tree", lambda self, *budget: choose_tree(self, *budget) / 2)


def bins_of_raw_counts(patch: pytest.MonkeyPatch) -> None:
    """One-way bins follow the first record of the bucket."""
    one_way = Bucket.one_way

    def peeking(
        self: Bucket, budget: Fraction, weights: list[float], known: list[object], *, again: bool = False
    ) -> object:
        first = self.codes[:, 0].sum() if self.codes.size else 0
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(questions_module, "MOST_BINS", 2 + int(first) % 13)
            return one_way(self, budget, weights, known, again=again)  # type: ignore[arg-type]

    patch.setattr(Bucket, "one_way", peeking)


def a_record_too_many(patch: pytest.MonkeyPatch) -> None:
    """A bucket also counts the last record before it."""
    within, before = Held.within, list[Any]()

    def reaching(self: Held, span: Span) -> Any:  # noqa: ANN401 - handed on
        plain, counted = within(self, span)
        found = [*before, *plain] if span.start else plain
        before[:] = [rows[-1:] for rows in plain[-1:]]
        return found, counted

    patch.setattr(Held, "within", reaching)


FAULTS = [
    half_the_noise,
    half_the_joint_noise,
    half_the_sensitivity,
    every_pair_pays_alone,
    a_tree_at_half_price,
    bins_of_raw_counts,
    a_record_too_many,
]


def half_the_variance(patch: pytest.MonkeyPatch) -> None:
    """A replaced record moves two counts; this pays for one."""
    patch.setattr(laws, "deviation_for", lambda cost: deviation_for(2 * cost))


def choices_that_pay_a_quarter(patch: pytest.MonkeyPatch) -> None:
    """A choice takes four times its ε, and so sixteen times its ρ."""
    patch.setattr(laws, "choice_scale_for", lambda cost, shift: choice_scale_for(16 * cost, shift))


PURE = [(fault, 64.0, (17, 127) if fault is a_record_too_many else (16, 128)) for fault in FAULTS]
IN_RHO = [half_the_variance, choices_that_pay_a_quarter, every_pair_pays_alone, a_tree_at_half_price]


@pytest.mark.parametrize(
    ("fault", "budget", "positions"),
    [*PURE, *((fault, WIDE, (100, 600)) for fault in IN_RHO)],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
def test_planted_faults_are_found(fault: Fault, budget: Budget | float, positions: tuple[int, int]) -> None:
    """At a record of the first bucket with pairs, or of a later one with pairs beyond the tree, or just before them."""
    runs = [(position, both(5, 300 if budget == 64.0 else 1024, budget, position, 3, fault)) for position in positions]

    def check_both() -> None:
        for position, events in runs:
            check(*events, position, budget)

    with pytest.raises((AssertionError, OverdrawnError)):
        check_both()


def test_a_reused_address_is_found() -> None:
    """Planted fault: fast and slow buckets that start together share their draws, and tables that are asked again."""

    def one_timescale(patch: pytest.MonkeyPatch) -> None:
        address = Bucket.address
        patch.setattr(Bucket, "address", lambda self, question, _again: address(self, question, False) & ~(3 << 46))

    noise = Watched(seed=4)
    run(a_schema(5), a_stream(a_schema(5), 1100), 64.0, noise, fault=one_timescale)
    assert len(noise.addresses) > len(set(noise.addresses))
