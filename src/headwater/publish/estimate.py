"""From the noisy counts of many buckets to one density: shares of cells, shrunk by what is known of their noise.

Everything here reads published numbers only. Buckets of one speed are pooled. Walking down from the root, the mass of
each pool in a cell is split by a share that is estimated from the pool's own counts and drawn towards the share of
the slower pool before it, as far as noise demands. `_share` and `_trust` are the formulas.

Formal guarantees
-----------------
Post-processing: it costs no privacy, whatever it does. Children sum to their parents, no mass is negative, and every
pool keeps as much mass as it has points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headwater.partition import DEEPEST, Cells, Partition
from headwater.publish.tree import Flags, Floats, Halves, Summary, Tree, children, find, halves

ALL = slice(None)
NEAR = 2  # cells that agree in all but their last two halvings share their estimate of how uneven they are
PRIOR = 4.0  # against which the whole depth's unevenness counts as this many cells


@dataclass(frozen=True, eq=False)
class Pool:
    """Sums of the summaries of some buckets, depth by depth."""

    points: int = 0
    depths: list[Halves] = field(default_factory=list)

    @staticmethod
    def of(summary: Summary) -> Pool:
        """A pool of one bucket."""
        return Pool(summary.points, halves(summary))

    def plus(self, other: Pool) -> Pool:
        """Both together."""
        depths = [one.merged(more) for one, more in zip(self.depths, other.depths, strict=False)]
        rest = max(self.depths, other.depths, key=len)[len(depths) :]
        return Pool(self.points + other.points, depths + rest)


@dataclass(frozen=True, eq=False)
class Pooled:
    """All that is published about the points after the first ``start``, and what to believe before hearing it.

    ``pools`` go from slow to fast. The first ``before`` of them are about earlier points: they are believed in where
    nothing better is known, and hold no mass of their own. The last ``uncovered`` points are in no bucket yet.
    """

    pools: list[Pool]
    before: int
    start: int
    uncovered: int


@dataclass(frozen=True, eq=False)
class Density:
    """Where the points are thought to be: for each depth the cells, every pool's mass in them, and which are split.

    The last row of a mass is that of the points that no bucket covers. ``spread`` adds up, over all splits, how far
    noise may have moved mass times the size of the cell: a bound on the error of W1, times the number of points.
    """

    depths: list[tuple[Cells, Floats, Flags]]
    spread: float


def estimate(
    pools: Sequence[Pool],
    uncovered: int,
    partition: Partition,
    *,
    before: int = 0,
    newest: slice = ALL,
    least: float = 0.0,
) -> Density:
    """The density that these pools, slowest first, and the points that none of them covers are thought to have.

    The first ``before`` pools are about other points; their errors do not count. Cells in which the ``newest`` pools
    together have less than ``least`` are not looked into.
    """
    cells = np.zeros(1, dtype=np.uint64)
    mass = np.array([[float(pool.points)] for pool in pools] + [[float(uncovered)]])
    depths: list[tuple[Cells, Floats, Flags]] = []
    spread = 0.0
    for depth in range(DEEPEST):
        found = [find(p.depths[depth].cells, cells) if depth < len(p.depths) else None for p in pools]
        split = np.zeros(len(cells), dtype=bool)
        for hit in found:
            if hit is not None:
                split |= hit[1]
        if least:
            split &= mass[newest].sum(axis=0) >= least
        depths.append((cells, mass, split))
        if not split.any():
            break
        cells, mass = cells[split], mass[:, split]
        share, error, shares = np.full(len(cells), 0.5), np.zeros(len(cells)), []
        for index, (pool, hit, held) in enumerate(zip(pools, found, mass, strict=False)):
            if hit is not None:
                place, heard = hit[0][split], hit[1][split] & (held > 0)
                if heard.any():
                    values = pool.depths[depth].values[:, place[heard]]
                    believed = share[heard]
                    share = share.copy()
                    share[heard], error_here = _share(values, pool.points, cells[heard], held[heard], believed)
                    if index >= before:
                        error[heard] += error_here
            shares.append(share)
        if not least:
            spread += partition.diameter(depth) * float(np.sqrt(error).sum())
        left = mass * np.array([*shares, share])
        mass = np.stack([left, mass - left], axis=2).reshape(len(mass), -1)
        cells = children(cells)
    return Density(depths, spread)


def _share(values: Floats, points: int, cells: Cells, held: Floats, before: Floats) -> tuple[Floats, Floats]:
    """A pool's shares of the left halves, and the variance of the mass that they put on the wrong side."""
    left, right, var_left, var_right, asked = values
    # The mass, in this cell, of the buckets that were asked about it: what they say, as far as it can be true.
    both = left + right
    base = np.maximum(np.minimum(np.maximum(both, held * (asked / points)), held), 1.0)
    # Least squares for the left half when the sum of both is `base`, and its variance.
    weight = var_left / (var_left + var_right)
    noise = weight * var_right
    surprise = left + (base - both) * weight - base * before
    trust = _trust(surprise, noise, base, cells)
    share = np.minimum(np.maximum(before + trust * surprise / base, 0), 1)
    return share, trust * noise * np.square(held / base)


