"""The distribution of records over bins: a tree of two-way tables per span of time, raked to all measured pairs.

The share of a record is what the tree says, times one factor for each measured pair and one for each column and span.
Drawn records are raked, so the factors themselves are needed only where records fit a condition and cannot be raked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headwater.mechanisms.marginals.draw import Codes, Integers, draw_tree, grouped, select, sorting, tree_laws
from headwater.mechanisms.marginals.estimate import Estimate, time_joint
from headwater.mechanisms.marginals.fitting import fit_margins
from headwater.mechanisms.marginals.grid import Floats
from headwater.mechanisms.marginals.rake import PAIR_POWER, Constraint, rake
from headwater.mechanisms.marginals.tree import Forest, Pair, conditional, joint

POOL = 1 << 16
"""Records that factors are found with."""
PREDICTED = 1 << 15
"""Records that predictions are made with: only what raking changes is taken from them."""
PASSES = 6
"""Of raking."""
CANDIDATES = 4
"""For each record that fits a condition; weighted by the factors."""
STEEPEST = 30.0
"""Of a candidate's weight, up or down: products of many factors of rare cells are not to be taken at their word."""


@dataclass(frozen=True, eq=False)
class LogLinear:
    """A distribution over bins and spans of time.

    Parameters
    ----------
    estimate
        Margins, ratios of pairs and the tree.
    """

    estimate: Estimate

    @cached_property
    def forest(self) -> Forest:
        """The tree."""
        return Forest(self.estimate.tree, len(self.estimate.margins))

    @cached_property
    def shares(self) -> Floats:
        """The part of the records in each span."""
        sizes = np.diff(self.estimate.edges)
        shares: Floats = sizes / sizes.sum()
        return shares

    @cached_property
    def joints(self) -> dict[Pair, Floats]:
        """Tables of all measured pairs in every span."""
        return {pair: time_joint(ratio, self.estimate.margins, pair) for pair, ratio in self.estimate.ratios.items()}

    def draw(self, rows: int, rng: np.random.Generator) -> Codes:
        """So many records by bins, of shape ``(columns, rows)``."""
        if rows == 0:
            return np.empty((len(self.estimate.margins), 0), dtype=np.uint16)
        laws = tree_laws(self.forest, self.joints, self.estimate.margins, self.shares)
        records, spans = draw_tree(self.forest, laws, rows, rng)
        if not self.joints:
            return records
        records, spans, counts = grouped(records, spans, self._order(records, spans))
        weights, _ = rake(
            _constraints(records, spans, self.joints, self.estimate.margins, self.shares), rows, PASSES, counts
        )
        return records.take(select(weights, np.arange(len(counts)), rows, rng), axis=1)

    def draw_where(self, rows: int, evidence: Mapping[int, Floats], rng: np.random.Generator) -> Codes:
        """So many records that fit evidence: for some columns, the probability that a record of each bin fits."""
        laws = tree_laws(self.forest, self.joints, self.estimate.margins, self.shares, evidence)
        records, spans = draw_tree(self.forest, laws, CANDIDATES * rows, rng)
        order = self._order(records, spans)
        return records.take(select(self._weights(records, spans), order, rows, rng), axis=1) if rows else records

    def pairs(self, wanted: Sequence[Pair], start: float, end: float, pool: int = PREDICTED) -> list[Floats]:
        """The two-way tables of pairs in a span of arrivals.

        What the tree says is exact; what raking changes is the difference of raked and plain records of a pool.
        """
        shares = self._overlap(start, end)
        inside = shares > 0
        shares, margins = shares[inside], tuple(margin[inside] for margin in self.estimate.margins)
        joints = {pair: time_joint(ratio, margins, pair) for pair, ratio in self.estimate.ratios.items()}
        laws = {(a, b): conditional(joint(joints, a, b)) for e in self.estimate.tree for a, b in (e, e[::-1])}
        from_first = {first: self.forest.tables_from(first, joints, laws) for first in {pair[0] for pair in wanted}}
        found = [
            np.tensordot(shares, from_first[a][b], 1)
            if b in from_first[a]
            else (margins[a] * shares[:, None]).T @ margins[b]
            for a, b in wanted
        ]
        if len(joints) == len(self.estimate.tree):
            return found
        records, spans = draw_tree(
            self.forest, tree_laws(self.forest, joints, margins, shares), pool, np.random.default_rng(0)
        )
        change = rake(_constraints(records, spans, joints, margins, shares), pool, PASSES)[0] - 1 / pool
        totals = [shares @ margin for margin in margins]
        for number, ((a, b), table) in enumerate(zip(wanted, found, strict=True)):
            moved = np.bincount(cells_of(records[a], records[b], table.shape[1]), change, minlength=table.size)
            table = np.maximum(table + moved.reshape(table.shape), 0)
            found[number] = fit_margins(table, totals[a], totals[b], passes=3)
        return found

    def independent(self, wanted: Sequence[Pair], start: float, end: float) -> list[Floats]:
        """What independence inside every span of time says of pairs."""
        shares, margins = self._overlap(start, end), self.estimate.margins
        return [(margins[a] * shares[:, None]).T @ margins[b] for a, b in wanted]

    def _overlap(self, start: float, end: float) -> Floats:
        """The part of some arrivals that lies in each span."""
        edges = self.estimate.edges
        held = np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], start), 0, None)
        return held / held.sum() if held.sum() > 0 else self.shares

    @cached_property
    def factors(self) -> list[Floats]:
        """One table of factors for each constraint."""
        laws = tree_laws(self.forest, self.joints, self.estimate.margins, self.shares)
        records, spans = draw_tree(self.forest, laws, POOL, np.random.default_rng(0))
        return rake(_constraints(records, spans, self.joints, self.estimate.margins, self.shares), POOL, PASSES)[1]

    def _weights(self, records: Codes, spans: Codes) -> Floats:
        """How much more often each record occurs than the tree says."""
        log = np.zeros(records.shape[1])
        for constraint, factor in zip(
            _constraints(records, spans, self.joints, self.estimate.margins, self.shares), self.factors, strict=True
        ):
            log += np.log(factor)[constraint.cells]
        log -= log.mean() if len(log) else 0
        return np.exp(np.clip(log, -np.log(STEEPEST), np.log(STEEPEST)))

    def _order(self, records: Codes, spans: Codes) -> Integers:
        """Records sorted by time and by the columns of most measured pairs, for systematic sampling along them."""
        measured = [column for pair in self.joints for column in pair]
        ranked = sorted(range(len(records)), key=lambda c: -measured.count(c))
        sizes = [len(self.shares), *(self.estimate.margins[c].shape[1] for c in ranked)]
        return sorting([spans, *(records[c] for c in ranked)], sizes, 1 << 44)


def cells_of(rows: Codes, columns: Codes, width: int) -> Integers:
    """The cell of each record in a table of so many columns."""
    cells = rows.astype(np.int64)
    cells *= width
    cells += columns
    return cells


def _constraints(
    records: Codes, spans: Codes, joints: Mapping[Pair, Floats], margins: Sequence[Floats], shares: Floats
) -> list[Constraint]:
    """All that records should meet: measured pairs, then the margins of every span."""
    found = []
    for (a, b), table in joints.items():
        target = np.tensordot(shares, table, 1)
        found.append(Constraint(cells_of(records[a], records[b], target.shape[1]), target.ravel(), PAIR_POWER))
    for column, margin in enumerate(margins):
        target = (margin * shares[:, None]).ravel()
        found.append(Constraint(cells_of(spans, records[column], margin.shape[1]), target, 1.0))
    return found
