"""How far a synthetic table is from the real one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

import headwater as hw
from benchmarks.tables.data import Codes, Table

TESTED = 10_000
"""Records, at most, that a classifier is trained on and tested with."""


@dataclass(frozen=True)
class Errors:
    """Total variation of one- and two-way marginals, over all columns and all pairs of them."""

    one_way: float
    one_way_worst: float
    two_way: float
    two_way_worst: float


def marginal_errors(real: Codes, made: Codes, sizes: tuple[int, ...]) -> Errors:
    """The errors of records in the cells ``made``; both code arrays have one row per record."""
    one = [_distance(real[:, [i]], made[:, [i]], sizes[i : i + 1]) for i in range(len(sizes))]
    two = [
        _distance(real[:, [i, j]], made[:, [i, j]], (sizes[i], sizes[j])) for i, j in combinations(range(len(sizes)), 2)
    ]
    return Errors(float(np.mean(one)), max(one), float(np.mean(two)) if two else 0.0, max(two, default=0.0))


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
    codes, numbers = None, {}
    for at, (name, column) in enumerate(table.schema.columns.items()):
        if isinstance(column, hw.Category | hw.Boolean):
            if column.size == 2:
                codes = table.codes(frame) if codes is None else codes
                numbers[name] = np.where(codes[:, at] < 2, codes[:, at], np.nan)
        else:
            numbers[name] = frame[name].to_numpy(dtype=float, na_value=np.nan)
    return pd.DataFrame(numbers)


def accuracy(table: Table, made: pd.DataFrame, seed: int = 0) -> float:
    """The share of real records that a gradient-boosted classifier, trained on ``made``, classifies correctly.

    The real records are drawn from those that the release was made from. The classifier does not see the column that
    it predicts; a record in which that is missing is left out.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    parts = []
    for frame in (made, table.frame):
        name, threshold = table.target or (table.schema.names[0], 0.0)
        frame = frame[frame[name].notna().to_numpy()]
        frame = frame.sample(min(TESTED, len(frame)), random_state=seed)
        label = frame[name].to_numpy(dtype=float) > threshold
        parts.append((_features(table, frame, name), label))
    (x, y), (real_x, real_y) = parts
    if len(set(y)) < 2:
        return float(np.mean(real_y == (y[0] if len(y) else False)))
    categorical = [i for i, n in enumerate(x) if isinstance(table.schema.columns[n], hw.Category | hw.Boolean)]
    # Categories beyond the classifier's 255 would need another encoding; none of the tables has so many.
    model = HistGradientBoostingClassifier(max_iter=50, categorical_features=categorical, random_state=seed)
    return float(model.fit(x.to_numpy(), y).score(real_x.to_numpy(), real_y))


def _features(table: Table, frame: pd.DataFrame, target: str) -> pd.DataFrame:
    codes, numbers = table.codes(frame), {}
    for at, (name, column) in enumerate(table.schema.columns.items()):
        if name != target:
            labels = isinstance(column, hw.Category | hw.Boolean)
            numbers[name] = codes[:, at].astype(float) if labels else frame[name].to_numpy(dtype=float, na_value=np.nan)
    return pd.DataFrame(numbers)
