"""The numbers of records in the order of arrival, from where they stand in their source. Pure: reads no values.

A data frame has no order of its own. Records are numbered by *order columns*, such as partition and offset of a topic
or file and split, or else by partition and row of the frame. Either way replacing what a record holds changes no
record's number (`proofs/counted.md`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple


class Stretch(NamedTuple):
    """Records that follow one another in a part of a frame, and in their source.

    Parameters
    ----------
    part
        The partition of the frame.
    position
        How many records of the partition come before.
    source
        The values of all order columns but the last, the same for all of the records.
    first, last
        The smallest and the largest value of the last order column.
    records
        How many there are.
    of_key
        How many of them belong to each key, by its number; to 0 without keys.
    mark
        A hash of ``source``, by which a worker recognises it.
    """

    part: int
    position: int
    source: tuple[Any, ...]
    first: int
    last: int
    records: int
    of_key: dict[int, int]
    mark: int = 0


class ShuffledError(ValueError):
    """The parts of a frame are not stretches of their source: it has to be sorted by its order columns first."""


class SameOrderError(ValueError):
    """Two records have the same place in their source."""


def ordered(stretches: Iterable[Stretch]) -> list[Stretch]:
    """All stretches of a batch in the order of their source.

    Parameters
    ----------
    stretches
        In any order.
    """
    found = sorted(stretches, key=lambda one: (one.source, one.first, one.last, one.part, one.position))
    for one, other in pairwise(found):
        if one.source == other.source and one.last > other.first:
            raise ShuffledError("stretches of the source overlap")
        if one.source == other.source and one.last == other.first:
            raise SameOrderError("records of two partitions have the same place")
    return found


def first_numbers(stretches: Sequence[Stretch], key: int, t: int) -> list[int]:
    """The number of the first record of each stretch that a key has, if ``t`` of its records arrived before.

    Parameters
    ----------
    stretches
        All of a batch, in order.
    key
        The number of the key.
    t
        How many records of this key there were.

    Examples
    --------
    >>> two = [Stretch(0, 0, ("b",), 0, 0, 10, {0: 10}), Stretch(1, 0, ("a",), 0, 0, 5, {0: 5})]
    >>> first_numbers(ordered(two), 0, 100)
    [100, 105]
    """
    found = list[int]()
    for one in stretches:
        found.append(t)
        t += one.of_key.get(key, 0)
    return found


def by_part(stretches: Iterable[Stretch]) -> dict[int, list[int]]:
    """For each partition, which stretches it holds, in the order of its rows.

    Parameters
    ----------
    stretches
        All of a batch.
    """
    every = list(stretches)
    found, ends = defaultdict[int, list[int]](list), defaultdict[int, int](int)
    for index in sorted(range(len(every)), key=lambda i: every[i].position):
        one = every[index]
        if one.position != ends[one.part]:
            raise ShuffledError("records of several stretches alternate in a partition")
        ends[one.part] += one.records
        found[one.part].append(index)
    return dict(found)
