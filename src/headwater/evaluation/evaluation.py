"""What `headwater.evaluate` found: as text and for JSON. NOT PRIVATE."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from headwater.evaluation import pairs, yardstick
from headwater.evaluation.axes import ColumnAxis, Floats, column_axes
from headwater.evaluation.bars import Bars
from headwater.evaluation.inputs import Both, tables_of
from headwater.evaluation.w1 import DEFAULT_SIDE, W1, w1
from headwater.evaluation.yardstick import Columns, Questions, Table
from headwater.public.protocol import AnySchema

NOT_PRIVATE = "NOT PRIVATE: computed from the real data without noise. Do not publish."
WORST = 10
"""Pairs that are named."""
EXACT_ROWS = 1_000
_CUT = (
    "of the real values lie beyond its bounds and count as the bound: declare wider ones if they are known without the "
    "data, or null_values if such values mean that there is none"
)
_STEPPED = "of the real values are no multiples of its step, which releases round to: declare a finer one, or none"
MEANING = (
    "W1, quantiles and means are in standard deviations (sd) of the column. The error of a share is the largest one of "
    "all rows up to some value, or with some category. Bars held: so many of the release's 90 % error bars hold the "
    "real answer."
)
DEVIATIONS, RATIO, SHARE, CORRELATION = "sd", "factor", "share", "correlation"


@dataclass(frozen=True)
class ColumnErrors:
    """How far one column is from the real one. NOT PRIVATE."""

    name: str
    kind: str
    w1: float | None  # in standard deviations of the real values; None without an order, or without values
    share: float  # the largest error of a share: of rows up to a value, or with a category
    missing_real: float  # share of the values
    missing_synthetic: float


@dataclass(frozen=True)
class QuestionErrors:
    """Errors of the answers to all questions of one kind. NOT PRIVATE."""

    kind: str
    unit: str
    count: int
    mean: float
    percentile_95: float
    held: float | None  # by so many of the error bars, of a release that has some


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What `evaluate` found. NOT PRIVATE: print it, but do not publish it.

    Parameters
    ----------
    rows
        Of the real and of the synthetic table.
    columns
        How far each column is from the real one, the worst first by its largest error of a share.
    pairs
        Names of two columns and their largest error of a share, the worst first.
    questions
        Errors of answers by kind of question, and the share of error bars that held them.
    dependence
        Matrices of the real and of the synthetic table, of shape ``(d, d)``, in the order of the schema: mutual
        information of each pair of columns over the geometric mean of their entropies, on bins between quantiles of
        the real table. 0 is independent, 1 is one to one.
    distance
        W1 of the tables in the unit cube, up to three columns.
    cut
        By column, the share of real values that lie beyond its bounds.
    stepped
        By column, the share of real values that its declared step changes.
    shortage
        A warning if there were fewer real records than the release is about.
    """

    rows: tuple[int, int]
    columns: tuple[ColumnErrors, ...]
    pairs: tuple[tuple[str, str, float], ...]
    questions: tuple[QuestionErrors, ...]
    dependence: tuple[Floats, Floats]
    distance: W1 | None
    cut: dict[str, float]
    stepped: dict[str, float]
    shortage: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON: what is unknown is ``None``."""
        real, synthetic = self.dependence
        return {
            "warning": NOT_PRIVATE,
            "shortage": self.shortage,
            "rows": {"real": self.rows[0], "synthetic": self.rows[1]},
            "questions": [asdict(one) for one in self.questions],
            "columns": [asdict(one) for one in self.columns],
            "pairs": [{"columns": [x, y], "share": error} for x, y, error in self.pairs],
            "w1": None if self.distance is None else asdict(self.distance),
            "bounds_that_cut": self.cut,
            "steps_that_change": self.stepped,
            "dependence": {"real": real.tolist(), "synthetic": synthetic.tolist()},
        }

    def __str__(self) -> str:
        lines = [NOT_PRIVATE, *([self.shortage] if self.shortage else [])]
        lines += [f"BOUNDS CUT {name}: {percent(share)} {_CUT}" for name, share in self.cut.items()]
        lines += [f"STEPS CHANGE {name}: {percent(share)} {_STEPPED}" for name, share in self.stepped.items()]
        lines += ["", f"{self.rows[0]:,} real rows, {self.rows[1]:,} synthetic ones", ""]
        barred = any(one.held is not None for one in self.questions)
        questions = [("questions about", "asked", "mean error", "95 % below", "bars held")[: 5 if barred else 4]]
        for one in self.questions:
            errors = said(one.mean, one.unit), said(one.percentile_95, one.unit)
            held = ("" if one.held is None else f"{100 * one.held:.0f} %",) if barred else ()
            questions.append((one.kind, f"{one.count:,}", *errors, *held))
        columns = [("column", "error of a share", "W1", "missing, real", "missing, synthetic")]
        for c in self.columns:
            gone = (percent(c.missing_real), percent(c.missing_synthetic))
            columns.append((c.name, percent(c.share), "" if c.w1 is None else f"{c.w1:.3f} sd", *gone))
        worst = [("worst pairs" if len(self.pairs) > WORST else "pairs", "error of a share")]
        worst += [(f"{x} × {y}", percent(error)) for x, y, error in self.pairs[:WORST]]
        for cells in (questions, columns, worst if self.pairs else []):
            widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
            lines += ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells] + [""] * bool(cells)
        if self.distance is not None:
            error = f" ± {self.distance.error:.4f}" if self.distance.error else ""
            lines += [f"W1 of the whole tables, in the unit cube: {self.distance.value:.4f}{error}", ""]
        return "\n".join([*lines, MEANING])


def percent(share: float) -> str:
    """A share with about three digits.

    >>> [percent(share) for share in (0, 0.00001, 0.0123, 0.5)]
    ['0 %', '<0.01 %', '1.23 %', '50.0 %']
    """
    return "0 %" if share == 0 else "<0.01 %" if share < 0.0001 else f"{100 * share:.{2 if share < 0.1 else 1}f} %"


def said(error: float, unit: str) -> str:
    """An error with its unit; of logarithms of ratios the factor.

    >>> said(0.012, SHARE), said(0.1, DEVIATIONS), said(0.0953, RATIO), said(0.02, CORRELATION)
    ('1.20 %', '0.100 sd', '× 1.10', '0.020')
    """
    if unit == SHARE:
        return percent(error)
    return f"× {math.exp(error):.2f}" if unit == RATIO else f"{error:.3f}{' sd' * (unit == DEVIATIONS)}"


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
        ``(n, d)`` holds points, as ``schema.encode`` gives them. Its numbers are compared as they are, whatever step
        the schema declares.
    synthetic
        The same, or a `Release`, or the folder of one; that is compared with the records that it is about, and
        the evaluation says so if ``real`` has fewer. It may differ in length.
    schema
        Of both tables. A release brings its own.
    seed
        Of the ranges and boxes that are asked about. Public; the same seed asks the same questions.
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
    >>> max(one.mean for one in found.questions), found.pairs
    (0.0, (('x0', 'x1', 0.0),))
    >>> print(str(found).splitlines()[0])
    NOT PRIVATE: computed from the real data without noise. Do not publish.
    """
    return compare(tables_of(real, synthetic, schema, reading=reading), seed)


