"""Columns of dates with times and of times of day: their steps, their zones, and how text has them."""

from __future__ import annotations

import re
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import MAX_PREC, ROUND_FLOOR, Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import cached_property
from numbers import Rational
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from headwater.public import person as durations
from headwater.public.columns import Array, Bounded, Column, Read, alike, describe, halved, read_with
from headwater.public.errors import SchemaError, TableError, need
from headwater.public.partition import MOST_VALUES, Flags
from headwater.public.tables import Values, from_arrow, kept, pyarrow, to_arrow, whole, without

Moment = str | date | datetime

UNITS = durations.UNITS
DAY = UNITS["d"]
EPOCH = {"epoch-s": 6, "epoch-ms": 3, "epoch-us": 0, "epoch-ns": -3}
"""Formats that count from the beginning of 1970 (in UTC): how many microseconds one of them is, as a power of ten."""

_COARSER = {"us": 1, "ms": 10**3, "s": 10**6, "m": UNITS["min"], "h": UNITS["h"], "D": DAY, "W": 7 * DAY}
_FINER = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}
_LENGTHS = {"s": 10**6, "ms": 10**3, "us": 1}  # units of Arrow, in microseconds
_NAIVE, _AWARE = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_1 = -62135596800 * 10**6  # in microseconds of the epoch
_FARTHEST = 1 << 62  # microseconds; no bound is that far
_NEAREST = -40  # power of ten; no unit of time makes a microsecond of less
_EXACT = Context(prec=MAX_PREC)
_EXAMPLE = datetime(2001, 11, 22, 23, 58, 59, tzinfo=UTC)
_ISO = r"[0-9]{4}-[01][0-9]-[0-3][0-9](?:[ T][0-2][0-9](?::[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?)?)?"
_OFFSET = r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)"
_DIGITS = {"Y": "[1-9][0-9]{3}", "f": "[0-9]{1,6}"} | dict.fromkeys("mdHMS", "[0-9]{2}")


def microseconds(step: object) -> int:
    """The length of a step such as "15min".

    >>> microseconds("1ms")
    1000
    """
    length = (durations.microseconds(step) if isinstance(step, str) else None) or Fraction(1, 2)
    remedy = f'write for example step = "1s"; units are {", ".join(UNITS)}'
    need(length < 1 << 62 and length.denominator == 1, 'step must be such as "1s" or "15min"', remedy)
    return int(length)


def epoch(moment: datetime) -> int:
    """Microseconds since 1970 began: in UTC, or on the clock of a moment without a zone."""
    return (moment - (_NAIVE if moment.tzinfo is None else _AWARE)) // timedelta(microseconds=1)


class _Stepped:
    """What dates and times of day have in common."""

    step: str
    format: str | None
    wants: ClassVar[str]
    type_: ClassVar[type[datetime] | type[time]]
    example: ClassVar[str]

    @cached_property
    def stride(self) -> int:
        return microseconds(self.step)

    def text(self, text: str) -> int:
        """Text in the declared format or else in ISO 8601."""
        found = None
        with suppress(ValueError):
            found = self.type_.fromisoformat(text) if self.format is None else datetime.strptime(text, self.format)
        if found is not None:
            return self.parse(found.timetz() if isinstance(found, datetime) and self.type_ is time else found)
        if self.format is None:
            remedy = f"write it as {self.example} (ISO 8601), or declare the format that the file has"
            raise TableError(f"text that is not {self.wants}", remedy)
        problem = f"text that is not {self.wants} in the declared format {self.format}"
        raise TableError(problem, "correct the text, or the format")

    @abstractmethod
    def parse(self, value: Any) -> int:  # noqa: ANN401 - a value of any type
        """A moment in microseconds."""


