"""Points, random trees over them, and the slow way to count."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.publish.tree import Tree


def random_tree(rng: np.random.Generator, deepest: int, width: int = 20) -> Tree:
    """Some nodes of every depth are split, at most ``width`` of them."""
    splits, nodes = [], 1
    for depth in range(deepest + 1):
        split = (rng.random(nodes) < rng.choice([0.3, 0.7, 1.0])) & (depth < deepest)
        split[np.flatnonzero(split)[width:]] = False
        splits.append(split)
        nodes = 2 * int(split.sum())
        if not nodes:
            break
    return Tree(tuple(splits))


def leaves_one_by_one(cells: NDArray[Any], depth: int, tree: Tree) -> list[int]:
    """The oracle: every leaf asks every cell."""
    return [
        sum(int(cell) >> (depth - level) == int(leaf) for cell in cells)
        for level, (nodes, split) in enumerate(tree.nodes())
        for leaf in nodes[~split]
    ]


def crowd(n: int, d: int, seed: int = 0) -> NDArray[np.float64]:
    """Three of four points in a small corner, the others anywhere, two at the ends of the cube."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, d))
    x[np.arange(n) % 4 > 0] *= 0.05
    x[:1], x[1:2] = 0.0, 1.0
    return x
