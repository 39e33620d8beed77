"""What an error means, in words, and which questions a release answers well."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from statistics import fmean

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

FINER = (
    "†: most real values lie in one sixteenth of the declared range, so they are compared on bins that hold a "
    "sixteenth of the real values each, and no pair with such a column is called better than the column. Narrower "
    'bounds, or scale = "log" (on which 0 counts as the lower bound), resolve it better.'
)
BEYOND = (
    "‡: real values beyond the bounds are in this W1 as they are, so a single one that lies far out can be most of it."
)
CROWDED_RELEASE = (
    "†: most synthetic values lie in one sixteenth of the declared range; the expected error is about sixteenths of "
    "the range, and says nothing of differences within one."
)


def grade(error: float) -> str:
    """How an error is called.

    >>> [grade(error) for error in (0.01, 0.05, 0.2)]
    ['reliable', 'rough', 'unreliable']
    """
    return GRADES[(error > RELIABLE) + (error > ROUGH)]


def about(rows: float) -> str:
    """A number of rows that is not known exactly, with two digits that say something; at least 1.

    >>> about(0.2), about(11_504)
    ('1', '12,000')
    """
    return f"{float(f'{max(rows, 1):.2g}'):,.0f}"


@dataclass(frozen=True)
class Answer:
    """How well one kind of question is answered; ``judged`` is a grade that does not follow from the error."""

    question: str
    error: float
    detail: str
    judged: str | None = None

    @property
    def grade(self) -> str:
        """``"reliable"``, ``"rough"`` or ``"unreliable"``; ``"unknown"`` where the real data say nothing either."""
        return self.judged or grade(self.error)

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return {"question": self.question, "error": self.error, "grade": self.grade, "detail": self.detail}


def in_sixteenths(mean: float) -> str:
    """What to say of a mean error that leaves out what † adds."""
    return f"{mean:.4f} on average in sixteenths of each range, as expected errors are"


def about_columns(errors: Mapping[str, float], marked: Collection[str] = (), plain: float | None = None) -> Answer:
    """Questions about one column: the mean error, and which columns are better and worse; some get a mark (†).

    ``plain`` is the mean error without what the mark adds.
    """
    names = {column: f"{column} †" if column in marked else column for column in errors}
    groups = {name: [names[column] for column, error in errors.items() if grade(error) == name] for name in GRADES}
    detail = "; ".join(f"{name}: {some(found)}" for name, found in reversed(groups.items()) if found)
    detail += "" if plain is None else f" ({in_sixteenths(plain)})"
    mean = fmean(errors.values())
    return Answer("One column: shares, means, quantiles", mean, detail)


def about_pairs(
    errors: Mapping[tuple[str, str], float], rows: int, marked: Collection[str] = (), plain: float | None = None
) -> list[Answer]:
    """Questions about two columns together, and how small a group can be; ``marked`` and ``plain`` as for columns."""
    mean = fmean(errors.values())
    pair, worst = max(errors.items(), key=lambda item: item[1])
    x, y = (f"{name} †" if name in marked else name for name in pair)
    counts = [sum(grade(error) == name for error in errors.values()) for name in GRADES]
    shares = ", ".join(f"{count} {name}" for count, name in zip(counts, GRADES, strict=True) if count)
    detail = f"{x} × {y}"
    if len(errors) > 1:
        detail = f"{shares} of {len(errors)} pairs; the worst is {x} × {y} with {worst:.3f}"
    detail += "" if plain is None else f" ({in_sixteenths(plain)})"
    small = f"a group of fewer than about {about(mean * rows)} rows, two columns at a time, can be all error"
    return [
        Answer("Two columns: cross tables, means by group", mean, detail),
        Answer("Small groups and single rows", 1.0, f"{small}; no synthetic row is a real one"),
    ]


def some(names: list[str]) -> str:
    """The first of some names, and how many more there are."""
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
