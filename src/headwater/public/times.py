"""Columns of dates with times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headwater.public.bounded import Bounded
from headwater.public.errors import SchemaError, TableError
from headwater.public.partition import MOST_VALUES, Flags
from headwater.public.series import Values
from headwater.public.time_text import EPOCH, check_format, count_of, read_moment
from headwater.public.time_units import DAY, UNITS, epoch, microseconds, moment_of, zone_name, zone_of
from headwater.public.values import describe

Moment = str | date | datetime
COARSER = {"us": 1, "ms": 10**3, "s": 10**6, "m": UNITS["min"], "h": UNITS["h"], "D": DAY, "W": 7 * DAY}
FINER = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}


@dataclass(frozen=True, repr=False)
class Datetime(Bounded):
    """A column of dates with times, from ``start`` to ``end`` in steps; in between, the step before counts.

    Parameters
    ----------
    start, end
        The bounds, as dates or as ISO 8601 text. Both with a time zone or both without, and so must be all values.
    step
        How finely time is resolved: "1us", "1ms", "1s", "1min", "1h", "1d" or multiples such as "15min".
    zone
        The time zone of what comes out; that of ``start`` if not given.
    format
        How text has it, as ``strptime`` writes formats (``"%d.%m.%Y %H:%M"``), or ``"epoch-s"``, ``"epoch-ms"``,
        ``"epoch-us"``, ``"epoch-ns"`` for numbers that count from 1970 on; ISO 8601 if not given.
    outside
        What happens to a value beyond a bound: ``"clip"`` takes the bound, ``"error"`` refuses the batch.
    missing, weight, null_values
        As for every `Column`: whether values may be missing, how finely it is resolved, texts that mean "missing".

    Examples
    --------
    >>> day = Datetime("2024-01-01", "2024-12-31", step="1d")
    >>> day.size
    366
    >>> day.decode(day.encode(["2024-02-29T13:00"]))
    (array(['2024-02-29T00:00:00.000000'], dtype='datetime64[us]'), None)
    """

    start: Moment | None = None
    end: Moment | None = None
    step: str = "1s"
    zone: str | None = field(default=None, kw_only=True)
    format: str | None = field(default=None, kw_only=True)

    kind: ClassVar[str] = "datetime"
    wants: ClassVar[str] = "a date and time"
    required: ClassVar[Mapping[str, str]] = {
        "start": 'start = "2024-01-01T00:00:00"',
        "end": 'end = "2024-12-31T23:59:59"',
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_format(self.format, dates=True)
        microseconds(self.step)
        for name in ("start", "end"):
            bound = getattr(self, name)
            if bound is not None:
                moment = moment_of(bound)
                if moment is None:
                    raise SchemaError(f"{name} must be a date", f"write for example {self.required[name]}")
                self.set(**{name: moment})
        if isinstance(self.start, datetime) and isinstance(self.end, datetime):
            if (self.start.tzinfo is None) != (self.end.tzinfo is None):
                raise SchemaError(
                    "mixed time zones: one bound has a time zone, the other has none", "give both or none"
                )
            if self.start > self.end:
                raise SchemaError("start must not be after end", "write the earlier bound as start")
            if self.size > MOST_VALUES:
                raise SchemaError("there are more than 2^53 steps", 'declare a longer step, such as step = "1s"')
        if isinstance(self.start, datetime):
            self._set_zone(self.start)

    def _set_zone(self, start: datetime) -> None:
        if self.zone is not None and start.tzinfo is None:
            raise SchemaError(
                "a zone is declared, but the bounds have no time zone", 'write them as "…T00:00:00+00:00"'
            )
        if self.zone is not None and not isinstance(self.zone, str):
            raise SchemaError("zone must be text", 'write for example zone = "Europe/Paris"')
        if start.tzinfo is not None:
            name = self.zone or zone_name(start)
            zone = zone_of(name)
            try:
                self.set(zone=name, start=start.astimezone(zone))
                if isinstance(self.end, datetime):
                    self.set(end=self.end.astimezone(zone))
            except OverflowError:
                raise SchemaError(
                    "a bound is outside of the years 1 to 9999 in its zone", "declare a nearer bound"
                ) from None

    @cached_property
    def limits(self) -> tuple[int, int]:
        """The first and the last step, in microseconds of the epoch."""
        self.check()
        assert isinstance(self.start, datetime) and isinstance(self.end, datetime)  # noqa: S101, PT018 - made so above
        start, end = epoch(self.start), epoch(self.end)
        return start, end

    @property
    def size(self) -> int:
        """How many steps there are."""
        start, end = self.limits
        return (end - start) // microseconds(self.step) + 1

    @property
    def zoned(self) -> bool:
        """Whether values have a time zone."""
        return isinstance(self.start, datetime) and self.start.tzinfo is not None

    def _read_text(self, text: str) -> int | None:
        """A date, or a date and time, in the declared format or else in ISO 8601; blank text is missing."""
        if not text.strip():
            return None
        if self.format in EPOCH:
            return count_of(text, self.format)
        return self._parse(read_moment(datetime, text, self.format, self.wants, "2024-02-29T13:45:00"))

    @property
    def usual_text(self) -> bool:
        """Whether text is in ISO 8601."""
        return self.format is None and super().usual_text

    def wrong(self, what: object) -> TableError:
        """The error for a value of another kind; numbers have their own formats."""
        if describe(what) == "a number":
            remedy = f"give a date and time, or declare how numbers count (format = {', '.join(EPOCH)})"
            return TableError("a number, not a date and time", remedy, sender="give a date and time")
        return super().wrong(what)

    def _parse(self, value: Any) -> int:  # noqa: ANN401 - a value of any type
        if self.format in EPOCH and describe(value) == "a number":
            return count_of(value, self.format)
        if isinstance(value, np.datetime64):
            self._same_zone(zoned=False)
            return int(self._microseconds(value.reshape(1))[0])
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        if not isinstance(value, datetime):
            raise self.wrong(value)
        self._same_zone(zoned=value.tzinfo is not None)
        return epoch(value)

    def _same_zone(self, *, zoned: bool) -> None:
        if zoned != self.zoned:
            here, there = ("a", "have none") if zoned else ("no", "have one")
            raise TableError(
                f"mixed time zones: the value has {here} time zone, but the bounds of the column {there}",
                "give all dates of the column and its bounds with a time zone, or all without",
            )

    def _cast(self, values: Values) -> NDArray[Any]:
        data = np.asarray(values.data)
        if self.format in EPOCH and data.dtype.kind in "iuf":
            few = values.distinct()
            return self.read_values(list(few.data))[0][few.codes]
        if data.dtype.kind != "M":
            raise self.wrong(data)
        first = 0 if values.missing is None else int(np.argmin(values.missing))
        try:
            self._same_zone(zoned=values.zoned)
        except TableError as error:
            raise error.at(row=first) from None
        if values.missing is not None:
            data = np.where(values.missing, data[first], data)
        return self._microseconds(data)

    def _microseconds(self, data: NDArray[Any]) -> NDArray[np.int64]:
        """Moments in microseconds, rounded down. What is far outside the bounds is brought near, still outside."""
        unit, count = np.datetime_data(data.dtype)
        if unit in ("M", "Y"):
            data, unit, count = data.astype("M8[D]"), "D", 1
        numbers = data.astype(data.dtype.newbyteorder("="), copy=False).view(np.int64)
        if unit in FINER:
            return numbers * count // FINER[unit]
        factor, (start, end) = COARSER[unit] * count, self.limits
        near: NDArray[np.int64] = np.clip(numbers, start // factor - 1, end // factor + 1) * factor
        return near

    def _fit(self, numbers: NDArray[Any], missing: Flags | None) -> NDArray[Any]:
        steps = super()._fit(numbers.astype(np.int64, copy=False), missing) - self.limits[0]
        return steps // microseconds(self.step)

    def raw(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Moments as ``datetime64[us]``, in UTC if the column has a time zone."""
        return (numbers * microseconds(self.step) + self.limits[0]).view("M8[us]")

    def label(self, raw: NDArray[Any]) -> NDArray[Any]:
        """The same as `raw`, but with a time zone as objects: NumPy knows no time zones."""
        if not self.zoned:
            return raw
        zone = zone_of(self.zone or "UTC")
        found = np.empty(len(raw), dtype=object)
        found[:] = [moment.replace(tzinfo=UTC).astimezone(zone) for moment in raw.tolist()]
        return found

    def to_dict(self) -> dict[str, Any]:
        """What is declared; the zone only if the bounds do not say it."""
        declared = super().to_dict()
        if (
            isinstance(self.start, datetime)
            and self.zoned
            and self.zone == zone_name(datetime.fromisoformat(declared["start"]))
        ):
            del declared["zone"]
        return declared
