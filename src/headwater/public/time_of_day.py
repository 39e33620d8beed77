"""Columns of times of day."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import time, timedelta
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headwater.public.column import Column
from headwater.public.errors import SchemaError, TableError
from headwater.public.partition import Flags
from headwater.public.series import Values
from headwater.public.time_text import check_format, read_moment
from headwater.public.time_units import DAY, NAIVE, microseconds


@dataclass(frozen=True, repr=False)
class TimeOfDay(Column):
    """A column of times of day, in steps from midnight; in between, the step before counts.

    Parameters
    ----------
    step
        How finely time is resolved: "1us", "1ms", "1s", "1min", "1h" or multiples such as "15min", at most a day.
    format
        How text has it, as ``strptime`` writes formats (``"%H%M"``); ISO 8601 if not given.
    missing, weight, null_values
        As for every `Column`: whether values may be missing, how finely it is resolved, texts that mean "missing".

    Examples
    --------
    >>> TimeOfDay(step="6h").encode(["05:59", "18:00:00"]).tolist()
    [0.0, 0.75]
    """

    step: str = "1s"
    format: str | None = field(default=None, kw_only=True)

    kind: ClassVar[str] = "time-of-day"
    wants: ClassVar[str] = "a time of day"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_format(self.format, dates=False)
        if microseconds(self.step) > DAY:
            raise SchemaError("the step is longer than a day", 'declare a shorter step, such as step = "1s"')

    @property
    def size(self) -> int:
        """How many steps a day has."""
        return (DAY - 1) // microseconds(self.step) + 1

    def _read_text(self, text: str) -> int | None:
        """A time of day, in the declared format or else in ISO 8601; blank text is missing."""
        return self._parse(read_moment(time, text, self.format, self.wants, "13:45:00")) if text.strip() else None

    @property
    def usual_text(self) -> bool:
        """Whether text is in ISO 8601."""
        return self.format is None and super().usual_text

    def _parse(self, value: Any) -> int:  # noqa: ANN401 - a value of any type
        if isinstance(value, timedelta | np.timedelta64):
            return int(self._cast(Values(np.array([value], dtype="m8[us]")))[0])
        if not isinstance(value, time):
            raise self.wrong(value)
        if value.tzinfo is not None:
            sender = "leave the zone out"
            raise TableError("a time of day with a time zone", f"{sender}, or declare Datetime", sender=sender)
        whole = (value.hour * 60 + value.minute) * 60 + value.second
        return whole * 10**6 + value.microsecond

    def _cast(self, values: Values) -> NDArray[Any]:
        data = np.asarray(values.data)
        if data.dtype.kind != "m":
            raise self.wrong(data)
        if values.missing is not None:
            data = np.where(values.missing, np.zeros(1, dtype=data.dtype), data)
        bad = (data < np.timedelta64(0, "s")) | (data >= np.timedelta64(1, "D"))
        if bad.any():
            index = int(np.argmax(bad))
            raise TableError("a time span outside of one day", "give a time from 00:00 to 23:59:59", row=index)
        return data.astype("m8[us]").view(np.int64)

    def _fit(self, numbers: NDArray[Any], missing: Flags | None) -> NDArray[Any]:
        return numbers.astype(np.int64, copy=False) // microseconds(self.step)

    def raw(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Times since midnight as ``timedelta64[us]``."""
        return (numbers * microseconds(self.step)).view("m8[us]")

    def label(self, raw: NDArray[Any]) -> NDArray[Any]:
        """Times as `datetime.time`."""
        few, codes = np.unique(raw, return_inverse=True)
        found = np.empty(len(few), dtype=object)
        found[:] = [(NAIVE + span).time() for span in few.tolist()]
        return found[codes]
