"""Truths near a model of marginals, and their tables measured again.

What is perturbed: shares of bins by the noise of their counts; cells of measured pairs, and whole rows and columns of
them; pairs that were not measured, along random scores that all pairs share; and where in their bins values lie, alone
and together with other columns. It follows from published tables and from records of the model, not from how that is
fitted.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from statistics import NormalDist
from typing import Any

import numpy as np

from headwater.public.marginals.codes import codings, encode
from headwater.public.marginals.draw import PAIR_POWER, Constraint, rake, select
from headwater.public.marginals.measured import Measured, NoisyTable
from headwater.public.marginals.model import MarginalsModel, without_nulls
from headwater.public.marginals.smooth import fit_margins
from headwater.public.marginals.tables import bin_of, distinct, widths
from headwater.public.marginals.tree import Pair
from headwater.public.partition import Floats, Integers, Points
from headwater.public.protocol import AnySchema
from headwater.public.replicates import Arrivals, fresh_gaussian, fresh_joint, fresh_laplace, positions, spread, whole

NORMAL = np.sqrt(2 / np.pi)
PASSES = 6
"""Of raking."""
LOSS = 0.7
"""The error of a measured pair, as a part of what its noise alone would make."""
TOGETHER = 0.7
"""The part of it that is not of single cells."""
ROWS = 0.5
"""How far rows of a pair may be shifted where no count says otherwise, relatively."""
SHARPER = 2.0
"""Shrinking flattens dependence: it may be so many times the expected loss stronger."""
SHARED = 0.8
"""How much of the scores of a column is the same in all pairs."""
UNMEASURED = 1.3
"""Total variation of pairs that were not measured, as a multiple of the loss of those that were."""
MOST, UNKNOWN = 0.07, 0.12
"""The same at most; and where no pair was measured."""
TELLING = 1 / 50
"""Tables of a smaller part of the precision of the best one do not say where bins end."""
TIMES = 8
"""Parts of a release between which it is seen how far columns move."""
MOVING = 1.0
"""How much of that cannot be foreseen."""
INSIDE = (0.2, 2.2)
"""How much of the dependence between bins goes on inside them."""

_GRID = np.linspace(1e-4, 1 - 1e-4, 2001)
_SCORES = np.array([NormalDist().inv_cdf(x) for x in _GRID])


def normal_score(shares: Floats) -> Floats:
    found: Floats = np.interp(shares, _GRID, _SCORES)
    return found


def precision(table: NoisyTable) -> float:
    """Of the share of one cell."""
    return (table.end - table.start) ** 2 / max(table.variance, 1e-9)


class MarginalsAround:
    """As `headwater.public.replicates.Around` describes it."""

    def __init__(self, measured: Measured, schema: AnySchema, model: MarginalsModel, rows: int) -> None:
        self.schema, self.model, self.rows, self.codings = schema, model, rows, codings(schema)
        self.measured = without_nulls(measured)
        self.tables = [table for table in self.measured.tables if table.end > table.start]
        self.positions, columns = positions(schema), range(len(self.codings))
        self.finest = [self._finest(column) for column in columns]
        self.grids, self.deviations = zip(*(self._margin(column) for column in columns), strict=True)
        pairs: dict[Pair, list[NoisyTable]] = {}
        for table in self.tables:
            if len(table.columns) == 2:
                pairs.setdefault((table.columns[0], table.columns[1]), []).append(table)
        self.pairs = {pair: self._pair(tables) for pair, tables in pairs.items()}
        self.signs = self._signs(encode(model.sample(min(rows, 8192), 0), schema).T)

    def __call__(self, rng: np.random.Generator) -> tuple[Points, Points]:
        truth = self.truth(rng)
        fit = MarginalsModel.fit(self.again(truth, rng), self.schema, 0)
        return truth, fit.sample(self.rows, int(rng.integers(1 << 60)))

    # ---- a truth

    def truth(self, rng: np.random.Generator) -> Points:
        points = self.model.arrivals(self.rows, rng)
        codes = encode(points, self.schema).T.astype(np.int64)
        perturbed = Perturbed(self, codes, rng)
        chosen = select(perturbed.weights(), np.arange(self.rows), self.rows, rng)
        points, codes = points[chosen], codes[:, chosen]
        earlier = np.exp(perturbed.tilts(self.rows)[1])[chosen]
        self.earlier = select(earlier / earlier.sum(), rng.permutation(self.rows), self.rows, rng)
        places = np.array([one.of(points[:, column], rng) for column, one in enumerate(self.positions)])
        places = self._together(places, codes, rng)
        for column, (position, edges) in enumerate(zip(self.positions, self.finest, strict=True)):
            if self.codings[column].ordered:
                part = np.searchsorted(edges, places[column], side="right") - 1
                low, high = edges[part], (edges + widths(edges, self.codings[column].size))[part]
                places[column] = position.roughened(places[column], low.astype(float), high.astype(float), rng)
            points[:, column] = position.places(places[column])
        return points

    def _together(self, places: Floats, codes: Integers, rng: np.random.Generator) -> Floats:
        """Places inside bins that depend on other columns nearly as the bins do."""
        bins = [self.bins(column, self.grids[column], codes) for column in range(len(codes))]
        shares = [np.bincount(b, minlength=len(g)) / self.rows for b, g in zip(bins, self.grids, strict=True)]
        upper = [np.cumsum(share) for share in shares]
        scores = [normal_score(up - share / 2) for up, share in zip(upper, shares, strict=True)]
        found = places.copy()
        ordered = [coding.ordered for coding in self.codings]
        columns = np.array([score[b] - score[b].mean() for score, b in zip(scores, bins, strict=True)])
        for column in np.flatnonzero(ordered):
            grid = self.grids[column]
            if len(grid) < 2 or len(grid) == self.codings[column].size or len(codes) < 2:
                continue
            y, others = columns[column], []
            for other in range(len(codes)):
                if other != column and ordered[other]:
                    others.append(columns[other])
                elif other != column:
                    held = np.bincount(bins[other], minlength=len(shares[other]))
                    means = np.bincount(bins[other], y, minlength=len(held)) / np.maximum(held, 1)
                    others.append(means[bins[other]])
            x = np.array(others)
            square = x @ x.T / self.rows
            square[np.diag_indices(len(square))] += 1e-3 * np.trace(square) / len(square) + 1e-9
            slope = np.linalg.solve(square, x @ y / self.rows)
            left, total = max(float(np.mean((y - slope @ x) ** 2)), 0.02), float(np.mean(y * y))
            unsure = np.sqrt(0.1 * total / len(slope) / np.maximum((x * x).mean(1), 1e-6))
            said = (slope + 0.3 * rng.normal(size=len(slope)) * unsure) @ x
            held = np.maximum(np.bincount(bins[column], minlength=len(grid)), 1)
            mean = np.bincount(bins[column], said, minlength=len(grid)) / held
            spread_ = np.bincount(bins[column], said**2, minlength=len(grid)) / held - mean**2
            deviation = np.sqrt(np.maximum(spread_, 1e-12))
            ends = normal_score(np.clip(upper[column], 1e-3, 1 - 1e-3))
            wide = ends - normal_score(np.clip(upper[column] - shares[column], 1e-3, 1 - 1e-3))
            slant = rng.uniform(*INSIDE) * deviation * wide / (np.sqrt(12) * left)
            weight = (slant / np.sqrt(1 + slant**2))[bins[column]]
            key = weight * (said - mean[bins[column]]) / deviation[bins[column]]
            key += np.sqrt(1 - weight**2) * rng.normal(size=self.rows)
            by_place, by_key = np.lexsort((places[column], bins[column])), np.lexsort((key, bins[column]))
            found[column, by_key] = places[column, by_place]
        return found

    def bins(self, column: int, edges: Integers, codes: Integers) -> Integers:
        found: Integers = bin_of(edges, self.codings[column].size).take(codes[column]).astype(np.int64)
        return found

    # ---- what its tables say

    def again(self, points: Points, rng: np.random.Generator) -> Measured:
        codes, found = encode(points, self.schema).T.astype(np.int64), list[NoisyTable]()
        known: dict[tuple[int, bytes], Integers] = {}
        arrivals = Arrivals(
            len(points), self.measured.start, self.measured.t - self.measured.start, rng.permutation(self.earlier)
        )
        noise = self._joint_noise(rng)
        for number, table in enumerate(self.tables):
            records = arrivals(table.start, table.end)
            cells = np.zeros(len(records), dtype=np.int64)
            for column, edges in zip(table.columns, table.edges, strict=True):
                key = column, edges.tobytes()
                if key not in known:
                    known[key] = self.bins(column, edges, codes)
                cells = cells * len(edges) + known[key][records]
            held = np.bincount(cells, minlength=table.counts.size) * ((table.end - table.start) / len(records))
            found.append(_published(table, whole(held, rng), noise.get(number), rng))
        return replace(self.measured, tables=tuple(found))

    def _joint_noise(self, rng: np.random.Generator) -> dict[int, Integers]:
        groups: dict[tuple[int, int, int], list[int]] = {}
        for number, table in enumerate(self.tables):
            if table.joint:
                groups.setdefault((table.start, table.end, table.joint), []).append(number)
        found = dict[int, Integers]()
        for group in groups.values():
            sizes = [size for number in group for size in _sizes(self.tables[number])]
            drawn = iter(fresh_joint(self.tables[group[0]].scale, sizes, rng))
            for number in group:
                found[number] = np.concatenate([next(drawn) for _ in _sizes(self.tables[number])])
        return found

    # ---- how sure counts are

    def _finest(self, column: int) -> Integers:
        """The finest bins that any telling table of a column has."""
        best = dict[tuple[int, ...], float]()
        tables = [table for table in self.tables if column in table.columns]
        for table in tables:
            best[table.columns] = max(best.get(table.columns, 0.0), precision(table))
        edges = [np.zeros(1, dtype=np.int64)]
        if self.codings[column].missing:
            edges.append(np.array([self.codings[column].values]))
        telling = [table for table in tables if precision(table) >= TELLING * best[table.columns]]
        edges += [table.edges[table.columns.index(column)] for table in telling]
        return distinct(np.concatenate(edges))

    def _margin(self, column: int) -> tuple[Integers, Floats]:
        """Bins of a column, and the deviation of the share of each."""
        known = [table for table in self.tables if column in table.columns]
        if not known:
            edges = np.array([0, self.codings[column].values][: 1 + self.codings[column].missing])
            return edges, np.full(len(edges), 0.5 * (len(edges) > 1))
        several = [len(table.edges[table.columns.index(column)]) for table in known]
        each = [precision(table) * size / table.counts.size for table, size in zip(known, several, strict=True)]
        best = int(np.argmax([one * size for one, size in zip(each, several, strict=True)]))
        edges, size = known[best].edges[known[best].columns.index(column)], several[best]
        whole_ = sum(one * other / size for one, other in zip(each, several, strict=True) if 2 * other >= size)
        return edges, np.full(size, 1 / np.sqrt(whole_))

    def _pair(self, tables: list[NoisyTable]) -> tuple[tuple[Integers, ...], float]:
        best = max(tables, key=precision)
        cells = best.counts.size
        return best.edges, 1 / np.sqrt(
            sum(precision(table) * table.counts.size / cells for table in tables if 2 * table.counts.size >= cells)
        )

    def _signs(self, codes: Any) -> Floats:  # noqa: ANN401 - an array of codes
        """The direction in which each ordered column goes with what they have most in common."""
        ordered, signs = np.flatnonzero([coding.ordered for coding in self.codings]), np.ones(len(codes))
        if len(ordered) > 1 and codes.shape[1] > 1:
            values = codes[ordered].astype(float)
            values += np.random.default_rng(0).normal(size=values.shape) * 1e-6
            signs[ordered] = np.where(np.linalg.eigh(np.corrcoef(values))[1][:, -1] < 0, -1, 1)
        return signs


class Perturbed:
    """One draw of what the tables left open, as weights of records."""

    def __init__(self, around: MarginalsAround, codes: Integers, rng: np.random.Generator) -> None:
        self.around, self.rng, self.common, self.shifts = around, rng, dict[int, Floats](), dict[int, Floats]()
        columns = range(len(codes))
        self.bins = [around.bins(column, around.grids[column], codes) for column in columns]
        self.base = [np.bincount(self.bins[c], minlength=len(around.grids[c])) / codes.shape[1] for c in columns]
        self.margins = [spread(*pair, rng) for pair in zip(self.base, around.deviations, strict=True)]
        self.constraints = list[Constraint]()
        losses = []
        for pair, (edges, deviation) in around.pairs.items():
            first, second = (around.bins(c, e, codes) for c, e in zip(pair, edges, strict=True))
            size = len(edges[0]), len(edges[1])
            cells = first * size[1] + second
            table = np.bincount(cells, minlength=size[0] * size[1]).reshape(size) / codes.shape[1]
            found, loss = self.pair(pair, table, deviation, codes, edges)
            losses.append(loss / np.sqrt(np.prod([np.count_nonzero(table.sum(1 - axis) > 1e-3) for axis in (0, 1)])))
            self.constraints.append(Constraint(cells, found.ravel(), PAIR_POWER))
        for cells, margin in zip(self.bins, self.margins, strict=True):
            self.constraints.append(Constraint(cells, margin, 1.0))
        unit = float(np.mean(losses)) if losses else None
        self.counts = np.ones(codes.shape[1])
        for a, b in combinations(columns, 2):
            if (a, b) not in around.pairs:
                size_ = np.sqrt(np.count_nonzero(self.base[a] > 1e-3) * np.count_nonzero(self.base[b] > 1e-3))
                far = UNKNOWN if unit is None else min(UNMEASURED * unit * size_ + 0.001, MOST)
                room = min(1 - self.base[a].max(), 1 - self.base[b].max())
                far = min(far * np.exp(0.5 * rng.normal() - 0.125), room) / 0.318
                left, right = (self.score(c, self.base[c]) for c in (a, b))
                self.counts *= np.maximum(1 + far * left[self.bins[a]] * right[self.bins[b]], 0.05)

    def tilts(self, rows: int) -> tuple[Floats, Floats]:
        """How much likelier each record is at its time, and before a window, in streams that move as this one does.

        Each column moves along random scores, from one of `TIMES` to the next as far as it did in the release.
        """
        window = self.around.measured.t - self.around.measured.start
        gap = np.sqrt(TIMES * min(self.around.measured.start / max(window, 1), 1.0))
        now, before, time = np.zeros(rows), np.zeros(rows), np.arange(rows) * TIMES // rows
        for column, bins in enumerate(self.bins):
            size = len(self.base[column])
            shares = np.bincount(time * size + bins, minlength=TIMES * size).reshape(TIMES, size) * (TIMES / rows)
            moved = (np.diff(shares, axis=0) ** 2 / np.maximum(self.base[column], 1e-9)).sum(1).mean()
            step = MOVING * np.sqrt(max(moved - 2 * size * TIMES / rows, 0.0))
            if not step or rows < TIMES:
                continue
            path = np.concatenate([[0.0], np.cumsum(self.rng.normal(size=TIMES - 1))])
            now += np.clip(step * self.score(column, self.base[column])[bins] * (path - path.mean())[time], -2, 2)
            score = self.score(column, self.base[column])[bins]
            before += np.clip(step * gap * score * self.rng.normal(), -2, 2)
        return now, before

    def weights(self) -> Floats:
        counts = self.counts * np.exp(self.tilts(len(self.counts))[0])
        counts /= counts.mean()
        return rake(self.constraints, len(counts), PASSES, counts)[0]

    def pair(
        self, pair: Pair, table: Floats, deviation: float, codes: Integers, edges: tuple[Integers, ...]
    ) -> tuple[Floats, float]:
        rng, rows, columns = self.rng, table.sum(1), table.sum(0)
        cell = np.minimum(deviation, table + deviation / 4)
        loss = LOSS * NORMAL * float(cell.sum()) / 2
        ratio = np.clip(table / np.maximum(np.outer(rows, columns), 1e-9), 0.05, 20)
        strength = max(float(np.abs(table * np.log(ratio)).sum()) / 2, loss, 1e-9)
        moved = table * ratio ** (rng.uniform(0, SHARPER) * loss / strength)
        cell = cell * LOSS * np.sqrt(1 - TOGETHER**2)
        moved = spread(moved.ravel(), cell.ravel(), rng).reshape(table.shape)
        factor = np.zeros_like(table)
        for axis, (held, across) in enumerate(((rows, columns), (columns, rows))):
            score = self.score(pair[1 - axis], across, edges[1 - axis])
            known = held**2 * float(((across * score) ** 2).sum()) / deviation**2
            shift = self.shift(pair[axis], len(held)) / np.sqrt(1 / ROWS**2 + known)
            shift -= held @ shift
            factor += np.outer(shift, score) if axis == 0 else np.outer(score, shift)
        moved *= np.clip(1 + factor, 0.1, 4)
        targets = []
        for c, own, base in zip(pair, edges, (rows, columns), strict=True):
            same = np.array_equal(own, self.around.grids[c])
            targets.append(self.margins[c] if same else base)
        return fit_margins(moved, targets[0], targets[1], passes=20), loss

    def score(self, column: int, shares: Floats, edges: Integers | None = None) -> Floats:
        """A random function of a column, centred, of variance 1: partly the same for all pairs of this draw."""
        size = self.around.codings[column].size
        at = self.around.grids[column] if edges is None else edges
        middle = (at + widths(at, size) / 2) / size
        if column not in self.common:
            self.common[column] = self.fresh(column)
        found = SHARED * self.common[column] + np.sqrt(1 - SHARED**2) * self.fresh(column)
        grid = self.around.grids[column]
        on_bins = found[np.searchsorted(grid, middle * size, side="right") - 1]
        on_bins = on_bins - shares @ on_bins
        normed: Floats = on_bins / max(float(np.sqrt(shares @ on_bins**2)), 1e-9)
        return normed

    def fresh(self, column: int) -> Floats:
        base, rng = self.base[column], self.rng
        if not self.around.codings[column].ordered:
            found: Floats = rng.normal(size=len(base)) * np.maximum(base, 1e-3) ** -0.25
            return found
        x = (np.cumsum(base) - base / 2 - 0.5) * np.sqrt(12)
        bent = 0.5 * rng.normal() * (x * x - 1) + 0.3 * rng.normal(size=len(base))
        clipped: Floats = np.clip(self.around.signs[column] * x + bent, -2.5, 2.5)
        return clipped

    def shift(self, column: int, size: int) -> Floats:
        """Random shifts of the rows of a column: the same in part for all pairs, if it is a list."""
        fresh = self.rng.normal(size=size)
        if self.around.codings[column].ordered:
            return fresh
        common = self.shifts.setdefault(column, self.rng.normal(size=size))
        return fresh if len(common) != size else SHARED * common + np.sqrt(1 - SHARED**2) * fresh


def _sizes(table: NoisyTable) -> list[int]:
    """Of the parts of a table in a joint draw."""
    return [1] * (1 + (table.present is not None)) if table.counts.shape == (2,) else [table.counts.size]


def _published(table: NoisyTable, true: Integers, noise: Integers | None, rng: np.random.Generator) -> NoisyTable:
    if noise is None:
        fresh = fresh_gaussian if table.gaussian else fresh_laplace
        noise = fresh(table.scale, sum(_sizes(table)), rng)
    span = table.end - table.start
    if table.counts.shape == (2,):  # two counts that sum to the records of the span have one noise
        one = int(true[1] + noise[0])
        present = None if table.present is None else int(span + noise[1])
        return replace(table, counts=np.array([span - one, one]), present=present)
    if table.counts.size == 1:
        return replace(table, counts=np.array([span]).reshape(table.counts.shape))
    return replace(table, counts=(true + noise).reshape(table.counts.shape))
