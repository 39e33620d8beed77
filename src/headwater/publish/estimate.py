"""From the noisy counts of many buckets to one density.

Everything here reads published numbers only. Buckets of one speed are pooled. The mass of each pool in a cell is split
by a share that is estimated from the pool's own counts and drawn towards the share of the slower pool before it, as
far as noise demands (`publish.belief`).

Formal guarantees
-----------------
Post-processing: it costs no privacy, whatever it does. Children sum to their parents, no mass is negative, and every
pool keeps as much mass as it has points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.partition import DEEPEST, Cells, Partition
from headwater.publish.belief import Belief, believe, shares, spread_out, updated
from headwater.publish.pool import Pool
from headwater.publish.tree import LEAF, Floats, Integers, Tree, even_shares, union


@dataclass(frozen=True, eq=False)
class Pooled:
    """All that is published about the points after the first ``start``, and what to believe before hearing it.

    ``pools`` go from slow to fast. Only those that are ``counted`` hold mass; the others are believed in where nothing
    better is known: they are about earlier points, or about points that are counted elsewhere. The last ``uncovered``
    points are in no bucket yet.
    """

    pools: list[Pool]
    counted: list[bool]
    start: int
    uncovered: int


@dataclass(frozen=True, eq=False)
class Density:
    """Where the points are thought to be: for each node of a tree, every pool's mass in it.

    The last row of a mass is that of the points that no bucket covers. ``spread`` adds up, over all splits, how far
    noise may have moved mass times the size of the cell: a bound on the error of W1, times the number of points.
    """

    tree: Tree
    mass: Floats
    spread: float


def estimate(
    pools: Sequence[Pool], uncovered: int, partition: Partition, counted: Sequence[bool] | None = None
) -> Density:
    """The density that these pools, slowest first, and the points that none of them covers are thought to have.

    Errors of pools that are not ``counted`` do not matter.
    """
    tree = LEAF
    for pool in pools:
        tree, _, _ = union(tree, pool.tree)
    share, beliefs, mass = even_shares(tree, partition), list[Belief](), list[Floats]()
    variance, nodes = np.zeros(len(share)), tree.split_nodes()
    for pool, counts in zip(pools, counted or [True] * len(pools), strict=True):
        belief = believe(pool, shares(pool.tree, beliefs, partition), partition)
        beliefs.append(belief)
        places = tree.places_in(pool.tree)
        share = updated(share, belief, places)
        mass.append(spread_out(tree, pool.points, lambda here, _: share[here])[0])  # noqa: B023 - at once
        if counts and len(belief.variance):
            known = places >= 0
            variance += known * belief.variance.take(places) * np.square(mass[-1][nodes])
    mass.append(spread_out(tree, uncovered, lambda here, _: share[here])[0])
    spread = 0.0
    for depth, (here, _) in enumerate(tree.layers()):
        spread += partition.diameter(depth) * float(np.sqrt(variance[here]).sum())
    return Density(tree, np.array(mass), spread)


def leaves(density: Density, rows: slice | list[int]) -> tuple[Cells, Integers, Floats]:
    """The leaves of a density in order of place: cells, depths, masses; the sum of some rows."""
    tree = density.tree
    leaf = ~np.concatenate(tree.splits)
    cells = np.concatenate([nodes for nodes, _ in tree.nodes()])[leaf]
    depths, mass = tree.levels(), density.mass[rows][:, leaf].sum(axis=0)
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
