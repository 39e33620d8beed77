"""Cascade: what is counted, and that trees follow from what was published, not from the data nor from questions.

Tests choose beforehand what is published and let the mechanism count as it does (`Forced`). What a neighbour moves, and
that all noise is in the ledger, is for the exact audit (`tests/audit`) and the exact law (`test_cascade_law.py`).
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from headwater.public.cascade.plan import stage_at
from headwater.public.cascade.tree import Tree
from headwater.public.partition import Partition
from headwater.secret.cascade import CascadeMechanism, resolution
from tests.support.forced import (
    Draw,
    Forced,
    Integers,
    Publisher,
    Seen,
    shape,
    watching,
)
from tests.support.runs import ask, cube, feed
from tests.support.trees import crowd, leaves_one_by_one


def chosen(seed: int) -> Publisher:
    """Published counts that look like a skewed stream, chosen by address."""

    def publish(draw: Draw, tree: Tree) -> Integers:
        rng = np.random.default_rng([seed, draw.start, draw.timescale, draw.resolution])
        return rng.geometric(0.01, tree.size) * rng.integers(-1, 8, tree.size)

    return publish


def run(x: NDArray[np.float64], epsilon: float, publish: Publisher | None, asks: int) -> list[Seen]:
    """Everything that is measured when releases are asked for at ``asks`` evenly spaced times."""
    noise = Forced(publish)
    with watching(noise):
        mechanism = CascadeMechanism(cube(Partition(x.shape[1])), epsilon, noise)
        for part in np.array_split(x, asks):
            mechanism = feed(mechanism, part)
            ask(mechanism)
    return noise.seen


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


@pytest.mark.parametrize("d", [1, 2, 3, 7, 50])
def test_without_noise_summaries_are_the_counts_of_their_points(d: int) -> None:
    """Points at 0 and at 1 included; every summary is about the points of its span and no others."""
    x = crowd(700, d)
    seens = run(x, 20.0, chosen(2), 50)
    depth = resolution(Partition(d))
    for seen in seens:
        stage = stage_at(seen.draw.start, d, 20.0)
        part = x[seen.draw.start : seen.draw.start + stage.timescales[seen.draw.timescale].size]
        cells = Partition(d).cells(part, depth)
        assert seen.true.tolist() == leaves_one_by_one(cells, depth, seen.tree)
