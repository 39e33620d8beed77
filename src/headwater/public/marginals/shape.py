"""The shape of a column inside its bins: shares of finer bins, from tables of any resolution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headwater.public.marginals.codes import Codes, Coding
from headwater.public.marginals.draw import Steps
from headwater.public.marginals.smooth import simplex
from headwater.public.marginals.tables import contained, distinct, union, widths
from headwater.public.partition import Floats, Integers

MOST_PARTS = 1024
"""Of an ordered column; finer edges are thinned."""
TRACE = 1e-12
"""The least share of a part: none is ruled out."""
PASSES = 3
"""Of weighting by a variance and estimating it."""
ROUNDS = 4
"""Of splitting the counts of wide bins by the estimate so far."""


@dataclass(frozen=True, eq=False)
class Shape:
    """Parts of a column's codes, each part of one bin: the share of each, which sum to 1, and its variance."""

    edges: Integers
    shares: Floats
    variance: Floats

    def inside(self, grid: Integers) -> Integers:
        return np.searchsorted(grid, self.edges, side="right") - 1

    def within(self, first: int, last: int, size: int) -> Floats:
        ends = self.edges + widths(self.edges, size)
        shared = np.minimum(ends, last + 1) - np.maximum(self.edges, first)
        found: Floats = np.maximum(shared, 0) / (ends - self.edges)
        return found

    def evidence(self, grid: Integers, within: Floats) -> Floats:
        bins, mass = self.inside(grid), np.maximum(self.shares, TRACE)
        return np.bincount(bins, mass * within) / np.bincount(bins, mass)

    def place(
        self, bins: Codes, grid: Integers, within: Floats, places: Floats
    ) -> Callable[[slice], tuple[Integers, Floats]]:
        """The part of its bin that each record lies in, and where in that part, by its place among those of the bin."""
        if len(grid) == len(self.edges):
            return lambda chunk: (bins[chunk].astype(np.int64), places[chunk])
        first = np.searchsorted(self.edges, grid)
        mass = np.maximum(self.shares, TRACE) * within
        upper = np.cumsum(mass)
        below = np.concatenate([[0.0], upper])
        last = np.append(first[1:], len(upper))
        before, held = below[first], below[last] - below[first]
        divisor, steps = np.maximum(mass, 1e-300), Steps(upper, 1, len(bins))

        def placed(chunk: slice) -> tuple[Integers, Floats]:
            drawn = bins[chunk]
            at = places[chunk] * held.take(drawn) + before.take(drawn)
            part = np.clip(steps.up_to(at), first.take(drawn), last.take(drawn) - 1)
            return part, np.clip((at - below.take(part)) / divisor.take(part), 0, 1 - 2**-53)

        return placed

    def split(self, target: Integers, source: Integers, size: int) -> Split:
        if contained(target, source):  # then none is split
            inside = np.searchsorted(target, source, side="right") - 1
            return Split(inside, np.arange(len(source)), np.ones(len(source)))
        return Pieces.of(self.edges, target, source, size).split(self.shares)


@dataclass(frozen=True, eq=False)
class Pieces:
    """A column cut where a part, a bin of the target or one of the source begins, and what each piece lies in."""

    part: Integers
    target: Integers
    source: Integers
    inside: Floats
    first: Integers

    @classmethod
    def of(cls, parts: Integers, target: Integers, source: Integers, size: int) -> Pieces:
        if target is parts and contained(source, parts):  # each part is a piece
            every = np.arange(len(parts))
            return cls(every, every, np.searchsorted(source, parts, side="right") - 1, np.ones(len(parts)), every)
        starts = distinct(np.concatenate([parts, target, source]))
        part, to, by = (np.searchsorted(edges, starts, side="right") - 1 for edges in (parts, target, source))
        first = np.concatenate([[0], 1 + np.flatnonzero((to[1:] != to[:-1]) | (by[1:] != by[:-1]))])
        return cls(part, to, by, widths(starts, size) / widths(parts, size)[part], first)

    def split(self, shares: Floats) -> Split:
        mass = np.maximum(shares, TRACE)[self.part] * self.inside
        mass /= np.bincount(self.source, mass)[self.source]
        if len(self.first) == len(mass):
            return Split(self.target, self.source, mass)
        return Split(self.target[self.first], self.source[self.first], np.add.reduceat(mass, self.first))


@dataclass(frozen=True, eq=False)
class Split:
    """The fraction of each source bin's count that goes to each target bin, where it is not 0."""

    target: Integers
    source: Integers
    fraction: Floats

    def __matmul__(self, counts: Floats) -> Floats:
        return self._sums(self.fraction * counts[..., self.source])

    def variance(self, variance: Floats, least: float) -> Floats:
        more = np.maximum(self.fraction - least, 0) * variance[..., self.source]
        found: Floats = self._sums(more) + least * variance.sum(-1, keepdims=True)
        return found

    @cached_property
    def _first(self) -> Integers:
        return np.searchsorted(self.target, np.arange(self.target[-1] + 1))

    def _sums(self, values: Floats) -> Floats:
        if len(self.target) == self.target[-1] + 1:  # each has one
            return values
        found: Floats = np.add.reduceat(values, self._first, -1)
        return found

    @cached_property
    def whole(self) -> NDArray[np.bool_]:
        source = self.source
        if len(source) > self.target[-1] + 1:  # some get from several
            last = np.flatnonzero(np.diff(self.target, append=-1))
            source = source[np.lexsort((-np.arange(len(source)), self.fraction, self.target))[last]]
        alone: NDArray[np.bool_] = np.bincount(self.source)[source] == 1
        return alone

    def matrix(self) -> Floats:
        found = np.zeros((self.target[-1] + 1, self.source[-1] + 1))
        found[self.target, self.source] = self.fraction
        return found


