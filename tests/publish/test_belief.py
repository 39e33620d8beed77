"""What a pool makes one believe: against an oracle that goes from cell to cell with plain numbers in dictionaries."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.partition import Axis, Partition
from headwater.publish.belief import FARTHEST, PRIOR, Belief, believe, shares, updated
from headwater.publish.pool import Pool
from headwater.publish.tree import Floats, Summary, Tree, even_shares, possible
from tests.support.trees import Cell, full_tree, gapped, partitions, random_tree, split_cells

seeds = st.integers(0, 10**6)


def random_pool(rng: np.random.Generator, partition: Partition) -> Pool:
    """Buckets of little, much or hardly any noise, at places known in different detail, some measured twice.

    No sum is quite a whole number: else a cell may hold nothing but rounding, and whether it was heard is left to that.
    """
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
            parts.append(Summary(0, points, part, truth + noise, 2 * scale**2))
        whole = Summary(0, points, tree, parts[0].counts, parts[0].variance, tuple(parts[1:]))
        pool = pool.plus(Pool.of(whole, partition))
    values = [row.copy() for row in pool.values]
    for counts, variances in zip(values[:2], values[2:4], strict=True):
        counts += np.where(variances > 1e-6, rng.uniform(-0.4, 0.4, len(counts)), 0.0)
    return Pool(pool.points, pool.tree, values)


def _dirichlet(rng: np.random.Generator, open_: np.ndarray) -> Floats:
    found = np.zeros(len(open_))
    found[open_] = rng.dirichlet(np.full(int(open_.sum()), rng.choice([0.3, 50.0])))
    return found


def random_before(rng: np.random.Generator, tree: Tree, partition: Partition) -> Floats:
    """Anything, 0 and 1 among it; but what a half that can hold nothing is believed to have is 0."""
    even = even_shares(tree, partition)
    some = rng.choice([0.0, 0.001, 0.5, 1.0], len(even))
    before = np.where(rng.random(len(even)) < 0.5, rng.random(len(even)), some)
    return np.where((even > 0) & (even < 1), before, even)


# --- the oracle ------------------------------------------------------------------------------------------


@dataclass
class Heard:
    """All that is said of one split cell. ``said`` is the mass of the left half by least squares."""

    held: float
    base: float
    said: float
    noise: float
    before: float
    open: bool

    @property
    def surprise(self) -> float:
        return self.said - self.base * self.before


@dataclass
class Found:
    share: float
    variance: float


def middle(low: float, value: float, high: float) -> float:
    return sorted((low, value, high))[1]


def hear(pool: Pool, before: Floats, partition: Partition) -> dict[Cell, Heard]:
    """Walk down from the root: each cell tells its halves how much of the pool they hold, by the pool's own word."""
    cells = split_cells(pool.tree)
    rows = dict(zip(cells, zip(*(row.tolist() for row in pool.values), strict=True), strict=True))
    believed = dict(zip(cells, before.tolist(), strict=True))
    found: dict[Cell, Heard] = {}

    def visit(depth: int, cell: int, held: float) -> None:
        if (depth, cell) not in rows:
            return
        left, right, var_left, var_right, asked = rows[depth, cell]
        # What the buckets that were asked say, at least their part of what is held, at most all of it, and never 0.
        base = max(1.0, middle(held * asked / pool.points, left + right, held))
        # The two numbers that sum to `base` and are nearest to the measured ones, each in units of its deviation.
        missing = base - (left + right)
        said = left + missing * var_left / (var_left + var_right)
        noise = 1 / (1 / var_left + 1 / var_right)
        even = float(partition.shares(np.array([cell], dtype=np.uint64), depth)[0])
        found[depth, cell] = Heard(held, base, said, noise, believed[depth, cell], 0 < even < 1)
        lower = held * middle(0.0, said / base, 1.0)
        visit(depth + 1, 2 * cell, lower)
        visit(depth + 1, 2 * cell + 1, held - lower)

    visit(0, 0, float(pool.points))
    return found


def fit(cells: list[Heard], s: float, prior: float, extra: float) -> float:
    """Weighted moments: the s that explains the squares, each weighted by how precise it is if s is what it was.

    ``extra`` more cells of mean weight say ``prior``.
    """
    weights = [1 / (one.noise / one.base + s) ** 2 for one in cells]
    mean = extra * math.fsum(weights) / len(weights)
    moments = [w * (one.surprise**2 - one.noise) / one.base for w, one in zip(weights, cells, strict=True)]
    return max(0.0, (math.fsum(moments) + mean * prior) / (math.fsum(weights) + mean))


