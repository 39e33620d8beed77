"""How far a synthetic table is from the real one, by questions that analysts ask of one column and of two. NOT PRIVATE.

A table is a list of columns of floats, NaN where a value is missing: numbers in parts of their declared range, and of
an unordered column (a category, yes or no) the place in its list. `Questions` are of one kind, and are chosen by the
real table; what they find in a table is an array with a number for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray

from headwater.evaluation.axes import ColumnAxis, Floats, Integers
from headwater.evaluation.w1 import w1_line

Table = Sequence[Floats]
Columns = Sequence[ColumnAxis]
Flags = NDArray[np.float32]
"""Ones and zeros: sums of fewer than 2²⁴ are exact."""

BINS = (7, 16, 24, 50, 100)
ONE_COLUMN = ("ks", "w1", "bins_24", "bins_50")
TWO_COLUMNS = ("group_means", "spearman", "boxes", "boxes_95", "risk_ratios")
"""The two groups of questions over which ratios are averaged."""
BOXES, RANGES = 400, 20
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
FEW = 16  # an ordered column of at most so many values makes groups as a category does
LEAST_GROUP = 0.02  # parts of the real rows
OUTCOME = (0.01, 0.1)
EXPOSED = (0.1, 0.9)


@dataclass(frozen=True)
class Questions:
    """Questions of one kind: for each the columns that it is about and a value of the last, and what answers all."""

    about: list[tuple[int, ...]]
    ask: Callable[[Table], Floats]

    def errors(self, real: Table, made: Table) -> Floats:
        """The absolute errors, as far as both tables have an answer."""
        found: Floats = np.abs(self.ask(made) - self.ask(real))
        return found[np.isfinite(found)]


def yardstick(columns: Columns, real: Table, made: Table, seed: int = 0) -> dict[str, float | None]:
    """The errors of a table, each the mean over columns, pairs, groups or boxes unless it is called the worst.

    ``ks``
        Of ordered columns, the largest difference of the shares of rows up to a value; ``w1`` is in the real
        column's standard deviations.
    ``bins_7`` to ``bins_100``
        Total variation on equal parts of the declared range, or on the values if there are fewer; missing ones are one
        more. ``pairs_16``: of two columns.
    ``group_means``
        Differences of means of an ordered column, in its standard deviations, in groups of 2 % of the rows and more;
        ``worst_group`` is the largest.
    ``pearson`` and ``spearman``
        Differences of correlations of ordered columns and those of two values.
    ``boxes``
        Differences of shares of rows in random boxes over two or three columns; ``boxes_95`` is their 95th percentile.
    ``risk_ratios``
        Differences of logarithms of risk ratios of outcomes that 1 to 10 % of the rows have.

    None stands where nothing could be asked.
    """
    lines = [line_errors(real[i], made[i]) for i, column in enumerate(columns) if column.ordered]
    found = {"ks": _mean([ks for ks, _ in lines]), "w1": _mean([w1 for _, w1 in lines])}
    for bins in BINS:
        codes = [[bin_of(c, v, bins) for c, v in zip(columns, table, strict=True)] for table in (real, made)]
        found[f"bins_{bins}"] = _mean([share_error(a, b) for a, b in zip(*codes, strict=True)])
        if bins == 16:
            pairs = [[x * 1_000_000 + y for x, y in combinations(table, 2)] for table in codes]
            found["pairs_16"] = _mean([share_error(a, b) for a, b in zip(*pairs, strict=True)])
    means = group_means(columns, real).errors(real, made)
    found |= {"group_means": _mean(means), "worst_group": float(means.max()) if len(means) else None}
    for name, ranked in (("pearson", False), ("spearman", True)):
        found[name] = _mean(correlations(columns, real, ranked=ranked).errors(real, made))
    errors = boxes(columns, real, seed).errors(real, made)
    found |= {"boxes": _mean(errors), "boxes_95": float(np.percentile(errors, 95))}
    found["risk_ratios"] = _mean(risk_ratios(columns, real).errors(real, made))
    return found


def table_of(points: Floats, columns: Columns) -> Table:
    """The table at points of the cube, as ``schema.encode`` gives them."""
    return [column.split(places) for column, places in zip(columns, points.T, strict=True)]


def mean_ratio(
    ours: Mapping[str, float | None], *theirs: Mapping[str, float | None], of: Sequence[str]
) -> float | None:
    """The geometric mean over questions of our error over the least of theirs, as far as there are such questions."""
    ratios = [ratio for one in of if (ratio := error_ratio(ours, *theirs, of=one)) is not None]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def error_ratio(ours: Mapping[str, float | None], *theirs: Mapping[str, float | None], of: str) -> float | None:
    """Our error over the least of theirs; errors below a millionth count as a millionth."""
    mine, others = ours.get(of), [error for one in theirs if (error := one.get(of)) is not None]
    return max(mine, 1e-6) / max(min(others), 1e-6) if mine is not None and others else None


# ---- one column


def line_errors(real: Floats, made: Floats) -> tuple[float, float]:
    """KS distance, and W1 in standard deviations of the real values; the largest values if one table has none."""
    x, y = np.sort(real[~np.isnan(real)]), np.sort(made[~np.isnan(made)])
    if not len(x) or not len(y):
        return (0.0, 0.0) if len(x) == len(y) else (1.0, 1.0)
    at = np.concatenate([x, y])
    below = [np.searchsorted(side, at, side="right") / len(side) for side in (x, y)]
    return float(np.abs(below[0] - below[1]).max()), w1_line(x, y) / deviation(x)


def bin_of(column: ColumnAxis, values: Floats, bins: int) -> Integers:
    """The bin of each value: a category, a step, or an equal part of the range; -1 where it is missing."""
    there, steps = np.nan_to_num(values), column.axis.values
    if not column.ordered:
        codes = np.rint(there)
    elif steps is None:
        codes = np.minimum(np.floor(there * bins), bins - 1)
    else:
        codes = np.rint(there * (steps - 1)) * min(bins, steps) // steps
    return np.where(np.isnan(values), -1, codes).astype(np.int64)


def share_error(real: Integers, made: Integers) -> float:
    """Total variation of two columns of codes: the most that the share of any set of them differs."""
    return float(np.abs(np.subtract(*_shares(real, made))).sum()) / 2


def value_error(real: Integers, made: Integers) -> float:
    """The most that the share of one code differs."""
    return float(np.abs(np.subtract(*_shares(real, made))).max(initial=0))


def _shares(real: Integers, made: Integers) -> tuple[Floats, Floats]:
    codes, places = np.unique(np.concatenate([real, made]), return_inverse=True)
    sides = places[: len(real)], places[len(real) :]
    a, b = (np.bincount(side, minlength=len(codes)) / max(len(side), 1) for side in sides)
    return a, b


def ranges(columns: Columns, real: Table, seed: int) -> Questions:
    """Shares of rows in random ranges of ordered columns, and with each of some values of unordered ones.

    Half of the ranges end at two of the real values, half at two declared ones.
    """
    rng, asked = np.random.default_rng([seed, 1]), list[tuple[int, float, float]]()
    for i, column in enumerate(columns):
        known = real[i][~np.isnan(real[i])]
        if column.ordered and len(known):
            steps = max((column.axis.values or 1 << 53) - 1, 1)
            ends = [rng.choice(known, (RANGES // 2, 2)), np.rint(rng.random((RANGES // 2, 2)) * steps) / steps]
            asked += [(i, float(low), float(high)) for low, high in np.sort(np.concatenate(ends), axis=1)]
        else:
            values = column.axis.values or 1
            asked += [(i, float(v), float(v)) for v in rng.choice(values, min(RANGES, values), replace=False)]

    def ask(table: Table) -> Floats:
        return np.array([((table[i] >= low - 1e-12) & (table[i] <= high + 1e-12)).mean() for i, low, high in asked])

    return Questions([(i,) for i, _, _ in asked], ask)


def quantiles(columns: Columns, real: Table) -> Questions:
    """Quantiles of ordered columns, in standard deviations of the real ones."""
    scales = {i: deviation(real[i]) for i, c in enumerate(columns) if c.ordered and not np.isnan(real[i]).all()}

    def ask(table: Table) -> Floats:
        found = list[float]()
        for i, scale in scales.items():
            known = np.sort(table[i][~np.isnan(table[i])])
            at = [max(math.ceil(q * len(known)) - 1, 0) for q in QUANTILES]
            found += (known[at] / scale).tolist() if len(known) else [math.nan] * len(at)
        return np.array(found)

    return Questions([(i,) for i in scales for _ in QUANTILES], ask)


# ---- two columns


def groups_of(column: ColumnAxis, values: Floats, least: float) -> Iterator[int]:
    """The values that make groups of at least a part of the rows: those of categories, and of a few steps."""
    if not column.ordered or (column.axis.values or FEW + 1) <= FEW:
        codes, counts = np.unique(bin_of(column, values, FEW), return_counts=True)
        yield from (int(c) for c, n in zip(codes, counts, strict=True) if c >= 0 and n >= least * len(values))


def group_means(columns: Columns, real: Table) -> Questions:
    """Means of ordered columns by group, in standard deviations; where a group has no value, the mean of all rows."""
    groups = {by: list(groups_of(column, real[by], LEAST_GROUP)) for by, column in enumerate(columns)}
    scales = {i: deviation(real[i]) for i, c in enumerate(columns) if c.ordered and not np.isnan(real[i]).all()}
    pairs = [(i, by) for i, by in permutations(range(len(columns)), 2) if i in scales and groups[by]]

    def ask(table: Table) -> Floats:
        codes = {by: bin_of(columns[by], table[by], FEW) for by, some in groups.items() if some}
        found = list[float]()
        for i, by in pairs:
            there = ~np.isnan(table[i])
            values, rows = table[i][there], codes[by][there]
            whole, known = float(values.mean()) if len(values) else math.nan, rows >= 0
            most = groups[by][-1] + 1
            sums = np.bincount(rows[known], values[known], minlength=most)
            counts = np.bincount(rows[known], minlength=most)
            found += [(sums[g] / counts[g] if counts[g] else whole) / scales[i] for g in groups[by]]
        return np.array(found)

    return Questions([(i, by, group) for i, by in pairs for group in groups[by]], ask)


def boxes(columns: Columns, real: Table, seed: int) -> Questions:
    """Shares of rows in random boxes over two or three columns: between two of the real values, or half of the list."""
    rng, asked = np.random.default_rng([seed, 2]), list[dict[int, tuple[float, float] | NDArray[np.bool_]]]()
    known = [values[~np.isnan(values)] for values in real]
    for _ in range(BOXES):
        sides = dict[int, tuple[float, float] | NDArray[np.bool_]]()
        for i in rng.choice(len(columns), min(int(rng.integers(2, 4)), len(columns)), replace=False).tolist():
            low, high = np.sort(rng.choice(known[i], 2)) if len(known[i]) else (0.0, 1.0)
            if columns[i].ordered:
                sides[i] = low - 1e-12, high + 1e-12
            else:
                sides[i] = rng.random(columns[i].axis.values or 1) < 0.5
        asked.append(sides)

    def ask(table: Table) -> Floats:
        found = np.empty(BOXES)
        for at, sides in enumerate(asked):
            inside = np.ones(len(table[0]), dtype=bool)
            for i, side in sides.items():
                if isinstance(side, tuple):
                    inside &= (table[i] >= side[0]) & (table[i] <= side[1])
                else:
                    inside &= ~np.isnan(table[i]) & side[np.nan_to_num(table[i]).astype(np.int64)]
            found[at] = inside.mean()
        return found

    return Questions([tuple(sides) for sides in asked], ask)


def risk_ratios(columns: Columns, real: Table) -> Questions:
    """Logarithms of risk ratios of exposed rows and others.

    Outcomes are values of categories, of a few steps, or beyond a number's 95th percentile, which 1 to 10 % of the
    rows have; exposed are 10 to 90 % of them, by such a value or above a number's median. Counts have 1/2 added.
    """
    outcomes, exposed = list(_flags(columns, real, OUTCOME, 95)), list(_flags(columns, real, EXPOSED, 50))
    pairs = [(a, b) for a, (i, _) in enumerate(outcomes) for b, (j, _) in enumerate(exposed) if i != j]

    def ask(table: Table) -> Floats:
        ill, at = ([find(table) for _, find in flags] for flags in (outcomes, exposed))
        some, all_ = [float(rows.sum()) for rows in ill], [float(rows.sum()) for rows in at]
        found = np.empty(len(pairs))
        for number, (a, b) in enumerate(pairs):
            both, others = float(ill[a] @ at[b]), len(table[0]) - all_[b]
            found[number] = math.log((both + 0.5) / (all_[b] + 1) / ((some[a] - both + 0.5) / (others + 1)))
        return found

    return Questions([(outcomes[a][0], exposed[b][0]) for a, b in pairs], ask)


def _flags(
    columns: Columns, real: Table, share: tuple[float, float], percentile: float
) -> Iterator[tuple[int, Callable[[Table], Flags]]]:
    """A column and what finds rows with a value, as ones: of those values that such a share of the real rows have."""

    def above(i: int, cut: float) -> Callable[[Table], Flags]:
        return lambda table: (table[i] > cut).astype(np.float32)

    def equal(i: int, group: int) -> Callable[[Table], Flags]:
        return lambda table: (bin_of(columns[i], table[i], FEW) == group).astype(np.float32)

    for i, column in enumerate(columns):
        known = real[i][~np.isnan(real[i])]
        if not column.ordered or (column.axis.values or FEW + 1) <= FEW:
            found = [equal(i, group) for group in groups_of(column, real[i], share[0])]
        else:
            found = [above(i, float(np.percentile(known, percentile)) + 1e-12)] if len(known) else []
        yield from ((i, find) for find in found if share[0] <= find(real).mean() <= share[1])


def correlations(columns: Columns, real: Table, *, ranked: bool) -> Questions:
    """Pearson's or Spearman's correlation of pairs of columns that have an order or two values."""
    numeric = [i for i, c in enumerate(columns) if c.ordered or c.axis.values == 2]

    def ask(table: Table) -> Floats:
        if len(numeric) < 2:
            return np.empty(0)
        upper = np.triu_indices(len(numeric), 1)
        found: Floats = pearson([_ranks(table[i]) if ranked else table[i] for i in numeric])[upper]
        return found

    return Questions(list(combinations(numeric, 2)), ask)


def _ranks(values: Floats) -> Floats:
    """Mean ranks among the values that are there."""
    line = np.sort(values[~np.isnan(values)])
    ranks = (np.searchsorted(line, values, side="left") + np.searchsorted(line, values, side="right")) / 2
    return np.where(np.isnan(values), np.nan, ranks)


def pearson(columns: Sequence[Floats]) -> Floats:
    """The correlation of each pair, of the rows that have both values; 0 if one of them does not vary."""
    x = np.column_stack(columns)
    there = (~np.isnan(x)).astype(np.float64)
    x = np.nan_to_num(x) / np.maximum(np.abs(np.nan_to_num(x)).max(axis=0, initial=0), 1e-300)
    x = (x - x.mean(axis=0)) * there
    n = np.maximum(there.T @ there, 1)
    sums, squares = x.T @ there / n, (x * x).T @ there / n
    variances = np.maximum(squares - sums**2, 0)
    both = np.sqrt(variances * variances.T)
    return np.where(both > 1e-12, (x.T @ x / n - sums * sums.T) / np.maximum(both, 1e-12), 0.0)


def deviation(values: Floats) -> float:
    """The standard deviation; of a column that does not vary, its whole range."""
    deviation = float(np.nanstd(values))
    return deviation if deviation > 1e-12 else 1.0


def _mean(errors: Sequence[float] | Floats) -> float | None:
    return float(np.mean(errors)) if len(errors) else None
