"""What is known of the error of a release: proved bounds, and what to expect."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

W1, ONE_WAY, TWO_WAY = "W1", "one-way total variation", "two-way total variation"
IN_WORDS = {ONE_WAY: f"error of one column ({ONE_WAY})", TWO_WAY: f"error of two columns ({TWO_WAY})"}
"""Measures as `headwater.evaluate` calls them, and as statisticians do."""
POOR = {W1: 0.1, ONE_WAY: 0.2}
"""Errors from which on a release says little: a tenth of the width of the columns; a fifth of the records misplaced."""


@dataclass(frozen=True)
class ErrorBound:
    """``E W1 ≤ constant · rate`` for every stream, once ``t ≥ valid_from``.

    ``constant`` is ``None`` where the theorem proves that one exists and does not say how large it is. Whatever the
    stream, W1 in the unit cube is at most 1.

    Parameters
    ----------
    rate
        How the error falls with time, as a number at this time.
    formula
        The same as a formula.
    constant
        What the rate is multiplied by, or ``None``.
    valid_from
        The time from which on the theorem holds.
    source
        Where it is proved.
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


def nothing_proved(why: str) -> ErrorBound:
    """The bound where no theorem applies: the size of the cube."""
    return ErrorBound(1.0, "W1 in the unit cube", 1.0, 0, why)


@dataclass(frozen=True)
class ExpectedError:
    """An estimate of the distance between a release and the data, made without the data.

    ``typical`` is what to expect; ``upper`` was exceeded in fewer than one of ten cases when it was calibrated
    (docs/benchmarks). Neither is a theorem. Both are NaN for a mechanism that knows nothing of its error. For streams
    that move they are too small, above all in windows: no number shows yet that new records are unlike the last ones.

    Parameters
    ----------
    typical
        The median of what was found in calibration.
    upper
        What nine of ten cases stayed below.
    measure
        Which distance this is: ``"W1"``, or ``"two-way total variation"``, the mean over all pairs of columns of the
        total variation between the marginals.
    parts
        The same two numbers for parts of the release, by name: ``"one-way"`` is the mean over all columns,
        ``"column NAME"`` one column by itself.
    """

    typical: float
    upper: float
    measure: str = "W1"
    parts: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))

    def to_dict(self) -> dict[str, object] | None:
        """The same as plain values, as cards have it; None if nothing is known."""
        if math.isnan(self.typical):
            return None
        plain: dict[str, object] = {"measure": self.measure, "typical": self.typical, "upper": self.upper}
        if self.parts:
            plain["parts"] = {name: {"typical": low, "upper": high} for name, (low, high) in self.parts.items()}
        return plain

    def __str__(self) -> str:
        if math.isnan(self.typical):
            return f"{self.measure} unknown: this mechanism has no estimate"
        what = IN_WORDS.get(self.measure, self.measure)
        return f"{what} about {self.typical:.2g}, below {self.upper:.2g} in nine cases of ten"
