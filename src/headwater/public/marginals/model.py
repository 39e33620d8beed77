"""The model of wide tables: fitted to noisy tables, it predicts marginals and draws records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from headwater.public.chunks import each_chunk
from headwater.public.marginals.codes import Codes, coders, codings, encode
from headwater.public.marginals.draw import NO_RECORD
from headwater.public.marginals.errors import ERROR_MODEL as ERROR_MODEL
from headwater.public.marginals.estimate import SHORTEST, Estimate, Estimator, estimate_state, restore_estimate
from headwater.public.marginals.inside import positions
from headwater.public.marginals.measured import Measured, NoisyTable
from headwater.public.marginals.predict import LogLinear
from headwater.public.marginals.smooth import Share, Slots, smooth
from headwater.public.marginals.tables import widths
from headwater.public.partition import Floats, Points
from headwater.public.protocol import (
    AnySchema,
    Around,
    Arrays,
    Conditions,
    ErrorBound,
    ExpectedError,
    Facts,
    Header,
    State,
    nothing_proved,
)

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
        return round(float(np.interp(t, self.edges, self.good)))

    def table(self, table: NoisyTable) -> NoisyTable:
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
    return table.counts.size > 2 or table.present is not None


@dataclass(frozen=True, eq=False)
class MarginalsModel:
    """A distribution of records, fitted to published numbers only."""

    schema: AnySchema
    records: int
    estimate: Estimate

    @classmethod
    def fit(cls, measured: Measured, schema: AnySchema, seed: int) -> Self:
        return cls(schema, measured.t - measured.start, Estimator(without_nulls(measured)).run())

    @cached_property
    def distribution(self) -> LogLinear:
        return LogLinear(self.estimate)

    def points(self, seed: int) -> Points:
        rng = np.random.default_rng(seed)
        return self._points(self.distribution.draw(self.records, rng), rng)

    def arrivals(self, n: int, rng: np.random.Generator) -> Points:
        """Any number of records in the order in which they may have arrived."""
        records, spans = self.distribution.arrivals(n, rng)
        return self._points(records[:, np.lexsort((rng.random(n), spans))], rng)

    def around(self, measured: Measured, schema: AnySchema, rows: int) -> Around:
        """What draws truths near this model."""
        from headwater.public.marginals.around import MarginalsAround  # which fits models

        return MarginalsAround(measured, schema, self, rows)

    def sample(self, n: int, seed: int, where: Conditions | None = None) -> Points:
        """Any number of records of the model, as points of the cube."""
        rng = np.random.default_rng([seed, n])
        if not where:
            return rng.permutation(self._points(self.distribution.draw(n, rng), rng))
        limits = {column: self._codes(column, *ends) for column, ends in where.items()}
        evidence = {}
        for column, (first, last) in limits.items():
            shape = self.estimate.shapes[column]
            within = shape.within(first, last, codings(self.schema)[column].size)
            evidence[column] = shape.evidence(self.estimate.grids[column], within)
        points = self._points(self.distribution.draw_where(n, evidence, rng), rng, limits)
        for column, (low, high) in where.items():  # a code is as fine as a draw gets, not as a condition may be
            points[:, column] = np.clip(points[:, column], low, high)
        return rng.permutation(points)

    def expected_error(self) -> ExpectedError:
        return ExpectedError(math.nan, math.nan)  # truths near the release say it (`headwater.public.replicates`)

    @staticmethod
    def error_bound(facts: Facts, start: int) -> ErrorBound:
        return nothing_proved("no theorem covers marginals")

    def near(self, points: Points) -> dict[str, float]:
        """How many pairs there are, and the expected counts of the bins and pairs that hold these points."""
        seen: dict[str, float] = {"pairs": len(self.estimate.ratios)}
        codes = encode(points, self.schema).astype(np.int64)
        bins = [np.searchsorted(grid, codes[:, c], side="right") - 1 for c, grid in enumerate(self.estimate.grids)]
        shares = self.distribution.shares
        for column, margin in enumerate(self.estimate.margins):
            for number, share in enumerate((shares @ margin)[bins[column]].tolist()):
                seen[f"column {column} at {number}"] = share * self.records
        for (a, b), table in self.distribution.joints.items():
            for number, share in enumerate(np.tensordot(shares, table, 1)[bins[a], bins[b]].tolist()):
                seen[f"columns {a} and {b} at {number}"] = share * self.records
        return seen

    def state(self) -> State:
        return estimate_state(self.estimate)

    @classmethod
    def restore(cls, header: Header, arrays: Arrays, schema: AnySchema, records: int) -> Self:
        return cls(schema, records, restore_estimate(header, arrays, codings(schema)))

    def _codes(self, column: int, low: float, high: float) -> tuple[int, int]:
        coder = coders(self.schema)[column]
        codes = np.arange(coder.coding.size, dtype=np.uint16)
        lowest, highest = (coder.places(codes, np.full(len(codes), at)) for at in (0.0, np.nextafter(1.0, 0.0)))
        inside = np.flatnonzero((highest >= low) & (lowest <= high))
        if not len(inside):
            raise ValueError(NO_RECORD)
        return int(inside[0]), int(inside[-1])

    def _points(
        self, records: Codes, rng: np.random.Generator, limits: dict[int, tuple[int, int]] | None = None
    ) -> Points:
        points, model, coded = np.empty(records.shape), self.distribution, codings(self.schema)
        values = [len(grid) - coding.missing for grid, coding in zip(self.estimate.grids, coded, strict=True)]
        wide = [coding.values > count for count, coding in zip(values, coded, strict=True)]
        pairs = {pair: np.tensordot(model.shares, joint, 1) for pair, joint in model.joints.items()}
        places = positions(records, model.forest, pairs, values, [coding.ordered for coding in coded], wide, rng)
        for column, bins in enumerate(records):
            limit = (limits or {}).get(column, (0, coded[column].size - 1))
            self._place(column, points[column], bins, limit, places[column] if wide[column] else np.zeros(len(bins)))
        return points.T

    def _place(self, column: int, into: Floats, bins: Codes, limits: tuple[int, int], places: Floats) -> None:
        """The coordinates of one column, between two codes, of records with these places in their bins."""
        coder, shape, (low, high) = coders(self.schema)[column], self.estimate.shapes[column], limits
        size = coder.coding.size
        first = np.maximum(shape.edges, low)
        more = np.minimum(shape.edges + widths(shape.edges, size) - 1, high) - first
        wide, lengths = bool(more.any()), more + 1
        placed = shape.place(bins, self.estimate.grids[column], shape.within(low, high, size), places)

        def place(chunk: slice) -> None:
            part, inside = placed(chunk)
            codes = first.take(part)
            if wide:
                inside = inside * lengths.take(part)
                steps = np.minimum(inside.astype(np.int64), more.take(part))
                codes, inside = codes + steps, np.minimum(inside - steps, np.nextafter(1.0, 0.0))
            into[chunk] = coder.places(codes, inside)

        each_chunk(len(bins), place)


MODEL = MarginalsModel
MEASURED = Measured
