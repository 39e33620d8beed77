"""Records of a tree of two-way tables, drawn with little sampling noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from headwater.public.chunks import each_chunk, in_parallel
from headwater.public.marginals.codes import Codes
from headwater.public.marginals.tree import Forest, Pair, conditional, joint
from headwater.public.partition import Floats, Integers

PAIR_POWER = 0.5
"""Factors of pairs are damped: their targets come from noisy tables and need not agree with each other."""
LEAST = 0.5
"""Records added to what a cell holds and to what it should hold: below one record a ratio says nothing."""


@dataclass(frozen=True)
class Constraint:
    """A marginal to be met: which cell each record is in, the share each cell should have, and a damping power."""

    cells: NDArray[np.int64]
    target: Floats
    power: float


def rake(
    constraints: Sequence[Constraint], records: int, passes: int, counts: Floats | NDArray[np.int64] | None = None
) -> tuple[Floats, list[Floats]]:
    """Weights of records that nearly meet all constraints, and the factor of every cell that led to them."""
    weights = np.full(records, 1 / records) if counts is None else counts / records
    least = LEAST / records
    factors = [np.ones_like(c.target) for c in constraints]
    for _ in range(passes):
        for constraint, factor in zip(constraints, factors, strict=True):
            held = np.bincount(constraint.cells, weights, minlength=len(constraint.target))
            step = ((constraint.target + least) / (held + least)) ** constraint.power
            factor *= step
            weights *= step.take(constraint.cells)
        weights /= weights.sum()
    return weights, factors


NO_RECORD = "the release holds no record that fulfils these conditions; ask for less"
RUN = 32
"""Records over which the numbers that values are drawn with are even."""
ALIKE = 4
"""Records that are alike in a sorting key, on average, so that a run holds few different ones."""
MOST_CELLS = 1 << 18
"""That a line of steps is cut into, to look values up: as many as stay in the processor's cache."""


@dataclass(frozen=True)
class Laws:
    """What records are drawn from, column by column: the share of each span, and each column's law given its parent."""

    spans: Floats
    given: dict[int, Floats]


def tree_laws(
    forest: Forest,
    joints: Mapping[Pair, Floats],
    margins: Sequence[Floats],
    spans: Floats,
    evidence: Mapping[int, Floats] | None = None,
) -> Laws:
    """The laws of a tree, conditioned on evidence: for some columns the probability of the evidence in each bin."""
    given: dict[int, Floats] = {}
    below: dict[int, Floats] = {c: e[None] for c, e in (evidence or {}).items()}
    for column in reversed(forest.parent):
        parent = forest.parent[column]
        law = margins[column][:, None] if parent is None else conditional(joint(joints, parent, column))
        if column in below:
            law = law * below[column][:, None]
            likely = law.sum(-1)
            if parent is None:
                spans = spans * likely[:, 0]
            else:
                below[parent] = below[parent] * likely if parent in below else likely
        given[column] = law
    if not spans.sum() > 0:
        raise ValueError(NO_RECORD)
    return Laws(spans / spans.sum(), given)


