"""Bins, moving counts between them, and the spread of records inside a bin."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.public import chunks
from headwater.public.marginals.codes import Codes, Coding
from headwater.public.marginals.inside import even
from headwater.public.marginals.shape import Shape
from headwater.public.marginals.tables import transfer
from headwater.public.partition import Floats, Integers

CODING = Coding(100, missing=True, ordered=True)


@pytest.mark.parametrize(("source", "target"), [([0, 10, 50, 100], [0, 100]), ([0, 100], [0, 25, 50, 100])])
def test_counts_move_by_the_codes_they_share(source: list[int], target: list[int]) -> None:
    """Against a literal loop over codes; no count is lost."""
    first, second = np.array(source), np.array(target)
    matrix = transfer(first, second, CODING.size)
    literal = np.zeros(matrix.shape)
    for code in range(CODING.size):
        i, j = (np.searchsorted(edges, code, side="right") - 1 for edges in (second, first))
        literal[i, j] += 1 / np.diff(first, append=CODING.size)[j]
    assert np.allclose(matrix, literal)
    assert np.allclose(matrix.sum(0), 1)


@pytest.mark.parametrize("seed", range(5))
def test_a_split_is_that_of_dense_matrices(seed: int) -> None:
    """Bins of the target are unions of parts; those of the source may cut through them."""
    rng = np.random.default_rng(seed)
    edges, source = (np.union1d([0], rng.choice(np.arange(1, 100), 20, replace=False)) for _ in range(2))
    target = edges[np.union1d([0], rng.choice(np.arange(1, 21), 8, replace=False))]
    shape = Shape(edges, rng.dirichlet(np.full(21, 0.3)), np.zeros(21))
    parts = transfer(edges, source, 101) * shape.shares
    dense = transfer(edges, target, 101) @ (parts / parts.sum(1, keepdims=True)).T
    split = shape.split(target, source, 101)
    assert np.allclose(split.matrix(), dense)
    counts, variance = rng.normal(size=21), rng.random(21)
    assert np.allclose(split @ counts, dense @ counts)
    assert np.allclose(split.variance(variance, 0.01), np.maximum(dense, 0.01) @ variance)
    several = rng.normal(size=(3, 21))
    assert np.allclose(split @ several, [dense @ one for one in several])
    assert np.allclose(split.variance(several**2, 0.01), [np.maximum(dense, 0.01) @ one**2 for one in several])
    assert (split.whole == ((dense > 0).sum(0)[np.argmax(dense, axis=1)] == 1)).all()


def placed(shape: Shape, bins: Codes, grid: Integers, within: Floats) -> tuple[Integers, Floats]:
    """The part and the position of every record, put together from chunks; places are even in each bin."""
    part, inside = np.full(len(bins), -1), np.full(len(bins), np.nan)
    of_chunk = shape.place(bins, grid, within, even(bins, np.random.default_rng(4).random(len(bins))))
    for chunk in chunks.chunks_of(len(bins)):
        part[chunk], inside[chunk] = of_chunk(chunk)
    return part, inside


def test_records_are_placed_in_their_bins_in_the_shares_of_the_parts() -> None:
    shape = Shape(np.array([0, 10, 50, 60]), np.array([0.1, 0.2, 0.3, 0.4]), np.zeros(4))
    grid = np.array([0, 50])
    bins = np.repeat(np.array([0, 1, 0], dtype=np.uint16), [100, 700, 200])
    part, inside = placed(shape, bins, grid, np.ones(4))
    assert (shape.inside(grid)[part] == bins).all()
    assert np.abs(np.bincount(part, minlength=4) - [100, 200, 300, 400]).max() <= 8
    assert inside.min() >= 0
    assert inside.max() < 1
    for number in range(4):  # even inside a part
        here = np.sort(inside[part == number])
        assert np.abs(here - np.linspace(0, 1, len(here))).max() < 0.15
    only, _ = placed(shape, bins, grid, shape.within(12, 55, 100))
    assert set(only.tolist()) == {1, 2}
    assert np.allclose(shape.evidence(grid, shape.within(12, 55, 100)), [0.2 * 38 / 40 / 0.3, 0.3 * 6 / 10 / 0.7])
