"""The errors of one-way and two-way tables to expect of marginals before there are any records."""

from __future__ import annotations

import math

from headwater.mechanisms.accuracy import ONE_WAY
from headwater.mechanisms.marginals.plan import Stage, plan
from headwater.mechanisms.protocol import AnySchema
from headwater.privacy import Budget
from headwater.table.categorical import Boolean, Category
from headwater.table.unit_cube import UnitCube

TWO_WAY_BLIND = 0.25  # two-way total variation of columns that depend on each other, if they are taken for independent
_BINS = 16  # of a column of many ordered values


class MarginalsErrors:
    """As `headwater.mechanisms.protocol.ErrorModel` describes it."""

    measure, apart = ONE_WAY, 0.5

    def typical(self, schema: AnySchema, budget: Budget, records: int) -> float:
        """The noise of the closed slow buckets in a column's counts, as a part of their records; at most 1.

        A one-way table of one of ``D`` columns has Laplace noise of scale ``2 D / one-way budget``, or Gaussian noise
        of the variance that its ρ gives, and ``k`` counts are off by half of ``k`` times the deviation of their sum.
        Counts that are below the noise are shrunk: ``x / (1 + x)``.
        """
        closed = _closed(budget, schema.dimension, records)
        if not closed:
            return 1.0
        scale = math.hypot(*(stage.accounting.width(float(stage.one_way), schema.dimension) for stage in closed))
        return _one_way(_counts_of(schema), scale / closed[-1].end)

    def capped(self, schema: AnySchema, epsilon: float, records: int, counted: float) -> float:
        """The mean of the errors of one-way and of two-way tables."""
        sizes, columns = _counts_of(schema), schema.dimension
        closed = _closed(Budget(epsilon), columns, records)
        if not closed:
            return (1.0 + TWO_WAY_BLIND) / 2
        held = closed[-1].end * counted
        noise = _one_way(sizes, math.hypot(*(2 * columns / float(stage.one_way) for stage in closed)) / held)
        paired = [2 * columns / float(stage.pairs) for stage in closed if stage.pairs]
        cells = (sum(sizes) / columns) ** 2
        two_way = cells * math.hypot(*paired) / held / 2 if paired else math.inf
        return (noise + TWO_WAY_BLIND * (1 if two_way == math.inf else two_way / (TWO_WAY_BLIND + two_way))) / 2


def _one_way(sizes: list[int], relative: float) -> float:
    """The mean error of tables of so many counts, whose sums have noise of this deviation, relative to the records."""
    found = [size * relative / 2 for size in sizes]
    return sum(x / (1 + x) for x in found) / len(found)


def _closed(budget: Budget, columns: int, records: int) -> list[Stage]:
    """The stages that have ended."""
    return [stage for stage in plan(columns, budget, records).stages if stage.end <= records]


def _counts_of(schema: AnySchema) -> list[int]:
    """How many counts a one-way table of each column has."""
    if isinstance(schema, UnitCube):
        return [_BINS] * schema.dimension
    found = []
    for column in schema.columns.values():
        listed = isinstance(column, Category | Boolean) and column.size
        found.append((listed or min(column.size or _BINS, _BINS)) + column.missing)
    return found


ERROR_MODEL = MarginalsErrors()
