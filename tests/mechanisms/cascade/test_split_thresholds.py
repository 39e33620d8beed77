"""Split thresholds rise with the depth and from resolution to resolution, and keep leaves few."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.public.cascade.estimate import Fractions
from headwater.public.cascade.history import next_tree
from headwater.public.cascade.plan import Timescale, split_thresholds, stage_at, uniform_threshold
from headwater.public.partition import Partition
from tests.support.trees import random_tree

timescales = st.builds(
    lambda t, d, epsilon, pick: (stage_at(t, d, epsilon).timescales[pick % len(stage_at(t, d, epsilon).timescales)], d),
    st.integers(0, 1 << 30),
    st.integers(1, 6),
    st.floats(0.01, 50),
    st.integers(0, 3),
)


@given(timescales, st.integers(1, 60))
def test_thresholds_never_fall_with_depth_nor_from_one_resolution_to_the_next(
    of: tuple[Timescale, int], deepest: int
) -> None:
    """So a cell that is split in a coarse tree is split in the fine one, and its parent in both."""
    timescale, d = of
    found = split_thresholds(timescale, d, deepest)
    assert len(found) == timescale.resolutions
    for by_depth, _ in found:
        assert len(by_depth) == deepest
        assert by_depth == sorted(by_depth)
    for (fine, base), (coarse, wide) in itertools.pairwise(found):
        assert base <= wide
        assert all(a <= b for a, b in zip(fine, coarse, strict=True))


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@given(st.integers(0, 10**6))
@settings(max_examples=15)
def test_leaves_stay_few_however_deep_the_tree_may_be(d: int, seed: int) -> None:
    """Fractions that send all down a few paths would give a leaf for each depth under one threshold for all depths.

    By the proof there are at most ``x·(2 + 1/(1 − 2^−slope)) + 1`` of them besides the grid, where ``x`` is the
    bucket's size over the threshold: for any depth and any fractions.
    """
    rng = np.random.default_rng(seed)
    timescale = Timescale(size=4096, epsilon=1.0, siblings=8)
    tree = random_tree(rng, 14)
    estimate = Fractions(tree, rng.choice([0.0, 0.02, 0.5, 0.98, 1.0], tree.size - 1), np.zeros(tree.size - 1))
    (by_depth, _) = split_thresholds(timescale, d, 59)[0]
    slope = (1.0 if d <= 2 else 0.3) / d
    most = timescale.size / uniform_threshold(timescale, d) * (2 + 1 / (1 - 2**-slope)) + 1
    assert next_tree([estimate], timescale.size, by_depth, math.inf, Partition(d)).size <= most
