"""Raking: weights of records, or factors of a log-linear model, that meet many marginals at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.mechanisms.marginals.grid import Floats

PAIR_POWER = 0.5
"""Factors of pairs are damped: their targets come from noisy tables and need not agree with each other."""
LEAST = 0.5
"""Records added to what a cell holds and to what it should hold: below one record a ratio says nothing."""


@dataclass(frozen=True)
class Constraint:
    """A marginal to be met: which cell each record is in, the share each cell should have, and a damping power."""

    cells: NDArray[np.int64]
    target: Floats
    power: float


def rake(
    constraints: Sequence[Constraint], records: int, passes: int, counts: NDArray[np.int64] | None = None
) -> tuple[Floats, list[Floats]]:
    """Weights of records that nearly meet all constraints, and the factor of every cell that led to them.

    Parameters
    ----------
    constraints
        Marginals, in the order in which they are met; the last ones are met best.
    records
        How many records there are.
    passes
        How often every constraint is met. Few passes leave factors of small cells near 1.
    counts
        How many records each row stands for, if not one; the weight of a row is that of all of them.
    """
    weights = np.full(records, 1 / records) if counts is None else counts / records
    least = LEAST / records
    factors = [np.ones_like(c.target) for c in constraints]
    for _ in range(passes):
        for constraint, factor in zip(constraints, factors, strict=True):
            held = np.bincount(constraint.cells, weights, minlength=len(constraint.target))
            step = ((constraint.target + least) / (held + least)) ** constraint.power
            factor *= step
            weights *= step.take(constraint.cells)
        weights /= weights.sum()
    return weights, factors
