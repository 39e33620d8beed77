"""Cascade: what is counted, with what noise, and that nothing else depends on the data.

Many tests choose beforehand what is published and let the mechanism count as it does (`Forced`). Two streams then see
the very same published numbers, so whatever still differs between them was decided by raw data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from headwater.public.cascade.counts import NoisyCounts
from headwater.public.cascade.plan import stage_at
from headwater.public.cascade.tree import Tree
from headwater.public.partition import Partition
from headwater.public.protocol import Span
from headwater.secret.cascade import CascadeMechanism, resolution
from headwater.secret.held import Held
from headwater.secret.noise import Noise
from tests.support.forced import (
    Draw,
    Fault,
    Forced,
    Integers,
    Publisher,
    Seen,
    Trees,
    half_the_noise,
    shape,
    tree_of_raw_counts,
    watching,
)
from tests.support.runs import ask, cube, feed
from tests.support.trees import crowd, leaves_one_by_one


class Listening(Noise):
    """Writes down every draw."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.drawn: list[Draw] = []

    def laplace_at(self, scale: float, hi: ArrayLike, lo: ArrayLike) -> Integers:
        self.drawn.append(Draw.of(scale, hi, lo))
        return super().laplace_at(scale, hi, lo)


# --- the ledger is what is drawn -------------------------------------------------------------------------


