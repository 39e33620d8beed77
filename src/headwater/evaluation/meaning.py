"""What an error means, in words, and which questions a release answers well."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

RELIABLE, ROUGH = 0.02, 0.10
"""Up to the first error answers are called reliable, up to the second rough: two and ten percentage points."""

GRADES = ("reliable", "rough", "unreliable")
_NAMED = 8  # columns of a grade that are named, at most

TOTAL_VARIATION = (
    "An error of 0.02 (total variation) means: ask which share of the rows has certain values, and the answer is off "
    "by at most 2 percentage points, whatever the values are; numbers are asked about in sixteenths of their range."
)
W1_MEANS = (
    "A W1 of 0.02 means: values must be moved by 2% of their range on average to turn the synthetic into the real "
    "data; so no mean is off by more than 2% of the range."
)
W1_CUBE = (
    "A W1 of 0.02 means: no value of a row has to be moved by more than 2% of its axis, on average over all rows, to "
    "turn the synthetic into the real data. The range of a number is the whole axis; that of steps, or of values that "
    "may be missing, is at least a quarter of it."
)


def grade(error: float) -> str:
    """How an error is called.

    >>> [grade(error) for error in (0.01, 0.05, 0.2)]
    ['reliable', 'rough', 'unreliable']
    """
    return GRADES[(error > RELIABLE) + (error > ROUGH)]


def answer(question: str, error: float, detail: str) -> dict[str, Any]:
    """How well one kind of question is answered, for JSON."""
    return {"question": question, "error": error, "grade": grade(error), "detail": detail}


def about_columns(errors: Mapping[str, float]) -> dict[str, Any]:
    """Questions about one column: the mean error, and which columns are better and worse."""
    found = []
    for name in reversed(GRADES):
        if columns := [column for column, error in errors.items() if grade(error) == name]:
            more = f" and {len(columns) - _NAMED} more" if len(columns) > _NAMED else ""
            found.append(f"{name}: {', '.join(columns[:_NAMED])}{more}")
    return answer("One column: shares, means, quantiles", fmean(errors.values()), "; ".join(found))


def about_pairs(mean: float, detail: str) -> dict[str, Any]:
    """Questions about two columns together."""
    return answer("Two columns: cross tables, means by group", mean, detail)


def about_rows(pairs: float | None, rows: int) -> dict[str, Any]:
    """How small a group can be, by the mean error of pairs if it is known."""
    small = ""
    if pairs is not None:
        few = float(f"{max(pairs * rows, 1):.2g}")  # two digits say something
        small = f"a group of fewer than about {few:,.0f} rows, two columns at a time, can be all error; "
    return answer("Small groups and single rows", 1.0, f"{small}no synthetic row is a real one")
