"""What cascade counts: leaves one by one, and cells of the right integer types."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headwater.public.cascade.tree import Tree, children
from headwater.public.partition import Partition
from headwater.secret.cascade import CascadeMechanism
from headwater.secret.leaves import count_leaves, sum_leaves
from headwater.secret.mechanism import word
from headwater.secret.noise import Noise
from tests.support.runs import cube, feed
from tests.support.trees import crowd, leaves_one_by_one, random_tree

# --- counting leaves -------------------------------------------------------------------------------------


@given(
    depth=st.sampled_from([1, 3, 8, 9, 20, 32, 33, 40, 59]),
    n=st.integers(0, 300),
    kind=st.sampled_from(["spread", "equal", "ends", "crowded"]),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=150)
def test_leaves_are_counted_as_one_by_one(depth: int, n: int, kind: str, seed: int) -> None:
    """Also for trees of several rounds of `count_leaves`, for no points, and for the first and the last cell."""
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, int(rng.integers(0, depth + 1)), 40)
    last = (1 << depth) - 1
    cells = rng.integers(0, last, n, dtype=np.uint64, endpoint=True)
    if kind == "equal":
        cells[:] = rng.integers(0, last, dtype=np.uint64, endpoint=True)
    elif kind == "ends":
        cells = rng.choice(np.array([0, last], dtype=np.uint64), n)
    elif kind == "crowded":
        deepest = [nodes for nodes, _ in tree.nodes()][-1]
        shift = np.uint64(depth - len(tree.splits) + 1)
        cells = (rng.choice(deepest, n) << shift) + (cells & ((np.uint64(1) << shift) - np.uint64(1)))
    stored = cells.astype(word(depth))
    counts = count_leaves(stored, depth, tree)
    assert counts.dtype == np.int64
    distinct, times = np.unique(stored, return_counts=True)
    whole = distinct, times.astype(np.uint32)
    assert sum_leaves([whole], depth, tree).tolist() == counts.tolist()
    halves = [(distinct[i::2], whole[1][i::2]) for i in range(2)]
    assert sum_leaves(halves, depth, tree).tolist() == counts.tolist()
    assert counts.tolist() == leaves_one_by_one(cells, depth, tree)
    assert counts.sum() == n


@pytest.mark.parametrize("atoms", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("depth", [32, 40])
def test_many_points_are_counted_as_few(atoms: float, depth: int) -> None:
    """Many chunks and several rounds: points along a line, and so many in one place that their leaf is far deeper."""
    rng = np.random.default_rng(4)
    cells = (rng.beta(0.1, 3.0, 200_000) * 2**depth).astype(np.uint64)
    cells[rng.random(len(cells)) < atoms] = (1 << depth) // 3
    splits, nodes = list[NDArray[np.bool_]](), np.zeros(1, dtype=np.uint64)
    for level in range(depth + 1):  # split whatever holds 10 points
        held = np.searchsorted(np.sort(cells), np.stack([nodes, nodes + np.uint64(1)]) << np.uint64(depth - level))
        splits.append((held[1] - held[0] >= 10) & (level < depth))
        nodes = children(nodes[splits[-1]])
    tree = Tree(tuple(splits[: 1 + max(i for i in range(depth) if splits[i].any()) + 1]))
    ordered = np.sort(cells).astype(np.int64)
    starts, stops = tree.edges(depth)
    expected = np.searchsorted(ordered, stops) - np.searchsorted(ordered, starts)
    counts = count_leaves(cells.astype(word(depth)), depth, tree)
    assert counts.tolist() == expected.tolist()
    assert counts.sum() == len(cells)


@pytest.mark.parametrize("epsilon", [0.5, 30.0])
def test_on_a_line_coarse_trees_are_parts_of_the_finest(epsilon: float) -> None:
    """What `blend` relies on."""
    mechanism = CascadeMechanism(cube(Partition(1)), epsilon, Noise(seed=1))
    mechanism = feed(mechanism, crowd(20_000, 1))
    resolutions = 0
    for summary in (*mechanism.history.slow, *mechanism.history.recent):
        fine = [set(nodes[split].tolist()) for nodes, split in summary.tree.nodes()]
        for part in summary.coarse:
            resolutions += 1
            for (nodes, split), known in zip(part.tree.nodes(), fine, strict=False):
                assert set(nodes[split].tolist()) <= known
    assert resolutions > 5