def draw_tree(forest: Forest, laws: Laws, rows: int, rng: np.random.Generator) -> tuple[Codes, Codes]:
    """Records by bins, of shape ``(columns, rows)``, and the span of each."""
    upper = np.minimum(np.floor(np.cumsum(laws.spans) * rows + rng.random()), rows)
    upper[-1] = rows
    spans = np.repeat(np.arange(len(upper), dtype=np.uint16), np.diff(upper, prepend=0).astype(np.int64))
    records = np.empty((len(laws.given), rows), dtype=np.uint16)
    drawn: list[int] = []
    for column, parent in forest.parent.items():
        law = laws.given[column]
        near = [] if parent is None else _nearest(forest, parent, drawn)
        sizes = [len(upper), *(laws.given[c].shape[2] for c in near)]
        keys = [spans, *(records[c] for c in near)]
        order, uniform = in_parallel(
            rows, partial(sorting, keys, sizes, min(rows // ALIKE, 1 << 16)), partial(even_numbers, rows, rng)
        )
        _draw_column(records[column], law, spans, None if parent is None else records[parent], order, uniform)
        drawn.append(column)
    return records, spans


def _draw_column(
    into: Codes, law: Floats, spans: Codes, parents: Codes | None, order: Integers, uniform: Floats
) -> None:
    """Draw a column along an order of the records, given their spans and their values of the parent column."""
    inverse = Inverse(law.reshape(-1, law.shape[2]), len(into))

    def draw(chunk: slice) -> None:
        at = order[chunk]
        given = spans.take(at).astype(np.int64)
        if parents is not None:
            given *= law.shape[1]
            given += parents.take(at)
        into[at] = inverse(given, uniform[chunk])

    each_chunk(len(into), draw)


def even_numbers(count: int, rng: np.random.Generator) -> Floats:
    """Random numbers of ``[0, 1)``: each `RUN` consecutive ones have one in every `RUN`-th part, in random order."""
    keys = rng.integers(0, 1 << 32, (-(-count // RUN), RUN), dtype=np.uint32)
    keys &= np.uint32(-RUN % (1 << 32))
    keys |= np.arange(RUN, dtype=np.uint32)
    keys.sort(axis=1)  # by their random digits: the last ones are then in random order
    keys &= np.uint32(RUN - 1)
    found: Floats = rng.random(count)
    found += keys.ravel()[:count]
    found /= RUN
    return found


def sorting(columns: Sequence[Codes], sizes: Sequence[int], most: int) -> Integers:
    """The order of records sorted by columns, the first one first; records that are alike stay as they are."""
    count, used = 0, 1
    for size in sizes:
        if count > 1 and used * size > most:
            break
        count, used = count + 1, used * size
    if used <= 1 << 16:
        key = columns[0].astype(np.uint16)
        for column, size in zip(columns[1:count], sizes[1:count], strict=True):
            key *= np.uint16(size)
            key += column
        return np.argsort(key, kind="stable")
    long = columns[0].astype(np.int64)
    for column, size in zip(columns[1:count], sizes[1:count], strict=True):
        long *= size
        long += column
    order: Integers = np.argsort(long.astype(np.uint16), kind="stable")
    while used > 1 << 16:
        long >>= 16
        used >>= 16
        order = order.take(np.argsort(long.astype(np.uint16).take(order), kind="stable"))
    return order


class Inverse:
    """Inverse distribution functions: for each record, the value at which its law passes a number."""

    def __init__(self, laws: Floats, rows: int) -> None:
        upper = np.cumsum(laws, axis=1)
        upper /= np.maximum(upper[:, -1:], 1e-300)
        self._width = upper.shape[1] - 1
        self._steps = Steps((upper[:, :-1] + np.arange(len(laws))[:, None]).ravel(), len(laws), rows)

    def __call__(self, given: Integers, uniform: Floats) -> Integers:
        found: Integers = self._steps.up_to(given + uniform) - given * self._width
        np.clip(found, 0, self._width, out=found)  # a law of zeros is never asked for, but by rounding
        return found


class Steps:
    """Steps that rise from 0 to ``end``, counted by looking them up."""

    def __init__(self, steps: Floats, end: int, places: int) -> None:
        self._steps, self._end = steps, end
        self._cells = 1 << max((min(places, MOST_CELLS) // end).bit_length() - 1, 0)  # for each whole
        held = np.bincount(np.ceil(steps * self._cells).astype(np.int64), minlength=end * self._cells + 2)
        self._before = np.cumsum(held, dtype=np.int32)
        self._unsure = held[1:] > 0

    def up_to(self, places: Floats) -> Integers:
        cell = (places * self._cells).astype(np.int64)
        np.minimum(cell, self._end * self._cells, out=cell)
        found = self._before.take(cell).astype(np.int64)
        unsure = np.flatnonzero(self._unsure.take(cell))
        found[unsure] = np.searchsorted(self._steps, places[unsure], side="right")
        return found


def _nearest(forest: Forest, column: int, drawn: Sequence[int]) -> list[int]:
    found, seen = [column], {column}
    for one in found:
        for other in forest.adjacent[one]:
            if other in drawn and other not in seen:
                seen.add(other)
                found.append(other)
    return found


def grouped(records: Codes, spans: Codes, order: Integers) -> tuple[Codes, Codes, Integers]:
    """Records and spans of which neighbours along an order are in no column different are one."""
    begins = np.zeros(len(order), dtype=np.bool_)
    begins[:1] = True
    for column in (spans, *records):
        sorted_ = column.take(order)
        begins[1:] |= sorted_[1:] != sorted_[:-1]
    first = np.flatnonzero(begins)
    at = order.take(first)
    return records.take(at, axis=1), spans.take(at), np.diff(first, append=len(order))


def select(weights: Floats, order: Integers, rows: int, rng: np.random.Generator) -> Integers:
    upper = np.cumsum(weights.take(order))
    steps = np.minimum(np.floor(upper * (rows / upper[-1]) + rng.random()).astype(np.int64), rows)
    steps[-1] = rows
    return np.repeat(order, np.diff(steps, prepend=0))
