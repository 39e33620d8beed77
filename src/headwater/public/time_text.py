"""How moments are written: ISO 8601, a declared format, or numbers that count from 1970 on."""

from __future__ import annotations

import re
import warnings
from contextlib import suppress
from datetime import UTC, datetime, time
from decimal import MAX_PREC, ROUND_FLOOR, Context, Decimal, InvalidOperation
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np

from headwater.public.errors import SchemaError, TableError

EPOCH = {"epoch-s": 6, "epoch-ms": 3, "epoch-us": 0, "epoch-ns": -3}
"""Formats that count from the beginning of 1970 (in UTC): how many microseconds one of them is, as a power of ten."""

_FARTHEST = 1 << 62  # microseconds; no bound is that far
_NEAREST = -40  # power of ten; no unit of time makes a microsecond of less
_EXACT = Context(prec=MAX_PREC)
_EXAMPLE = datetime(2001, 11, 22, 23, 58, 59, tzinfo=UTC)


def check_format(format_: object, *, dates: bool) -> None:
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


def read_moment(kind: type[datetime] | type[time], text: str, format_: str | None, wants: str, example: str) -> Any:  # noqa: ANN401
    """Text as a moment, in the declared format or else in ISO 8601."""
    with suppress(ValueError):
        if format_ is None:
            return kind.fromisoformat(text.strip())
        found = datetime.strptime(text.strip(), format_)
        return found if kind is datetime else found.timetz()
    if format_ is None:
        sender = f"write it as {example} (ISO 8601)"
        raise TableError(
            f"text that is not {wants}", f"{sender}, or declare the format that the file has", sender=sender
        )
    problem = f"text that is not {wants} in the declared format {format_}"
    raise TableError(problem, "correct the text, or the format", sender="correct the text")


def count_of(value: Any, format_: str) -> int:  # noqa: ANN401 - text or a number
    """A number that counts from 1970 on, or its text, in microseconds, rounded down; far ones as the farthest."""
    number: Any = value.item() if isinstance(value, np.number) else value
    if isinstance(number, str):
        number = None
        with suppress(InvalidOperation):
            number = Decimal(value.strip()) if "_" not in value else None
    numeric = isinstance(number, int | float | Decimal | Rational) and not isinstance(number, bool)
    if not numeric or (number.is_nan() if isinstance(number, Decimal) else number != number):
        problem, sender = f"a value that is no count of time ({format_})", "give a number"
        raise TableError(problem, f"{sender}, or declare another format", sender=sender)
    if not -_FARTHEST < number < _FARTHEST:  # before all else: 10^999999999 is written quickly and computed slowly
        return _FARTHEST if number > 0 else -_FARTHEST
    if isinstance(number, Decimal) and number.adjusted() < _NEAREST:  # 10^−999999999 as well
        return -1 if number < 0 else 0
    if isinstance(number, Decimal):  # shifted and cut as digits: as a fraction, a million of them take half a minute
        microseconds = int(number.scaleb(EPOCH[format_], _EXACT).to_integral_value(ROUND_FLOOR))
    else:
        microseconds = int(Fraction(number) * Fraction(10) ** EPOCH[format_] // 1)
    return max(-_FARTHEST, min(_FARTHEST, microseconds))
