"""Single values of any type: whether one is missing, what kind it is, and numbers as arguments have them."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from numbers import Number as AnyNumber
from typing import Any

import numpy as np

from headwater.public.failures import failures

_NEVER_MISSING = frozenset({str, bool, int, datetime, date, time, list, tuple, dict})
"""Exactly these types: NaT says that it is a datetime."""


def is_missing(value: object) -> bool:
    """Whether an object stands for no value: None, NaN, NaT and their like."""
    if value is None:
        return True
    if type(value) in _NEVER_MISSING:
        return False
    if isinstance(value, Decimal):
        return value.is_nan()  # a signalling NaN cannot even be compared
    if type(value).__name__ in ("NAType", "NaTType"):
        return True
    try:
        return bool(value != value)  # only NaN is not itself
    except failures():  # something that cannot be compared, whatever it raises, is something
        return False


def finite(value: Any) -> float | None:  # noqa: ANN401 - an argument of any type
    """An argument as a float; None if it is no number, or none that a float can be."""
    try:
        number = float(value) if is_number(value) else math.nan
    except OverflowError:  # a whole number that no float is near to
        return None
    return number if math.isfinite(number) else None


def is_number(value: object) -> bool:
    """Whether an argument is a number; True and False are not."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def describe(value: object) -> str:
    """What kind of value this is, in words that say nothing about the value; of an array, what kind it holds."""
    if isinstance(value, np.ndarray):
        names = {"b": "a boolean", "f": "a number", "i": "a number", "u": "a number", "M": "a date", "m": "a time span"}
        return names.get(value.dtype.kind, "an object")
    for kind, name in _WORDS:
        if isinstance(value, kind):
            return name
    return f"an object of type {type(value).__name__}"


_WORDS: list[tuple[Any, str]] = [
    (bool | np.bool_, "a boolean"),
    (str, "text"),
    (bytes | bytearray, "bytes"),
    (datetime | np.datetime64, "a date and time"),
    (date, "a date"),
    (time, "a time of day"),
    (timedelta | np.timedelta64, "a time span"),
    (complex, "a complex number"),
    (AnyNumber | np.number | Decimal, "a number"),
    (list | tuple | np.ndarray, "a list"),
    (dict, "a record"),
]


def plain(value: Any) -> Any:  # noqa: ANN401 - an argument of any column
    """An argument as schema files have it."""
    if isinstance(value, tuple):
        return list(value)
    return value.isoformat() if isinstance(value, date) else value
