"""What a cell must be predicted to hold to be split in a bucket's tree. Public, and pure functions of the plan.

A split can mend at most the cell's count times its size. It costs noise: one more leaf, in every cell around it.
"""

from __future__ import annotations

import math

from headwater.measure.plan import Speed

LEAST = 3.0  # no cell is split whose predicted count is below so many deviations of the pooled noise
GRID = 64.0  # but any cell is, in which an even spread would put so many deviations of a bucket's noise


def worth(speed: Speed, dimension: int) -> float:
    """The predicted count that makes a cell worth splitting, where points are spread evenly.

    A deviation of the pooled noise for each halving of an axis: every depth adds its own error.
    """
    return max(_halvings(speed) / max(dimension, 1.5) * _pooled(speed), _least(speed))


def prices(speed: Speed, dimension: int, deepest: int) -> list[tuple[list[float], float]]:
    """For the tree of each rung: what a cell of each depth must hold, and the count of an even spread that is enough.

    Rungs are evenly spaced between the whole bucket and its finest tree. All prices rise from rung to rung, so every
    tree is a part of the one before.
    """
    fine, grid = worth(speed, dimension), _grid(speed, dimension)
    steps = [fine * (speed.size / fine) ** (i / speed.rungs) for i in range(speed.rungs)]
    bases = [grid, *(max(grid, step) for step in steps[1:])]
    return [(_by_depth(speed, dimension, deepest, step), base) for step, base in zip(steps, bases, strict=True)]


def _by_depth(speed: Speed, dimension: int, deepest: int, price: float) -> list[float]:
    """A price is that of the depth at which an even spread stops. What lies deeper must hold more, as it is smaller.

    In the plane by as much as it is smaller. In more dimensions the noise in larger cells matters less, and so does
    the depth; but it always does, or there would be as many leaves for every further depth.
    """
    even, slope = math.log2(max(speed.size / price, 1.0)), min(1.0, 2 / dimension) / dimension
    return [max(price * 2 ** (slope * (depth - even)), _least(speed)) for depth in range(deepest)]


def _grid(speed: Speed, dimension: int) -> float:
    """In the plane each depth of a grid adds the same error: the more of them there are, the coarser it must be."""
    return GRID * _deviation(speed) * (max(_halvings(speed) / 16, 1.0) if dimension == 2 else 1.0)


def _least(speed: Speed) -> float:
    return max(LEAST * _pooled(speed), 0.25)  # however large the budget, not many more leaves than points


def _halvings(speed: Speed) -> float:
    return math.log2(max(2.0, speed.epsilon * speed.size * speed.siblings))


def _pooled(speed: Speed) -> float:
    """The deviation of the noise that pooling leaves, for a count of one bucket."""
    return _deviation(speed) / math.sqrt(speed.siblings)


def _deviation(speed: Speed) -> float:
    return math.sqrt(2) * speed.scale
