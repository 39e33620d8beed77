"""Answers to range queries: which share of the rows lies in a box over one to three columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.evaluate.axes import ColumnAxis, Floats, Side

QUERIES = 200


@dataclass(frozen=True)
class QueryErrors:
    """Absolute errors of the shares that boxes hold, over ``count`` random boxes. NOT PRIVATE."""

    count: int
    mean: float
    percentile_95: float
    largest: float

    @staticmethod
    def of(real: list[Side], synthetic: list[Side], columns: Sequence[ColumnAxis], seed: int) -> QueryErrors:
        """The errors of one table's answers against the other's, to the boxes that a seed draws."""
        ranges = [_range(side) for side in real]
        shares = [_answers(side, ranges, columns, np.random.default_rng([seed, 2])) for side in (real, synthetic)]
        errors = np.abs(shares[0] - shares[1])
        largest = float(errors.max(initial=0))
        return QueryErrors(QUERIES, float(errors.mean()), float(np.percentile(errors, 95)), largest)


def _range(side: Side) -> tuple[float, float]:
    """Where boxes lie: within the bounds, and as far beyond as real values do, but for the last half percent."""
    values, there = side
    low, high = np.percentile(values[there], [0.5, 99.5]) if there.any() else (0.0, 1.0)
    return min(float(low), 0.0), max(float(high), 1.0)


def _answers(
    side: list[Side],
    ranges: Sequence[tuple[float, float]],
    columns: Sequence[ColumnAxis],
    rng: np.random.Generator,
) -> Floats:
    """The share of rows in each of the boxes. Missing values lie in no box."""
    shares = np.empty(QUERIES)
    for query in range(QUERIES):
        size = int(rng.integers(1, min(3, len(columns)) + 1))
        inside: NDArray[np.bool_] | None = None
        for i in rng.choice(len(columns), size, replace=False):
            values, there = side[i]
            if columns[i].ordered:
                least, most = ranges[i]
                low, high = np.sort(least + (most - least) * rng.random(2))
                found = (values >= low) & (values <= high) & there
            else:
                chosen = rng.random(columns[i].axis.values or 1) < 0.5
                found = chosen[values.astype(np.int64)] & there
            inside = found if inside is None else inside & found
        assert inside is not None  # noqa: S101  # for the type checker: size is at least 1
        shares[query] = inside.mean()
    return shares
