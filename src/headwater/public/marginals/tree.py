"""Spanning trees over columns, and what a tree of two-way tables says of any other pair."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from headwater.public.partition import Floats

Pair = tuple[int, int]


def spanning_forest(scores: Mapping[Pair, float], columns: int) -> tuple[Pair, ...]:
    """The forest of largest total score over the given pairs; ties go to the pair that comes first."""
    component = list(range(columns))
    forest = []
    for pair in sorted(scores, key=lambda p: (-scores[p], p)):
        keep, lose = (component[c] for c in pair)
        if keep != lose:
            forest.append(pair)
            component = [keep if c == lose else c for c in component]
    return tuple(forest)


class Forest:
    """A forest over columns: each column's parent, in an order in which parents come first."""

    def __init__(self, edges: Iterable[Pair], columns: int) -> None:
        self.adjacent: list[list[int]] = [[] for _ in range(columns)]
        for a, b in edges:
            self.adjacent[a].append(b)
            self.adjacent[b].append(a)
        self.parent: dict[int, int | None] = {}
        for root in sorted(range(columns), key=lambda c: (-len(self.adjacent[c]), c)):
            if root not in self.parent:
                self.parent[root] = None
                self._grow(root)

    def _grow(self, root: int) -> None:
        stack = [root]
        while stack:
            column = stack.pop()
            for other in self.adjacent[column]:
                if other not in self.parent:
                    self.parent[other] = column
                    stack.append(other)

    def upwards(self, column: int) -> list[int]:
        parent = self.parent[column]
        return [column] if parent is None else [column, *self.upwards(parent)]

    def path(self, a: int, b: int) -> list[int] | None:
        up, down = self.upwards(a), self.upwards(b)
        meet = next((c for c in up if c in down), None)
        if meet is None:
            return None
        return up[: up.index(meet) + 1] + down[: down.index(meet)][::-1]

    def tables_from(
        self, column: int, joints: Mapping[Pair, Floats], laws: Mapping[tuple[int, int], Floats]
    ) -> dict[int, Floats]:
        """The two-way tables of a column and every one that it is joined to, as `along` the path would give them."""
        found = {other: joint(joints, column, other) for other in self.adjacent[column]}
        stack = [(other, column) for other in found]
        while stack:
            here, before = stack.pop()
            for other in self.adjacent[here]:
                if other != before:
                    found[other] = found[here] @ laws[here, other]
                    stack.append((other, here))
        return found


def along(path: Sequence[int], joints: Mapping[Pair, Floats]) -> Floats:
    found = joint(joints, path[0], path[1])
    for a, b in pairwise(path[1:]):
        found = found @ conditional(joint(joints, a, b))
    return found


def joint(joints: Mapping[Pair, Floats], a: int, b: int) -> Floats:
    return joints[a, b] if (a, b) in joints else np.swapaxes(joints[b, a], -1, -2)


def conditional(table: Floats) -> Floats:
    law: Floats = table / np.maximum(table.sum(-1, keepdims=True), 1e-300)
    return law
