"""The sum that shows what is spent: the `Ledger` of all draws that one record can move.

A ledger lists every kind of draw that one record can move: the law of its noise, how many such draws the record can
touch and by how much each of them moves. A draw of integer Laplace noise of scale ``σ`` whose centre moves by ``s``
changes any outcome's probability by a factor of at most ``exp(s/σ)``; the ledger adds up the exponents, in exact
rational arithmetic, so that the sum is a fact and not a rounding. With a δ it adds up ρ (`headwater.public.laws`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Real
from typing import Any

from headwater.public.laws import Cost, IntegerLaplace, Law, rho_for

RECORD, PERSON, IN_PERIODS = "record", "person", "person in any one period of "
"""Units: the last one is followed by the length of a period."""


OF_NOBODY = (
    "A line of a file whose person cannot be read belongs to nobody and uses up no cap; for a name in quotes that "
    "holds the delimiter, whether it can be read may depend on what other columns of the line hold."
)


@dataclass(frozen=True)
class Guarantee:
    """What is promised about all that one run ever publishes, taken together.

    >>> print(Guarantee(1.0))
    ε = 1 for one record (replace one record; how many records arrived is public)
    """

    epsilon: float  # the probability of any set of publications changes by a factor of at most e^ε …
    delta: float = 0.0  # … and by this much more
    unit: str = RECORD  # whose data is protected
    neighbours: str = "replace one record"  # how two inputs differ that cannot be distinguished
    records: int = 1  # of one unit that count: noise is so wide that together they cost no more

    @property
    def loss(self) -> str:
        return f"ε = {self.epsilon:g}" + (f", δ = {self.delta:g}" if self.delta else "")

    @property
    def whom(self) -> str:
        return f"for {one(self.unit, self.records)}"

    @property
    def promise(self) -> str:
        return f"{self.loss} {self.whom}"

    def __str__(self) -> str:
        return f"{self.promise} ({self.neighbours}; how many records arrived is public)"

    @property
    def meaning(self) -> str:
        """What it says, in a sentence or two, for those who read a page."""
        period = self.unit.removeprefix(IN_PERIODS) if self.unit.startswith(IN_PERIODS) else None
        where = f" in one period of {period}" if period else ""
        changed = "any one record of the stream is replaced by another"
        if self.unit != RECORD:
            changed = f"all records of any one person{where} are replaced by others, however many there are"
        but = f", but for a probability of δ = {self.delta:g}" if self.delta else ""
        return (
            f"Whatever is published, now and later, changes by a factor of at most e^ε in probability{but}, "
            f"if {changed}. ε is fixed for the whole run and does not grow with the number of releases."
            f"{self.of_nobody}"
        )

    @property
    def of_nobody(self) -> str:
        """Whose record a line is that names its person so that it cannot be read; nothing if records have no owners."""
        return "" if self.unit == RECORD else f" {OF_NOBODY}"

    @property
    def limits(self) -> str:
        if self.unit == RECORD:
            who, n = "This protects single records (event level): someone with k records in the stream has k·ε", "k"
        elif self.unit == PERSON:
            who, n = "This protects a person for the whole run. People who act alike are a group: g have g·ε", "g"
        else:
            who, n = "This protects what a person does in one period: over n periods it is n·ε", "n"
        who += f", and a δ of {n}·e^(({n}−1)·ε)·{self.delta:g}." if self.delta else "."
        return f"{who} How many records arrived, and when, is public."

    @staticmethod
    def from_dict(kept: Mapping[str, Any]) -> Guarantee:
        """The guarantee that a card states, or a `ValueError` if it is none of ours."""
        found = Guarantee.as_stated(kept)
        known = found.unit == RECORD or (
            str(found.unit).startswith(PERSON) and str(found.neighbours).startswith("replace all records of one")
        )
        stated = known and type(found.records) is int and found.records >= 1
        if not (stated and {**found.to_dict(), **kept}.items() >= found.to_dict().items()):
            raise ValueError("no guarantee is stated in these words")
        return found

    @staticmethod
    def as_stated(kept: Mapping[str, Any]) -> Guarantee:
        """What a card states, in whatever words: to be shown."""
        found = Guarantee(kept["epsilon"], kept.get("delta", 0.0))
        if (unit := kept.get("unit", RECORD)) == RECORD:
            return found
        return Guarantee(found.epsilon, found.delta, unit, kept["neighbours"], kept.get("records_per_person", 1))

    @property
    def record_epsilon(self) -> float:
        """What one record costs at most: ε divided by how many records of one unit count."""
        return record_epsilon(self.epsilon, self.records)

    def to_dict(self) -> dict[str, float | str]:
        plain: dict[str, float | str] = {"epsilon": self.epsilon, "delta": self.delta, "unit": self.unit}
        plain["neighbours"] = self.neighbours
        return plain if self.unit == RECORD else plain | {"records_per_person": self.records}


def one(unit: str, records: int) -> str:
    cap = "" if unit == RECORD else f", of whom at most {records:,} record{'s count' if records > 1 else ' counts'}"
    return f"one {unit}{cap}"


def record_epsilon(epsilon: float, records: int) -> float:
    each = epsilon / records
    while Fraction(each) * records > Fraction(epsilon):
        each = math.nextafter(each, 0)
    return each


@dataclass(frozen=True)
class Budget:
    """What may be spent on one unit in a whole run: what a mechanism is given, and plans divide."""

    epsilon: float
    delta: float = 0.0
    records: int = 1
    per_bucket: int | None = None
    whole: float | None = None

    @staticmethod
    def of(budget: Budget | float) -> Budget:
        return budget if isinstance(budget, Budget) else Budget(float(budget))

    def __str__(self) -> str:
        return self.guarantee.loss

    @property
    def rho(self) -> Fraction | None:
        if not self.delta:
            return None
        if self.whole is None:
            return rho_for(self.epsilon, self.delta)
        return rho_for(self.whole, self.delta) / (self.records * (self.per_bucket or self.records))

    @property
    def of_record(self) -> Budget:
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
        if self.records == 1:
            return ""
        cap = f", at most {self.per_bucket:,} in a bucket" if self.per_bucket else ""
        factor = self.records * (self.per_bucket or self.records) if gaussian else self.records
        return f"× {factor:,}: {self.records:,} records of one person{cap}"

    @property
    def one_currency(self) -> bool:
        return self.records > 1

    @property
    def epsilon_first(self) -> bool:
        return (self.per_bucket or self.records) >= self.records

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, self.delta, records=self.records)


def check_epsilon(epsilon: float) -> float:
    if isinstance(epsilon, bool) or not isinstance(epsilon, Real):
        raise TypeError(f"epsilon must be a number, not {type(epsilon).__name__}")
    if not 0 < epsilon < math.inf:  # so, because whole numbers may be too long for a float
        raise ValueError(f"epsilon must be positive and finite, not {epsilon!r}")
    if not 2.0**-64 <= epsilon <= 2.0**40:
        raise ValueError(f"epsilon must lie between 2^-64 and 2^40, not {epsilon!r}")
    return float(epsilon)


def check_delta(delta: float) -> float:
    if isinstance(delta, bool) or not isinstance(delta, Real):
        raise TypeError(f"delta must be a number, not {type(delta).__name__}")
    if delta and not 1e-300 <= delta <= 0.5:  # so, because NaN compares with nothing
        raise ValueError(f"delta must be 0, or lie between 1e-300 and 0.5 (usual: 1e-9), not {delta!r}")
    return float(delta)


class DeltaWarning(UserWarning):
    """A δ that is no longer small beside the number of records."""


def warn_of_delta(delta: float, records: int, stacklevel: int) -> None:
    if delta * records > 1:
        what = (  # the same words at all times, so that they are shown once
            f"δ = {delta:g} is above one over the number of records, from {1 / delta:,.0f} records on: it allows a "
            "program that publishes some of them as they are. Begin runs of this length with a smaller δ, such as 1e-9"
        )
        warnings.warn(what, DeltaWarning, stacklevel=stacklevel + 1)


class EpsilonWarning(UserWarning):
    """A budget that is allowed, and promises nearly nothing or leaves nearly nothing to be seen."""


LARGE, SMALL = 10.0, 0.01  # budgets beyond these are warned of


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
        return self.law.scale

    @property
    def cost(self) -> Cost:
        return self.touches * self.law.epsilon(self.shift)

    @property
    def rho(self) -> Fraction:
        return self.touches * self.law.rho(self.shift)


class Ledger(tuple[Spend, ...]):
    """All the kinds of draws that one record can move; of a whole run with its budget, whose promise is printed too.

    >>> ledger = Ledger([Spend("count", IntegerLaplace(4.0)), Spend("check", IntegerLaplace(2.0))])
    >>> ledger.total
    Fraction(3, 4)
    >>> print(ledger)
    count   1 draw(s) of scale 4, shift 1    ε = 0.25
    check   1 draw(s) of scale 2, shift 1    ε = 0.5
    total                                    ε = 0.75
    >>> print(Ledger([Spend("count", IntegerLaplace(10.0), touches=2)], Budget(1.0, records=5)))
    count     2 draw(s) of scale 10, shift 1    ε = 0.2
    total                                       ε = 0.2
    promise   × 5: 5 records of one person      ε = 1
    """

    budget: Budget | None

    def __new__(cls, spends: Iterable[Spend] = (), budget: Budget | None = None) -> Ledger:
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
        """Refuse draws that cost more than a budget: in ε, and if it has a δ, in ρ as well."""
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
