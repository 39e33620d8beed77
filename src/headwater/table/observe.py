"""What some values of a column suggest: its kind, how it is written, and what a person should know before using it.

Everything found is a guess for a person to check. No value leaves this module: only names of formats, of texts that
commonly mean "missing", units that several numbers share, and numbers of decimals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any

from headwater.table.column import Column
from headwater.table.columns import Datetime, Integer, Number, TimeOfDay
from headwater.table.errors import TableError
from headwater.table.observe_values import ZONED, look_at_identity, look_at_numbers, look_at_times
from headwater.table.observed import Observed
from headwater.table.values import is_missing

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
    """What values suggest.

    Parameters
    ----------
    name
        Of the column.
    values
        Some of its values, as texts or as a library has them; None where one is missing.
    kind
        The kind that follows from the type of the column; None if it is text.
    point
        What comes before decimals in other columns, if that is known.

    Examples
    --------
    >>> observe("day", ["13.01.2024", "NA"]).declared
    {'format': '%d.%m.%Y', 'null_values': ['NA'], 'missing': True, 'step': '1d'}
    """
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
    """Whether some number of four digits has no mark between thousands: then no number has one."""
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
