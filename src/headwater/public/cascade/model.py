"""What a release of cascade holds, how it is estimated, and what is proved of it."""

from __future__ import annotations

import math
from typing import ClassVar, Self

import numpy as np

from headwater.public.budget import Budget
from headwater.public.cascade.estimate import estimate, leaf_masses
from headwater.public.cascade.history import Measured
from headwater.public.cells import CellModel
from headwater.public.protocol import W1, AnySchema, Around, CapErrors, ErrorBound

_CELLS = {1: (2.3, 0.72), 2: (4.5, 0.64), 3: (4.6, 0.56), 4: (4.0, 0.49), 5: (3.5, 0.43)}
"""W1 = a·(εt)^−b by number of columns, the medians of docs/benchmarks/accuracy.json for εt in 10³…10⁶."""
BLIND = 0.25  # W1 of points drawn evenly from data that are clustered


class CascadeErrors:
    """The `headwater.public.protocol.ErrorModel` of cascade."""

    measure = W1

    def typical(self, schema: AnySchema, budget: Budget, records: int, expect: int | None = None) -> float:
        return _w1(schema.dimension, max(budget.epsilon, math.sqrt(8 * (budget.rho or 0))) * records)

    def capped(
        self,
        schema: AnySchema,
        epsilon: float,
        records: int,
        counted: float,
        expect: int | None = None,
    ) -> CapErrors:
        return {W1: (_w1(schema.dimension, epsilon * records * counted), BLIND)}


def _w1(columns: int, product: float) -> float:
    constant, power = _CELLS.get(columns, (3.5, 0.43 * 5 / columns))
    return min(constant * math.pow(product, -power), BLIND)


ERROR_MODEL = CascadeErrors()


class CascadeModel(CellModel):
    """Whole counts of the leaves of one tree, estimated from all buckets."""

    even: ClassVar[bool] = True

    @classmethod
    def fit(cls, measured: Measured, schema: AnySchema, seed: int) -> Self:
        """Pool the buckets of each timescale, estimate a density, round it to whole points."""
        partition = schema.partition
        pools, counted = measured.pools()
        density = estimate(pools, measured.uncovered, partition, counted)
        cells, depths, mass = leaf_masses(density, [row for row, counts in enumerate([*counted, True]) if counts])
        # Noise, the size of the leaves, and a third of the cube for every point that no bucket covers.
        sizes = np.array([partition.diameter(depth) for depth in range(partition.deepest + 1)])
        some = mass > 0
        within = float(mass[some] @ sizes[depths[some]])
        spread = density.spread + 1.5 * within + measured.uncovered / 3 if pools else math.inf
        return cls.rounded(partition, cells, depths, mass, measured.t - measured.start, seed, spread)

    def around(self, measured: Measured, schema: AnySchema, rows: int) -> Around:
        from headwater.public.cascade.around import CascadeAround  # which fits models

        return CascadeAround(measured, schema, rows)

    @staticmethod
    def rate(mechanism: str, epsilon: float, t: int, dimension: int) -> ErrorBound:
        """The proved rate of W1 on plain streams in the cube (`proofs/cascade.md`)."""
        d = dimension
        rate, formula, source = (epsilon * t) ** (-1 / d), "(εt)^(-1/d)", "proofs/cascade.md, down to its resolution"
        if d == 2:
            rate, formula = rate * math.sqrt(max(math.log(epsilon * t), 1.0)), "√log(εt)·(εt)^(-1/2)"
        if d == 1:
            rate, formula = 1 / (math.sqrt(t) * epsilon), "t^(-1/2)/ε"
            source = "proofs/cascade.md, for sums without shrinkage"
        return ErrorBound(rate, formula, None, 2 / epsilon, source)


MODEL = CascadeModel
MEASURED = Measured
