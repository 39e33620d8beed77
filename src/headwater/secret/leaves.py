"""How many points lie in each leaf of a tree, at a few nanoseconds a point.

Leaves are intervals of cell codes. Searching the interval of every code by bisection would take twenty comparisons. A
two-level radix index takes two table look-ups: the first bits of a code select a *row*; each row is cut into equal
*boxes* about as narrow as its narrowest leaf; ``bases[row] + (code >> shifts[row])`` is the box of a code. Points are
counted by box, and a leaf is the sum of its boxes. Boxes that still hold several leaves (*crowded*) are few; their
points are counted again, in a further round whose rows these boxes are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.cascade.tree import Tree
from headwater.public.partition import Flags, Integers
from headwater.secret.batch import Unsigned, distinct_cells

Counted = tuple[Unsigned, NDArray[np.integer[Any]]]  # cells, and how many records each of them stands for
_CHUNK = 1 << 15  # points at a time: what they need stays in the processor's cache
_TOGETHER = 1 << 17  # sorted points at a time, which are counted in neighbouring boxes
_ROWS = 12  # at most 2^12 rows to begin with: their tables stay there as well


def count_leaves(cells: Unsigned, depth: int, tree: Tree) -> Integers:
    """How many of these cells, all of depth ``depth``, lie in each leaf of a tree, in the order of its leaves."""
    size, deepest = len(cells).bit_length(), len(tree.splits) - 1
    if not size:  # all that there is was counted elsewhere: no index is needed
        return np.zeros(tree.size, dtype=np.int64)
    if deepest <= min(size, _ROWS + 2):
        places = (cells >> cells.dtype.type(depth - deepest)).astype(np.int64)
        return _of_boxes(np.bincount(places, minlength=1 << deepest), tree)
    rounds = _index_rounds(tree, depth, min(max(size - 4, 6), _ROWS, depth), cells.dtype)
    counts, rows = np.zeros(tree.size, dtype=np.int64), np.empty(0, dtype=np.int64)
    for number, boxes in enumerate(rounds):
        ends, last = np.zeros(boxes.size + 1, dtype=np.int64), number + 1 == len(rounds)
        further: list[tuple[NDArray[Any], Integers]] = []
        for start in range(0, len(cells), _CHUNK):
            batch = cells[start : start + _CHUNK]
            box = boxes.find(batch, rows[start : start + _CHUNK] if number else None)
            if boxes.size < _CHUNK:
                ends[1:] += np.bincount(box, minlength=boxes.size)
            else:  # slower for a point, but for all other boxes it costs nothing
                np.add.at(ends[1:], box, 1)
            if not last:
                (crowded,) = boxes.crowded.take(box).nonzero()
                further.append((batch[crowded], boxes.rows.take(box[crowded])))
        np.cumsum(ends, out=ends)
        counts[boxes.leaves] = ends.take(boxes.end) - ends.take(boxes.first)
        if further:
            cells, rows = (np.concatenate(parts) for parts in zip(*further, strict=True))
    return counts


def sum_leaves(parts: Sequence[Counted], depth: int, tree: Tree) -> Integers:
    """The sum of the counts of the cells in each leaf, over all parts, in the order of the tree's leaves."""
    deepest, most = len(tree.splits) - 1, max(len(cells) for cells, _ in parts)
    if most < 32 * tree.size and 1 << deepest < 8 * tree.size:  # many leaves of few depths: no search is needed
        return _of_boxes(_sum_boxes(parts, depth - deepest, 1 << deepest), tree)
    order, starts = _in_order(tree, depth, parts[0][0].dtype)
    ends = np.zeros(len(starts) + 1, dtype=np.int64)
    for cells, counts in _together(parts, 8 * tree.size):  # searching all leaves takes as long as sorting so many cells
        sums = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        ends += sums[np.append(np.searchsorted(cells, starts), len(cells))]
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.diff(ends)  # leaves cut the line: each ends where the next starts
    return found


def _together(parts: Sequence[Counted], least: int) -> Iterator[Counted]:
    held = list[Counted]()
    for number, part in enumerate(parts, start=1):
        held.append(part)
        if number == len(parts) or sum(len(cells) for cells, _ in held) >= least:
            yield distinct_cells(*map(np.concatenate, zip(*held, strict=True))) if len(held) > 1 else part
            held = []


