"""What may be spent, and the sum that shows what is: `Budget`, and the `Ledger` of all draws that one record can move.

A ledger lists every kind of draw that one record can move: the law of its noise, how many such draws the record can
touch and by how much each of them moves. A draw of integer Laplace noise of scale ``σ`` whose centre moves by ``s``
changes any outcome's probability by a factor of at most ``exp(s/σ)``; the ledger adds up the exponents, in exact
rational arithmetic, so that the sum is a fact and not a rounding. With a δ it adds up ρ instead (`headwater.zcdp`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Real

from headwater.guarantee import Guarantee as Guarantee
from headwater.guarantee import record_epsilon as record_epsilon
from headwater.laws import Cost, Law
from headwater.laws import DiscreteGaussian as DiscreteGaussian
from headwater.laws import IntegerLaplace as IntegerLaplace
from headwater.laws import scale_for as scale_for
from headwater.zcdp import rho_for


class OverdrawnError(ValueError):
    """A ledger that adds up to more than the ε it was to stay within: nothing may be measured under it."""


@dataclass(frozen=True)
class Budget:
    """What may be spent on one unit in a whole run: what a mechanism is given, and plans divide.

    Parameters
    ----------
    epsilon
        The privacy budget.
    delta
        By how much probabilities may differ beyond the factor of ε. 0: pure differential privacy.
    records
        How many records one unit may have; more than one if the unit is a person.
    per_bucket
        How many of them may lie in one bucket; as many as there may be at all unless given.
    whole
        If this is what one record may cost: the ε of its unit.

    Examples
    --------
    >>> Budget(1.0).rho is None, round(float(Budget(1.0, delta=1e-9).rho), 6)
    (True, 0.014973)
    """

    epsilon: float
    delta: float = 0.0
    records: int = 1
    per_bucket: int | None = None
    whole: float | None = None

    @staticmethod
    def of(budget: Budget | float) -> Budget:
        """A bare number is a budget of so much pure ε for one record."""
        return budget if isinstance(budget, Budget) else Budget(float(budget))

    def __str__(self) -> str:
        return self.guarantee.loss

    @property
    def rho(self) -> Fraction | None:
        """The ρ of zero-concentrated differential privacy that keeps ``epsilon`` and ``delta``; None without a δ.

        Of one record it is the part that keeps them for its unit: ``n`` records in a bucket cost ``n²`` times as much
        as one, and the squares sum to at most ``records · per_bucket`` (`proofs/people.md`).
        """
        if not self.delta:
            return None
        if self.whole is None:
            return rho_for(self.epsilon, self.delta)
        return rho_for(self.whole, self.delta) / (self.records * (self.per_bucket or self.records))

    @property
    def of_record(self) -> Budget:
        """What one record may cost, so that all records of a unit cost no more than this: for mechanisms."""
        if self.records == 1:
            return self
        return replace(self, epsilon=record_epsilon(self.epsilon, self.records), whole=self.epsilon)

    def heading(self, *, gaussian: bool) -> str:
        """What one record may cost, and what that means for noise if a unit has several: the first words of a plan."""
        if self.whole is None:
            most = "ε, and δ" if self.delta else "ε"
            return f"{self}: replacing one record costs at most {most}, for ever"
        times = math.sqrt(self.records * (self.per_bucket or self.records)) if gaussian else self.records
        each = f"ρ = {float(self.rho or 0):.4g}" if gaussian else f"ε = {self.epsilon:.4g}"
        return (
            f"{replace(self, epsilon=self.whole)} for {self.records:,} records of one person: each may cost {each}, "
            f"so noise has {times:,.4g} times the scale that one record needs"
        )

    def times(self, *, gaussian: bool) -> str:
        """By what the cost of one record is multiplied if a unit has several, in words; nothing if it has one."""
        if self.records == 1:
            return ""
        cap = f", at most {self.per_bucket:,} in a bucket" if self.per_bucket else ""
        factor = self.records * (self.per_bucket or self.records) if gaussian else self.records
        return f"× {factor:,}: {self.records:,} records of one person{cap}"

    @property
    def one_currency(self) -> bool:
        """Whether the records of one unit may lie in several stages, so that ε and ρ may have to be added."""
        return self.records > 1

    @property
    def epsilon_first(self) -> bool:
        """Whether stages counted in ε may come before stages counted in ρ: not with a cap for buckets.

        Without one, ``n`` of ``k`` records cost at most ``n²/k²`` of ρ, for which ``n/k`` of ε is enough: as much as is
        left after the others were counted in ε (`proofs/gaussian.md`, step 5).
        """
        return (self.per_bucket or self.records) >= self.records

    @property
    def guarantee(self) -> Guarantee:
        """What is promised if no more than this is spent."""
        return Guarantee(self.epsilon, self.delta, records=self.records)


@dataclass(frozen=True)
class Spend:
    """One kind of draw: a record moves ``touches`` of them, each by at most ``shift``, under a law."""

    what: str
    law: Law
    touches: int = 1
    shift: int = 1

    @property
    def scale(self) -> float:
        """Of the law."""
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
    spends
        The kinds of draws.
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

        Parameters
        ----------
        budget
            What was declared.

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
        """The promise that these draws keep, if they cost no more than the budget.

        Parameters
        ----------
        budget
            What was declared.
        """
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


def check_epsilon(epsilon: float) -> float:
    """The budget as a float, refused unless it is a positive finite number."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, Real):
        raise TypeError(f"epsilon must be a number, not {type(epsilon).__name__}")
    if not 0 < epsilon < math.inf:  # so, because whole numbers may be too long for a float
        raise ValueError(f"epsilon must be positive and finite, not {epsilon!r}")
    if not 2.0**-64 <= epsilon <= 2.0**40:
        raise ValueError(f"epsilon must lie between 2^-64 and 2^40, not {epsilon!r}")
    return float(epsilon)


