"""The shape of a column inside its bins: shares of finer bins, from tables of any resolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headwater.mechanisms.marginals.draw import even_numbers
from headwater.mechanisms.marginals.grid import Floats, transfer, union, widths
from headwater.mechanisms.marginals.measured import Coding, Integers
from headwater.mechanisms.marginals.timeline import simplex

MOST_PARTS = 1024
"""Of an ordered column; finer edges are thinned."""
TRACE = 1e-12
"""The least share of a part: none is ruled out."""
ROUNDS = 4
"""Of splitting the counts of wide bins by the estimate so far."""


@dataclass(frozen=True, eq=False)
class Shape:
    """Parts of a column's codes, each part of one bin: the share of each, which sum to 1, and its variance."""

    edges: Integers
    shares: Floats
    variance: Floats

    def inside(self, grid: Integers) -> Integers:
        """The bin of each part."""
        return np.searchsorted(grid, self.edges, side="right") - 1

    def within(self, first: int, last: int, size: int) -> Floats:
        """The fraction of each part that lies between two codes, both included."""
        ends = self.edges + widths(self.edges, size)
        shared = np.minimum(ends, last + 1) - np.maximum(self.edges, first)
        found: Floats = np.maximum(shared, 0) / (ends - self.edges)
        return found

    def evidence(self, grid: Integers, within: Floats) -> Floats:
        """The probability that a record of each bin lies in the given fractions of the parts."""
        bins, mass = self.inside(grid), np.maximum(self.shares, TRACE)
        return np.bincount(bins, mass * within) / np.bincount(bins, mass)

    def place(self, bins: Integers, grid: Integers, within: Floats, rng: np.random.Generator) -> Integers:
        """For each record the part of its bin that it lies in, with little sampling noise."""
        if len(grid) == len(self.edges):
            return bins
        first = np.searchsorted(self.edges, grid)
        upper = np.cumsum(np.maximum(self.shares, TRACE) * within)
        below = np.concatenate([[0.0], upper])
        before, after = below[first], below[np.append(first[1:], len(upper))]
        order = np.argsort(bins.astype(np.uint16), kind="stable")
        at = before[bins[order]] + even_numbers(len(bins), rng) * (after - before)[bins[order]]
        found = np.empty(len(bins), dtype=np.int64)
        found[order] = np.searchsorted(upper, at, side="right")
        return np.clip(found, first[bins], np.append(first[1:], len(upper))[bins] - 1)

    def split(self, target: Integers, source: Integers, size: int) -> Floats:
        """A matrix that moves counts of the source's bins to the target's, wide ones split by the shares."""
        parts = transfer(self.edges, source, size) * np.maximum(self.shares, TRACE)
        parts /= parts.sum(1, keepdims=True)
        return transfer(self.edges, target, size) @ parts.T


@dataclass(frozen=True)
class Side:
    """Noisy counts of one column's bins in some span: a one-way table, or the sums of a two-way table."""

    start: int
    end: int
    edges: Integers
    counts: Floats
    variance: Floats


def estimate_shape(sides: Sequence[Side], grid: Integers, coding: Coding) -> Shape:
    """The shape of a column over all time.

    Noisy counts are averaged by precision; each part is estimated from those that tell it apart. Inside each bin of the
    grid the shares are shrunk towards an even spread by as much as the noise explains (James–Stein).
    """
    edges = union([grid, *(side.edges for side in sides)], coding, max(MOST_PARTS, len(grid)))
    edges = np.union1d(edges, grid)
    even = widths(edges, coding.size) / coding.size
    shape = Shape(edges, even, np.zeros(len(edges)) if len(edges) == 1 else even)
    if not sides or len(edges) == 1:
        return shape
    bins = shape.inside(grid)
    pooled = pool_sides(sides)
    for _ in range(ROUNDS if len(pooled) > 1 else 1):
        total, precision = np.zeros(len(edges)), np.full(len(edges), TRACE)
        for starts, shares, variance in pooled:
            matrix = shape.split(edges, starts, coding.size)
            narrow = (matrix > 0).sum(0)[np.argmax(matrix, axis=1)] == 1  # parts that the counts tell apart
            known = np.where(narrow, 1 / (np.maximum(matrix, TRACE) @ variance), TRACE)
            total += matrix @ shares * known
            precision += known
        shape = Shape(edges, _shrunk(total / precision, 1 / precision, even, bins), np.minimum(1 / precision, 1))
    return shape


def pool_sides(sides: Sequence[Side]) -> list[tuple[Integers, Floats, Floats]]:
    """Edges, shares and variances of counts with the same bins, averaged by precision over all spans."""
    found: dict[bytes, tuple[Integers, Floats, Floats]] = {}
    for side in sides:
        records = side.end - side.start
        known = records**2 / side.variance
        edges, total, precision = found.get(side.edges.tobytes(), (side.edges, np.zeros(1), np.zeros(1)))
        found[edges.tobytes()] = edges, total + side.counts / records * known, precision + known
    return [(edges, total / precision, 1 / precision) for edges, total, precision in found.values()]


def _shrunk(shares: Floats, variance: Floats, even: Floats, bins: Integers) -> Floats:
    """Shares shrunk towards an even spread inside each bin, non-negative, that sum to 1."""
    sums = [np.bincount(bins, values) for values in (shares, even, variance)]
    spread = np.maximum(sums[0], 0)[bins] * even / sums[1][bins]
    gap = shares - spread
    surplus = np.bincount(bins, gap**2)
    kept = np.maximum(0, 1 - np.divide(sums[2], surplus, out=np.ones_like(surplus), where=surplus > sums[2]))[bins]
    return simplex(spread + kept * gap)
