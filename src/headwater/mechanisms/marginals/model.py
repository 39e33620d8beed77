"""The model of wide tables: fitted to noisy tables, it predicts marginals and draws records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from headwater.mechanisms.marginals.codes import coders, places
from headwater.mechanisms.marginals.draw import Codes
from headwater.mechanisms.marginals.estimate import Estimate, Estimator
from headwater.mechanisms.marginals.grid import Floats, transfer, widths
from headwater.mechanisms.marginals.loglinear import LogLinear
from headwater.mechanisms.marginals.measured import Coding, Integers, Measured
from headwater.mechanisms.marginals.tree import Pair
from headwater.partition import Points
from headwater.table.schema import Schema
from headwater.table.unit_cube import UnitCube


@dataclass(frozen=True, eq=False)
class MarginalsModel:
    """A distribution of records, fitted to published numbers only.

    Parameters
    ----------
    schema
        What a record is.
    codings
        What the codes of each column mean.
    t, start
        The model is about the records after the first ``start`` ones, up to the ``t``-th.
    estimate
        The estimated marginals.
    """

    schema: Schema | UnitCube
    codings: tuple[Coding, ...]
    t: int
    start: int
    estimate: Estimate

    @classmethod
    def fit(cls, measured: Measured, schema: Schema | UnitCube, seed: int = 0) -> MarginalsModel:
        """The model fitted to noisy tables. Nothing in it is random: ``seed`` is taken for the protocol's sake."""
        return cls(schema, measured.codings, measured.t, measured.start, Estimator(measured).run())

    @cached_property
    def distribution(self) -> LogLinear:
        """Of records over bins."""
        return LogLinear(self.estimate)

    @property
    def tree(self) -> tuple[Pair, ...]:
        """The pairs of the tree."""
        return self.estimate.tree

    @property
    def deviation(self) -> Mapping[Pair, tuple[float, float]]:
        """For each measured pair the total variation from independence, and the part of it that may be noise."""
        return self.estimate.deviations

    @property
    def drift(self) -> Floats:
        """For each column the variance of the random walk of its shares, per record and unit of share."""
        return self.estimate.drifts

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
        return self._rebinned(wanted, self.distribution.pairs(wanted, start, end), edges)

    def independent(
        self, wanted: Sequence[Pair], start: float, end: float, edges: Sequence[Integers] | None = None
    ) -> list[Floats]:
        """What two-way tables would be if columns were independent at every time; parameters as in `pairs`."""
        return self._rebinned(wanted, self.distribution.independent(wanted, start, end), edges)

    def points(self, seed: int) -> Points:
        """The synthetic records as points of the cube, exactly as many as arrived; the same for the same seed."""
        rng = np.random.default_rng(seed)
        return self._points(self.distribution.draw(self.t - self.start, rng), rng)

    def sample(self, n: int, where: Mapping[str, Any] | None = None, *, seed: int = 0) -> Points:
        """Any number of records of the model, as points of the cube.

        Parameters
        ----------
        n
            How many.
        where
            Values that some columns shall have, such as ``{"origin": "JFK"}``; a pair of numbers is a range, both ends
            included.
        seed
            Of the draw.
        """
        rng = np.random.default_rng(seed)
        if not where:
            return self._points(self.distribution.draw(n, rng), rng)
        ranges = self._ranges(where)
        evidence = {}
        for column, (first, last) in ranges.items():
            allowed = self._allowed(column, first, last)
            shape, grid = self.estimate.shapes[column], self.estimate.grids[column]
            parts = np.maximum(shape.shares, 1e-12)
            bins = shape.inside(grid)
            evidence[column] = np.bincount(bins, parts * allowed) / np.bincount(bins, parts)
        return self._points(self.distribution.draw_where(n, evidence, rng), rng, ranges)

    def _allowed(self, column: int, first: int, last: int) -> Floats:
        """The part of each part of a column's codes that lies between two codes."""
        edges, size = self.estimate.shapes[column].edges, self.codings[column].size
        ends = edges + widths(edges, size)
        return np.clip(np.minimum(ends, last + 1) - np.maximum(edges, first), 0, None) / (ends - edges)

    def _ranges(self, where: Mapping[str, Any]) -> dict[int, tuple[int, int]]:
        """The first and the last code of what each named column shall be."""
        if isinstance(self.schema, UnitCube):
            raise TypeError("where needs a schema with named columns, not a unit cube")
        found = {}
        for name, value in where.items():
            if name not in self.schema.names:
                raise ValueError(f"there is no column {name!r}: columns are {', '.join(self.schema.names)}")
            column = self.schema.names.index(name)
            ends = list(value) if isinstance(value, tuple) and len(value) == 2 else [value, value]
            codes = coders(self.schema)[column].encode(self.schema.columns[name].encode(ends))
            found[column] = (int(codes[0]), int(codes[1]))
            if found[column][0] > found[column][1]:
                raise ValueError(f"the range of {name!r} ends before it begins")
        return found

    def _points(
        self, records: Codes, rng: np.random.Generator, ranges: Mapping[int, tuple[int, int]] | None = None
    ) -> Points:
        """Bins as points: each record gets a place inside its bin as the column's shape says."""
        codes = np.empty(records.shape[::-1], dtype=np.uint16)
        inside = np.empty(codes.shape)
        for column, bins in enumerate(records):
            low, high = (ranges or {}).get(column, (0, self.codings[column].size - 1))
            shares = np.maximum(self.estimate.shapes[column].shares, 1e-12) * self._allowed(column, low, high)
            first, last = self._parts(column, bins, shares, rng)
            first, last = np.maximum(first, low), np.minimum(last, high)
            place = first + rng.random(len(bins)) * (last + 1 - first)
            codes[:, column] = np.minimum(place.astype(np.int64), last)
            inside[:, column] = place % 1
        return places(codes, inside, self.schema)

    def _parts(
        self, column: int, bins: Codes, shares: Floats, rng: np.random.Generator
    ) -> tuple[Integers, Integers]:
        """The first and the last code of the part of its bin that each record is in: systematic sampling."""
        shape, grid, size = self.estimate.shapes[column], self.estimate.grids[column], self.codings[column].size
        last = shape.edges + widths(shape.edges, size) - 1
        if len(grid) == len(shape.edges):
            return shape.edges[bins], last[bins]
        upper = np.cumsum(shares)
        before = np.concatenate([[0.0], upper])[np.searchsorted(shape.edges, grid)]
        mass = np.diff(before, append=upper[-1])
        order = np.argsort(bins + rng.random(len(bins)) * 0.5, kind="stable")
        held = np.bincount(bins, minlength=len(grid))
        rank = np.arange(len(bins)) - (np.cumsum(held) - held)[bins[order]]
        uniform = (rank + rng.random(len(grid))[bins[order]]) / held[bins[order]]
        part = np.empty(len(bins), dtype=np.int64)
        part[order] = np.searchsorted(upper, before[bins[order]] + uniform * mass[bins[order]], side="right")
        limits = np.searchsorted(shape.edges, grid), np.append(np.searchsorted(shape.edges, grid)[1:], len(upper)) - 1
        part = np.clip(part, limits[0][bins], limits[1][bins])
        return shape.edges[part], last[part]

    def _rebinned(
        self, wanted: Sequence[Pair], tables: list[Floats], edges: Sequence[Integers] | None
    ) -> list[Floats]:
        if edges is None:
            return tables
        moves: list[Floats] = []
        for shape, grid, target, coding in zip(
            self.estimate.shapes, self.estimate.grids, edges, self.codings, strict=True
        ):
            moves.append(shape.split(target, grid, coding.size) if len(target) != len(grid) or (target != grid).any() else np.eye(len(grid)))
        return [moves[a] @ table @ moves[b].T for (a, b), table in zip(wanted, tables, strict=True)]


MODEL = MarginalsModel
