"""From noisy counts to a density: it adds up, never breaks, and is exact where there is no noise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headwater.public.cascade.counts import NoisyCounts, Pool, without_nulls
from headwater.public.cascade.estimate import Density, Fractions, estimate, latest_fractions, leaf_masses, shrink
from headwater.public.cascade.tree import children
from headwater.public.cells import round_in_order
from headwater.public.partition import Axis, Partition
from tests.support.trees import KINDS, Cell, full_tree, partitions, random_pool, split_cells

seeds = st.integers(0, 10**6)
ALL = slice(None)


def exact(counts: list[int], depth: int) -> Pool:
    """One bucket, counted in all cells of a depth without noise."""
    return Pool.of(NoisyCounts(0, sum(counts), full_tree(depth), np.array(counts), 1e-12), Partition(2))


def by_cell(density: Density) -> dict[Cell, list[float]]:
    """Every node's masses, one for each row."""
    nodes = [(depth, int(cell)) for depth, (cells, _) in enumerate(density.tree.nodes()) for cell in cells]
    return dict(zip(nodes, density.mass.T.tolist(), strict=True))


def check(density: Density, pools: list[Pool], uncovered: int) -> None:
    """Children sum to their parents, pool by pool; masses are numbers and not negative; the root holds everything."""
    mass = by_cell(density)
    assert mass[0, 0] == [*(float(pool.points) for pool in pools), float(uncovered)]
    assert math.isfinite(density.spread)
    assert density.spread >= 0
    assert np.isfinite(density.mass).all()
    assert (density.mass >= 0).all()
    split = set(split_cells(density.tree))
    assert split == set[Cell]().union(*(split_cells(pool.tree) for pool in pools))
    assert set(mass) == {(0, 0)} | {(depth + 1, 2 * cell + half) for depth, cell in split for half in (0, 1)}
    for depth, cell in split:
        halves = zip(mass[depth + 1, 2 * cell], mass[depth + 1, 2 * cell + 1], strict=True)
        assert np.allclose([lower + upper for lower, upper in halves], mass[depth, cell], rtol=1e-12, atol=1e-9)
    for (cells, split_here), (below, _) in itertools.pairwise(density.tree.nodes()):
        assert below.tolist() == children(cells[split_here]).tolist()
    assert not density.tree.splits[-1].any()


@given(seeds, st.lists(st.sampled_from(KINDS), max_size=4), st.integers(0, 500), partitions)
@settings(max_examples=150)
def test_densities_add_up_whatever_the_counts(
    seed: int, kinds: list[str], uncovered: int, partition: Partition
) -> None:
    rng = np.random.default_rng(seed)
    pools = [random_pool(rng, kind, partition) for kind in kinds]
    density = estimate(pools, uncovered, partition)
    check(density, pools, uncovered)
    _, _, mass = leaf_masses(density, ALL)
    assert mass.sum() == pytest.approx(sum(pool.points for pool in pools) + uncovered, abs=1e-6)
    for row, pool in enumerate(pools):
        assert leaf_masses(density, slice(row, row + 1))[2].sum() == pytest.approx(pool.points, abs=1e-6)


@given(seeds, st.integers(1, 3), st.integers(0, 6))
@settings(max_examples=60)
def test_without_noise_every_pool_is_recovered_exactly(seed: int, n: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    truth = [rng.multinomial(1000, rng.dirichlet(np.full(1 << depth, 0.2))).tolist() for _ in range(n)]
    density = estimate([exact(counts, depth) for counts in truth], 0, Partition(2))
    for row, counts in enumerate(truth):
        cells, depths, mass = leaf_masses(density, slice(row, row + 1))
        assert depths.tolist() == [depth] * (1 << depth)
        assert cells.tolist() == list(range(1 << depth))
        assert np.allclose(mass, counts, atol=1e-4)


@given(seeds, st.lists(st.tuples(st.sampled_from(KINDS), st.booleans()), max_size=4), partitions)
@example(410642, [("ordinary", False)] * 2, Partition((Axis(None, True, 1.0),)))  # counts that miss many points
@settings(max_examples=100)
def test_masses_and_spread_follow_from_the_fractions_cell_by_cell(
    seed: int, kinds: list[tuple[str, bool]], partition: Partition
) -> None:
    """The oracle asks, at every cell, who was the last to know its share, and how wrong those that count may be."""
    rng = np.random.default_rng(seed)
    pools = [random_pool(rng, kind, partition) for kind, _ in kinds]
    density = estimate(pools, 70, partition, [counts for _, counts in kinds])
    found, estimates = by_cell(density), list[Fractions]()
    for pool in map(without_nulls, pools):
        estimates.append(shrink(pool, latest_fractions(pool.tree, estimates, partition), partition))
    known = [
        {cell: (s, v) for cell, s, v in zip(split_cells(b.tree), b.left.tolist(), b.variance.tolist(), strict=True)}
        for b in estimates
    ]
    spread = 0.0
    for depth, cell in split_cells(density.tree):
        share = float(partition.shares(np.array([cell], dtype=np.uint64), depth)[0])
        error = 0.0
        for row, mass in enumerate(found[depth, cell]):  # the last row has no pool of its own
            if row < len(pools) and (depth, cell) in known[row]:
                share, variance = known[row][depth, cell]
                error += variance * mass**2 if kinds[row][1] else 0.0
            halves = [found[depth + 1, 2 * cell + half][row] for half in (0, 1)]
            assert halves == pytest.approx([mass * share, mass * (1 - share)], rel=1e-9, abs=1e-9)
        spread += partition.diameter(depth) * math.sqrt(error)
    assert density.spread == pytest.approx(spread, rel=1e-9)


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
