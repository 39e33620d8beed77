"""Steps, moments and time zones: from what people write to numbers, and back to names."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import numpy as np

from headwater.public import person as durations
from headwater.public.errors import SchemaError

UNITS = durations.UNITS
DAY = UNITS["d"]
MICROSECOND = timedelta(microseconds=1)
NAIVE, AWARE = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(step: object) -> int:
    """The length of a step such as "15min".

    >>> microseconds("1ms")
    1000
    """
    length = durations.microseconds(step) if isinstance(step, str) else None
    if length is None or length >= 1 << 62 or length.denominator != 1:
        raise SchemaError(
            'step must be such as "1s" or "15min"', f'write for example step = "1s"; units are {", ".join(UNITS)}'
        )
    return int(length)


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


def epoch(moment: datetime) -> int:
    """Microseconds since 1970 began: in UTC, or on the clock of a moment without a zone."""
    return (moment - (NAIVE if moment.tzinfo is None else AWARE)) // MICROSECOND


def zone_name(moment: datetime) -> str:
    """The name of a time zone that other libraries know too: a place, UTC, or such as +01:00."""
    key = getattr(moment.tzinfo, "key", None)
    if isinstance(key, str):
        return key
    offset = moment.isoformat()[-6:]
    return "UTC" if offset == "+00:00" else offset


def zone_of(name: str) -> tzinfo:
    """The time zone that `zone_name` names."""
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
