"""What theory promises about the error of a release, and what it leaves open."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headwater.wall import Facts


@dataclass(frozen=True)
class ErrorBound:
    """``E W1 ≤ constant · rate`` for every stream, once ``t ≥ valid_from``.

    ``constant`` is ``None`` where the theorem proves that one exists and does not say how large it is. Whatever the
    stream, W1 in the unit cube is at most 1.
    """

    rate: float
    formula: str
    constant: float | None
    valid_from: float
    source: str

    def __str__(self) -> str:
        constant = "C, unknown" if self.constant is None else f"{self.constant:g}"
        return f"E W1 ≤ {constant} × {self.rate:.3g}  [{self.formula}, {self.source}]"


def error_bound(facts: Facts) -> ErrorBound:
    """The theorem that covers a release."""
    t, epsilon, d = max(facts.t, 1), facts.epsilon, facts.dimension
    if facts.mechanism == "pmm":
        rate = (epsilon * t) ** (-1 / d) if d >= 2 else max(math.log(epsilon * t), 1.0) ** 2 / (epsilon * t)
        formula = "(εt)^(-1/d)" if d >= 2 else "log²(εt)/(εt)"
        return ErrorBound(rate, formula, None, 1 / epsilon, "He, Vershynin, Zhu 2023")
    if d == 1:
        rate = max(math.log(epsilon * t), 1.0) ** 3 * max(math.log(t), 1.0) ** 1.5 / (epsilon * t)
        return ErrorBound(rate, "log³(εt)·log^1.5(t)/(εt)", None, math.e / epsilon, "theorem 1.1 of the paper")
    start = math.exp(math.log(1 / epsilon + 1) ** 2) + math.e / epsilon
    rate = max(math.log(t), 1.0) * (epsilon * t) ** (-1 / d)
    return ErrorBound(rate, "log(t)·(εt)^(-1/d)", None, start, "theorem 1.1 of the paper")
