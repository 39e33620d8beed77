"""How alike a real and a synthetic table are: in all, by column, by pair of columns, and in answers to questions.

NOT PRIVATE. Everything here is computed from the real data without noise. It is for public or test data, or for the
eyes of those who may see the data anyway.

Four views, from the strictest to the most practical:

``w1``
    The distance of the two tables in the schema's unit cube, as in `headwater.evaluate.w1`: no error for one column or
    small tables, a grid with a stated error for two and three columns. From four columns on it is an estimate from a
    subsample, which is too large on average; ``floor`` is what the real data, split in two at random, give by the same
    method, so only what exceeds it tells the tables apart.
``columns``
    W₁ on the column's own axis, scaled to 0..1, for kinds with an order; total variation for categories and booleans.
    Both among the values that are there. How many are missing is said apart.
``dependence``
    Mutual information of each pair of columns over the geometric mean of their entropies, on a public grid of bins.
    0 is independent, 1 is one to one.
``queries``
    What share of the rows lies in a box: boxes over one to three columns, drawn from a public seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headwater.evaluate.w1 import DEFAULT_SIDE, EXACT_POINTS, W1, w1
from headwater.partition import Axis, Partition

if TYPE_CHECKING:
    from rich.console import Group

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

NOT_PRIVATE = "NOT PRIVATE: computed from the real data without noise. Do not publish."

SUBSAMPLE = 2_000  # points of each table if there are too many columns for a grid; about a second
BINS = 16  # of a column with an order, for the dependence of pairs
MOST_CATEGORIES = 64  # bins of a column of categories, for the dependence of pairs
QUERIES = 200
_UNORDERED = ("category", "boolean")


class SchemaLike(Protocol):
    """What is needed of a schema: `headwater.table.schema.Schema` and `headwater.unit_cube` have it."""

    @property
    def dimension(self) -> int:
        """How many columns there are."""

    @property
    def partition(self) -> Partition:
        """The cube, with an axis for each column."""

    def encode(self, table: Any, /) -> Floats:  # noqa: ANN401  # any kind of table
        """A table as points of the cube."""

    def to_dict(self) -> dict[str, Any]:
        """The content of a schema file."""


@dataclass(frozen=True)
class Column:
    """One column of a schema: its name, its kind, its axis of the cube, and what a schema file says of it."""

    name: str
    kind: str
    axis: Axis
    declared: dict[str, Any]

    @property
    def ordered(self) -> bool:
        """Whether a distance between values makes sense."""
        return self.kind not in _UNORDERED

    def split(self, places: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Values at coordinates of the axis, and which of them are there.

        Of kinds with an order they are scaled to 0..1, from the lowest possible value to the highest; else they are
        numbers of values.
        """
        values, gone = self.axis.value(places)
        there = np.ones(len(places), dtype=bool) if gone is None else ~gone
        scale = max((self.axis.values or 2) - 1, 1) if self.ordered else 1
        return values.astype(np.float64) / scale, there


@dataclass(frozen=True)
class ColumnDistance:
    """How far one column is from the real one. NOT PRIVATE.

    ``distance`` is ``nan`` if a table has no value of this column that is not missing.
    """

    name: str
    kind: str
    measure: str
    distance: float
    missing_real: float
    missing_synthetic: float


