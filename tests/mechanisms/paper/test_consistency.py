"""Algorithm 4: whole, non-negative, adding up, and both children moved the same way."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.public.cells import CellCounts
from headwater.public.paper import Layer, halving
from headwater.public.partition import Partition

counts = st.integers(0, 2**40)
families = st.lists(st.tuples(counts, counts, counts, st.integers(0, 1)), min_size=1, max_size=20)


@given(family=families)
def test_halves_are_whole_not_negative_sum_to_their_parent_and_move_alike(family: list[tuple[int, ...]]) -> None:
    """The two moves differ by at most one unit unless a child has been emptied; what adds up already is kept."""
    parent, left, right, odd = np.array(family, dtype=np.int64).T
    first = halving(parent, left, right, odd)
    second = parent - first
    assert first.dtype == np.int64
    assert (first >= 0).all()
    assert (second >= 0).all()
    assert (np.sign(first - left) * np.sign(second - right) >= 0).all()
    uneven = np.abs((first - left) - (second - right)) > 1
    assert ((first == 0) | (second == 0))[uneven].all()
    assert halving(left + right, left, right, odd).tolist() == left.tolist()


@given(
    t=st.integers(0, 500),
    depth=st.integers(0, 6),
    seed=st.integers(0, 2**32),
    spread=st.sampled_from([0.0, 1.0, 50.0]),
)
def test_a_whole_tree_ends_with_exactly_t_points(t: int, depth: int, seed: int, spread: float) -> None:
    """Whatever the noisy counts, negative ones among them, each layer holds ``t`` points and nests in the one above."""
    rng = np.random.default_rng(seed)
    layer = Layer.root(t)
    for j in range(1, depth + 1):
        cells = layer.children()
        noisy = np.rint(rng.normal(t / 2**j, spread, len(cells))).astype(np.int64)
        below = layer.refine(CellCounts(j, cells, noisy), rng, Partition(2))
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
