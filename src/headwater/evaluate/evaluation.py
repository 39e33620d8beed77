"""What `headwater.evaluate.measures.evaluate` found: as text, as a table in a terminal, and for JSON. NOT PRIVATE."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING, Any

from headwater.evaluate.axes import Floats
from headwater.evaluate.distances import ColumnDistance, TableDistance
from headwater.evaluate.meaning import TOTAL_VARIATION, W1_MEANS, Answer, about_columns, about_pairs
from headwater.evaluate.queries import QueryErrors
from headwater.evaluate.training import Training

if TYPE_CHECKING:
    from rich.console import Group

NOT_PRIVATE = "NOT PRIVATE: computed from the real data without noise. Do not publish."
WORST = 10
"""Pairs that are named."""


FEW_KNOWN = 0.9
"""If fewer of the real rows than this are records, they are not read as the run did."""


def shortage(rows: int, span: tuple[int, int], which: str = "the release", known: int | None = None) -> str | None:
    """A warning if there are too few real records for a release about those of ``span``; None if there are enough.

    Just as many as the span is long are taken for its own. So many of them are ``known``: the others are bad rows.
    """
    start, end = span
    if known is not None and known < FEW_KNOWN * rows:
        return (
            f"TOO FEW REAL RECORDS: of {rows:,} rows only {known:,} are records, and all errors are against these; "
            "if the run lost fewer, give what it was given to read its files, such as their encoding."
        )
    if rows >= end or rows == end - start:
        return None
    return (
        f"TOO FEW REAL RECORDS: {which} is about records {start + 1:,} to {end:,}, and only {rows:,} were given. All "
        "errors are against these; name all files that the run has read, in their order."
    )


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What `evaluate` found. NOT PRIVATE: print it, but do not publish it.

    Parameters
    ----------
    rows
        Of the real and of the synthetic table.
    columns
        How far each column is from the real one.
    pairs
        Total variation of each pair of columns, of shape ``(d, d)``; on the diagonal that of the column by itself.
    dependence
        Matrices of the real and of the synthetic table, of shape ``(d, d)``.
    queries
        Errors of answers.
    distance
        W1 of the tables in the unit cube, or why it is left out.
    training
        Accuracy of a classifier, if a target was named.
    shortage
        A warning if there were fewer real records than the release is about.
    """

    rows: tuple[int, int]
    columns: tuple[ColumnDistance, ...]
    pairs: Floats
    dependence: tuple[Floats, Floats]
    queries: QueryErrors
    distance: TableDistance
    training: Training | None = None
    shortage: str | None = None

    @property
    def one_way(self) -> float:
        """The mean over all columns of their total variation, in sixteenths of each range: as expected errors are."""
        return fmean(column.error for column in self.columns)

    @property
    def two_way(self) -> float:
        """The same over all pairs of columns; that of the column if there is only one."""
        ranked = self.ranked_pairs
        return fmean(error for _, _, error in ranked) if ranked else self.one_way

    @property
    def difference(self) -> Floats:
        """Synthetic dependence minus real dependence."""
        return self.dependence[1] - self.dependence[0]

    @property
    def ranked_columns(self) -> list[ColumnDistance]:
        """The columns, the worst first."""
        return sorted(self.columns, key=lambda column: -column.judged)

    @property
    def judged_means(self) -> tuple[float, float]:
        """The means of the errors that columns and pairs are graded by: larger than in sixteenths where some are †."""
        columns, pairs = [column.judged for column in self.columns], [error for _, _, error in self.judged_pairs]
        return fmean(columns), fmean(pairs or columns)

    @property
    def plain_means(self) -> tuple[float | None, float | None]:
        """`one_way` and `two_way`, each only where it is another number than in `judged_means`."""
        one, two = zip((self.one_way, self.two_way), self.judged_means, strict=True)
        return one[0] if one[0] < one[1] else None, two[0] if two[0] < two[1] else None

    @property
    def worst_column(self) -> float:
        """The largest error that a column is graded by: the first of the list of columns."""
        return self.ranked_columns[0].judged

    @cached_property
    def ranked_pairs(self) -> list[tuple[str, str, float]]:
        """Names and total variation of all pairs of columns, the worst first."""
        found = [
            (self.columns[i].name, self.columns[j].name, float(self.pairs[i, j]))
            for i, j in combinations(range(len(self.columns)), 2)
        ]
        return sorted(found, key=lambda pair: -pair[2])

    @cached_property
    def judged_pairs(self) -> list[tuple[str, str, float]]:
        """All pairs with the error that they are graded by, the worst first.

        No pair is better than its columns: also not than one that is judged on finer bins (†).
        """
        finer = {column.name: column.finer_error or 0.0 for column in self.columns}
        found = [(x, y, max(error, finer[x], finer[y])) for x, y, error in self.ranked_pairs]
        return sorted(found, key=lambda pair: -pair[2])

    @property
    def finer(self) -> set[str]:
        """The columns that are judged on finer bins (†)."""
        return {column.name for column in self.columns if column.finer_error is not None}

    @property
    def cut(self) -> list[ColumnDistance]:
        """The columns whose bounds cut real values, the worst first."""
        return sorted((column for column in self.columns if column.cut), key=lambda column: -column.cut)

    def answers(self) -> list[Answer]:
        """Which kinds of questions the synthetic table answers how well."""
        plain = self.plain_means
        found = [about_columns({column.name: column.judged for column in self.ranked_columns}, self.finer, plain[0])]
        if self.ranked_pairs:
            judged = {(x, y): error for x, y, error in self.judged_pairs}
            found += about_pairs(judged, self.rows[1], self.finer, plain[1])
        queries = f"mean of {self.queries.count} random boxes; 95% are off by at most {self.queries.percentile_95:.4f}"
        found.insert(-1, Answer("Ranges of up to three columns", self.queries.mean, queries))
        if self.training is not None:
            question, detail = f"Predicting {self.training.target}", f"accuracy {self.training}"
            found.insert(-1, Answer(question, self.training.lost, detail, self.training.grade))
        return found

    def to_dict(self) -> dict[str, Any]:
        """For JSON: what is unknown is ``None``."""
        real, synthetic = self.dependence
        distance, means = self.distance.w1, self.judged_means
        return {
            "warning": NOT_PRIVATE,
            "shortage": self.shortage,
            "rows": {"real": self.rows[0], "synthetic": self.rows[1]},
            "one_way": {"mean": means[0], "worst": self.worst_column, "mean_in_sixteenths": self.one_way},
            "two_way": {
                "mean": means[1],
                "mean_in_sixteenths": self.two_way,
                "worst": self.judged_pairs[0][2] if self.ranked_pairs else None,
                "pairs": [{"columns": [x, y], "error": error} for x, y, error in self.ranked_pairs],
            },
            "w1": {
                "value": None if distance is None else distance.value,
                "error": None if distance is None else distance.error,
                "method": None if distance is None else distance.method,
                "reason": self.distance.reason,
            },
            "columns": [{**vars(column), "distance": _known(column.distance)} for column in self.columns],
            "bounds_that_cut": {column.name: {"below": column.below, "above": column.above} for column in self.cut},
            "dependence": {
                "columns": [column.name for column in self.columns],
                "real": real.tolist(),
                "synthetic": synthetic.tolist(),
                "difference": self.difference.tolist(),
            },
            "queries": vars(self.queries).copy(),
            "training": None if self.training is None else asdict(self.training),
            "answers": [answer.to_dict() for answer in self.answers()],
        }

    def __str__(self) -> str:
        from headwater.evaluate.printing import text

        return text(self)

    def __rich__(self) -> Group:
        from headwater.evaluate.printing import rich_text

        return rich_text(self)


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


MEANING = (TOTAL_VARIATION, W1_MEANS)
