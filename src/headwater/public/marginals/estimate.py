"""An estimate as plain values and arrays, and back, with everything checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.files import need
from headwater.public.marginals.codes import Coding
from headwater.public.marginals.denoise import Counted, Pooled, denoise
from headwater.public.marginals.measured import Measured, NoisyTable
from headwater.public.marginals.shape import Shape, Side, Sides, Split, estimate_shape, stacked
from headwater.public.marginals.smooth import Share, Slots, Smoothed, fit_margins, smooth
from headwater.public.marginals.tables import contained, model_grids, transfer, union, widths
from headwater.public.marginals.tree import Forest, Pair, along, spanning_forest
from headwater.public.partition import Floats, Integers
from headwater.public.protocol import Arrays, Header, State

ROUNDS = 3
GROUPS = 12
"""The model has about this many spans of time, each with one-way marginals of its own."""
SHORTEST = 512
"""Spans shorter than the release divided by this are left out of smoothing: so its cost does not grow with time."""
OLDEST = 8
"""Pairs that were last counted when there were fewer records than those of the release divided by this are left out."""
TELLING = 1 / 50
"""Tables of a pair with a smaller part of the precision of another one do not count: all of them say as little."""
LEAST_DEPENDENCE = 1e-5
"""Pairs with less mutual information (in nats) than this are not in the tree."""


@dataclass(frozen=True)
class Estimate:
    """Estimated marginals of the records of a release."""

    grids: tuple[Integers, ...]
    edges: Floats
    margins: tuple[Floats, ...]
    ratios: dict[Pair, Floats]
    tree: tuple[Pair, ...]
    shapes: tuple[Shape, ...]


class Estimator:
    """Everything that is computed from one `Measured`, step by step."""

    def __init__(self, measured: Measured, *, rough: bool = False, before: Estimator | None = None) -> None:
        self.measured, self.rough, self.before = measured, rough, before
        self.smoothed: list[Smoothed] = []
        self.weights: dict[tuple[float, float], Floats] = {}  # of the slots in spans, as columns
        self.codings = measured.codings
        tables = [t for t in measured.tables if t.end > t.start]
        self.grids = model_grids(self.codings, tables)
        self.least = (measured.t - measured.start) / SHORTEST
        edges = {0, measured.start, measured.t}
        edges |= {x for t in tables for x in (t.start, t.end) if t.end - t.start >= self.least}
        self.slots = Slots(np.array(sorted(e for e in edges if e <= measured.t), dtype=np.float64))
        if measured.t == 0:
            self.slots = Slots(np.array([0.0, 1.0]))
        self.span = self.slots.weights(*((measured.start, measured.t) if measured.t > measured.start else (0, np.inf)))
        self.one: list[list[NoisyTable]] = [[] for _ in self.codings]
        self.two: dict[Pair, list[NoisyTable]] = {}
        for table in tables:
            if len(table.columns) == 1:
                self.one[table.columns[0]].append(table)
            elif len(table.columns) == 2:
                self.two.setdefault((table.columns[0], table.columns[1]), []).append(table)
        old = (measured.t - measured.start) / OLDEST
        self.two = {p: several for p, several in self.two.items() if max(t.end for t in several) >= old}
        self.telling = {pair: telling(several) for pair, several in self.two.items()}
        self.own = {pair: self._own_edges(pair) for pair in self.two}
        self.joints: dict[tuple[Pair, int, int], Floats] = {}
        self.stacks = [stacked(self.sides(column)) for column in range(len(self.codings))]
        self.shapes = [self._shape(column) for column in range(len(self.codings))]
        self.splits = [self._known_splits(column) for column in range(len(self.codings))]

    def run(self, rounds: int = ROUNDS) -> Estimate:
        """The estimate after some rounds."""
        columns, pairs = range(len(self.codings)), list(self.two)
        edges, parts = self.groups()
        found = self.found = dict[Pair, Floats]()
        predicted: dict[Pair, Floats] = {}
        for done in range(rounds):
            self.smoothed = [self.smooth(column) for column in columns]
            self.pooled = {pair: self.pool(pair, found.get(pair)) for pair in pairs}
            effort = 6 if self.rough else 10 if done == 0 else 20
            found = self.found = {
                pair: denoise(self.pooled[pair], predicted.get(pair), found.get(pair), effort, rough=self.rough)
                for pair in pairs
            }
            margins = tuple(parts @ s.shares for s in self.smoothed)
            ratios = {pair: self.expand(pair, table) for pair, table in found.items()}
            scores = {pair: information(table, self.pooled[pair].independent) for pair, table in found.items()}
            if done < rounds - 1:
                predicted = self.predict(scores, ratios, margins, np.diff(edges))
                self.joints = {
                    (pair, t.start, t.end): self.joint(pair, found[pair], t)
                    for pair in pairs
                    for t in self.telling[pair]
                }
                self.stacks = [stacked(self.sides(column)) for column in columns]
        return Estimate(
            grids=self.grids,
            edges=edges,
            margins=margins,
            ratios=ratios,
            tree=spanning_forest({p: s for p, s in scores.items() if s > LEAST_DEPENDENCE}, len(columns)),
            shapes=tuple(self.shapes),
        )

    def sides(self, column: int) -> list[Side]:
        found = [Side(t.start, t.end, t.edges[0], *t.sums[0]) for t in self.one[column]]
        for pair in self.two:
            if column in pair:
                found += [self.side(pair, table, column) for table in self.two[pair]]
        return found

    def smooth(self, column: int) -> Smoothed:
        """One-way marginals of a column in every slot."""
        shape, grid, coding = self.shapes[column], self.grids[column], self.codings[column]
        unknown = np.bincount(shape.inside(grid), shape.variance)
        spans, several = list[tuple[int, int]](), list[tuple[Floats, Floats]]()
        for side in self.long(self.stacks[column]):
            split = self.split(column, side.edges)
            unsure = np.where(split.whole, 0.0, unknown)
            # parts of a count share its precision, and know no more than the shape does
            variance = split.variance(side.variance, 1e-6) + unsure * side.records**2
            several.append((split @ side.counts, variance))
            spans += [(start, end) for start, end in side.spans.tolist()]
        observed = self.observed(spans, several) if spans else []
        values = widths(grid, coding.size)[: len(grid) - coding.missing] if coding.ordered else None
        known = self.before or self  # a second round changes drifts by less than they are unsure
        drift = known.smoothed[column].drift if known.smoothed else None
        return smooth(observed, self.slots, len(grid), self.span, values, drift, rough=self.rough)

    def long(self, sides: Sequence[Sides]) -> Sequence[Sides]:
        kept = [side.rows(side.records[:, 0] >= self.least) for side in sides]
        return [side for side in kept if len(side.spans)] or sides

    @staticmethod
    def observed(spans: Sequence[tuple[int, int]], several: Sequence[tuple[Floats, Floats]]) -> list[Share]:
        """Counts of the same spans averaged by precision, as shares; their sum is known."""
        ordered = {span: number for number, span in enumerate(sorted(set(spans)))}
        of_span = np.zeros((len(ordered), len(spans)))
        of_span[[ordered[span] for span in spans], np.arange(len(spans))] = 1
        counts, variance = (np.concatenate(part) for part in zip(*several, strict=True))
        precision = 1 / variance
        records = np.array([end - start for start, end in ordered], dtype=np.float64)[:, None]
        variance = 1 / (of_span @ precision)
        counts, share = (of_span @ (counts * precision)) * variance, variance / variance.sum(1, keepdims=True)
        counts = counts + (records - counts.sum(1, keepdims=True)) * share
        shares, variance = counts / records, variance * (1 - share) / records**2
        return [Share(*span, *of_one) for span, *of_one in zip(ordered, shares, variance, strict=True)]

    def side(self, pair: Pair, table: NoisyTable, column: int) -> Side:
        """A column's counts from a two-way table: row sums, or matched filters where they have less variance."""
        axis = pair.index(column)
        known, (sums, variance) = self.joints.get((pair, table.start, table.end)), table.sums[axis]
        if known is None:
            return Side(table.start, table.end, table.edges[axis], sums, variance)
        counts = np.moveaxis(table.counts, axis, 0).astype(np.float64)
        uncertain = ((table.end - table.start) * self.pooled[pair].deviation) ** 2  # the law is estimated as well
        law = np.moveaxis(known, axis, 0) + 1e-6 / known.size
        law = law / law.sum(1, keepdims=True)
        power = (law**2).sum(1)
        filtered = (law * counts).sum(1) / power
        noise = table.variance + uncertain
        far = ((counts - law * filtered[:, None]) ** 2).sum(1) / (max(counts.shape[1] - 1, 1) * noise)
        error = noise / power * np.maximum(far, 1.0)
        better = error < variance
        counts, variance = np.where(better, filtered, sums), np.where(better, error, variance)
        return Side(table.start, table.end, table.edges[axis], counts, variance)

    def _own_edges(self, pair: Pair) -> tuple[Integers, ...]:
        return tuple(union((t.edges[i] for t in self.telling[pair]), self.codings[c]) for i, c in enumerate(pair))

    def _shape(self, column: int) -> Shape:
        grid = self.grids[column]
        if self.before and contained(grid, self.before.shapes[column].edges):
            return self.before.shapes[column]
        return estimate_shape(self.stacks[column], grid, self.codings[column])

    def _known_splits(self, column: int) -> dict[bytes, Split]:
        before, shape, grid = self.before, self.shapes[column], self.grids[column]
        if before and shape is before.shapes[column] and np.array_equal(grid, before.grids[column]):
            return before.splits[column]
        return {}

    def split(self, column: int, edges: Integers) -> Split:
        known, key = self.splits[column], edges.tobytes()
        if key not in known:
            known[key] = self.shapes[column].split(self.grids[column], edges, self.codings[column].size)
        return known[key]

    def independent(self, pair: Pair, start: float, end: float) -> Floats:
        if (start, end) not in self.weights:
            self.weights[start, end] = self.slots.weights(start, end)[:, None]
        first, second = (self.smoothed[c].shares for c in pair)
        return (first * self.weights[start, end]).T @ second

    def merge(self, pair: Pair, table: Floats) -> Floats:
        return self._moved(pair, table, [self.grids[column] for column in pair], self.own[pair])

    def _moved(self, pair: Pair, table: Floats, source: Sequence[Integers], target: Sequence[Integers]) -> Floats:
        for axis, (column, old, new) in enumerate(zip(pair, source, target, strict=True)):
            if not np.array_equal(old, new):
                matrix = transfer(old, new, self.codings[column].size)
                table = table @ matrix.T if axis else matrix @ table
        return table

    def pool(self, pair: Pair, earlier: Floats | None) -> Pooled:
        """The tables of a pair on its own bins; without an earlier estimate, only those that have these bins."""
        found = []
        for table in self.telling[pair]:
            base = self.merge(pair, self.independent(pair, table.start, table.end))
            shape = np.maximum(base if earlier is None else earlier, 1e-12)
            counts, scale = table.counts.astype(np.float64), np.array(table.width)
            if counts.shape != base.shape:
                first, second = (
                    transfer(own, edges, self.codings[c].size)
                    for c, own, edges in zip(pair, self.own[pair], table.edges, strict=True)
                )
                whole = first.T @ (first @ shape @ second.T) @ second  # a count of wide bins is split by what is known
                counts = first.T @ counts @ second * shape / whole
                # as if each part had noise of its own, so strong that all of them say as much as the one count did
                scale = table.width * np.sqrt(shape / whole)
            found.append(Counted(counts, scale, table.end - table.start, base, table.gaussian))
        fine = [f for f, t in zip(found, self.telling[pair], strict=True) if t.counts.shape == f.counts.shape]
        return Pooled(fine if fine and earlier is None else found)

    def expand(self, pair: Pair, table: Floats) -> Floats:
        ratio = table / np.maximum(self.pooled[pair].independent, 1e-12)
        first, second = (
            np.searchsorted(own, self.grids[c], side="right") - 1 for c, own in zip(pair, self.own[pair], strict=True)
        )
        return ratio[np.ix_(first, second)]

    def groups(self) -> tuple[Floats, Floats]:
        """Consecutive slots of the release joined into spans: their edges, and the slots' weights in each."""
        start, end = float(self.measured.start), float(max(self.measured.t, self.measured.start + 1))
        edges = [start]
        for edge in self.slots.edges:
            if edge - edges[-1] >= (end - start) / GROUPS and edge < end:
                edges.append(float(edge))
        if end - edges[-1] < (end - start) / GROUPS and len(edges) > 1:
            edges.pop()
        edges.append(end)
        return np.array(edges), self.slots.weights(np.array(edges[:-1]), np.array(edges[1:]))

    def predict(
        self,
        scores: Mapping[Pair, float],
        ratios: Mapping[Pair, Floats],
        margins: tuple[Floats, ...],
        sizes: Floats,
    ) -> dict[Pair, Floats]:
        """For measured pairs what the best tree of the other pairs says of them, on their own bins."""
        scores = {pair: score for pair, score in scores.items() if score > LEAST_DEPENDENCE}
        tree = spanning_forest(scores, len(self.codings))
        joints = {pair: time_joint(ratios[pair], margins, pair) for pair in scores}
        weights, found = sizes / sizes.sum(), {}
        for pair in self.two:
            others = tree
            if pair in tree:
                others = spanning_forest({p: s for p, s in scores.items() if p != pair}, len(self.codings))
            path = Forest(others, len(self.codings)).path(*pair)
            if path is not None:
                found[pair] = self.merge(pair, np.tensordot(weights, along(path, joints), 1))
        return found

    def joint(self, pair: Pair, table: Floats, counted: NoisyTable) -> Floats:
        base = self.merge(pair, self.independent(pair, counted.start, counted.end))
        ratio = table / np.maximum(self.pooled[pair].independent, 1e-12)
        found = fit_margins(ratio * base, base.sum(1), base.sum(0), passes=30)
        return self._moved(pair, found, self.own[pair], counted.edges)

    def dependent(self, pair: Pair, least: float) -> bool:
        """Whether a pair is so far from independence, beyond its noise."""
        pooled, table = self.pooled[pair], self.found[pair]
        far = float(np.abs(table - pooled.independent).sum() / 2)
        return far > least + float(np.minimum(pooled.deviation, table).sum() / 4)


