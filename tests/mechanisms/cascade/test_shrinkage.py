"""Shrinkage of a pool's fractions: against an oracle that goes from cell to cell with plain numbers in dictionaries."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.public.cascade.counts import NoisyCounts, Pool
from headwater.public.cascade.estimate import MAX_SHIFT, Fractions, latest_fractions, overwritten, shrink
from headwater.public.cascade.tree import Tree, possible, uniform_fractions
from headwater.public.partition import Axis, Floats, Partition
from tests.support.shrinkage_oracle import estimable, masses, oracle, read, shrinkage_weights, unshrunk_masses
from tests.support.trees import Cell, full_tree, gapped, partitions, random_tree, split_cells

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


@given(seeds, partitions)
@settings(max_examples=20)
def test_fractions_settle_by_default(seed: int, partition: Partition) -> None:
    rng = np.random.default_rng(seed)
    pool = random_pool(rng, partition)
    before = random_before(rng, pool.tree, partition)
    estimate, settled = shrink(pool, before, partition), shrink(pool, before, partition, settle=True)
    assert estimate.left.tolist() == settled.left.tolist()
    assert estimate.variance.tolist() == settled.variance.tolist()


KEPT = (99 - math.sqrt(8)) / (100 - math.sqrt(8))
ROOT_KEPT = (74 - math.sqrt(8)) / (75 - math.sqrt(8))


@pytest.mark.parametrize("settle", [False, True])
def test_a_fraction_known_by_hand(settle: bool) -> None:
    """One split: 60 of 100 on the left, even noise of variance 2 in each half, an even prior.

    The residual is 10 with a noise of 1: the excess variance is (100 − 1)/100, with a standard error of √2/100. Two of
    them less, that is (99 − √8)/100. It has no siblings, so the local one is the same. The noise is 1/100.
    """
    pool = Pool.of(NoisyCounts(0, 100, full_tree(1), np.array([60, 40]), 2.0), Partition(1))
    estimate = shrink(pool, np.array([0.5]), Partition(1), settle=settle)
    assert estimate.left.tolist() == pytest.approx([0.5 + KEPT * 0.1])
    assert estimate.variance.tolist() == pytest.approx([KEPT / 100**2])


@pytest.mark.parametrize(("settle", "mass"), [(False, 60), (True, 50 + 10 * ROOT_KEPT)])
def test_a_settled_fraction_known_by_hand(settle: bool, mass: float) -> None:
    """The same, but the left 60 are 40 and 20: their noise is 4, with the right half's it is 4/3 at the root.

    There the residual is 10, and all but 4/3 in 100 − √8·4/3 of it is kept, by the sum above: so the left half holds
    less than 60. Below it the residual is 10 again, whatever the mass, and for a mass of 60 as much is kept as above.
    """
    tree = Tree((np.array([True]), np.array([True, False]), np.array([False, False])))
    pool = Pool.of(NoisyCounts(0, 100, tree, np.array([40, 40, 20]), 2.0), Partition(1))
    estimate = shrink(pool, np.array([0.5, 0.5]), Partition(1), settle=settle)
    assert estimate.left.tolist() == pytest.approx([0.5 + ROOT_KEPT / 10, 0.5 + 10 * KEPT / mass], rel=1e-12)
    variances = [ROOT_KEPT * 4 / 3 / 100**2, KEPT / mass**2]
    assert estimate.variance.tolist() == pytest.approx(variances, rel=1e-12)


def outweighed() -> Pool:
    """560 and 440 beside halves of 5,000, which are ten times as precise, and even."""
    counts = np.full(128, 5000)
    counts[[40, 41]] = [560, 440]
    return Pool.of(NoisyCounts(0, int(counts.sum()), full_tree(7), counts, 200.0), Partition(1))


@pytest.mark.parametrize("settle", [False, True])
def test_a_cell_that_its_neighbours_outweigh_is_still_not_drawn_beyond_the_limit(settle: bool) -> None:
    """6 deviations, less 4. Without the limit less than a tenth of them would be left. No other residual is there."""
    pool = outweighed()
    before = pool.values[0] / (pool.values[0] + pool.values[1])
    before[63 + 20] = 0.5
    estimate = shrink(pool, before, Partition(1), settle=settle)
    assert estimate.left[63 + 20] == pytest.approx((560 - 4 * 10) / 1000, rel=1e-12)
    assert np.delete(estimate.left, 63 + 20).tolist() == pytest.approx(np.delete(before, 63 + 20).tolist(), rel=1e-12)
    assert estimate.variance[63 + 20] < 0.1 * 100 / 1000**2


def test_nor_is_it_if_its_mass_settles_elsewhere() -> None:
    """As the prior is even above it as well, it gets more than 1,000; 60 less 40 are its residual even so."""
    pool, even = outweighed(), np.full(127, 0.5)
    estimate = shrink(pool, even, Partition(1))
    share = dict(zip(split_cells(pool.tree), estimate.left.tolist(), strict=True))
    splits = read(pool, even, Partition(1))
    mass = masses(splits, pool.points, lambda name, _: share[name])[6, 20]
    assert 1001 < mass < 1100
    assert share[6, 20] == pytest.approx(0.5 + (60 - 4 * 10) / mass, rel=1e-12)
    first = shrink(pool, even, Partition(1), settle=False)
    assert first.left[63 + 20] == pytest.approx(0.5 + (60 - 4 * 10) / 1000, rel=1e-12)
    assert estimate.variance[63 + 20] == pytest.approx(first.variance[63 + 20] * (1000 / mass) ** 2, rel=1e-9)


@pytest.mark.parametrize("settle", [False, True])
def test_where_the_limit_binds_fractions_are_those_of_the_oracle_too(settle: bool) -> None:
    """Random pools hardly ever meet it; all of these do: one light cell, far off, beside heavy even ones."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        counts, cell = rng.integers(4995, 5006, 128), 2 * int(rng.integers(64))
        half, off = int(rng.integers(400, 800)), int(rng.choice([-1, 1]) * rng.integers(55, 65))
        counts[cell : cell + 2] = half + off, half - off
        pool = Pool.of(NoisyCounts(0, int(counts.sum()), full_tree(7), counts, 200.0), Partition(1))
        even = np.full(127, 0.5)
        splits, estimate = read(pool, even, Partition(1)), shrink(pool, even, Partition(1), settle=settle)
        keep, expected = shrinkage_weights(splits, pool.points), oracle(pool, even, Partition(1), settle)
        pulls = {name: (1 - keep[name]) * split.residual(expected[name].base) for name, split in splits.items()}
        assert any(abs(pull) > MAX_SHIFT * math.sqrt(splits[name].noise) for name, pull in pulls.items())
        found = dict(zip(split_cells(pool.tree), estimate.left.tolist(), strict=True))
        assert found == pytest.approx({name: one.left for name, one in expected.items()}, rel=1e-9)


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


