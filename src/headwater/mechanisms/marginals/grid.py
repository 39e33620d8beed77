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
    found: Integers = distinct(np.concatenate([*edges, [0]])).astype(np.int64)
    if coding.ordered and len(found) > most:
        keep = distinct(np.linspace(0, len(found) - 1, most).round().astype(int))
        found = distinct(np.append(found[keep], np.full(int(coding.missing), coding.values, dtype=np.int64)))
    return found


def model_grids(codings: Sequence[Coding], tables: Sequence[NoisyTable]) -> tuple[Integers, ...]:
    """For each column the bins of the model: those of its tables of two columns or more, else of its one-way tables."""
    grids = []
    for column, coding in enumerate(codings):
        if not coding.ordered:
            grids.append(np.arange(coding.size))
            continue
        edges = [
            (len(t.columns) > 1, e) for t in tables for c, e in zip(t.columns, t.edges, strict=True) if c == column
        ]
        joint = [e for several, e in edges if several]
        start = [np.array([coding.values])] if coding.missing else []
        grids.append(union([*(joint or [e for _, e in edges]), *start], coding))
    return tuple(grids)