def compare(both: Both, seed: int = 0) -> Evaluation:
    """`evaluate` for tables that are read already."""
    for rows, name in ((both.real, "real"), (both.made, "synthetic")):
        if not rows.known.any():
            raise ValueError(f"{name} has no rows: there is nothing to compare")
    columns, x, y = column_axes(both.schema), both.real.table, both.made.table
    bins = [pairs.bins_of(columns, table, x) for table in (x, y)]
    names = [column.name for column in columns]
    asked = questions_of(columns, x, seed)
    tally, whole = both.real.tally, [np.nan_to_num(np.column_stack(table), nan=1.0) for table in (x, y)]
    clipped, rounded = (
        {name: counts[kind] / max(tally.records, 1) for name, counts in tally.columns.items() if counts.get(kind)}
        for kind in ("clipped", "rounded")
    )
    few = len(columns) == 1 or len(columns) in DEFAULT_SIDE
    return Evaluation(
        rows=(len(x[0]), len(y[0])),
        columns=tuple(sorted(map(column_errors, columns, x, y), key=lambda one: -one.share)),
        pairs=tuple((names[i], names[j], error) for i, j, error in pairs.share_errors(*bins)),
        questions=tuple(one for kind, unit, q in asked if (one := answered(kind, unit, q, x, y, both.bars))),
        dependence=(pairs.dependence(bins[0]), pairs.dependence(bins[1])),
        distance=_w1(*whole) if few and all(column.ordered for column in columns) else None,
        cut=dict(sorted(clipped.items(), key=lambda one: -one[1])),
        stepped=rounded | stepped(columns, x),
        shortage=both.shortage,
    )


