"""The W1 to expect of cascade before there are any records."""

from __future__ import annotations

import math

from headwater.mechanisms.accuracy import W1
from headwater.mechanisms.protocol import AnySchema, CapErrors
from headwater.privacy import Budget

_CELLS = {1: (2.3, 0.72), 2: (4.5, 0.64), 3: (4.6, 0.56), 4: (4.0, 0.49), 5: (3.5, 0.43)}
"""W1 = a·(εt)^−b by number of columns, the medians of docs/benchmarks/accuracy.json for εt in 10³…10⁶."""
BLIND = 0.25  # W1 of points drawn evenly from data that are clustered


class CascadeErrors:
    """The `headwater.mechanisms.protocol.ErrorModel` of cascade."""

    measure = W1

    def typical(self, schema: AnySchema, budget: Budget, records: int, expect: int | None = None) -> float:
        """The W1 to expect. A count has variance 8/ε² (Laplace noise) or 1/ρ (Gaussian noise), whichever is less."""
        return _w1(schema.dimension, max(budget.epsilon, math.sqrt(8 * (budget.rho or 0))) * records)

    def capped(
        self,
        schema: AnySchema,
        epsilon: float,
        records: int,
        counted: float,
        expect: int | None = None,
    ) -> CapErrors:
        """The W1 of noise on the records that count, and that of a release that has nothing in common with the data."""
        return {W1: (_w1(schema.dimension, epsilon * records * counted), BLIND)}


def _w1(columns: int, product: float) -> float:
    """W1 by number of columns and by ε times the number of records (`_CELLS`)."""
    constant, power = _CELLS.get(columns, (3.5, 0.43 * 5 / columns))
    return min(constant * math.pow(product, -power), BLIND)


ERROR_MODEL = CascadeErrors()
