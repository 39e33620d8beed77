"""The estimated density: the mass of every cell, from the noisy counts of many buckets.

Buckets of one timescale are pooled. The mass of each pool in a cell is split by a left fraction that is estimated from
the pool's own counts and shrunk towards the fraction of the slower pool before it (`cascade.shrinkage`).

Formal guarantees
-----------------
Post-processing: it costs no privacy, whatever it does. Children sum to their parents, no mass is negative, and every
pool keeps as much mass as it has points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headwater.public.cascade.counts import Pool, without_nulls
from headwater.public.cascade.tree import LEAF, Tree, sibling_groups, uniform_fractions, union
from headwater.public.partition import DEEPEST, Cells, Flags, Floats, Integers, Partition

ALL = slice(None)
OPEN = 0.35  # what noise leaves open of a cell that is shrunk to its prior, as a part of its variance
PRIOR_CELLS = 8.0  # against a group of siblings, the variance fitted to the whole depth counts as this many cells
SIGNIFICANCE = 2.0  # a depth's excess variance counts only beyond so many of its standard errors
MAX_SHIFT = 4.0  # no fraction is drawn away from least squares by more than this many deviations of the noise


@dataclass(frozen=True, eq=False)
class Fractions:
    """Estimated left fractions of the split cells of a tree."""

    tree: Tree
    left: Floats
    variance: Floats


def latest_fractions(tree: Tree, estimates: Sequence[Fractions], partition: Partition) -> Floats:
    left = uniform_fractions(tree, partition)
    for estimate in estimates:
        left = overwritten(left, estimate, tree.index_in(estimate.tree))
    return left


def overwritten(left: Floats, estimate: Fractions, index: Integers) -> Floats:
    return np.where(index >= 0, estimate.left.take(index), left) if len(estimate.left) else left


def shrink(pool: Pool, prior: Floats, partition: Partition, *, settle: bool = True) -> Fractions:
    """The left fraction ``prior + k·(f − prior)`` of each split cell of a pool, and its posterior variance."""
    tree = pool.tree
    if not (pool.points and len(prior)):
        return Fractions(tree, prior, np.zeros(len(prior)))
    left, right, var_left, var_right, measured = pool.values
    both, weight = left + right, var_left / (var_left + var_right)
    residual, part, noise = left - both * weight, measured / pool.points, weight * var_right

    nodes = tree.split_nodes()

    def base_of(here: slice, held: Floats) -> Floats:
        return np.maximum(np.minimum(np.maximum(both[here], held * part[here]), held), 1.0)

    def least_squares(here: slice, held: Floats) -> Floats:
        return np.minimum(np.maximum(residual[here] / base_of(here, held) + weight[here], 0.0), 1.0)  # np.clip is slow

    held = masses_and_fractions(tree, pool.points, least_squares)[0][nodes]
    base = base_of(ALL, held)
    estimable = held > min(1e-9 * pool.points, 1.0)  # less is rounding, not points
    if not partition.plain:  # where a half can hold nothing, there is nothing to estimate
        uniform = uniform_fractions(tree, partition)
        estimable &= (uniform > 0) & (uniform < 1)
    keep = _shrinkage_weights(residual + base * (weight - prior), noise, base, estimable, tree)
    limit = MAX_SHIFT * np.sqrt(noise)

    def shrunk(here: slice, held: Floats) -> Floats:
        base = base_of(here, held)
        deviation = residual[here] + base * (weight[here] - prior[here])
        dropped = np.minimum(np.maximum((1 - keep[here]) * deviation, -limit[here]), limit[here])
        fraction = (prior[here] + (deviation - dropped) / base).clip(0.0, 1.0)
        return np.where(estimable[here], fraction, prior[here])

    fraction = shrunk(ALL, held)
    if settle:
        mass, fraction = masses_and_fractions(tree, pool.points, shrunk)
        base = base_of(ALL, mass[nodes])
    return Fractions(tree, fraction, np.where(estimable, np.maximum(keep, OPEN) * noise / np.square(base), 0.0))


def masses_and_fractions(
    tree: Tree, points: int, fraction_of: Callable[[slice, Floats], Floats]
) -> tuple[Floats, Floats]:
    """From the root down: the mass of every node, and the left fraction of every split cell."""
    mass, left = np.empty(2 * tree.size - 1), np.empty(tree.size - 1)
    mass[0] = points
    for here, nodes in tree.layers():
        held = mass.take(nodes)
        left[here] = fraction_of(here, held)
        lower = mass[2 * here.start + 1 : 2 * here.stop : 2] = held * left[here]
        mass[2 * here.start + 2 : 2 * here.stop + 1 : 2] = held - lower
    return mass, left


def _shrinkage_weights(deviation: Floats, noise: Floats, base: Floats, estimable: Flags, tree: Tree) -> Floats:
    """The shrinkage weight ``k = s / (s + noise/base)`` of each split cell: 0 gives the prior, 1 least squares."""
    relative = noise / base
    excess = np.square(deviation) / base - relative
    layers = [here for here, _ in tree.layers()]
    starts, sizes = np.array([here.start for here in layers]), np.array([here.stop - here.start for here in layers])
    s: float | Floats = 0.25
    for _ in range(2):
        weight = estimable / np.square(relative + s)
        weights = np.maximum(np.add.reduceat(weight, starts), 1e-300)
        # The square of a normal variable of variance v has the variance 2v².
        error = np.sqrt(2 * np.add.reduceat(np.square(weight * relative), starts))
        s = np.maximum((np.add.reduceat(weight * excess, starts) - SIGNIFICANCE * error) / weights, 0.0).repeat(sizes)
    weight, group = estimable / np.square(relative + s), sibling_groups(tree)
    weights = np.maximum(np.bincount(group, weight), 1e-300)
    prior = PRIOR_CELLS * weights / np.maximum(np.bincount(group, estimable), 1)
    more = np.bincount(group, weight * (excess - s))
    error = np.sqrt(2 * np.bincount(group, np.square(weight * (relative + s))))
    more = np.copysign(np.maximum(np.abs(more) - error, 0.0), more)
    local: Floats = np.maximum(s + (more / (weights + prior))[group], 0.0)
    return local / (local + relative)


@dataclass(frozen=True, eq=False)
class Density:
    """Estimated mass: of each node of a tree, every pool's mass in it; of each split cell, the variance of its left."""

    tree: Tree
    mass: Floats
    variance: Floats
    spread: float


def estimate(
    pools: Sequence[Pool], uncovered: int, partition: Partition, counted: Sequence[bool] | None = None
) -> Density:
    """The mass of each pool, and of the points that no pool covers, in every node of the union of the pools' trees."""
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
    return Density(tree, np.array(mass), variance, spread)


def leaf_masses(density: Density, rows: slice | list[int]) -> tuple[Cells, Integers, Floats]:
    tree = density.tree
    leaf = ~np.concatenate(tree.splits)
    cells = np.concatenate([nodes for nodes, _ in tree.nodes()])[leaf]
    depths, mass = tree.levels(), density.mass[rows][:, leaf].sum(axis=0)
    order = np.argsort(cells << (DEEPEST - depths).astype(np.uint64))
    return cells[order], depths[order], mass[order]
