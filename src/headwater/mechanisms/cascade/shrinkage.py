"""Empirical-Bayes shrinkage of each split's left fraction towards a prior.

A pool of buckets has noisy counts ``L`` and ``R`` of both halves of every split cell, with noise variances ``v`` and
``w``. For a cell that holds mass ``m``, the left fraction that fits both counts best under ``left + right = m`` is

    ``f = weight + residual / m``  with  ``weight = v / (v + w)``  and  ``residual = L − weight·(L + R)``;

the noise in ``m·f`` has the variance ``noise = weight·w``, whatever ``m`` is. The estimate is
``prior + k·(f − prior)``, where ``k = s / (s + noise/m)`` is the usual ratio of signal to signal plus noise, and
``s·m`` is the variance of ``m·(f − prior)`` that noise does not explain, fitted to the cells of a depth and of a group
of siblings.
All split cells are computed at once, whatever their depth: a tree has many depths, most of them small.

Formal guarantees
-----------------
Post-processing: published numbers come in, so it costs no privacy, whatever it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headwater.mechanisms.cascade.pool import Pool
from headwater.mechanisms.cascade.tree import Flags, Floats, Integers, Tree, sibling_groups, uniform_fractions
from headwater.partition import Partition

ALL = slice(None)
PRIOR_CELLS = 8.0  # against a group of siblings, the variance fitted to the whole depth counts as this many cells
SIGNIFICANCE = 2.0  # a depth's excess variance counts only beyond so many of its standard errors
MAX_SHIFT = 4.0  # no fraction is drawn away from least squares by more than this many deviations of the noise


@dataclass(frozen=True, eq=False)
class Fractions:
    """Estimated left fractions of the split cells of a tree.

    Parameters
    ----------
    left
        The fraction of each split cell's mass that is in its left half.
    variance
        Its posterior variance, ``k·noise / m²``; 0 where nothing was estimated.
    """

    tree: Tree
    left: Floats
    variance: Floats


def latest_fractions(tree: Tree, estimates: Sequence[Fractions], partition: Partition) -> Floats:
    """The left fractions at the split cells of any tree: those of the last estimate that has the cell, else uniform."""
    left = uniform_fractions(tree, partition)
    for estimate in estimates:
        left = overwritten(left, estimate, tree.index_in(estimate.tree))
    return left


def overwritten(left: Floats, estimate: Fractions, index: Integers) -> Floats:
    """Fractions ``left``, replaced by those of an estimate where it has the cell: at ``index``, unless that is −1."""
    return np.where(index >= 0, estimate.left.take(index), left) if len(estimate.left) else left


def shrink(pool: Pool, prior: Floats, partition: Partition, *, settle: bool = True) -> Fractions:
    """The left fraction ``prior + k·(f − prior)`` of each split cell of a pool, and its posterior variance.

    Parameters
    ----------
    pool
        Noisy counts of both halves of each split cell. If it has no points, the prior is returned as it is.
    prior
        A left fraction for each split cell.
    partition
        How the cube is cut.
    settle
        Whether to compute the fractions from the root down, each for the mass that the fractions above it leave. More
        exact, and what the proof is about (`proofs/cascade.md`), but slower. Otherwise masses are those of unshrunk
        least squares. Shrinkage weights come from those in both cases.
    """
    tree = pool.tree
    if not (pool.points and len(prior)):
        return Fractions(tree, prior, np.zeros(len(prior)))
    left, right, var_left, var_right, measured = pool.values
    both, weight = left + right, var_left / (var_left + var_right)
    residual, part, noise = left - both * weight, measured / pool.points, weight * var_right

    nodes = tree.split_nodes()

    def base_of(here: slice, held: Floats) -> Floats:
        """The mass ``m`` of each cell: the noisy sum L + R, clamped to [part · held, held], at least 1.

        ``held`` is what the fractions above leave in the cell; ``part`` of the pool's points are in buckets that
        measured it.
        """
        return np.maximum(np.minimum(np.maximum(both[here], held * part[here]), held), 1.0)

    def least_squares(here: slice, held: Floats) -> Floats:
        """The unshrunk fraction ``f``, clamped to [0, 1]."""
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
        """The shrunk fraction ``prior + k·(f − prior)``.

        It stays within `MAX_SHIFT` deviations of the noise from ``f``, since the model of the variance may be wrong.
        """
        base = base_of(here, held)
        deviation = residual[here] + base * (weight[here] - prior[here])
        dropped = np.minimum(np.maximum((1 - keep[here]) * deviation, -limit[here]), limit[here])
        fraction = (prior[here] + (deviation - dropped) / base).clip(0.0, 1.0)
        return np.where(estimable[here], fraction, prior[here])

    fraction = shrunk(ALL, held)
    if settle:
        mass, fraction = masses_and_fractions(tree, pool.points, shrunk)
        base = base_of(ALL, mass[nodes])
    return Fractions(tree, fraction, np.where(estimable, keep * noise / np.square(base), 0.0))


def masses_and_fractions(
    tree: Tree, points: int, fraction_of: Callable[[slice, Floats], Floats]
) -> tuple[Floats, Floats]:
    """From the root down: the mass of every node, and the left fraction of every split cell.

    The root has the mass ``points``. ``fraction_of`` gives left fractions, given which split cells and their masses.
    """
    mass, left = np.empty(2 * tree.size - 1), np.empty(tree.size - 1)
    mass[0] = points
    for here, nodes in tree.layers():
        held = mass.take(nodes)
        left[here] = fraction_of(here, held)
        lower = mass[2 * here.start + 1 : 2 * here.stop : 2] = held * left[here]
        mass[2 * here.start + 2 : 2 * here.stop + 1 : 2] = held - lower
    return mass, left


def _shrinkage_weights(deviation: Floats, noise: Floats, base: Floats, estimable: Flags, tree: Tree) -> Floats:
    """The shrinkage weight ``k = s / (s + noise/base)`` of each split cell: 0 gives the prior, 1 least squares.

    ``deviation`` is ``base·(f − prior)``, in points, and is modelled with mean 0 and variance ``s·base + noise``. So
    ``excess = deviation²/base − noise/base`` is an unbiased estimate of ``s`` from one cell, with a variance in
    proportion to ``(noise/base + s)²``. It is averaged with one over that as weight, first over the cells of a depth
    (two passes, since the weight depends on ``s``, which starts at 0.25), then over each group of siblings, where the
    depth's average counts as `PRIOR_CELLS` further cells.

    A few cells always look uneven, so both averages are thresholded: that of a depth is lowered by `SIGNIFICANCE`
    standard errors that noise alone would cause, and at least 0; a group's difference from its depth moves towards 0
    by one standard error.
    """
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
