"""Train on synthetic rows, test on real ones: how much accuracy that costs. NOT PRIVATE. Needs scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.evaluate.axes import ColumnAxis, Floats, Integers, Side
from headwater.evaluate.meaning import grade

MOST_ROWS = 20_000
"""Of each table that a classifier is trained on, and half as many to test it: a few seconds."""

_MOST_CODES = 250  # the classifier takes no more categories of a column


@dataclass(frozen=True)
class Training:
    """Accuracy of gradient-boosted trees on real rows that neither of them was trained on. NOT PRIVATE.

    Parameters
    ----------
    target
        What was predicted from all other columns.
    synthetic, real
        The accuracy after training on the synthetic and on the real table.
    guess
        The accuracy of always answering what is most frequent.
    rows
        How many rows each was trained on, and how many it was tested on.
    """

    target: str
    synthetic: float
    real: float
    guess: float
    rows: tuple[int, int, int]

    @property
    def lost(self) -> float:
        """How much accuracy training on synthetic rows costs."""
        return max(self.real - self.synthetic, 0.0)

    @property
    def grade(self) -> str:
        """What is lost, graded. Small losses say nothing where hardly anything is to be learned."""
        if not _beats(self.real, self.guess):
            return "unknown"
        return grade(self.lost) if _beats(self.synthetic, self.guess) else "unreliable"

    def __str__(self) -> str:
        found = f"{self.synthetic:.3f} trained on synthetic, {self.real:.3f} on real rows, {self.guess:.3f} by guessing"
        if not _beats(self.real, self.guess):
            return f"{found}: none is better than guessing, so this says little"
        return found if _beats(self.synthetic, self.guess) else f"{found}: what can be learned was lost"


def _beats(accuracy: float, guess: float) -> bool:
    """Whether an accuracy is better than that of guessing by more than a point of a percent."""
    return accuracy > guess + 0.01


def train(
    target: str, real: list[Side], synthetic: list[Side], columns: Sequence[ColumnAxis], seed: int = 0
) -> Training:
    """Train a classifier on either table, and test both on real rows that were held back.

    ``target`` is the name of a column, or ``"NAME > NUMBER"``. A column with an order is predicted as above its real
    median or not, or above the number.
    """
    index, threshold = _target(target, columns)
    if len(columns) < 2:
        raise ValueError("to train on synthetic rows, the table needs another column besides the target")
    column, rng = columns[index], np.random.default_rng([seed, 3])
    if column.ordered and threshold is None:
        values, there = real[index]
        threshold = float(np.median(values[there])) if there.any() else 0.0
    x, y = _rows(real, columns, index, threshold)
    x_made, y_made = _rows(synthetic, columns, index, threshold)
    if len(y) < 20 or len(y_made) < 10:
        raise ValueError(f"too few rows with a value of the target column {column.name!r} to train on")
    order = rng.permutation(len(y))
    held, rest = np.split(order, [min(len(y) // 3, MOST_ROWS // 2)])
    rest = rest[:MOST_ROWS]
    made = rng.permutation(len(y_made))[:MOST_ROWS]
    few = [i for i, c in enumerate(c for k, c in enumerate(columns) if k != index) if not c.ordered]
    accuracy = [
        float(np.mean(_fit(a, b, few, seed)(x[held]) == y[held]))
        for a, b in ((x_made[made], y_made[made]), (x[rest], y[rest]))
    ]
    guess = float(np.mean(y[held] == np.bincount(y[rest]).argmax()))
    asked = target if threshold is None or ">" in target else f"{target} above its median"
    return Training(asked, accuracy[0], accuracy[1], guess, (len(made), len(rest), len(held)))


def _target(target: str, columns: Sequence[ColumnAxis]) -> tuple[int, float | None]:
    """The number of the target column, and the threshold on its axis from 0 to 1 if one was given."""
    names = [column.name for column in columns]
    if target in names:
        return names.index(target), None
    name, _, number = (part.strip() for part in target.rpartition(">"))
    if name in names and columns[names.index(name)].kind in ("number", "integer"):
        declared = columns[names.index(name)].declared
        try:
            return names.index(name), (float(number) - declared["low"]) / (declared["high"] - declared["low"])
        except ValueError:
            pass
    raise ValueError(f"the target must be a column, or NAME > NUMBER; the columns are {', '.join(names)}")


def _rows(
    side: list[Side], columns: Sequence[ColumnAxis], index: int, threshold: float | None
) -> tuple[Floats, Integers]:
    """Features and labels of the rows that have a label."""
    values, there = side[index]
    labels = values.astype(np.int64) if threshold is None else (values > threshold).astype(np.int64)
    features = []
    for i, (column, (found, has)) in enumerate(zip(columns, side, strict=True)):
        if i != index:
            many = not column.ordered and (column.axis.values or 1) > _MOST_CODES
            codes = found * _MOST_CODES // (column.axis.values or 1) if many else found
            features.append(np.where(has, codes, np.nan)[there])
    return np.column_stack(features), labels[there]


def _fit(x: Floats, y: Integers, few: list[int], seed: int) -> Any:  # noqa: ANN401  # scikit-learn ships no types
    """What predicts labels of rows."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError as error:
        raise ImportError(
            "to train on synthetic rows, scikit-learn is needed: pip install 'headwater[train]', or name no target"
        ) from error
    if (y == y[0]).all():
        return lambda rows: np.full(len(rows), y[0])
    rounds = 100 if len(np.unique(y)) <= 10 else 20
    model = HistGradientBoostingClassifier(
        max_iter=rounds, early_stopping=False, categorical_features=few, random_state=seed
    )
    model.fit(x, y)
    return model.predict