def _w1(real: Floats, made: Floats) -> W1:
    """On a grid if there are many rows: exact transport takes minutes where many values are equal."""
    return w1(real, made, method="grid" if real.shape[1] > 1 and len(real) > EXACT_ROWS else "auto")


def column_errors(column: ColumnAxis, real: Floats, made: Floats) -> ColumnErrors:
    """The errors of one column among the values that are there, and how many are missing."""
    gone = [np.isnan(values) for values in (real, made)]
    if column.ordered:
        share, distance = yardstick.line_errors(real, made)
    else:
        codes = [yardstick.bin_of(column, values[~none], 1) for values, none in zip((real, made), gone, strict=True)]
        share, distance = yardstick.value_error(*codes), math.nan
    known = column.ordered and not any(none.all() for none in gone)
    missing = [float(none.mean()) for none in gone]
    return ColumnErrors(column.name, column.kind, distance if known else None, share, missing[0], missing[1])


def questions_of(columns: Columns, real: Table, seed: int) -> list[tuple[str, str, Questions]]:
    """What analysts ask, with the unit of its errors."""
    return [
        ("ranges and categories", SHARE, yardstick.ranges(columns, real, seed)),
        ("quantiles", DEVIATIONS, yardstick.quantiles(columns, real)),
        ("means by group", DEVIATIONS, yardstick.group_means(columns, real)),
        ("boxes of two and three columns", SHARE, yardstick.boxes(columns, real, seed)),
        ("rank correlations", CORRELATION, yardstick.correlations(columns, real, ranked=True)),
        ("risk ratios of rare values", RATIO, yardstick.risk_ratios(columns, real)),
    ]


def answered(
    kind: str, unit: str, questions: Questions, real: Table, made: Table, bars: Bars | None
) -> QuestionErrors | None:
    """The errors of the answers to some questions; None if there are none."""
    errors = np.abs(questions.ask(made) - questions.ask(real))
    there = np.isfinite(errors)
    if not there.any():
        return None
    held = None if bars is None else float((errors <= bars.half(questions.ask) + 1e-12)[there].mean())
    found = errors[there]
    return QuestionErrors(kind, unit, len(found), float(found.mean()), float(np.percentile(found, 95)), held)


def stepped(columns: Columns, real: Table) -> dict[str, float]:
    """The share of values of each column that its declared step would change."""
    found = dict[str, float]()
    for column, values in zip(columns, real, strict=True):
        if column.ordered and column.axis.values is not None:
            steps = values[~np.isnan(values)] * (column.axis.values - 1)
            changed = float((np.abs(steps - np.rint(steps)) > 1e-5).mean()) if len(steps) else 0.0
            found |= {column.name: changed} if changed else {}
    return found
