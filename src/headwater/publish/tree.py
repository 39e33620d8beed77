"""An adaptive binary tree of cells, and noisy counts of its leaves. Both are public."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headwater.partition import Cells, Partition

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

NOTHING = 1e-12  # the variance of a number without noise: above 0, so that one can divide by it


@dataclass(frozen=True, eq=False)
class Tree:
    """Which cells are split, depth by depth: the nodes of a depth are the children of the split ones above, in order.

    The last depth splits nothing. A node that is not split is a leaf; leaves are numbered by depth, then by place.
    """

    splits: tuple[Flags, ...]

    def nodes(self) -> list[tuple[Cells, Flags]]:
        """The cells of each depth, and which of them are split."""
        return _nodes(self)

    def edges(self, depth: int) -> tuple[Integers, Integers]:
        """Where each leaf begins and ends, in cells of this depth, which no leaf is deeper than."""
        return _edges(self, depth)

    def below(self) -> list[Integers]:
        """For each depth: where the halves of its split cells are among those split at the next depth, or −1.

        Of shape ``(n + 1, 2)``. The last row is −1 both: that is what is below −1.
        """
        return _below(self)

    @property
    def size(self) -> int:
        """The number of leaves."""
        return 1 + sum(len(split) for split in self.splits[1:]) // 2

    def levels(self) -> Integers:
        """The depth of each leaf."""
        nodes = np.array([len(split) for split in self.splits])
        return np.arange(len(nodes)).repeat(nodes - np.append(nodes[1:] // 2, 0))


LEAF = Tree((np.zeros(1, dtype=bool),))
"""The tree that splits nothing."""


@lru_cache(maxsize=16)  # fast buckets ask for the same few trees again and again
def _nodes(tree: Tree) -> list[tuple[Cells, Flags]]:
    depths, cells = [], np.zeros(1, dtype=np.uint64)
    for split in tree.splits:
        depths.append((cells, split))
        cells = children(cells[split])
    return depths


@lru_cache(maxsize=16)
def _below(tree: Tree) -> list[Integers]:
    return [numbered(split) for split in tree.splits[1:]]


def numbered(split: Flags) -> Integers:
    """The split ones of some pairs numbered from 0, the others −1; and a last pair of −1."""
    numbers = np.zeros(len(split) + 2, dtype=np.int64)
    split.cumsum(out=numbers[:-2])
    numbers[:-2] *= split
    numbers -= 1
    return numbers.reshape(-1, 2)


@lru_cache(maxsize=16)
def possible(tree: Tree, partition: Partition) -> Flags:
    """Which leaves can hold anything. Of the others it is public that they are empty."""
    if partition.plain:
        return np.ones(tree.size, dtype=bool)
    return np.concatenate(
        [partition.possible(cells[~split], depth) for depth, (cells, split) in enumerate(tree.nodes())]
    )


@lru_cache(maxsize=16)
def _edges(tree: Tree, depth: int) -> tuple[Integers, Integers]:
    above = depth - tree.levels()
    cells = np.concatenate([nodes[~split] for nodes, split in tree.nodes()]).view(np.int64)
    return cells << above, cells + 1 << above


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


@dataclass(frozen=True, eq=False)
class Summary:
    """What was measured of the points ``start … end − 1``: a noisy count for every leaf of a public tree.

    ``variance`` is that of the noise in one count. ``coarse`` may hold further measurements of the same points, over
    smaller trees whose splits are all splits of this one. This is what crosses the wall in cascade.
    """

    start: int
    end: int
    tree: Tree
    counts: Integers
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


def halves(summary: Summary, partition: Partition) -> list[Floats]:
    """A summary as sums over both halves of every split cell, depth by depth.

    The five rows: noisy counts of the left and the right half, their variances, and how many points were asked.
    """
    noise = None if partition.plain else np.where(possible(summary.tree, partition), summary.variance, NOTHING)
    found: list[Floats] = []
    below = np.empty((2, 0))  # counts and variances of the nodes of a depth
    end = summary.tree.size
    for split in reversed(summary.tree.splits):
        nodes, leaf = np.empty((2, len(split))), ~split
        start = end - int(np.count_nonzero(leaf))
        nodes[0][leaf] = summary.counts[start:end]
        nodes[1][leaf] = summary.variance if noise is None else noise[start:end]
        if below.size:
            left, right = below[:, ::2], below[:, 1::2]
            nodes[0][split], nodes[1][split] = left + right
            rows = np.empty((5, left.shape[1]))
            rows[0:4:2], rows[1:4:2], rows[4] = left, right, summary.points
            found.append(rows)
        below, end = nodes, start
    found.reverse()
    for coarse in summary.coarse:
        blend(found, summary.tree, halves(coarse, partition), coarse.tree)
    return found


def blend(fine: list[Floats], tree: Tree, coarse: list[Floats], part: Tree) -> None:
    """Take in a second measurement of the same points, over a part of the tree: means weighted by precision."""
    place = np.zeros(1, dtype=np.int64)
    for depth, more in enumerate(coarse):
        values = fine[depth]
        for side in (0, 1):
            weight = values[2 + side, place] / (values[2 + side, place] + more[2 + side])
            values[side, place] += weight * (more[side] - values[side, place])
            values[2 + side, place] = weight * more[2 + side]
        if depth + 1 < len(coarse):
            place = tree.below()[depth][place].reshape(-1)[part.splits[depth + 1]]
