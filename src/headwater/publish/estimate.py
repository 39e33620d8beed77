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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headwater.partition import DEEPEST, Cells, Partition
from headwater.publish.tree import LEAF, Flags, Floats, Integers, Summary, Tree, children, halves, numbered

ALL = slice(None)
NEAR = np.uint64(2)  # cells that agree in all but their last two halvings share their estimate of how uneven they are
PRIOR = 4.0  # against which the whole depth's unevenness counts as this many cells


@dataclass(frozen=True, eq=False)
class Pool:
    """Sums of the summaries of some buckets: over the split cells of the union of their trees, as `halves` has them."""

    points: int = 0
    tree: Tree = LEAF
    values: Sequence[Floats] = ()

    @staticmethod
    @lru_cache(maxsize=4)  # as for `together`
    def of(summary: Summary, partition: Partition) -> Pool:
        """A pool of one bucket."""
        return Pool(summary.points, summary.tree, halves(summary, partition))

    def plus(self, other: Pool) -> Pool:
        """Both together."""
        if LEAF.size in (self.tree.size, other.tree.size):
            deeper = max(self, other, key=lambda pool: pool.tree.size)
            return Pool(self.points + other.points, deeper.tree, deeper.values)
        splits, known = list[Flags](), list[tuple[Flags, Flags]]()  # which of the two know each split cell
        ours = theirs = np.ones(1, dtype=bool)  # whose nodes these are
        for one, two in zip(self.tree.splits, other.tree.splits, strict=False):
            one, two = _put(one, ours), _put(two, theirs)
            splits.append(one | two)
            (at,) = splits[-1].nonzero()
            one, two = one[at], two[at]
            known.append((one, two))
            ours, theirs = one.repeat(2), two.repeat(2)
        # Where one of them ends, only the other splits anything.
        deepest = max(self.tree, other.tree, key=lambda tree: len(tree.splits))
        tree = Tree((*splits, *deepest.splits[len(splits) :]))
        values = [np.zeros(tree.size - 1) for _ in self.values]
        for pool, flags in zip((self, other), zip(*known, strict=True), strict=True):
            (at,) = np.concatenate(flags).nonzero()
            if pool.tree is deepest:
                at = np.append(at, np.arange(sum(map(len, flags)), tree.size - 1))
            for row, more in zip(values, pool.values, strict=True):
                np.add.at(row, at, more)
        return Pool(self.points + other.points, tree, values)


def _put(flags: Flags, where: Flags) -> Flags:
    """Flags put where they belong, among others that are down."""
    found = np.zeros(len(where), dtype=bool)
    found[where] = flags
    return found


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
    # Where the cells are in each pool's values, or −1; nowhere from the depth on where the pool ends.
    places = [np.zeros(1, dtype=np.int64) if pool.tree.splits[0].any() else None for pool in pools]
    depths: list[tuple[Cells, Floats, Flags]] = []
    spread = 0.0
    for depth in range(partition.deepest + 1):
        split = np.zeros(len(cells), dtype=bool)
        for place in places:
            if place is not None:
                split |= place >= 0
        if least:
            split &= np.add.reduce(mass[newest]) >= least
        depths.append((cells, mass, split))
        (at,) = split.nonzero()
        if not len(at):
            break
        if len(at) < len(cells):
            cells, mass = cells[at], mass.take(at, axis=1)
            places = [None if place is None else place[at] for place in places]
        share, error, both = partition.shares(cells, depth), np.zeros(len(at)), np.empty((*mass.shape, 2))
        group = _neighbours(cells)
        # Where a half is empty, there is nothing to estimate.
        open_ = None if partition.axes[partition.order[depth]].plain else (share > 0) & (share < 1)
        for index, (pool, place) in enumerate(zip(pools, places, strict=True)):
            if place is not None:
                heard = (place >= 0) & (mass[index] > 0)
                if open_ is not None:
                    heard &= open_
                (some,) = heard.nonzero()
                if len(some):
                    here, near = (some, _neighbours(cells[some])) if len(some) < len(at) else (ALL, group)
                    where = place[here]
                    values = [row.take(where) for row in pool.values]
                    found, wrong = _share(values, pool.points, near, mass[index, here], share[here])
                    share[here] = found
                    if index >= before and not least:
                        error[here] += wrong()
                ends = depth + 2 == len(pool.tree.splits)
                places[index] = None if ends else pool.tree.below().take(place, axis=0).reshape(-1)
            np.multiply(mass[index], share, out=both[index, :, 0])
        np.multiply(mass[-1], share, out=both[-1, :, 0])
        if not least:
            spread += partition.diameter(depth) * float(np.sqrt(error).sum())
        np.subtract(mass, both[:, :, 0], out=both[:, :, 1])
        mass, cells = both.reshape(len(mass), -1), children(cells)
    return Density(depths, spread)