def _sum_boxes(parts: Sequence[Counted], above: int, size: int) -> Integers:
    found = np.zeros(size, dtype=np.int64)
    for cells, counts in parts:
        for start in range(0, len(cells), _TOGETHER):
            boxes = cells[start : start + _TOGETHER] >> cells.dtype.type(above)
            np.add.at(found, boxes.astype(np.int64), counts[start : start + _TOGETHER].astype(np.int64))
    return found


@lru_cache(maxsize=8)  # all buckets of one timescale share a few trees
def _in_order(tree: Tree, depth: int, word: np.dtype[Any]) -> tuple[Integers, Unsigned]:
    starts, _ = tree.edges(depth)
    order = np.argsort(starts)
    return order, starts[order].astype(word)


def _of_boxes(counts: Integers, tree: Tree) -> Integers:
    found = list[Integers]()
    for cells, split in reversed(tree.nodes()):
        (leaf,) = (~split).nonzero()
        found.append(counts.take(cells.take(leaf).view(np.int64)))
        counts = counts[::2] + counts[1::2]
    return np.concatenate(found[::-1])


@dataclass(frozen=True, eq=False)
class _Boxes:
    """The boxes of one round: ``size`` of them."""

    size: int
    top: int
    shifts: Unsigned
    bases: Unsigned
    leaves: Integers | slice
    first: Integers
    end: Integers
    crowded: Flags
    rows: Integers

    def find(self, cells: Unsigned, rows: Integers | None) -> Integers:
        if rows is None:
            rows = (cells >> cells.dtype.type(self.top)).astype(np.int64)
        # In words as short as those of the cells. A base may be below 0; then the sum wraps around, to what it should.
        return (self.bases.take(rows) + (cells >> self.shifts.take(rows))).astype(np.int64)


@lru_cache(maxsize=4)  # all fast buckets of one timescale share a tree
def _index_rounds(tree: Tree, depth: int, rows: int, word: np.dtype[Any]) -> list[_Boxes]:
    """The boxes of each round, for a tree and cells of depth ``depth``."""
    top = depth - rows
    starts, stops = tree.edges(depth)
    bits, leaves = depth - tree.levels(), np.arange(len(starts))
    row = starts >> top
    widths, begins = np.full(1 << rows, top), np.arange(1 << rows) << top  # of the rows
    wide = int(np.count_nonzero(bits > top))  # so many leaves, the first ones, may be several rows
    rounds: list[_Boxes] = []
    while True:
        # A row is halved until a box is as narrow as its deepest leaf, which is the last one, but into few more boxes
        # than it has leaves.
        halvings = np.zeros(len(widths), dtype=np.int64)
        halvings[row] = widths[row] - bits
        halvings = np.clip(halvings, 0, np.frexp(np.bincount(row, minlength=len(widths)))[1] + 2)
        shifts, ends = widths - halvings, np.cumsum(1 << halvings)
        bases = ends - (1 << halvings) - (begins >> shifts)
        shift = shifts.take(row)
        first = bases.take(row) + (starts >> shift)
        rest = bits - shift
        end = first + (1 << np.maximum(rest, 0))
        if not rounds:
            end[:wide] = ends[(stops[:wide] >> top) - 1]
        size = int(ends[-1])
        crowded, rank = np.zeros(size, dtype=bool), np.empty(0, dtype=np.int64)
        (narrow,) = (rest < 0).nonzero()
        if len(narrow):
            boxes, again = np.unique(first[narrow], return_index=True)
            crowded[boxes] = True
            rank = np.zeros(size, dtype=np.int64)
            rank[boxes] = np.arange(len(boxes))
        numbers, tables = leaves if rounds else slice(None), (shifts.astype(word), bases.astype(word))
        rounds.append(_Boxes(size, top, *tables, numbers, first, end, crowded, rank))
        if not len(narrow):
            return rounds
        widths = shift[narrow[again]]
        begins = starts[narrow[again]] >> widths << widths
        row = rank[first[narrow]]
        leaves, starts, bits = leaves[narrow], starts[narrow], bits[narrow]
