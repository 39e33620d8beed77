"""How far a synthetic table is from the real one, by questions that analysts ask of one column and of two. NOT PRIVATE.

A table is a list of columns of floats, NaN where a value is missing: numbers in parts of their declared range, and of
an unordered column (a category, yes or no) the place in its list. An error is None where nothing could be asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
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
BOXES = 400
FEW = 16  # an ordered column of at most so many values makes groups as a category does
LEAST_GROUP = 0.02  # parts of the real rows
OUTCOME = (0.01, 0.1)
EXPOSED = (0.1, 0.9)


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
    """
    ordered = [i for i, column in enumerate(columns) if column.ordered]
    lines = [line_errors(real[i], made[i]) for i in ordered]
    found = {"ks": _mean([ks for ks, _ in lines]), "w1": _mean([w1 for _, w1 in lines])}
    for bins in BINS:
        codes = [[bin_of(c, v, bins) for c, v in zip(columns, table, strict=True)] for table in (real, made)]
        found[f"bins_{bins}"] = _mean([share_error(a, b) for a, b in zip(*codes, strict=True)])
        if bins == 16:
            pairs = [[x * 1_000_000 + y for x, y in combinations(table, 2)] for table in codes]
            found["pairs_16"] = _mean([share_error(a, b) for a, b in zip(*pairs, strict=True)])
    means = [abs(a - b) for *_, a, b in group_means(columns, real, made)]
    found |= {"group_means": _mean(means), "worst_group": max(means, default=None)}
    found["pearson"] = _mean(_differences(_numeric(columns, real), _numeric(columns, made)))
    ranks = [[_ranks(values) for values in _numeric(columns, table)] for table in (real, made)]
    found["spearman"] = _mean(_differences(*ranks))
    shares = box_shares(columns, real, made, seed)
    errors = np.abs(shares[0] - shares[1])
    found |= {"boxes": float(errors.mean()), "boxes_95": float(np.percentile(errors, 95))}
    found["risk_ratios"] = _mean([abs(math.log(a / b)) for *_, a, b in risk_ratios(columns, real, made)])
    return found


def table_of(points: Floats, columns: Columns) -> Table:
    """The table at points of the cube, as ``schema.encode`` gives them."""
    sides = (column.split(places) for column, places in zip(columns, points.T, strict=True))
    return [np.where(there, values, np.nan) for values, there in sides]


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


def line_errors(real: Floats, made: Floats) -> tuple[float, float]:
    """KS distance, and W1 in standard deviations of the real values; the largest values if one table has none."""
    x, y = np.sort(real[~np.isnan(real)]), np.sort(made[~np.isnan(made)])
    if not len(x) or not len(y):
        return (0.0, 0.0) if len(x) == len(y) else (1.0, 1.0)
    at = np.concatenate([x, y])
    below = [np.searchsorted(side, at, side="right") / len(side) for side in (x, y)]
    return float(np.abs(below[0] - below[1]).max()), w1_line(x, y) / _deviation(x)


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
    codes, places = np.unique(np.concatenate([real, made]), return_inverse=True)
    sides = places[: len(real)], places[len(real) :]
    a, b = (np.bincount(side, minlength=len(codes)) / max(len(side), 1) for side in sides)
    return float(np.abs(a - b).sum()) / 2


def groups_of(column: ColumnAxis, values: Floats, least: float) -> Iterator[int]:
    """The values that make groups of at least a part of the rows: those of categories, and of a few steps."""
    if not column.ordered or (column.axis.values or FEW + 1) <= FEW:
        codes, counts = np.unique(bin_of(column, values, FEW), return_counts=True)
        yield from (int(c) for c, n in zip(codes, counts, strict=True) if c >= 0 and n >= least * len(values))


def group_means(columns: Columns, real: Table, made: Table) -> Iterator[tuple[int, int, int, float, float]]:
    """An ordered column, a column of groups, the group, and the means in both tables in real standard deviations.

    A group that the synthetic table does not have has the mean of all its rows.
    """
    codes = [[bin_of(c, v, FEW) for c, v in zip(columns, table, strict=True)] for table in (real, made)]
    for i, by in permutations(range(len(columns)), 2):
        if columns[i].ordered and not np.isnan(real[i]).all() and not np.isnan(made[i]).all():
            scale = _deviation(real[i])
            means = [_means(table[i], side[by]) for table, side in zip((real, made), codes, strict=True)]
            whole = float(np.nanmean(made[i]))
            for group in groups_of(columns[by], real[by], LEAST_GROUP):
                if group in means[0]:
                    yield i, by, group, means[0][group] / scale, means[1].get(group, whole) / scale


def _means(values: Floats, groups: Integers) -> dict[int, float]:
    there = ~np.isnan(values) & (groups >= 0)
    sums, counts = np.bincount(groups[there], values[there]), np.bincount(groups[there])
    return {int(group): float(sums[group] / counts[group]) for group in np.flatnonzero(counts)}


