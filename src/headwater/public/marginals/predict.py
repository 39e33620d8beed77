"""What published tables predict of a bucket: which pairs depend on each other, how, and which columns move. Public.

Everything here is a function of published numbers, so it costs nothing. It decides what is asked of the bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headwater.public.marginals.codes import Codes
from headwater.public.marginals.draw import PAIR_POWER, Constraint, draw_tree, grouped, rake, select, sorting, tree_laws
from headwater.public.marginals.estimate import Estimate, Estimator, time_joint
from headwater.public.marginals.measured import Measured
from headwater.public.marginals.questions import Question
from headwater.public.marginals.smooth import EVEN_DRIFT, fit_margins
from headwater.public.marginals.tree import Forest, Pair, conditional, joint
from headwater.public.partition import Floats, Integers

POOL = 1 << 16
"""Records that factors are found with."""
PREDICTION_POOL = 1 << 13
"""Records that predictions of pairs are raked with: only what that changes is taken from them."""
PASSES = 6
"""Of raking."""
CANDIDATES = 4
"""For each record that fits a condition; weighted by the factors."""
STEEPEST = 30.0
"""Of a candidate's weight, up or down: products of many factors of rare cells are not to be taken at their word."""


@dataclass(frozen=True, eq=False)
class LogLinear:
    """A distribution over bins and spans of time."""

    estimate: Estimate

    @cached_property
    def forest(self) -> Forest:
        return Forest(self.estimate.tree, len(self.estimate.margins))

    @cached_property
    def shares(self) -> Floats:
        sizes = np.diff(self.estimate.edges)
        shares: Floats = sizes / sizes.sum()
        return shares

    @cached_property
    def joints(self) -> dict[Pair, Floats]:
        return {pair: time_joint(ratio, self.estimate.margins, pair) for pair, ratio in self.estimate.ratios.items()}

    def draw(self, rows: int, rng: np.random.Generator) -> Codes:
        """So many records by bins, of shape ``(columns, rows)``."""
        return self.arrivals(rows, rng)[0]

    def arrivals(self, rows: int, rng: np.random.Generator) -> tuple[Codes, Codes]:
        """The same, and the span of time that each record arrived in."""
        if rows == 0:
            return np.empty((len(self.estimate.margins), 0), dtype=np.uint16), np.empty(0, dtype=np.uint16)
        laws = tree_laws(self.forest, self.joints, self.estimate.margins, self.shares)
        records, spans = draw_tree(self.forest, laws, rows, rng)
        if not self.joints:
            return records, spans
        records, spans, counts = grouped(records, spans, self._order(records, spans))
        weights, _ = rake(self._constraints(records, spans), rows, PASSES, counts)
        chosen = select(weights, np.arange(len(counts)), rows, rng)
        return records.take(chosen, axis=1), spans.take(chosen)

    def draw_where(self, rows: int, evidence: Mapping[int, Floats], rng: np.random.Generator) -> Codes:
        laws = tree_laws(self.forest, self.joints, self.estimate.margins, self.shares, evidence)
        records, spans = draw_tree(self.forest, laws, CANDIDATES * rows, rng)
        order = self._order(records, spans)
        return records.take(select(self._weights(records, spans), order, rows, rng), axis=1) if rows else records

    def pairs(self, wanted: Sequence[Pair], start: float, end: float) -> list[Floats]:
        """The two-way tables of pairs in a span of arrivals."""
        shares = self._overlap(start, end)
        inside = shares > 0
        shares, margins = shares[inside], tuple(margin[inside] for margin in self.estimate.margins)
        joints = {pair: time_joint(ratio, margins, pair) for pair, ratio in self.estimate.ratios.items()}
        laws = {(a, b): conditional(joint(joints, a, b)) for e in self.estimate.tree for a, b in (e, e[::-1])}
        from_first = {first: self.forest.tables_from(first, joints, laws) for first in {pair[0] for pair in wanted}}
        found = [
            np.tensordot(shares, from_first[a][b], 1)
            if b in from_first[a]
            else (margins[a] * shares[:, None]).T @ margins[b]
            for a, b in wanted
        ]
        if len(joints) == len(self.estimate.tree):
            return found
        records, spans = draw_tree(
            self.forest, tree_laws(self.forest, joints, margins, shares), PREDICTION_POOL, np.random.default_rng(0)
        )
        constraints = _constraints(records, spans, joints, margins, shares)
        change = rake(constraints, PREDICTION_POOL, PASSES)[0] - 1 / PREDICTION_POOL
        totals = [shares @ margin for margin in margins]
        for number, ((a, b), table) in enumerate(zip(wanted, found, strict=True)):
            moved = np.bincount(cells_of(records[a], records[b], table.shape[1]), change, minlength=table.size)
            table = np.maximum(table + moved.reshape(table.shape), 0)
            found[number] = fit_margins(table, totals[a], totals[b], passes=3)
        return found

    def _overlap(self, start: float, end: float) -> Floats:
        edges = self.estimate.edges
        held = np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], start), 0, None)
        return held / held.sum() if held.sum() > 0 else self.shares

    @cached_property
    def factors(self) -> list[Floats]:
        laws = tree_laws(self.forest, self.joints, self.estimate.margins, self.shares)
        records, spans = draw_tree(self.forest, laws, POOL, np.random.default_rng(0))
        return rake(self._constraints(records, spans), POOL, PASSES)[1]

    def _constraints(self, records: Codes, spans: Codes) -> list[Constraint]:
        return _constraints(records, spans, self.joints, self.estimate.margins, self.shares)

    def _weights(self, records: Codes, spans: Codes) -> Floats:
        log = np.zeros(records.shape[1])
        for constraint, factor in zip(self._constraints(records, spans), self.factors, strict=True):
            log += np.log(factor)[constraint.cells]
        log -= log.mean() if len(log) else 0
        return np.exp(np.clip(log, -np.log(STEEPEST), np.log(STEEPEST)))

    def _order(self, records: Codes, spans: Codes) -> Integers:
        measured = [column for pair in self.joints for column in pair]
        ranked = sorted(range(len(records)), key=lambda c: -measured.count(c))
        sizes = [len(self.shares), *(self.estimate.margins[c].shape[1] for c in ranked)]
        return sorting([spans, *(records[c] for c in ranked)], sizes, 1 << 44)


