"""Points, random trees over them and pools of noisy counts, and the slow way to count."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from headwater.public.cascade.counts import NoisyCounts, Pool
from headwater.public.cascade.tree import Tree, children, possible
from headwater.public.partition import Axis, Partition

Cell = tuple[int, int]  # depth, name

axes = st.builds(
    Axis,
    values=st.none() | st.integers(1, 12),
    missing=st.booleans(),
    weight=st.sampled_from([1.0, 1.0, 2.0]),
)
gapped = st.lists(axes, min_size=1, max_size=3).map(Partition)
"""Partitions of axes of which some have few values, or a place for missing ones."""
partitions = st.integers(1, 4).map(Partition) | gapped
"""All kinds of partitions."""

KINDS = ["ordinary", "one cell", "empty", "drowned", "exact"]
"""Of pools: see `random_pool`."""


def random_tree(rng: np.random.Generator, deepest: int, width: int = 20, partition: Partition | None = None) -> Tree:
    """Some nodes of every depth are split, at most ``width`` of them, and none that cannot hold anything."""
    splits, cells = [], np.zeros(1, dtype=np.uint64)
    if partition is not None:
        deepest = min(deepest, partition.deepest)
    for depth in range(deepest + 1):
        split = (rng.random(len(cells)) < rng.choice([0.3, 0.7, 1.0])) & (depth < deepest)
        if partition is not None:
            split &= partition.possible(cells, depth)
        split[np.flatnonzero(split)[width:]] = False
        splits.append(split)
        cells = children(cells[split])
        if not len(cells):
            break
    return Tree(tuple(splits))


def full_tree(depth: int) -> Tree:
    """All cells are split, down to this depth."""
    return Tree(tuple(np.full(1 << j, j < depth) for j in range(depth + 1)))


def leaf_cells(tree: Tree) -> list[Cell]:
    """Depth and name of every leaf."""
    return [(depth, int(leaf)) for depth, (nodes, split) in enumerate(tree.nodes()) for leaf in nodes[~split]]


def split_cells(tree: Tree) -> list[Cell]:
    """Depth and name of every split cell."""
    return [(depth, int(node)) for depth, (nodes, split) in enumerate(tree.nodes()) for node in nodes[split]]


def random_pool(rng: np.random.Generator, kind: str, partition: Partition, deepest: int = 8) -> Pool:
    """A few buckets: of an ordinary stream, all in one cell, empty, drowned in noise, or without any noise."""
    pool = Pool()
    for _ in range(int(rng.integers(1, 4))):
        tree = random_tree(rng, int(rng.integers(0, deepest + 1)), partition=partition)
        points = 0 if kind == "empty" else int(rng.integers(1, 5000))
        open_ = possible(tree, partition)
        shares = rng.dirichlet(np.full(tree.size, 0.3)) * open_ if kind != "one cell" else np.eye(tree.size)[0]
        if not shares.sum() > 0 or not open_[shares > 0].all():
            shares = open_ * 1.0
        scale = {"drowned": 1e12, "exact": 0.0}.get(kind, 10.0)
        noise = np.rint(rng.laplace(0, scale, tree.size)) if scale else np.zeros(tree.size)
        counts = rng.multinomial(points, shares / shares.sum()) + np.where(open_, noise, 0.0).astype(np.int64)
        pool = pool.plus(Pool.of(NoisyCounts(0, points, tree, counts, max(2 * scale**2, 1e-12)), partition))
    return pool


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
