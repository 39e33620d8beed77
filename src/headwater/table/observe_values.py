"""What the values of a column suggest beyond its kind: rounding, scales, steps, codes for missing values, and persons.

No value leaves this module: only numbers of decimals, steps, and notes that hold no value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.table.column import Column
from headwater.table.columns import Datetime, Number, TimeOfDay
from headwater.table.errors import TableError
from headwater.table.observed import Observed
from headwater.table.time_units import microseconds

ZONED = "0001-01-02T00:00:00+00:00", "9999-12-30T00:00:00+00:00"
"""Bounds of any time with a zone."""

_PERSON = re.compile(
    r"(^|[_\W])(id|uuid|guid|ssn|e?mail|phone|mobile|passport|iban|nhs|mrn|ip|user|login|name|surname|firstname|lastname)"
    r"($|[_\W])|(?-i:[a-z]Id$)|(first|last|user|full)_?name",
    re.IGNORECASE,
)
_FAR = (
    "Its {} value comes often and is unlike all others: if it stands for missing, take such texts into",
    'null_values, as in null_values = ["-999"].',
)
_STEPS = ("1d", "1h", "1min", "1s", "1ms")
_MOST_DECIMALS = 12  # that are proposed
_FEW = 20  # values, below which nothing is said of them
_GROWS = (
    "Grows with the file, so it says little but when a record arrived, and errors are larger than expected with it:",
    "better give its time of day, weekday or month as columns of their own. Of the time of day alone, declare",
    'kind = "time-of-day", a step, and a format that reads the whole text, such as "%Y-%m-%d %H:%M:%S".',
)
_GROWING = (
    "Grows with the file, so it says little but when a record arrived, and errors are larger than expected with it:",
    "better leave it out, or give what comes again, such as the day of the week, as a column of its own.",
)
_RISING = 0.9  # the correlation of values with their place in the file from which on they are taken to grow with it


def look_at_numbers(seen: Observed, values: list[Any]) -> None:
    """Rounding, and a logarithmic scale."""
    if seen.kind not in ("number", "integer") or not values:
        return
    exact = [_exact(value, seen) for value in values[:2000]]
    in_order = [number for number in exact if number is not None and _is_float(number)]
    numbers = sorted(in_order)
    if not numbers:
        return
    if _rises(np.array([float(number) for number in in_order])):
        seen.notes += _GROWING
    seen.notes += [line.format(side) for side in _sentinels(numbers) for line in _FAR]
    decimals = max(max(0, -int(number.normalize().as_tuple().exponent)) for number in numbers)
    if seen.kind == "number" and decimals <= 6:
        seen.declared["decimals"] = decimals
    elif seen.kind == "number" and (few := _six_digits(numbers)) <= _MOST_DECIMALS:
        seen.proposed.append(f"decimals = {few}   # about six significant digits; more were seen")
    positive = [number for number in numbers if number > 0]
    if (
        numbers[0] >= 0
        and len(positive) >= _FEW
        and positive[-len(positive) // 100 - 1] > 1000 * positive[len(positive) // 100]
    ):
        needs = "needs a low above 0" + (", as which 0 counts: it was seen" if numbers[0] == 0 else "")
        needs += ', with kind = "number" and decimals = 0' if seen.kind == "integer" else ""
        seen.proposed.append(f'# scale = "log"   # the values span orders of magnitude; {needs}')


def _sentinels(numbers: list[Decimal]) -> list[str]:
    """Which ends of some sorted numbers are one value that comes often and is unlike the others.

    It is farther from them than they spread, or the only one of its sign. 0 is a value like others; and where the
    others are all alike, as in a column of 0 and 1, neither says anything.
    """
    found = []
    for side, ends in (("lowest", numbers), ("highest", [-number for number in reversed(numbers)])):
        others = [number for number in ends if number != ends[0]]
        often = len(ends) - len(others) >= max(2, len(ends) / 1000)
        if ends[0] and often and len(others) >= _FEW and others[0] < others[-1]:
            far, alone = others[0] - ends[0] > others[-1] - others[0], ends[0] < 0 <= others[0]
            found += [side] if far or alone else []
    return found


def _six_digits(numbers: list[Decimal]) -> int:
    """The decimals that leave about six digits of the larger ones of some sorted numbers."""
    few = len(numbers) // 20  # that are very large
    larger = max(abs(numbers[few]), abs(numbers[len(numbers) - 1 - few]))
    return max(0, 5 - larger.adjusted()) if larger else 6


def look_at_times(seen: Observed, values: list[Any]) -> None:
    """How fine times are: whole days, hours, minutes or seconds; and whether they are those of the file itself."""
    if seen.kind not in ("datetime", "time-of-day"):
        return
    written = seen.declared.get("format")
    columns: list[Callable[[], Column]] = [partial(Datetime, *ends, format=written) for ends in ((), ZONED)]
    for make in [partial(TimeOfDay, format=written)] if seen.kind == "time-of-day" else columns:
        with suppress(TableError):
            column = make()
            numbers, _ = column.read_values(values[:2000])
            steps = [step for step in _STEPS if not (numbers.astype(np.int64) % microseconds(step)).any()]
            seen.declared["step"] = (steps or ["1us"])[0] if len(numbers) else "1s"
            if seen.kind == "datetime" and _rises(numbers.astype(np.int64)):
                seen.notes += _GROWS
            return


def _rises(numbers: NDArray[Any]) -> bool:
    """Whether values grow from the first to the last: their ranks follow their places, but for some late ones."""
    _, ranks = np.unique(numbers, return_inverse=True)
    if len(ranks) < _FEW or not ranks.any():
        return False
    return bool(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1] > _RISING)


def _exact(value: Any, seen: Observed) -> Decimal | None:  # noqa: ANN401 - text or a number
    if not isinstance(value, str):
        return Decimal(repr(float(value))) if isinstance(value, float) else _decimal(str(value))
    mark, point = seen.declared.get("thousands"), seen.declared.get("decimal", ".")
    value = Number(unit=seen.declared.get("unit")).without_unit(value)
    return _decimal((value.replace(mark, "") if mark else value).replace(point, "."))


def _is_float(number: Decimal) -> bool:
    """Whether a number can be computed with: one of too many digits is as good as none."""
    return number.is_finite() and abs(number.adjusted()) < 300


def _decimal(text: str) -> Decimal | None:
    with suppress(ArithmeticError):
        return Decimal(text)
    return None


def look_at_identity(name: str, seen: Observed, values: list[Any]) -> None:
    """Columns that should be left out."""
    if seen.kind in ("category", "integer"):
        try:
            distinct = len(set(values))
        except TypeError:
            seen.notes.append("Holds lists or records: take plain values out of them first, or leave the column out.")
            return
        if len(values) >= _FEW and distinct == len(values):
            what = "an identifier or free text" if seen.kind == "category" else "perhaps an identifier"
            seen.notes.append(f"All values seen are different: {what}. Nothing can be learned of it: leave it out.")
        elif seen.kind == "category" and distinct > max(100, len(values) / 5) and _are_sentences(values):
            seen.notes.append(
                "Looks like free text: nothing can be learned of it, and it may name people: leave it out."
            )
        elif seen.kind == "integer" and len(values) >= _FEW and {str(value) for value in values} == {"0", "1"}:
            seen.notes.append('Only 0 and 1 were seen: if they mean no and yes, declare kind = "boolean".')
        elif seen.kind == "category" and distinct > 100:
            seen.notes.append("More than 100 values were seen: list those that matter, and declare other for the rest.")
    if _PERSON.search(name.rpartition(".")[2]):  # of what is inside of a user, not all is its name
        seen.notes.append("Its name sounds like a person's name, number or address: leave it out unless it is none.")
        seen.notes.append("If it says who a record belongs to, leave it out here and name it by --person in the run.")


def _are_sentences(values: list[Any]) -> bool:
    """Whether texts have several words on average."""
    return sum(str(value).count(" ") for value in values) > 2 * len(values)
