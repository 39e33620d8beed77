"""Every point is in exactly one cell at each depth."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.public.partition import DEEPEST, Partition

coordinates = st.one_of(
    st.floats(0, 1, allow_subnormal=True),
    st.builds(lambda k, b: min(k, 2**b) / 2**b, st.integers(0, 2**20), st.integers(0, 20)),  # cut points
    st.sampled_from([0.0, 1.0, 0.5, np.nextafter(0.5, 0), np.nextafter(1.0, 0), 5e-324]),
)


@st.composite
def points(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    d = draw(st.sampled_from([1, 2, 3, 5, 50]))
    row = draw(st.lists(coordinates, min_size=d, max_size=d))
    return np.array([row]), d


@given(points(), st.integers(0, 40))
def test_a_point_lies_in_the_box_of_its_cell_and_in_no_other(point: tuple[np.ndarray, int], depth: int) -> None:
    x, d = point
    partition = Partition(d)
    (cell,) = partition.cells(x, depth)
    low, high = partition.boxes(np.array([cell], dtype=np.uint64), depth)
    assert (low <= x).all()
    assert ((x < high) | ((x == 1) & (high == 1))).all()


@given(points(), st.integers(0, DEEPEST))
def test_cells_are_found_as_by_halving_step_by_step(point: tuple[np.ndarray, int], depth: int) -> None:
    """The slow way: at every depth halve the interval of the axis whose turn it is, in exact fractions."""
    x, d = point
    low, side, cell = [Fraction(0)] * d, [Fraction(1)] * d, 0
    for level in range(depth):
        axis = level % d
        side[axis] /= 2
        upper = Fraction(float(x[0, axis])) >= low[axis] + side[axis]
        low[axis] += side[axis] * upper
        cell = 2 * cell + upper
    assert Partition(d).cells(x, depth).tolist() == [cell]


@pytest.mark.parametrize("d", [1, 2, 3])
def test_every_cut_point_and_corner_is_in_exactly_one_cell(d: int) -> None:
    """On a grid of all cut points of depth 6, faces included, the cells that claim a point number exactly one."""
    depth = 6
    axis = np.arange(2**depth + 1) / 2**depth if d == 1 else np.arange(9) / 8
    grid = np.stack(np.meshgrid(*[axis] * d), axis=-1).reshape(-1, d)
    partition = Partition(d)
    low, high = partition.boxes(np.arange(2**depth, dtype=np.uint64), depth)
    inside = (grid[:, None] >= low) & ((grid[:, None] < high) | ((grid[:, None] == 1) & (high == 1)))
    assert (inside.all(axis=2).sum(axis=1) == 1).all()
    assert (inside.all(axis=2).argmax(axis=1) == partition.cells(grid, depth)).all()


@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_cells_of_one_depth_have_equal_volume_and_the_stated_diameter(d: int) -> None:
    for depth in range(12):
        low, high = Partition(d).boxes(np.arange(2**depth, dtype=np.uint64), depth)
        assert np.allclose((high - low).prod(axis=1), 2.0**-depth)
        assert (high - low).max() == Partition(d).diameter(depth)


@pytest.mark.parametrize("wrong", [0, -1])
def test_dimensions_below_one_are_refused(wrong: int) -> None:
    with pytest.raises(ValueError, match="dimension"):
        Partition(wrong)