def telling(tables: Sequence[NoisyTable]) -> list[NoisyTable]:
    precision = [(table.end - table.start) ** 2 / max(table.variance, 1e-300) for table in tables]
    return [table for table, one in zip(tables, precision, strict=True) if one >= TELLING * max(precision)]


def information(table: Floats, independent: Floats) -> float:
    return float((table * np.log(np.maximum(table, 1e-12) / np.maximum(independent, 1e-12))).sum())


def time_joint(ratio: Floats, margins: tuple[Floats, ...], pair: Pair) -> Floats:
    first, second = (margins[c] for c in pair)
    return fit_margins(ratio * first[:, :, None] * second[:, None, :], first, second, passes=30, tolerance=1e-8)


def estimate_state(estimate: Estimate) -> State:
    """The estimate as plain values and arrays; `restore_estimate` backwards."""
    pairs = list(estimate.ratios)
    header: Header = {
        "bins": [len(grid) for grid in estimate.grids],
        "parts": [len(shape.edges) for shape in estimate.shapes],
        "pairs": [list(pair) for pair in pairs],
        "tree": [list(pair) for pair in estimate.tree],
    }
    arrays: Arrays = {
        "grids": np.concatenate(estimate.grids),
        "edges": estimate.edges,
        "margins": np.concatenate(estimate.margins, axis=1),
        "ratios": np.concatenate([np.zeros(0), *(estimate.ratios[pair].ravel() for pair in pairs)]),
        "part_edges": np.concatenate([shape.edges for shape in estimate.shapes]),
        "part_shares": np.concatenate([shape.shares for shape in estimate.shapes]),
        "part_variances": np.concatenate([shape.variance for shape in estimate.shapes]),
    }
    return header, arrays


