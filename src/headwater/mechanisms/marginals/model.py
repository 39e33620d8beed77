"""The model of wide tables: fitted to noisy tables, it predicts marginals and draws records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from headwater.mechanisms.accuracy import ErrorBound, ExpectedError, nothing_proved
from headwater.mechanisms.lots import each_lot
from headwater.mechanisms.marginals.codes import coders, codings, encode
from headwater.mechanisms.marginals.draw import NO_RECORD, Codes
from headwater.mechanisms.marginals.estimate import Estimate, Estimator
from headwater.mechanisms.marginals.estimate_state import estimate_state, restore_estimate
from headwater.mechanisms.marginals.expected import expected_error
from headwater.mechanisms.marginals.grid import Floats, widths
from headwater.mechanisms.marginals.loglinear import LogLinear
from headwater.mechanisms.marginals.measured import Integers, Measured
from headwater.mechanisms.marginals.null_share import without_nulls
from headwater.mechanisms.marginals.tree import Pair
from headwater.mechanisms.protocol import AnySchema, Arrays, Conditions, Facts, Header, State
from headwater.partition import Points
from headwater.table.unit_cube import UnitCube


@dataclass(frozen=True, eq=False)
class MarginalsModel:
    """A distribution of records, fitted to published numbers only.

    Parameters
    ----------
    schema
        What a record is.
    records
        How many records it is about.
    estimate
        The estimated marginals.
    """

    schema: AnySchema
    records: int
    estimate: Estimate

    @classmethod
    def fit(cls, measured: Measured, schema: AnySchema, seed: int) -> Self:
        """The model fitted to noisy tables. Nothing in it is random; the seed is not used."""
        return cls(schema, measured.t - measured.start, Estimator(without_nulls(measured)).run())

    @cached_property
    def distribution(self) -> LogLinear:
        """Of records over bins."""
        return LogLinear(self.estimate)

    def pairs(
        self, wanted: Sequence[Pair], start: float, end: float, edges: Sequence[Integers] | None = None
    ) -> list[Floats]:
        """Predicted shares of the cells of two-way tables, each summing to 1.

        Parameters
        ----------
        wanted
            Pairs of columns.
        start, end
            The span of arrivals that the prediction is about.
        edges
            For each column where its bins begin, as codes; if left out, the bins of the model.
        """
        tables = self.distribution.pairs(wanted, start, end)
        if edges is None:
            return tables
        parts = zip(self.estimate.shapes, edges, self.estimate.grids, codings(self.schema), strict=True)
        moves = [shape.split(target, grid, coding.size).matrix() for shape, target, grid, coding in parts]
        return [moves[a] @ table @ moves[b].T for (a, b), table in zip(wanted, tables, strict=True)]

    def points(self, seed: int) -> Points:
        """The synthetic records as points of the cube, exactly as many as arrived; the same for the same seed."""
        rng = np.random.default_rng(seed)
        return self._points(self.distribution.draw(self.records, rng), rng)

    def sample(self, n: int, seed: int, where: Conditions | None = None) -> Points:
        """Any number of records of the model, as points of the cube.

        Parameters
        ----------
        n
            How many.
        seed
            Of the draw.
        where
            For some columns, the lowest and the highest coordinate that a record may have.
        """
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
        """Total variation of two-way and of one-way marginals, of each column too."""
        if isinstance(self.schema, UnitCube):
            names: Sequence[str] = [f"x{axis}" for axis in range(self.schema.dimension)]
        else:
            names = self.schema.names
        return expected_error(self.estimate, names, codings(self.schema))

    @staticmethod
    def error_bound(facts: Facts, start: int) -> ErrorBound:
        """No theorem bounds W1: only marginals of columns and pairs are measured."""
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
        """The model as plain values and arrays."""
        return estimate_state(self.estimate)

    @classmethod
    def restore(cls, header: Header, arrays: Arrays, schema: AnySchema, records: int) -> Self:
        """The model that a `state` describes; refused if no release can have it."""
        return cls(schema, records, restore_estimate(header, arrays, codings(schema)))

    def _codes(self, column: int, low: float, high: float) -> tuple[int, int]:
        """The first and the last code of a column whose values reach into a range of coordinates."""
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
        """Bins as points: each record gets a place inside its bin as the column's shape says."""
        points = np.empty(records.shape)
        for column, bins in enumerate(records):
            limit = (limits or {}).get(column, (0, coders(self.schema)[column].coding.size - 1))
            self._place(column, points[column], bins, limit, rng)
        return points.T

    def _place(self, column: int, into: Floats, bins: Codes, limits: tuple[int, int], rng: np.random.Generator) -> None:
        """The coordinates of one column, between two codes."""
        coder, shape, (low, high) = coders(self.schema)[column], self.estimate.shapes[column], limits
        size = coder.coding.size
        first = np.maximum(shape.edges, low)
        more = np.minimum(shape.edges + widths(shape.edges, size) - 1, high) - first
        wide, lengths = bool(more.any()), more + 1
        placed = shape.place(bins, self.estimate.grids[column], shape.within(low, high, size), rng)

        def place(lot: slice) -> None:
            at, part, inside = placed(lot)
            codes = first.take(part)
            if wide:
                inside = inside * lengths.take(part)
                steps = np.minimum(inside.astype(np.int64), more.take(part))
                codes, inside = codes + steps, np.minimum(inside - steps, np.nextafter(1.0, 0.0))
            into[at] = coder.places(codes, inside)

        each_lot(len(bins), place)


MODEL = MarginalsModel
