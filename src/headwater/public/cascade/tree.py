"""An adaptive binary tree of cells. Public: it is chosen by published numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from headwater.public.partition import Cells, Flags, Floats, Integers, Partition


@dataclass(frozen=True, eq=False)
class Tree:
    """Which cells are split, depth by depth."""

    splits: tuple[Flags, ...]

    # Fast buckets ask for the same few trees again and again; late trees are large.

    @lru_cache(maxsize=4)  # noqa: B019 - only of the last few trees
    def nodes(self) -> list[tuple[Cells, Flags]]:
        depths, cells = [], np.zeros(1, dtype=np.uint64)
        for split in self.splits:
            depths.append((cells, split))
            cells = children(cells[split.nonzero()])  # faster than by flags
        return depths

    @lru_cache(maxsize=4)  # noqa: B019
    def edges(self, depth: int) -> tuple[Integers, Integers]:
        above = depth - self.levels()
        leaf = (~np.concatenate(self.splits)).nonzero()
        cells = np.concatenate([nodes for nodes, _ in self.nodes()])[leaf].view(np.int64)
        return cells << above, cells + 1 << above

    @lru_cache(maxsize=4)  # noqa: B019
    def below(self) -> Integers:
        split = np.concatenate([*self.splits[1:], (False, False)])
        return np.where(split, split.cumsum(), -1).reshape(-1, 2)  # the root is number 0

    def index_in(self, other: Tree) -> Integers:
        index = np.full(1, 0 if other.size > 1 else -1)
        found = [index[:0]]
        for split in self.splits:
            index = index[split.nonzero()]
            found.append(index)
            index = other.below().take(index, axis=0).reshape(-1)
        return np.concatenate(found)

    @lru_cache(maxsize=4)  # noqa: B019
    def layers(self) -> list[tuple[slice, Integers]]:
        found, start, first = list[tuple[slice, Integers]](), 0, 0
        for split in self.splits:
            (at,) = split.nonzero()
            if len(at):
                found.append((slice(start, start + len(at)), at + first))
            start, first = start + len(at), first + len(split)
        return found

    def split_nodes(self) -> Integers:
        return np.concatenate(self.splits).nonzero()[0]

    @cached_property
    def size(self) -> int:
        return 1 + sum(map(len, self.splits)) // 2

    @cached_property
    def key(self) -> bytes:
        return b"".join(np.packbits(split).tobytes() + b"|" for split in self.splits)

    def levels(self) -> Integers:
        nodes = np.array([len(split) for split in self.splits])
        return np.arange(len(nodes)).repeat(nodes - np.append(nodes[1:] // 2, 0))


LEAF = Tree((np.zeros(1, dtype=bool),))  # the tree that splits nothing


@lru_cache(maxsize=4)
def uniform_fractions(tree: Tree, partition: Partition) -> Floats:
    if partition.plain:
        return np.full(tree.size - 1, 0.5)
    parts = [partition.shares(cells[split], depth) for depth, (cells, split) in enumerate(tree.nodes()[:-1])]
    return np.concatenate([np.empty(0), *parts])


@lru_cache(maxsize=4)
def sibling_groups(tree: Tree) -> Integers:
    nodes = tree.split_nodes()
    parents = (nodes - 1) >> 1
    above = parents.take(parents)  # two halvings up; −1 below the root
    above[:1] = -2
    return np.append(0, above[1:] != above[:-1]).cumsum()[: len(nodes)]


def union(one: Tree, other: Tree) -> tuple[Tree, Integers, Integers]:
    """The tree that splits what either splits, and where the split cells of each are among its own."""
    splits = list[Flags]()
    known = [np.empty(0, dtype=bool)], [np.empty(0, dtype=bool)]  # which of both trees has each split cell
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
    index = [np.concatenate(flags).nonzero()[0] for flags in known]
    rest = np.arange(common, tree.size - 1)
    one_at, other_at = (
        np.append(at, rest) if part is deepest else at for part, at in zip((one, other), index, strict=True)
    )
    return tree, one_at, other_at


def _put(flags: Flags, where: Flags) -> Flags:
    found = np.zeros(len(where), dtype=bool)
    found[where] = flags
    return found


@lru_cache(maxsize=4)
def possible(tree: Tree, partition: Partition) -> Flags:
    if partition.plain:
        return np.ones(tree.size, dtype=bool)
    return np.concatenate(
        [partition.possible(cells[~split], depth) for depth, (cells, split) in enumerate(tree.nodes())]
    )


def unpacked(flags: Flags) -> Iterator[Tree]:
    """The trees whose split flags these are, one after the other."""
    known: dict[bytes, Tree] = {}
    while True:
        splits, nodes = list[Flags](), 1
        while nodes:
            splits.append(flags[:nodes])
            flags, nodes = flags[nodes:], 2 * int(splits[-1].sum())
        tree = Tree(tuple(splits))
        yield known.setdefault(tree.key, tree)


def children(cells: Cells) -> Cells:
    both = np.empty((len(cells), 2), dtype=np.uint64)
    np.left_shift(cells, np.uint64(1), out=both[:, 0])
    np.bitwise_or(both[:, 0], np.uint64(1), out=both[:, 1])
    return both.reshape(-1)
