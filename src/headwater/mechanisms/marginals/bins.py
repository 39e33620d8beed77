"""Bins of a column: runs of neighbouring codes, cut where published counts say that the mass is. Public.

Bins are nodes of one fixed binary tree over the values: node ``i`` of level ``s`` begins at code ``values·i >> s``. So
bins of different times are nested, and an even column is cut into equal parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from headwater.mechanisms.marginals.grid import distinct
from headwater.mechanisms.marginals.measured import Coding, Integers, NoisyTable

Shares = NDArray[np.float64]

EVEN = 0.1
"""The part of the mass that is taken to be even over the values, whatever was published: values may be new."""


MOST_TABLES = 4
"""Of so many tables, the most precise ones, the profile of a column is made."""


def every_code(coding: Coding) -> Integers:
    """A bin for each code."""
    return np.arange(coding.size, dtype=np.int64)


def cut(coding: Coding, profile: Shares, least: Sequence[float], most: int) -> Integers:
    """Where the bins of an ordered column begin: nodes are halved while they hold enough of the mass.

    Parameters
    ----------
    coding
        Of the column. If it is not ordered, every code is a bin.
    profile
        The published share of each code (`profile`).
    least
        A node of level ``s`` is halved if it holds at least ``least[s]``; beyond the list its last entry counts.
    most
        How many bins there are at most, without that of missing values; enough is doubled until they are so few.
    """
    if not coding.ordered:
        return every_code(coding)
    values = coding.values
    below = np.concatenate([[0.0], np.cumsum((1 - EVEN) * profile[:values] + EVEN / values)])
    factor = 1.0
    while True:
        done, nodes, level = list[Integers](), np.zeros(1, dtype=np.int64), 0
        while len(nodes):
            first, last = values * nodes >> level, values * (nodes + 1) >> level
            enough = factor * least[min(level, len(least) - 1)]
            halved = (below[last] - below[first] >= enough) & (last - first > 1)
            done.append(first[~halved])
            nodes = np.concatenate([2 * nodes[halved], 2 * nodes[halved] + 1])
            level += 1
        edges = distinct(np.concatenate(done))
        if len(edges) <= most:
            return np.concatenate([edges, [values]]) if coding.missing else edges
        factor *= 2


def profile(column: int, coding: Coding, tables: Iterable[NoisyTable]) -> Shares:
    """The share of each code, from published one-way tables; even over the values if there are none.

    The most precise tables are averaged with the inverse of their relative variance as weights, and each noisy count is
    spread evenly over its bin. Good enough to cut bins by; a release is made from better estimates.
    """
    mass = np.zeros(coding.size)
    own = [table for table in tables if table.columns == (column,)]
    for table in sorted(own, key=lambda table: table.variance / (table.end - table.start) ** 2)[:MOST_TABLES]:
        widths = np.diff(table.edges[0], append=coding.size)
        weight = (table.end - table.start) / max(table.variance, 1e-9)
        mass += np.repeat(weight * table.counts / widths, widths)
    mass = np.maximum(mass, 0.0)
    if not mass[: coding.values].any():
        mass[: coding.values] = 1.0
    shares: Shares = mass / mass.sum()
    return shares


def bin_of(edges: Integers, size: int) -> NDArray[np.intp]:
    """The bin of each of ``size`` codes."""
    return np.repeat(np.arange(len(edges)), np.diff(edges, append=size))
