"""The predicted count from which on a cell is split in the tree of a bucket. Public: functions of the plan alone.

Splitting a cell lowers W1 by at most its count times its diameter, and adds one noise term to each of its ancestors. So
a cell is split if its count is some multiple of the noise deviation, and the multiple grows with how many depths add
up. Noise is that of the *pooled* estimate: releases average sibling buckets, which have the same tree or nearly so.
"""

from __future__ import annotations

import math

from headwater.mechanisms.cascade.plan import Timescale

MIN_DEVIATIONS = 3.0  # no cell is split whose predicted count is below so many deviations of the pooled noise
GRID_DEVIATIONS = 64.0  # any cell is, in which a uniform spread would put so many deviations of a bucket's noise
DEPTH_EXPONENT = 0.3  # for d ≥ 3, thresholds rise with this power of one over the diameter of the cell


def uniform_threshold(bucket: Timescale, dimension: int) -> float:
    """The predicted count from which on cells are split where points are spread uniformly.

    It is the deviation of the pooled noise times `_halvings` over the dimension, since every depth adds its own error;
    in one dimension two thirds of that. At least `_minimum`.
    """
    return max(_halvings(bucket) / max(dimension, 1.5) * _pooled_deviation(bucket), _minimum(bucket))


def split_thresholds(bucket: Timescale, dimension: int, deepest: int) -> list[tuple[list[float], float]]:
    """For the tree of each resolution: the thresholds of all depths, and the count of `_grid_count`.

    A cell is split if its predicted count reaches the threshold of its depth, or if points spread uniformly would give
    it the count of the grid. Thresholds grow geometrically from one resolution to the next, from that of the finest
    tree towards the size of the bucket, so every tree is a subtree of the one before.

    Cells of depth ``deepest`` and deeper are never split.
    """
    fine, grid = uniform_threshold(bucket, dimension), _grid_count(bucket, dimension)
    steps = [fine * (bucket.size / fine) ** (i / bucket.resolutions) for i in range(bucket.resolutions)]
    bases = [grid, *(max(grid, step) for step in steps[1:])]  # that of the finest must not grow with its threshold
    return [(by_depth(bucket, dimension, deepest, step), base) for step, base in zip(steps, bases, strict=True)]


def by_depth(bucket: Timescale, dimension: int, deepest: int, threshold: float) -> list[float]:
    """The threshold of each depth: it rises with depth, through ``threshold`` where a uniform spread has cells of it.

    Deeper cells are smaller, so that a split of theirs gains less. In one and two dimensions thresholds are in
    proportion to one over the diameter. In more dimensions the noise in larger cells matters less, so they rise with
    the power `DEPTH_EXPONENT` of that: without any rise every depth would have as many leaves as the one before.
    """
    uniform = math.log2(max(bucket.size / threshold, 1.0))
    slope = (1.0 if dimension <= 2 else DEPTH_EXPONENT) / dimension
    return [max(threshold * 2 ** (slope * (depth - uniform)), _minimum(bucket)) for depth in range(deepest)]


def _grid_count(bucket: Timescale, dimension: int) -> float:
    """The count of a cell under a uniform spread from which on it is split, whatever is predicted.

    In the plane each depth of such a grid adds the same error: the more of them there are, the coarser it must be.
    """
    more = max(_halvings(bucket) / 16, 1.0) if dimension == 2 else 1.0
    return GRID_DEVIATIONS * bucket.noise.deviation * more


def _minimum(bucket: Timescale) -> float:
    """The lowest threshold of any depth: `MIN_DEVIATIONS` deviations of the pooled noise, at least a quarter."""
    return max(MIN_DEVIATIONS * _pooled_deviation(bucket), 0.25)  # at any ε, not many more leaves than points


def _halvings(bucket: Timescale) -> float:
    """log2 of ε times the points of sibling buckets: halvings until a cell holds 1/ε, about the noise. At least 1."""
    return math.log2(max(2.0, bucket.epsilon * bucket.size * bucket.siblings))


def _pooled_deviation(bucket: Timescale) -> float:
    """The standard deviation of the noise in the mean of the counts of sibling buckets."""
    return bucket.noise.deviation / math.sqrt(bucket.siblings)
