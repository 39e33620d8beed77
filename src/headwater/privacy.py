"""What is promised, and the sum that shows it: `Guarantee`, and the `Ledger` of all draws that one record can move.

A ledger lists every kind of draw that one record can move: the scale of its noise, how many such draws the record
can touch and by how much each of them moves. A draw of integer Laplace noise of scale ``σ`` whose centre moves by
``s`` changes any outcome's probability by a factor of at most ``exp(s/σ)``; the ledger adds up the exponents, in
exact rational arithmetic, so that the sum is a fact and not a rounding.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any


class OverdrawnError(ValueError):
    """A ledger that adds up to more than the ε it was to stay within: nothing may be measured under it."""


@dataclass(frozen=True)
class Guarantee:
    """What is promised about all that one run ever publishes, taken together.

    Parameters
    ----------
    epsilon
        The probability of any set of publications changes by a factor of at most ``exp(epsilon)`` …
    delta
        … except with this probability. 0: no exception.
    unit
        Whose data is protected.
    neighbours
        How two inputs differ that cannot be told apart.
    records
        How many records of one unit count: noise is so wide that together they cost no more.

    Examples
    --------
    >>> print(Guarantee(1.0))
    ε = 1 for one record (replace one record; how many records arrived is public)
    """

    epsilon: float
    delta: float = 0.0
    unit: str = "record"
    neighbours: str = "replace one record"
    records: int = 1

    def __str__(self) -> str:
        delta = f", δ = {self.delta:g}" if self.delta else ""
        return (
            f"ε = {self.epsilon:g}{delta} for one {self.unit} ({self.neighbours}; how many records arrived is public)"
        )

    @staticmethod
    def from_dict(kept: Mapping[str, Any]) -> Guarantee:
        """The guarantee that a card states, or a `ValueError` if it is none of ours."""
        unit, records = kept.get("unit", "record"), kept.get("records_per_person", 1)
        found = Guarantee(kept["epsilon"], kept.get("delta", 0.0))
        if unit != "record":
            found = Guarantee(found.epsilon, found.delta, unit, kept["neighbours"], records)
            known = str(unit).startswith("person") and str(found.neighbours).startswith("replace all records of one")
            if not known or type(records) is not int or records < 1:
                raise ValueError("no guarantee is stated in these words")
        if not {**found.to_dict(), **kept}.items() >= found.to_dict().items():
            raise ValueError("no guarantee is stated in these words")
        return found

    @property
    def record_epsilon(self) -> float:
        """What one record costs at most: ε divided by how many records of one unit count."""
        return record_epsilon(self.epsilon, self.records)

    def to_dict(self) -> dict[str, float | str]:
        """The guarantee as plain values, as cards have it."""
        plain: dict[str, float | str] = {"epsilon": self.epsilon, "delta": self.delta, "unit": self.unit}
        plain["neighbours"] = self.neighbours
        return plain if self.unit == "record" else plain | {"records_per_person": self.records}


@dataclass(frozen=True)
class IntegerLaplace:
    """The law of the noise in a count: ``P(z) ∝ exp(−|z|/scale)`` on the integers.

    Parameters
    ----------
    scale
        How wide it is.

    Examples
    --------
    >>> round(IntegerLaplace(2.0).variance, 3)
    7.835
    """

    scale: float

    @property
    def variance(self) -> float:
        """Its variance, ``2q/(1−q)²`` with ``q = exp(−1/scale)``."""
        return 2 * math.exp(-1 / self.scale) / math.expm1(-1 / self.scale) ** 2

    @property
    def deviation(self) -> float:
        """A close upper bound of its standard deviation: that of real Laplace noise of the same scale."""
        return math.sqrt(2) * self.scale


@dataclass(frozen=True)
class Spend:
    """One kind of draw: a record moves ``touches`` of them, each by at most ``shift``, under noise of ``scale``."""

    what: str
    scale: float
    touches: int = 1
    shift: int = 1

    @property
    def cost(self) -> Fraction:
        """The ε that this kind of draw costs a record, exactly."""
        return self.touches * self.shift / Fraction(self.scale)


class Ledger(tuple[Spend, ...]):
    """All the kinds of draws that one record can move.

    Examples
    --------
    >>> ledger = Ledger([Spend("count", scale=4.0), Spend("check", scale=2.0)])
    >>> ledger.total
    Fraction(3, 4)
    >>> print(ledger)
    count   1 draw(s) of scale 4, shift 1    ε = 0.25
    check   1 draw(s) of scale 2, shift 1    ε = 0.5
    total                                    ε = 0.75
    """

    __slots__ = ()

    def __new__(cls, spends: Iterable[Spend] = ()) -> Ledger:
        """A ledger of these spends."""
        return super().__new__(cls, spends)

    @property
    def total(self) -> Fraction:
        """What one record can lose in all: the ε that the draws together cost, exactly."""
        return sum((spend.cost for spend in self), Fraction(0))

    def guarantee(self, epsilon: float) -> Guarantee:
        """The promise that these draws keep: ``epsilon`` for one replaced record, if they cost no more than that.

        Parameters
        ----------
        epsilon
            The budget that was declared.

        Raises
        ------
        OverdrawnError
            The draws cost more.
        """
        if self.total > Fraction(epsilon):
            raise OverdrawnError(f"the draws cost ε = {float(self.total):.9g}, but only {epsilon:.9g} was declared")
        return Guarantee(epsilon)

    def __str__(self) -> str:
        names = [*(spend.what for spend in self), "total"]
        draws = [*(f"{s.touches} draw(s) of scale {s.scale:.6g}, shift {s.shift}" for s in self), ""]
        costs = [*(float(spend.cost) for spend in self), float(self.total)]
        first, second = (max(map(len, column)) for column in (names, draws))
        rows = zip(names, draws, costs, strict=True)
        return "\n".join(f"{name:{first}}   {draw:{second}}    ε = {cost:.6g}" for name, draw, cost in rows)


def check_epsilon(epsilon: float) -> float:
    """The budget as a float, refused unless it is a positive finite number."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, Real):
        raise TypeError(f"epsilon must be a number, not {type(epsilon).__name__}")
    if not 0 < epsilon < math.inf:  # so, because whole numbers may be too long for a float
        raise ValueError(f"epsilon must be positive and finite, not {epsilon!r}")
    if not 2.0**-64 <= epsilon <= 2.0**40:
        raise ValueError(f"epsilon must lie between 2^-64 and 2^40, not {epsilon!r}")
    return float(epsilon)


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


def record_epsilon(epsilon: float, records: int) -> float:
    """The largest float of which ``records`` together cost no more than ``epsilon``, exactly.

    >>> record_epsilon(1.0, 1), 3 * Fraction(record_epsilon(1.0, 3)) <= 1
    (1.0, True)
    """
    each = epsilon / records
    while Fraction(each) * records > Fraction(epsilon):
        each = math.nextafter(each, 0)
    return each


def scale_for(cost: float | Fraction) -> float:
    """A noise scale, as small as a float can be, whose exact cost for a shift of one is at most ``cost``.

    >>> Spend("count", scale_for(Fraction(1, 3))).cost <= Fraction(1, 3)
    True
    """
    scale = float(1 / cost)
    while Fraction(scale) * Fraction(cost) < 1:
        scale = math.nextafter(scale, math.inf)
    return scale
