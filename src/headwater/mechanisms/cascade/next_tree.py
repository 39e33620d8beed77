"""The tree to measure next, from the fractions estimated so far. Public, like everything it reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwater.mechanisms.cascade.shrinkage import Fractions, overwritten
from headwater.mechanisms.cascade.tree import Flags, Floats, Tree, children
from headwater.partition import Partition


def next_tree(
    estimates: Sequence[Fractions], points: int, thresholds: Sequence[float], base: float, partition: Partition
) -> Tree:
    """Split the cells that are predicted to hold enough of the next points.

    Parameters
    ----------
    estimates
        Left fractions; for each cell the last estimate that has it counts.
    points
        How many points will be measured.
    thresholds
        For each depth, the predicted count from which on a cell is split. Cells of further depths are not split.
    base
        Cells are also split while ``points`` spread uniformly would put so many in them: every region stays measured.
    partition
        How the cube is cut.
    """
    mass = np.array([float(points)])
    cells = np.zeros(1, dtype=np.uint64)  # not kept on plain axes, where a uniform spread is the same everywhere
    uniform, splits = mass, list[Flags]()
    index = [np.zeros(1, dtype=np.int64)] * len(estimates)
    for depth, threshold in enumerate(thresholds):
        split = (mass >= threshold) | (uniform >= base)
        splits.append(split)
        (at,) = split.nonzero()
        if not len(at):
            break
        mass = mass[at]
        if partition.plain:
            left, uniform = np.full(len(at), 0.5), uniform * 0.5
        else:
            cells = cells[at]
            left = partition.shares(cells, depth)
            cells, uniform = children(cells), _halves(uniform[at], left)
        for i, estimate in enumerate(estimates):
            if depth + 1 >= len(estimate.tree.splits):
                continue  # it has no cells so deep down
            here = index[i][at]
            left = overwritten(left, estimate, here)
            index[i] = estimate.tree.below().take(here, axis=0).reshape(-1)
        mass = _halves(mass, left)
    else:
        splits.append(np.zeros(len(mass), dtype=bool))
    return Tree(tuple(splits))


def _halves(mass: Floats, left: Floats) -> Floats:
    both = np.empty((len(mass), 2))
    np.multiply(mass, left, out=both[:, 0])
    np.subtract(mass, both[:, 0], out=both[:, 1])
    return both.reshape(-1)
