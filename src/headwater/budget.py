"""What may be spent: a budget, what values of ε and δ are taken, and of which users are warned."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Real

from headwater.guarantee import Guarantee, record_epsilon
from headwater.zcdp import rho_for


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
