"""The numbers of records in the order of arrival, from where they stand in their source. Pure: reads no values.

A data frame has no order of its own. Records are numbered by *order columns*, such as partition and offset of a topic
or file and place in it, or else by partition and row of the frame. Either way replacing what a record holds changes no
record's number (`proofs/counted.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FEWEST = 16
"""Stretches of fewer records on average mean that a frame was shuffled, and is to be sorted first."""


class Stretch(NamedTuple):
    """Records of one part of a frame that follow one another in their source.

    Parameters
    ----------
    part, number
        The part of the frame, and which of its stretches this is.
    source
        The values of all order columns but the last, the same for all of the records.
    first, last
        The smallest and the largest value of the last order column.
    records
        How many there are.
    """

    part: int
    number: int
    source: tuple[Any, ...]
    first: int
    last: int
    records: int


class ShuffledError(ValueError):
    """The parts of a frame are not stretches of their source: it has to be sorted by its order columns first."""


class SameOrderError(ValueError):
    """Two records have the same place in their source."""


def cut(sources: Sequence[NDArray[Any]], places: NDArray[np.int64], fewest: int = FEWEST) -> list[tuple[int, int]]:
    """First and end of each stretch of records: one source, and places that do not fall.

    Parameters
    ----------
    sources
        For each order column but the last, a number for each record that is the same where the values are.
    places
        The last order column.
    fewest
        How many records a stretch must have on average, if there are many; otherwise the frame was shuffled.

    Examples
    --------
    >>> cut([np.array([0, 0, 1, 1, 1])], np.array([5, 6, 1, 3, 2]))
    [(0, 2), (2, 4), (4, 5)]
    """
    if not len(places):
        return []
    broken = np.diff(places) < 0
    for codes in sources:
        broken |= np.diff(codes) != 0
    edges = (np.flatnonzero(broken) + 1).tolist()
    if len(edges) >= 64 and len(places) < fewest * len(edges):
        raise ShuffledError("the frame was shuffled")
    return list(pairwise([0, *edges, len(places)]))


def first_numbers(stretches: Iterable[Stretch], t: int) -> dict[tuple[int, int], int]:
    """The number of the first record of each stretch, if ``t`` records arrived before all of them.

    Parameters
    ----------
    stretches
        All of a batch, in any order.
    t
        How many records there were.

    Examples
    --------
    >>> two = [Stretch(0, 0, ("b",), 0, 0, 10), Stretch(1, 0, ("a",), 0, 0, 5)]
    >>> first_numbers(two, 100)
    {(1, 0): 100, (0, 0): 105}
    """
    ordered = sorted(stretches, key=lambda one: (one.source, one.first, one.last, one.part, one.number))
    for one, other in pairwise(ordered):
        if one.source == other.source and one.last > other.first:
            raise ShuffledError("stretches of the source overlap")
        if one.source == other.source and one.last == other.first and one.part != other.part:
            raise SameOrderError("records of two partitions have the same place")
    found = dict[tuple[int, int], int]()
    for one in ordered:
        found[one.part, one.number] = t
        t += one.records
    return found
