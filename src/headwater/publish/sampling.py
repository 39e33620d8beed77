"""Leaf counts become points, uniform in their leaves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.partition import Cells, Partition, Points


def sample(
    partition: Partition, depth: int, cells: Cells, counts: NDArray[np.int64], rng: np.random.Generator
) -> Points:
    """``counts`` many points in each cell, uniform and independent, cell by cell."""
    low, high = partition.boxes(cells, depth)
    points = rng.random((int(counts.sum()), partition.dimension))
    points *= np.repeat(high - low, counts, axis=0)
    points += np.repeat(low, counts, axis=0)
    # Rounding may reach the upper face, which belongs to the next cell.
    np.minimum(points, np.repeat(np.nextafter(high, low), counts, axis=0), out=points)
    return points
