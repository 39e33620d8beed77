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
    """The threshold of the finest tree at the depth at which a uniform spread reaches it: ``h·σ / max(d, 1.5)``.

    ``σ`` is the deviation of the pooled noise and ``h`` the number of `_halvings`: the errors of ``h/d`` halvings of
    each coordinate add up. At least `_minimum`.
    """
    return max(_halvings(bucket) / max(dimension, 1.5) * _pooled_deviation(bucket), _minimum(bucket))


def split_thresholds(bucket: Timescale, dimension: int, deepest: int) -> list[tuple[list[float], float]]:
    """For the tree of each resolution, finest first: the thresholds of the depths below ``deepest``, and a grid count.

    A cell is split if its predicted count reaches the threshold of its depth, or if points spread uniformly would give
    it the grid count; cells of depth ``deepest`` never are. The thresholds of resolution ``i`` of ``r`` go through
    ``u·(size/u)^(i/r)``, where ``u`` is `uniform_threshold`, and the grid count of all but the finest is at least that.
    Both grow with ``i``, so every tree is a subtree of the one before.
    """
    fine, grid = uniform_threshold(bucket, dimension), _grid_count(bucket, dimension)
    steps = [fine * (bucket.size / fine) ** (i / bucket.resolutions) for i in range(bucket.resolutions)]
    bases = [grid, *(max(grid, step) for step in steps[1:])]  # that of the finest must not grow with its threshold
    return [(by_depth(bucket, dimension, deepest, step), base) for step, base in zip(steps, bases, strict=True)]


def by_depth(bucket: Timescale, dimension: int, deepest: int, threshold: float) -> list[float]:
    """The threshold of each depth below ``deepest``: ``threshold · 2^(a·(depth − D)/d)``, at least `_minimum`.

    ``D = log2(size/threshold)`` is the depth at which a uniform spread puts ``threshold`` points into a cell. With
    ``a = 1``, in one and two dimensions, thresholds are in proportion to one over the diameter of a cell: splitting
    smaller cells lowers W1 by less. In more dimensions the noise in larger cells matters less, and ``a`` is
    `DEPTH_EXPONENT`; with ``a = 0`` every depth would have as many leaves as the one before.
    """
    uniform = math.log2(max(bucket.size / threshold, 1.0))
    slope = (1.0 if dimension <= 2 else DEPTH_EXPONENT) / dimension
    return [max(threshold * 2 ** (slope * (depth - uniform)), _minimum(bucket)) for depth in range(deepest)]


def _grid_count(bucket: Timescale, dimension: int) -> float:
    """The count under a uniform spread from which on a cell is split, whatever is predicted of it.

    It is `GRID_DEVIATIONS` deviations of the noise of one bucket; in the plane, where every depth of such a grid adds
    the same error, times `_halvings` / 16 if that is more than 1.
    """
    more = max(_halvings(bucket) / 16, 1.0) if dimension == 2 else 1.0
    return GRID_DEVIATIONS * bucket.noise.deviation * more


def _minimum(bucket: Timescale) -> float:
    """The lowest threshold of any depth: `MIN_DEVIATIONS` deviations of the pooled noise, at least a quarter."""
    return max(MIN_DEVIATIONS * _pooled_deviation(bucket), 0.25)  # at any ε, not many more leaves than points


def _halvings(bucket: Timescale) -> float:
    """``log2(ε · points of all sibling buckets)``, at least 1: halvings until a cell holds 1/ε points, about the noise.

    ε is that of the timescale.
    """
    return math.log2(max(2.0, bucket.epsilon * bucket.size * bucket.siblings))


def _pooled_deviation(bucket: Timescale) -> float:
    """The standard deviation of the noise in the mean of the counts of sibling buckets."""
    return bucket.noise.deviation / math.sqrt(bucket.siblings)
