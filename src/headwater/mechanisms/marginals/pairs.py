"""Pairs of columns, trees of them, and what share of a budget each gets. Public."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

Pair = tuple[int, int]

CELLS, PATHS = 0.35, 0.1  # pairs share their budget by these powers of their cells and of the paths through them


def joined(groups: Sequence[int], pair: Pair) -> list[int]:
    """Groups of columns after a pair has joined two of them."""
    return [groups[pair[0]] if group == groups[pair[1]] else group for group in groups]


def paths(tree: Sequence[Pair], columns: int) -> list[int]:
    """For each edge of a tree, how many pairs of columns are joined through it.

    >>> paths([(0, 1), (1, 2)], columns=3)
    [2, 2]
    """
    found = []
    for edge in tree:
        groups = list(range(columns))
        for pair in tree:
            if pair != edge:
                groups = joined(groups, pair)
        found.append(groups.count(groups[edge[0]]) * groups.count(groups[edge[1]]))
    return found


def some_of(pairs: Sequence[Pair], first: Collection[Pair], most: int, turn: int) -> list[Pair]:
    """At most so many of the pairs: the given ones, and others that change from turn to turn.

    >>> all_pairs = [(a, b) for b in range(40) for a in range(b)]
    >>> turns = [some_of(all_pairs, [(0, 1)], 100, turn) for turn in range(8)]
    >>> {len(set(pairs)) for pairs in turns}, len(set().union(*turns)) == len(all_pairs)
    ({100}, True)
    """
    if len(pairs) <= most:
        return list(pairs)
    kept = [pair for pair in pairs if pair in first][:most]
    rest = [pair for pair in pairs if pair not in first]
    room = min(most - len(kept), len(rest))
    step = next(step for step in range(5 * len(rest) // 8, 2 * len(rest) + 2) if math.gcd(step, len(rest)) == 1)
    return sorted([*kept, *(rest[(turn * room + i) * step % len(rest)] for i in range(room))])
