"""Numbers as multiples of a step, or with as many digits as their range is worth: exactly as people write them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.columns import finite
from headwater.public.errors import SchemaError

Floats = NDArray[np.float64]

DIGITS = 6
"""Significant digits of a number without a step, and the power of ten by which the range is divided at least."""
FINEST = 12
"""Numbers near 0 are told apart down to this power of ten below the range: rounding errors of floats are smaller."""

_LARGEST_UNITS = 1 << 50  # bounds in units of the last digit are not larger, so that rounding finds the nearest
_TENS = np.array([10.0**power for power in range(23)])  # those that are floats, exactly
_SMALLEST = 5e-324
_NEAR, _FLOAT_32 = 1e-6, 2.0**-23  # of a step, of a number


@dataclass(frozen=True)
class Grid:
    """The numbers ``(low + k·step) / 10^digits`` for ``k`` from 0 to ``size − 1``; all of them are whole.

    A quotient of two whole numbers that floats hold is the float nearest to the true number: so it is written with as
    few digits as the declaration has.

    >>> Grid.of(0.05, 0.3, 0.1).value(np.array([0, 1, 2])).tolist()
    [0.05, 0.15, 0.25]
    """

    low: int
    step: int
    digits: int
    size: int

    @staticmethod
    def of(low: float, high: float, step: float) -> Grid:
        """The multiples of ``step``, counted from ``low``, that are not above ``high``."""
        exact = [Decimal(repr(number)) for number in (low, step, high)]
        digits = max(0, *(-int(number.normalize().as_tuple().exponent) for number in exact[:2]))
        if digits > 15 or max(abs(low), abs(high)) * 10.0**digits > _LARGEST_UNITS:
            raise SchemaError("the bounds have too many digits for this step", "declare a coarser step, or none")
        start, by, end = (int((number * 10**digits).to_integral_value("ROUND_FLOOR")) for number in exact)
        if by > end - start:
            raise SchemaError("the step is larger than the way from low to high", "declare a smaller step")
        return Grid(start, by, digits, (end - start) // by + 1)

    def off(self, numbers: NDArray[Any]) -> NDArray[np.bool_]:
        """Which numbers are no multiples, even as the nearest float of 32 bits."""
        places = (numbers - self.low / 10.0**self.digits) / (self.step / 10.0**self.digits)
        size = np.abs(numbers) / (self.step / 10.0**self.digits)
        return np.asarray(np.abs(places - np.rint(places)) > _NEAR + _FLOAT_32 * size)

    def index(self, numbers: NDArray[Any]) -> NDArray[np.int64]:
        """The number ``k`` of the nearest value."""
        places = (numbers - self.low / 10.0**self.digits) / (self.step / 10.0**self.digits)
        return np.clip(np.rint(places), 0, self.size - 1).astype(np.int64)

    def value(self, index: NDArray[Any]) -> Floats:
        """`index` backwards."""
        return (self.low + index * self.step) / 10.0**self.digits


def step_of(step: object, decimals: object, bounds: tuple[float | None, float | None]) -> float | None:
    """The step that two arguments declare, one of which is enough; None if neither is given."""
    if decimals is None:
        size = None if step is None else finite(step)
        if step is not None and (size is None or size <= 0):
            raise SchemaError("step must be a positive number", "write for example step = 0.01, or leave it out")
        return size
    if step is not None:
        raise SchemaError("step and decimals are both declared", "declare one of them")
    if isinstance(decimals, bool) or not isinstance(decimals, int) or not 0 <= decimals <= 15:
        raise SchemaError("decimals must be a whole number from 0 to 15", "write for example decimals = 2")
    for bound in bounds:
        if bound is not None and round(bound, decimals) != bound:
            problem = f"a bound has more than {decimals} decimal(s)"
            raise SchemaError(problem, "round the bounds, or declare more decimals")
    return float(f"1e-{decimals}")


@dataclass(frozen=True)
class Rounding:
    """Numbers to a millionth of their range or to six significant digits, whichever is finer.

    It follows from the bounds alone, so it is public; it comes after all noise, so it costs no privacy. Six significant
    digits keep what lies near 0 of a range that was declared far too wide. No number is rounded to multiples of a
    larger power of ten than ``coarsest``, or of a smaller one than ``finest``.

    >>> Rounding.of(0, 1000).apply(np.array([523.41234567, 5.23412345678, 0.000012345])).tolist()
    [523.412, 5.23412, 1.2345e-05]
    >>> Rounding.of(1e6, 1e6 + 1).apply(np.array([1000000.12345678])).tolist()
    [1000000.123457]
    """

    coarsest: int
    finest: int

    @staticmethod
    def of(low: float, high: float, *, log: bool = False) -> Rounding:
        """The rounding of numbers between two bounds; on a logarithmic scale only ratios matter."""
        if log:
            return Rounding(_power(high) - DIGITS + 1, _power(low) - DIGITS + 1)
        width = _power(high - low)
        return Rounding(width - DIGITS, width - FINEST)

    def apply(self, numbers: Floats) -> Floats:
        """Numbers, each as the float that is nearest to its rounded value, so that it is written with few digits."""
        rounded = _multiples(numbers, self.coarsest)
        small = np.flatnonzero(np.abs(numbers) < float(f"1e{self.coarsest + DIGITS - 1}"))
        if len(small):
            some = numbers[small]
            rounded[small] = _multiples(some, self._powers(np.abs(some)))
        return rounded

    def unit(self, number: float) -> float:
        """What numbers near this one are rounded to multiples of."""
        return float(f"1e{self._powers(np.abs([number]))[0]}")

    def _powers(self, sizes: Floats) -> NDArray[np.int64]:
        """The power of ten that each of some positive numbers, or 0, is rounded to multiples of."""
        above = np.maximum(sizes, max(float(f"1e{self.finest}"), _SMALLEST))  # 0 has no logarithm
        powers = np.floor(np.log10(above)).astype(np.int64) - DIGITS + 1
        return np.clip(powers, self.finest, self.coarsest)


def _power(number: float) -> int:
    """The largest power of ten that is not above a positive number."""
    return Decimal(number).adjusted()


def _multiples(numbers: Floats, powers: NDArray[np.int64] | int) -> Floats:
    """The nearest multiples of powers of ten: a quotient or product of two whole numbers that floats hold."""
    most = np.max(np.abs(powers), initial=0)
    if most >= len(_TENS):  # such bounds are rare, and floats hold no such powers
        each = zip(numbers.tolist(), np.broadcast_to(powers, numbers.shape).tolist(), strict=True)
        return np.array([float(round(Decimal(number), -power)) for number, power in each])
    up, down = _TENS[np.maximum(-np.asarray(powers), 0)], _TENS[np.maximum(powers, 0)]
    found: Floats = numbers * up
    found /= down
    np.rint(found, out=found)
    found *= down
    found /= up
    return found