def check_delta(delta: float) -> float:
    """The δ as a float, refused unless it is 0 or a probability that can be kept."""
    if isinstance(delta, bool) or not isinstance(delta, Real):
        raise TypeError(f"delta must be a number, not {type(delta).__name__}")
    if delta and not 1e-300 <= delta <= 0.5:  # so, because NaN compares with nothing
        raise ValueError(f"delta must be 0, or lie between 1e-300 and 0.5 (usual: 1e-9), not {delta!r}")
    return float(delta)


class DeltaWarning(UserWarning):
    """A δ that is no longer small beside the number of records."""


def warn_of_delta(delta: float, records: int, stacklevel: int) -> None:
    """Warn if δ is above one over the number of records, and say what it means."""
    if delta * records > 1:
        what = (  # the same words at all times, so that they are shown once
            f"δ = {delta:g} is above one over the number of records, from {1 / delta:,.0f} records on: it allows a "
            "program that publishes some of them as they are. Begin runs of this length with a smaller δ, such as 1e-9"
        )
        warnings.warn(what, DeltaWarning, stacklevel=stacklevel + 1)


class EpsilonWarning(UserWarning):
    """A budget that is allowed, and promises nearly nothing or leaves nearly nothing to be seen."""


LARGE, SMALL = 10.0, 0.01
"""Budgets beyond these are warned of."""


def warn_of_epsilon(epsilon: float, stacklevel: int) -> None:
    """Warn of a budget above 10 or below 0.01, and say what it means."""
    what = ""
    if epsilon > LARGE:
        what = (
            f"ε = {epsilon:g} promises little: what is published may be e^{epsilon:g} times as likely with somebody's "
            "record as with another in its place. Most uses take ε between 0.1 and 10"
        )
    elif epsilon < SMALL:
        what = (
            f"ε = {epsilon:g} hides nearly everything: every count gets noise of {1 / epsilon:,.0f} records or more, "
            "so only streams that are many times longer are seen at all. Most uses take ε between 0.1 and 10"
        )
    if what:
        warnings.warn(what, EpsilonWarning, stacklevel=stacklevel + 1)
