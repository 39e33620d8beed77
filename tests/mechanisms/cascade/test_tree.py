"""Trees, summaries and their sums: against oracles made of dictionaries, one cell at a time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.public.cascade.counts import NoisyCounts, Pool, merged
from headwater.public.cascade.tree import LEAF, Tree, children, numbered, sibling_groups, uniform_fractions, union
from headwater.public.partition import Axis, Partition
from tests.support.trees import Cell, full_tree, gapped, leaf_cells, partitions, random_tree, split_cells

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


@given(seeds, st.integers(0, 20))
def test_leaves_cover_the_line_once(seed: int, deepest: int) -> None:
    """Their sizes add up to one, none lies in another, and there are as many as the tree says."""
    tree = random_tree(np.random.default_rng(seed), deepest)
    leaves = leaf_cells(tree)
    assert len(leaves) == tree.size
    edges = sorted((cell << (20 - depth), 1 << (20 - depth)) for depth, cell in leaves)
    assert [start for start, _ in edges] == [0, *np.cumsum([size for _, size in edges]).tolist()[:-1]]
    assert sum(size for _, size in edges) == 1 << 20


def test_nodes_of_every_depth_are_in_order() -> None:
    for seed in range(20):
        for nodes, split in random_tree(np.random.default_rng(seed), 12).nodes():
            assert len(nodes) == len(split)
            assert (np.diff(nodes.astype(np.int64)) > 0).all()


def test_children_are_the_two_halves() -> None:
    assert children(np.array([0, 3, 5], dtype=np.uint64)).tolist() == [0, 1, 6, 7, 10, 11]
    assert children(np.empty(0, dtype=np.uint64)).tolist() == []


@given(seeds, st.integers(0, 12))
def test_below_a_split_cell_are_the_places_of_its_halves(seed: int, deepest: int) -> None:
    tree = random_tree(np.random.default_rng(seed), deepest)
    split = [(depth, int(cell)) for depth, (nodes, flags) in enumerate(tree.nodes()) for cell in nodes[flags]]
    known = {name: place for place, name in enumerate(split)}
    expected = [[known.get((depth + 1, 2 * cell + half), -1) for half in (0, 1)] for depth, cell in split]
    assert tree.below().tolist() == [*expected, [-1, -1]]


def test_of_pairs_the_split_ones_are_numbered() -> None:
    splits = [np.array([True]), np.array([True, True]), np.array([True, False, False, True])]
    assert numbered(splits).tolist() == [[1, 2], [3, -1], [-1, 4], [-1, -1]]


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


@given(seeds, st.integers(0, 9))
@settings(max_examples=60)
def test_places_in_another_tree_are_found_cell_by_cell(seed: int, deepest: int) -> None:
    trees = some_trees(np.random.default_rng(seed), deepest)
    for one, other in itertools.product(trees, repeat=2):
        known = {cell: place for place, cell in enumerate(split_cells(other))}
        assert one.index_in(other).tolist() == [known.get(cell, -1) for cell in split_cells(one)]


@given(seeds, st.integers(0, 12))
def test_layers_say_which_nodes_the_split_cells_of_a_depth_are(seed: int, deepest: int) -> None:
    tree = random_tree(np.random.default_rng(seed), deepest)
    numbers = {cell: number for number, cell in enumerate(all_nodes(tree))}
    cells, found = split_cells(tree), list[int]()
    for depth, (here, nodes) in enumerate(tree.layers()):
        own = [cell for cell in cells if cell[0] == depth]
        assert cells[here] == own != []
        assert nodes.tolist() == [numbers[cell] for cell in own]
        found += range(here.start, here.stop)
    assert found == list(range(len(cells)))
    for number, (depth, cell) in enumerate(cells):
        assert [numbers[depth + 1, 2 * cell + half] for half in (0, 1)] == [2 * number + 1, 2 * number + 2]


def all_nodes(tree: Tree) -> list[Cell]:
    """By depth, then by place; found from the leaves, every one of which names what is above it."""
    return sorted({(depth - up, cell >> up) for depth, cell in leaf_cells(tree) for up in range(depth + 1)})


@given(seeds, st.integers(0, 12))
def test_neighbours_agree_in_all_but_their_last_two_halvings(seed: int, deepest: int) -> None:
    tree = random_tree(np.random.default_rng(seed), deepest)
    names = [(depth, cell >> 2) for depth, cell in split_cells(tree)]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    assert sibling_groups(tree).tolist() == [numbers[name] for name in names]


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


def test_even_shares_of_five_values_and_a_missing_one() -> None:
    """Known by hand: 5 of 6 are not missing, 4 of those 5 are below 4, and the fifth is alone."""
    tree = Tree(tuple(np.array(split) for split in ([True], [True, True], [True, True, True, False], [False] * 6)))
    found = uniform_fractions(tree, Partition([Axis(values=5, missing=True)])).tolist()
    assert found == pytest.approx([5 / 6, 4 / 5, 1.0, 1 / 2, 1.0, 1.0])


@given(seeds, gapped, st.integers(0, 10))
@settings(max_examples=60)
def test_random_trees_split_only_what_can_hold_something(seed: int, partition: Partition, deepest: int) -> None:
    """Of the support of these tests: as no tree of a run splits anything else, no test should."""
    tree = random_tree(np.random.default_rng(seed), deepest, partition=partition)
    for depth, cell in split_cells(tree):
        assert partition.possible(np.array([cell], dtype=np.uint64), depth).all()


@given(seeds, st.integers(0, 20))
def test_sizes_and_levels_are_those_of_the_leaves(seed: int, deepest: int) -> None:
    tree = random_tree(np.random.default_rng(seed), deepest)
    leaves = leaf_cells(tree)
    assert tree.size == len(leaves)
    assert tree.levels().tolist() == [depth for depth, _ in leaves]
    starts, stops = tree.edges(20)
    assert starts.tolist() == [cell << (20 - depth) for depth, cell in leaves]
    assert stops.tolist() == [(cell + 1) << (20 - depth) for depth, cell in leaves]


@given(seeds)
@settings(max_examples=60)
def test_halves_are_sums_over_leaves(seed: int) -> None:
    summary = random_summary(np.random.default_rng(seed))
    pool = Pool()
    pool = pool.plus(Pool.of(summary, Partition(2)))
    assert pool.points == summary.points
    assert agree(as_dict(pool), oracle(summary))


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


def test_what_splits_nothing_adds_only_its_points() -> None:
    rng = np.random.default_rng(1)
    pool = Pool.of(random_summary(rng), Partition(2))
    bare = Pool.of(NoisyCounts(0, 7, LEAF, np.array([9]), 2.0), Partition(2))
    for total in (pool.plus(bare), bare.plus(pool)):
        assert total.points == pool.points + 7
        assert as_dict(total) == as_dict(pool)


def test_adding_changes_neither_side() -> None:
    rng = np.random.default_rng(3)
    sides = [np.array([True]), np.array([True, False]), np.zeros(2, dtype=bool)]
    trees = [Tree(tuple(sides)), Tree((sides[0], ~sides[1], sides[2]))]
    one, other = (Pool.of(random_summary(rng, tree=tree), Partition(2)) for tree in trees)
    before = as_dict(one), as_dict(other)
    one.plus(other)
    assert (as_dict(one), as_dict(other)) == before


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


def test_coarse_measurements_are_added_up_as_well() -> None:
    rng = np.random.default_rng(1)
    tree = random_tree(rng, 4)
    upper = pruned(tree, 1)
    summaries = []
    for start in (0, 10, 20):
        coarse = NoisyCounts(start, start + 10, upper, rng.integers(0, 9, upper.size), 2.0)
        summaries.append(NoisyCounts(start, start + 10, tree, rng.integers(0, 9, tree.size), 3.0, (coarse,)))
    (total,) = merged(summaries)
    assert total.points == 30
    assert (total.variance, total.coarse[0].variance) == (9.0, 6.0)
    assert total.coarse[0].counts.tolist() == sum(s.coarse[0].counts for s in summaries).tolist()  # type: ignore[union-attr]
    assert total.counts.tolist() == sum(s.counts for s in summaries).tolist()  # type: ignore[union-attr]


def test_a_summary_cannot_be_changed() -> None:
    summary = random_summary(np.random.default_rng(0))
    with pytest.raises(ValueError, match="read-only"):
        summary.counts[0] = 1
