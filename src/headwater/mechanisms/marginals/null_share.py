"""Noisy tables as if there had been no null records: the share of those is estimated from what the tables sum to.

A null record is in `t` and in no cell, so tables sum to less than the records of their span, and estimates that divide
by all records would put the rest evenly into all cells. Tables of two cells have null records in the first one.

Formal guarantees
-----------------
Post-processing: published numbers come in, so it costs no privacy, whatever it does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headwater.mechanisms.marginals.measured import Measured, NoisyTable

SIGNIFICANCE = 4.0
"""A share counts beyond so many of its standard deviations. Without null records that is one release in 30,000."""
MOST = 0.95
"""No larger share is assumed: what is left would be noise."""


def without_nulls(measured: Measured) -> Measured:
    """The same tables, scaled so that good records take the place of all; as they are if none seem to be null."""
    share = null_share([table for table in measured.tables if table.end > max(table.start, measured.start)])
    if not share:
        return measured
    return replace(measured, tables=tuple(_scaled(table, share) for table in measured.tables))


def null_share(tables: Sequence[NoisyTable]) -> float:
    """The share of null records among those that some tables are about; 0 unless it is significant.

    Parameters
    ----------
    tables
        Those of one or two cells say nothing of it.
    """
    tables = [table for table in tables if table.counts.size > 2]
    if not tables:
        return 0.0
    records = np.array([table.end - table.start for table in tables], dtype=np.float64)
    absent = records - [float(table.counts.sum()) for table in tables]
    precision = 1 / np.array([table.counts.size * table.variance for table in tables])
    weight = float(precision @ records)
    share, deviation = float(precision @ absent) / weight, math.sqrt(float(precision.sum())) / weight
    return min(share, MOST) if share > SIGNIFICANCE * deviation else 0.0


def _scaled(table: NoisyTable, share: float) -> NoisyTable:
    counts, up = table.counts.astype(np.float64), 1 / (1 - share)
    if table.counts.size <= 2:
        counts.flat[0] -= share * (table.end - table.start)
    whole = np.rint(counts * up).astype(np.int64)  # the rest is far below the noise
    return replace(table, counts=whole, scale=table.scale * up, variance=table.variance * up**2)
