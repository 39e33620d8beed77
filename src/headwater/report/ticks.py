"""Round numbers and dates to write on an axis, as pairs of a position from 0 to 1 and a label.

Every axis of the page is made here; the script of the page only leaves labels out where there is no room.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any

from headwater.evaluation.axes import ColumnAxis
from headwater.public.moments import microseconds

Ticks = list[tuple[float, str]]

WANTED = 6  # the page leaves some out where there is no room

_DAY = 86_400
_BIG = 10_000_000  # from here on numbers are written as powers of ten
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_LONG = 10_000  # from here on thousands are divided: years are not
_SECONDS = (1, 5, 15, 30, 60, 300, 900, 1_800, 3_600, 7_200, 10_800, 14_400, 21_600, 43_200, _DAY, 2 * _DAY, 7 * _DAY)
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1_200, 2_400, 6_000, 12_000)


@dataclass(frozen=True)
class Tail:
    """An axis for a long tail: where parts of a range lie if positions follow the logarithm of ``1 + steep · part``."""

    steep: float

    def position(self, part: float) -> float:
        """Where a part of the range lies.

        >>> Tail(9).position(0), round(Tail(9).position(1 / 9), 3), Tail(9).position(1)
        (0.0, 0.301, 1.0)
        """
        return math.log1p(self.steep * part) / math.log1p(self.steep)

    def part(self, position: float) -> float:
        """`position` backwards."""
        return min(math.expm1(position * math.log1p(self.steep)) / self.steep, 1.0)


def of(column: ColumnAxis, tail: Tail | None = None) -> Ticks:
    """The ticks of a column with an order."""
    declared, values = column.declared, column.axis.values
    if tail is not None or declared.get("scale") == "log":
        return _powers(column, tail)
    if column.kind == "datetime":
        return datetimes(*drawn(column))
    if column.kind == "time-of-day":
        return [(hour / 24, f"{hour:02d}:00") for hour in range(0, 25, 4)]
    low, high = Fraction(declared["low"]), Fraction(declared["high"])
    if values is None:
        return numbers(low, high)
    if column.kind == "number":  # a step stands in the middle of its stretch
        half = (high - low) / max(values - 1, 1) / 2
        return numbers(low - half, high + half)
    return [(float((v - low + Fraction(1, 2)) / values), label) for v, label in _round(low, high, whole=True)]


def _powers(column: ColumnAxis, tail: Tail | None) -> Ticks:
    """The lower bound, and powers of ten where they are not too close to it or to each other."""
    low, high = float(column.declared["low"]), float(column.declared["high"])
    whole = column.kind == "integer"  # stands in the middle of its stretch

    def place(value: float) -> float:
        if tail is None:
            return math.log(value / low) / math.log(high / low)
        part = (value - low + 0.5) / (high - low + 1) if whole else (value - low) / (high - low)
        return tail.position(min(part, 1.0))

    least = low if low > 0 else (high - low) / (10 * tail.steep if tail else 1e6)
    decades = range(math.floor(math.log10(least)), math.ceil(math.log10(high)) + 1)
    marks = [low] if tail else []
    marks += [Fraction(10) ** decade for decade in decades if low < Fraction(10) ** decade <= high]  # type: ignore[misc]
    found = Ticks()
    for value in marks:
        if not found or place(float(value)) - found[-1][0] > 0.04:
            found.append((place(float(value)), _label(Fraction(value)) if value else "0"))
    return found


def stretches(column: ColumnAxis, edges: Sequence[float]) -> list[str]:
    """What the bins between these positions are called."""
    declared, values = column.declared, column.axis.values
    if column.kind in ("datetime", "time-of-day"):
        start, end = drawn(column)
        form = "%H:%M:%S" if column.kind == "time-of-day" else "%Y-%m-%d %H:%M"
        texts = [(start + edge * (end - start)).strftime(form) for edge in edges]
    elif values is not None and column.kind != "number":
        numbered = [round(edge * values) for edge in edges]
        pairs = [(declared["low"] + a, declared["low"] + b - 1) for a, b in pairwise(numbered)]
        form = "," if max(abs(declared["low"]), abs(declared["high"])) >= _LONG else ""
        return [f"{a:{form}}" if a == b else f"{a:{form}} to {b:{form}}" for a, b in pairs]
    else:
        low, high = declared["low"], declared["high"]
        log = declared.get("scale") == "log"
        texts = [f"{low * (high / low) ** edge if log else low + edge * (high - low):.6g}" for edge in edges]
    return [f"{a} to {b}" for a, b in pairwise(texts)]


def drawn(column: ColumnAxis) -> tuple[datetime, datetime]:
    """Where the axis of a column of moments starts, and where its last step ends."""
    if column.kind == "time-of-day":
        return datetime(1, 1, 1), datetime(1, 1, 2)
    start = datetime.fromisoformat(str(column.declared["start"]))
    step = timedelta(microseconds=microseconds(column.declared.get("step", "1s")))
    try:
        return start, start + (column.axis.values or 1) * step
    except OverflowError:  # the last step ends after the year 9999
        return start, datetime.max.replace(tzinfo=start.tzinfo)


def numbers(low: Fraction, high: Fraction) -> Ticks:
    """Round numbers between two bounds.

    >>> numbers(Fraction(0), Fraction(4))
    [(0.0, '0'), (0.25, '1'), (0.5, '2'), (0.75, '3'), (1.0, '4')]
    """
    return [(float((value - low) / (high - low)), label) for value, label in _round(low, high)]


@dataclass(frozen=True)
class Scale:
    """Where whole numbers lie on an axis, from 0 at ``low`` to 1 at ``high``."""

    low: float
    high: float

    @staticmethod
    def of(low: int, high: int) -> Scale:
        """A scale that holds some numbers; a single one stands in the middle."""
        return Scale(low, high) if low < high else Scale(low - 0.5, high + 0.5)

    def at(self, value: float) -> float:
        return round((value - self.low) / (self.high - self.low), 6)

    def to_dict(self, label: str) -> dict[str, Any]:
        """What the page needs to draw the axis.

        >>> Scale.of(0, 4_000).to_dict("t")["ticks"]
        [(0.0, '0'), (0.25, '1000'), (0.5, '2000'), (0.75, '3000'), (1.0, '4000')]
        """
        values = _round(Fraction(self.low), Fraction(self.high), whole=True)
        return {"label": label, "ticks": [(self.at(float(value)), text) for value, text in values]}


def _round(low: Fraction, high: Fraction, *, whole: bool = False) -> Iterator[tuple[Fraction, str]]:
    """Multiples of 1, 2 or 5 times a power of ten, at most `WANTED` and one."""
    rough = max((high - low) / WANTED, Fraction(1 if whole else 0))
    power = Fraction(10) ** math.floor(math.log10(rough))
    step = next(step for factor in (1, 2, 5, 10, 20) if (step := factor * power) >= rough)
    digits = max(0, -math.floor(math.log10(step)))
    most = max(abs(low), abs(high))
    comma = "," if most >= _LONG else ""
    for i in range(math.ceil(low / step), math.floor(high / step) + 1):
        value = i * step
        yield value, _power(value) if most >= _BIG or digits > 6 else f"{float(value):{comma}.{digits}f}"


def _label(value: Fraction) -> str:
    return f"{int(value):,}" if 1 <= value < _BIG else _power(value)


def _power(value: Fraction) -> str:
    """A number as people write very large and very small ones.

    >>> _power(Fraction(10**7)), _power(Fraction(-5, 10**6)), _power(Fraction(1, 4))
    ('10⁷', '-5·10⁻⁶', '0.25')
    """
    number, _, power = f"{float(value):g}".partition("e")
    if not power:
        return number
    times = number.removesuffix("1") if number in ("1", "-1") else f"{number}·"
    return f"{times}10{str(int(power)).translate(_RAISED)}"


def datetimes(start: datetime, end: datetime) -> Ticks:
    """Round dates or times between two bounds, in the first one's offset from UTC if it has one.

    >>> [label for _, label in datetimes(datetime(2013, 1, 1), datetime(2014, 1, 1))]
    ['Jan 2013', 'Mar 2013', 'May 2013', 'Jul 2013', 'Sep 2013', 'Nov 2013', 'Jan 2014']
    >>> datetimes(datetime(2013, 1, 1, 6), datetime(2013, 1, 2))[2]
    (0.3333333333333333, '12:00')
    """
    span = (end - start).total_seconds()
    every = next((s for s in _SECONDS if span / s <= WANTED + 1), None)
    moments = _months(start, end) if every is None else _evenly(start, end, every)
    if every is None:
        form = "%Y" if span > 4 * 366 * _DAY else "%b %Y"
    elif every >= _DAY:
        form = "%-d %b"
    else:
        form = ("%H:%M" if every >= 60 else "%H:%M:%S") if span <= _DAY else "%-d %b %H:%M"
    # The day without a leading zero is spelt differently on different systems, so it is put in by hand.
    return [((m - start).total_seconds() / span, m.strftime(form.replace("%-d", str(m.day)))) for m in moments]


def _evenly(start: datetime, end: datetime, seconds: int) -> Iterator[datetime]:
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    step = timedelta(seconds=seconds)
    moment = midnight + math.ceil((start - midnight) / step) * step
    while moment <= end:
        yield moment
        moment += step


def _months(start: datetime, end: datetime) -> Iterator[datetime]:
    spanned = (end.year - start.year) * 12 + end.month - start.month
    step = next((m for m in _MONTHS if spanned / m <= WANTED + 1), _MONTHS[-1])
    first = -(-(start.year * 12 + start.month - 1) // step) * step
    for number in range(first, end.year * 12 + end.month, step):
        if number // 12 <= datetime.max.year:
            month = datetime(number // 12, number % 12 + 1, 1, tzinfo=start.tzinfo)
            if start <= month <= end:
                yield month
