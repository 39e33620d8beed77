"""What some values of a column suggest: its kind, how it is written, and what a person should know before using it.

Everything found is a guess for a person to check. No value leaves this module: only names of formats, of texts that
commonly mean "missing", units that several numbers share, and numbers of decimals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.column import Column
from headwater.public.errors import TableError
from headwater.public.numeric import Integer, Number
from headwater.public.time_of_day import TimeOfDay
from headwater.public.time_units import microseconds
from headwater.public.times import Datetime
from headwater.public.values import is_missing


@dataclass
class Observed:
    """What was found: the kind of a column, what to declare of it, and notes for a person."""

    kind: str = "category"
    declared: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    proposed: list[str] = field(default_factory=list)
    """More lines of a schema file: those that are comments a person may want to take."""
    point: str | None = None
    """What surely comes before decimals: other columns of the same file are written alike."""
    nulls: list[str] = field(default_factory=list)
    """Texts that commonly mean "missing" and were seen."""
    doubtful: bool = False
    """Whether a mark in numbers may come before decimals as well as between thousands."""


ZONED = "0001-01-02T00:00:00+00:00", "9999-12-30T00:00:00+00:00"
"""Bounds of any time with a zone."""

_PERSON = re.compile(
    r"(^|[_\W])(id|uuid|guid|ssn|e?mail|phone|mobile|passport|iban|nhs|mrn|ip|user|login|name|surname|firstname|lastname)"
    r"($|[_\W])|(?-i:[a-z]Id$)|(first|last|user|full)_?name",
    re.IGNORECASE,
)
_FAR = (
    "Its {} value comes often and is unlike all others: if it stands for missing, take such texts into",
    'null_values, as in null_values = ["-999"].',
)
_STEPS = ("1d", "1h", "1min", "1s", "1ms")
_MOST_DECIMALS = 12  # that are proposed
_FEW = 20  # values, below which nothing is said of them
_GROWS = (
    "Grows with the file, so it says little but when a record arrived, and errors are larger than expected with it:",
    "better give its time of day, weekday or month as columns of their own. Of the time of day alone, declare",
    'kind = "time-of-day", a step, and a format that reads the whole text, such as "%Y-%m-%d %H:%M:%S".',
)
_GROWING = (
    "Grows with the file, so it says little but when a record arrived, and errors are larger than expected with it:",
    "better leave it out, or give what comes again, such as the day of the week, as a column of its own.",
)
_RISING = 0.9  # the correlation of values with their place in the file from which on they are taken to grow with it


def look_at_numbers(seen: Observed, values: list[Any]) -> None:
    """Rounding, and a logarithmic scale."""
    if seen.kind not in ("number", "integer") or not values:
        return
    exact = [_exact(value, seen) for value in values[:2000]]
    in_order = [number for number in exact if number is not None and _is_float(number)]
    numbers = sorted(in_order)
    if not numbers:
        return
    if _rises(np.array([float(number) for number in in_order])):
        seen.notes += _GROWING
    seen.notes += [line.format(side) for side in _sentinels(numbers) for line in _FAR]
    decimals = max(max(0, -int(number.normalize().as_tuple().exponent)) for number in numbers)
    if seen.kind == "number" and decimals <= 6:
        seen.declared["decimals"] = decimals
    elif seen.kind == "number" and (few := _six_digits(numbers)) <= _MOST_DECIMALS:
        seen.proposed.append(f"decimals = {few}   # about six significant digits; more were seen")
    positive = [number for number in numbers if number > 0]
    if (
        numbers[0] >= 0
        and len(positive) >= _FEW
        and positive[-len(positive) // 100 - 1] > 1000 * positive[len(positive) // 100]
    ):
        needs = "needs a low above 0" + (", as which 0 counts: it was seen" if numbers[0] == 0 else "")
        needs += ', with kind = "number" and decimals = 0' if seen.kind == "integer" else ""
        seen.proposed.append(f'# scale = "log"   # the values span orders of magnitude; {needs}')


def _sentinels(numbers: list[Decimal]) -> list[str]:
    """Which ends of some sorted numbers are one value that comes often and is unlike the others."""
    found = []
    for side, ends in (("lowest", numbers), ("highest", [-number for number in reversed(numbers)])):
        others = [number for number in ends if number != ends[0]]
        often = len(ends) - len(others) >= max(2, len(ends) / 1000)
        if ends[0] and often and len(others) >= _FEW and others[0] < others[-1]:
            far, alone = others[0] - ends[0] > others[-1] - others[0], ends[0] < 0 <= others[0]
            found += [side] if far or alone else []
    return found


def _six_digits(numbers: list[Decimal]) -> int:
    few = len(numbers) // 20  # that are very large
    larger = max(abs(numbers[few]), abs(numbers[len(numbers) - 1 - few]))
    return max(0, 5 - larger.adjusted()) if larger else 6


def look_at_times(seen: Observed, values: list[Any]) -> None:
    """How fine times are: whole days, hours, minutes or seconds; and whether they are those of the file itself."""
    if seen.kind not in ("datetime", "time-of-day"):
        return
    written = seen.declared.get("format")
    columns: list[Callable[[], Column]] = [partial(Datetime, *ends, format=written) for ends in ((), ZONED)]
    for make in [partial(TimeOfDay, format=written)] if seen.kind == "time-of-day" else columns:
        with suppress(TableError):
            column = make()
            numbers, _ = column.read_values(values[:2000])
            steps = [step for step in _STEPS if not (numbers.astype(np.int64) % microseconds(step)).any()]
            seen.declared["step"] = (steps or ["1us"])[0] if len(numbers) else "1s"
            if seen.kind == "datetime" and _rises(numbers.astype(np.int64)):
                seen.notes += _GROWS
            return


def _rises(numbers: NDArray[Any]) -> bool:
    _, ranks = np.unique(numbers, return_inverse=True)
    if len(ranks) < _FEW or not ranks.any():
        return False
    return bool(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1] > _RISING)


def _exact(value: Any, seen: Observed) -> Decimal | None:  # noqa: ANN401 - text or a number
    if not isinstance(value, str):
        return Decimal(repr(float(value))) if isinstance(value, float) else _decimal(str(value))
    mark, point = seen.declared.get("thousands"), seen.declared.get("decimal", ".")
    value = Number(unit=seen.declared.get("unit")).without_unit(value)
    return _decimal((value.replace(mark, "") if mark else value).replace(point, "."))


def _is_float(number: Decimal) -> bool:
    return number.is_finite() and abs(number.adjusted()) < 300


def _decimal(text: str) -> Decimal | None:
    with suppress(ArithmeticError):
        return Decimal(text)
    return None


def look_at_identity(name: str, seen: Observed, values: list[Any]) -> None:
    """Columns that should be left out."""
    if seen.kind in ("category", "integer"):
        try:
            distinct = len(set(values))
        except TypeError:
            seen.notes.append("Holds lists or records: take plain values out of them first, or leave the column out.")
            return
        if len(values) >= _FEW and distinct == len(values):
            what = "an identifier or free text" if seen.kind == "category" else "perhaps an identifier"
            seen.notes.append(f"All values seen are different: {what}. Nothing can be learned of it: leave it out.")
        elif seen.kind == "category" and distinct > max(100, len(values) / 5) and _are_sentences(values):
            seen.notes.append(
                "Looks like free text: nothing can be learned of it, and it may name people: leave it out."
            )
        elif seen.kind == "integer" and len(values) >= _FEW and {str(value) for value in values} == {"0", "1"}:
            seen.notes.append('Only 0 and 1 were seen: if they mean no and yes, declare kind = "boolean".')
        elif seen.kind == "category" and distinct > 100:
            seen.notes.append("More than 100 values were seen: list those that matter, and declare other for the rest.")
    if _PERSON.search(name.rpartition(".")[2]):  # of what is inside of a user, not all is its name
        seen.notes.append("Its name sounds like a person's name, number or address: leave it out unless it is none.")
        seen.notes.append("If it says who a record belongs to, leave it out here and name it by --person in the run.")


def _are_sentences(values: list[Any]) -> bool:
    return sum(str(value).count(" ") for value in values) > 2 * len(values)


NULLS = (
    *("NA", "N/A", "n/a", "#N/A", "NULL", "Null", "null", "None", "none", "NaN", "nan", "?", "-", "--", ".", "\\N"),
    *("n.a.", "N.A.", "k.A.", "k. A.", "keine Angabe", "o.A.", "o. A.", "n.v.", "n. v.", "n.b."),  # German
    *("n/d", "N/D", "n.d.", "N.D.", "s/d", "S/D", "s.d.", "s/o", "S/O", "s.o.", "S.O."),  # French, Spanish, Portuguese
)
"""Texts that commonly mean "missing"; none that is an abbreviation of something else as often, such as ND."""

_DAYS = ("%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d/%m/%y", "%m/%d/%y", "%d.%m.%y")
_NAMED = ("%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%a, %d %b %Y")
_CLOCKS = ("", " %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p")
_WHOLE = ("%d/%b/%Y:%H:%M:%S %z", "%a %b %d %H:%M:%S %Y", "%a, %d %b %Y %H:%M:%S %z", "%a, %d %b %Y %H:%M:%S GMT")
DATE_FORMATS = tuple(day + clock for days in (_DAYS, _NAMED) for clock in _CLOCKS for day in days) + _WHOLE
"""Formats of dates that are tried after ISO 8601."""

_TIME_NAME = re.compile(r"time|date|stamp|epoch|(^|_)(ts|at|on)$|day", re.IGNORECASE)
_DATE = re.compile(
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d{1,2}\.?[ -][A-Z][a-z]{2}"
    r"|[A-Z][a-z]{2,8}\.? \d{1,2}(st|nd|rd|th)?,? (\d{4}|\d\d:)"
)
_MEASURE = re.compile(r"[+-]?[^\w\s.,+-]{1,3} ?[+-]?\d[\d.,]*|[+-]?\d[\d.,]* ?([^\w\s.,:/-]|[A-Za-z]{1,3}\b)")
_UNIT = re.compile(r"[\s\d.,+'\u2019-]")
"""All but the unit of a number."""
_MARKS = (
    *((".", ","), (",", None), (",", ".")),
    *((point, mark) for mark in (" ", "\u00a0", "\u202f", "'", "\u2019") for point in (".", ",")),
)
_COMMA = (
    "Not sure: three digits follow every comma, so it is read as one between thousands.",
    'If decimals follow it, declare kind = "number" and decimal = "," instead of thousands.',
)
_POINT = (
    "Not sure: three digits follow every point, and they are read as decimals.",
    'If it stands between thousands, declare kind = "integer", decimal = "," and thousands = ".".',
)
_DAY_CLOCKS = ("%H.%M.%S", "%I:%M:%S %p", "%I:%M %p", "%Hh%M", "%Hh%Mm%Ss")
"""Formats of times of the day that are tried after ISO 8601."""


def observe(name: str, values: Iterable[Any], kind: str | None = None, *, point: str | None = None) -> Observed:
    """What values suggest."""
    found = [None if is_missing(value) else value for value in values]
    texts = [value.strip() for value in found if isinstance(value, str) and value.strip()]
    seen = Observed(kind or "category", point=point)
    if kind is None:
        seen.nulls = [text for text in NULLS if text in set(texts)]
        texts = [text for text in texts if text not in seen.nulls]
        if texts:
            _kind_of_text(name, texts, seen)
    if seen.nulls:
        seen.declared["null_values"] = seen.nulls
    if seen.nulls or any(value is None or (isinstance(value, str) and not value.strip()) for value in found):
        seen.declared["missing"] = True
    there = texts if kind is None else [value for value in found if value is not None]
    look_at_numbers(seen, there)
    look_at_times(seen, there)
    look_at_identity(name, seen, there)
    return seen


def _kind_of_text(name: str, texts: list[str], seen: Observed) -> None:
    distinct = set(texts)
    if all(text.lower() in ("true", "false", "yes", "no", "t", "f") for text in distinct):
        seen.kind = "boolean"
    elif _reads(Integer(), distinct):
        _whole_numbers(name, distinct, seen)
        _judge_point(distinct, seen)
    elif _reads(Number(), distinct):
        seen.kind = "number"
        _judge_point(distinct, seen)
    elif any(text[0].isdigit() or text[0] in "+-" or _DATE.search(text) or _MEASURE.match(text) for text in distinct):
        _written(distinct, seen)


def _whole_numbers(name: str, texts: set[str], seen: Observed) -> None:
    seen.kind = "integer"
    if any(text.lstrip("+-").startswith("0") and text.lstrip("+-").strip("0.") for text in texts):
        seen.kind = "category"
        seen.notes.append("Digits with zeros in front: taken for a code. If they are numbers, declare integer.")
    elif _TIME_NAME.search(name):
        numbers = [float(text) for text in texts]
        for format_, scale in (("epoch-s", 1.0), ("epoch-ms", 1e3), ("epoch-us", 1e6)):
            if all(4e8 * scale < number < 3e9 * scale for number in numbers):
                seen.kind, seen.declared["format"] = "datetime", format_
        if _reads(Datetime(format="%Y%m%d"), texts) and all(1900 <= int(text[:4]) < 2100 for text in texts):
            seen.kind, seen.declared["format"] = "datetime", "%Y%m%d"


def _written(texts: set[str], seen: Observed) -> None:
    """Numbers and dates in one of many ways; where several fit, all are named."""
    if _reads(Datetime(), texts):
        seen.kind = "datetime"
        return
    if _reads(Datetime(*ZONED), texts):
        seen.kind, seen.declared["zoned"] = "datetime", True
        return
    if all(":" in text for text in texts) and _reads(TimeOfDay(), texts):  # 2016,5 is a number
        seen.kind = "time-of-day"
        return
    for format_ in _DAY_CLOCKS:
        if _reads(TimeOfDay(format=format_), texts):
            seen.kind, seen.declared["format"] = "time-of-day", format_
            return
    formats = [format_ for format_ in DATE_FORMATS if _in_format(texts, format_)]
    if formats:
        seen.kind, seen.declared["format"] = "datetime", formats[0]
        seen.declared |= {"zoned": True} if "%z" in formats[0] else {}
        if len(formats) > 1:
            others = ", ".join(f'"{format_}"' for format_ in formats[1:])
            seen.notes.append(f"The format is not sure: the dates seen can also be read as {others}.")
        return
    marks = [(point, mark) for point, mark in _MARKS if _reads(Number(decimal=point, thousands=mark), texts)]
    if marks:
        both = marks[:2] == [(".", ","), (",", None)]
        decimal, thousands = marks[1] if both and (seen.point == "," or _ungrouped(texts)) else marks[0]
        seen.kind = "integer" if _reads(Integer(decimal=decimal, thousands=thousands), texts) else "number"
        seen.declared |= {"decimal": decimal} if decimal != "." else {}
        seen.declared |= {"thousands": thousands} if thousands else {}
        seen.doubtful = both and thousands is not None and seen.point is None
        seen.notes += _COMMA if seen.doubtful else ()
        seen.point = seen.point if seen.doubtful else decimal
        return
    if sum(bool(_DATE.search(text)) for text in texts) > len(texts) / 2:
        seen.notes.append("Looks like dates, in none of the formats that are tried, or in several: write them alike,")
        seen.notes.append('and declare kind = "datetime" with their format.')
    elif all(_MEASURE.fullmatch(text) for text in texts):
        _measures(texts, seen)


def _measures(texts: set[str], seen: Observed) -> None:
    """Numbers with a sign or a unit: if several share it, they are read without it; what one has may name somebody."""
    units = {_UNIT.sub("", text) for text in texts}
    if len(texts) == 1:
        seen.notes.append("Looks like a number with a sign or a unit: declare a number and its unit.")
        return
    if len(units) == 1:
        unit = units.pop()
        plain = {Number(unit=unit).without_unit(text) for text in texts}
        inner = Observed("category", point=seen.point)
        if not plain & texts:
            _kind_of_text("", list(plain), inner)
        if inner.kind in ("number", "integer"):
            seen.kind, seen.point, seen.doubtful = inner.kind, inner.point, inner.doubtful
            seen.declared |= inner.declared | {"unit": unit}
            seen.notes += inner.notes
            return
    seen.notes.append("Looks like numbers with signs or units, not all alike: write them alike, and declare a number")
    seen.notes.append("and its unit.")


def _judge_point(texts: set[str], seen: Observed) -> None:
    """Say so where what is read as decimals can be thousands, and is not known from other columns."""
    if seen.kind not in ("number", "integer") or not any("." in text for text in texts):
        return
    grouped = _reads(Number(decimal=",", thousands="."), texts) and not _ungrouped(texts)
    if not grouped:
        seen.point = "."
    elif seen.point == ",":
        seen.kind = "integer"
        seen.declared |= {"decimal": ",", "thousands": "."}
    elif seen.point is None:
        seen.doubtful = True
        seen.notes += _POINT


def _ungrouped(texts: set[str]) -> bool:
    return any(re.match(r"[+-]?\d{4}", text) for text in texts)


def _in_format(texts: set[str], format_: str) -> bool:
    with suppress(ValueError):
        return all(datetime.strptime(text, format_) for text in texts)
    return False


def _reads(column: Column, texts: Iterable[str]) -> bool:
    with suppress(TableError):
        for text in texts:
            column.read_text(text)
        return True
    return False
