"""Columns of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from numbers import Rational, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headwater.public.errors import SchemaError, TableError
from headwater.public.grid import Grid, step_of
from headwater.public.number_text import WrittenNumber
from headwater.public.partition import MOST_VALUES, Flags
from headwater.public.rounding import Rounding
from headwater.public.series import Values
from headwater.public.values import finite

_REAL = (Real, Decimal, np.integer, np.floating)

LARGEST_BOUND = 1 << 62
"""Bounds of whole numbers are not farther than this from 0, so that a machine word can hold what lies beyond."""


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
    numbers: ClassVar[type[np.generic]] = np.float64
    required: ClassVar[Mapping[str, str]] = {"low": "low = 0.0", "high": "high = 1.0"}

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("low", "high"):
            bound = getattr(self, name)
            if bound is not None:
                number = finite(bound)
                if number is None:
                    raise SchemaError(f"{name} must be a finite number", f"write for example {self.required[name]}")
                self.set(**{name: number})
        if self.low is not None and self.high is not None:
            if not self.low < self.high:
                raise SchemaError("low must be below high", "write the lower bound as low, the upper as high")
            if not np.isfinite(self.high - self.low):
                raise SchemaError("low and high are too far apart", "declare bounds whose difference is a number")
        if self.scale not in ("linear", "log"):
            raise SchemaError('scale must be "linear" or "log"', 'write scale = "log" or leave it out')
        step_of(self.step, self.decimals, (self.low, self.high))
        if self.low is not None and self.scale == "log":
            if self.low <= 0:
                remedy = "declare as low the smallest value that matters, such as 0.01: 0 counts as it"
                raise SchemaError('low must be above 0 where scale = "log"', remedy)
            if self.high is not None and not np.isfinite(self.high / self.low):
                raise SchemaError("low and high are too far apart", "declare bounds whose ratio is a number")
        if self.low is not None and self.high is not None:
            _ = self.grid  # which is refused here if it cannot be

    @cached_property
    def grid(self) -> Grid | None:
        """The multiples of the step, if there is one."""
        low, high = self.limits
        step = step_of(self.step, self.decimals, (low, high))
        return None if step is None else Grid.of(low, high, step)

    @cached_property
    def rounding(self) -> Rounding:
        """How values come out where there is no step."""
        return Rounding.of(*self.limits, log=self.scale == "log")

    @property
    def size(self) -> int | None:
        """How many steps there are; without them, or on a logarithmic scale, it is a continuum."""
        return None if self.grid is None or self.scale == "log" else self.grid.size

    @property
    def limits(self) -> tuple[float, float]:
        """The bounds."""
        self.check()
        assert self.low is not None and self.high is not None  # noqa: S101, PT018 - for the type checker
        return self.low, self.high

    def _read_text(self, text: str) -> float | None:
        """A decimal number, also ``inf``; blank text and ``nan`` are missing."""
        text = text.strip()
        if not text:
            return None
        number = float(self.number(text, float))
        return None if number != number else number  # only NaN is not itself

    def _parse(self, value: Any) -> float:  # noqa: ANN401 - a value of any type
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

    def _cast(self, values: Values) -> NDArray[Any]:
        data = np.asarray(values.data)
        if data.dtype.kind not in "fiu":
            raise self.wrong(data)
        return data.astype(np.float64, copy=False)

    def _with_zeros(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Numbers, where 0 is the lower bound if a logarithmic scale has no place for it."""
        return np.where(numbers == 0, self.limits[0], numbers) if self.scale == "log" else numbers

    def _outside(self, values: Values, numbers: NDArray[Any]) -> Flags | None:
        return super()._outside(values, self._with_zeros(numbers))

    def _fit(self, numbers: NDArray[Any], missing: Flags | None) -> NDArray[Any]:
        low, high = self.limits
        shares = super()._fit(self._with_zeros(numbers), missing).astype(np.float64, copy=False)
        if self.scale == "log":  # of each number by itself, so batches stay concatenations of records
            ratios: NDArray[Any] = np.clip(np.log(shares / low) / np.log(high / low), 0, 1)
            return ratios
        if self.grid is not None:
            return self.grid.index(shares)
        shares -= low  # clipping has made a copy
        shares /= high - low
        return shares

    def exact(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Shares of the way from ``low`` to ``high`` as numbers, with all their digits."""
        low, high = self.limits
        if self.scale == "log":
            found = np.where(numbers >= 1, high, low * np.exp(numbers * np.log(high / low)))
        else:
            found = numbers * high
            found += (1 - numbers) * low
        return np.clip(found, low, high, out=found)

    def step_at(self, number: float) -> float:
        """What values near a number come out as multiples of; an upper bound if there is a step."""
        return self.rounding.unit(number) if self.grid is None else self.grid.step / 10.0**self.grid.digits

    def raw(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Shares of the way from ``low`` to ``high``, rounded, both ends met exactly; or numbers of steps."""
        low, high = self.limits
        if self.grid is not None:
            return self.grid.value(numbers if self.scale == "linear" else self.grid.index(self.exact(numbers)))
        found = self.exact(numbers)
        rounded = np.clip(self.rounding.apply(found), low, high)
        np.copyto(rounded, low, where=found <= low)  # a bound may have more digits than other values
        np.copyto(rounded, high, where=found >= high)
        return rounded


class Coordinate(Number):
    """A coordinate of the unit cube. It is no column of anybody's table, and comes out bit for bit."""

    def raw(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """The coordinates themselves."""
        inside: NDArray[Any] = np.clip(numbers, 0.0, 1.0)
        return inside


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
        for name in ("low", "high"):
            bound = getattr(self, name)
            if bound is not None:
                if isinstance(bound, bool) or not isinstance(bound, int | np.integer):
                    raise SchemaError(f"{name} must be a whole number", f"write for example {self.required[name]}")
                if not -LARGEST_BOUND <= bound <= LARGEST_BOUND:
                    raise SchemaError(f"{name} must lie between −2^62 and 2^62", "declare a bound nearer to 0")
                self.set(**{name: int(bound)})
        if self.low is not None and self.high is not None:
            if self.low > self.high:
                raise SchemaError("low must not be above high", "write the lower bound as low, the upper as high")
            if self.high - self.low >= MOST_VALUES:
                raise SchemaError("there are more than 2^53 values", "declare bounds that are nearer, or use Number")

    @property
    def size(self) -> int:
        """How many whole numbers there are from ``low`` to ``high``."""
        low, high = self.limits
        return high - low + 1

    @property
    def limits(self) -> tuple[int, int]:
        """The bounds."""
        self.check()
        assert self.low is not None and self.high is not None  # noqa: S101, PT018 - for the type checker
        return self.low, self.high

    def _read_text(self, text: str) -> int | None:
        """A decimal number without a fraction: ``7``, ``7.0``, ``7e0``; blank text and ``nan`` are missing."""
        text = text.strip()
        value = self.number(text, Decimal) if text else Decimal("nan")
        return None if value.is_nan() else _whole(value)

    def _parse(self, value: Any) -> int:  # noqa: ANN401 - a value of any type
        if type(value) is int or type(value) is float:  # asking for all kinds of numbers takes longer than the rest
            return _whole(value)
        if isinstance(value, np.number):
            value = value.item()
        if isinstance(value, bool) or not isinstance(value, float | Decimal | Rational):
            raise self.wrong(value)
        return _whole(value)

    def _cast(self, values: Values) -> NDArray[Any]:
        data = np.asarray(values.data)
        if data.dtype.kind == "f":
            data = data if values.missing is None else np.where(values.missing, 0.0, data)
            broken = data != np.floor(data)
            if broken.any():
                raise _fraction(int(np.argmax(broken)))
            data = np.clip(data, -1.5 * LARGEST_BOUND, 1.5 * LARGEST_BOUND)
        elif data.dtype.kind == "u":
            data = np.minimum(data, np.uint64(2 * LARGEST_BOUND - 1))
        elif data.dtype.kind != "i":
            raise self.wrong(data)
        return data.astype(np.int64, copy=False)

    def _fit(self, numbers: NDArray[Any], missing: Flags | None) -> NDArray[Any]:
        return super()._fit(numbers.astype(np.int64, copy=False), missing) - self.limits[0]

    def raw(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Counted from ``low``."""
        return numbers + self.limits[0]


def _whole(value: Any) -> int:  # noqa: ANN401 - float, Decimal or Rational
    """A whole number in a machine word, far ones as the farthest; no fraction is rounded."""
    if (
        not -LARGEST_BOUND <= value <= LARGEST_BOUND
    ):  # before all else: 10^999999999 is written quickly and computed slowly
        return LARGEST_BOUND + 1 if value > 0 else -LARGEST_BOUND - 1
    whole = int(value)
    if whole != value:
        raise _fraction(0)
    return whole


def _fraction(index: int) -> TableError:
    problem, sender = "a number with a fraction, not a whole number", "round it before"
    return TableError(problem, f"{sender}, or declare Number", sender=sender, row=index)
