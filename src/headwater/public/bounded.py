"""Columns with bounds."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.column import Column
from headwater.public.errors import SchemaError, TableError
from headwater.public.partition import Flags
from headwater.public.series import Values


@dataclass(frozen=True, repr=False)
class Bounded(Column):
    """A column with bounds.

    Parameters
    ----------
    outside
        What happens to a value beyond a bound: ``"clip"`` takes the bound, ``"error"`` refuses the batch.
    """

    outside: str = field(default="clip", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.outside not in ("clip", "error"):
            raise SchemaError('outside must be "clip" or "error"', 'write outside = "error" or leave it out')

    @property
    @abstractmethod
    def limits(self) -> tuple[Any, Any]:
        """The bounds as numbers."""

    def _outside(self, values: Values, numbers: NDArray[Any]) -> Flags | None:
        low, high = self.limits
        if not len(numbers) or (numbers.min() >= low and numbers.max() <= high):
            return None
        outside: Flags = (numbers < low) | (numbers > high)
        return outside

    def _fit(self, numbers: NDArray[Any], missing: Flags | None) -> NDArray[Any]:
        low, high = self.limits
        numbers = numbers if missing is None else np.where(missing, low, numbers)
        if self.outside == "error":
            bad = (numbers < low) | (numbers > high)
            if bad.any():
                index = int(np.argmax(bad))
                side = "below the lower" if numbers[index] < low else "above the upper"
                remedy = 'declare wider bounds, or outside="clip" to take the bound instead'
                sender = "send values between the bounds that are declared"
                raise TableError(f"the value is {side} bound", remedy, sender=sender, row=index)
        clipped: NDArray[Any] = np.clip(numbers, low, high)
        return clipped