T, F = True, False
BESIDE = [T], [T, T], [F, F, T, F], [F, F]
BEHIND = [T], [T, T], [T, T, F, F], [F, F, T, F], [F, F]


@pytest.mark.parametrize("settle", [False, True])
@pytest.mark.parametrize(
    ("partition", "splits", "full", "before", "empty"),
    [
        (Partition(1), BESIDE, 2, [0.5, 0.9, 0.5, 0.5], 1),
        # The right half is of missing values, and of that the right half can hold nothing.
        (Partition([Axis(missing=True)]), BEHIND, 4, [0.9, 0.9, 1.0, 0.9, 0.9, 0.9], 3),
    ],
)
def test_a_cell_that_holds_only_rounding_is_not_estimated(
    settle: bool, partition: Partition, splits: tuple[list[bool], ...], full: int, before: list[float], empty: int
) -> None:
    """All points are in one leaf. Unshrunk, a cell beside it holds nothing, or 1e-15 points, as n may be.

    Of 42, 43 and 44 only 43 made it estimable once: its fraction jumped from 0.9 to less than 0.6 and back.
    """
    tree = Tree(tuple(np.array(split) for split in splits))
    found = []
    for n in range(40, 50):
        counts = np.zeros(tree.size, dtype=np.int64)
        counts[full] = n
        pool = Pool.of(NoisyCounts(0, n, tree, counts, 2.0), partition)
        estimate = shrink(pool, np.array(before), partition, settle=settle)
        assert (estimate.left[empty], estimate.variance[empty]) == (0.9, 0.0)
        found.append(estimate.left)
    assert np.abs(np.diff(found, axis=0)).max() < 0.01


@pytest.mark.parametrize("settle", [False, True])
@pytest.mark.parametrize("points", [1000, 10**6])
def test_it_is_estimated_from_a_billionth_of_the_points_on(points: int, settle: bool) -> None:
    tree = Tree((np.array([T]), np.array([T, F]), np.array([F, F])))
    for part, is_estimated in ((0.9e-9, False), (1.1e-9, True)):
        left, right = np.array([part * points, -5.0]), np.array([(1 - part) * points, 5.0])
        pool = Pool(points, tree, [left, right, np.full(2, 0.01), np.full(2, 0.01), np.full(2, float(points))])
        estimate = shrink(pool, np.array([0.5, 0.9]), Partition(1), settle=settle)
        assert estimate.left[1] == pytest.approx(0.0 if is_estimated else 0.9, abs=1e-12)
        assert (estimate.variance[1] > 0) == is_estimated


