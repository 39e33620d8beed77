"""What encoding did to values: how many were clipped, unlisted or missing, and how many rows were bad.

Computed from records without noise, so as secret as they are: it is for the operator, who sees by it that a bound is
wrong. It is kept in states, and never in a release or on a card.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.public.errors import TableError, quoted

MUCH_BAD, MUCH_CUT, ALMOST_ALL = 0.1, 0.25, 0.99
"""Shares from which on the operator is warned: of bad rows, of values clipped or unlisted, of values missing."""

_LEAST = 10
"""Records of which shares say something."""

_REMEDIES = {
    "clipped": (
        MUCH_CUT,
        "lie beyond its bounds and count as the bound: declare wider ones if they are known without the data, or "
        "null_values if such numbers mean that there is none",
    ),
    "unlisted": (
        MUCH_CUT,
        "are none of the listed ones and count as other: list more of them, as far as they are known without the data",
    ),
    "missing": (
        ALMOST_ALL,
        "are missing, so nothing can be learned: check its name and null_values, or leave it out",
    ),
}

KINDS = ("clipped", "unlisted", "missing", "bad")
"""Beyond a declared bound; none of the listed values, so taken for ``other=``; not there; why its row was bad."""


@dataclass
class Tally:
    """Counts of what was read. Not private.

    Parameters
    ----------
    records
        How many records were read, bad ones too.
    bad
        How many of them were no records of the schema.
    columns
        For columns in which something was clipped, unlisted, missing or bad: how many values, by kind.
    first_bad
        What was wrong with the first of the bad rows.
    capped
        How many records did not count, because their person had enough that did.
    """

    records: int = 0
    bad: int = 0
    columns: dict[str, dict[str, int]] = field(default_factory=dict)
    first_bad: str = ""
    capped: int = 0

    def add(self, column: str, kind: str, count: int) -> None:
        """Count values of a column."""
        if count:
            of_column = self.columns.setdefault(column, {})
            of_column[kind] = of_column.get(kind, 0) + int(count)

    def add_bad(self, errors: Iterable[TableError]) -> Tally:
        """Count bad rows, by what is wrong with each; the tally itself."""
        for error in errors:
            self.bad += 1
            self.first_bad = self.first_bad or str(error.without_row())
            if error.column is not None:
                self.add(error.column, "bad", 1)
        return self

    def __add__(self, other: Tally) -> Tally:
        both = Tally(self.records + other.records, self.bad + other.bad, capped=self.capped + other.capped)
        both.first_bad = self.first_bad or other.first_bad
        for tally in (self, other):
            for column, counts in tally.columns.items():
                for kind, count in counts.items():
                    both.add(column, kind, count)
        return both

    def with_capped(self, capped: int, records: int) -> Tally:
        """With records that did not count, of so many in all."""
        return replace(self, capped=capped, records=max(self.records, records)) if capped else self

    def to_dict(self) -> dict[str, Any]:
        """As JSON, the way states keep it."""
        plain = {"records": self.records, "bad": self.bad, "columns": self.columns}
        plain |= {"first_bad": self.first_bad} if self.first_bad else {}
        return plain | ({"capped": self.capped} if self.capped else {})

    @staticmethod
    def from_dict(kept: Any) -> Tally:  # noqa: ANN401 - whatever a state holds
        """What `to_dict` gave; of anything else nothing is known."""
        if not isinstance(kept, Mapping) or not isinstance(kept.get("columns"), Mapping):
            return Tally()
        found = Tally(int(kept.get("records", 0)), int(kept.get("bad", 0)), capped=int(kept.get("capped", 0)))
        found.first_bad = str(kept.get("first_bad", ""))
        return found + Tally(columns={str(name): dict(counts) for name, counts in kept["columns"].items()})

    def warnings(self) -> Iterator[str]:
        """What a person must not overlook, one sentence each: rows or values of which much is lost, and what to do."""
        if self.records < _LEAST:
            return
        if self.bad > MUCH_BAD * self.records:
            worst = max(self.columns, key=lambda column: self.columns[column].get("bad", 0), default="")
            where = f", most of them in column {quoted(worst)}" if self.columns.get(worst, {}).get("bad") else ""
            yield (
                f"{_percent(self.bad, self.records)} of the rows are bad{where}: they count as records of which "
                "nothing is known. See what is wrong with the first one, and correct the schema or the files"
            )
        for column, counts in self.columns.items():
            for kind, (much, remedy) in _REMEDIES.items():
                if counts.get(kind, 0) > much * self.records:
                    yield f"column {quoted(column)}: {_percent(counts[kind], self.records)} of its values {remedy}"

    def lines(self) -> Iterator[str]:
        """In words, one line for each column in which something was clipped, unlisted, missing or bad."""
        if self.bad:
            yield f"{self.bad:,} of {self.records:,} rows were bad ({_percent(self.bad, self.records)})"
        if self.first_bad:
            yield f"the first bad one: {self.first_bad}"
        if self.capped:
            share = _percent(self.capped, self.records)
            yield f"{self.capped:,} of {self.records:,} records were beyond the cap of their person ({share})"
        for column, counts in self.columns.items():
            said = [f"{counts[k]:,} {k} ({_percent(counts[k], self.records)})" for k in KINDS if counts.get(k)]
            yield f"{column}: {', '.join(said)}"


def _percent(part: int, whole: int) -> str:
    share = 100 * part / max(whole, 1)
    return f"{share:.0f}%" if share >= 1 else "under 1%"