def restore_estimate(header: Header, arrays: Arrays, codings: Sequence[Coding]) -> Estimate:
    """The estimate that a state describes; refused if no model of these columns can have it."""
    columns = len(codings)
    bins, parts = (_counts(header[name], columns, name) for name in ("bins", "parts"))
    pairs, tree = (_pairs(header[name], columns, name) for name in ("pairs", "tree"))
    need(set(tree) <= set(pairs) and len(spanning_forest(dict.fromkeys(tree, 1.0), columns)) == len(tree), "tree")
    edges = _numbers(arrays["edges"], (len(arrays["edges"]),), "edges")
    need(len(edges) > 1 and bool((np.diff(edges) > 0).all()), "edges")
    spans = len(edges) - 1
    margins = _numbers(arrays["margins"], (spans, sum(bins)), "margins")
    ratios = _numbers(arrays["ratios"], (sum(bins[a] * bins[b] for a, b in pairs),), "ratios")
    shares, variances = (_numbers(arrays[name], (sum(parts),), name) for name in ("part_shares", "part_variances"))
    ends = np.cumsum(parts)[:-1]
    grids = _starts(arrays["grids"], bins, codings, "grids")
    starts = _starts(arrays["part_edges"], parts, codings, "part_edges")
    need(all(np.isin(grid, fine).all() for grid, fine in zip(grids, starts, strict=True)), "part_edges")
    columns_of = np.split(margins, np.cumsum(bins)[:-1], axis=1)
    need(all(np.allclose(margin.sum(1), 1) for margin in columns_of), "margins")
    sizes = np.cumsum([bins[a] * bins[b] for a, b in pairs])[:-1]
    tables = np.split(ratios, sizes) if pairs else []
    return Estimate(
        grids=grids,
        edges=edges,
        margins=tuple(columns_of),
        ratios={(a, b): table.reshape(bins[a], bins[b]) for (a, b), table in zip(pairs, tables, strict=True)},
        tree=tuple(tree),
        shapes=tuple(Shape(*s) for s in zip(starts, *(np.split(a, ends) for a in (shares, variances)), strict=True)),
    )


