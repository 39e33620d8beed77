"""Exact arithmetic of levels, scales and ledgers."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from headwater import Number, Schema
from headwater.public.budget import Spend
from headwater.public.laws import IntegerLaplace, rho_for, scale_for
from headwater.public.paper import cell_budget
from headwater.public.person import Person
from headwater.secret.counters import level_at, level_start
from headwater.synthesizer import Synthesizer

budgets = st.floats(1e-6, 1e6)


@given(budgets, st.integers(0, 60))
def test_levels_start_at_the_rounded_up_quotient(epsilon: float, level: int) -> None:
    start = level_start(level, epsilon)
    assert start >= Fraction(2**level) / Fraction(epsilon) > start - 1


@given(budgets, st.integers(1, 10**12))
def test_the_level_of_a_time_is_the_last_that_has_started(epsilon: float, t: int) -> None:
    level = level_at(t, epsilon)
    assert level_start(level + 1, epsilon) > t
    assert level == -1 or level_start(level, epsilon) <= t


@given(st.fractions(Fraction(1, 10**9), 10**6))
def test_a_scale_never_costs_more_than_asked_and_hardly_less(cost: Fraction) -> None:
    spent = Spend("x", IntegerLaplace(scale_for(cost))).cost
    assert cost * (1 - Fraction(1, 2**50)) < spent <= cost


def test_cell_budgets_are_the_papers() -> None:
    """Equations (4.1) and (5.1), written out for a few cases."""
    alpha = 2 ** ((1 - 1 / 2) / 2)
    assert math.isclose(cell_budget(3, 5, 2, 1.0), (1 - 1 / alpha) / 2 * alpha**-2, rel_tol=1e-9)
    assert math.isclose(cell_budget(5, 5, 2, 2.0), 1 - 1 / alpha, rel_tol=1e-9)
    assert math.isclose(cell_budget(2, 9, 1, 1.0), 3 / math.pi**2 / 9, rel_tol=1e-12)


def test_a_ledger_ends_with_the_promise_where_the_total_is_another_number() -> None:
    schema = Schema({name: Number(0, 1) for name in "abcdefghij"})

    def last(**options: object) -> str:
        return " ".join(str(Synthesizer(schema, epsilon=1.0, **options).ledger()).splitlines()[-1].split())  # type: ignore[arg-type]

    few = Person("user", records=20, per_bucket=4)
    assert last() == "total ε = 1"
    assert last(delta=1e-9) == "promise ε = 1, δ = 1e-09"
    assert last(person=Person("user", records=5)) == "promise × 5: 5 records of one person ε = 1"
    capped = "promise × 80: 20 records of one person, at most 4 in a bucket ε = 1, δ = 1e-09"
    assert last(person=few, delta=1e-9) == capped
    ledger = Synthesizer(schema, epsilon=1.0, person=few, delta=1e-9).ledger()
    assert 80 * ledger.rho <= rho_for(1.0, 1e-9) < 80.001 * float(ledger.rho)
