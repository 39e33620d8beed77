"""What `headwater.evaluate` found: as text and for JSON. NOT PRIVATE."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np

from headwater.evaluation import measures
from headwater.evaluation.axes import Floats, column_axes
from headwater.evaluation.inputs import Rows, tables_of
from headwater.evaluation.meaning import (
    TOTAL_VARIATION,
    W1_MEANS,
    about_columns,
    about_pairs,
    about_rows,
    answer,
    grade,
)
from headwater.evaluation.measures import ColumnDistance, QueryErrors
from headwater.evaluation.w1 import W1
from headwater.public.protocol import AnySchema

NOT_PRIVATE = "NOT PRIVATE: computed from the real data without noise. Do not publish."
WORST = 10
"""Pairs that are named."""
_CUT = (
    "such a value counts as the bound in every release, and here: declare wider bounds if they are known without the "
    "data, or null_values if such values mean that there is none"
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
        Matrices of the real and of the synthetic table, of shape ``(d, d)``: mutual information of each pair of columns
        over the geometric mean of their entropies. 0 is independent, 1 is one to one.
    queries
        Errors of the shares of rows that lie in random boxes.
    distance
        W1 of the tables in the unit cube, or why it is left out.
    cut
        By column, the share of real values that lie beyond its bounds.
    shortage
        A warning if there were fewer real records than the release is about.
    """

    rows: tuple[int, int]
    columns: tuple[ColumnDistance, ...]
    pairs: Floats
    dependence: tuple[Floats, Floats]
    queries: QueryErrors
    distance: W1 | str
    cut: dict[str, float]
    shortage: str | None = None

    @property
    def one_way(self) -> float:
        """The mean over all columns of their total variation."""
        return fmean(column.error for column in self.columns)

    @property
    def two_way(self) -> float:
        """The same over all pairs of columns; that of the column if there is only one."""
        return fmean([error for _, _, error in self.ranked_pairs] or [self.one_way])

    @property
    def difference(self) -> Floats:
        """Synthetic dependence minus real dependence."""
        return self.dependence[1] - self.dependence[0]

    @property
    def ranked_columns(self) -> list[ColumnDistance]:
        """The columns, the worst first."""
        return sorted(self.columns, key=lambda column: -column.error)

    @cached_property
    def ranked_pairs(self) -> list[tuple[str, str, float]]:
        """Names and total variation of all pairs of columns, the worst first."""
        found = [
            (self.columns[i].name, self.columns[j].name, float(self.pairs[i, j]))
            for i, j in combinations(range(len(self.columns)), 2)
        ]
        return sorted(found, key=lambda pair: -pair[2])

    def answers(self) -> list[dict[str, Any]]:
        """Which kinds of questions the synthetic table answers how well."""
        found = [about_columns({column.name: column.error for column in self.ranked_columns})]
        if ranked := self.ranked_pairs:
            (x, y, worst), counts = ranked[0], Counter(grade(error) for _, _, error in ranked)
            shares = ", ".join(f"{count} {name}" for name, count in counts.items())
            several = f"{shares} of {len(ranked)} pairs; the worst is {x} × {y} with {worst:.3f}"
            found.append(about_pairs(self.two_way, several if len(ranked) > 1 else f"{x} × {y}"))
        boxes = f"mean of {self.queries.count} random boxes; 95% are off by at most {self.queries.percentile_95:.4f}"
        found.append(answer("Ranges of up to three columns", self.queries.mean, boxes))
        return [*found, about_rows(self.two_way if ranked else None, self.rows[1])]

    def to_dict(self) -> dict[str, Any]:
        """For JSON: what is unknown is ``None``."""
        real, synthetic = self.dependence
        distance, ranked = self.distance, self.ranked_pairs
        w1 = dict.fromkeys(("value", "error", "method")) if isinstance(distance, str) else asdict(distance)
        return {
            "warning": NOT_PRIVATE,
            "shortage": self.shortage,
            "rows": {"real": self.rows[0], "synthetic": self.rows[1]},
            "one_way": {"mean": self.one_way, "worst": self.ranked_columns[0].error},
            "two_way": {
                "mean": self.two_way,
                "worst": ranked[0][2] if ranked else None,
                "pairs": [{"columns": [x, y], "error": error} for x, y, error in ranked],
            },
            "w1": w1 | {"reason": distance if isinstance(distance, str) else None},
            "columns": [
                vars(column) | {"distance": None if math.isnan(column.distance) else column.distance}
                for column in self.columns
            ],
            "bounds_that_cut": self.cut,
            "dependence": {
                "columns": [column.name for column in self.columns],
                "real": real.tolist(),
                "synthetic": synthetic.tolist(),
                "difference": self.difference.tolist(),
            },
            "queries": vars(self.queries).copy(),
            "answers": self.answers(),
        }

    def _summary(self) -> list[tuple[str, ...]]:
        """Lines of a label and a finding."""
        queries, ranked = self.queries, self.ranked_pairs
        found: list[tuple[str, ...]] = [
            ("rows", f"{self.rows[0]:,} real, {self.rows[1]:,} synthetic"),
            ("error of one column", f"{self.one_way:.4f} mean, {self.ranked_columns[0].error:.4f} worst"),
        ]
        if ranked:
            found.append(("error of two columns", f"{self.two_way:.4f} mean, {ranked[0][2]:.4f} worst"))
        errors = f"{queries.mean:.4f} mean, {queries.percentile_95:.4f} at the 95th percentile"
        found.append((f"error of {queries.count} range queries", errors))
        if ranked:
            worst = np.triu(np.abs(self.difference), 1)  # a column always depends on itself
            i, j = np.unravel_index(int(worst.argmax()), worst.shape)
            pair = f" ({self.columns[i].name} and {self.columns[j].name})" if worst[i, j] > 0 else ""
            found.append(("largest change of dependence", f"{self.difference[i, j]:+.4f}{pair}"))
        if isinstance(self.distance, str):
            w1 = f"left out: {self.distance}"
        else:
            w1 = f"{self.distance.value:.4f} " + (f"± {self.distance.error:.4f}" if self.distance.error else "(exact)")
        found.append(("W1 in the unit cube", w1))
        for name, share in self.cut.items():
            found.append(("BOUNDS CUT", f"{name}: {max(share, 0.0001):.2%} of the real values are beyond them; {_CUT}"))
        return found

    def _tables(self) -> list[list[tuple[str, ...]]]:
        """All columns and the worst pairs, the worst first; each with a line of titles."""
        columns: list[tuple[str, ...]] = [("column", "error", "answers", "W1", "missing, real", "missing, synthetic")]
        for c in self.ranked_columns:
            w1 = f"{c.distance:.4f}" if c.has_w1 else ""
            missing = (f"{c.missing_real:.2%}", f"{c.missing_synthetic:.2%}")
            columns.append((c.name, f"{c.error:.4f}", grade(c.error), w1, *missing))
        ranked = self.ranked_pairs
        pairs: list[tuple[str, ...]] = [("worst pairs" if len(ranked) > WORST else "pairs", "error", "answers")]
        pairs += [(f"{x} × {y}", f"{error:.4f}", grade(error)) for x, y, error in ranked[:WORST]]
        return [columns, pairs] if ranked else [columns]

    def __str__(self) -> str:
        lines = [NOT_PRIVATE, *([self.shortage] if self.shortage else []), ""]
        for cells in (self._summary(), *self._tables()):
            widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
            lines += ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
            lines.append("")
        return "\n".join([*lines, TOTAL_VARIATION, W1_MEANS])


