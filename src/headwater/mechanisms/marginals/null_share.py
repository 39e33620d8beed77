"""Noisy tables as if there had been no null records: how many those were is estimated from what the tables sum to.

A null record is in `t` and in no cell, so tables sum to less than the records of their span, and estimates that divide
by all records would put the rest evenly into all cells. Null records need not come evenly: of people with a cap nearly
all come late. So their share is estimated over time, and spans are then counted in good records instead of arrivals.
Tables of two cells have null records in the first one; one of them in each bucket has the number of others as well.

Formal guarantees
-----------------
Post-processing: published numbers come in, so it costs no privacy, whatever it does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headwater.mechanisms.marginals.estimate import SHORTEST
from headwater.mechanisms.marginals.grid import Floats
from headwater.mechanisms.marginals.measured import Measured, NoisyTable
from headwater.mechanisms.marginals.timeline import Share, Slots, smooth

SIGNIFICANCE = 4.0
"""A share counts beyond so many of its standard deviations. Without null records that is one release in 30,000."""
MOST = 0.99
"""No larger share of a release is assumed: what is left would be noise."""


def without_nulls(measured: Measured) -> Measured:
    """The same tables, with spans counted in good records; as they are if no records seem to be null."""
    tables = [table for table in measured.tables if table.end > max(table.start, measured.start)]
    absent, deviation = _absent(tables)
    if absent <= SIGNIFICANCE * deviation:
        return measured
    clock = Clock(measured)
    return replace(
        measured,
        t=clock(measured.t),
        start=clock(measured.start),
        tables=tuple(clock.table(table) for table in measured.tables),
    )


class Clock:
    """How many good records had arrived when so many had arrived in all, as noisy tables say."""

    def __init__(self, measured: Measured) -> None:
        spans: dict[tuple[int, int], list[NoisyTable]] = {}
        for table in measured.tables:
            if _tells(table) and table.end - table.start >= measured.t / SHORTEST:
                spans.setdefault((table.start, table.end), []).append(table)
        edges = {0, measured.start, measured.t, *(edge for span in spans for edge in span)}
        slots = Slots(np.array(sorted(edges), dtype=np.float64))
        observed = []
        for span, tables in sorted(spans.items()):
            share, deviation = _absent(tables)
            observed.append(Share(*span, np.array([1 - share, share]), np.full(2, deviation**2)))
        good = slots.sizes * smooth(observed, slots, 2, slots.weights(measured.start, measured.t)).shares[:, 0]
        self.edges, self.good = slots.edges, np.concatenate([[0.0], np.cumsum(good)])
        whole = measured.t - measured.start
        if self(measured.t) - self(measured.start) < max((1 - MOST) * whole, 1):
            self.good = (1 - MOST) * self.edges + np.minimum(self.edges, 1)

    def __call__(self, t: int) -> int:
        """The number of good records, rounded."""
        return round(float(np.interp(t, self.edges, self.good)))

    def table(self, table: NoisyTable) -> NoisyTable:
        """The table over its span of good records."""
        start, end = self(table.start), self(table.end)
        counts = table.counts
        if counts.size <= 2:
            counts = counts.copy()
            counts.flat[0] -= (table.end - table.start) - (end - start)
        return replace(table, start=start, end=end, counts=counts)


def _absent(tables: Sequence[NoisyTable]) -> tuple[float, float]:
    """The share of records that tables lack, and its standard deviation."""
    tables = [table for table in tables if _tells(table)]
    if not tables:
        return 0.0, 1.0
    records: Floats = np.array([table.end - table.start for table in tables], dtype=np.float64)
    absent = records - [float(table.counts.sum() if table.present is None else table.present) for table in tables]
    numbers = [table.counts.size if table.present is None else 1 for table in tables]  # whose noise is in that
    precision = 1 / (np.array(numbers) * [table.variance for table in tables])
    weight = float(precision @ records)
    return float(precision @ absent) / weight, math.sqrt(float(precision.sum())) / weight


def _tells(table: NoisyTable) -> bool:
    """Whether a table shows how many records were null: one of one or two cells only if that was asked for."""
    return table.counts.size > 2 or table.present is not None
