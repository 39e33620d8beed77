"""Error bars of any questions about a release, and the errors that it expects, from public numbers alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwater.evaluation.axes import Floats, column_axes
from headwater.evaluation.yardstick import Questions, Table, table_of
from headwater.public.answers import factor_for
from headwater.public.release import Release
from headwater.public.replicates import replicate

LEVEL = 0.9
MEASURED = "measured.parquet"
Ask = Callable[[Table], Floats]


@dataclass(frozen=True)
class Bars:
    """Truths near a release and what was fitted to them, measured again.

    ``factor`` makes a bar of `LEVEL` of the root mean square of the fits' errors.
    """

    truths: list[Table]
    fits: list[Table]
    factor: float

    @classmethod
    def of(cls, release: Release) -> Bars | None:
        """Those of a release; None if it does not hold what was measured."""
        found, columns = replicate(release.model, release.measured, release.schema), column_axes(release.schema)
        if found is None:
            return None
        truths, fits = ([table_of(places.T, columns) for places in side] for side in (found.truths, found.fits))
        return cls(truths, fits, factor_for(LEVEL))

    @classmethod
    def of_folder(cls, folder: Path) -> Bars | None:
        """Those of a published release; None if nothing that was measured lies beside its table."""
        return cls.of(Release.load(folder)) if (folder / MEASURED).exists() else None

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