@dataclass(frozen=True)
class Side:
    """Noisy counts of one column's bins in some span: a one-way table, or the sums of a two-way table."""

    start: int
    end: int
    edges: Integers
    counts: Floats
    variance: Floats


@dataclass(frozen=True, eq=False)
class Sides:
    """Noisy counts of one column with the same bins: a row for each of several spans."""

    edges: Integers
    spans: Integers
    counts: Floats
    variance: Floats

    @cached_property
    def records(self) -> Integers:
        return self.spans[:, 1:] - self.spans[:, :1]

    def rows(self, which: NDArray[np.bool_]) -> Sides:
        return self if which.all() else Sides(self.edges, self.spans[which], self.counts[which], self.variance[which])


def stacked(sides: Sequence[Side]) -> list[Sides]:
    """Noisy counts put together by their bins."""
    groups: dict[bytes, list[Side]] = {}
    for side in sides:
        groups.setdefault(side.edges.tobytes(), []).append(side)
    return [
        Sides(
            group[0].edges,
            np.array([(side.start, side.end) for side in group]),
            np.array([side.counts for side in group]),
            np.array([side.variance for side in group]),
        )
        for group in groups.values()
    ]


def estimate_shape(sides: Sequence[Sides], grid: Integers, coding: Coding) -> Shape:
    """The shape of a column over all time."""
    edges = union([grid, *(side.edges for side in sides)], coding, max(MOST_PARTS, len(grid)))
    edges = distinct(np.concatenate([edges, grid]))
    even = widths(edges, coding.size) / coding.size
    shape = Shape(edges, even, np.zeros(len(edges)) if len(edges) == 1 else even)
    if not sides or len(edges) == 1:
        return shape
    bins = shape.inside(grid)
    pooled = pool_sides(sides)
    pieces = [Pieces.of(edges, edges, starts, coding.size) for starts, _, _ in pooled]
    known = list[Floats]()  # the precision of parts that are counted by themselves
    for _ in range(ROUNDS if len(pooled) > 1 else 1):
        splits = [cut.split(shape.shares) for cut in pieces]
        if not known or any(len(cut.part) > len(edges) for cut in pieces):  # else no part has counts of several bins
            known = [
                np.where(split.whole, 1 / split.variance(variance, TRACE), TRACE)
                for split, (_, _, variance) in zip(splits, pooled, strict=True)
            ]
            variance = 1 / sum(known, np.full(len(edges), TRACE))
        total = np.zeros(len(edges))
        for split, precision, (_, shares, _) in zip(splits, known, pooled, strict=True):
            total += split @ shares * precision
        shape = Shape(edges, _shrunk(total * variance, variance, even, bins), np.minimum(variance, 1))
    return _agreeing(shape, pooled)


def _agreeing(shape: Shape, pooled: Sequence[tuple[Integers, Floats, Floats]]) -> Shape:
    """The shape, with parts scaled where a bin of several parts has a count that is more precise than their sum."""
    shares, variance = shape.shares.copy(), shape.variance.copy()
    for starts, counted, noise in sorted(pooled, key=lambda table: -float(table[2].min())):
        if len(starts) == len(shape.edges) or not contained(starts, shape.edges):
            continue  # no bin has several parts, or some part lies in several bins
        inside = shape.inside(starts)
        sums, spread, parts = np.bincount(inside, shares), np.bincount(inside, variance), np.bincount(inside)
        better = (parts > 1) & (spread > noise) & (sums > TRACE)
        if not better.any():
            continue
        weight = np.where(better, spread / np.maximum(spread + noise, TRACE), 0.0)
        agreed = np.maximum(sums + weight * (counted - sums), 0.0)
        shares *= np.divide(agreed, sums, out=np.ones_like(sums), where=better)[inside]
        variance *= (1 - weight)[inside]
    total = shares.sum()
    return Shape(shape.edges, shares / total, variance) if total > TRACE else shape


def pool_sides(sides: Sequence[Sides]) -> list[tuple[Integers, Floats, Floats]]:
    found = []
    for side in sides:
        known = side.records**2 / side.variance
        precision = known.sum(0)
        found.append((side.edges, (side.counts / side.records * known).sum(0) / precision, 1 / precision))
    return found


def _shrunk(shares: Floats, variance: Floats, even: Floats, bins: Integers) -> Floats:
    """Shares drawn towards even ones inside a bin, or, where these are nearer, towards the density beside each part."""
    sums = [np.bincount(bins, values) for values in (shares, even)]
    guess = np.maximum(sums[0], 0)[bins] * even / sums[1][bins]
    spread = _spread(shares - guess, variance, bins)
    kept = spread / (spread + variance)
    found = guess + kept * (shares - guess)
    if len(shares) > 2:
        density, unsure = (np.pad(of, 1, mode="reflect") for of in (found / even, kept * variance / even**2))
        beside = even * (density[:-2] + density[2:]) / 2
        noise = even**2 * (unsure[:-2] + unsure[2:]) / 4
        closer = _spread(shares - beside, variance + noise, bins) + noise
        smoothed = beside + closer / (closer + variance) * (shares - beside)
        found = np.where(closer < spread, smoothed, found)
    return simplex(found)


def _spread(gaps: Floats, variance: Floats, bins: Integers) -> Floats:
    """The variance in each bin of what noise of this variance was added to."""
    surplus, found = gaps**2 - variance, np.zeros(len(gaps))
    for _ in range(PASSES):
        weight = 1 / (variance + found) ** 2
        found = np.maximum(np.bincount(bins, surplus * weight) / np.bincount(bins, weight), 0)[bins]
    return found
