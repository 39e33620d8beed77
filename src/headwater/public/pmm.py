"""What a release of PMM holds, and what is proved of it."""

from __future__ import annotations

import math

from headwater.public.paper import PaperModel
from headwater.public.protocol import ErrorBound


class PmmModel(PaperModel):
    """Whole counts of the cells of one depth."""

    @staticmethod
    def rate(epsilon: float, t: int, dimension: int) -> ErrorBound:
        d = dimension
        rate = (epsilon * t) ** (-1 / d) if d >= 2 else max(math.log(epsilon * t), 1.0) ** 2 / (epsilon * t)
        formula = "(εt)^(-1/d)" if d >= 2 else "log²(εt)/(εt)"
        return ErrorBound(rate, formula, None, 1 / epsilon, "He, Vershynin, Zhu 2023")


MODEL = PmmModel
