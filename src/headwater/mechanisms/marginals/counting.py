"""Codes of records to exact counts. Pure, and the counts of two lots of records add up to those of both.

Not private: only `measure` may call this, and adds noise to whatever it publishes of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.mechanisms.marginals.bins import bin_of
from headwater.mechanisms.marginals.codes import NULL, Codes
from headwater.mechanisms.marginals.measured import Coding, Integers
from headwater.mechanisms.marginals.questions import Question

Axis = tuple[int, int]
"""A column, and which of its bins."""

_CHUNK = 1 << 14  # records at a time: their bins stay in the processor's cache


def count(
    codes: Codes,
    questions: Sequence[Question],
    codings: Sequence[Coding],
    weights: NDArray[np.unsignedinteger[Any]] | None = None,
) -> list[Integers]:
    """For each question its table of counts: every record is in exactly one cell of each, a null record in none.

    Parameters
    ----------
    codes
        One row for each column, one entry for each record.
    questions
        What to count.
    codings
        Of all columns.
    weights
        How many records each entry stands for; one unless given. Below 2^53 in all, so that sums are exact.
    """
    null = codes[0] == NULL  # then in all other columns too
    if null.any():
        codes, weights = codes[:, ~null], None if weights is None else weights[~null]
    axes = [tuple((c, id(e)) for c, e in zip(q.columns, q.edges, strict=True)) for q in questions]
    edges = {axis: e for q, of_q in zip(questions, axes, strict=True) for axis, e in zip(of_q, q.edges, strict=True)}
    sizes = {axis: len(e) for axis, e in edges.items()}
    joint = cover(axes, sizes, min(_CHUNK, codes.shape[1] // 8))
    totals = [np.zeros(prod(sizes[axis] for axis in group), dtype=np.int64) for group, _ in joint]
    kind = np.uint16 if max(map(len, totals), default=0) <= 1 << 16 else np.int64
    lookup = {axis: bin_of(e, codings[axis[0]].size).astype(kind, copy=False) for axis, e in edges.items()}
    for start in range(0, codes.shape[1], _CHUNK):
        part = codes[:, start : start + _CHUNK]
        bins = {axis: table.take(part[axis[0]]) for axis, table in lookup.items()}
        of_part = None if weights is None else weights[start : start + _CHUNK]
        for (group, _), total in zip(joint, totals, strict=True):
            cells = bins[group[0]]
            for axis in group[1:]:
                cells = cells * sizes[axis] + bins[axis]
            total += np.bincount(cells, of_part, minlength=len(total)).astype(np.int64, copy=False)
    found: dict[tuple[Axis, ...], Integers] = {}
    for (group, answered), total in zip(joint, totals, strict=True):
        table = total.reshape([sizes[axis] for axis in group])
        for of_q in answered:
            found[of_q] = table.sum(tuple(at for at, axis in enumerate(group) if axis not in of_q))
    return [found[of_q] for of_q in axes]


def cover(
    questions: Iterable[tuple[Axis, ...]], sizes: Mapping[Axis, int], most: int
) -> list[tuple[tuple[Axis, ...], list[tuple[Axis, ...]]]]:
    """The tables to count, and which questions the sums of each answer: pairs of a few axes are counted together.

    One table of three axes takes little longer to count than one of two, and answers three questions. It has at most so
    many cells, unless a single question has more.

    >>> cover([((0, 0), (1, 0)), ((0, 0), (2, 0)), ((1, 0), (2, 0))], {(0, 0): 4, (1, 0): 4, (2, 0): 4}, most=64)[0][0]
    ((0, 0), (1, 0), (2, 0))
    """
    left: dict[Axis, set[Axis]] = {axis: set() for axis in sizes}  # with which others it is still asked for
    found, pairs = list[tuple[tuple[Axis, ...], list[tuple[Axis, ...]]]](), list[tuple[Axis, ...]]()
    for question in dict.fromkeys(questions):
        if len(question) == 2:
            pairs.append(question)
            left[question[0]].add(question[1])
            left[question[1]].add(question[0])
        else:
            found.append((question, [question]))
    for first, second in pairs:
        if second not in left[first]:
            continue
        group, cells = [first, second], sizes[first] * sizes[second]
        fits = [axis for axis in left if sizes[axis] * cells <= most]
        while more := {a: len(left[a].intersection(group)) for a in fits if a not in group}:
            best = max(more, key=more.__getitem__)
            if not more[best]:
                break
            group.append(best)
            cells *= sizes[best]
            fits = [axis for axis in fits if sizes[axis] * cells <= most]
        answered = [pair for pair in combinations(sorted(group), 2) if pair[1] in left[pair[0]]]
        for a, b in answered:
            left[a].remove(b)
            left[b].remove(a)
        found.append((tuple(sorted(group)), list[tuple[Axis, ...]](answered)))
    return found
