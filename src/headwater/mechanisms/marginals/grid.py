"""Bins of one column, and moving counts from one set of bins to another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.mechanisms.marginals.measured import Coding, Integers, NoisyTable

Floats = NDArray[np.float64]

MOST_BINS = 64
"""Of an ordered column in the model; more edges than this are thinned."""


def widths(edges: Integers, size: int) -> Integers:
    """How many codes each bin holds."""
    found: Integers = np.empty(len(edges), dtype=np.int64)  # np.diff(edges, append=size) takes four times as long
    np.subtract(edges[1:], edges[:-1], out=found[:-1])
    found[-1] = size - edges[-1]
    return found


def distinct(numbers: NDArray[Any]) -> NDArray[Any]:
    """The different ones of some numbers, in order: `np.unique` takes longer, and imports masked arrays for it."""
    found = np.sort(numbers)
    new = np.ones(len(found), dtype=np.bool_)
    np.not_equal(found[1:], found[:-1], out=new[1:])
    return found[new]


def contained(edges: Integers, among: Integers) -> bool:
    """Whether all of some edges are among others, of which 0 is the first; both are in order."""
    return bool((among[np.searchsorted(among, edges, side="right") - 1] == edges).all())


def transfer(source: Integers, target: Integers, size: int) -> Floats:
    """A matrix that moves counts of the source's bins to the target's, in proportion to the codes they share.

    Where every source bin lies inside a target bin it only adds: each column is a unit vector.
    """
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
