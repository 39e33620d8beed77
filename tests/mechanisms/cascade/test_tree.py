"""Trees, summaries and their sums: against oracles made of dictionaries, one cell at a time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.public.cascade.counts import NoisyCounts, Pool, merged
from headwater.public.cascade.tree import LEAF, Tree, uniform_fractions, union
from headwater.public.partition import Partition
from tests.support.trees import Cell, full_tree, leaf_cells, partitions, random_tree, split_cells

Values = dict[Cell, list[float]]

seeds = st.integers(0, 10**6)


def pruned(tree: Tree, depths: int) -> Tree:
    """The upper part of a tree."""
    splits = list(tree.splits[: depths + 1])
    splits[-1] = np.zeros(len(splits[-1]), dtype=bool)
    return Tree(tuple(splits))


def random_summary(rng: np.random.Generator, deepest: int = 6, tree: Tree | None = None, start: int = 0) -> NoisyCounts:
    tree = random_tree(rng, deepest) if tree is None else tree
    points, variance = int(rng.integers(1, 1000)), float(rng.choice([1e-12, 0.5, 8.0, 1e6]))
    counts = rng.integers(-20, 60, tree.size)
    return NoisyCounts(start, start + points, tree, counts, variance)


def below(leaf: Cell, cell: Cell) -> bool:
    return leaf[0] >= cell[0] and leaf[1] >> (leaf[0] - cell[0]) == cell[1]


def oracle(summary: NoisyCounts) -> Values:
    """For every split cell: sums over the leaves in its left and in its right half."""
    leaves = list(zip(leaf_cells(summary.tree), summary.counts.tolist(), strict=True))
    values: Values = {}
    for depth, cell in split_cells(summary.tree):
        sides = [[count for leaf, count in leaves if below(leaf, (depth + 1, 2 * cell + side))] for side in (0, 1)]
        sums, variances = [float(sum(side)) for side in sides], [len(side) * summary.variance for side in sides]
        values[depth, cell] = [*sums, *variances, float(summary.points)]
    for part in summary.coarse:
        for name, (left, right, var_left, var_right, _) in oracle(part).items():
            mine = values[name]
            for side, (value, variance) in enumerate(((left, var_left), (right, var_right))):
                precision = 1 / mine[2 + side] + 1 / variance
                mine[side] = (mine[side] / mine[2 + side] + value / variance) / precision
                mine[2 + side] = 1 / precision
    return values


def added(*values: Values) -> Values:
    total: Values = {}
    for more in values:
        for name, row in more.items():
            total[name] = [a + b for a, b in zip(total.get(name, [0.0] * 5), row, strict=True)]
    return total


def as_dict(pool: Pool) -> Values:
    names = split_cells(pool.tree)
    return dict(zip(names, np.transpose(pool.values).tolist(), strict=True)) if names else {}


def agree(one: Values, other: Values) -> bool:
    return one.keys() == other.keys() and all(np.allclose(one[name], other[name], rtol=1e-9) for name in one)


def some_trees(rng: np.random.Generator, deepest: int) -> list[Tree]:
    """Two that have little to do with each other, the upper part of one, all and nothing."""
    one, other = (random_tree(rng, int(rng.integers(0, deepest + 1))) for _ in range(2))
    return [one, other, pruned(one, min(2, len(one.splits) - 1)), full_tree(min(deepest, 4)), LEAF]


@given(seeds, st.integers(0, 9))
@settings(max_examples=60)
def test_a_union_splits_exactly_what_either_splits_and_knows_where_it_came_from(seed: int, deepest: int) -> None:
    trees = some_trees(np.random.default_rng(seed), deepest)
    for one, other in itertools.product(trees, repeat=2):
        tree, at, also_at = union(one, other)
        cells = split_cells(tree)
        assert set(cells) == set(split_cells(one)) | set(split_cells(other))
        assert len(cells) == len(set(cells)) == tree.size - 1
        assert [cells[place] for place in at] == split_cells(one)
        assert [cells[place] for place in also_at] == split_cells(other)
        for above, here in itertools.pairwise(tree.splits):
            assert len(here) == 2 * above.sum() > 0
        assert not tree.splits[-1].any()


def lower_part(partition: Partition, depth: int, cell: int) -> float:
    """Of what the cell holds along the axis that is cut, the part in the lower half, by trying all its values."""
    number = partition.order[depth]
    axis = partition.axes[number]
    halves = partition.boxes(np.array([2 * cell, 2 * cell + 1], dtype=np.uint64), depth + 1)
    (low, middle), (_, high) = (corner[:, number].tolist() for corner in halves)
    if axis.values is None:
        # Of a continuum half, but all of the point ½ that stands for missing values, if only that is left.
        return 1.0 if axis.missing and low >= 0.5 else 0.5
    places = [value * axis.unit for value in range(axis.values)] + [0.5] * axis.missing
    inside = [place for place in places if low <= place < high]
    return len([place for place in inside if place < middle]) / len(inside)


@given(seeds, partitions, st.integers(0, 10))
@settings(max_examples=100)
def test_even_shares_are_counted_value_by_value(seed: int, partition: Partition, deepest: int) -> None:
    tree = random_tree(np.random.default_rng(seed), deepest, partition=partition)
    expected = [lower_part(partition, depth, cell) for depth, cell in split_cells(tree)]
    assert uniform_fractions(tree, partition).tolist() == expected


@given(seeds)
@settings(max_examples=60)
def test_coarse_measurements_are_weighted_by_their_precision(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, 6)
    fine = random_summary(rng, tree=tree)
    coarse = []
    for depths in (3, 1, 0):
        part = pruned(tree, depths)
        coarse.append(NoisyCounts(fine.start, fine.end, part, rng.integers(-20, 60, part.size), 2.0))
    summary = NoisyCounts(fine.start, fine.end, tree, fine.counts.copy(), 3.0, tuple(coarse))
    pool = Pool()
    pool = pool.plus(Pool.of(summary, Partition(2)))
    assert agree(as_dict(pool), oracle(summary))


@given(seeds, st.integers(2, 6))
@settings(max_examples=60)
def test_a_pool_is_the_sum_of_its_summaries(seed: int, n: int) -> None:
    """Over all cells that any of them knows, in any order; the tree is the union of theirs."""
    rng = np.random.default_rng(seed)
    summaries = [random_summary(rng, int(rng.integers(0, 7))) for _ in range(n)]
    forth, back = Pool(), Pool()
    for one, other in zip(summaries, summaries[::-1], strict=True):
        forth = forth.plus(Pool.of(one, Partition(2)))
        back = back.plus(Pool.of(other, Partition(2)))
    expected = added(*(oracle(summary) for summary in summaries))
    assert forth.points == back.points == sum(summary.points for summary in summaries)
    assert agree(as_dict(forth), expected)
    assert agree(as_dict(back), expected)
    for pool in (forth, back):
        assert [len(row) for row in pool.values] == [pool.tree.size - 1] * len(pool.values)
        assert not pool.tree.splits[-1].any()


@given(seeds, st.lists(st.integers(0, 2), max_size=8))
@settings(max_examples=60)
def test_neighbours_over_one_tree_are_added_up_and_others_are_not(seed: int, which: list[int]) -> None:
    rng = np.random.default_rng(seed)
    trees = [random_tree(rng, 5) for _ in range(2)]
    trees.append(Tree(trees[0].splits))  # another object, and the same tree: as when a state was loaded
    summaries: list[NoisyCounts] = []
    for i in which:
        summaries.append(random_summary(rng, tree=trees[i], start=summaries[-1].end if summaries else 0))
    sums = merged(summaries)
    keys = [trees[i].key for i in which]
    runs = [i for k, i in enumerate(which) if k == 0 or keys[k - 1] != keys[k]]
    assert [s.tree.key for s in sums] == [trees[i].key for i in runs]
    whole, parts = Pool(), Pool()
    for s in sums:
        whole = whole.plus(Pool.of(s, Partition(2)))
    for s in summaries:
        parts = parts.plus(Pool.of(s, Partition(2)))
    assert whole.points == parts.points
    if len(sums) == len(runs) == 1:
        assert sums[0].variance == pytest.approx(sum(s.variance for s in summaries))
        assert (sums[0].start, sums[0].end) == (summaries[0].start, summaries[-1].end)
    one, other = as_dict(whole), as_dict(parts)
    assert one.keys() == other.keys()
    assert all(np.allclose(one[name], other[name]) for name in one)
