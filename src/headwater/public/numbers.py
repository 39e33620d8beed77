"""Columns of numbers: real ones and whole ones, and how text has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cached_property
from numbers import Rational, Real
from typing import Any, ClassVar

import numpy as np

from headwater.public.columns import Array, Bounded, Read, finite, halved, read_with
from headwater.public.errors import TableError, is_unicode, need
from headwater.public.partition import MOST_VALUES, Flags
from headwater.public.rounding import Grid, Rounding, step_of
from headwater.public.tables import Values, kept, pyarrow, whole, without

LARGEST_BOUND = 1 << 62
"""Bounds of whole numbers are not farther than this from 0, so that a machine word can hold what lies beyond."""

_REAL = (Real, Decimal, np.integer, np.floating)
_LONGEST_UNIT = 20
_LONGEST_WHOLE = 18  # characters of a whole number that lies within `LARGEST_BOUND`
_HEAD = 32
_PLAIN = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_POINTED = r"^[+-]?[0-9]+(?:\.[0-9]*)?$"
_ROOT, _LOG_2 = 0.7071067811865476, 0.6931471805599453
_LAST_TERM = 23  # of a series whose terms behind it are smaller than the last digit of a float
_SURE_DIGITS = 15  # of a number that a float is nearest to, and to no other one of so many digits
_FRACTION = TableError("a number with a fraction, not a whole number", "round it before, or declare Number")


@dataclass(frozen=True, repr=False)
class WrittenNumber(Bounded):
    """A column of numbers, and how text has them."""

    decimal: str = field(default=".", kw_only=True)
    thousands: str | None = field(default=None, kw_only=True)
    unit: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        remedy = 'write for example decimal = "," and thousands = ".", or leave them out'
        need(self.decimal in (".", ","), 'decimal must be "." or ","', remedy)
        if self.thousands is not None:
            mark: object = self.thousands
            one = isinstance(mark, str) and len(mark) == 1 and is_unicode(mark) and mark != self.decimal
            odd = not one or str(mark).isalnum() or str(mark) in "+-\n\r"
            need(not odd, "thousands must be one sign, another than decimal", remedy)
        if self.unit is not None:
            unit: object = self.unit
            odd = not isinstance(unit, str) or not unit.strip() or not is_unicode(unit) or len(unit) > _LONGEST_UNIT
            odd = odd or any(sign.isdigit() or sign in "+-.,_\r\n" for sign in str(unit))  # looks like a number
            problem = "unit must be text without digits, points, commas or signs of numbers"
            need(not odd, problem, 'write for example unit = "km"')
            self.set(unit=self.unit.strip())

    @property
    def is_plain(self) -> bool:
        """Whether text has numbers as programs write them."""
        return self.decimal == "." and self.thousands is None and self.unit is None

    def repeats(self, text: Any) -> bool:  # noqa: ANN401 - an array of pyarrow
        return not self.is_plain

    @cached_property
    def _groups(self) -> str:
        """Groups of digits; the last has three, those before it two or three. No thousands begin with 0."""
        mark = re.escape(self.thousands or "")
        return rf"[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{2,3}})*{mark}[0-9]{{3}}"

    @cached_property
    def _null_numbers(self) -> list[Any]:
        found = list[Any]()
        for text in filter(None, self.null_values):
            with suppress(TableError):
                found.append(self.text(text))
        return [number for number in found if number is not None]

    def read_text(self, text: str) -> Any:  # noqa: ANN401 - an int or a float
        """As every column; a number that is one of `null_values` means "missing" also if it is written otherwise."""
        number = super().read_text(text)
        return None if self.null_values and number in self._null_numbers else number

    def without_unit(self, text: str) -> str:
        """Text, without spaces around it, without the unit, which may stand on either side, also behind the sign."""
        if self.unit is None:
            return text
        sign, rest = (text[0], text[1:]) if text.startswith(("+", "-")) else ("", text)
        if rest.startswith(self.unit):
            return sign + rest.removeprefix(self.unit).lstrip()
        return sign + rest.removesuffix(self.unit).rstrip()

    def number(self, text: str, kind: Any) -> Any:  # noqa: ANN401 - float or Decimal
        """Trimmed text as a ``kind`` of number; underscores are Python's, not a table's."""
        text = self.without_unit(text)
        if self.thousands is not None and self.thousands in text:
            grouped = re.fullmatch(rf"[+-]?{self._groups}(?:{re.escape(self.decimal)}[0-9]*)?", text)
            text = text.replace(self.thousands, "") if grouped else "_"
        if self.decimal != ".":
            text = "_" if "." in text else text.replace(self.decimal, ".")
        with suppress(ValueError, InvalidOperation):
            if "_" not in text:
                return kind(text)
        mark = "point" if self.decimal == "." else "comma"
        remedy = f"write digits, with a {mark} for decimals, or declare decimal, thousands, unit or null_values"
        raise TableError("text that is not a number", remedy)

    def plain_digits(self, text: Any) -> Any:  # noqa: ANN401 - arrays of pyarrow
        """Text as it would be without unit, marks between thousands and decimal comma; null if it may be otherwise."""
        if self.is_plain:
            return text
        pc = pyarrow("compute")
        unit = "" if self.unit is None else re.escape(self.unit)
        digits = f"(?:[0-9]+{'' if self.thousands is None else '|' + self._groups})(?:{re.escape(self.decimal)}[0-9]*)?"
        ways = [digits, *([f"{unit} *{digits}", f"{digits} *{unit}"] if unit else [])]
        known = pc.match_substring_regex(text, f"^[+-]?(?:{'|'.join(ways)})$")
        for mark in (self.unit, self.thousands, " " if self.unit else None):
            text = text if mark is None else pc.replace_substring(text, mark, "")
        text = text if self.decimal == "." else pc.replace_substring(text, self.decimal, ".")
        return kept(text, known)


@dataclass(frozen=True, repr=False)
class Number(WrittenNumber):
    """A column of real numbers between two bounds.

    Parameters
    ----------
    low, high
        The bounds: finite numbers, declared and never taken from the data.
    step
        Values are multiples of this, counted from ``low``; others are rounded to the nearest.
    decimals
        The same with a number of decimals: 2 is a step of 0.01. With neither, values come out with six significant
        digits, or with more if a millionth of the range needs them (`headwater.public.rounding`).
    scale
        ``"log"`` resolves ratios instead of differences, for columns that span orders of magnitude; ``low`` must be
        above 0, and 0 counts as ``low``. Otherwise ``"linear"``.
    decimal, thousands
        How text has numbers: ``decimal=","`` and ``thousands="."`` read 1.234,5.
    unit
        What text may have before or after the number, and is left out: ``"$"`` reads $5.
    outside
        What happens to a value beyond a bound: ``"clip"`` takes the bound, ``"error"`` refuses the batch.
    missing, weight, null_values
        As for every `Column`: whether values may be missing, how finely it is resolved, texts that mean "missing".

    Examples
    --------
    >>> height = Number(0.5, 2.5)
    >>> height.encode([0.5, 1.0, 9.0, "2.0"]).tolist()
    [0.0, 0.25, 1.0, 0.75]
    >>> height.decode(np.array([0.25, 1.0]))
    (array([1. , 2.5]), None)
    >>> Number(0.01, 100, scale="log", decimals=2).encode([0.01, 1, 100]).tolist()
    [0.0, 0.5, 1.0]
    """

    low: float | None = None
    high: float | None = None
    step: float | None = field(default=None, kw_only=True)
    decimals: int | None = field(default=None, kw_only=True)
    scale: str = field(default="linear", kw_only=True)

    kind: ClassVar[str] = "number"
    wants: ClassVar[str] = "a number"
    dtype: ClassVar[type[np.generic]] = np.float64
    required: ClassVar[Mapping[str, str]] = {"low": "low = 0.0", "high": "high = 1.0"}

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, example in self.required.items():
            bound = getattr(self, name)
            known = bound is None or finite(bound) is not None
            need(known, f"{name} must be a finite number", f"write for example {example}")
            self.set(**{name: finite(bound)})
        need(self.scale in ("linear", "log"), 'scale must be "linear" or "log"', 'write scale = "log" or leave it out')
        step_of(self.step, self.decimals, (self.low, self.high))
        log, far = self.scale == "log", "low and high are too far apart"
        if self.low is not None and log:
            remedy = "declare as low the smallest value that matters, such as 0.01: 0 counts as it"
            need(self.low > 0, 'low must be above 0 where scale = "log"', remedy)
        if self.low is not None and self.high is not None:
            need(self.low < self.high, "low must be below high", "write the lower bound as low, the upper as high")
            need(finite(self.high - self.low) is not None, far, "declare bounds whose difference is a number")
            need(not log or finite(self.high / self.low) is not None, far, "declare bounds whose ratio is a number")
            _ = self.grid  # which is refused here if it cannot be

    @cached_property
    def grid(self) -> Grid | None:
        """The multiples of the step, if there is one."""
        step = step_of(self.step, self.decimals, self.limits)
        return None if step is None else Grid.of(*self.limits, step)

    @cached_property
    def rounding(self) -> Rounding:
        """How values come out where there is no step."""
        return Rounding.of(*self.limits, log=self.scale == "log")

    @property
    def size(self) -> int | None:
        """How many steps there are; without them, or on a logarithmic scale, it is a continuum."""
        return None if self.grid is None or self.scale == "log" else self.grid.size

    def text(self, text: str) -> float | None:
        """A decimal number, also ``inf``; ``nan`` is missing."""
        number = float(self.number(text, float))
        return None if number != number else number  # only NaN is not itself

    def at_once(self, text: Any) -> Any:  # noqa: ANN401 - arrays of pyarrow
        """What Arrow takes for a number, but for NaN, which it also takes for one with something in brackets."""
        found = halved(lambda some: some.cast("double"), self.plain_digits(text), _PLAIN)
        return without(found, pyarrow("compute").is_nan(found))

    def parse(self, value: Any) -> float:  # noqa: ANN401 - a value of any type
        if type(value) is float:
            return value
        if type(value) is int or (isinstance(value, _REAL) and not isinstance(value, bool)):
            try:
                return float(value)
            except OverflowError:
                return float("inf" if value > 0 else "-inf")  # type: ignore[operator]  # all of them compare
            except (TypeError, ValueError):
                pass
        raise self.wrong(value)

    def typed(self, values: Values) -> Read:
        if values.data.dtype.kind not in "fiu":
            return self.all_wrong(values)
        return Read(values.data.astype(np.float64, copy=False), values.missing if np.any(values.missing) else None)

    def beyond(self, numbers: Array) -> Flags | None:
        """Which numbers lie beyond a bound; where a logarithmic scale has no place for 0, it is the lower one."""
        return super().beyond(np.where(numbers == 0, self.limits[0], numbers) if self.scale == "log" else numbers)

    def off(self, numbers: Array, fitted: Array) -> Flags | None:
        return None if self.grid is None else self.grid.off(np.clip(numbers, *self.limits))

    def fit(self, numbers: Array) -> Array:
        """Shares of the way from ``low`` to ``high``, or numbers of steps."""
        low, high = self.limits
        shares: Array = np.clip(numbers, low, high)
        if self.scale == "log":  # of each number by itself, so batches stay concatenations of records
            ratios: Array = np.clip(_logarithms(shares / low) / _logarithms(np.array([high / low])), 0, 1)
            return ratios
        if self.grid is not None:
            return self.grid.index(shares)
        shares -= low  # clipping has made a copy
        shares /= high - low
        return shares

    def exact(self, numbers: Array) -> Array:
        """Shares of the way from ``low`` to ``high`` as numbers, with all their digits."""
        low, high = self.limits
        if self.scale == "log":
            found = np.where(numbers >= 1, high, low * np.exp(numbers * np.log(high / low)))
        else:
            found = numbers * high
            found += (1 - numbers) * low
        return np.asarray(np.clip(found, low, high, out=found))

    def step_at(self, number: float) -> float:
        """What values near a number come out as multiples of; an upper bound if there is a step."""
        return self.rounding.unit(number) if self.grid is None else self.grid.step / 10.0**self.grid.digits

    def raw(self, numbers: Array) -> Array:
        """Shares of the way from ``low`` to ``high``, rounded, both ends met exactly; or numbers of steps."""
        low, high = self.limits
        if self.grid is not None:
            return self.grid.value(numbers if self.scale == "linear" else self.grid.index(self.exact(numbers)))
        found = self.exact(numbers)
        rounded = np.clip(self.rounding.apply(found), low, high)
        np.copyto(rounded, low, where=found <= low)  # a bound may have more digits than other values
        np.copyto(rounded, high, where=found >= high)
        return rounded


def _logarithms(numbers: Array) -> Array:
    """Natural logarithms by exact steps, sums, products and quotients alone, which every processor rounds alike."""
    part, power = np.frexp(numbers)
    small = part < _ROOT
    part = np.where(small, 2 * part, part)  # from √½ to √2
    slope = (part - 1) / (part + 1)  # its inverse hyperbolic tangent, a series in its squares, is half of the logarithm
    square = slope * slope
    found = np.full_like(square, 1 / _LAST_TERM)
    for term in range(_LAST_TERM - 2, 0, -2):
        found *= square
        found += 1 / term
    logarithms: Array = (power - small) * _LOG_2 + 2 * slope * found
    return logarithms


class Coordinate(Number):
    """A coordinate of the unit cube. It is no column of anybody's table, and comes out bit for bit."""

    def raw(self, numbers: Array) -> Array:
        found: Array = np.clip(numbers, 0.0, 1.0)
        return found