def _trust(surprise: Floats, noise: Floats, base: Floats, cells: Cells) -> Floats:
    """How much of a surprise to believe, by empirical Bayes: its variance is modelled as ``s·base + noise``.

    A surprise is by how much the left half differs from what was believed; twice that is the imbalance.

    ``s`` is fitted by weighted moments over the whole depth, then once more among neighbours.
    """
    doubt = noise / base
    excess = surprise * surprise / base - doubt
    s = 0.25
    for _ in range(2):
        weight = 1 / np.square(doubt + s)
        s = max(0.0, float((weight * excess).sum() / weight.sum()))
    weight = 1 / np.square(doubt + s)
    near = cells >> np.uint64(NEAR)
    group = np.empty(len(cells), dtype=np.int64)
    group[0] = 0
    np.cumsum(near[1:] != near[:-1], out=group[1:])
    weights = np.bincount(group, weight)
    prior = PRIOR * weights / np.bincount(group)
    local = np.maximum((np.bincount(group, weight * excess) + prior * s) / (weights + prior), 0)[group]
    return local / (local + doubt)


def grow(density: Density, pools: slice, points: int, worth: float, base: float, deepest: int) -> Tree:
    """The tree to measure next: split what is predicted to hold ``worth`` points, and a coarse grid in any case.

    The prediction is the density of some of the pools, scaled to ``points``; below its leaves it is even. Cells are
    also split while ``points`` spread evenly would put ``base`` in them, so that no place is ever out of sight.
    """
    cells, mass = np.zeros(1, dtype=np.uint64), np.array([float(points)])
    predicted = [(known, held[pools].sum(axis=0)) for known, held, _ in density.depths]
    total = float(predicted[0][1][0])
    splits: list[Flags] = []
    for depth in range(deepest + 1):
        split = (mass >= worth) | (math.ldexp(points, -depth) >= base)
        split &= depth < deepest
        splits.append(split)
        if not split.any():
            break
        cells, mass = children(cells[split]), np.repeat(mass[split] / 2, 2)
        if depth + 1 < len(predicted) and total > 0:
            known, held = predicted[depth + 1]
            place, found = find(known, cells)
            mass[found] = held[place[found]] * (points / total)
    return Tree(tuple(splits))


def leaves(density: Density, pools: slice) -> tuple[Cells, NDArray[np.int64], Floats]:
    """The leaves of a density in order of place: cells, depths, masses."""
    parts = []
    for depth, (cells, mass, split) in enumerate(density.depths):
        end = ~split
        parts.append((cells[end], np.full(int(end.sum()), depth), mass[pools][:, end].sum(axis=0)))
    cells, depths, mass = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(cells << (DEEPEST - depths).astype(np.uint64))
    return cells[order], depths[order], mass[order]


def round_in_order(mass: Floats, total: int, offset: float) -> NDArray[np.int64]:
    """Whole counts that sum to ``total``; every run of neighbours, so every cell, is off by less than one.

    ``mass`` must sum to ``total`` up to rounding; ``offset`` in [0, 1) is random, so that no place is favoured.
    """
    if not len(mass) or total == 0:
        return np.zeros(len(mass), dtype=np.int64)
    running = np.cumsum(mass)
    edges = np.floor(running * (total / running[-1]) + offset).astype(np.int64)
    edges[-1] = total
    counts: NDArray[np.int64] = np.diff(np.clip(edges, 0, total), prepend=0)
    return counts
