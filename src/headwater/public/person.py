"""What is declared about people: the column that names them, and how many records of each of them count."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from headwater.public.budget import IN_PERIODS, PERSON, one

UNITS = {"us": 1, "ms": 10**3, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
"""Units of time, in microseconds."""

_TEXT = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*(us|ms|s|min|h|d)\s*", re.ASCII)


def microseconds(text: str) -> Fraction | None:
    match = _TEXT.fullmatch(text)
    length = Fraction(match[1]) * UNITS[match[2]] if match else Fraction(0)
    return length if length > 0 else None


REFUSE, OWN, NOWHERE = NULL_POLICIES = ("refuse", "own", "nowhere")
"""What happens to a record that names no person."""
MOST_RECORDS = 1 << 20


@dataclass(frozen=True)
class Person:
    """The unit of privacy is a person: ε protects all records of one person together.

    The column is read beside those of the schema and is never in a release. Only a keyed hash of it is kept, in the
    state. Of each person the first ``records`` records count; later ones are counted in ``t``
    and otherwise ignored. All of it is public but for who the people are.

    Parameters
    ----------
    column
        The column that names the person, by text or by a whole number. It must not be in the schema. Whoever is written
        in two ways (``ann`` and ``Ann``, ``7`` and ``007``) is two people, with a cap each; ``7``, ``7.0`` and
        ``7E0`` are one.
    records
        How many records of a person count, for the whole run or in each period: noise grows with it
        (`headwater.suggest_records_per_person`).
    per
        Count anew in each period: after so many arrivals (a whole number), or after so much time by the clock of the
        machine (``"1d"``). Then ε protects what one person does in one period, and nothing longer.
    null
        What happens to a record that names nobody: ``"refuse"`` (it is a bad row), ``"own"`` (it belongs to a person
        who has no other record) or ``"nowhere"`` (it is a null record).
    per_bucket
        Of those, how many count in one bucket of time of the mechanism. Lowers noise with ``delta > 0`` only.

    Examples
    --------
    >>> print(Person("user_id", records=20))
    one person, of whom at most 20 records count
    >>> print(Person("user_id", records=5, per="1d"))
    one person in any one period of 1d, of whom at most 5 records count
    """

    column: str
    records: int = field(kw_only=True)
    per: int | str | None = field(default=None, kw_only=True)
    null: str = field(default=REFUSE, kw_only=True)
    per_bucket: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        column: object = self.column
        if not isinstance(column, str) or not column:
            raise ValueError('a person is named by a column: write such as Person("user_id", records=20)')
        for name in ("records", "per_bucket"):
            number = getattr(self, name)
            if name == "per_bucket" and number is None:
                continue
            if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST_RECORDS:
                raise ValueError(f"{name} must be a whole number from 1 to {MOST_RECORDS:,}, not {number!r}")
        if self.null not in NULL_POLICIES:
            raise ValueError(f"null must be one of {', '.join(NULL_POLICIES)}, not {self.null!r}")
        per: object = self.per
        if isinstance(per, str) and per.strip().replace("_", "").isdigit():
            object.__setattr__(self, "per", int(per.strip().replace("_", "")))
        whole = isinstance(self.per, int) and not isinstance(self.per, bool) and self.per >= 1
        if not (self.per is None or whole or self.seconds):
            raise ValueError(
                f"per must be a number of arrivals or a length of time such as '1h' or '1d', not {self.per!r}"
            )
        if self.per_bucket is not None and self.per_bucket > self.records:
            raise ValueError(f"per_bucket ({self.per_bucket}) must not be above records ({self.records})")

    @cached_property
    def seconds(self) -> float | None:
        """The length of a period by the clock; None if periods do not go by it."""
        length = microseconds(self.per) if isinstance(self.per, str) else None
        return float(length / 10**6) if length else None

    @property
    def arrivals(self) -> int | None:
        """The length of a period in arrivals; None if periods do not go by them."""
        return self.per if isinstance(self.per, int) else None

    @property
    def unit(self) -> str:
        """The unit of privacy, in words."""
        if self.per is None:
            return PERSON
        return f"{IN_PERIODS}{self.per if self.seconds else f'{self.per:,} arrivals'}"

    @property
    def neighbours(self) -> str:
        """How two neighbouring inputs differ, in words."""
        within = " in one period" if self.per is not None else ""
        bucket = f"; at most {self.per_bucket:,} of them count in one bucket of time" if self.per_bucket else ""
        return f"replace all records of one person{within}{bucket}"

    def __str__(self) -> str:
        return one(self.unit, self.records)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(kept: Mapping[str, Any]) -> Person:
        unknown = sorted(set(kept) - {"column", "records", "per", "null", "per_bucket"})
        if unknown:
            raise ValueError(
                f"{unknown[0]} is not a setting of a person; there are column, records, per, null, per_bucket"
            )
        rest = dict(kept)
        if "column" not in rest or "records" not in rest:
            raise ValueError(
                'a person needs a column and a number of records, such as { column = "user_id", records = 20 }'
            )
        return Person(rest.pop("column"), **rest)