def evaluate(
    real: object,
    synthetic: object,
    schema: AnySchema | None = None,
    *,
    seed: int = 0,
    reading: dict[str, Any] | None = None,
) -> Evaluation:
    """Compare a real and a synthetic table. NOT PRIVATE.

    Parameters
    ----------
    real
        A table of any kind, an iterable of tables, or the path or paths of files; an array of floats of shape
        ``(n, d)`` holds points, as ``schema.encode`` gives them.
    synthetic
        The same, or a `Release`, or the folder of one; that is compared with the records that it is about, and
        the evaluation says so if ``real`` has fewer. It may differ in length.
    schema
        Of both tables. A release brings its own.
    seed
        Of the boxes that are asked about. Public; the same seed asks the same questions.
    reading
        How files of real records are read, such as ``{"ignore_extra": True}``: the keywords of `headwater.read`.

    Returns
    -------
    Evaluation
        Print it, or take ``to_dict()``.

    Examples
    --------
    >>> import headwater as hw
    >>> points = np.random.default_rng(0).random((500, 2))
    >>> found = hw.evaluate(points, points, hw.unit_cube(2))
    >>> found.one_way, found.two_way, found.queries.mean
    (0.0, 0.0, 0.0)
    >>> print(str(found).splitlines()[0])
    NOT PRIVATE: computed from the real data without noise. Do not publish.
    """
    return compare(*tables_of(real, synthetic, schema, reading=reading), seed=seed)


def compare(
    real: Rows, synthetic: Floats, schema: AnySchema, shortage: str | None = None, *, seed: int = 0
) -> Evaluation:
    """`evaluate` for tables that are encoded already; ``shortage`` says if real records are missing."""
    for points, name in ((real.points, "real"), (synthetic, "synthetic")):
        if not len(points):
            raise ValueError(f"{name} has no rows: there is nothing to compare")
        if not ((points >= 0) & (points <= 1)).all():
            raise ValueError(f"{name} has points outside the unit cube: encode the table with its schema first")
    columns = column_axes(schema)
    x, y = measures.sides_of(real.points, columns), measures.sides_of(synthetic, columns)
    bins = [measures.binned(points, columns) for points in (real.points, synthetic)]
    errors, tally = measures.errors_of(*bins), real.tally
    clipped = {name: counts.get("clipped", 0) / max(tally.records, 1) for name, counts in tally.columns.items()}
    return Evaluation(
        rows=(len(real.points), len(synthetic)),
        columns=tuple(map(measures.column_distance, columns, x, y, np.diag(errors).tolist())),
        pairs=errors,
        dependence=(measures.dependence_of(bins[0]), measures.dependence_of(bins[1])),
        queries=measures.query_errors(x, y, columns, seed),
        distance=measures.table_distance(real.points, synthetic),
        cut=dict(sorted(((name, share) for name, share in clipped.items() if share), key=lambda one: -one[1])),
        shortage=shortage,
    )