@dataclass(frozen=True)
class QueryErrors:
    """Absolute errors of the shares that boxes hold, over ``count`` random boxes. NOT PRIVATE."""

    count: int
    mean: float
    percentile_95: float
    largest: float


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What `evaluate` found. NOT PRIVATE: print it, but do not publish it.

    Attributes
    ----------
    rows
        Of the real and of the synthetic table.
    w1
        The distance of the tables, with its error and method.
    floor
        If the method is ``"subsample"``: what the same method says of two halves of the real data. Else ``None``.
    columns
        The distance of each column.
    dependence
        Matrices of the real and of the synthetic table, of shape ``(d, d)``.
    queries
        Errors of answers.
    """

    rows: tuple[int, int]
    w1: W1
    floor: float | None
    columns: tuple[ColumnDistance, ...]
    dependence: tuple[Floats, Floats]
    queries: QueryErrors

    @property
    def difference(self) -> Floats:
        """Synthetic dependence minus real dependence."""
        return self.dependence[1] - self.dependence[0]

    def to_dict(self) -> dict[str, Any]:
        """For JSON: what is unknown is ``None``."""
        real, synthetic = self.dependence
        return {
            "warning": NOT_PRIVATE,
            "rows": {"real": self.rows[0], "synthetic": self.rows[1]},
            "w1": {
                "value": self.w1.value,
                "error": _known(self.w1.error),
                "method": self.w1.method,
                "floor": self.floor,
            },
            "columns": [{**vars(column), "distance": _known(column.distance)} for column in self.columns],
            "dependence": {
                "columns": [column.name for column in self.columns],
                "real": real.tolist(),
                "synthetic": synthetic.tolist(),
                "difference": self.difference.tolist(),
            },
            "queries": vars(self.queries).copy(),
        }

    def _summary(self) -> list[tuple[str, str]]:
        """Lines of a label and a finding."""
        if self.w1.method == "subsample":
            beside = f"estimate from {SUBSAMPLE:,} rows of each" + (
                f"; the real data against themselves: {self.floor:.4f}" if self.floor is not None else ""
            )
        else:
            beside = "exact" if self.w1.error == 0 else f"± {self.w1.error:.4f}, {self.w1.method}"
        lines = [
            ("rows", f"{self.rows[0]:,} real, {self.rows[1]:,} synthetic"),
            ("W1 in the unit cube", f"{self.w1.value:.4f} ({beside})"),
            (
                f"error of {self.queries.count} range queries",
                f"{self.queries.mean:.4f} mean, {self.queries.percentile_95:.4f} at the 95th percentile",
            ),
        ]
        if len(self.columns) > 1:
            worst = np.abs(self.difference)
            i, j = np.unravel_index(int(worst.argmax()), worst.shape)
            pair = f" ({self.columns[i].name} and {self.columns[j].name})" if worst[i, j] > 0 else ""
            lines.append(("largest change of dependence", f"{self.difference[i, j]:+.4f}{pair}"))
        return lines

    def _cells(self) -> list[tuple[str, str, str, str, str]]:
        header = ("column", "distance", "measure", "missing, real", "missing, synthetic")
        rows = [
            (c.name, f"{c.distance:.4f}", c.measure, f"{c.missing_real:.2%}", f"{c.missing_synthetic:.2%}")
            for c in self.columns
        ]
        return [header, *rows]

    def __str__(self) -> str:
        summary = self._summary()
        width = max(len(label) for label, _ in summary)
        lines = [NOT_PRIVATE, "", *(f"{label:<{width}}  {finding}" for label, finding in summary), ""]
        cells = self._cells()
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        lines += ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells]
        return "\n".join(lines)

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        summary = Table.grid(padding=(0, 2))
        for line in self._summary():
            summary.add_row(*(Text(part) for part in line))
        header, *rows = self._cells()
        columns = Table(*header, title_justify="left")
        for row in rows:
            columns.add_row(*(Text(cell) for cell in row))  # Text: a name in brackets is a name, not markup
        return Group(Text(NOT_PRIVATE, style="bold white on red"), "", summary, "", columns)


def evaluate(real: object, synthetic: object, schema: SchemaLike, *, seed: int = 0) -> Evaluation:
    """Compare a real and a synthetic table. NOT PRIVATE.

    Parameters
    ----------
    real, synthetic
        Points of the cube, as ``schema.encode`` gives them: arrays of floats of shape ``(n, d)``. Any other kind of
        table is encoded first. They may differ in length.
    schema
        Of both tables.
    seed
        Of the boxes that are asked about, and of subsamples. Public; the same seed asks the same questions.

    Examples
    --------
    >>> import headwater as hw
    >>> points = np.random.default_rng(0).random((500, 2))
    >>> found = evaluate(points, points, hw.unit_cube(2))
    >>> float(found.w1), found.queries.mean
    (0.0, 0.0)
    >>> print(str(found).splitlines()[0])
    NOT PRIVATE: computed from the real data without noise. Do not publish.
    """
    x, y = (_encoded(table, schema, name) for table, name in ((real, "real"), (synthetic, "synthetic")))
    columns = columns_of(schema)
    distance, floor = _whole(x, y, np.random.default_rng([seed, 1]))
    sides = tuple([column.split(points[:, i]) for i, column in enumerate(columns)] for points in (x, y))
    shares = [_answers(side, columns, np.random.default_rng([seed, 2])) for side in sides]
    errors = np.abs(shares[0] - shares[1])
    return Evaluation(
        rows=(len(x), len(y)),
        w1=distance,
        floor=floor,
        columns=tuple(_compare(column, *pair) for column, *pair in zip(columns, *sides, strict=True)),
        dependence=(dependence(x, columns), dependence(y, columns)),
        queries=QueryErrors(
            QUERIES, float(errors.mean()), float(np.percentile(errors, 95)), float(errors.max(initial=0))
        ),
    )


def columns_of(schema: SchemaLike) -> tuple[Column, ...]:
    """The columns of a schema. Those of a unit cube are numbers from 0 to 1.

    >>> import headwater as hw
    >>> [column.name for column in columns_of(hw.unit_cube(2))]
    ['x0', 'x1']
    """
    declared = schema.to_dict().get("columns")
    if declared is None:
        plain = {"kind": "number", "low": 0.0, "high": 1.0}
        declared = {f"x{i}": plain for i in range(schema.dimension)}
    axes = schema.partition.axes
    return tuple(Column(name, c["kind"], axis, c) for (name, c), axis in zip(declared.items(), axes, strict=True))


def bin_columns(points: Floats, columns: tuple[Column, ...]) -> tuple[list[Integers], list[int]]:
    """The public bin of every value of every column, and how many bins the column has; missing has one of its own."""
    bins, sizes = list[Integers](), list[int]()
    for places, column in zip(points.T, columns, strict=True):
        values, there = column.split(places)
        if column.ordered:
            size = min(BINS, column.axis.values or BINS)
            found = np.minimum((values * size).astype(np.int64), size - 1)
        else:  # neighbouring categories share a bin if there are very many of them
            size = min(MOST_CATEGORIES, column.axis.values or 1)
            found = values.astype(np.int64) * size // (column.axis.values or 1)
        bins.append(np.where(there, found, size))
        sizes.append(size + 1)
    return bins, sizes


def dependence(points: Floats, columns: tuple[Column, ...]) -> Floats:
    """Normalised mutual information of every pair of columns, on the bins of `bin_columns`; a symmetric matrix."""
    bins, sizes = bin_columns(points, columns)
    entropies = [_entropy(np.bincount(b, minlength=1)) for b in bins]
    matrix = np.diag([float(entropy > 0) for entropy in entropies])
    for i in range(len(columns)):
        for j in range(i):
            both = math.sqrt(entropies[i] * entropies[j])
            if both > 0:
                mutual = entropies[i] + entropies[j] - _entropy(np.bincount(bins[i] * sizes[j] + bins[j]))
                matrix[i, j] = matrix[j, i] = min(max(mutual / both, 0.0), 1.0)
    return matrix


def _encoded(table: object, schema: SchemaLike, name: str) -> Floats:
    points = table if isinstance(table, np.ndarray) and table.dtype.kind == "f" else schema.encode(table)
    if points.ndim != 2 or points.shape[1] != schema.dimension:
        raise ValueError(f"{name} must be points of shape (n, {schema.dimension}), not {points.shape}")
    if not len(points):
        raise ValueError(f"{name} has no rows: there is nothing to compare")
    if not ((points >= 0) & (points <= 1)).all():
        raise ValueError(f"{name} has points outside the unit cube: encode the table with its schema first")
    return points.astype(np.float64, copy=False)


def _whole(x: Floats, y: Floats, rng: np.random.Generator) -> tuple[W1, float | None]:
    """W₁ of two tables, and its floor if it is only an estimate."""
    d = x.shape[1]
    if d == 1 or d in DEFAULT_SIDE or (len(x) == len(y) <= EXACT_POINTS):
        return w1(x, y), None
    size = min(SUBSAMPLE, len(x), len(y))
    x_part, y_part = (rng.choice(points, size, replace=False) for points in (x, y))
    value = w1(x_part, y_part, method="exact").value
    half = min(size, len(x) // 2)
    if not half:
        return W1(value, math.nan, "subsample"), None
    parts = rng.choice(x, 2 * half, replace=False)
    return W1(value, math.nan, "subsample"), w1(parts[:half], parts[half:], method="exact").value


Side = tuple[Floats, NDArray[np.bool_]]


def _compare(column: Column, real: Side, synthetic: Side) -> ColumnDistance:
    (a, has_a), (b, has_b) = real, synthetic
    distance, u, v = math.nan, a[has_a], b[has_b]
    if len(u) and len(v):
        if column.ordered:
            distance = w1(u, v).value
        else:
            size = column.axis.values or 1
            p, q = (np.bincount(w.astype(np.int64), minlength=size) / len(w) for w in (u, v))
            distance = float(np.abs(p - q).sum()) / 2
    measure = "W1" if column.ordered else "total variation"
    gone = (1 - float(has_a.mean()), 1 - float(has_b.mean()))
    return ColumnDistance(column.name, column.kind, measure, distance, *gone)


def _answers(side: list[Side], columns: tuple[Column, ...], rng: np.random.Generator) -> Floats:
    """The share of rows in each of the boxes. Missing values lie in no box."""
    shares = np.empty(QUERIES)
    for query in range(QUERIES):
        size = int(rng.integers(1, min(3, len(columns)) + 1))
        inside: NDArray[np.bool_] | None = None
        for i in rng.choice(len(columns), size, replace=False):
            values, there = side[i]
            if columns[i].ordered:
                low, high = np.sort(rng.random(2))
                found = (values >= low) & (values <= high) & there
            else:
                chosen = rng.random(columns[i].axis.values or 1) < 0.5
                found = chosen[values.astype(np.int64)] & there
            inside = found if inside is None else inside & found
        assert inside is not None  # noqa: S101  # for the type checker: size is at least 1
        shares[query] = inside.mean()
    return shares


def _entropy(counts: Integers) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number
