"""Axes with few values, with missing ones, with weights: what every cell of every depth must respect."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.public.cells import sample
from headwater.public.partition import DEEPEST, Axis, Partition

axis = st.builds(
    Axis,
    values=st.none() | st.integers(1, 40) | st.integers(41, 1 << 53),
    missing=st.booleans(),
    weight=st.sampled_from([0.5, 1.0, 1.0, 2.0, 3.7]),
)
axes = st.lists(axis, min_size=1, max_size=5)


def some_points(partition: Partition, n: int, rng: np.random.Generator) -> np.ndarray:
    """Points at possible values, the extreme ones among them."""
    columns = []
    for a in partition.axes:
        if a.values is None:
            values = np.concatenate([[0.0, 1.0], rng.random(n - 2)])
        else:
            values = np.concatenate([[0, a.values - 1], rng.integers(0, a.values, n - 2)])
        columns.append(a.place(values, rng.random(n) < 0.3 if a.missing else None))
    return np.stack(columns, axis=1)


@given(axes, st.integers(0, 2**32))
@settings(max_examples=80)
def test_what_is_placed_on_an_axis_is_found_there_again(kinds: list[Axis], seed: int) -> None:
    rng = np.random.default_rng(seed)
    for a in kinds:
        values = rng.random(50) if a.values is None else rng.integers(0, a.values, 50)
        missing = rng.random(50) < 0.3 if a.missing else None
        found, gone = a.value(a.place(values, missing))
        assert (gone is None) == (missing is None)
        there = np.ones(50, dtype=bool) if missing is None else ~missing
        if missing is not None and gone is not None:
            assert np.array_equal(gone, missing)
        if a.values is None:
            assert np.allclose(found[there], values[there], rtol=0, atol=1e-15)
        else:
            assert np.array_equal(found[there], values[there])


@given(axes, st.integers(0, 2**32))
@settings(max_examples=30)  # of all depths each
def test_cells_nest_hold_their_points_and_are_possible(kinds: list[Axis], seed: int) -> None:
    partition = Partition(kinds)
    points = some_points(partition, 40, np.random.default_rng(seed))
    deepest = partition.cells(points, partition.deepest)
    for depth in range(partition.deepest + 1):
        cells = partition.cells(points, depth)
        assert np.array_equal(cells, deepest >> np.uint64(partition.deepest - depth))
        low, high = partition.boxes(cells, depth)
        assert ((low <= points) & (points <= high)).all()  # cells finer than floats have no inside
        assert partition.possible(cells, depth).all()
        for number in range(partition.dimension):
            prefixes, cuts = partition.prefixes(cells, depth, number)
            expected = np.minimum((points[:, number] * 2.0**cuts).astype(np.int64), 2**cuts - 1)
            assert np.array_equal(prefixes, expected)


@given(axes)
@settings(max_examples=80)
def test_an_axis_is_cut_until_one_value_is_left_and_no_further(kinds: list[Axis]) -> None:
    partition = Partition(kinds)
    for number, a in enumerate(kinds):
        assert partition.order.count(number) <= a.cuts
    if partition.deepest < DEEPEST:
        assert all(partition.order.count(number) == a.cuts for number, a in enumerate(kinds))
        assert partition.diameter(partition.deepest) == 0


@pytest.mark.parametrize(
    "a", [Axis(values=3), Axis(values=5, missing=True), Axis(values=8), Axis(values=1, missing=True)]
)
def test_the_deepest_cells_of_a_finite_axis_hold_exactly_one_value_each(a: Axis) -> None:
    partition = Partition([a])
    cells = np.arange(1 << partition.deepest, dtype=np.uint64)
    assert partition.possible(cells, partition.deepest).sum() == (a.values or 0) + a.missing
    assert (a.count(cells.astype(np.int64), a.cuts)[1] <= 1).all()


@given(axes, st.integers(0, 2**32), st.integers(0, 12))
@example([Axis(values=2**53, missing=True)], 0, 0)  # one value beside 2^53
@settings(max_examples=80)
def test_shares_are_zero_or_one_just_where_a_half_is_impossible(kinds: list[Axis], seed: int, depth: int) -> None:
    partition = Partition(kinds)
    depth = min(depth, partition.deepest - 1)
    if depth < 0:
        return
    cells = np.unique(partition.cells(some_points(partition, 60, np.random.default_rng(seed)), depth))
    share = partition.shares(cells, depth)
    lower, upper = (partition.possible(cells * np.uint64(2) + np.uint64(half), depth + 1) for half in (0, 1))
    assert np.array_equal(share > 0, lower)
    assert np.array_equal(share < 1, upper)


@given(axes, st.integers(0, 2**32), st.integers(0, 30), st.booleans())
@settings(max_examples=80)
def test_sampled_points_are_possible_and_lie_in_their_cells(
    kinds: list[Axis], seed: int, depth: int, even: bool
) -> None:
    """Also in cells that could still be cut, in which several values and the missing one lie together."""
    partition, rng = Partition(kinds), np.random.default_rng(seed)
    depth = min(depth, partition.deepest)
    cells = np.unique(partition.cells(some_points(partition, 30, rng), depth))
    counts = rng.integers(1, 20, len(cells))
    points = sample(partition, cells, np.full(len(cells), depth), counts, rng, even=even)
    assert np.array_equal(partition.cells(points, depth), np.repeat(cells, counts))
    for number, a in enumerate(kinds):
        values, gone = a.value(points[:, number])
        back = a.place(values, gone)
        assert np.array_equal(back, points[:, number]) or (a.values is None and np.allclose(back, points[:, number]))


@pytest.mark.parametrize("bad", [{"values": 0}, {"values": (1 << 53) + 1}, {"weight": 0.0}, {"weight": float("nan")}])
def test_axes_that_make_no_sense_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"values|weight"):
        Axis(**bad)  # type: ignore[arg-type]