@dataclass(frozen=True, repr=False)
class Integer(WrittenNumber):
    """A column of whole numbers between two bounds, both of them included.

    Parameters
    ----------
    low, high
        The bounds: whole numbers between −2^62 and 2^62, at most 2^53 values apart.
    decimal, thousands
        How text has numbers: ``decimal=","`` and ``thousands="."`` read 1.234,0.
    unit
        What text may have before or after the number, and is left out: ``"km"`` reads 5 km.
    outside
        What happens to a value beyond a bound: ``"clip"`` takes the bound, ``"error"`` refuses the batch.
    missing, weight, null_values
        As for every `Column`: whether values may be missing, how finely it is resolved, texts that mean "missing".

    Examples
    --------
    >>> Integer(1, 6).encode([1, 2.0, "6"]).tolist()
    [0.0, 0.125, 0.625]
    """

    low: int | None = None
    high: int | None = None

    kind: ClassVar[str] = "integer"
    wants: ClassVar[str] = "a whole number"
    required: ClassVar[Mapping[str, str]] = {"low": "low = 0", "high": "high = 100"}

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, example in self.required.items():
            bound = getattr(self, name)
            if bound is not None:
                is_whole = isinstance(bound, int | np.integer) and not isinstance(bound, bool)
                need(is_whole, f"{name} must be a whole number", f"write for example {example}")
                near = -LARGEST_BOUND <= bound <= LARGEST_BOUND
                need(near, f"{name} must lie between −2^62 and 2^62", "declare a bound nearer to 0")
                self.set(**{name: int(bound)})
        if self.low is not None and self.high is not None:
            remedy = "write the lower bound as low, the upper as high"
            need(self.low <= self.high, "low must not be above high", remedy)
            remedy = "declare bounds that are nearer, or use Number"
            need(self.high - self.low < MOST_VALUES, "there are more than 2^53 values", remedy)

    def text(self, text: str) -> int | None:
        """A decimal number without a fraction: ``7``, ``7.0``, ``7e0``; ``nan`` is missing."""
        value = self.number(text, Decimal)
        return None if value.is_nan() else _whole(value)

    def at_once(self, text: Any) -> Any:  # noqa: ANN401 - arrays of pyarrow
        """What Arrow takes for a whole number, but for hexadecimal ones; with a point, where a float is exact."""
        pa, pc = pyarrow(), pyarrow("compute")
        text = self.plain_digits(text)
        odd = pc.or_(pc.match_substring(text, "x"), pc.match_substring(text, "X"))
        text = without(text, pc.or_(odd, pc.greater(pc.binary_length(text), whole(_LONGEST_WHOLE))))
        with suppress(pa.ArrowInvalid):
            if len(text[:_HEAD].cast("int64")):  # before all of it: what it refuses, it refuses slowly
                return text.cast("int64")
        short = pc.less_equal(pc.binary_length(text), whole(_SURE_DIGITS))
        real = kept(text, pc.and_(short, pc.match_substring_regex(text, _POINTED))).cast("double")
        return kept(real, pc.equal(real, pc.floor(real))).cast("int64")

    def parse(self, value: Any) -> int:  # noqa: ANN401 - a value of any type
        if type(value) is int or type(value) is float:  # asking for all kinds of numbers takes longer than the rest
            return _whole(value)
        value = value.item() if isinstance(value, np.number) else value
        if isinstance(value, bool) or not isinstance(value, float | Decimal | Rational):
            raise self.wrong(value)
        return _whole(value)

    def typed(self, values: Values) -> Read:
        data, missing = values.data, values.missing
        broken = np.zeros(len(data), dtype=np.bool_)
        if data.dtype.kind == "f":
            data = data if missing is None else np.where(missing, 0.0, data)
            broken = data != np.floor(data)
            data = np.clip(data, -1.5 * LARGEST_BOUND, 1.5 * LARGEST_BOUND)
        elif data.dtype.kind == "u":
            data = np.minimum(data, np.uint64(2 * LARGEST_BOUND - 1))
        elif data.dtype.kind != "i":
            return self.all_wrong(values)
        return read_with(data.astype(np.int64, copy=False), missing, broken, _FRACTION)


def _whole(value: Any) -> int:  # noqa: ANN401 - float, Decimal or Rational
    """A whole number in a machine word, far ones as the farthest; no fraction is rounded."""
    if not -LARGEST_BOUND <= value <= LARGEST_BOUND:  # first of all: 10^999999999 is written quickly, computed slowly
        return LARGEST_BOUND + 1 if value > 0 else -LARGEST_BOUND - 1
    found = int(value)
    if found != value:
        raise _FRACTION.at()
    return found
