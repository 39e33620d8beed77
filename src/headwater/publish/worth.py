"""What a cell must be predicted to hold to be split in a bucket's tree. Public, and pure functions of the plan.

A split can mend at most the cell's count times its size. It costs noise: one more leaf, in every cell around it.
"""

from __future__ import annotations

import math
from typing import Protocol


class Bucket(Protocol):
    """What there is to know of a bucket before its points arrive (`measure.plan.Speed`)."""

    @property
    def size(self) -> int:
        """How many points it holds."""

    @property
    def epsilon(self) -> float:
        """Its budget."""

    @property
    def siblings(self) -> int:
        """How many buckets like it are pooled."""

    @property
    def rungs(self) -> int:
        """How many trees are measured in it."""

    @property
    def scale(self) -> float:
        """Of the noise in a leaf count."""


LEAST = 3.0  # no cell is split whose predicted count is below so many deviations of the pooled noise
GRID = 64.0  # but any cell is, in which an even spread would put so many deviations of a bucket's noise
DEEPER = 0.3  # in three dimensions or more, prices rise with this power of one over the size of the cell


def worth(bucket: Bucket, dimension: int) -> float:
    """The predicted count that makes a cell worth splitting, where points are spread evenly.

    A deviation of the pooled noise for each halving of an axis: every depth adds its own error.
    """
    return max(_halvings(bucket) / max(dimension, 1.5) * _pooled(bucket), _least(bucket))


def prices(bucket: Bucket, dimension: int, deepest: int) -> list[tuple[list[float], float]]:
    """For the tree of each rung: what a cell of each depth must hold, and the count of an even spread that is enough.

    Rungs are evenly spaced between the whole bucket and its finest tree. All prices rise from rung to rung, so every
    tree is a part of the one before.
    """
    fine, grid = worth(bucket, dimension), _grid(bucket, dimension)
    steps = [fine * (bucket.size / fine) ** (i / bucket.rungs) for i in range(bucket.rungs)]
    bases = [grid, *(max(grid, step) for step in steps[1:])]  # that of the finest must not grow with its price
    return [(_by_depth(bucket, dimension, deepest, step), base) for step, base in zip(steps, bases, strict=True)]


def _by_depth(bucket: Bucket, dimension: int, deepest: int, price: float) -> list[float]:
    """A price is that of the depth at which an even spread stops. What lies deeper must hold more, as it is smaller.

    By as much as it is smaller, in the plane. In more dimensions the noise in larger cells matters less, and so does
    the depth; but it always does, or there would be as many leaves for every further depth.
    """
    even, slope = math.log2(max(bucket.size / price, 1.0)), (1.0 if dimension <= 2 else DEEPER) / dimension
    return [max(price * 2 ** (slope * (depth - even)), _least(bucket)) for depth in range(deepest)]


def _grid(bucket: Bucket, dimension: int) -> float:
    """In the plane each depth of a grid adds the same error: the more of them there are, the coarser it must be."""
    return GRID * _deviation(bucket) * (max(_halvings(bucket) / 16, 1.0) if dimension == 2 else 1.0)


def _least(bucket: Bucket) -> float:
    return max(LEAST * _pooled(bucket), 0.25)  # however large the budget, not many more leaves than points


def _halvings(bucket: Bucket) -> float:
    return math.log2(max(2.0, bucket.epsilon * bucket.size * bucket.siblings))


def _pooled(bucket: Bucket) -> float:
    """The deviation of the noise that pooling leaves, for a count of one bucket."""
    return _deviation(bucket) / math.sqrt(bucket.siblings)


def _deviation(bucket: Bucket) -> float:
    return math.sqrt(2) * bucket.scale
