"""The Gaussian copula nearest to a noisy two-way table."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from headwater.mechanisms.marginals.fitting import fit_margins, lowest
from headwater.mechanisms.marginals.grid import Floats
from headwater.mechanisms.marginals.measured import Integers

_HALF = np.array(
    [
        0.08,
        0.16,
        0.25,
        0.35,
        0.45,
        0.55,
        0.65,
        0.73,
        0.8,
        0.86,
        0.9,
        0.93,
        0.955,
        0.97,
        0.98,
        0.987,
        0.992,
        0.996,
        0.999,
    ]
)
CORRELATIONS = np.concatenate([-_HALF[::-1], [0.0], _HALF])
POINTS, FEW_POINTS = 8, 3
"""Points inside a bin of the first column at which the conditional law of the second is taken; few for a first look."""


FARTHEST, STEPS = 8, 250
"""The normal distribution function is listed up to this many standard deviations, in so many steps for each."""


@cache
def _normal() -> tuple[Floats, Floats]:
    """The normal distribution function on a grid."""
    places = np.linspace(-FARTHEST, FARTHEST, 2 * FARTHEST * STEPS + 1)
    return places, np.array([(1 + math.erf(z / math.sqrt(2))) / 2 for z in places])


def _below(limits: Floats) -> Floats:
    """The normal distribution function, interpolated: as `np.interp`, which does not know that the grid is even."""
    normal = _normal()[1]
    at = (np.clip(limits, -FARTHEST, FARTHEST) + FARTHEST) * STEPS
    cell = at.astype(np.int64)
    low = normal.take(cell)
    return low + (at - cell) * (normal.take(cell + 1, mode="clip") - low)


def copula(shares: Floats, rows: Floats, columns: Floats, *, rough: bool = False) -> Floats:
    """The table of a Gaussian copula with these margins whose correlation is the least-squares fit to noisy shares.

    One number is learned from the whole table, so hardly any noise is left in it. A rough one takes fewer points.
    """
    places, normal = _normal()
    bounds = [np.concatenate([[0.0], np.cumsum(margin)]) / margin.sum() for margin in (rows, columns)]
    second = np.interp(bounds[1], normal, places)
    second[0], second[-1] = -60, 60

    def tables(numbers: Integers, points: int) -> Floats:
        inside, correlations = (np.arange(points) + 0.5) / points, CORRELATIONS[numbers][:, None, None]
        first = np.interp((bounds[0][:-1, None] + inside * np.diff(bounds[0])[:, None]).ravel(), normal, places)
        limits = (second - correlations * first[:, None]) / np.sqrt(1 - correlations**2)
        law = _below(limits)
        law = law[..., 1:] - law[..., :-1]
        found: Floats = law.reshape(len(numbers), len(rows), points, -1).mean(2) * rows[:, None]
        return found

    def error(points: int) -> Callable[[Integers], Floats]:
        return lambda numbers: ((shares - tables(numbers, points)) ** 2).sum((1, 2))

    points = FEW_POINTS if rough else POINTS
    best = lowest(error(points), len(CORRELATIONS), rough=error(FEW_POINTS))
    return fit_margins(tables(np.array([best]), points)[0], rows, columns, passes=20)
