"""What marginals publish: noisy tables of one, two or three columns, bucket by bucket."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from headwater.public.budget import Budget
from headwater.public.files import need
from headwater.public.laws import DiscreteGaussian, IntegerLaplace, JointLaplace
from headwater.public.marginals.codes import Coding, coders, codings, encode
from headwater.public.marginals.tree import Pair
from headwater.public.measurements import Row
from headwater.public.partition import Floats, Integers, Points
from headwater.public.protocol import AnySchema, Arrays, Header, Kept, Span, State


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """Noisy counts of one contingency table: the records ``start … end − 1`` in bins of one, two or three columns."""

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
        return math.sqrt(self.variance / 2) if self.gaussian or self.joint else self.scale

    @cached_property
    def sums(self) -> tuple[tuple[Floats, Floats], ...]:
        found = []
        for axis, edges in enumerate(self.edges):
            # two counts with one noise say as much as two with independent noise of twice the variance, their sum known
            several = 2 if self.counts.shape == (2,) else self.counts.size // len(edges)
            counts = self.counts.sum(tuple(other for other in range(len(self.edges)) if other != axis))
            found.append((counts.astype(np.float64), np.full(len(edges), self.variance * several)))
        return tuple(found)


@dataclass(frozen=True)
class Outlook:
    """What published numbers say of the stage to come."""

    tree: tuple[Pair, ...]
    kept: tuple[Pair, ...]
    moving: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Closing:
    """All that was published when a bucket closed: its tables, and what they say of what is to be measured next."""

    start: int
    end: int
    tables: tuple[NoisyTable, ...]
    outlook: Outlook


_NO_TREE = np.empty(0, dtype=np.int64)
_NONE = -(1 << 62)  # stands for a number of records that was not asked for


@dataclass(frozen=True, eq=False)
class Measured:
    """All that is published about the records after the first ``start`` ones, up to the ``t``-th.

    ``tables`` are ordered by their end; those that end before ``start`` are about earlier records and only inform.
    """

    noise: ClassVar[str] = f"{IntegerLaplace.name}, of small tables jointly"

    t: int
    start: int
    epsilon: float
    codings: tuple[Coding, ...]
    tables: tuple[NoisyTable, ...]
    schema: AnySchema | None = None

    @classmethod
    def of(cls, kept: Kept, schema: AnySchema, budget: Budget, t: int) -> Measured:
        closings = sorted((one for span, one in kept.items() if span.end <= t), key=lambda one: (one.end, -one.start))
        tables = tuple(table for closing in closings for table in closing.tables)
        return cls(t, 0, budget.epsilon, codings(schema), tables, schema)

    @staticmethod
    def pack(kept: Kept) -> State:
        closings = list(kept.values())
        tables = [table for closing in closings for table in closing.tables]
        edges = [e for table in tables for e in table.edges]
        counts = np.concatenate([np.empty(0, dtype=np.int64), *(table.counts.ravel() for table in tables)])
        small = np.abs(counts).max(initial=0) < 1 << 31
        arrays: Arrays = {
            "edges": np.concatenate([np.empty(0, dtype=np.int32), *edges]).astype(np.int32),
            "counts": counts.astype(np.int32) if small else counts,
            "scales": np.array([table.scale for table in tables], dtype=np.float64),
            "variances": np.array([table.variance for table in tables], dtype=np.float64),
            "laws": np.array([[table.gaussian, table.joint] for table in tables], dtype=np.int32).reshape(-1, 2),
            "present": np.array(
                [_NONE if table.present is None else table.present for table in tables], dtype=np.int64
            ),
            "moving": np.array([closing.outlook.moving for closing in closings], dtype=np.float64),
        }
        layout = [
            [
                one.start,
                one.end,
                [[table.columns, table.counts.shape] for table in one.tables],
                one.outlook.tree,
                one.outlook.kept,
            ]
            for one in closings
        ]
        return {"closings": layout}, arrays

    @staticmethod
    def unpack(header: Header, arrays: Arrays, schema: AnySchema) -> Kept:
        edges, counts = (arrays[name].astype(np.int64) for name in ("edges", "counts"))
        found = dict[Span, Closing]()
        numbers = zip(
            arrays["scales"].tolist(),
            arrays["variances"].tolist(),
            arrays["laws"].tolist(),
            arrays["present"].tolist(),
            strict=True,
        )
        for (start, end, layout, tree, kept), moving in zip(header["closings"], arrays["moving"].tolist(), strict=True):
            tables = []
            for columns, shape in layout:
                scale, variance, (gaussian, joint), present = next(numbers)
                bins = []
                for size in shape:
                    bins.append(edges[:size])
                    edges = edges[size:]
                cells = math.prod(shape)
                noisy, counts = counts[:cells].reshape(shape), counts[cells:]
                known = None if present == _NONE else present
                tables.append(
                    NoisyTable(
                        tuple(columns), start, end, tuple(bins), noisy, scale, variance, bool(gaussian), joint, known
                    )
                )
            ahead = Outlook(tuple((a, b) for a, b in tree), tuple((a, b) for a, b in kept), tuple(moving))
            found[Span(start, end)] = Closing(start, end, tuple(tables), ahead)
        need(not len(edges) and not len(counts), "counts")
        return found

    def after(self, since: int) -> Measured:
        start = max((table.start for table in self.tables if table.start <= since), default=0)
        return replace(self, start=start if since else 0)

    def rows(self, _: bool) -> list[Row]:
        """For a file that anyone can use (`headwater.public.measurements`)."""
        laws = {True: DiscreteGaussian.name, False: IntegerLaplace.name}
        return [
            Row(
                table.columns, table.start, table.end, table.edges, _NO_TREE, table.counts.ravel(),
                JointLaplace.name if table.joint else laws[table.gaussian],
                table.scale, table.variance, table.joint, table.present,
            )
            for table in self.tables
        ]  # fmt: skip

    def facts(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon}

    @classmethod
    def of_rows(cls, rows: Sequence[Row], facts: Mapping[str, Any], schema: AnySchema) -> Measured:
        of_columns, tables = codings(schema), list[NoisyTable]()
        for row in rows:
            need(1 <= len(row.columns) == len(row.edges), "columns")
            for column, codes in zip(row.columns, row.edges, strict=True):
                need(codes[-1] < of_columns[column].size, "codes")
            gaussian, shape = row.law == DiscreteGaussian.name, tuple(map(len, row.edges))
            counts = row.counts.reshape(shape)
            place = row.columns, row.start, row.end, row.edges
            tables.append(NoisyTable(*place, counts, row.scale, row.variance, gaussian, row.joint, row.present))
        return cls(facts["t"], facts["start"], float(facts["epsilon"]), of_columns, tuple(tables), schema)

    def unsure(self, axes: Sequence[int]) -> float:
        """The deviation, by noise, of a count of these columns in the release: of those that are counted together."""
        tables = [table for table in self.tables if table.end > self.start]
        shared = [len(set(axes) & set(table.columns)) for table in tables]
        best = [table for table, number in zip(tables, shared, strict=True) if number == max(shared)]
        precision = sum((table.end - table.start) ** 2 / max(table.variance, 1e-9) for table in best)
        return (self.t - self.start) / math.sqrt(precision) if precision else 0.0

    def bins(self, axes: Sequence[int]) -> dict[int, Floats] | None:
        """Where bins begin, as coordinates, in the most precise counts that tell all these columns apart together."""
        found, best = None, 0.0
        for table in self.tables:
            precision = (table.end - table.start) ** 2 / max(table.variance, 1e-9)
            if set(axes) <= set(table.columns) and table.end > self.start:
                resolved = math.prod(len(e) for c, e in zip(table.columns, table.edges, strict=True) if c in axes)
                if precision * resolved > best:
                    found, best = table, precision * resolved
        if found is None or self.schema is None:
            return None
        places = coders(self.schema)
        return {
            column: places[column].places(edges[edges < places[column].coding.values].astype(np.uint16), np.zeros(1))
            for column, edges in zip(found.columns, found.edges, strict=True)
            if column in axes
        }

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
