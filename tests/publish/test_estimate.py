"""From noisy counts to a density: it adds up, never breaks, and is exact where there is no noise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headwater.partition import DEEPEST, Partition
from headwater.publish.estimate import Density, Pool, estimate, forecast, grow, leaves, round_in_order
from headwater.publish.tree import Summary, Tree, children
from tests.support.trees import random_tree

seeds = st.integers(0, 10**6)
ALL = slice(None)


def full_tree(depth: int) -> Tree:
    return Tree(tuple(np.full(1 << j, j < depth) for j in range(depth + 1)))


def random_pool(rng: np.random.Generator, kind: str) -> Pool:
    """A few buckets: of an ordinary stream, all in one cell, empty, drowned in noise, or without any noise."""
    pool = Pool()
    for _ in range(int(rng.integers(1, 4))):
        tree = random_tree(rng, int(rng.integers(0, 9)))
        points = 0 if kind == "empty" else int(rng.integers(1, 5000))
        shares = rng.dirichlet(np.full(tree.size, 0.3)) if kind != "one cell" else np.eye(tree.size)[0]
        scale = {"drowned": 1e12, "exact": 0.0}.get(kind, 10.0)
        noise = np.rint(rng.laplace(0, scale, tree.size)) if scale else np.zeros(tree.size)
        counts = (rng.multinomial(points, shares) + noise).astype(np.int64)
        pool = pool.plus(Pool.of(Summary(0, points, tree, counts, max(2 * scale**2, 1e-12)), Partition(2)))
    return pool


KINDS = ["ordinary", "one cell", "empty", "drowned", "exact"]


def check(density: Density, pools: list[Pool], uncovered: int) -> None:
    """Children sum to their parents, pool by pool; masses are numbers and not negative; the root holds everything."""
    roots = [*(float(pool.points) for pool in pools), float(uncovered)]
    assert density.depths[0][1][:, 0].tolist() == roots
    assert math.isfinite(density.spread)
    assert density.spread >= 0
    for _, mass, _ in density.depths:
        assert np.isfinite(mass).all()
        assert (mass >= 0).all()
    for (cells, mass, split), (below, held, _) in itertools.pairwise(density.depths):
        assert below.tolist() == children(cells[split]).tolist()
        assert np.allclose(held[:, ::2] + held[:, 1::2], mass[:, split], rtol=1e-12, atol=1e-9)
    assert not density.depths[-1][2].any()


@given(seeds, st.lists(st.sampled_from(KINDS), max_size=4), st.integers(0, 500), st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_densities_add_up_whatever_the_counts(seed: int, kinds: list[str], uncovered: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    pools = [random_pool(rng, kind) for kind in kinds]
    density = estimate(pools, uncovered, Partition(d))
    check(density, pools, uncovered)
    _, _, mass = leaves(density, ALL)
    assert mass.sum() == pytest.approx(sum(pool.points for pool in pools) + uncovered, abs=1e-6)
    for row, pool in enumerate(pools):
        assert leaves(density, slice(row, row + 1))[2].sum() == pytest.approx(pool.points, abs=1e-6)


@pytest.mark.parametrize("variance", [1e-12, 1.0, 2.0**101])
@pytest.mark.parametrize("count", [0, 1, -(2**61), 2**61])
def test_no_count_is_too_large_and_no_variance_too_small(variance: float, count: int) -> None:
    tree = full_tree(5)
    for points in (0, 1, 10**15):
        pool = Pool()
        pool = pool.plus(
            Pool.of(Summary(0, points, tree, np.where(np.arange(32) % 3 == 0, count, 7), variance), Partition(2))
        )
        pools = [Pool(), pool, pool]
        check(estimate(pools, 3, Partition(2)), pools, 3)


@given(seeds, st.integers(1, 3), st.integers(0, 6))
@settings(max_examples=60, deadline=None)
def test_without_noise_every_pool_is_recovered_exactly(seed: int, n: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    tree, pools, truth = full_tree(depth), [], []
    for _ in range(n):
        counts = rng.multinomial(1000, rng.dirichlet(np.full(tree.size, 0.2)))
        pool = Pool()
        pool = pool.plus(Pool.of(Summary(0, 1000, tree, counts, 1e-12), Partition(2)))
        pools.append(pool)
        truth.append(counts)
    density = estimate(pools, 0, Partition(2))
    for row, counts in enumerate(truth):
        cells, depths, mass = leaves(density, slice(row, row + 1))
        assert depths.tolist() == [depth] * tree.size
        assert cells.tolist() == list(range(tree.size))
        assert np.allclose(mass, counts, atol=1e-4)


def test_uncovered_points_follow_the_newest_pool() -> None:
    tree = full_tree(2)
    old, new = Pool(), Pool()
    old = old.plus(Pool.of(Summary(0, 400, tree, np.array([400, 0, 0, 0]), 1e-12), Partition(2)))
    new = new.plus(Pool.of(Summary(400, 800, tree, np.array([0, 0, 100, 300]), 1e-12), Partition(2)))
    density = estimate([old, new], 40, Partition(1))
    assert np.allclose(leaves(density, slice(2, None))[2], [0, 0, 10, 30], atol=1e-6)


def test_where_a_pool_knows_nothing_it_follows_the_slower_one() -> None:
    old, new = Pool(), Pool()
    old = old.plus(Pool.of(Summary(0, 400, full_tree(2), np.array([100, 100, 50, 150]), 1e-12), Partition(2)))
    new = new.plus(Pool.of(Summary(400, 500, full_tree(1), np.array([20, 80]), 1e-12), Partition(2)))
    density = estimate([old, new], 0, Partition(1))
    assert np.allclose(leaves(density, slice(1, 2))[2], [10, 10, 20, 60], atol=1e-4)


def test_pure_noise_is_hardly_believed_and_signal_is() -> None:
    """Counts of an even spread, noise of deviation 14 in 256 leaves: shrinking takes more than half of it away.

    Fixed seed. Of 200 seeds the worst kept 45% of the noise, the mean 27%.
    """
    rng, tree = np.random.default_rng(0), full_tree(8)
    noise = np.rint(rng.laplace(0, 10, 256)).astype(np.int64)
    even, peak = Pool(), Pool()
    even = even.plus(Pool.of(Summary(0, 25600, tree, 100 + noise, 200.0), Partition(2)))
    peak = peak.plus(
        Pool.of(Summary(0, 25600, tree, np.eye(256, dtype=np.int64)[77] * 25600 + noise, 200.0), Partition(2))
    )
    mass = leaves(estimate([even], 0, Partition(2)), ALL)[2]
    assert np.abs(mass - 100).sum() < np.abs(noise).sum() / 2
    assert leaves(estimate([peak], 0, Partition(2)), ALL)[2][77] > 0.9 * 25600


@given(seeds, st.floats(0.1, 3000))
@settings(max_examples=60, deadline=None)
def test_least_only_cuts(seed: int, least: float) -> None:
    """Cells of the cut density are cells of the whole one, and exactly those with enough mass are looked into."""
    rng = np.random.default_rng(seed)
    pools = [random_pool(rng, "ordinary") for _ in range(2)]
    newest = slice(1, None)
    whole = estimate(pools, 1, Partition(2))
    cut = estimate(pools, 1, Partition(2), newest=newest, least=least)
    check(cut, pools, 1)
    assert len(cut.depths) <= len(whole.depths)
    for (cells, mass, split), (known, _, possible) in zip(cut.depths, whole.depths, strict=False):
        place = np.searchsorted(known, cells)
        assert known[place].tolist() == cells.tolist()
        assert split.tolist() == (possible[place] & (mass[newest].sum(axis=0) >= least)).tolist()


def test_leaves_are_in_order_of_place() -> None:
    density = estimate([random_pool(np.random.default_rng(5), "ordinary")], 2, Partition(3))
    cells, depths, _ = leaves(density, ALL)
    starts = cells << (DEEPEST - depths).astype(np.uint64)
    sizes = np.uint64(1) << (DEEPEST - depths).astype(np.uint64)
    assert starts[0] == 0
    assert (starts[1:] == starts[:-1] + sizes[:-1]).all()
    assert int(starts[-1] + sizes[-1]) == 1 << DEEPEST


# --- the next tree ---------------------------------------------------------------------------------------


@given(seeds, st.floats(0.5, 500), st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_the_next_tree_splits_what_is_worth_it_and_nothing_else(seed: int, worth: float, deepest: int) -> None:
    """The oracle walks down by itself; a lower price gives a tree that contains the other."""
    rng = np.random.default_rng(seed)
    density = estimate([random_pool(rng, "ordinary")], 1, Partition(2))
    points, base = 1000, 4 * worth
    tree = grow(forecast(density, ALL), points, worth, base, deepest, Partition(2))
    known = [dict(zip(cells.tolist(), mass.sum(axis=0).tolist(), strict=True)) for cells, mass, _ in density.depths]
    total = known[0][0]
    mass = {0: float(points)}
    for depth, (cells, split) in enumerate(tree.nodes()):
        assert cells.tolist() == sorted(mass)
        for cell, is_split in zip(cells.tolist(), split.tolist(), strict=True):
            assert is_split == (depth < deepest and (mass[cell] >= worth or points / 2**depth >= base))
        below = {}
        for cell in cells[split].tolist():
            for child in (2 * cell, 2 * cell + 1):
                there = depth + 1 < len(known) and child in known[depth + 1]
                below[child] = known[depth + 1][child] * (points / total) if there else mass[cell] / 2
        mass = below
    finer = grow(forecast(density, ALL), points, worth / 3, base / 3, deepest, Partition(2))
    for (cells, split), (more, also) in zip(tree.nodes(), finer.nodes(), strict=False):
        assert set(cells[split].tolist()) <= set(more[also].tolist())


def test_before_anything_is_known_the_next_tree_is_even() -> None:
    density = estimate([], 1, Partition(2))
    sizes = [len(split) for split in grow(forecast(density, slice(0, None)), 64, 10.0, 1e9, 20, Partition(2)).splits]
    assert sizes == [1, 2, 4, 8]


# --- whole numbers ---------------------------------------------------------------------------------------

masses = st.lists(st.floats(1e-9, 50) | st.sampled_from([0.0, 1.0, 0.5]), min_size=1, max_size=40)


def rounded(mass: list[float], offset: float) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
    """Masses scaled to sum to a whole number, and what they are rounded to."""
    total = math.ceil(sum(mass))
    scaled = np.array(mass) * (total / sum(mass)) if sum(mass) > 0 else np.array(mass)
    return scaled, round_in_order(scaled, total, offset), total


@given(masses, st.floats(0, 1, exclude_max=True))
@settings(max_examples=200)
def test_whole_counts_sum_to_the_total_and_every_run_is_within_one(mass: list[float], offset: float) -> None:
    scaled, counts, total = rounded(mass, offset)
    assert counts.dtype == np.int64
    assert counts.sum() == total
    assert (counts >= 0).all()
    error = np.concatenate([[0.0], np.cumsum(counts - scaled)])
    assert np.abs(error[:, None] - error[None]).max() < 1 + 1e-9


@given(seeds, st.floats(0, 1, exclude_max=True))
@settings(max_examples=50, deadline=None)
def test_every_cell_of_the_tree_is_rounded_by_less_than_one(seed: int, offset: float) -> None:
    rng = np.random.default_rng(seed)
    pools = [random_pool(rng, kind) for kind in ("ordinary", "exact")]
    density = estimate(pools, 5, Partition(2))
    cells, depths, mass = leaves(density, ALL)
    counts = round_in_order(mass, sum(pool.points for pool in pools) + 5, offset)
    for depth, (nodes, held, _) in enumerate(density.depths):
        for node, expected in zip(nodes, held.sum(axis=0), strict=True):
            inside = (depths >= depth) & (cells >> np.maximum(depths - depth, 0).astype(np.uint64) == node)
            assert abs(counts[inside].sum() - expected) < 1 + 1e-6


def test_rounding_favours_no_place() -> None:
    """Over evenly spaced offsets the mean count of every leaf is its mass."""
    mass = np.array([0.25, 0.5, 1.75, 0.0, 2.5])
    counts = [round_in_order(mass, 5, (k + 0.5) / 1000) for k in range(1000)]
    assert np.allclose(np.mean(counts, axis=0), mass, atol=1e-12)


def test_nothing_is_rounded_to_nothing() -> None:
    assert round_in_order(np.zeros(3), 0, 0.5).tolist() == [0, 0, 0]
    assert round_in_order(np.empty(0), 0, 0.5).tolist() == []
