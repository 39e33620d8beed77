"""What crosses the trust boundary: noisy contingency tables over spans of arrivals, and public facts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headwater.mechanisms.marginals.codes import Coding as Coding
from headwater.mechanisms.marginals.codes import encode
from headwater.mechanisms.protocol import AnySchema
from headwater.partition import Points

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """Noisy counts of one contingency table: the records ``start … end − 1`` in bins of one, two or three columns.

    Parameters
    ----------
    columns
        Which columns, in increasing order.
    start, end
        The span of arrivals that was counted.
    edges
        For each column, where its bins begin, as codes, from 0 upwards: bin ``i`` is codes
        ``edges[i] … edges[i+1] − 1``. Of a column that is not ordered every code is a bin. A missing value is always a
        bin of its own, the last.
    counts
        Noisy counts, of shape ``[len(e) for e in edges]``; they may be negative.
    scale
        Of the law of the noise: integer Laplace, or the ``σ`` of discrete Gaussian noise, both independent from count
        to count; or joint Laplace noise, which other tables of the bucket share.
    variance
        Of the noise in each count.
    gaussian
        Whether the noise is Gaussian.
    joint
        Which joint draw of the bucket the noise is a part of, from 1 on; 0 if it is of this table alone.
    present
        The noisy number of records that are not null, of variance ``variance`` too; None if it was not asked for. Only
        tables of two cells have it: their counts add up to all records, with null records in the first cell.
    """

    columns: tuple[int, ...]
    start: int
    end: int
    edges: tuple[Integers, ...]
    counts: Integers
    scale: float
    variance: float
    gaussian: bool = False
    joint: int = 0
    present: int | None = None

    @property
    def width(self) -> float:
        """The scale that real Laplace noise of the same variance would have."""
        return math.sqrt(self.variance / 2) if self.gaussian or self.joint else self.scale

    @cached_property
    def sums(self) -> tuple[tuple[Floats, Floats], ...]:
        """For each column the noisy counts of its bins, and their variances. Found once: every fit needs them."""
        found = []
        for axis, edges in enumerate(self.edges):
            # two counts with one noise say as much as two with independent noise of twice the variance, their sum known
            several = 2 if self.counts.shape == (2,) else self.counts.size // len(edges)
            counts = self.counts.sum(tuple(other for other in range(len(self.edges)) if other != axis))
            found.append((counts.astype(np.float64), np.full(len(edges), self.variance * several)))
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Measured:
    """All that is published about the records after the first ``start`` ones, up to the ``t``-th.

    ``tables`` are ordered by their end; those that end before ``start`` are about earlier records and only inform.
    """

    t: int
    start: int
    epsilon: float
    codings: tuple[Coding, ...]
    tables: tuple[NoisyTable, ...]
    schema: AnySchema | None = None

    def near(self, points: Points) -> dict[str, float]:
        """How many tables there are, and the noisy counts of the cells that hold these points."""
        seen: dict[str, float] = {f"t={self.t} tables": len(self.tables)}
        if self.schema is None:
            return seen
        codes = encode(points, self.schema).astype(np.int64)
        for table in self.tables:
            axes = zip(table.columns, table.edges, strict=True)
            bins = [np.searchsorted(edges, codes[:, column], side="right") - 1 for column, edges in axes]
            for number, count in enumerate(table.counts[tuple(bins)].tolist()):
                seen[f"columns {table.columns} of {table.start}-{table.end} count at {number}"] = count
        return seen
