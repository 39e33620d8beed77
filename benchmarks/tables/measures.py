"""How far a synthetic table is from the real one."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

import headwater as hw
from benchmarks.tables.data import Codes, Table


def errors(real: Table, made: pd.DataFrame) -> dict[str, float]:
    """Total variation of one- and two-way marginals, the mean and the worst, and the mean error of correlations."""
    found = marginal_errors(real.codes(), real.codes(made), real.sizes) | {"correlation": correlation_error(real, made)}
    return {name: round(value, 6) for name, value in found.items()}


def marginal_errors(real: Codes, made: Codes, sizes: tuple[int, ...]) -> dict[str, float]:
    """The errors of records in the cells ``made``; both code arrays have one row per record."""
    one = [_distance(real[:, [i]], made[:, [i]], sizes[i : i + 1]) for i in range(len(sizes))]
    pairs = combinations(range(len(sizes)), 2)
    two = [_distance(real[:, [i, j]], made[:, [i, j]], (sizes[i], sizes[j])) for i, j in pairs]
    means = {"one_way": float(np.mean(one)), "two_way": float(np.mean(two)) if two else 0.0}
    return means | {"one_way_worst": max(one), "two_way_worst": max(two, default=0.0)}


def _distance(real: Codes, made: Codes, sizes: tuple[int, ...]) -> float:
    shares = [
        np.bincount(np.ravel_multi_index(tuple(codes.T), sizes), minlength=int(np.prod(sizes))) / max(len(codes), 1)
        for codes in (real, made)
    ]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def correlation_error(table: Table, made: pd.DataFrame) -> float:
    """The mean difference of Pearson's correlation over pairs of columns that are numeric or have two values.

    Gaps are left out pair by pair; a column without variance correlates with nothing.
    """
    found = [_numbers(table, frame).corr().to_numpy(na_value=0.0) for frame in (table.frame, made)]
    upper = np.triu_indices(len(found[0]), 1)
    return float(np.abs(np.nan_to_num(found[0]) - np.nan_to_num(found[1]))[upper].mean())


def _numbers(table: Table, frame: pd.DataFrame) -> pd.DataFrame:
    """Numeric columns as they are, those of two values as 0 and 1, no others."""
    codes, numbers = table.codes(frame), {}
    for at, (name, column) in enumerate(table.schema.columns.items()):
        if not isinstance(column, hw.Category | hw.Boolean):
            numbers[name] = frame[name].to_numpy(dtype=float, na_value=np.nan)
        elif column.size == 2:
            numbers[name] = np.where(codes[:, at] < 2, codes[:, at], np.nan)
    return pd.DataFrame(numbers)
