"""What is promised, as a value, and in words: the same ones on cards, reports, pages and in terminals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

RECORD, PERSON, IN_PERIODS = "record", "person", "person in any one period of "
"""Units: the last one is followed by the length of a period."""


@dataclass(frozen=True)
class Guarantee:
    """What is promised about all that one run ever publishes, taken together.

    Parameters
    ----------
    epsilon
        The probability of any set of publications changes by a factor of at most ``exp(epsilon)`` …
    delta
        … and by this much more. 0: no more.
    unit
        Whose data is protected.
    neighbours
        How two inputs differ that cannot be distinguished.
    records
        How many records of one unit count: noise is so wide that together they cost no more.

    Examples
    --------
    >>> print(Guarantee(1.0))
    ε = 1 for one record (replace one record; how many records arrived is public)
    >>> print(Guarantee(1.0, 1e-9, "person", "replace all records of one person", 20).promise)
    ε = 1, δ = 1e-09 for one person, of whom at most 20 records count
    """

    epsilon: float
    delta: float = 0.0
    unit: str = RECORD
    neighbours: str = "replace one record"
    records: int = 1

    @property
    def loss(self) -> str:
        """ε and δ."""
        return f"ε = {self.epsilon:g}" + (f", δ = {self.delta:g}" if self.delta else "")

    @property
    def whom(self) -> str:
        """Who is protected with them."""
        return f"for {one(self.unit, self.records)}"

    @property
    def promise(self) -> str:
        """Both: the shortest form in which a guarantee is stated."""
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
        )

    @property
    def limits(self) -> str:
        """What it does not say."""
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
        if not known or type(found.records) is not int or found.records < 1:
            raise ValueError("no guarantee is stated in these words")
        if not {**found.to_dict(), **kept}.items() >= found.to_dict().items():
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
        """The guarantee as plain values, as cards have it."""
        plain: dict[str, float | str] = {"epsilon": self.epsilon, "delta": self.delta, "unit": self.unit}
        plain["neighbours"] = self.neighbours
        return plain if self.unit == RECORD else plain | {"records_per_person": self.records}


def one(unit: str, records: int) -> str:
    """One unit in words, with the cap on its records.

    >>> one("record", 1), one("person", 20)
    ('one record', 'one person, of whom at most 20 records count')
    """
    cap = "" if unit == RECORD else f", of whom at most {records:,} record{'s count' if records > 1 else ' counts'}"
    return f"one {unit}{cap}"


def record_epsilon(epsilon: float, records: int) -> float:
    """The largest float of which ``records`` together cost no more than ``epsilon``, exactly.

    >>> record_epsilon(1.0, 1), 3 * Fraction(record_epsilon(1.0, 3)) <= 1
    (1.0, True)
    """
    each = epsilon / records
    while Fraction(each) * records > Fraction(epsilon):
        each = math.nextafter(each, 0)
    return each
