"""The next tree: against an oracle that walks down by itself, and looks up every estimate at every cell."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.public.cascade.estimate import Fractions, latest_fractions, shrink
from headwater.public.cascade.history import next_tree
from headwater.public.partition import Partition
from tests.support.trees import Cell, partitions, random_pool, random_tree, split_cells

seeds = st.integers(0, 10**6)


def random_estimates(rng: np.random.Generator, partition: Partition) -> list[Fractions]:
    """What pools made one shrink, one after the other, and then perhaps anything at all."""
    estimates = list[Fractions]()
    for _ in range(int(rng.integers(0, 4))):
        pool = random_pool(rng, "ordinary", partition)
        estimates.append(shrink(pool, latest_fractions(pool.tree, estimates, partition), partition))
    if rng.random() < 0.5:
        tree = random_tree(rng, 6, partition=partition)
        share = rng.choice([0.0, 0.01, 0.3, 0.5, 0.99, 1.0], tree.size - 1)
        estimates.insert(int(rng.integers(0, len(estimates) + 1)), Fractions(tree, share, np.zeros(tree.size - 1)))
    return estimates


def even_share(partition: Partition, depth: int, cell: int) -> float:
    return float(partition.shares(np.array([cell], dtype=np.uint64), depth)[0])


def oracle(
    estimates: list[Fractions], points: int, thresholds: list[float], base: float, partition: Partition
) -> dict[Cell, bool]:
    """Every node, and whether it is split."""
    known: dict[Cell, float] = {}
    for estimate in estimates:
        known |= dict(zip(split_cells(estimate.tree), estimate.left.tolist(), strict=True))
    nodes: dict[Cell, bool] = {}

    def visit(depth: int, cell: int, mass: float, even: float) -> None:
        nodes[depth, cell] = depth < len(thresholds) and (mass >= thresholds[depth] or even >= base)
        if nodes[depth, cell]:
            alike = even_share(partition, depth, cell)
            lower, even_lower = mass * known.get((depth, cell), alike), even * alike
            visit(depth + 1, 2 * cell, lower, even_lower)
            visit(depth + 1, 2 * cell + 1, mass - lower, even - even_lower)

    visit(0, 0, float(points), float(points))
    return nodes


@given(seeds, partitions, st.lists(st.floats(0.5, 500), max_size=12), st.sampled_from([50.0, 200.0, 1e9]))
@settings(max_examples=120)
def test_the_next_tree_splits_what_reaches_its_threshold_and_nothing_else(
    seed: int, partition: Partition, thresholds: list[float], base: float
) -> None:
    """The oracle walks down by itself; lower thresholds give a tree that contains the other."""
    estimates = random_estimates(np.random.default_rng(seed), partition)
    thresholds = thresholds[: partition.deepest]
    tree = next_tree(estimates, 1000, thresholds, base, partition)
    expected = oracle(estimates, 1000, thresholds, base, partition)
    found = {
        (depth, int(cell)): bool(is_split)
        for depth, (cells, split) in enumerate(tree.nodes())
        for cell, is_split in zip(cells, split, strict=True)
    }
    assert found == expected
    assert not tree.splits[-1].any()
    finer = next_tree(estimates, 1000, [threshold / 3 for threshold in thresholds], base / 3, partition)
    assert set(split_cells(tree)) <= set(split_cells(finer))
