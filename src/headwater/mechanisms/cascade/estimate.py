"""The estimated density: the mass of every cell, from the noisy counts of many buckets.

Buckets of one timescale are pooled. The mass of each pool in a cell is split by a left fraction that is estimated from
the pool's own counts and shrunk towards the fraction of the slower pool before it (`cascade.shrinkage`).

Formal guarantees
-----------------
Post-processing: it costs no privacy, whatever it does. Children sum to their parents, no mass is negative, and every
pool keeps as much mass as it has points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headwater.mechanisms.cascade.pool import Pool, without_nulls
from headwater.mechanisms.cascade.shrinkage import (
    Fractions,
    latest_fractions,
    masses_and_fractions,
    overwritten,
    shrink,
)
from headwater.mechanisms.cascade.tree import LEAF, Floats, Integers, Tree, uniform_fractions, union
from headwater.partition import DEEPEST, Cells, Partition


@dataclass(frozen=True, eq=False)
class Density:
    """Estimated mass: for each node of a tree, every pool's mass in it.

    Parameters
    ----------
    tree
        The union of all pools' trees.
    mass
        One row for each pool, and a last one for the points that no bucket covers.
    spread
        The sum over all splits of the standard deviation of the left mass times the diameter of the cell: up to a
        factor, a bound on the W1 that noise causes, times the number of points.
    """

    tree: Tree
    mass: Floats
    spread: float


def estimate(
    pools: Sequence[Pool], uncovered: int, partition: Partition, counted: Sequence[bool] | None = None
) -> Density:
    """The mass of each pool, and of the points that no pool covers, in every node of the union of the pools' trees.

    A pool's points are divided from the root down by its own shrunk left fractions, and where its tree does not split a
    cell, by those of the last pool before it that does, else as a uniform spread.

    Parameters
    ----------
    pools
        Slowest first: each is the prior of the next.
    uncovered
        How many points are in no closed bucket; they are divided by the last fractions of each cell.
    partition
        How the cube is cut.
    counted
        Which pools add to ``spread``; all of them unless given. The others serve as priors only: nothing is drawn
        from their rows of ``mass``.
    """
    tree, pools = LEAF, [without_nulls(pool) for pool in pools]
    for pool in pools:
        tree, _, _ = union(tree, pool.tree)
    left, estimates, mass = uniform_fractions(tree, partition), list[Fractions](), list[Floats]()
    variance, nodes = np.zeros(len(left)), tree.split_nodes()
    for pool, counts in zip(pools, counted or [True] * len(pools), strict=True):
        shrunk = shrink(pool, latest_fractions(pool.tree, estimates, partition), partition)
        estimates.append(shrunk)
        index = tree.index_in(pool.tree)
        left = overwritten(left, shrunk, index)
        mass.append(masses_and_fractions(tree, pool.points, lambda here, _: left[here])[0])  # noqa: B023 - at once
        if counts and len(shrunk.variance):
            known = index >= 0
            variance += known * shrunk.variance.take(index) * np.square(mass[-1][nodes])
    mass.append(masses_and_fractions(tree, uncovered, lambda here, _: left[here])[0])
    spread = 0.0
    for depth, (here, _) in enumerate(tree.layers()):
        spread += partition.diameter(depth) * float(np.sqrt(variance[here]).sum())
    return Density(tree, np.array(mass), spread)


def leaf_masses(density: Density, rows: slice | list[int]) -> tuple[Cells, Integers, Floats]:
    """The leaves of a density from left to right: their cells, their depths, and their masses summed over some pools.

    ``rows`` are the rows of ``mass`` that these pools have.
    """
    tree = density.tree
    leaf = ~np.concatenate(tree.splits)
    cells = np.concatenate([nodes for nodes, _ in tree.nodes()])[leaf]
    depths, mass = tree.levels(), density.mass[rows][:, leaf].sum(axis=0)
    order = np.argsort(cells << (DEEPEST - depths).astype(np.uint64))
    return cells[order], depths[order], mass[order]
