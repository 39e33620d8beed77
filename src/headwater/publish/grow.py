"""The tree to measure next, from what is believed so far. Public, like everything it reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwater.partition import Partition
from headwater.publish.belief import Belief, updated
from headwater.publish.tree import Flags, Floats, Tree, children


def grow(beliefs: Sequence[Belief], points: int, prices: Sequence[float], base: float, partition: Partition) -> Tree:
    """Split what is predicted to hold enough of the next ``points`` points: the price of its depth.

    Cells are also split while ``points`` spread evenly would put ``base`` in them, so that no place is ever out of
    sight. What has no price is not split.
    """
    mass = np.array([float(points)])
    cells = np.zeros(1, dtype=np.uint64)  # not kept on plain axes, where an even spread is the same everywhere
    even, splits = mass, list[Flags]()
    places = [np.zeros(1, dtype=np.int64)] * len(beliefs)
    for depth, price in enumerate(prices):
        split = (mass >= price) | (even >= base)
        splits.append(split)
        (at,) = split.nonzero()
        if not len(at):
            break
        mass = mass[at]
        if partition.plain:
            share, even = np.full(len(at), 0.5), even * 0.5
        else:
            cells = cells[at]
            share = partition.shares(cells, depth)
            cells, even = children(cells), _both(even[at], share)
        for i, belief in enumerate(beliefs):
            if depth + 1 >= len(belief.tree.splits):
                continue  # it knows nothing so deep down
            place = places[i][at]
            share = updated(share, belief, place)
            places[i] = belief.tree.below().take(place, axis=0).reshape(-1)
        mass = _both(mass, share)
    else:
        splits.append(np.zeros(len(mass), dtype=bool))
    return Tree(tuple(splits))


def _both(mass: Floats, share: Floats) -> Floats:
    both = np.empty((len(mass), 2))
    np.multiply(mass, share, out=both[:, 0])
    np.subtract(mass, both[:, 0], out=both[:, 1])
    return both.reshape(-1)