def draws(d: int, epsilon: float, n: int) -> list[Draw]:
    """All draws of a run in which somebody asks all the time."""
    noise = Listening(3)
    mechanism = CascadeMechanism(cube(Partition(d)), epsilon, noise)
    for part in np.array_split(crowd(n, d), 30):
        mechanism = feed(mechanism, part)
        ask(mechanism)
        ask(mechanism, mechanism.t // 2)
    return noise.drawn


def check_draws(drawn: Sequence[Draw], d: int, epsilon: float) -> None:
    """Every draw is one that the ledger of its stage lists, of a bucket of the plan; no address is drawn twice."""
    for draw in drawn:
        stage = stage_at(draw.start, d, epsilon)
        timescale = stage.timescales[draw.timescale]
        assert (draw.start - stage.start) % timescale.size == 0
        assert draw.resolution < timescale.resolutions
        assert draw.scale == stage.ledger()[draw.timescale].scale
        assert draw.scale * timescale.epsilon >= 2 * timescale.resolutions * (1 - 1e-12)
        assert draw.leaves == tuple(range(len(draw.leaves)))
    addresses = [(draw.start, draw.timescale, draw.resolution) for draw in drawn]
    assert len(set(addresses)) == len(addresses)


RUNS = [(1, 1.0, 3000), (1, 30.0, 1500), (2, 1.0, 5000), (2, 20.0, 5000), (3, 200.0, 800), (9, 5.0, 500)]


@pytest.mark.parametrize(("d", "epsilon", "n"), RUNS)
def test_every_draw_is_in_the_ledger_and_no_address_is_drawn_twice(d: int, epsilon: float, n: int) -> None:
    drawn = draws(d, epsilon, n)
    check_draws(drawn, d, epsilon)
    assert len(drawn) > 4


def shared_address(patch: pytest.MonkeyPatch) -> None:
    """Fast buckets use the noise of the slow bucket that holds them."""
    measure = CascadeMechanism._measure

    def sharing(self: CascadeMechanism, timescale: int, span: Span, trees: Trees) -> NoisyCounts:
        noise = self.noise
        self.noise = _Moved(noise, self.start)
        summary = measure(self, timescale, span, trees)
        self.noise = noise
        return summary

    patch.setattr(CascadeMechanism, "_measure", sharing)


class _Moved(Noise):
    def __init__(self, noise: Noise, hi: int) -> None:
        super().__init__(key=noise.key)
        self._noise, self._hi = noise, hi

    def laplace_at(self, scale: float, hi: ArrayLike, lo: ArrayLike) -> Integers:
        return self._noise.laplace_at(scale, self._hi, lo)


def measured_again(patch: pytest.MonkeyPatch) -> None:
    """Fast buckets are measured at every question."""
    closed = CascadeMechanism.closed_fast

    def forgetful(self: CascadeMechanism, until: int | None = None) -> list[NoisyCounts]:
        self.known = {}
        return closed(self, until)

    patch.setattr(CascadeMechanism, "closed_fast", forgetful)


@pytest.mark.parametrize("fault", [shared_address, half_the_noise, measured_again])
def test_planted_faults_of_the_draws_are_seen(fault: Fault) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        drawn = draws(2, 20.0, 1500)
    with pytest.raises(AssertionError):
        check_draws(drawn, 2, 20.0)


# --- neighbouring streams --------------------------------------------------------------------------------


def chosen(seed: int) -> Publisher:
    """Published counts that look like a skewed stream, chosen by address."""

    def publish(draw: Draw, tree: Tree) -> Integers:
        rng = np.random.default_rng([seed, draw.start, draw.timescale, draw.resolution])
        return rng.geometric(0.01, tree.size) * rng.integers(-1, 8, tree.size)

    return publish


def run(
    x: NDArray[np.float64], epsilon: float, publish: Publisher | None, asks: int, fault: Fault | None = None
) -> list[Seen]:
    """Everything that is measured when releases are asked for at ``asks`` evenly spaced times."""
    noise = Forced(publish)
    with watching(noise) as patch:
        if fault:
            fault(patch)
        mechanism = CascadeMechanism(cube(Partition(x.shape[1])), epsilon, noise)
        for part in np.array_split(x, asks):
            mechanism = feed(mechanism, part)
            ask(mechanism)
    return noise.seen


def check_neighbours(one: list[Seen], other: list[Seen], position: int, d: int, epsilon: float) -> int:
    """Same trees; counts differ by one, in two leaves, in buckets that hold the position. Returns how many differ."""
    stage = stage_at(position, d, epsilon)
    moved: list[int] = []
    assert [seen.place for seen in one] == [seen.place for seen in other]
    for a, b in zip(one, other, strict=True):
        assert shape(a.tree) == shape(b.tree)
        difference = a.true - b.true
        assert abs(difference).max() <= 1
        assert abs(difference).sum() in (0, 2)
        assert difference.sum() == 0
        if difference.any():
            size = stage.timescales[a.draw.timescale].size
            assert stage.start <= a.draw.start <= position < a.draw.start + size
            moved.append(a.draw.timescale)
    assert all(moved.count(timescale) <= stage.timescales[timescale].resolutions for timescale in moved)
    return len(moved)


@pytest.mark.slow
@given(
    d=st.integers(1, 4),
    epsilon=st.sampled_from([0.5, 2.0, 20.0, 500.0]),
    n=st.integers(1, 1100),
    position=st.integers(0, 1099),
    asks=st.integers(1, 12),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=50)
def test_replacing_a_point_moves_two_counts_of_one_bucket_of_each_timescale(
    d: int, epsilon: float, n: int, position: int, asks: int, seed: int
) -> None:
    """And no tree: both streams publish the same numbers, so all trees are equal, wherever the raw data differ."""
    position %= n
    x = crowd(n, d, seed)
    y = x.copy()
    y[position] = np.random.default_rng(seed + 1).choice([0.0, 0.25, 0.7, 1.0], d)
    one, other = (run(points, epsilon, chosen(seed), asks) for points in (x, y))
    check_neighbours(one, other, position, d, epsilon)


@pytest.mark.parametrize(("d", "epsilon", "timescales"), [(2, 20.0, 3), (1, 20.0, 3), (3, 3000.0, 2)])
def test_a_replaced_point_is_found_at_every_timescale(d: int, epsilon: float, timescales: int) -> None:
    """From one corner of the cube to the other, late in a stream that is asked all the time: every tree sees it."""
    x = crowd(6000, d)
    x[5000] = 0.0
    y = x.copy()
    y[5000] = 1.0
    one, other = (run(points, epsilon, chosen(1), 6000 // 16) for points in (x, y))
    stage = stage_at(5000, d, epsilon)
    assert len(stage.timescales) == timescales
    assert check_neighbours(one, other, 5000, d, epsilon) >= timescales


def test_trees_do_not_depend_on_the_data() -> None:
    """Two streams with nothing in common choose the same trees when the published numbers agree."""
    x, y = crowd(5000, 2, seed=1), 1 - crowd(5000, 2, seed=2) / 3
    one, other = (run(points, 20.0, chosen(5), 40) for points in (x, y))
    assert [shape(seen.tree) for seen in one] == [shape(seen.tree) for seen in other]
    assert len({shape(seen.tree) for seen in one}) > 20, "the trees are not all alike"
    assert any(not np.array_equal(a.true, b.true) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(("epsilon", "end"), [(1.3605, 6143), (10.88, 3071), (20.0, 5000)])
def test_when_somebody_asks_changes_no_tree(epsilon: float, end: int) -> None:
    """With all points in one place, so that trees go as deep as they may, and εt passing a power of two on the way.

    A run that is resumed and asked at another time must not use the same noise over another tree.
    """
    x = np.full((end, 2), 0.3)
    runs = [run(x, epsilon, None, asks) for asks in (1, 2, 7, 80)]
    trees = [{seen.place: shape(seen.tree) for seen in seens} for seens in runs]
    for some in trees[:-1]:
        assert {place: tree for place, tree in trees[-1].items() if place in some} == some


def overlapping(patch: pytest.MonkeyPatch) -> None:
    """Fast buckets reach one point too far back."""
    within = Held.within

    def reaching(self: Held, span: Span) -> Any:  # noqa: ANN401 - handed on
        before, (plain, counted) = within(self, Span(0, span.start))[0], within(self, span)
        return [*(rows[-1:] for rows in before[-1:]), *plain], counted

    patch.setattr(Held, "within", reaching)


@pytest.mark.parametrize(("fault", "position"), [(tree_of_raw_counts, 512), (overlapping, 527)])
def test_planted_faults_break_the_neighbours(fault: Fault, position: int) -> None:
    x = crowd(1024, 2)
    x[position] = 0.0
    y = x.copy()
    y[position] = 1.0
    one, other = (run(points, 20.0, chosen(1), 64, fault) for points in (x, y))
    with pytest.raises(AssertionError):
        check_neighbours(one, other, position, 2, 20.0)


@pytest.mark.parametrize("d", [1, 2, 3, 7, 50])
def test_without_noise_summaries_are_the_counts_of_their_points(d: int) -> None:
    """Points at 0 and at 1 included; every summary is about the points of its span and no others."""
    x = crowd(700, d)
    noise = Forced(chosen(2))
    with watching(noise):
        mechanism = CascadeMechanism(cube(Partition(d)), 20.0, noise)
        for part in np.array_split(x, 50):
            mechanism = feed(mechanism, part)
            ask(mechanism)
    depth = resolution(Partition(d))
    for seen in noise.seen:
        stage = stage_at(seen.draw.start, d, 20.0)
        part = x[seen.draw.start : seen.draw.start + stage.timescales[seen.draw.timescale].size]
        cells = Partition(d).cells(part, depth)
        assert seen.true.tolist() == leaves_one_by_one(cells, depth, seen.tree)
