"""Records of a tree of two-way tables, drawn with little sampling noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.mechanisms.marginals.grid import Floats
from headwater.mechanisms.marginals.tree import Forest, Pair, conditional, joint

Codes = NDArray[np.int64]

NO_RECORD = "the release holds no record that fulfils these conditions; ask for less"
RUN = 32
"""Records over which the numbers that values are drawn with are even."""
ALIKE = 4
"""Records that are alike in a sorting key, on average, so that a run holds few different ones."""
MOST_CELLS = 1 << 18
"""That a line of steps is cut into, to look values up: as many as stay in the processor's cache."""


@dataclass(frozen=True)
class Laws:
    """What records are drawn from, column by column: the share of each span, and each column's law given its parent.

    ``given[column]`` has the shape ``(spans, bins of the parent, bins)``, or ``(spans, 1, bins)`` of a root.
    """

    spans: Floats
    given: dict[int, Floats]


def tree_laws(
    forest: Forest,
    joints: Mapping[Pair, Floats],
    margins: Sequence[Floats],
    spans: Floats,
    evidence: Mapping[int, Floats] | None = None,
) -> Laws:
    """The laws of a tree, conditioned on evidence: for some columns the probability of the evidence in each bin.

    One pass from the leaves to the roots multiplies what lies below into each column's law.
    """
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
    """Records by bins, of shape ``(columns, rows)``, and the span of each.

    A column is drawn along the records sorted by the columns drawn before, the nearest ones of the tree first, with
    `even_numbers`. So each cell of the columns sorted by gets its share of the new column's values, and many pairs, not
    only those of the tree, have less sampling noise than independent draws.
    """
    upper = np.minimum(np.floor(np.cumsum(laws.spans) * rows + rng.random()), rows)
    upper[-1] = rows
    spans = np.repeat(np.arange(len(upper)), np.diff(upper, prepend=0).astype(np.int64))
    records = np.empty((len(laws.given), rows), dtype=np.int64)
    drawn: list[int] = []
    for column, parent in forest.parent.items():
        law = laws.given[column]
        near = [] if parent is None else _nearest(forest, parent, drawn)
        given = spans if parent is None else spans * law.shape[1] + records[parent]
        sizes = [len(upper), *(laws.given[c].shape[2] for c in near)]
        order = sorting([spans, *records[near]], sizes, min(rows // ALIKE, 1 << 16))
        uniform = even_numbers(rows, rng)
        records[column, order] = invert(law.reshape(-1, law.shape[2]), given[order], uniform)
        drawn.append(column)
    return records, spans


def even_numbers(count: int, rng: np.random.Generator) -> Floats:
    """Random numbers of ``[0, 1)``: each `RUN` consecutive ones have one in every `RUN`-th part, in random order.

    Sequences that are even over every run, such as multiples of an irrational number, are not independent of each
    other: columns that are drawn along nearly the same order would go together.
    """
    keys = rng.integers(0, 1 << 32, (-(-count // RUN), RUN), dtype=np.uint32)
    keys &= np.uint32(-RUN % (1 << 32))
    keys |= np.arange(RUN, dtype=np.uint32)
    keys.sort(axis=1)  # by their random digits: the last ones are then in random order
    keys &= np.uint32(RUN - 1)
    found: Floats = rng.random(count)
    found += keys.ravel()[:count]
    found /= RUN
    return found


def sorting(columns: Sequence[Codes], sizes: Sequence[int], most: int) -> Codes:
    """The order of records sorted by columns, the first one first; records that are alike stay as they are.

    Columns are left out as soon as there would be more than ``most`` different keys, but for the first two. Keys are
    sorted by 16 bits at a time, the lowest first, each in linear time.
    """
    key, used = np.zeros(len(columns[0]), dtype=np.int64), 1
    for number, (column, size) in enumerate(zip(columns, sizes, strict=True)):
        if number > 1 and used * size > most:
            break
        key, used = key * size + column, used * size
    order: Codes = np.argsort(key.astype(np.uint16), kind="stable")
    while used > 1 << 16:
        key, used = key >> 16, used >> 16
        order = order[np.argsort(key.astype(np.uint16)[order], kind="stable")]
    return order


def invert(laws: Floats, given: Codes, uniform: Floats) -> Codes:
    """For each record the value at which the distribution function of its law, a row of ``laws``, passes a number."""
    upper = np.cumsum(laws, axis=1)
    upper /= np.maximum(upper[:, -1:], 1e-300)
    width = upper.shape[1] - 1
    steps = (upper[:, :-1] + np.arange(len(laws))[:, None]).ravel()
    found: Codes = count_up_to(steps, given + uniform, len(laws)) - given * width
    np.clip(found, 0, width, out=found)  # a law of zeros is never asked for, but by rounding
    return found


def count_up_to(steps: Floats, places: Floats, end: int) -> Codes:
    """How many of the steps, which rise from 0 to ``end``, are at or below each place.

    The line is cut into equal cells. Most of them hold no step, so there the answer is known; elsewhere it is searched.
    """
    cells = 1 << max((min(len(places), MOST_CELLS) // end).bit_length() - 1, 0)  # for each whole
    before = np.cumsum(np.bincount(np.ceil(steps * cells).astype(np.int64), minlength=end * cells + 2))
    cell = np.minimum((places * cells).astype(np.int64), end * cells)
    found: Codes = before[cell]
    unsure = np.flatnonzero(before[cell + 1] != found)
    found[unsure] = np.searchsorted(steps, places[unsure], side="right")
    return found


def _nearest(forest: Forest, column: int, drawn: Sequence[int]) -> list[int]:
    """The columns drawn so far, by their distance from a column in the tree; first the column itself."""
    found, seen = [column], {column}
    for one in found:
        for other in forest.adjacent[one]:
            if other in drawn and other not in seen:
                seen.add(other)
                found.append(other)
    return found


def select(weights: Floats, order: Codes, rows: int, rng: np.random.Generator) -> Codes:
    """Exactly so many records in proportion to their weights: systematic sampling along the given order."""
    upper = np.cumsum(weights[order])
    steps = np.minimum(np.floor(upper * (rows / upper[-1]) + rng.random()).astype(np.int64), rows)
    steps[-1] = rows
    return np.repeat(order, np.diff(steps, prepend=0))
