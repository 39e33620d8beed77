"""Bins of a column: runs of neighbouring codes, cut where published counts say that the mass is. Public.

Bins are nodes of one fixed binary tree over the values: node ``i`` of level ``s`` begins at code ``values·i >> s``. So
bins of different times are nested, and an even column is cut into equal parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.marginals.codes import Coding
from headwater.public.marginals.measured import NoisyTable
from headwater.public.partition import Floats, Integers

MOST_BINS = 64
"""Of an ordered column in the model; more edges than this are thinned."""


def widths(edges: Integers, size: int) -> Integers:
    found: Integers = np.empty(len(edges), dtype=np.int64)  # np.diff(edges, append=size) takes four times as long
    np.subtract(edges[1:], edges[:-1], out=found[:-1])
    found[-1] = size - edges[-1]
    return found


def distinct(numbers: NDArray[Any]) -> NDArray[Any]:
    found = np.sort(numbers)
    new = np.ones(len(found), dtype=np.bool_)
    np.not_equal(found[1:], found[:-1], out=new[1:])
    return found[new]


def contained(edges: Integers, among: Integers) -> bool:
    return bool((among[np.searchsorted(among, edges, side="right") - 1] == edges).all())


def transfer(source: Integers, target: Integers, size: int) -> Floats:
    held = [widths(edges, size) for edges in (source, target)]
    shared = np.minimum((target + held[1])[:, None], source + held[0]) - np.maximum(target[:, None], source)
    matrix: Floats = np.maximum(shared, 0) / held[0]
    return matrix


def union(edges: Iterable[Integers], coding: Coding, most: int = MOST_BINS) -> Integers:
    """The coarsest bins of which all the given ones are unions, thinned evenly where there are too many."""
    different = list({one.tobytes(): one for one in edges}.values())  # tables often share them
    if len(different) == 1 and len(different[0]) <= most and different[0][0] == 0:
        return different[0]
    found: Integers = distinct(np.concatenate([*different, [0]])).astype(np.int64)
    if coding.ordered and len(found) > most:
        keep = distinct(np.linspace(0, len(found) - 1, most).round().astype(int))
        found = distinct(np.append(found[keep], np.full(int(coding.missing), coding.values, dtype=np.int64)))
    return found


def model_grids(codings: Sequence[Coding], tables: Sequence[NoisyTable]) -> tuple[Integers, ...]:
    """For each column the bins of the model: those of its tables of two columns or more, else of its one-way tables."""
    single: list[list[Integers]] = [[] for _ in codings]
    joint: list[list[Integers]] = [[] for _ in codings]
    for table in tables:
        for column, edges in zip(table.columns, table.edges, strict=True):
            (joint if len(table.columns) > 1 else single)[column].append(edges)
    grids = []
    for coding, several, alone in zip(codings, joint, single, strict=True):
        start = [np.array([coding.values])] if coding.missing else []
        grids.append(union([*(several or alone), *start], coding) if coding.ordered else np.arange(coding.size))
    return tuple(grids)


EVEN = 0.1
"""The part of the mass that is taken to be even over the values, whatever was published: values may be new."""
DENSER = 3.0
"""A run in which an atom is to be seen has so many times the density of those beside it."""
MOST_TABLES = 4
"""Of so many tables, the most precise ones, the profile of a column is made."""


@dataclass(frozen=True, eq=False)
class Profile:
    """The share of each code, the same inside runs of codes: where runs begin, and the share that lies below."""

    starts: Integers
    shares: Floats

    def below(self, codes: Integers) -> Floats:
        return np.interp(codes, self.starts, self.shares)

    def alone(self, codes: Sequence[int], least: float) -> Integers:
        """Those of the codes whose run holds at least so much, and is denser by far than the runs beside it."""
        mass = np.diff(self.shares)
        density = np.pad(mass / np.diff(self.starts), 1)
        at = np.searchsorted(self.starts, np.array(codes, dtype=np.int64), side="right") - 1
        beside = np.maximum(density[at], density[at + 2])
        clear = (mass[at] >= least) & (density[at + 1] > DENSER * beside) & (len(mass) > 1)
        return np.array(codes, dtype=np.int64)[clear]


def cut(coding: Coding, profile: Profile, least: Sequence[float], most: int, atom: float) -> Integers:
    """Where the bins of an ordered column begin: nodes are halved while they hold enough of the mass.

    Atoms of the column are bins by themselves if their runs hold at least ``atom``, and then halve no node.
    """
    values, factor = coding.values, 1.0
    while True:
        alone = profile.alone(coding.atoms, factor * atom)
        done, nodes, level = [alone, alone[alone + 1 < values] + 1], np.zeros(1, dtype=np.int64), 0
        held_alone = np.diff(profile.below(np.stack([alone, alone + 1])), axis=0)[0]
        while len(nodes):
            first, last = values * nodes >> level, values * (nodes + 1) >> level
            enough = factor * least[min(level, len(least) - 1)]
            wide, below = last - first, profile.below(np.stack([first, last]))
            others = below[1] - below[0] - ((first <= alone[:, None]) & (alone[:, None] < last)).T @ held_alone
            held = (1 - EVEN) * others + EVEN / values * wide
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
    found: list[list[NoisyTable]] = [[] for _ in range(columns)]
    for table in tables:
        if len(table.columns) == 1:
            found[table.columns[0]].append(table)
    return found


def cut_by(coding: Coding, own: Sequence[NoisyTable], least: Sequence[float], most: int, atom: float) -> Integers:
    if not coding.ordered:
        return np.arange(coding.size)
    best = sorted(own, key=lambda table: table.variance / (table.end - table.start) ** 2)[:MOST_TABLES]
    return _cut_by(coding, tuple(best), tuple(least), most, atom)


@lru_cache(maxsize=256)
def _cut_by(coding: Coding, own: tuple[NoisyTable, ...], least: tuple[float, ...], most: int, atom: float) -> Integers:
    edges = cut(coding, profile(coding, own), least, most, atom)
    edges.flags.writeable = False
    return edges


def profile(coding: Coding, own: Sequence[NoisyTable]) -> Profile:
    """The share of each code of a column, from its published one-way tables; even over the values if there are none."""
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
    return np.repeat(np.arange(len(edges), dtype=np.uint16), widths(edges, size))
