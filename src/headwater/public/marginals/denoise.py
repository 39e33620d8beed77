"""Empirical Bayes for noisy two-way tables.

Every cell's true share is one of a few hundred *atoms*: 0, a multiple of independence, a share of the most that the
cell's row and column allow, or a multiple of a prediction (of the neighbouring cells, of the model fitted to other
tables). The likelihood of an atom is that of the noise, Laplace or Gaussian, multiplied over the
spans in which the table was counted, each with its own margins. How often each atom occurs is estimated from all cells
of the table by EM; a cell's estimate is its posterior median. One exponential tilt for each row and each column moves
the sums of the estimates towards the known margins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headwater.public.marginals.smooth import fit_margins, project
from headwater.public.partition import Floats

Atomic = NDArray[np.float32]
"""A number for each atom and cell."""

_UP = np.exp(np.geomspace(0.02, np.log(64), 18))
INDEPENDENCE = np.concatenate([1 / _UP[::-1], [1.0], _UP])
"""Multiples of independence that are atoms."""
_NEAR = np.exp(np.geomspace(0.05, 1.2, 6))
PREDICTION = np.concatenate([1 / _NEAR[::-1], [1.0], _NEAR])
"""Multiples of a prediction that are atoms."""
REACH = 0.65
"""The largest tilt, in standard deviations: those of a row and a column stay below the slope of Laplace noise, √2."""
SETTLED = 5
"""Iterations of EM after which atoms that hardly occur are dropped, and tilts begin."""
STILL = 0.004
"""Iterations end when two of them move less than this part of the records."""
LARGE = 20_000
"""Tables with more cells do without the neighbours as predictors, to save time and memory."""
SMALL = 30
"""Tables with fewer cells are shrunk as a whole: they are too few to estimate a distribution of cells from."""


@dataclass(frozen=True)
class Counted:
    """One noisy table of a pair: counts of ``records`` records, and the product of its margins in that span."""

    counts: Floats
    scale: Floats
    records: float
    independent: Floats
    gaussian: bool = False

    def log_likelihood(self, shares: Atomic) -> Atomic:
        """The log-likelihood of shares ``p`` of each cell, up to a constant."""
        far = shares * (self.records / self.scale).astype(np.float32)
        far -= (self.counts / self.scale).astype(np.float32)
        if self.gaussian:
            far *= far
            far *= -0.25
        else:
            np.abs(far, out=far)
            np.negative(far, out=far)
        return far

    @property
    def precision(self) -> float:
        return float(self.records**2 / np.mean(self.scale**2))


@dataclass(frozen=True)
class Pooled:
    """All noisy tables of one pair, weighted by precision."""

    tables: Sequence[Counted]

    @cached_property
    def weights(self) -> Floats:
        precision = np.array([table.precision for table in self.tables])
        weights: Floats = precision / precision.sum()
        return weights

    @cached_property
    def shares(self) -> Floats:
        return self._mean([table.counts / table.records for table in self.tables])

    @cached_property
    def independent(self) -> Floats:
        return self._mean([table.independent for table in self.tables])

    def _mean(self, tables: Sequence[Floats]) -> Floats:
        return tables[0] if len(tables) == 1 else np.tensordot(self.weights, np.array(tables), 1)

    @cached_property
    def rows(self) -> Floats:
        margin: Floats = self.independent.sum(1)
        return margin

    @cached_property
    def columns(self) -> Floats:
        margin: Floats = self.independent.sum(0)
        return margin

    @cached_property
    def deviation(self) -> float:
        scales = [w**2 / t.precision for w, t in zip(self.weights, self.tables, strict=True)]
        return float(np.sqrt(2 * np.sum(scales)))


def denoise(
    pooled: Pooled,
    prediction: Floats | None,
    earlier: Floats | None,
    iterations: int = 25,
    *,
    rough: bool = False,
) -> Floats:
    """The estimated two-way table of a pair."""
    rows, columns = pooled.rows, pooled.columns
    predictions = [] if prediction is None else [fit_margins(prediction, rows, columns)]
    if pooled.independent.size < SMALL:
        return fit_margins(project(shrink(pooled, predictions), rows, columns), rows, columns)
    if earlier is not None and earlier.size < LARGE:
        first, second = neighbours(earlier, 1), neighbours(earlier, 0)
        predictions += [first, second, (neighbours(first, 0) + first + second + earlier) / 4]
    table = Atoms(pooled, predictions, rough=rough).estimate(iterations)
    return fit_margins(table, rows, columns, passes=5 if rough else 100)


def shrink(pooled: Pooled, predictions: Sequence[Floats]) -> Floats:
    base = predictions[0] if predictions else pooled.independent
    gap = pooled.shares - base
    gap = gap - gap.mean(1, keepdims=True) - gap.mean(0, keepdims=True) + gap.mean()
    freedom = (gap.shape[0] - 1) * (gap.shape[1] - 1)
    kept = max(0.0, 1 - freedom * pooled.deviation**2 / max(float((gap * gap).sum()), 1e-300))
    shrunk: Floats = base + kept * gap
    return shrunk


def neighbours(table: Floats, axis: int) -> Floats:
    table = np.moveaxis(table, axis, 1)
    padded, ones = (np.pad(t, ((0, 0), (1, 1))) for t in (table, np.ones_like(table)))
    mean = (padded[:, :-2] + padded[:, 2:]) / np.maximum(ones[:, :-2] + ones[:, 2:], 1)
    return np.moveaxis(mean, 1, axis)


class Atoms:
    """The distribution of a table's cells over atoms, and the posterior of each cell."""

    def __init__(self, pooled: Pooled, predictions: Sequence[Floats], *, rough: bool = False) -> None:
        self.pooled, self._rough = pooled, rough
        base = pooled.independent
        most = float(np.minimum.outer(pooled.rows, pooled.columns).max())
        steps = int(np.clip(most / (0.6 * pooled.deviation), 20, 30 if rough else 120))
        self._parts = np.linspace(1 / steps, 1, steps)
        self._ratios = [table / np.maximum(base, 1e-12) for table in predictions]
        self.values = self._atoms(base)
        self.log = np.zeros_like(self.values)
        for table in pooled.tables:
            self.log += table.log_likelihood(self.values if len(pooled.tables) == 1 else self._atoms(table.independent))
        self.log -= self.log.max(0)

    def _atoms(self, independent: Floats) -> Atomic:
        """The atoms of each cell, along the first axis, for margins that are those of ``independent``."""
        most = np.minimum.outer(independent.sum(1), independent.sum(0))
        every = 2 if self._rough else 1
        kinds = [(np.zeros(1), independent), (INDEPENDENCE[::every], independent), (self._parts, most)]
        kinds += [(PREDICTION[::every], independent * ratio) for ratio in self._ratios]
        found, done = np.empty((sum(len(m) for m, _ in kinds), *independent.shape), dtype=np.float32), 0
        for multiples, of in kinds:
            part = found[done : done + len(multiples)]
            np.multiply(multiples.astype(np.float32)[:, None, None], of.astype(np.float32), out=part)
            done += len(multiples)
        return found

    def estimate(self, iterations: int) -> Floats:
        """The posterior median of each cell after EM."""
        rows, columns, deviation = self.pooled.rows, self.pooled.columns, self.pooled.deviation
        variance, limit = deviation**2, REACH * deviation
        down, across = np.zeros(len(rows)), np.zeros(len(columns))
        weights = np.full(len(self.values), 1 / len(self.values))
        likely = self._likely(down, across)
        best, nearest, before = np.inf, (weights, likely), np.full(self.values.shape[1:], np.inf)
        for iteration in range(iterations + 1):
            if iteration >= SETTLED:
                mean, spread = self._moments(weights, likely)
            if iteration > SETTLED:
                gap = float(np.abs(rows - mean.sum(1)).sum() + np.abs(columns - mean.sum(0)).sum())
                if gap < best:
                    best, nearest = gap, (weights, likely)
                if iteration % 2 == 0:  # tilts move after odd ones
                    moved, before = float(np.abs(mean - before).sum()), mean
                    if moved < STILL:
                        break
            if iteration == iterations:
                break
            weights = self._occurring(weights, likely) + 1e-7
            if iteration == SETTLED:
                often = weights > 1e-4
                self.values, self.log, weights = self.values[often], self.log[often], weights[often]
                self.log -= self.log.max(0)
                likely = self._likely(down, across)
            weights /= weights.sum()
            if iteration >= SETTLED and iteration % 2:
                step = 0.7 * (rows - mean.sum(1)) * variance / (spread.sum(1) + 0.3 * variance)
                down = np.clip(down + step, -limit, limit)
                mean, spread = self._moments(weights, self._likely(down, across))
                step = 0.7 * (columns - mean.sum(0)) * variance / (spread.sum(0) + 0.3 * variance)
                across = np.clip(across + step, -limit, limit)
                likely = self._likely(down, across)
        return self._median(self._posterior(*nearest))

    def _median(self, posterior: Atomic) -> Floats:
        """The median of each cell's posterior, interpolated between neighbouring atoms."""
        bits = self.values.view(np.uint32).astype(np.uint64) << np.uint64(32) | posterior.view(np.uint32)
        ordered = np.sort(bits.reshape(len(bits), -1).T.copy(), axis=1).T.copy()
        values, upper = ((ordered >> np.uint64(shift)).astype(np.uint32).view(np.float32) for shift in (32, 0))
        for lower, here in pairwise(upper):  # np.cumsum takes several times as long
            here += lower
        cells, at = np.arange(upper.shape[1]), np.minimum((upper < 0.5).sum(0), len(bits) - 1)
        before = np.maximum(at - 1, 0)
        high, low, above = values[at, cells], values[before, cells], upper[at, cells]
        below = np.where(at > 0, upper[before, cells], 0)
        part = np.clip((0.5 - below) / np.maximum(above - below, 1e-9), 0, 1)
        found: Floats = np.where(at > 0, low + (high - low) * part, high).astype(np.float64)
        return found.reshape(self.values.shape[1:])

    def _likely(self, down: Floats, across: Floats) -> Atomic:
        log = self.log
        if down.any() or across.any():
            tilt = np.add.outer(down, across) / self.pooled.deviation**2
            log = log + self.values * tilt.astype(np.float32)
            log -= log.max(0)
        likely: Atomic = np.exp(log)
        return likely

    def _posterior(self, weights: Floats, likely: Atomic) -> Atomic:
        found: Atomic = likely * weights.astype(np.float32)[:, None, None]
        found /= found.sum(0)
        return found

    def _occurring(self, weights: Floats, likely: Atomic) -> Floats:
        flat, prior = likely.reshape(len(likely), -1), weights.astype(np.float32)
        found: Floats = weights * (flat @ (1 / (prior @ flat))) / flat.shape[1]
        return found

    def _moments(self, weights: Floats, likely: Atomic) -> tuple[Floats, Floats]:
        prior, weighted = weights.astype(np.float32), likely * self.values
        total, first, second = (
            (prior @ of.reshape(len(of), -1)).reshape(of.shape[1:]) for of in (likely, weighted, weighted * self.values)
        )
        mean = first / total
        return mean, second / total - mean**2