@dataclass(frozen=True, repr=False)
class Datetime(_Stepped, Bounded):
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
    type_, example = datetime, "2024-02-29T13:45:00"
    required: ClassVar[Mapping[str, str]] = {
        "start": 'start = "2024-01-01T00:00:00"',
        "end": 'end = "2024-12-31T23:59:59"',
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_format(self.format, dates=True)
        microseconds(self.step)
        for name, example in self.required.items():
            bound = getattr(self, name)
            moment = None if bound is None else moment_of(bound)
            need(bound is None or moment is not None, f"{name} must be a date", f"write for example {example}")
            self.set(**{name: moment})
        start, end = self.start, self.end
        if isinstance(start, datetime) and isinstance(end, datetime):
            alike = (start.tzinfo is None) == (end.tzinfo is None)
            need(alike, "mixed time zones: one bound has a time zone, the other has none", "give both or none")
            need(start <= end, "start must not be after end", "write the earlier bound as start")
            remedy = 'declare a longer step, such as step = "1s"'
            need(self.size <= MOST_VALUES, "there are more than 2^53 steps", remedy)
        if self.zone is not None and start is not None:
            problem = "a zone is declared, but the bounds have no time zone"
            need(self.zoned, problem, 'write them as "…T00:00:00+00:00"')
            need(isinstance(self.zone, str), "zone must be text", 'write for example zone = "Europe/Paris"')
        if isinstance(start, datetime) and self.zoned:
            name = self.zone or _zone_name(start)
            try:
                self.set(zone=name, start=start.astimezone(zone_of(name)))
                if isinstance(end, datetime):
                    self.set(end=end.astimezone(zone_of(name)))
            except OverflowError:
                problem = "a bound is outside of the years 1 to 9999 in its zone"
                raise SchemaError(problem, "declare a nearer bound") from None

    @cached_property
    def limits(self) -> tuple[int, int]:
        """The first and the last step, in microseconds of the epoch."""
        start, end = super().limits
        return epoch(start), epoch(end)

    @property
    def zoned(self) -> bool:
        """Whether values have a time zone."""
        return isinstance(self.start, datetime) and self.start.tzinfo is not None

    def repeats(self, text: Any) -> bool:  # noqa: ANN401 - an array of pyarrow
        return (self.format is not None and self.format not in EPOCH) or alike(text)

    def text(self, text: str) -> int:
        """A date, or a date and time, in the declared format or else in ISO 8601; or a count of time."""
        return super().text(text) if self.format not in EPOCH else _count_of(text, self.format)

    def at_once(self, text: Any) -> Any:  # noqa: ANN401 - arrays of pyarrow
        """ISO 8601 as far as Arrow reads it, which knows a year 0 and years before it; whole counts of time."""
        pa, pc = pyarrow(), pyarrow("compute")
        if self.format in EPOCH:
            return self._whole_counts(text)
        if self.format is not None:
            text = _in_iso(text, self.format)
        if text is None:
            return None
        type_, zone = pa.timestamp("us", "UTC" if self.zoned else None), _OFFSET if self.zoned else ""
        found = halved(lambda some: some.cast(type_).cast("int64"), text, f"^{_ISO}{zone}$")
        return without(found, pc.less(found, whole(_YEAR_1)))

    def _whole_counts(self, text: Any) -> Any:  # noqa: ANN401 - arrays of pyarrow
        pc = pyarrow("compute")
        plain = kept(text, pc.match_substring_regex(text, "^-?[0-9]{1,18}$")).cast("int64")
        return without(to_arrow(self._counts(from_arrow(plain)[0]), None), pc.is_null(plain))

    def _counts(self, numbers: Array) -> Array:
        """Whole numbers that count from 1970 on, in microseconds; far ones as the farthest."""
        power = EPOCH[self.format or ""]
        if power < 0:
            found: Array = numbers // 10**-power
            return found
        far = _FARTHEST // 10**power
        near: Array = np.clip(numbers, -far, far) * 10**power
        return np.where(np.abs(numbers) > far, np.sign(numbers) * _FARTHEST, near)

    def wrong(self, what: object) -> TableError:
        """The error for a value of another kind; numbers have their own formats."""
        if describe(what) == "a number":
            remedy = f"give a date and time, or declare how numbers count (format = {', '.join(EPOCH)})"
            return TableError("a number, not a date and time", remedy)
        return super().wrong(what)

    def parse(self, value: Any) -> int:  # noqa: ANN401 - a value of any type
        """A date or a date with a time, or a number if the format says how it counts."""
        if self.format in EPOCH and describe(value) == "a number":
            return _count_of(value, self.format)
        if isinstance(value, np.datetime64):
            if self.zoned:
                raise _mixed(zoned=False)
            return int(self._microseconds(value.reshape(1))[0])
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        if not isinstance(value, datetime):
            raise self.wrong(value)
        if self.zoned != (value.tzinfo is not None):
            raise _mixed(zoned=not self.zoned)
        return epoch(value)

    def typed(self, values: Values) -> Read:
        """Moments of any unit, or numbers if the format says how they count."""
        data, missing = values.data, values.missing
        if self.format in EPOCH and data.dtype.kind in "iuf":
            if data.dtype.kind == "i":
                return Read(self._counts(data.astype(np.int64, copy=False)), missing)
            few, codes = values.distinct()
            return self._each(few).coded(codes)
        if data.dtype.kind != "M":
            return self.all_wrong(values)
        mixed = np.full(len(data), values.zoned != self.zoned)
        if missing is not None:
            data = np.where(missing, np.zeros(1, data.dtype), data)
        return read_with(self._microseconds(data), missing, mixed, _mixed(zoned=values.zoned))

    def _microseconds(self, data: Array) -> NDArray[np.int64]:
        """Moments in microseconds, rounded down. What is far outside the bounds is brought near, still outside."""
        unit, count = np.datetime_data(data.dtype)
        if unit in ("M", "Y"):
            data, unit, count = data.astype("M8[D]"), "D", 1
        numbers = data.astype(data.dtype.newbyteorder("="), copy=False).view(np.int64)
        if unit in _FINER:
            return numbers * count // _FINER[unit]
        factor, (start, end) = _COARSER[unit] * count, self.limits
        return np.clip(numbers, start // factor - 1, end // factor + 1) * factor

    def raw(self, numbers: Array) -> Array:
        """Moments as ``datetime64[us]``, in UTC if the column has a time zone."""
        return super().raw(numbers).view("M8[us]")

    def label(self, raw: Array) -> Array:
        """The same as `raw`, but with a time zone as objects: NumPy knows no time zones."""
        if not self.zoned:
            return raw
        zone = zone_of(self.zone or "UTC")
        found = np.empty(len(raw), dtype=object)
        found[:] = [moment.replace(tzinfo=UTC).astimezone(zone) for moment in raw.tolist()]
        return found

    def to_arrow(self, raw: Array, missing: Flags | None) -> Any:  # noqa: ANN401 - an array of pyarrow
        return to_arrow(raw.view(np.int64), missing).cast(pyarrow().timestamp("us", tz=self.zone))

    @property
    def text_type(self) -> Any:  # noqa: ANN401 - a pyarrow.DataType
        """The type whose text has the digits of the steps; a date has no time zone."""
        pa, start = pyarrow(), self.limits[0]
        if not self.zoned and start % DAY == self.stride % DAY == 0:
            return pa.date32()
        return pa.timestamp(_unit(start, self.stride), tz=self.zone)

    def to_dict(self) -> dict[str, Any]:
        """What is declared; the zone only if the bounds do not say it."""
        declared = super().to_dict()
        if self.zoned and self.zone == _zone_name(datetime.fromisoformat(declared["start"])):
            del declared["zone"]
        return declared


@dataclass(frozen=True, repr=False)
class TimeOfDay(_Stepped, Column):
    """A column of times of day, in steps from midnight; in between, the step before counts.

    Parameters
    ----------
    step
        How finely time is resolved: "1us", "1ms", "1s", "1min", "1h" or multiples such as "15min", at most a day.
    format
        How text has it, as ``strptime`` writes formats (``"%H%M"``); ISO 8601 if not given.
    missing, weight, null_values
        As for every `Column`: whether values may be missing, how finely it is resolved, texts that mean "missing".

    Examples
    --------
    >>> TimeOfDay(step="6h").encode(["05:59", "18:00:00"]).tolist()
    [0.0, 0.75]
    """

    step: str = "1s"
    format: str | None = field(default=None, kw_only=True)

    kind: ClassVar[str] = "time-of-day"
    wants: ClassVar[str] = "a time of day"
    type_, example = time, "13:45:00"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_format(self.format, dates=False)
        remedy = 'declare a shorter step, such as step = "1s"'
        need(self.stride <= DAY, "the step is longer than a day", remedy)

    @property
    def limits(self) -> tuple[int, int]:
        return 0, DAY - 1

    def parse(self, value: Any) -> int:  # noqa: ANN401 - a value of any type
        """A time, or a time span from midnight on, in microseconds."""
        if isinstance(value, timedelta | np.timedelta64):
            found = self.typed(Values(np.array([value], dtype="m8[us]")))
            for error in found.bad.values():
                raise error.at()
            return int(found.numbers[0])
        if not isinstance(value, time):
            raise self.wrong(value)
        if value.tzinfo is not None:
            raise TableError("a time of day with a time zone", "leave the zone out, or declare Datetime")
        whole = (value.hour * 60 + value.minute) * 60 + value.second
        return whole * 10**6 + value.microsecond

    def typed(self, values: Values) -> Read:
        """Time spans from midnight on."""
        data, missing = values.data, values.missing
        if data.dtype.kind != "m" or np.datetime_data(data.dtype)[0] in ("Y", "M"):  # which have no one length
            return self.all_wrong(values)
        if missing is not None:
            data = np.where(missing, np.zeros(1, dtype=data.dtype), data)
        error = TableError("a time span outside of one day", "give a time from 00:00 to 23:59:59")
        beyond = (data < np.timedelta64(0, "s")) | (data >= np.timedelta64(1, "D"))
        return read_with(data.astype("m8[us]").view(np.int64), missing, beyond, error)

    def raw(self, numbers: Array) -> Array:
        """Times since midnight as ``timedelta64[us]``."""
        return super().raw(numbers).view("m8[us]")

    def label(self, raw: Array) -> Array:
        few, codes = np.unique(raw, return_inverse=True)
        found = np.empty(len(few), dtype=object)
        found[:] = [(_NAIVE + span).time() for span in few.tolist()]
        return found[codes]

    def to_arrow(self, raw: Array, missing: Flags | None) -> Any:  # noqa: ANN401 - an array of pyarrow
        return to_arrow(raw.view(np.int64), missing).cast(pyarrow().time64("us"))

    @property
    def text_type(self) -> Any:  # noqa: ANN401 - a pyarrow.DataType
        """The type whose text has the digits of the steps."""
        pa, unit = pyarrow(), _unit(self.stride)
        return pa.time64(unit) if unit == "us" else pa.time32(unit)


def _mixed(*, zoned: bool) -> TableError:
    here, there = ("a", "have none") if zoned else ("no", "have one")
    return TableError(
        f"mixed time zones: the value has {here} time zone, but the bounds of the column {there}",
        "give all dates of the column and its bounds with a time zone, or all without",
    )


def _unit(*lengths: int) -> str:
    """The longest unit that divides all of these numbers of microseconds."""
    return next(unit for unit, length in _LENGTHS.items() if not any(of % length for of in lengths))


def moment_of(bound: object) -> datetime | None:
    """A bound as a moment; None if it is none."""
    if isinstance(bound, str):
        try:
            bound = datetime.fromisoformat(bound.strip())
        except ValueError:
            bound = None
    if isinstance(bound, np.datetime64):
        bound = bound.astype("M8[us]").item()
    if isinstance(bound, date) and not isinstance(bound, datetime):
        bound = datetime(bound.year, bound.month, bound.day)
    return bound if isinstance(bound, datetime) and bound == bound else None  # NaT is not itself


def _zone_name(moment: datetime) -> str:
    """The name of a time zone that other libraries know too: a place, UTC, or such as +01:00."""
    key = getattr(moment.tzinfo, "key", None)
    if isinstance(key, str):
        return key
    offset = moment.isoformat()[-6:]
    return "UTC" if offset == "+00:00" else offset


def zone_of(name: str) -> tzinfo:
    """The time zone that `_zone_name` names."""
    match = re.fullmatch(r"([+-])(\d\d):(\d\d)", name)
    try:
        if match:
            span = timedelta(hours=int(match[2]), minutes=int(match[3]))
            return timezone(span if match[1] == "+" else -span)
        return UTC if name == "UTC" else ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # no such file, not a file of zones, not a name
        pass
    raise SchemaError(
        "zone must be the name of a time zone", 'write for example zone = "Europe/Paris" or zone = "+01:00"'
    )


def _check_format(format_: object, *, dates: bool) -> None:
    """Raise an error unless this is a format that has the year of a date, or the hour of a time."""
    if format_ is None or (dates and isinstance(format_, str) and format_ in EPOCH):
        return
    written = None
    if isinstance(format_, str) and "%Z" not in format_:  # names of zones differ from machine to machine
        with suppress(ValueError, re.error), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a day without a year, which is refused below
            written = datetime.strptime(_EXAMPLE.strftime(format_), format_)
    if written is None or (written.year != _EXAMPLE.year if dates else written.hour != _EXAMPLE.hour):
        what = "the year of a date" if dates else "the hour of a day"
        others = f", or one of {', '.join(EPOCH)} for numbers" if dates else ""
        example = "%d.%m.%Y %H:%M" if dates else "%H%M"
        raise SchemaError(
            f"format must be one that Python's strptime reads and that has {what}",
            f'write for example format = "{example}"{others}, or leave it out for ISO 8601',
        )


def _in_iso(text: Any, format_: str) -> Any:  # noqa: ANN401 - arrays of pyarrow
    """Text in a declared format of digits, in ISO 8601, null where it is not plainly in it; None for other formats."""
    pc = pyarrow("compute")
    parts = re.split("%(.)", format_)
    marks, signs = parts[1::2], parts[::2]
    if any(mark not in _DIGITS for mark in marks) or len(set(marks)) < len(marks) or re.search(r"\d", "".join(signs)):
        return None
    if "Y" not in marks or ("d" in marks and "m" not in marks):
        return None
    if set(marks) & {"M", "S", "f"} and not {"H", "M"} <= set(marks):
        return None
    pattern = "".join(re.escape(sign) + f"({_DIGITS[mark]})" for sign, mark in zip(signs, marks, strict=False))
    pattern = f"^{pattern}{re.escape(signs[-1])}$"
    group = {mark: f"\\{number}" for number, mark in enumerate(marks, 1)}
    iso = f"{group['Y']}-{group.get('m', '01')}-{group.get('d', '01')}"
    if "H" in marks:
        iso += f"T{group['H']}:{group.get('M', '00')}:{group.get('S', '00')}"
        iso += f".{group['f']}" if "f" in marks else ""
    text = text if "f" in marks else pc.replace_substring_regex(text, r"\b([0-9])\b", r"0\1")
    known = pc.match_substring_regex(text, pattern)
    return kept(pc.replace_substring_regex(text, pattern, iso), known)


def _count_of(value: Any, format_: str) -> int:  # noqa: ANN401 - text or a number
    """A number that counts from 1970 on, or its text, in microseconds, rounded down; far ones as the farthest."""
    number: Any = value.item() if isinstance(value, np.number) else value
    if isinstance(number, str):
        number = None
        with suppress(InvalidOperation):
            number = Decimal(value.strip()) if "_" not in value else None
    numeric = isinstance(number, int | float | Decimal | Rational) and not isinstance(number, bool)
    if not numeric or (number.is_nan() if isinstance(number, Decimal) else number != number):
        problem = f"a value that is no count of time ({format_})"
        raise TableError(problem, "give a number, or declare another format")
    if not -_FARTHEST < number < _FARTHEST:  # before all else: 10^999999999 is written quickly and computed slowly
        return _FARTHEST if number > 0 else -_FARTHEST
    if isinstance(number, Decimal) and number.adjusted() < _NEAREST:  # 10^−999999999 as well
        return -1 if number < 0 else 0
    if isinstance(number, Decimal):  # shifted and cut as digits: as a fraction, a million of them take half a minute
        count = int(number.scaleb(EPOCH[format_], _EXACT).to_integral_value(ROUND_FLOOR))
    else:
        count = int(Fraction(number) * Fraction(10) ** EPOCH[format_] // 1)
    return max(-_FARTHEST, min(_FARTHEST, count))
