"""An adaptive binary tree of cells, and noisy counts of its leaves. Both are public."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headwater.partition import Cells

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Tree:
    """Which cells are split, depth by depth: the nodes of a depth are the children of the split ones above, in order.

    The last depth splits nothing. A node that is not split is a leaf; leaves are numbered by depth, then by place.
    """

    splits: tuple[Flags, ...]

    def nodes(self) -> list[tuple[Cells, Flags]]:
        """The cells of each depth, and which of them are split."""
        return _nodes(self)

    def edges(self, depth: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each leaf begins and ends, in cells of this depth, which no leaf is deeper than."""
        return _edges(self, depth)

    @property
    def size(self) -> int:
        """The number of leaves."""
        return 1 + int(sum(split.sum() for split in self.splits))


@lru_cache(maxsize=16)  # fast buckets ask for the same few trees again and again
def _nodes(tree: Tree) -> list[tuple[Cells, Flags]]:
    depths, cells = [], np.zeros(1, dtype=np.uint64)
    for split in tree.splits:
        depths.append((cells, split))
        cells = children(cells[split])
    return depths


@lru_cache(maxsize=16)
def _edges(tree: Tree, depth: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    starts, widths = [], []
    for level, (cells, split) in enumerate(tree.nodes()):
        starts.append((cells[~split] << np.uint64(depth - level)).astype(np.int64))
        widths.append(np.full(len(starts[-1]), 1 << (depth - level)))
    first = np.concatenate(starts)
    return first, first + np.concatenate(widths)


def unpacked(flags: Flags) -> Iterator[Tree]:
    """The trees whose split flags these are, one after the other. Equal trees come out as one and the same."""
    known: dict[bytes, Tree] = {}
    while True:
        splits, nodes = list[Flags](), 1
        while nodes:
            splits.append(flags[:nodes])
            flags, nodes = flags[nodes:], 2 * int(splits[-1].sum())
        name = b"".join(np.packbits(split).tobytes() + b"|" for split in splits)
        yield known.setdefault(name, Tree(tuple(splits)))


def children(cells: Cells) -> Cells:
    """The two halves of every cell, in order."""
    both = np.empty((len(cells), 2), dtype=np.uint64)
    np.left_shift(cells, np.uint64(1), out=both[:, 0])
    np.bitwise_or(both[:, 0], np.uint64(1), out=both[:, 1])
    return both.reshape(-1)


def find(known: Cells, cells: Cells) -> tuple[NDArray[np.int64], Flags]:
    """Where each cell is among the known ones, which are sorted, and whether it is there at all."""
    place = np.searchsorted(known, cells)
    np.minimum(place, len(known) - 1, out=place)
    return place, known[place] == cells


@dataclass(frozen=True, eq=False)
class Summary:
    """What was measured of the points ``start … end − 1``: a noisy count for every leaf of a public tree.

    ``variance`` is that of the noise in one count. ``coarse`` may hold further measurements of the same points, over
    smaller trees whose splits are all splits of this one. This is what crosses the wall in cascade.
    """

    start: int
    end: int
    tree: Tree
    counts: NDArray[np.int64]
    variance: float
    coarse: tuple[Summary, ...] = ()

    def __post_init__(self) -> None:
        self.counts.flags.writeable = False

    @property
    def parts(self) -> tuple[Summary, ...]:
        """All measurements of the points: the finest one, then the coarse ones."""
        return self, *self.coarse

    def plus(self, other: Summary) -> Summary:
        """Both together, if they have the same trees: noise adds like counts do."""
        coarse = tuple(a.plus(b) for a, b in zip(self.coarse, other.coarse, strict=True))
        counts, variance = self.counts + other.counts, self.variance + other.variance
        return Summary(self.start, other.end, self.tree, counts, variance, coarse)

    @property
    def points(self) -> int:
        """How many points it is about."""
        return self.end - self.start


@dataclass(frozen=True, eq=False)
class Halves:
    """For split cells of one depth: noisy counts of both halves, their variances, and how many points were asked."""

    cells: Cells
    values: Floats  # rows: left, right, variance left, variance right, points

    def merged(self, other: Halves) -> Halves:
        """The sum of both, over all cells that either knows."""
        place, known = find(self.cells, other.cells)
        values = self.values.copy()
        values[:, place[known]] += other.values[:, known]
        if known.all():
            return Halves(self.cells, values)
        new = np.searchsorted(self.cells, other.cells[~known])
        cells = np.insert(self.cells, new, other.cells[~known])
        return Halves(cells, np.insert(values, new, other.values[:, ~known], axis=1))

    def blended(self, coarse: Halves) -> Halves:
        """A second measurement of the same points taken in: means weighted by precision. It knows no further cells."""
        place, _ = find(self.cells, coarse.cells)
        values = self.values.copy()
        for side in (0, 1):
            weight = values[2 + side, place] / (values[2 + side, place] + coarse.values[2 + side])
            values[side, place] += weight * (coarse.values[side] - values[side, place])
            values[2 + side, place] = weight * coarse.values[2 + side]
        return Halves(self.cells, values)


def together(summaries: list[Summary]) -> list[Summary]:
    """The same, with neighbouring summaries over the same tree added up."""
    sums: list[Summary] = []
    for summary in summaries:
        last = sums[-1].parts if sums else ()
        same = len(last) == len(summary.parts) and all(
            a.tree is b.tree for a, b in zip(last, summary.parts, strict=True)
        )
        sums.append(sums.pop().plus(summary) if same else summary)
    return sums


def halves(summary: Summary) -> list[Halves]:
    """A summary as sums over both halves of every split cell, depth by depth."""
    depths = summary.tree.nodes()
    ends = np.cumsum([len(split) - int(split.sum()) for _, split in depths])
    found: list[Halves] = []
    value = variance = np.empty(0)
    for (cells, split), end in zip(reversed(depths), reversed(ends), strict=True):
        below, spread = value, variance
        value, variance = np.empty(len(cells)), np.empty(len(cells))
        leaves = len(split) - int(split.sum())
        value[~split], variance[~split] = summary.counts[end - leaves : end], summary.variance
        if len(below):
            value[split], variance[split] = below[::2] + below[1::2], spread[::2] + spread[1::2]
            asked = np.full(len(below) // 2, float(summary.points))
            rows = [below[::2], below[1::2], spread[::2], spread[1::2], asked]
            found.append(Halves(cells[split], np.stack(rows)))
    found.reverse()
    for coarse in summary.coarse:
        for depth, more in enumerate(halves(coarse)):
            found[depth] = found[depth].blended(more)
    return found
