"""Lengths of time as people write them: "30s", "15min", "1h"."""

from __future__ import annotations

import re
from fractions import Fraction

UNITS = {"us": 1, "ms": 10**3, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
"""Units of time, in microseconds."""

_TEXT = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*(us|ms|s|min|h|d)\s*", re.ASCII)


def microseconds(text: str) -> Fraction | None:
    """The length of time that a text names, in microseconds; ``None`` if it names none above 0.

    Parameters
    ----------
    text
        A number and one of `UNITS`, such as ``"15min"`` or ``"1.5h"``.

    >>> microseconds("1.5ms"), microseconds("soon")
    (Fraction(1500, 1), None)
    """
    match = _TEXT.fullmatch(text)
    length = Fraction(match[1]) * UNITS[match[2]] if match else Fraction(0)
    return length if length > 0 else None
