"""Bins of a column: runs of neighbouring codes, cut where published counts say that the mass is. Public.

Bins are nodes of one fixed binary tree over the values: node ``i`` of level ``s`` begins at code ``values·i >> s``. So
bins of different times are nested, and an even column is cut into equal parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from headwater.mechanisms.marginals.grid import distinct, widths
from headwater.mechanisms.marginals.measured import Coding, Integers, NoisyTable

Shares = NDArray[np.float64]

EVEN = 0.1
"""The part of the mass that is taken to be even over the values, whatever was published: values may be new."""


MOST_TABLES = 4
"""Of so many tables, the most precise ones, the profile of a column is made."""


@dataclass(frozen=True, eq=False)
class Profile:
    """The share of each code, the same inside runs of codes: where runs begin, and the share that lies below.

    A column of numbers has tens of thousands of codes and few runs.
    """

    starts: Integers
    shares: Shares

    def below(self, codes: Integers) -> Shares:
        """The share of all codes before each of these."""
        return np.interp(codes, self.starts, self.shares)

    def outside(self, first: Integers, last: Integers) -> Shares:
        """The share of all other codes than those of the run that these, ``first … last − 1``, lie in; 1 if in none."""
        run = np.searchsorted(self.starts, first, side="right") - 1
        found: Shares = np.where(last <= self.starts[run + 1], 1 - np.diff(self.shares)[run], 1.0)
        return found

    @cached_property
    def peaked(self) -> bool:
        """Whether one run holds as much as all others."""
        return bool(np.diff(self.shares).max() >= 0.5)


def every_code(coding: Coding) -> Integers:
    """A bin for each code."""
    return np.arange(coding.size, dtype=np.int64)


def cut(coding: Coding, profile: Profile, least: Sequence[float], most: int, spike: float | None = None) -> Integers:
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
    spike
        Beyond the list it is also enough to hold this, and as much as lies outside the run: one value may have it all,
        as zeros have.
    """
    if not coding.ordered:
        return every_code(coding)
    values = coding.values
    factor = 1.0
    while True:
        done, nodes, level = list[Integers](), np.zeros(1, dtype=np.int64), 0
        while len(nodes):
            first, last = values * nodes >> level, values * (nodes + 1) >> level
            enough: float | Shares = factor * least[min(level, len(least) - 1)]
            if spike is not None and level >= len(least) and profile.peaked:
                enough = np.minimum(enough, factor * np.maximum(spike, profile.outside(first, last)))
            wide, below = last - first, profile.below(np.stack([first, last]))
            held = (1 - EVEN) * (below[1] - below[0]) + EVEN / values * wide
            halved = (held >= enough) & (wide > 1)
            done.append(first[~halved])
            left = 2 * nodes[halved]
            nodes = np.concatenate([left, left + 1])
            level += 1
        edges = distinct(np.concatenate(done))
        if len(edges) <= most:
            return np.concatenate([edges, [values]]) if coding.missing else edges
        factor *= 2


def one_way(tables: Iterable[NoisyTable], columns: int) -> list[list[NoisyTable]]:
    """For each column the tables of it alone."""
    found: list[list[NoisyTable]] = [[] for _ in range(columns)]
    for table in tables:
        if len(table.columns) == 1:
            found[table.columns[0]].append(table)
    return found


def cut_by(
    coding: Coding, own: Sequence[NoisyTable], least: Sequence[float], most: int, spike: float | None = None
) -> Integers:
    """Where the bins of a column begin, `cut` by its published one-way tables.

    The most precise ones are mostly the same from one fast bucket to the next, and then so are the bins.
    """
    if not coding.ordered:
        return every_code(coding)
    best = sorted(own, key=lambda table: table.variance / (table.end - table.start) ** 2)[:MOST_TABLES]
    return _cut_by(coding, tuple(best), tuple(least), most, spike)


@lru_cache(maxsize=256)
def _cut_by(
    coding: Coding, own: tuple[NoisyTable, ...], least: tuple[float, ...], most: int, spike: float | None
) -> Integers:
    edges = cut(coding, profile(coding, own), least, most, spike)
    edges.flags.writeable = False
    return edges


def profile(coding: Coding, own: Sequence[NoisyTable]) -> Profile:
    """The share of each code of a column, from its published one-way tables; even over the values if there are none.

    The most precise tables are averaged with the inverse of their relative variance as weights, and each noisy count is
    spread evenly over its bin. Good enough to cut bins by; a release is made from better estimates.
    """
    own = sorted(own, key=lambda table: table.variance / (table.end - table.start) ** 2)[:MOST_TABLES]
    ends = [coding.values, coding.size] if coding.missing else [coding.size]
    starts: Integers = distinct(np.concatenate([[0], ends, *(table.edges[0] for table in own)]))
    held, mass = np.diff(starts), np.zeros(len(starts) - 1)
    for table in own:
        density = table.counts / widths(table.edges[0], coding.size)
        weight = (table.end - table.start) / max(table.variance, 1e-9)
        mass += weight * density[np.searchsorted(table.edges[0], starts[:-1], side="right") - 1]
    mass = np.maximum(mass, 0.0)
    values = starts[:-1] < coding.values
    if not mass[values].any():
        mass[values] = 1.0
    upper = np.concatenate([[0.0], np.cumsum(mass * held)])
    return Profile(starts, upper / upper[-1])


def bin_of(edges: Integers, size: int) -> NDArray[np.uint16]:
    """The bin of each of ``size`` codes."""
    return np.repeat(np.arange(len(edges), dtype=np.uint16), widths(edges, size))
