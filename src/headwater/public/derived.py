"""Columns that are computed from another value of the same record: the day of the week of a time, years since a birth.

A derived column is a pure function of the record, and of the local time that is declared; never of the clock. It is a
column of releases like others. What it is computed from is read, and is itself in releases only if it is declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import Any, cast

import numpy as np

from headwater.public.categories import Category
from headwater.public.columns import Column, Read
from headwater.public.errors import listed, need, quoted
from headwater.public.moments import DAY, Datetime, TimeOfDay, moment_of, zone_of
from headwater.public.numbers import Integer
from headwater.public.partition import Flags, Integers

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PARTS = ("weekday", "month", "hour", "date", "years since", "days since")
"""What can be computed of a time; the last two count whole years and days from another one on."""

_HOUR, _THURSDAY, _EPOCH = DAY // 24, 3, datetime(1970, 1, 1, tzinfo=UTC)
_QUARTER = _HOUR // 4  # in which no time zone changes, since time is kept in zones
_KEYS = {"source": "from"}
_EARLIEST, _LATEST = "0001-01-02T00:00:00", "9999-12-30T00:00:00"


@dataclass(frozen=True)
class Derived:
    """A column that is computed from another value of the same record.

    Parameters
    ----------
    source
        The column that it is computed from; ``from`` in schema files. If the schema does not declare it, it is read all
        the same, and is in no release.
    part
        ``"weekday"`` (``"Monday"`` to ``"Sunday"``), ``"month"`` (1 to 12), ``"hour"`` (0 to 23), ``"date"``,
        ``"years since"`` or ``"days since"``, which count those that are complete.
    since
        What the last two count from: a date, or the name of a column.
    low, high
        The bounds of these counts, declared as those of `Integer`; of ``"date"``, if the source is not in the schema,
        the first and the last date.
    format, zone
        How text has the source, and in which time zone its local time is, as `Datetime` says, if the schema does not
        declare it.
    missing, weight
        As for every `Column`. It is missing where what it is computed from is.

    Examples
    --------
    >>> from headwater import Schema
    >>> Schema(day=Derived("started", "weekday")).encode({"started": ["2024-05-05T13:00"]})
    array([[0.75]])
    """

    source: str
    part: str
    since: str | None = None
    low: Any = None
    high: Any = None
    format: str | None = field(default=None, kw_only=True)
    zone: str | None = field(default=None, kw_only=True)
    missing: bool = field(default=False, kw_only=True)
    weight: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        source: object = self.source
        need(isinstance(source, str) and source != "", "from must be the name of a column", "name one")
        need(self.part in PARTS, "part is none of those that are known", f"write one of {', '.join(PARTS)}")
        counts = self.part.endswith("since")
        remedy = 'write for example since = "2000-01-01", or the name of a column with dates'
        fits = bool(self.since) and isinstance(self.since, str) if counts else self.since is None
        need(fits, "counts need since, a date or a column, and other parts have none", remedy)
        fits = counts or self.part == "date" or self.low is self.high is None
        need(fits, "this part has bounds of its own", "leave out low and high")
        self.read  # noqa: B018 - which refuses a format or a zone that there is not

    @cached_property
    def read(self) -> Datetime:
        """How the source is read, where the schema does not declare it."""
        ends = [f"{end}+00:00" if self.zone else end for end in (_EARLIEST, _LATEST)]
        return Datetime(ends[0], ends[1], zone=self.zone, format=self.format, missing=True)

    @property
    def sources(self) -> list[str]:
        """The columns that it is computed from."""
        return [self.source, *([self.since] if self.since and moment_of(self.since) is None else [])]

    def check(self) -> None:
        """Raise an error if something is still to be declared."""
        if self.part != "date":
            self.column().check()

    @property
    def open(self) -> list[str]:
        """What is still to be declared."""
        return [] if self.part == "date" else self.column().open

    def column(self, source: Column | None = None) -> Column:
        """What releases have, where the schema declares the source so, or does not."""
        hours = isinstance(source, TimeOfDay) and self.part == "hour"
        problem = f"the part {self.part} of a column of kind {source.kind if source else ''}"
        need(source is None or isinstance(source, Datetime) or hours, problem, "declare a datetime as the source")
        how: dict[str, Any] = {"missing": self.missing, "weight": self.weight}
        if self.part == "weekday":
            return Category(*WEEKDAYS, **how)
        if self.part == "date":
            ends = (self.low, self.high)
            if ends == (None, None) and source is not None:
                ends = tuple(_local(np.array(source.limits), source).view("M8[us]").astype("M8[D]").tolist())
            return Datetime(*ends, "1d", **how)
        low, high = {"month": (1, 12), "hour": (0, 23)}.get(self.part, (self.low, self.high))
        return Integer(low, high, **how)

    def compute(self, reads: Mapping[str, Read], columns: Mapping[str, Column]) -> Read:
        """Numbers of `column`, from what was read of the sources, each in its own rows; of bad ones anything at all."""
        there = [reads[name] for name in self.sources]
        times = [_local(reads[name].numbers, columns[name]) for name in self.sources]
        gone = [np.zeros(len(times[0]), np.bool_) if one.missing is None else one.missing.copy() for one in there]
        missing: Flags = np.logical_or.reduce(gone)
        for one in there:
            missing[list(one.bad)] = False
        days = times[0] // DAY
        if self.part == "weekday":
            found = (days + _THURSDAY) % 7
        elif self.part == "month":
            found = days.view("M8[D]").astype("M8[M]").astype(np.int64) % 12 + 1
        elif self.part == "hour":
            found = times[0] % DAY // _HOUR
        elif self.part == "date":
            found = days * DAY
        else:
            begin = times[1] // DAY if len(times) > 1 else np.full_like(days, _day(self.since))
            found = days - begin if self.part == "days since" else _years(days) - _years(begin) - _before(days, begin)
        return Read(found, missing if missing.any() else None)

    def to_dict(self) -> dict[str, Any]:
        """What is declared, as plain values: a table of a schema file."""
        found = {_KEYS.get(one.name, one.name): (getattr(self, one.name), one.default) for one in fields(self)}
        return {"kind": "derived"} | {name: _plain(value) for name, (value, usual) in found.items() if value != usual}

    @staticmethod
    def from_dict(declared: Mapping[str, Any]) -> Derived:
        """A derived column as `to_dict` describes it, without its kind."""
        names = {_KEYS.get(one.name, one.name): one.name for one in fields(Derived)}
        unknown = [name for name in declared if name not in names]
        remedy = f"known keys are kind, {', '.join(names)}"
        need(not unknown, f'unknown key {listed(unknown)} in a column of kind "derived"', remedy)
        need({"from", "part"} <= declared.keys(), "a derived column needs from and part", 'write part = "weekday"')
        return Derived(**{names[name]: value for name, value in declared.items()})


def inputs(declared: Mapping[str, Column | Derived]) -> dict[str, Column]:
    """What a table must have: columns that are declared, and those that only derived ones are computed from."""
    found = dict[str, Column]()
    for name, column in declared.items():
        if isinstance(column, Column):
            found[name] = column
            continue
        for source in column.sources:
            given = declared.get(source, found.get(source, column.read))
            problem = "a derived column is computed from a column of the table, not from another derived one"
            need(isinstance(given, Column) and source != name, problem, "name a column of the table", name)
            alike = source in declared or given == column.read
            need(alike, f"{quoted(source)} is read in two ways", "declare the same format and zone", name)
            found[source] = cast("Column", given)
    return found


def _local(numbers: Integers, column: Column) -> Integers:
    """Microseconds since 1970 as the clock of the column's zone shows them; those beyond its bounds as the bound."""
    low, high = column.limits
    numbers = np.asarray(np.clip(numbers, low, high))
    if not isinstance(column, Datetime) or not column.zoned:
        return numbers
    zone = zone_of(column.zone or "UTC")
    blocks, codes = np.unique(numbers // _QUARTER, return_inverse=True)
    moments = [_EPOCH + timedelta(microseconds=block * _QUARTER) for block in blocks.tolist()]
    offsets = [(moment.astimezone(zone).utcoffset() or timedelta()) // timedelta(microseconds=1) for moment in moments]
    return numbers + np.array(offsets, dtype=np.int64)[codes]


def _years(days: Integers) -> Integers:
    years: Integers = days.view("M8[D]").astype("M8[Y]").astype(np.int64)
    return years


def _before(days: Integers, others: Integers) -> Integers:
    """1 where a day comes before another one in its year, else 0."""
    one, other = ((of.view("M8[D]").astype("M8[M]"), of.view("M8[D]")) for of in (days, others))
    places = [month.astype(np.int64) % 12 * 32 + (day - month).astype(np.int64) for month, day in (one, other)]
    earlier: Integers = (places[0] < places[1]).astype(np.int64)
    return earlier


def _day(text: str | None) -> int:
    moment = moment_of(text)
    assert moment is not None  # noqa: S101 - it names no column
    return moment.toordinal() - date(1970, 1, 1).toordinal()


def _plain(value: Any) -> Any:  # noqa: ANN401 - an argument
    return value.isoformat() if isinstance(value, date) else value
