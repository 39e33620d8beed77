"""How many digits numbers come out with where the schema declares neither decimals nor a step."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

DIGITS = 6
"""Significant digits of a number, and the power of ten by which the range is divided at least."""
FINEST = 12
"""Numbers near 0 are told apart down to this power of ten below the range: rounding errors of floats are smaller."""
_TENS = np.array([10.0**power for power in range(23)])  # those that are floats, exactly
_SMALLEST = 5e-324

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rounding:
    """Numbers to a millionth of their range or to six significant digits, whichever is finer.

    It follows from the bounds alone, so it is public; it comes after all noise, so it costs no privacy. Six significant
    digits keep what lies near 0 of a range that was declared far too wide.

    Parameters
    ----------
    coarsest, finest
        Powers of ten: no number is rounded to multiples of more, or of less, than these.

    Examples
    --------
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
