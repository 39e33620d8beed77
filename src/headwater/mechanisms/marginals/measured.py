"""What crosses the trust boundary: noisy contingency tables over spans of arrivals, and public facts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Coding:
    """How the values of one column become codes ``0 … size − 1``. Public: made from the schema alone.

    Parameters
    ----------
    values
        How many codes stand for values. The missing value, if there is one, is the last code, ``values``.
    missing
        Whether there is a code for missing values.
    ordered
        Whether neighbouring codes are neighbouring values (numbers, times), so that they may be merged into bins.
    """

    values: int
    missing: bool
    ordered: bool

    @property
    def size(self) -> int:
        """How many codes there are."""
        return self.values + self.missing


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
        For each column, where its bins begin, as codes, from 0 upwards: bin ``i`` is codes ``edges[i] … edges[i+1] − 1``.
        Of a column that is not ordered every code is a bin. A missing value is always a bin of its own, the last.
    counts
        Noisy counts, of shape ``[len(e) for e in edges]``; they may be negative.
    scale
        Of the integer Laplace noise in each count, independent from count to count.
    variance
        Of that noise.
    """

    columns: tuple[int, ...]
    start: int
    end: int
    edges: tuple[Integers, ...]
    counts: Integers
    scale: float
    variance: float


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