def _share(
    values: Sequence[Floats], points: int, group: Integers, held: Floats, before: Floats
) -> tuple[Floats, Callable[[], Floats]]:
    """A pool's shares of the left halves, and, if asked, the variance of the mass that they put on the wrong side."""
    left, right, var_left, var_right, asked = values
    # The mass, in this cell, of the buckets that were asked about it: what they say, as far as it can be true.
    both = left + right
    base = np.maximum(np.minimum(np.maximum(both, held * (asked / points)), held), 1.0)
    # Least squares for the left half when the sum of both is `base`, and its variance.
    weight = var_left / (var_left + var_right)
    noise = weight * var_right
    surprise = left + (base - both) * weight - base * before
    trust = _trust(surprise, noise, base, group)
    share = (before + trust * surprise / base).clip(0.0, 1.0)
    return share, lambda: trust * noise * np.square(held / base)


def _neighbours(cells: Cells) -> Integers:
    """Which group of neighbours each cell belongs to; groups are numbered from 0."""
    near, group = cells >> NEAR, np.zeros(len(cells), dtype=np.int64)
    (near[1:] != near[:-1]).cumsum(out=group[1:])
    return group


def _trust(surprise: Floats, noise: Floats, base: Floats, group: Integers) -> Floats:
    """How much of a surprise to believe, by empirical Bayes: its variance is modelled as ``s·base + noise``.

    A surprise is by how much the left half differs from what was believed; twice that is the imbalance.

    ``s`` is fitted by weighted moments over the whole depth, then once more among neighbours.
    """
    doubt = noise / base
    excess = surprise * surprise / base - doubt
    s, total = 0.25, np.add.reduce
    for _ in range(2):
        weight = 1.0 / np.square(doubt + s)
        s = max(0.0, float(total(weight * excess) / total(weight)))
    weight = 1.0 / np.square(doubt + s)
    weights = np.bincount(group, weight)
    prior = PRIOR * weights / np.bincount(group)
    local = np.maximum((np.bincount(group, weight * excess) + prior * s) / (weights + prior), 0.0)[group]
    return local / (local + doubt)


@dataclass(frozen=True, eq=False)
class Forecast:
    """The density of some pools, to grow trees from: masses of the halves of split cells, by depth, then by place.

    ``below`` is that of a tree (`Tree.below`).
    """

    total: float
    masses: Floats
    below: Integers


def forecast(density: Density, pools: slice) -> Forecast:
    """What the next points are thought to be like, if they are like those of some pools."""
    mass = np.add.reduce(np.concatenate([mass[pools] for _, mass, _ in density.depths], axis=1))
    return Forecast(float(mass[0]), mass[1:].reshape(-1, 2), numbered([split for _, _, split in density.depths]))


def grow(known: Forecast, points: int, worth: float, base: float, deepest: int, partition: Partition) -> Tree:
    """The tree to measure next: split what is predicted to hold ``worth`` points, and a coarse grid in any case.

    The prediction is a forecast scaled to ``points``; below its leaves it is even. Cells are also split while
    ``points`` spread evenly would put ``base`` in them, so that no place is ever out of sight.
    """
    cells, mass = np.zeros(1, dtype=np.uint64), np.array([float(points)])
    believed = known.total > 0 and len(known.masses) > 0
    even, place, factor = mass, np.full(1, 0 if believed else -1), points / known.total if believed else 0.0
    splits: list[Flags] = []
    for depth in range(deepest + 1):
        split = (mass >= worth) | (even >= base)
        split &= depth < deepest
        splits.append(split)
        (at,) = split.nonzero()
        if not len(at):
            break
        share: float | Floats = 0.5
        if partition.plain:
            even = even * share  # the same everywhere
        else:
            lower = partition.shares(cells[at], depth)
            share = np.stack([lower, 1 - lower], axis=1).reshape(-1)
            cells, even = children(cells[at]), even[at].repeat(2) * share
        place = place[at]
        (there,) = (place >= 0).nonzero()
        scaled = known.masses.take(place[there], axis=0) * factor
        if len(there) < len(at):
            mass = mass[at].repeat(2) * share
            mass.reshape(-1, 2)[there] = scaled
        else:
            mass = scaled.reshape(-1)
        place = known.below.take(place, axis=0).reshape(-1)
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
