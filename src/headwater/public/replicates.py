"""Releases measured again: truths near a release, fitted again from fresh noise. Their spread is the error of answers.

What noise left open is perturbed (`Around`, one for each mechanism), a truth is drawn, measured on the same tables with
fresh noise of the same scales, and fitted by the same code. Everything comes from published numbers and from public
randomness, so it costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.marginals.codes import FINEST, Coder, coders
from headwater.public.partition import Floats, Integers, Points
from headwater.public.protocol import SHARES, AnySchema, Around, ExpectedError, Model

COUNT = 10
"""How many truths are drawn."""
ROWS = 1 << 15
"""Of records of a truth, at most; counts of larger data are scaled up."""
MOST = 1 << 23
"""Values of all truths and fits together, at most."""
BLOCKS = 1 << 12
"""That a random measure of a column has, at most."""
ROUGH = (0.8, 0.8, 5.0)
"""How even the halves of a random measure are: as spiky as columns of round values, or as smooth as heights."""
ATOMS = 0
"""Which of these stands for a column all of whose values are round: then each block has one value."""


@dataclass(frozen=True, eq=False)
class Replicates:
    """Coordinates of truths and of fits, of shape ``(replicates, columns, rows)``."""

    truths: Points
    fits: Points


def replicate(model: Model, measured: Any, schema: AnySchema) -> Replicates | None:  # noqa: ANN401 - of the mechanism's own type
    """The replicates of a release; None if its mechanism has none, or nothing was measured."""
    make, records = getattr(model, "around", None), model.records
    if make is None or measured is None or not records:
        return None
    rows = max(min(records, ROWS, MOST // (2 * COUNT * schema.dimension)), 1)
    around: Around = make(measured, schema, rows)
    truths, fits = np.empty((2, COUNT, schema.dimension, rows))
    for number in range(COUNT):
        truth, fit = around(np.random.default_rng([records, number]))
        truths[number], fits[number] = truth.T, fit.T
    return Replicates(truths, fits)


DRAWS, DRAWN = 8, 1 << 14
"""Truths that `expected_error` draws, and records of each at most."""
RARE = 1.5
"""Deviations of truths above their mean that nine in ten stay below."""
POINTS = 512
"""Quantiles that W1 is computed from."""


def expected_error(model: Model, measured: Any, schema: AnySchema) -> ExpectedError:  # noqa: ANN401 - as above
    """How far truths near a release are from it, without fitting again: so it takes little time.

    The parts are the largest error of the share of a value or of any range of a column, and its W1 in deviations.
    """
    make, whole = getattr(model, "around", None), model.expected_error()
    rows = min(model.records, DRAWN)
    if make is None or measured is None or not rows:
        return whole
    around, fitted = make(measured, schema, rows), model.sample(rows, 0)
    known, found = [_Marginal(fitted[:, c], one) for c, one in enumerate(coders(schema))], list[Floats]()
    for number in range(DRAWS):
        truth = around.truth(np.random.default_rng([rows, number]))
        found.append(np.array([one.far(truth[:, column]) for column, one in enumerate(known)]))
    errors = np.array(found)
    typical, upper = errors.mean(0), np.minimum(errors.mean(0) + RARE * errors.std(0, ddof=1), (1, np.inf))
    names = getattr(schema, "names", None) or [f"x{axis}" for axis in range(schema.dimension)]
    parts = dict(whole.parts)
    for name, one, low, high in zip(names, known, typical.tolist(), upper.tolist(), strict=True):
        parts[f"column {name}"] = low[0], high[0]
        if one.deviation > 0:
            parts[f"W1 {name}"] = low[1], high[1]
    if not math.isnan(whole.typical):
        return ExpectedError(whole.typical, whole.upper, whole.measure, parts)
    return ExpectedError(float(typical[:, 0].mean()), float(upper[:, 0].mean()), SHARES, parts)


class _Marginal:
    """One column of a release."""

    def __init__(self, places: Floats, coder: Coder) -> None:
        self.coder, self.rows = coder, len(places)
        self.sorted, self.gone = self._split(places)
        self.deviation = float(self.sorted.std()) if coder.coding.ordered and len(self.sorted) else 0.0

    def _split(self, places: Floats) -> tuple[Floats, float]:
        there = places < 0.5 if self.coder.axis.missing else np.ones(len(places), dtype=np.bool_)
        return np.sort(places[there]), 1 - float(there.mean())

    def far(self, places: Floats) -> tuple[float, float]:
        """The largest error of a share, and W1 in deviations."""
        other, gone = self._split(places)
        every = np.unique(np.concatenate([self.sorted, other]))
        upper = [np.searchsorted(one, every, side="right") / self.rows for one in (self.sorted, other)]
        apart = np.concatenate([[0.0], upper[0] - upper[1]])
        if not self.coder.coding.ordered:
            return max(float(np.abs(np.diff(apart)).max(initial=0)), abs(gone - self.gone)), 0.0
        most = max(float(apart.max() - apart.min()), abs(gone - self.gone))
        if not (self.deviation and len(other)):
            return most, 0.0
        at = (np.arange(POINTS) + 0.5) / POINTS
        mine, yours = (one[(at * len(one)).astype(np.int64)] for one in (self.sorted, other))
        return most, float(np.abs(mine - yours).mean()) / self.deviation


# ---- fresh noise


def fresh_laplace(scale: float, size: int, rng: np.random.Generator) -> Integers:
    heads = -np.expm1(-1 / max(scale, 1e-3))
    return rng.geometric(heads, size) - rng.geometric(heads, size)


def fresh_gaussian(scale: float, size: int, rng: np.random.Generator) -> Integers:
    return np.rint(rng.normal(0, scale, size)).astype(np.int64)


def fresh_joint(scale: float, sizes: Sequence[int], rng: np.random.Generator) -> list[Integers]:
    """Noise of several tables at once, nearly by the law of `headwater.public.laws.JointLaplace`."""
    radius = rng.gamma(sum(sizes) + 1, scale)
    found = []
    for size in sizes:
        if size == 1:
            noise = rng.uniform(-radius, radius, 1)
        else:
            parts = rng.exponential(size=size + 1)
            noise = 2 * radius * parts[:-1] / parts.sum() * rng.choice((-1.0, 1.0), size)
        found.append(np.rint(noise).astype(np.int64))
    return found


class Arrivals:
    """Which records of a truth stand for those that arrived in a span: a few of them, drawn by time, stand for all.

    What arrived before a window is any of its records, in another order.
    """

    def __init__(self, rows: int, start: int, records: int, earlier: Integers) -> None:
        self.rows, self.start, self.records, self.earlier = rows, start, max(records, 1), earlier

    def __call__(self, start: int, end: int) -> Integers:
        first = (start - self.start) * self.rows // self.records
        last = max((end - self.start) * self.rows // self.records, first + 1)
        found = np.arange(first, last)
        if len(found) > self.rows:
            found = np.linspace(first, last - 1, self.rows).astype(np.int64)
        return np.where(found < 0, self.earlier[found % self.rows], np.minimum(found, self.rows - 1))


def whole(counts: NDArray[np.floating[Any]], rng: np.random.Generator) -> Integers:
    """Counts rounded at random, so that none is off on average."""
    found: Integers = np.floor(counts + rng.random(counts.shape)).astype(np.int64)
    return found


# ---- what counts leave open


def spread(mean: Floats, deviation: Floats, rng: np.random.Generator) -> Floats:
    """Shares near an estimate, none below 0, that sum to 1."""
    deviation = np.minimum(deviation, mean + 0.75 * deviation)
    mean = np.maximum(mean, 0.5 * deviation)
    form = np.clip((mean / np.maximum(deviation, 1e-12)) ** 2, 1e-3, 1e4)
    known = mean + deviation * rng.normal(size=mean.shape)
    drawn = np.where(form >= 1e4, known, rng.gamma(form) * mean / form)
    drawn = np.maximum(drawn, 0)
    found: Floats = drawn / max(drawn.sum(), 1e-300)
    return found


class Position:
    """Where records lie along a column, in units of its codes."""

    def __init__(self, coder: Coder) -> None:
        self.coder, self.values = coder, coder.coding.values

    def of(self, places: Floats, rng: np.random.Generator) -> Floats:
        """Positions of coordinates; values of a finite column are as wide as their code. A missing one lies beyond."""
        axis = self.coder.axis
        if axis.values is None:
            found = places * (FINEST / axis.unit)
        else:
            found = (places * 2.0**axis.cuts + rng.random(len(places))) / self.coder.step
        if axis.missing:
            found = np.where(places >= 0.5, self.values + 0.5, np.minimum(found, np.nextafter(self.values, 0)))
        return np.minimum(found, np.nextafter(self.coder.coding.size, 0))

    def edges(self, places: Floats) -> Floats:
        """The positions of coordinates where bins end."""
        axis = self.coder.axis
        times = FINEST / axis.unit if axis.values is None else 2.0**axis.cuts / self.coder.step
        found: Floats = places * times
        return found

    def places(self, positions: Floats) -> Floats:
        codes = np.minimum(positions.astype(np.int64), self.coder.coding.size - 1)
        found: Floats = self.coder.places(codes.astype(np.uint16), np.clip(positions - codes, 0, np.nextafter(1, 0)))
        return found

    def roughened(self, positions: Floats, low: Floats, high: Floats, rng: np.random.Generator) -> Floats:
        """Positions inside their bins as one random measure of the whole column has it."""
        kind = int(rng.integers(len(ROUGH))) if self.coder.coding.ordered else 1
        even = ROUGH[kind]
        blocks = min(self.values, BLOCKS)
        mass = np.ones(1)
        while len(mass) < blocks:
            left = rng.beta(even, even, len(mass))
            mass = np.stack([mass * left, mass * (1 - left)], 1).ravel()
        mass = mass[:blocks] + 1e-12
        upper = np.concatenate([[0.0], np.cumsum(mass) / mass.sum()])
        ends = np.linspace(0, self.values, blocks + 1)
        inside = positions < self.values
        first, last = (np.interp(end[inside], ends, upper) for end in (low, high))
        share = (positions[inside] - low[inside]) / (high - low)[inside]
        moved = positions.copy()
        found = np.interp(first + share * (last - first), upper, ends)
        if kind == ATOMS:
            start, end = (np.clip(edge, low[inside], high[inside]) for edge in _block(found, self.values / blocks))
            cell = np.unique(start, return_inverse=True)[1]
            found = start + rng.random(int(cell.max(initial=0)) + 1)[cell] * (end - start)
        moved[inside] = np.clip(found, low[inside], np.nextafter(high[inside], 0))
        return moved


def _block(found: Floats, wide: float) -> tuple[Floats, Floats]:
    """Where the blocks that hold these positions begin and end."""
    start: Floats = np.floor(found / wide) * wide
    return start, start + wide


def positions(schema: AnySchema) -> list[Position]:
    return [Position(coder) for coder in coders(schema)]