def oracle(pool: Pool, before: Floats, partition: Partition) -> dict[Cell, Found]:
    known = hear(pool, before, partition)
    counts = {name: one for name, one in known.items() if one.held > 0 and one.open}
    found = {}
    for name, one in known.items():
        if name not in counts:
            found[name] = Found(one.before, 0.0)
            continue
        depth, cell = name
        level = [other for (at, _), other in counts.items() if at == depth]
        near = [other for (at, place), other in counts.items() if at == depth and place // 4 == cell // 4]
        s = 0.25
        for _ in range(2):
            s = fit(level, s, 0.0, 0.0)
        local = fit(near, s, s, PRIOR)
        trust = local / (local + one.noise / one.base)
        # By how much the estimate is drawn away from what was said: not far.
        away, limit = (1 - trust) * one.surprise, FARTHEST * math.sqrt(one.noise)
        share = (one.said - middle(-limit, away, limit)) / one.base
        found[name] = Found(middle(0.0, share, 1.0), trust * one.noise / one.base**2)
    return found


# --- against it ------------------------------------------------------------------------------------------


@given(seeds, partitions, st.booleans())
@settings(max_examples=150, deadline=None)
def test_beliefs_are_those_of_the_oracle(seed: int, partition: Partition, even: bool) -> None:
    rng = np.random.default_rng(seed)
    pool = random_pool(rng, partition)
    before = even_shares(pool.tree, partition) if even else random_before(rng, pool.tree, partition)
    belief = believe(pool, before, partition)
    known, expected = hear(pool, before, partition), oracle(pool, before, partition)
    assert belief.tree is pool.tree
    assert len(belief.share) == len(belief.variance) == len(expected)
    for name, share, variance in zip(split_cells(pool.tree), belief.share, belief.variance, strict=True):
        scale = known[name].noise / known[name].base ** 2  # of a variance, if all of the surprise is believed
        assert share == pytest.approx(expected[name].share, rel=1e-9, abs=1e-9)
        assert variance == pytest.approx(expected[name].variance, rel=1e-9, abs=1e-9 * scale)


@given(seeds, partitions)
@settings(max_examples=60, deadline=None)
def test_so_are_beliefs_that_follow_each_other(seed: int, partition: Partition) -> None:
    """What was believed before is then what real pools made one believe, over trees of their own."""
    rng = np.random.default_rng(seed)
    beliefs, known = list[Belief](), dict[Cell, float]()
    for _ in range(3):
        pool = random_pool(rng, partition)
        even = zip(split_cells(pool.tree), even_shares(pool.tree, partition).tolist(), strict=True)
        before = np.array([known.get(name, share) for name, share in even])
        beliefs.append(believe(pool, shares(pool.tree, beliefs, partition), partition))
        expected = {name: one.share for name, one in oracle(pool, before, partition).items()}
        found = dict(zip(split_cells(pool.tree), beliefs[-1].share.tolist(), strict=True))
        assert found == pytest.approx(expected, rel=1e-8, abs=1e-8)
        known |= found


def test_a_belief_known_by_hand() -> None:
    """One split: 60 of 100 on the left, even noise of variance 2 in each half, an even share believed before.

    The surprise is 10 with a noise of 1, so s = (100 − 1)/100 whatever the weights, and 99% of it is believed.
    """
    pool = Pool.of(Summary(0, 100, full_tree(1), np.array([60, 40]), 2.0), Partition(1))
    belief = believe(pool, np.array([0.5]), Partition(1))
    assert belief.share.tolist() == pytest.approx([0.5 + 0.99 * 0.1])
    assert belief.variance.tolist() == pytest.approx([0.99 / 100**2])


def test_a_cell_that_its_neighbours_outvote_is_still_not_drawn_beyond_the_limit() -> None:
    """560 and 440 beside halves of 5,000, which say ten times as precisely that all is even: 6 deviations, less 2.

    Without the limit less than a tenth of them would be left.
    """
    counts = np.full(128, 5000)
    counts[[40, 41]] = [560, 440]
    pool = Pool.of(Summary(0, int(counts.sum()), full_tree(7), counts, 200.0), Partition(1))
    belief = believe(pool, even_shares(pool.tree, Partition(1)), Partition(1))
    deepest = belief.share[63:]
    assert deepest[20] == pytest.approx((560 - FARTHEST * 10) / 1000)
    assert np.delete(deepest, 20).tolist() == pytest.approx([0.5] * 63)
    assert belief.variance[63 + 20] < 0.1 * 100 / 1000**2


# --- what holds whatever the counts ----------------------------------------------------------------------


@given(seeds, partitions)
@settings(max_examples=100, deadline=None)
def test_no_share_is_drawn_further_from_its_pool_than_the_limit(seed: int, partition: Partition) -> None:
    rng = np.random.default_rng(seed)
    pool = random_pool(rng, partition)
    before = random_before(rng, pool.tree, partition)
    known = hear(pool, before, partition)
    for name, share in zip(split_cells(pool.tree), believe(pool, before, partition).share.tolist(), strict=True):
        one = known[name]
        assert 0 <= share <= 1
        if one.held > 0 and one.open:
            away = one.base * (share - middle(0.0, one.said / one.base, 1.0))
            assert abs(away) <= FARTHEST * math.sqrt(one.noise) * (1 + 1e-9) + 1e-9 * one.base


@given(seeds, gapped)
@settings(max_examples=100, deadline=None)
def test_where_a_half_can_hold_nothing_the_share_stays_what_it_was(seed: int, partition: Partition) -> None:
    """Exactly 0 or 1, however many pools speak, also if their noise falls into the empty half."""
    rng, beliefs = np.random.default_rng(seed), list[Belief]()
    for _ in range(3):
        pool = random_pool(rng, partition)
        if pool.values:
            pool.values[0][:] += np.rint(rng.laplace(0, 5, len(pool.values[0])))
        belief = believe(pool, shares(pool.tree, beliefs, partition), partition)
        for (depth, cell), share, variance in zip(split_cells(pool.tree), belief.share, belief.variance, strict=True):
            halves = np.array([2 * cell, 2 * cell + 1], dtype=np.uint64)
            lower, upper = partition.possible(halves, depth + 1).tolist()
            if not (lower and upper):
                assert (share, variance) == (float(lower), 0.0)
        beliefs.append(belief)


def test_a_value_that_is_alone_in_its_cell_keeps_all_of_it() -> None:
    """Three values and a missing one, at 000, 001, 010 and 100: cells 01, 1 and 10 have an empty half each."""
    splits = [True], [True, True], [True, True, True, False], [False] * 6
    tree, partition = Tree(tuple(np.array(split) for split in splits)), Partition([Axis(values=3, missing=True)])
    counts = np.array([0, 300, 250, 200, 0, 250, 0])  # of cells 11, 000, 001, 010, 011, 100, 101
    belief = believe(Pool.of(Summary(0, 1000, tree, counts, 2.0), partition), even_shares(tree, partition), partition)
    root, present, missing, low, high, alone = belief.share.tolist()
    assert (missing, high, alone) == (1.0, 1.0, 1.0)
    assert [root, present, low] == pytest.approx([0.75, 550 / 750, 300 / 550], abs=0.01)


@given(seeds, partitions)
@settings(max_examples=60, deadline=None)
def test_a_pool_of_no_points_changes_no_belief(seed: int, partition: Partition) -> None:
    rng = np.random.default_rng(seed)
    full = random_pool(rng, partition)
    before = random_before(rng, full.tree, partition)
    belief = believe(Pool(0, full.tree, full.values), before, partition)
    assert belief.tree is full.tree
    assert belief.share.tolist() == before.tolist()
    assert belief.variance.tolist() == [0.0] * len(before)


def test_a_pool_that_splits_nothing_believes_nothing() -> None:
    for pool in (Pool(), Pool.of(Summary(0, 9, full_tree(0), np.array([4]), 2.0), Partition(1))):
        belief = believe(pool, np.empty(0), Partition(1))
        assert belief.tree is pool.tree
        assert belief.share.tolist() == belief.variance.tolist() == []


# --- looking up ------------------------------------------------------------------------------------------


@given(seeds, partitions, st.integers(0, 4))
@settings(max_examples=80, deadline=None)
def test_shares_are_those_of_the_last_belief_that_knows_the_cell(seed: int, partition: Partition, n: int) -> None:
    rng = np.random.default_rng(seed)
    trees = [random_tree(rng, int(rng.integers(0, 8)), partition=partition) for _ in range(n + 1)]
    beliefs = [Belief(tree, rng.random(tree.size - 1), np.zeros(tree.size - 1)) for tree in trees[1:]]
    known = [dict(zip(split_cells(one.tree), one.share.tolist(), strict=True)) for one in beliefs]
    expected = []
    for depth, cell in split_cells(trees[0]):
        share = float(partition.shares(np.array([cell], dtype=np.uint64), depth)[0])
        for one in known:
            if (depth, cell) in one:
                share = one[depth, cell]
        expected.append(share)
    assert shares(trees[0], beliefs, partition).tolist() == expected


@given(seeds, st.integers(0, 6), st.integers(0, 12))
def test_updated_shares_are_the_old_ones_but_for_those_that_are_known(seed: int, known: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    tree = full_tree(3)
    belief = Belief(tree, rng.random(7), np.zeros(7))
    if known == 0:
        belief = Belief(full_tree(0), np.empty(0), np.empty(0))
    old, places = rng.random(n), rng.integers(-1, known, n)
    expected = [float(belief.share[place]) if place >= 0 else share for place, share in zip(places, old, strict=True)]
    kept = old.copy()
    assert updated(old, belief, places).tolist() == expected
    assert old.tolist() == kept.tolist()
