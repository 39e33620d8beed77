"""The Gaussian copula nearest to a noisy two-way table."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from headwater.mechanisms.marginals.fitting import fit_margins, lowest
from headwater.mechanisms.marginals.grid import Floats

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


@cache
def _normal() -> tuple[Floats, Floats]:
    """The normal distribution function on a grid."""
    places = np.linspace(-8, 8, 4001)
    return places, np.array([(1 + math.erf(z / math.sqrt(2))) / 2 for z in places])


def copula(shares: Floats, rows: Floats, columns: Floats, *, rough: bool = False) -> Floats:
    """The table of a Gaussian copula with these margins whose correlation is the least-squares fit to noisy shares.

    One number is learned from the whole table, so hardly any noise is left in it. A rough one takes fewer points.
    """
    places, normal = _normal()
    bounds = [np.concatenate([[0.0], np.cumsum(margin)]) / margin.sum() for margin in (rows, columns)]
    second = np.interp(bounds[1], normal, places)
    second[0], second[-1] = -60, 60

    @cache
    def first(points: int) -> Floats:
        inside = (np.arange(points) + 0.5) / points
        found: Floats = np.interp((bounds[0][:-1, None] + inside * np.diff(bounds[0])[:, None]).ravel(), normal, places)
        return found[:, None]

    @cache
    def table(number: int, points: int) -> Floats:
        correlation = CORRELATIONS[number]
        limits = (second - correlation * first(points)) / math.sqrt(1 - correlation**2)
        law = np.diff(np.interp(limits, places, normal), axis=1)
        found: Floats = law.reshape(len(rows), points, -1).mean(1) * rows[:, None]
        return found

    def error(points: int) -> Callable[[int], float]:
        return lambda number: float(((shares - table(number, points)) ** 2).sum())

    points = FEW_POINTS if rough else POINTS
    best = lowest(error(points), len(CORRELATIONS), rough=error(FEW_POINTS))
    return fit_margins(table(best, points), rows, columns, passes=20)
