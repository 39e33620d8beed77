"""What published tables predict of a bucket: which pairs depend on each other, how, and which columns move. Public.

Everything here is a function of published numbers, so it costs nothing. It decides what is asked of the bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headwater.mechanisms.marginals.estimate import Estimate, Estimator
from headwater.mechanisms.marginals.loglinear import LogLinear
from headwater.mechanisms.marginals.measured import Measured
from headwater.mechanisms.marginals.pairs import Pair
from headwater.mechanisms.marginals.questions import Question
from headwater.mechanisms.marginals.timeline import EVEN_DRIFT

Shares = NDArray[np.float64]

STRONG = 0.1  # pairs of the tree this far from independence, beyond noise, are measured again without a choice
POOL = 1 << 13  # records that predictions of pairs are raked with
UNITS = 60  # the budget of a fast bucket is dealt out in so many equal parts


@dataclass(frozen=True)
class Outlook:
    """What published numbers say of the stage to come. Kept with the state: computed anew it might be rounded anew.

    Parameters
    ----------
    tree
        The pairs of the published tree.
    kept
        Those of them that depend on each other so clearly that they are measured again without a choice.
    moving
        How fast buckets divide their budget among the columns.
    """

    tree: tuple[Pair, ...]
    kept: tuple[Pair, ...]
    moving: tuple[float, ...]


class Prediction:
    """What is published by now predicts of the records ``start … measured.t − 1``.

    Parameters
    ----------
    measured
        All that is published; its ``t`` is the end of the bucket.
    start
        Where the bucket begins.
    before
        An earlier prediction of the same bucket, if there is one: not all of it is estimated again.
    """

    def __init__(self, measured: Measured, start: int, before: Prediction | None = None) -> None:
        self.measured, self.start = measured, start
        self.estimator = Estimator(measured, rough=True, before=before.smoothed if before else None)

    @cached_property
    def _estimate(self) -> Estimate:
        return self.estimator.run(1)

    @property
    def smoothed(self) -> Estimator:
        """The estimator, with one-way marginals over time."""
        if not self.estimator.smoothed:
            self.estimator.smoothed = [self.estimator.smooth(column) for column in range(len(self.measured.codings))]
        return self.estimator

    def structure(self) -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
        """The pairs of the published tree, and those of them that are certain."""
        found = self._estimate
        far = found.deviations
        return found.tree, tuple(pair for pair in found.tree if far[pair][0] > STRONG + far[pair][1])

    def errors(self) -> list[float]:
        """For each column the expected total variation of its one-way marginal, from what is published."""
        return [0.4 * float(smoothed.error.sum()) for smoothed in self.smoothed.smoothed]

    def independent(self, questions: Mapping[Pair, Question]) -> dict[Pair, Shares]:
        """Tables of pairs, were they independent at each time."""
        tables = [self.smoothed.independent(pair, self.start, self.measured.t) for pair in questions]
        return self._moved(questions, tables)

    def joint(self, questions: Mapping[Pair, Question]) -> dict[Pair, Shares]:
        """Tables of pairs, as the published model has them."""
        model = LogLinear(self._estimate)
        return self._moved(questions, model.pairs(list(questions), self.start, self.measured.t, POOL))

    def _moved(self, questions: Mapping[Pair, Question], tables: Iterable[Shares]) -> dict[Pair, Shares]:
        """Tables on the model's bins moved to the bins of questions, wide ones split as the column's shape says."""
        found, moved = dict[Pair, Shares](), dict[tuple[int, bytes], Shares]()
        for (pair, question), table in zip(questions.items(), tables, strict=True):
            keys = [(column, edges.tobytes()) for column, edges in zip(pair, question.edges, strict=True)]
            for key, edges in zip(keys, question.edges, strict=True):
                if key not in moved:
                    fitted, column = self.estimator, key[0]
                    size = self.measured.codings[column].size
                    moved[key] = fitted.shapes[column].split(edges, fitted.grids[column], size).matrix()
            found[pair] = moved[keys[0]] @ table @ moved[keys[1]].T
        return found

    def moving(self, stage_size: int, known: NDArray[np.float64]) -> tuple[float, ...]:
        """How the budget of each fast bucket of the next stage is best dealt out to the columns.

        The error of a bin of share ``p`` whose estimate has standard deviation ``σ`` is about ``min(p, σ)``. Until half
        of the next stage has passed, ``σ²`` grows by the drift; a table with ``n`` units of the budget adds the
        information ``known[n]`` about a share.
        """
        curves = []
        for smoothed in self.smoothed.smoothed:
            shares = smoothed.shares[-1]
            speed = shares + EVEN_DRIFT / len(shares)
            unknown = smoothed.error**2 + smoothed.drift * speed / speed.mean() * stage_size / 2
            spread = 1 / np.sqrt(1 / np.maximum(unknown[:, None], 1e-18) + known)
            curves.append(np.minimum(spread, shares[:, None]).sum(0))
        return tuple(units / UNITS for units in deal(curves))


def deal(curves: Sequence[NDArray[np.float64]]) -> list[int]:
    """Units for each column, `UNITS` in all, that make the sum of the curves smallest (a knapsack)."""
    best, choices, units = curves[0], list[NDArray[np.intp]](), np.arange(UNITS + 1)
    others = units[:, None] - units  # what is left for the columns before, if this one has so many of so many units
    for curve in curves[1:]:
        table = np.where(others >= 0, best[others] + curve, np.inf)
        choices.append(table.argmin(1))
        best = table.min(1)
    left, found = UNITS, list[int]()
    for choice in reversed(choices):
        found.append(int(choice[left]))
        left -= found[-1]
    return [left, *reversed(found)]
