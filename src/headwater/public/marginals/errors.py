"""The errors of one-way and two-way tables to expect of marginals before there are any records.

The plan is walked through as a run does it: the tables that a stage asks for, the budget of each, which of them share
their noise, and its variance are those of the run (`questions`, `pair_rules`, `table_noise`). Doublings are taken to be
whole: halves have the same noise. Taken for granted is only what a run finds out from data: columns are taken to be
even, and the pairs that it can afford to be a chain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from headwater.public.budget import Budget
from headwater.public.marginals.codes import Coding, codings
from headwater.public.marginals.plan import Stage, divide, doubling_at
from headwater.public.marginals.questions import (
    CELLS,
    EXTRA_WEIGHT,
    EXTRAS,
    Question,
    early_weights,
    one_way_questions,
    pair_edges,
    saving,
    turns,
    variances,
)
from headwater.public.partition import Floats
from headwater.public.protocol import ONE_WAY, TWO_WAY, AnySchema, CapErrors

TWO_WAY_BLIND = 0.21  # two-way total variation of columns that depend on each other, if they are taken for independent
LEFT = 0.035  # structure that is left of a pair that is not measured
DIFFERENT = {ONE_WAY: 0.5, TWO_WAY: 0.65}  # total variation of tables of people who have nothing in common
COVERED = Fraction(1, 2)  # columns that have no table of their own, after the first stage with pairs
LATE = 4  # stages that count: earlier ones hold less than a tenth of the records
NO_TABLE = 1e6  # the error of a column that has none: as good as infinite, and finite in sums of inverses
_BINS = 16  # of a column of many ordered values


@dataclass(frozen=True)
class StageErrors:
    """What the tables of one stage say: total variation of noise, were they all that is published."""

    columns: tuple[float, ...]
    pair: float
    tree: float
    measured: float


class MarginalsErrors:
    """As `headwater.public.protocol.ErrorModel` describes it."""

    measure = ONE_WAY

    def typical(self, schema: AnySchema, budget: Budget, records: int, expect: int | None = None) -> float:
        return expected_errors(schema, budget, records, expect=expect)[0]

    def capped(
        self, schema: AnySchema, epsilon: float, records: int, counted: float, expect: int | None = None
    ) -> CapErrors:
        one_way, two_way = expected_errors(schema, Budget(epsilon), records, counted, expect)
        found = {ONE_WAY: (one_way, DIFFERENT[ONE_WAY])}
        return found | ({TWO_WAY: (two_way, DIFFERENT[TWO_WAY])} if schema.dimension > 1 else {})


def expected_errors(
    schema: AnySchema, budget: Budget, records: int, counted: float = 1.0, expect: int | None = None
) -> tuple[float, float]:
    """The total variation of one-way and of two-way tables that noise makes, if a part of the records count."""
    closed, end = list[Stage](), 0
    while (doubling := doubling_at(end, budget, schema.dimension, expect)).end <= records:
        closed, end = [*closed, doubling][-LATE:], doubling.end
    if not closed:
        return 1.0, 1.0
    found = [stage_errors(codings(schema), stage) for stage in closed]
    columns = _pooled(np.array([stage.columns for stage in found])) / counted
    one_way = float(np.mean(columns / (1 + columns)))
    pair = LEFT * (1 - found[-1].measured) + float(_pooled(np.array([[stage.pair] for stage in found]))[0]) / counted
    shrunk = TWO_WAY_BLIND / (1 + TWO_WAY_BLIND / pair) if pair < math.inf else TWO_WAY_BLIND
    tree = found[-1].tree
    return one_way, math.hypot(math.sqrt(2) * one_way, tree * shrunk + (1 - tree) * TWO_WAY_BLIND)


@lru_cache(maxsize=4096)
def stage_errors(columns: tuple[Coding, ...], stage: Stage) -> StageErrors:
    """What noise does to the tables of one stage."""
    budget, pair, part, measured = stage.slow_budget, math.inf, 0.0, 0.0
    weights = [1.0] * len(columns) if stage.pairs else early_weights(columns, stage.size, stage.accounting, budget)
    if stage.pairs and len(columns) > 1:
        most, candidates = len(columns) - 1, math.comb(len(columns), 2)
        extras = math.ceil(EXTRAS * len(columns)) if stage.extra_choice else 0
        tree, further = (
            turns(choice, stage.size, candidates, stage.accounting)
            for choice in (stage.tree_choice, stage.extra_choice)
        )
        tree, further = min(tree, most), max(min(further, extras, candidates - most), 0)
        kept, part = saving(tree + further, most + extras), tree / most
        budget = stage.one_way + stage.pairs * (1 - kept)
        if tree:
            # columns of pairs that are kept from the stage before have no table of their own: half of them, say
            pairs = stage.pairs * kept + (stage.one_way * COVERED if stage.extra_choice else 0)
            own = pairs * most / (most + further * EXTRA_WEIGHT)
            pair = _pair_error(columns, stage, tree, own * saving(tree, most))
            measured = (tree + further) / candidates
    questions, budgets = one_way_questions(columns, stage.size, stage.accounting, budget, weights, ())
    noise = {q.columns[0]: v for q, v in zip(questions, variances(questions, budgets, stage.accounting), strict=True)}
    sizes = [coding.size if not coding.ordered else min(coding.values, _BINS) + coding.missing for coding in columns]
    errors = (_total_variation(n, noise[i], stage.size) if i in noise else NO_TABLE for i, n in enumerate(sizes))
    return StageErrors(tuple(errors), pair, part, measured)


def _pair_error(columns: tuple[Coding, ...], stage: Stage, tree: int, budget: Fraction) -> float:
    edges = pair_edges(columns, ())
    asked = [Question((i, i + 1), (edges[i], edges[i + 1])) for i in range(tree)]
    budgets = divide(budget, [question.cells ** (CELLS * stage.accounting.power) for question in asked])
    noise = zip(asked, variances(asked, budgets, stage.accounting), strict=True)
    return math.sqrt(sum(_total_variation(q.cells, v, stage.size) ** 2 for q, v in noise) / tree)


def _total_variation(cells: int, variance: float, records: int) -> float:
    return cells * math.sqrt(variance / 2) / 2 / records


def _pooled(errors: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        found: Floats = 1 / np.sqrt((1 / errors**2).sum(0))
    return found


ERROR_MODEL = MarginalsErrors()