def cells_of(rows: Codes, columns: Codes, width: int) -> Integers:
    cells = rows.astype(np.int64)
    cells *= width
    cells += columns
    return cells


def _constraints(
    records: Codes, spans: Codes, joints: Mapping[Pair, Floats], margins: Sequence[Floats], shares: Floats
) -> list[Constraint]:
    """All that records should meet: measured pairs, then the margins of every span."""
    found = []
    for (a, b), table in joints.items():
        target = np.tensordot(shares, table, 1)
        found.append(Constraint(cells_of(records[a], records[b], target.shape[1]), target.ravel(), PAIR_POWER))
    for column, margin in enumerate(margins):
        target = (margin * shares[:, None]).ravel()
        found.append(Constraint(cells_of(spans, records[column], margin.shape[1]), target, 1.0))
    return found


STRONG = 0.1  # pairs of the tree this far from independence, beyond noise, are measured again without a choice
UNITS = 60  # the budget of a fast bucket is dealt out in so many equal parts


class Prediction:
    """What is published by now predicts of the records ``start … measured.t − 1``."""

    def __init__(self, measured: Measured, start: int, before: Prediction | None = None) -> None:
        self.measured, self.start = measured, start
        self.estimator = Estimator(measured, rough=True, before=before.smoothed if before else None)

    @cached_property
    def _estimate(self) -> Estimate:
        return self.estimator.run(1)

    @property
    def smoothed(self) -> Estimator:
        if not self.estimator.smoothed:
            self.estimator.smoothed = [self.estimator.smooth(column) for column in range(len(self.measured.codings))]
        return self.estimator

    def structure(self) -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
        tree = self._estimate.tree
        return tree, tuple(pair for pair in tree if self.estimator.dependent(pair, STRONG))

    def errors(self) -> list[float]:
        return [0.4 * float(smoothed.error.sum()) for smoothed in self.smoothed.smoothed]

    def independent(self, questions: Mapping[Pair, Question]) -> dict[Pair, Floats]:
        tables = [self.smoothed.independent(pair, self.start, self.measured.t) for pair in questions]
        return self._moved(questions, tables)

    def joint(self, questions: Mapping[Pair, Question]) -> dict[Pair, Floats]:
        model = LogLinear(self._estimate)
        return self._moved(questions, model.pairs(list(questions), self.start, self.measured.t))

    def _moved(self, questions: Mapping[Pair, Question], tables: Iterable[Floats]) -> dict[Pair, Floats]:
        """Tables on the model's bins moved to the bins of questions, wide ones split as the column's shape says."""
        found, moved = dict[Pair, Floats](), dict[tuple[int, bytes], Floats]()
        for (pair, question), table in zip(questions.items(), tables, strict=True):
            keys = [(column, edges.tobytes()) for column, edges in zip(pair, question.edges, strict=True)]
            for key, edges in zip(keys, question.edges, strict=True):
                if key not in moved:
                    fitted, column = self.estimator, key[0]
                    size = self.measured.codings[column].size
                    moved[key] = fitted.shapes[column].split(edges, fitted.grids[column], size).matrix()
            found[pair] = moved[keys[0]] @ table @ moved[keys[1]].T
        return found

    def moving(self, stage_size: int, known: Floats) -> tuple[float, ...]:
        """How the budget of each fast bucket of the next stage is best dealt out to the columns."""
        curves = []
        for smoothed in self.smoothed.smoothed:
            shares = smoothed.shares[-1]
            speed = shares + EVEN_DRIFT / len(shares)
            unknown = smoothed.error**2 + smoothed.drift * speed / speed.mean() * stage_size / 2
            spread = 1 / np.sqrt(1 / np.maximum(unknown[:, None], 1e-18) + known)
            curves.append(np.minimum(spread, shares[:, None]).sum(0))
        return tuple(units / UNITS for units in deal(curves))


def deal(curves: Sequence[Floats]) -> list[int]:
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
