"""An adaptive binary tree of cells, and noisy counts of its leaves. Both are public."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import groupby

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

    def below(self) -> Integers:
        """Where the halves of each split cell are among all split cells, by depth, then by place; or −1.

        Of shape ``(n + 1, 2)``. The last row is −1 both: that is what is below −1.
        """
        return _below(self)

    def places_in(self, other: Tree) -> Integers:
        """Where each split cell is among the split cells of another tree, or −1."""
        place = np.full(1, 0 if other.size > 1 else -1)
        found = [place[:0]]
        for split in self.splits:
            place = place[split.nonzero()]
            found.append(place)
            place = other.below().take(place, axis=0).reshape(-1)
        return np.concatenate(found)

    def layers(self) -> list[tuple[slice, Integers]]:
        """For each depth that splits anything: which of all split cells are its own, and which of all nodes they are.

        Nodes are numbered by depth, then by place, and so are split cells. The halves of split cell number i are the
        nodes 2i + 1 and 2i + 2.
        """
        return _layers(self)

    def split_nodes(self) -> Integers:
        """Which of all nodes are split."""
        return np.concatenate(self.splits).nonzero()[0]

    @cached_property
    def size(self) -> int:
        """The number of leaves."""
        return 1 + sum(map(len, self.splits)) // 2

    def levels(self) -> Integers:
        """The depth of each leaf."""
        nodes = np.array([len(split) for split in self.splits])
        return np.arange(len(nodes)).repeat(nodes - np.append(nodes[1:] // 2, 0))


LEAF = Tree((np.zeros(1, dtype=bool),))
"""The tree that splits nothing."""


@lru_cache(maxsize=4)  # fast buckets ask for the same few trees again and again; late trees are large
def _nodes(tree: Tree) -> list[tuple[Cells, Flags]]:
    depths, cells = [], np.zeros(1, dtype=np.uint64)
    for split in tree.splits:
        depths.append((cells, split))
        cells = children(cells[split.nonzero()])  # faster than by flags
    return depths


@lru_cache(maxsize=4)
def _layers(tree: Tree) -> list[tuple[slice, Integers]]:
    found, start, first = list[tuple[slice, Integers]](), 0, 0
    for split in tree.splits:
        (at,) = split.nonzero()
        if len(at):
            found.append((slice(start, start + len(at)), at + first))
        start, first = start + len(at), first + len(split)
    return found


@lru_cache(maxsize=4)
def even_shares(tree: Tree, partition: Partition) -> Floats:
    """The part of every split cell that its lower half makes up."""
    if partition.plain:
        return np.full(tree.size - 1, 0.5)
    parts = [partition.shares(cells[split], depth) for depth, (cells, split) in enumerate(tree.nodes()[:-1])]
    return np.concatenate([np.empty(0), *parts])


@lru_cache(maxsize=4)
def neighbours(tree: Tree) -> Integers:
    """Groups of split cells that agree in all but their last two halvings: the number of each one's, from 0."""
    nodes = tree.split_nodes()
    parents = (nodes - 1) >> 1
    above = parents.take(parents)  # two halvings up; −1 below the root
    above[:1] = -2
    return np.append(0, above[1:] != above[:-1]).cumsum()[: len(nodes)]


def union(one: Tree, other: Tree) -> tuple[Tree, Integers, Integers]:
    """The tree that splits what either splits, and where the split cells of each are among its own."""
    splits, known = list[Flags](), ([np.empty(0, dtype=bool)], [np.empty(0, dtype=bool)])  # who knows each split cell
    ours = theirs = np.ones(1, dtype=bool)  # whose nodes these are
    for mine, yours in zip(one.splits, other.splits, strict=False):
        mine, yours = _put(mine, ours), _put(yours, theirs)
        splits.append(mine | yours)
        at = splits[-1].nonzero()
        mine, yours = mine[at], yours[at]
        known[0].append(mine)
        known[1].append(yours)
        ours, theirs = mine.repeat(2), yours.repeat(2)
    # Where one of them ends, only the other splits anything.
    deepest = max(one, other, key=lambda tree: len(tree.splits))
    tree = Tree((*splits, *deepest.splits[len(splits) :]))
    common = sum(map(len, known[0]))
    places = [np.concatenate(flags).nonzero()[0] for flags in known]
    rest = np.arange(common, tree.size - 1)
    one_at, other_at = (
        np.append(at, rest) if part is deepest else at for part, at in zip((one, other), places, strict=True)
    )
    return tree, one_at, other_at


