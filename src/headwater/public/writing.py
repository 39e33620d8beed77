"""How people write numbers, dates and what is missing: what a draft of a schema tries."""

from __future__ import annotations

import re

NULLS = (
    *("NA", "N/A", "n/a", "#N/A", "NULL", "Null", "null", "None", "none", "NaN", "nan", "?", "-", "--", ".", "\\N"),
    *("n.a.", "N.A.", "k.A.", "k. A.", "keine Angabe", "o.A.", "o. A.", "n.v.", "n. v.", "n.b."),  # German
    *("nil", "unknown", "Unknown", "<NA>", "#NV", "*", "NaT", "(null)", "#DIV/0!"),
    *("n/d", "N/D", "n.d.", "N.D.", "s/d", "S/D", "s.d.", "s/o", "S/O", "s.o.", "S.O."),  # French, Spanish, Portuguese
)
"""Texts that commonly mean "missing"; none that is an abbreviation of something else as often, such as ND."""

DAYS = ("%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d/%m/%y", "%m/%d/%y", "%d.%m.%y")
NAMED = ("%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%a, %d %b %Y")
CLOCKS = ("", " %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p")
WHOLE = ("%d/%b/%Y:%H:%M:%S %z", "%a %b %d %H:%M:%S %Y", "%a, %d %b %Y %H:%M:%S %z", "%a, %d %b %Y %H:%M:%S GMT")
DATE_FORMATS = tuple(day + clock for days in (DAYS, NAMED) for clock in CLOCKS for day in days) + WHOLE
"""Formats of dates that are tried after ISO 8601."""

TIME_NAME = re.compile(r"time|date|stamp|epoch|(^|_)(ts|at|on)$|day", re.IGNORECASE)
DATE = re.compile(
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d{1,2}\.?[ -][A-Z][a-z]{2}"
    r"|[A-Z][a-z]{2,8}\.? \d{1,2}(st|nd|rd|th)?,? (\d{4}|\d\d:)"
)
MEASURE = re.compile(r"[+-]?[^\w\s.,+-]{1,3} ?[+-]?\d[\d.,]*|[+-]?\d[\d.,]* ?([^\w\s.,:/-]|[A-Za-z]{1,3}\b)")
UNIT = re.compile(r"[\s\d.,+'\u2019-]")
"""All but the unit of a number."""
MARKS = (
    *((".", ","), (",", None), (",", ".")),
    *((point, mark) for mark in (" ", "\u00a0", "\u202f", "'", "\u2019") for point in (".", ",")),
)
COMMA = (
    "Not sure: three digits follow every comma, so it is read as one between thousands.",
    'If decimals follow it, declare kind = "number" and decimal = "," instead of thousands.',
)
POINT = (
    "Not sure: three digits follow every point, and they are read as decimals.",
    'If it stands between thousands, declare kind = "integer", decimal = "," and thousands = ".".',
)
DAY_CLOCKS = ("%H.%M.%S", "%I:%M:%S %p", "%I:%M %p", "%Hh%M", "%Hh%Mm%Ss")
"""Formats of times of the day that are tried after ISO 8601."""
