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
        if self.constant is None:
            return f"E W1 ≤ C·{self.rate:.3g} with a constant C that is unknown [{self.formula}; {self.source}]"
        return f"E W1 ≤ {self.constant * self.rate:.3g} [{self.formula}; {self.source}]"


def error_bound(facts: Facts, start: int = 0) -> ErrorBound:
    """The theorem that covers a release: of a whole stream in a cube. Of all else only the cube's size is known."""
    axes = facts.schema.partition.axes
    if start or not all(axis.plain and axis.weight == axes[0].weight for axis in axes):
        what = "windows" if start else "columns of finitely many values, with missing ones, or of unequal weights"
        return ErrorBound(1.0, "W1 in the unit cube", 1.0, 0, f"no theorem covers {what}")
    t, epsilon, d = max(facts.t, 1), facts.epsilon, facts.dimension
    if facts.mechanism == "cascade":
        rate, formula, source = (epsilon * t) ** (-1 / d), "(εt)^(-1/d)", "proofs/cascade.md, down to its resolution"
        if d == 2:
            rate, formula = rate * math.sqrt(max(math.log(epsilon * t), 1.0)), "√log(εt)·(εt)^(-1/2)"
        if d == 1:
            rate, formula = 1 / (math.sqrt(t) * epsilon), "t^(-1/2)/ε"
            source = "proofs/cascade.md, for sums without shrinkage"
        return ErrorBound(rate, formula, None, 2 / epsilon, source)
    if facts.mechanism == "pmm":
        rate = (epsilon * t) ** (-1 / d) if d >= 2 else max(math.log(epsilon * t), 1.0) ** 2 / (epsilon * t)
        formula = "(εt)^(-1/d)" if d >= 2 else "log²(εt)/(εt)"
        return ErrorBound(rate, formula, None, 1 / epsilon, "He, Vershynin, Zhu 2023")
    if d == 1:
        rate = max(math.log(epsilon * t), 1.0) ** 3 * max(math.log(t), 1.0) ** 1.5 / (epsilon * t)
        return ErrorBound(rate, "log³(εt)·log^1.5(t)/(εt)", None, math.e / epsilon, "theorem 1.1 of the paper")
    enough = math.exp(math.log(1 / epsilon + 1) ** 2) + math.e / epsilon
    rate = max(math.log(t), 1.0) * (epsilon * t) ** (-1 / d)
    return ErrorBound(rate, "log(t)·(εt)^(-1/d)", None, enough, "theorem 1.1 of the paper")


@dataclass(frozen=True)
class ExpectedError:
    """An honest guess at the W1 between a release and the data, made without the data.

    ``typical`` is what to expect; ``upper`` was exceeded in fewer than one of ten cases when it was calibrated
    (docs/benchmarks). Neither is a theorem. Both are NaN for a mechanism that knows nothing of its error. For streams
    that move they are too small, above all in windows: no number shows yet that new records are unlike the last ones.
    """

    typical: float
    upper: float

    def __str__(self) -> str:
        if math.isnan(self.typical):
            return "W1 unknown: this mechanism cannot tell"
        return f"W1 about {self.typical:.2g}, below {self.upper:.2g} in nine cases of ten"


_TYPICAL, _UPPER = 0.1, 0.21  # times the spread: its median and what nine of ten cases stay below, measured


def expected_error(spread: float | None, points: int) -> ExpectedError:
    """The spread of a density, per point, scaled by what it was found to be worth. W1 is never above 1."""
    if spread is None:
        return ExpectedError(math.nan, math.nan)
    each = spread / max(points, 1)
    return ExpectedError(min(_TYPICAL * each, 1.0), min(_UPPER * each, 1.0))