@given(seeds, gapped, st.booleans())
@settings(max_examples=100)
def test_where_a_half_can_hold_nothing_the_share_stays_what_it_was(
    seed: int, partition: Partition, settle: bool
) -> None:
    """Exactly 0 or 1, however many pools there are, also if their noise falls into the empty half."""
    rng, estimates = np.random.default_rng(seed), list[Fractions]()
    for _ in range(3):
        pool = random_pool(rng, partition)
        if pool.values:
            pool.values[0][:] += np.rint(rng.laplace(0, 5, len(pool.values[0])))
        estimate = shrink(pool, latest_fractions(pool.tree, estimates, partition), partition, settle=settle)
        for (depth, cell), share, variance in zip(
            split_cells(pool.tree), estimate.left, estimate.variance, strict=True
        ):
            halves = np.array([2 * cell, 2 * cell + 1], dtype=np.uint64)
            lower, upper = partition.possible(halves, depth + 1).tolist()
            if not (lower and upper):
                assert (share, variance) == (float(lower), 0.0)
        estimates.append(estimate)


def test_a_value_that_is_alone_in_its_cell_keeps_all_of_it() -> None:
    """Three values and a missing one, at 000, 001, 010 and 100: cells 01, 1 and 10 have an empty half each."""
    splits = [True], [True, True], [True, True, True, False], [False] * 6
    tree, partition = Tree(tuple(np.array(split) for split in splits)), Partition([Axis(values=3, missing=True)])
    counts = np.array([0, 300, 250, 200, 0, 250, 0])  # of cells 11, 000, 001, 010, 011, 100, 101
    estimate = shrink(
        Pool.of(NoisyCounts(0, 1000, tree, counts, 2.0), partition), uniform_fractions(tree, partition), partition
    )
    root, present, missing, low, high, alone = estimate.left.tolist()
    assert (missing, high, alone) == (1.0, 1.0, 1.0)
    assert [root, present, low] == pytest.approx([0.75, 550 / 750, 300 / 550], abs=0.01)


@given(seeds, partitions)
@settings(max_examples=60)
def test_a_pool_of_no_points_changes_no_fraction(seed: int, partition: Partition) -> None:
    rng = np.random.default_rng(seed)
    full = random_pool(rng, partition)
    before = random_before(rng, full.tree, partition)
    estimate = shrink(Pool(0, full.tree, full.values), before, partition)
    assert estimate.tree is full.tree
    assert estimate.left.tolist() == before.tolist()
    assert estimate.variance.tolist() == [0.0] * len(before)


def test_a_pool_that_splits_nothing_has_no_fractions() -> None:
    for pool in (Pool(), Pool.of(NoisyCounts(0, 9, full_tree(0), np.array([4]), 2.0), Partition(1))):
        estimate = shrink(pool, np.empty(0), Partition(1))
        assert estimate.tree is pool.tree
        assert estimate.left.tolist() == estimate.variance.tolist() == []


# --- looking up ------------------------------------------------------------------------------------------


@given(seeds, partitions, st.integers(0, 4))
@settings(max_examples=80)
def test_shares_are_those_of_the_last_estimate_that_has_the_cell(seed: int, partition: Partition, n: int) -> None:
    rng = np.random.default_rng(seed)
    trees = [random_tree(rng, int(rng.integers(0, 8)), partition=partition) for _ in range(n + 1)]
    estimates = [Fractions(tree, rng.random(tree.size - 1), np.zeros(tree.size - 1)) for tree in trees[1:]]
    known = [dict(zip(split_cells(one.tree), one.left.tolist(), strict=True)) for one in estimates]
    expected = []
    for depth, cell in split_cells(trees[0]):
        share = float(partition.shares(np.array([cell], dtype=np.uint64), depth)[0])
        for one in known:
            if (depth, cell) in one:
                share = one[depth, cell]
        expected.append(share)
    assert latest_fractions(trees[0], estimates, partition).tolist() == expected


@given(seeds, st.integers(0, 6), st.integers(0, 12))
def test_updated_shares_are_the_old_ones_but_for_those_that_are_known(seed: int, known: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    tree = full_tree(3)
    estimate = Fractions(tree, rng.random(7), np.zeros(7))
    if known == 0:
        estimate = Fractions(full_tree(0), np.empty(0), np.empty(0))
    old, places = rng.random(n), rng.integers(-1, known, n)
    expected = [float(estimate.left[place]) if place >= 0 else share for place, share in zip(places, old, strict=True)]
    kept = old.copy()
    assert overwritten(old, estimate, places).tolist() == expected
    assert old.tolist() == kept.tolist()
