"""Multiples of a step: numbers with few digits, exactly as people write them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.errors import SchemaError
from headwater.public.values import finite

LARGEST = 1 << 50
"""Bounds in units of the last digit are not larger, so that rounding finds the nearest multiple."""


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
        if digits > 15 or max(abs(low), abs(high)) * 10.0**digits > LARGEST:
            raise SchemaError("the bounds have too many digits for this step", "declare a coarser step, or none")
        start, by, end = (int((number * 10**digits).to_integral_value("ROUND_FLOOR")) for number in exact)
        if by > end - start:
            raise SchemaError("the step is larger than the way from low to high", "declare a smaller step")
        return Grid(start, by, digits, (end - start) // by + 1)

    def index(self, numbers: NDArray[Any]) -> NDArray[np.int64]:
        """The number ``k`` of the nearest value."""
        places = (numbers - self.low / 10.0**self.digits) / (self.step / 10.0**self.digits)
        return np.clip(np.rint(places), 0, self.size - 1).astype(np.int64)

    def value(self, index: NDArray[Any]) -> NDArray[np.float64]:
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
