"""From laws to ρ and from ρ to (ε, δ): against definitions, brute force and dp-accounting."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from headwater.public import laws as zcdp
from headwater.public.budget import Budget, Ledger, OverdrawnError, Spend
from headwater.public.laws import (
    Concentrated,
    DiscreteGaussian,
    ExponentialChoice,
    IntegerLaplace,
    PermuteAndFlip,
    Pure,
    choice_scale_for,
    deviation_for,
    rho_for,
)
from tests.support.marginals_watch import exponential, permute_and_flip

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from dp_accounting import ZCDpEvent, rdp

Chances = NDArray[np.float64]
ORDERS = (1.0001, 1.5, 2.0, 5.0, 34.9, 200.0)
CLAIMS = [(1.0, 1e-9), (1.0, 1e-6), (0.1, 1e-9), (8.0, 1e-12), (50.0, 1e-5), (0.01, 1e-30), (1e-3, 0.01)]


# --- what a law costs in ρ ------------------------------------------------------------------------------------------


def renyi(p: Chances, q: Chances, order: float) -> float:
    """The Rényi divergence of two laws given by the logarithms of their probabilities, by its definition."""
    return float(np.logaddexp.reduce(order * p + (1 - order) * q)) / (order - 1)


def shifted(log_weight: Callable[[Chances], Chances], shift: int, reach: int) -> tuple[Chances, Chances]:
    """Log probabilities of a law of integers and of the same law moved, by its weights."""
    values = np.arange(-reach, reach + 1, dtype=np.float64)
    one, other = (logs - np.logaddexp.reduce(logs) for logs in (log_weight(values), log_weight(values - shift)))
    return one, other


@pytest.mark.parametrize("shift", [1, 2, 5])
@pytest.mark.parametrize("sigma", [0.4, 1.0, 2.5, 8.2])
def test_gaussian_noise_costs_what_its_law_says(sigma: float, shift: int) -> None:
    """Canonne, Kamath, Steinke 2020, Theorem 4: every order, and attained for whole orders times the shift."""
    reach = math.ceil(30 * sigma) + 300 * shift
    law = shifted(lambda z: -((z / sigma) ** 2) / 2, shift, reach)
    cost = float(DiscreteGaussian(sigma).rho(shift))
    for order in (o for o in ORDERS if o * shift < 6 * reach / 10):
        assert renyi(*law, order) <= order * cost * (1 + 1e-9) + 1e-12
    assert renyi(*law, 2.0) == pytest.approx(2 * cost, rel=1e-9)


@pytest.mark.parametrize("shift", [1, 3])
@pytest.mark.parametrize("scale", [0.5, 2.0, 20.0])
def test_laplace_noise_costs_what_its_law_says(scale: float, shift: int) -> None:
    law = shifted(lambda z: -np.abs(z) / scale, shift, math.ceil(40 * scale) + 40)
    for order in ORDERS[:4]:
        assert renyi(*law, order) <= order * float(IntegerLaplace(scale).rho(shift)) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("law", "of"), [(ExponentialChoice(3.0), exponential), (PermuteAndFlip(3.0), permute_and_flip)]
)
def test_a_choice_costs_what_its_law_says(
    law: ExponentialChoice | PermuteAndFlip, of: Callable[[Sequence[int], float], list[float]]
) -> None:
    """For all scores of three candidates on a grid, and all ways to move each by at most the sensitivity of 2."""
    worst = 0.0
    for scores in itertools.product(range(0, 7, 3), repeat=3):
        one = np.log(of(scores, law.scale))
        for moved in itertools.product((-2, 0, 2), repeat=3):
            other = np.log(of([s + m for s, m in zip(scores, moved, strict=True)], law.scale))
            for order in (1.0001, 2.0, 10.0):
                worst = max(worst, renyi(one, other, order) / order)
            assert np.abs(one - other).max() <= float(law.epsilon(4)) * (1 + 1e-9)
    assert worst <= float(law.rho(4)) * (1 + 1e-9)
    assert worst > 0.15 * float(law.rho(4))


def test_permute_and_flip_has_no_range_bound() -> None:
    """Why budgets in ρ buy the exponential mechanism: permute-and-flip can cost more than an eighth of ε²."""
    one, other = (np.log(permute_and_flip(scores, 40.0)) for scores in ([2, -2], [-2, 2]))
    assert renyi(one, other, 1.0001) > float(ExponentialChoice(40.0).rho(4))


@given(st.fractions(Fraction(1, 10**12), 10**4), st.integers(1, 9))
def test_scales_never_cost_more_than_asked_and_hardly_less(cost: Fraction, shift: int) -> None:
    gaussian = DiscreteGaussian(deviation_for(cost)).rho(1)
    choice = ExponentialChoice(choice_scale_for(cost, shift)).rho(shift)
    for spent in (gaussian, choice):
        assert cost * (1 - Fraction(1, 2**49)) < spent <= cost


@given(st.fractions(Fraction(1, 10**6), 10), st.sampled_from([1, 2]))
def test_a_table_costs_its_budget_in_either_accounting(budget: Fraction, moved: int) -> None:
    pure, concentrated = (kind.count_law(budget, moved) for kind in (Pure, Concentrated))
    assert budget * (1 - Fraction(1, 2**40)) < Spend("x", pure, touches=moved).cost <= budget
    assert budget * (1 - Fraction(1, 2**40)) < Spend("x", concentrated, touches=moved).rho <= budget
    for kind in (Pure, Concentrated):
        width = kind.width(float(budget))
        assert 2 * width**2 >= 0.99 * kind.count_law(budget).variance
        assert 2 * width**2 <= 1.2 * kind.count_law(budget).variance or width < 2


# --- from ρ to (ε, δ) -----------------------------------------------------------------------------------------------


def delta_at(rho: float, epsilon: float) -> float:
    """The conversion, by brute force over orders."""
    less = np.exp(np.linspace(-12, 25, 200_001))
    order = 1 + less
    return float(np.exp(np.min(less * (order * rho - epsilon) + order * np.log(less / order) - np.log(less))))


@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS)
def test_the_conversion_is_the_best_over_all_orders_and_never_beyond(epsilon: float, delta: float) -> None:
    rho = float(rho_for(epsilon, delta))
    assert delta_at(rho, epsilon) == pytest.approx(delta, rel=1e-6)
    assert rho > (math.sqrt(math.log(1 / delta) + epsilon) - math.sqrt(math.log(1 / delta))) ** 2  # the simple one


@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS)
def test_dp_accounting_agrees(epsilon: float, delta: float) -> None:
    """At the same order its accountant of Rényi divergences finds the same ε."""
    rho, order = float(rho_for(epsilon, delta)), zcdp._best_order(epsilon, delta)
    accountant = rdp.RdpAccountant([order])
    accountant.compose(ZCDpEvent(rho))
    assert accountant.get_epsilon(delta) == pytest.approx(epsilon, rel=1e-6)
    if 1.01 < order < 1e6:  # among many orders it finds none that is much better
        many = rdp.RdpAccountant(np.concatenate([np.linspace(1.01, 10, 500), np.geomspace(10, 1e4, 2000)]))
        many.compose(ZCDpEvent(rho))
        assert many.get_epsilon(delta) >= epsilon * (1 - 1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS[:4])
def test_the_claim_holds_for_gaussian_noise_itself_and_little_is_given_away(epsilon: float, delta: float) -> None:
    """The exact δ of one real Gaussian of this ρ (Balle and Wang 2018) is below the claim, by a factor of at most 8."""
    mu = math.sqrt(2 * float(rho_for(epsilon, delta)))
    up, down = stats.norm.logcdf(mu / 2 - epsilon / mu), stats.norm.logcdf(-mu / 2 - epsilon / mu)
    exact = math.exp(up) - math.exp(epsilon + down)
    assert delta / 8 < exact <= delta


def test_the_result_is_rounded_down() -> None:
    """With the same order and 300 digits it is smaller than the bound, by less than 1e-19 of it."""
    for epsilon, delta in [*CLAIMS, *itertools.product((2.0**-64, 2.0**40), (1e-300, 0.5))]:
        with localcontext(prec=300):
            a, log = Decimal(zcdp._best_order(epsilon, delta)), Decimal(delta).ln()
            bound = (Decimal(epsilon) + (log + (a - 1).ln() - a * (1 - 1 / a).ln()) / (a - 1)) / a
            gap = 1 - Decimal(rho_for(epsilon, delta).numerator) / rho_for(epsilon, delta).denominator / bound
            assert Decimal(0) < gap < Decimal("1e-19")


# --- the ledger -----------------------------------------------------------------------------------------------------


def test_a_ledger_in_rho_is_checked_against_the_claim() -> None:
    budget = Budget(1.0, delta=1e-9)
    assert budget.rho is not None
    right = Ledger([Spend("pairs", DiscreteGaussian(deviation_for(budget.rho / 2)), touches=2)])
    assert str(right.guarantee(budget)).startswith("ε = 1, δ = 1e-09 for one record")
    assert right.total == math.inf
    wrong = Ledger([*right, Spend("one more", DiscreteGaussian(1e6))])
    with pytest.raises(OverdrawnError, match=r"ρ = 0\.0149"):
        wrong.guarantee(budget)
    with pytest.raises(OverdrawnError, match="ε = inf"):
        right.guarantee(1.0)


def test_a_pure_ledger_keeps_a_claim_with_a_delta_and_laplace_noise_may_be_counted_in_rho() -> None:
    budget = Budget(1.0, delta=1e-9)
    Ledger([Spend("all", IntegerLaplace(1.0))]).check(budget)
    with pytest.raises(OverdrawnError, match=r"ε = 1\.00"):
        Ledger([Spend("all", IntegerLaplace(0.999))]).check(budget)
    many = Ledger([Spend("each", IntegerLaplace(100.0), touches=200)])  # ε = 2, but ρ = 0.01
    many.check(budget)
    with pytest.raises(OverdrawnError):
        many.check(1.0)


def test_of_people_each_record_gets_its_part() -> None:
    """Of ε the same part for all; of ρ one over the largest sum of squares."""
    alone, ten = Budget(1.0, delta=1e-9), Budget(1.0, delta=1e-9, records=10).of_record
    assert alone.rho is not None
    assert ten.rho == alone.rho / 100
    assert Budget(1.0, delta=1e-9, records=10, per_bucket=2).of_record.rho == alone.rho / 20
    pure = Ledger([Spend("all", IntegerLaplace(10.001))])  # ten of these cost less than ε, and far more than ρ
    pure.check(Budget(1.0, records=10).of_record)
    with pytest.raises(OverdrawnError):
        Ledger([Spend("all", IntegerLaplace(9.99))]).check(ten)
