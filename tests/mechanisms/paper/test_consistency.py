"""Algorithm 4: whole, non-negative, adding up, and both children moved the same way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.public.cells import CellCounts
from headwater.public.paper import STRATEGIES, Layer, halving
from headwater.public.partition import Partition

counts = st.integers(0, 2**40)
families = st.lists(st.tuples(counts, counts, counts, st.integers(0, 1)), min_size=1, max_size=20)
every_strategy = pytest.mark.parametrize("name", STRATEGIES)


@every_strategy
@given(family=families)
def test_children_are_whole_non_negative_and_sum_to_their_parent(name: str, family: list[tuple[int, ...]]) -> None:
    parent, left, right, odd = np.array(family, dtype=np.int64).T
    first = STRATEGIES[name](parent, left, right, odd)
    assert first.dtype == np.int64
    assert (first >= 0).all()
    assert (parent - first >= 0).all()


@every_strategy
@given(family=families)
def test_both_children_move_the_same_way(name: str, family: list[tuple[int, ...]]) -> None:
    parent, left, right, odd = np.array(family, dtype=np.int64).T
    first = STRATEGIES[name](parent, left, right, odd)
    move_left, move_right = first - left, parent - first - right
    assert (np.sign(move_left) * np.sign(move_right) >= 0).all()


@given(family=families)
def test_halving_moves_both_alike_where_it_can(family: list[tuple[int, ...]]) -> None:
    """The two moves differ by at most one unit unless a child has been emptied."""
    parent, left, right, odd = np.array(family, dtype=np.int64).T
    first = halving(parent, left, right, odd)
    second = parent - first
    uneven = np.abs((first - left) - (second - right)) > 1
    assert ((first == 0) | (second == 0))[uneven].all()


@every_strategy
def test_counts_that_already_add_up_are_kept(name: str) -> None:
    left, right = np.array([0, 3, 100]), np.array([0, 4, 0])
    for odd in (0, 1):
        kept = STRATEGIES[name](left + right, left, right, np.full(3, odd))
        assert kept.tolist() == left.tolist()


@every_strategy
@given(
    t=st.integers(0, 500),
    depth=st.integers(0, 6),
    seed=st.integers(0, 2**32),
    spread=st.sampled_from([0.0, 1.0, 50.0]),
)
def test_a_whole_tree_ends_with_exactly_t_points(name: str, t: int, depth: int, seed: int, spread: float) -> None:
    """Whatever the noisy counts, negative ones among them, each layer holds ``t`` points and nests in the one above."""
    rng = np.random.default_rng(seed)
    layer = Layer.root(t)
    for j in range(1, depth + 1):
        cells = layer.children()
        noisy = np.rint(rng.normal(t / 2**j, spread, len(cells))).astype(np.int64)
        below = layer.refine(CellCounts(j, cells, noisy), STRATEGIES[name], rng, Partition(2))
        assert below.counts.sum() == t
        assert (below.counts > 0).all()
        for cell, count in zip(layer.cells, layer.counts, strict=True):
            assert below.counts[below.cells >> np.uint64(1) == cell].sum() == count
        layer = below


def test_the_odd_unit_goes_either_way() -> None:
    """An odd gap shared by halves favours neither child: the coin decides."""
    five, two = np.array([5, 5]), np.array([2, 2])
    assert halving(five, two, two, np.array([0, 1])).tolist() == [2, 3]
    assert halving(np.array([3, 3]), two, two, np.array([0, 1])).tolist() == [2, 1]