def box_shares(columns: Columns, real: Table, made: Table, seed: int) -> tuple[Floats, Floats]:
    """The shares of rows in random boxes: between two of the real values, or half of the categories."""
    rng, shares = np.random.default_rng([seed, 2]), np.zeros((2, BOXES))
    for at in range(BOXES):
        chosen = rng.choice(len(columns), min(int(rng.integers(2, 4)), len(columns)), replace=False)
        inside = [np.ones(len(table[0]), dtype=bool) for table in (real, made)]
        for i in chosen:
            known = real[i][~np.isnan(real[i])]
            low, high = np.sort(rng.choice(known, 2)) if len(known) else (0, 1)
            half = rng.random(columns[i].axis.values or 1) < 0.5
            for rows, table in zip(inside, (real, made), strict=True):
                if columns[i].ordered:
                    rows &= (table[i] >= low) & (table[i] <= high)
                else:
                    rows &= ~np.isnan(table[i]) & half[np.nan_to_num(table[i]).astype(np.int64)]
        shares[:, at] = [rows.mean() for rows in inside]
    return shares[0], shares[1]


def risk_ratios(columns: Columns, real: Table, made: Table) -> Iterator[tuple[int, int, float, float]]:
    """An outcome's column, a column of exposed rows, and the risk ratio of exposed and others in both tables.

    Outcomes are values of categories, of a few steps, or beyond a number's 95th percentile, which 1 to 10 % of the
    rows have; exposed are 10 to 90 % of them, by such a value or above a number's median. Counts of outcomes have 1/2
    added.
    """
    exposed = list(_flags(columns, real, made, EXPOSED, 50))
    for i, ill_real, ill_made in _flags(columns, real, made, OUTCOME, 95):
        for j, at_real, at_made in exposed:
            if i != j:
                yield i, j, _risk_ratio(ill_real, at_real), _risk_ratio(ill_made, at_made)


def _flags(
    columns: Columns, real: Table, made: Table, share: tuple[float, float], percentile: float
) -> Iterator[tuple[int, Flags, Flags]]:
    """Rows of both tables that have a value, as zeros and ones: of those values that such a share of real rows have."""
    for i, column in enumerate(columns):
        both = real[i], made[i]
        if column.ordered and (column.axis.values or FEW + 1) > FEW:
            known = real[i][~np.isnan(real[i])]
            cut = float(np.percentile(known, percentile)) if len(known) else 1.0
            found = [[values > cut for values in both]]
        else:
            codes = [bin_of(column, values, FEW) for values in both]
            found = [[side == group for side in codes] for group in groups_of(column, real[i], share[0])]
        for flags in found:
            if share[0] <= flags[0].mean() <= share[1]:
                yield i, flags[0].astype(np.float32), flags[1].astype(np.float32)


def _risk_ratio(ill: Flags, exposed: Flags) -> float:
    both, some, at = float(ill @ exposed), float(ill.sum()), float(exposed.sum())
    return (both + 0.5) / (at + 1) / ((some - both + 0.5) / (len(ill) - at + 1))


def _numeric(columns: Columns, table: Table) -> list[Floats]:
    """The columns that can be correlated."""
    return [v for c, v in zip(columns, table, strict=True) if c.ordered or c.axis.values == 2]


def _ranks(values: Floats) -> Floats:
    """Mean ranks among the values that are there."""
    line = np.sort(values[~np.isnan(values)])
    ranks = (np.searchsorted(line, values, side="left") + np.searchsorted(line, values, side="right")) / 2
    return np.where(np.isnan(values), np.nan, ranks)


def correlations(columns: Sequence[Floats]) -> Floats:
    """Pearson's correlation of each pair, of the rows that have both values; 0 if one of them does not vary."""
    x = np.column_stack(columns)
    there = (~np.isnan(x)).astype(np.float64)
    scale = np.nanmax(np.abs(x), axis=0, initial=1e-300)
    x = np.nan_to_num(x / scale)
    x -= x.mean(axis=0)
    x *= there
    n = np.maximum(there.T @ there, 1)
    sums, squares = x.T @ there / n, (x * x).T @ there / n
    variances = np.maximum(squares - sums**2, 0)
    both = np.sqrt(variances * variances.T)
    covariances = x.T @ x / n - sums * sums.T
    return np.where(both > 1e-12, covariances / np.maximum(both, 1e-12), 0.0)


def _differences(real: list[Floats], made: list[Floats]) -> list[float]:
    if len(real) < 2:
        return []
    upper = np.triu_indices(len(real), 1)
    found: list[float] = np.abs(correlations(real) - correlations(made))[upper].tolist()
    return found


def _deviation(values: Floats) -> float:
    """The standard deviation; of a column that does not vary, its whole range."""
    deviation = float(np.nanstd(values))
    return deviation if deviation > 1e-12 else 1.0


def _mean(errors: Sequence[float]) -> float | None:
    return sum(errors) / len(errors) if errors else None