def _put(flags: Flags, where: Flags) -> Flags:
    """Flags put where they belong, among others that are down."""
    found = np.zeros(len(where), dtype=bool)
    found[where] = flags
    return found


@lru_cache(maxsize=4)
def _below(tree: Tree) -> Integers:
    return numbered(tree.splits)


def numbered(splits: Sequence[Flags]) -> Integers:
    """`Tree.below` of the tree that splits these."""
    split = np.concatenate([*splits[1:], (False, False)])
    numbers = split.cumsum()
    return np.where(split, numbers, -1).reshape(-1, 2)  # the root is number 0


@lru_cache(maxsize=4)
def possible(tree: Tree, partition: Partition) -> Flags:
    """Which leaves can hold anything. Of the others it is public that they are empty."""
    if partition.plain:
        return np.ones(tree.size, dtype=bool)
    return np.concatenate(
        [partition.possible(cells[~split], depth) for depth, (cells, split) in enumerate(tree.nodes())]
    )


@lru_cache(maxsize=4)
def _edges(tree: Tree, depth: int) -> tuple[Integers, Integers]:
    above = depth - tree.levels()
    leaf = (~np.concatenate(tree.splits)).nonzero()
    cells = np.concatenate([nodes for nodes, _ in tree.nodes()])[leaf].view(np.int64)
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

    def trees(self) -> list[Tree]:
        """The trees of all measurements."""
        return [part.tree for part in self.parts]

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
    return [_sum(tuple(same)) for _, same in groupby(summaries, Summary.trees)]


@lru_cache(maxsize=4)  # when a slow bucket closes, its first half is asked about again
def _sum(summaries: tuple[Summary, ...]) -> Summary:
    return reduce(Summary.plus, summaries)


def halves(summary: Summary, partition: Partition) -> list[Floats]:
    """A summary as sums over both halves of every split cell, by depth, then by place.

    The five rows: noisy counts of the left and the right half, their variances, and how many points were asked.
    """
    flags = np.concatenate(summary.tree.splits)
    (leaf,), (split,) = (~flags).nonzero(), flags.nonzero()
    counts, variances = np.empty(len(flags)), np.empty(len(flags))
    counts[leaf], variances[leaf] = summary.counts, summary.variance
    if not partition.plain:
        variances[leaf[~possible(summary.tree, partition)]] = NOTHING
    end = len(split)
    for depth in reversed(summary.tree.splits):
        start = end - int(np.count_nonzero(depth))
        if start < end:
            for row in (counts, variances):  # the halves of split cell number i are nodes 2i + 1 and 2i + 2
                row[split[start:end]] = row[2 * start + 1 : 2 * end : 2] + row[2 * start + 2 : 2 * end + 1 : 2]
        end = start
    # Row by row: arrays that are not too large are in memory that was used before.
    found = [row[half::2].copy() for row in (counts, variances) for half in (1, 2)]
    found.append(np.full(len(split), float(summary.points)))
    for coarse in summary.coarse:
        blend(found, summary.tree, halves(coarse, partition), coarse.tree)
    return found


def blend(fine: list[Floats], tree: Tree, coarse: list[Floats], part: Tree) -> None:
    """Take in a second measurement of the same points, over a part of the tree: means weighted by precision."""
    place = part.places_in(tree)
    for side in (0, 1):
        mean, variance = fine[side][place], fine[2 + side][place]
        weight = variance / (variance + coarse[2 + side])
        fine[side][place] = mean + weight * (coarse[side] - mean)
        fine[2 + side][place] = weight * coarse[2 + side]
