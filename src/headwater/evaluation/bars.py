"""Error bars of any questions about a release, and the errors that it expects, from public numbers alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headwater.evaluation.axes import Floats
from headwater.evaluation.yardstick import Questions, Table

LEVEL = 0.9
Ask = Callable[[Table], Floats]


@dataclass(frozen=True)
class Bars:
    """Truths near a release and what was fitted to them, measured again.

    ``factor`` makes a bar of `LEVEL` of the root mean square of the fits' errors.
    """

    truths: list[Table]
    fits: list[Table]
    factor: float

    def half(self, ask: Ask) -> Floats:
        """Half the width of the bar of each answer; infinite where the truths do not say enough."""
        errors = self._errors(ask)
        known = np.isfinite(errors).sum(axis=0)
        half = self.factor * np.sqrt(np.nansum(errors**2, axis=0) / np.maximum(known, 1))
        return np.where(known < 2 * len(self.truths) / 3, np.inf, half)

    def expected(self, questions: Questions) -> Floats:
        """The errors of the fits, of all truths and questions."""
        errors = np.abs(self._errors(questions.ask))
        found: Floats = errors[np.isfinite(errors)]
        return found

    def _errors(self, ask: Ask) -> Floats:
        return np.array([ask(fit) - ask(truth) for truth, fit in zip(self.truths, self.fits, strict=True)])