def _counts(values: Any, columns: int, name: str) -> list[int]:  # noqa: ANN401 - of a file
    need(isinstance(values, list) and len(values) == columns, name)
    need(all(type(value) is int and value > 0 for value in values), name)
    return list(values)


def _pairs(values: Any, columns: int, name: str) -> list[Pair]:  # noqa: ANN401 - of a file
    need(isinstance(values, list) and all(isinstance(v, list) and len(v) == 2 for v in values), name)
    need(all(type(c) is int for v in values for c in v) and all(0 <= a < b < columns for a, b in values), name)
    pairs = [(a, b) for a, b in values]
    need(len(set(pairs)) == len(pairs), name)
    return pairs


def _numbers(array: NDArray[Any], shape: tuple[int, ...], name: str) -> Floats:
    need(array.dtype.str == "<f8" and array.shape == shape and bool((np.isfinite(array) & (array >= 0)).all()), name)
    return array


def _starts(array: NDArray[Any], counts: Sequence[int], codings: Sequence[Coding], name: str) -> tuple[Integers, ...]:
    need(array.dtype.str == "<i8" and array.shape == (sum(counts),), name)
    found = np.split(array, np.cumsum(counts)[:-1])
    for starts, coding in zip(found, codings, strict=True):
        need(bool(starts[0] == 0 and (np.diff(starts) > 0).all() and starts[-1] < coding.size), name)
        need(coding.ordered or len(starts) == coding.size, name)
    return tuple(found)
