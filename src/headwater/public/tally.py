"""Invalid rows and what happens to them; and what encoding did to the values of all others.

Computed from records without noise, so as secret as they are: it is for the operator, who sees by it that a bound is
wrong. It is kept in states, and never in a release or on a card.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.errors import TableError, failures, quoted
from headwater.public.partition import Flags, Points
from headwater.public.tables import Values, frame_of, kind_of, record_of

POLICIES = ("stop", "null", "quarantine")
"""``stop``: the batch is refused. ``null``: the record is counted in t and otherwise ignored. ``quarantine``: the same,
and its text goes to a file next to the state that is as secret as the data."""

WAY_OUT = "or go on without such rows: --bad-rows null or quarantine (bad_rows=)"

MUCH_BAD, MUCH_CUT, SOME, ALMOST_ALL = 0.1, 0.25, 0.01, 0.99
"""Shares from which on the operator is warned: of bad rows, of values clipped or unlisted, rounded, missing."""

_LEAST = 10
"""Records of which shares say something."""

_REMEDIES = {
    "clipped": (
        MUCH_CUT,
        "lie beyond its bounds and count as the bound: declare wider ones if they are known without the data, or "
        "null_values if such numbers mean that there is none",
    ),
    "rounded": (
        SOME,
        "are no multiples of the declared step (or decimals) and count as the nearest one or the one before: declare a "
        "finer step if that is not meant",
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

KINDS = ("clipped", "rounded", "unlisted", "missing", "bad")
"""Beyond a declared bound; no multiple of a declared step; none of the listed values, so taken for ``other=``; not
there; why its row was bad."""


def check_policy(policy: object) -> str:
    """A policy, or an error that says which there are."""
    if policy not in POLICIES:
        raise ValueError(f"bad_rows must be one of {', '.join(POLICIES)}, not {policy!r}")
    return str(policy)


def policy_of(bad_rows: str | None, schema: object) -> str:
    """What happens to bad rows: as given, else as the schema says, else ``"stop"``."""
    return check_policy(bad_rows or getattr(schema, "bad_rows", None) or "stop")


def stated(schema: Any, policy: str | None, reading: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a schema, or that of a cube
    """The schema as cards have it, with the policy and the way of reading that are in force."""
    if not hasattr(schema, "with_reading"):
        return schema
    return schema.with_reading(**reading).with_bad_rows(policy or schema.bad_rows)


def with_way_out(error: TableError) -> TableError:
    """An error about a row, whose remedy also says how to go on without such rows."""
    if WAY_OUT in error.remedy:
        return error
    named = error.at()
    named.remedy = f"{error.remedy}; {WAY_OUT}"
    return named


@dataclass(frozen=True)
class BadRow:
    """A row that is no record."""

    row: int
    error: TableError
    text: str = ""
    person: str | None = None


@dataclass(frozen=True)
class EncodedBatch:
    """A batch as points, where bad rows are any point at all."""

    points: Points
    bad: tuple[BadRow, ...]
    tally: Tally
    beside: Values | None = None
    unread: tuple[int, ...] = ()

    @property
    def flags(self) -> Flags | None:
        """Which rows are bad, None if there are none."""
        return flags_of([bad.row for bad in self.bad], len(self.points)) if self.bad else None


def row_texts(table: Any, bad: Sequence[BadRow]) -> list[BadRow]:  # noqa: ANN401 - a table of any library
    """Bad rows of a table with their text: the values as JSON."""
    kind = kind_of(table)
    if kind == "numpy":
        found = [{str(axis): value for axis, value in enumerate(np.atleast_1d(table[one.row]).tolist())} for one in bad]
    elif kind == "records":
        records = [table] if isinstance(table, Mapping) else table
        found = [_members(records[one.row]) for one in bad]
    else:
        table = frame_of(table)
        names = list(table) if kind == "columns" else list(getattr(table, "column_names", None) or table.columns)
        columns = {str(name): table[name] for name in names}
        found = [{name: item_of(column, one.row) for name, column in columns.items()} for one in bad]
    return [replace(one, text=row_text(said)) for one, said in zip(bad, found, strict=True)]


def _members(record: object) -> dict[Any, Any]:
    found = record_of(record)
    return {"": record} if found is None else found


def row_text(values: Mapping[Any, Any]) -> str:
    """The values of a row as JSON; where one cannot be written, what kind it is: no bad row stops a run by its text."""
    try:
        return json.dumps(values, default=str)
    except failures():  # whatever an object raises when it is written
        return json.dumps({_written(name): _written(value) for name, value in values.items()})


def _written(value: Any) -> str:  # noqa: ANN401 - a value of any type
    try:
        return value if isinstance(value, str) else str(value)
    except failures():  # such as a number of more digits than Python writes
        return f"an object of type {type(value).__name__}"


def item_of(column: Any, row: int) -> Any:  # noqa: ANN401 - a column of any library
    """One value of a column, as its library has it; a moment that Python has no date for as a number or in words."""
    item: Any = None
    try:
        item = column.iloc[row] if hasattr(column, "iloc") else column[row]
        return item.as_py() if hasattr(item, "as_py") else item
    except failures():  # whatever a library raises, or an object in the record
        pass
    try:
        return item.value
    except failures():
        return "a value that cannot be written"


def flags_of(rows: list[int], size: int) -> Flags:
    """An array that is True at these places."""
    flags: NDArray[np.bool_] = np.zeros(size, dtype=np.bool_)
    flags[rows] = True
    return flags


@dataclass
class Tally:
    """Counts of what was read."""

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
                meant = kind == "rounded" and counts.get(kind, 0) > ALMOST_ALL * self.records  # a coarser step for all
                if counts.get(kind, 0) > much * self.records and not meant:
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
