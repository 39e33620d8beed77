"""Shrinkage of a pool's fractions: against an oracle that goes from cell to cell with plain numbers in dictionaries."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.public.cascade.counts import NoisyCounts, Pool
from headwater.public.cascade.estimate import MAX_SHIFT, Fractions, latest_fractions, shrink
from headwater.public.cascade.tree import Tree, possible, uniform_fractions
from headwater.public.partition import Floats, Partition
from tests.support.shrinkage_oracle import estimable, masses, oracle, read, unshrunk_masses
from tests.support.trees import Cell, partitions, random_tree, split_cells

seeds = st.integers(0, 10**6)


def random_pool(rng: np.random.Generator, partition: Partition) -> Pool:
    """Buckets of little, much or hardly any noise, at places known in different detail, some measured twice."""
    pool = Pool()
    for _ in range(int(rng.integers(1, 6))):
        tree = random_tree(rng, int(rng.integers(1, 10)), partition=partition)
        points = int(rng.choice([1, 30, 1000, 50000]))
        scale = float(rng.choice([0.1, 3.0, 20.0, 500.0]))
        parts = []
        upper = Tree((*tree.splits[: len(tree.splits) // 2], np.zeros(len(tree.splits[len(tree.splits) // 2]), bool)))
        for part in (tree, upper)[: int(rng.integers(1, 3))]:
            open_ = possible(part, partition)
            truth = rng.multinomial(points, _dirichlet(rng, open_))
            noise = np.where(open_, np.rint(rng.laplace(0, scale, part.size)), 0).astype(np.int64)
            parts.append(NoisyCounts(0, points, part, truth + noise, 2 * scale**2))
        whole = NoisyCounts(0, points, tree, parts[0].counts, parts[0].variance, tuple(parts[1:]))
        pool = pool.plus(Pool.of(whole, partition))
    return pool


def _dirichlet(rng: np.random.Generator, open_: np.ndarray) -> Floats:
    found = np.zeros(len(open_))
    found[open_] = rng.dirichlet(np.full(int(open_.sum()), rng.choice([0.3, 50.0])))
    return found


def random_before(rng: np.random.Generator, tree: Tree, partition: Partition) -> Floats:
    """Anything, 0 and 1 among it; but the fraction of a half that can hold nothing is 0."""
    even = uniform_fractions(tree, partition)
    some = rng.choice([0.0, 0.001, 0.5, 1.0], len(even))
    before = np.where(rng.random(len(even)) < 0.5, rng.random(len(even)), some)
    return np.where((even > 0) & (even < 1), before, even)


# --- against the oracle ----------------------------------------------------------------------------------


@pytest.mark.slow
@given(seeds, partitions, st.booleans(), st.booleans())
@settings(max_examples=250)
def test_fractions_are_those_of_the_oracle(seed: int, partition: Partition, even: bool, settle: bool) -> None:
    rng = np.random.default_rng(seed)
    pool = random_pool(rng, partition)
    before = uniform_fractions(pool.tree, partition) if even else random_before(rng, pool.tree, partition)
    estimate = shrink(pool, before, partition, settle=settle)
    splits, expected = read(pool, before, partition), oracle(pool, before, partition, settle)
    assert estimate.tree is pool.tree
    assert len(estimate.left) == len(estimate.variance) == len(expected)
    for name, share, variance in zip(split_cells(pool.tree), estimate.left, estimate.variance, strict=True):
        scale = splits[name].noise / expected[name].base ** 2  # of a variance, if all of the residual is kept
        assert share == pytest.approx(expected[name].left, rel=1e-9, abs=1e-9)
        assert variance == pytest.approx(expected[name].variance, rel=1e-9, abs=1e-9 * scale)


@given(seeds, partitions, st.booleans())
@settings(max_examples=80)
def test_so_are_fractions_that_follow_each_other(seed: int, partition: Partition, settle: bool) -> None:
    """Priors are then the estimates of earlier pools, over trees of their own."""
    rng = np.random.default_rng(seed)
    estimates, known = list[Fractions](), dict[Cell, float]()
    for _ in range(3):
        pool = random_pool(rng, partition)
        even = zip(split_cells(pool.tree), uniform_fractions(pool.tree, partition).tolist(), strict=True)
        before = np.array([known.get(name, share) for name, share in even])
        estimates.append(shrink(pool, latest_fractions(pool.tree, estimates, partition), partition, settle=settle))
        expected = {name: one.left for name, one in oracle(pool, before, partition, settle).items()}
        found = dict(zip(split_cells(pool.tree), estimates[-1].left.tolist(), strict=True))
        assert found == pytest.approx(expected, rel=1e-8, abs=1e-8)
        known |= found


# --- what holds whatever the counts ----------------------------------------------------------------------


@given(seeds, partitions, st.booleans())
@settings(max_examples=150)
def test_no_share_is_drawn_further_from_its_pool_than_the_limit(seed: int, partition: Partition, settle: bool) -> None:
    """Least squares are those for the masses that follow from the shrunk fractions, if these are to settle."""
    rng = np.random.default_rng(seed)
    pool = random_pool(rng, partition)
    before = random_before(rng, pool.tree, partition)
    estimate, splits = shrink(pool, before, partition, settle=settle), read(pool, before, partition)
    share = dict(zip(split_cells(pool.tree), estimate.left.tolist(), strict=True))
    assert all(0 <= one <= 1 for one in share.values())
    settled = masses(splits, pool.points, lambda name, _: share[name])
    held = settled if settle else unshrunk_masses(splits, pool.points)
    for name, (split, _) in estimable(splits, pool.points).items():
        base = split.base(held[name])
        away = base * (share[name] - split.unshrunk(base))
        assert abs(away) <= MAX_SHIFT * math.sqrt(split.noise) * (1 + 1e-9) + 1e-9 * base
