"""The sum that shows what is spent: the `Ledger` of all draws that one record can move.

A ledger lists every kind of draw that one record can move: the law of its noise, how many such draws the record can
touch and by how much each of them moves. A draw of integer Laplace noise of scale ``σ`` whose centre moves by ``s``
changes any outcome's probability by a factor of at most ``exp(s/σ)``; the ledger adds up the exponents, in exact
rational arithmetic, so that the sum is a fact and not a rounding. With a δ it adds up ρ instead (`headwater.zcdp`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from headwater.budget import Budget as Budget
from headwater.budget import DeltaWarning as DeltaWarning
from headwater.budget import EpsilonWarning as EpsilonWarning
from headwater.budget import check_delta as check_delta
from headwater.budget import check_epsilon as check_epsilon
from headwater.budget import warn_of_delta as warn_of_delta
from headwater.budget import warn_of_epsilon as warn_of_epsilon
from headwater.guarantee import Guarantee as Guarantee
from headwater.guarantee import record_epsilon as record_epsilon
from headwater.laws import Cost, Law
from headwater.laws import DiscreteGaussian as DiscreteGaussian
from headwater.laws import IntegerLaplace as IntegerLaplace
from headwater.laws import scale_for as scale_for


class OverdrawnError(ValueError):
    """A ledger that adds up to more than the ε it was to stay within: nothing may be measured under it."""


@dataclass(frozen=True)
class Spend:
    """One kind of draw: a record moves ``touches`` of them, each by at most ``shift``, under a law."""

    what: str
    law: Law
    touches: int = 1
    shift: int = 1

    @property
    def scale(self) -> float:
        """The scale of the law."""
        return self.law.scale

    @property
    def cost(self) -> Cost:
        """The ε that this kind of draw costs a record, exactly; infinite for Gaussian noise."""
        return self.touches * self.law.epsilon(self.shift)

    @property
    def rho(self) -> Fraction:
        """The ρ that this kind of draw costs a record, exactly."""
        return self.touches * self.law.rho(self.shift)


class Ledger(tuple[Spend, ...]):
    """All the kinds of draws that one record can move.

    Parameters
    ----------
    budget
        Of a whole run, if its promise is to be printed below the total.

    Examples
    --------
    >>> ledger = Ledger([Spend("count", IntegerLaplace(4.0)), Spend("check", IntegerLaplace(2.0))])
    >>> ledger.total
    Fraction(3, 4)
    >>> print(ledger)
    count   1 draw(s) of scale 4, shift 1    ε = 0.25
    check   1 draw(s) of scale 2, shift 1    ε = 0.5
    total                                    ε = 0.75
    >>> print(Ledger([Spend("count", DiscreteGaussian(10.0), touches=2)]))
    count   2 draw(s) of scale 10, shift 1    ρ = 0.01
    total                                     ρ = 0.01
    >>> print(Ledger([Spend("count", IntegerLaplace(10.0), touches=2)], Budget(1.0, records=5)))
    count     2 draw(s) of scale 10, shift 1    ε = 0.2
    total                                       ε = 0.2
    promise   × 5: 5 records of one person      ε = 1
    """

    budget: Budget | None

    def __new__(cls, spends: Iterable[Spend] = (), budget: Budget | None = None) -> Ledger:
        """A ledger of these spends."""
        made = super().__new__(cls, spends)
        made.budget = budget
        return made

    @property
    def total(self) -> Cost:
        """The ε that the draws together cost a record, exactly; infinite with Gaussian noise."""
        return sum((spend.cost for spend in self), Fraction(0))

    @property
    def rho(self) -> Fraction:
        """The ρ that the draws together cost, exactly."""
        return sum((spend.rho for spend in self), Fraction(0))

    @property
    def laws(self) -> str:
        """The names of the laws of its draws; before the first draw, of the law that needs no δ."""
        return " and ".join(dict.fromkeys(spend.law.name for spend in self)) or IntegerLaplace.name

    def check(self, budget: Budget | float) -> None:
        """Refuse draws that cost more than a budget: in ε, and if it has a δ, in ρ as well.

        Raises
        ------
        OverdrawnError
            The draws cost more.
        """
        budget = Budget.of(budget)
        if self.total <= Fraction(budget.epsilon) or (budget.rho is not None and self.rho <= budget.rho):
            return
        if budget.rho is None or self.total < math.inf:
            raise OverdrawnError(
                f"the draws cost ε = {float(self.total):.9g}, but only {budget.epsilon:.9g} was declared"
            )
        raise OverdrawnError(
            f"the draws cost ρ = {float(self.rho):.9g}, but ε = {budget.epsilon:.9g} and δ = {budget.delta:.9g} "
            f"allow only {float(budget.rho):.9g}"
        )

    def guarantee(self, budget: Budget | float) -> Guarantee:
        """The promise that these draws keep, if they cost no more than the budget."""
        self.check(budget)
        return Budget.of(budget).guarantee

    def __str__(self) -> str:
        names = [*(spend.what for spend in self), "total"]
        draws = [*(f"{s.touches} draw(s) of scale {s.scale:.6g}, shift {s.shift}" for s in self), ""]
        pure = self.total < math.inf
        costs = [float(cost) for cost in ((s.cost if pure else s.rho) for s in self)]
        costs.append(float(self.total if pure else self.rho))
        found = [f"{'ε' if pure else 'ρ'} = {cost:.6g}" for cost in costs]
        if self.budget and (self.budget.records > 1 or not pure):
            names.append("promise")
            draws.append(self.budget.times(gaussian=not pure))
            found.append(self.budget.guarantee.loss)
        first, second = (max(map(len, column)) for column in (names, draws))
        rows = zip(names, draws, found, strict=True)
        return "\n".join(f"{name:{first}}   {draw:{second}}    {cost}" for name, draw, cost in rows)
