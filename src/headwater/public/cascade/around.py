"""Truths near a density of cascade, and their trees measured again.

What is perturbed: how each split cell is divided, as far as the noise of its counts goes; and inside the cells, along
each axis, one random measure for all of them: what cells leave open is alike in all of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headwater.public.cascade.counts import SIGNIFICANCE, NoisyCounts, pool
from headwater.public.cascade.estimate import ALL, estimate, leaf_masses
from headwater.public.cascade.history import History, Measured
from headwater.public.cascade.model import CascadeModel
from headwater.public.cascade.tree import Tree, possible
from headwater.public.cells import corners, round_in_order, sample
from headwater.public.laws import laplace_scale
from headwater.public.partition import Cells, Floats, Integers, Points
from headwater.public.protocol import AnySchema
from headwater.public.replicates import Arrivals, fresh_laplace, positions, whole

LEAST = 0.005  # no half is taken to hold less of its cell when it is perturbed: what was not seen may be there


class CascadeAround:
    """As `headwater.public.protocol.Around` describes it."""

    def __init__(self, measured: Measured, schema: AnySchema, rows: int) -> None:
        self.measured, self.schema, self.rows, self.partition = measured, schema, rows, measured.history.partition
        pools, counted = measured.pools()
        self.density = density = estimate(pools, measured.uncovered, self.partition, counted)
        self.tree = density.tree
        mass = density.mass[[row for row, counts in enumerate([*counted, True]) if counts]].sum(0)
        self.total, nodes = float(mass[0]), self.tree.split_nodes()
        held = np.maximum(mass[nodes], 1e-9)
        self.left = np.clip(mass[1 + 2 * np.arange(len(nodes))] / held, 0, 1)
        self.deviation = np.minimum(np.sqrt(density.variance) / held, 0.5)
        self.cells, self.depths, _ = leaf_masses(density, ALL)
        self.low, self.side = corners(self.partition, self.cells, self.depths)
        self.good = _good(measured)
        self.positions = positions(schema)

    def __call__(self, rng: np.random.Generator) -> tuple[Points, Points]:
        truth = self.truth(rng)
        fit = CascadeModel.fit(self.again(truth, rng), self.schema, int(rng.integers(1 << 60)))
        return truth, fit.sample(self.rows, int(rng.integers(1 << 60)))

    def truth(self, rng: np.random.Generator) -> Points:
        counts = round_in_order(self._masses(rng), self.rows, rng.random())
        points = sample(self.partition, self.cells, self.depths, counts, rng, even=True)
        leaf = np.repeat(np.arange(len(counts)), counts)
        for axis, position in enumerate(self.positions):
            kind = self.partition.axes[axis]
            wide = self.side[:, axis] * (kind.unit if kind.values is not None else 1.0)
            low, high = (position.edges(ends) for ends in (self.low[:, axis], self.low[:, axis] + wide))
            high = np.minimum(high, float(position.values))
            places = position.of(points[:, axis], rng)
            points[:, axis] = position.places(position.roughened(places, low[leaf], high[leaf], rng))
        return rng.permutation(points)

    def _masses(self, rng: np.random.Generator) -> Floats:
        """Of the leaves, with every split drawn anew."""
        inner = np.clip(self.left, LEAST, 1 - LEAST)
        form = np.clip(inner * (1 - inner) / np.maximum(self.deviation, 1e-4) ** 2 - 1, 0.3, 1e6)
        drawn = rng.beta(inner * form, (1 - inner) * form)
        left = np.where((self.deviation > 1e-4) & (self.left > 0) & (self.left < 1), drawn, self.left)
        mass = np.zeros(2 * self.tree.size - 1)
        mass[0] = self.total
        for here, nodes in self.tree.layers():
            held = mass[nodes]
            mass[2 * here.start + 1 : 2 * here.stop : 2] = held * left[here]
            mass[2 * here.start + 2 : 2 * here.stop + 1 : 2] = held * (1 - left[here])
        return leaf_masses(replace(self.density, mass=mass[None]), ALL)[2]

    def again(self, points: Points, rng: np.random.Generator) -> Measured:
        """What would have been published of this truth, with fresh noise."""
        cells = self.partition.cells(points, self.partition.deepest)
        whole_ = self.measured
        arrivals = Arrivals(len(points), whole_.start, whole_.t - whole_.start, rng.permutation(len(points)))

        def of_part(part: NoisyCounts) -> NoisyCounts:
            records = arrivals(part.start, part.end)
            times = self.good * part.points / len(records)
            held = whole(_leaves(cells[records], self.partition.deepest, part.tree) * times, rng)
            counts = held + fresh_laplace(laplace_scale(part.variance), len(held), rng)
            counts[~possible(part.tree, self.partition)] = 0
            return replace(part, counts=counts, coarse=())

        def of(bucket: NoisyCounts) -> NoisyCounts:
            return replace(of_part(bucket), coarse=tuple(of_part(part) for part in bucket.coarse))

        history = whole_.history
        slow, recent = (tuple(of(bucket) for bucket in some) for some in (history.slow, history.recent))
        again = History(self.partition, history.epsilon, slow, recent, pool(slow, self.partition))
        return replace(whole_, history=again, fast=tuple(of(bucket) for bucket in whole_.fast))


def _good(measured: Measured) -> float:
    """The share of records that are not null."""
    pooled = measured.history.pooled
    if pooled.tree.size == 1:
        return 1.0
    left, right, var_left, var_right, points = (float(values[0]) for values in pooled.values)
    lack = points - left - right
    return 1.0 if lack <= SIGNIFICANCE * np.sqrt(var_left + var_right) else max((left + right) / points, 0.05)


def _leaves(cells: Cells, depth: int, tree: Tree) -> Integers:
    """How many of these cells are in each leaf of a tree."""
    first, _ = tree.edges(depth)
    order = np.argsort(first)
    found = order[np.searchsorted(first[order], cells.astype(np.int64), side="right") - 1]
    return np.bincount(found, minlength=tree.size)
