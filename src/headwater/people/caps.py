"""How many records of each person have counted: 17 bytes a person for caps up to 255, and never changed in place.

Hashes and counts are in sorted arrays, which are searched newest first. A batch adds an array of the people in it;
arrays of about the same size are merged, so a person is copied a logarithmic number of times. Since nothing is changed
in place, an update that is interrupted leaves what there was (`headwater.synthesizer_state`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.files import need
from headwater.people.hashing import Hashes

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
RATIO = 2  # an array that is not so many times larger than the next one is merged with it


@dataclass(frozen=True, eq=False)
class Groups:
    """The people of a batch, each once, and the place of every record among those of its person.

    Parameters
    ----------
    people
        The hashes, sorted by their first half.
    person
        For each record, which of the people.
    earlier
        For each record, how many records of the same person are before it in the batch.
    sizes
        How many records each of the people has.
    """

    people: Hashes
    person: Integers
    earlier: Integers
    sizes: Integers

    @staticmethod
    def of(hashes: Hashes) -> Groups:
        """The records of a batch, given in order of arrival, grouped by person."""
        high, low = hashes[:, 0], hashes[:, 1]
        order = np.argsort(high, kind="stable")
        if np.any((high[order[1:]] == high[order[:-1]]) & (low[order[1:]] != low[order[:-1]])):
            order = np.lexsort((low, high))  # stable as well; two people share 64 bits: once in 10^10 batches
        ranked = hashes[order]
        first = np.ones(len(order), dtype=np.bool_)
        first[1:] = (ranked[1:] != ranked[:-1]).any(axis=1)
        (starts,) = first.nonzero()
        sizes = np.diff(starts, append=len(order))
        person, earlier = np.empty(len(order), dtype=np.int64), np.empty(len(order), dtype=np.int64)
        person[order] = np.repeat(np.arange(len(starts)), sizes)
        earlier[order] = np.arange(len(order)) - np.repeat(starts, sizes)
        return Groups(ranked[starts], person, earlier, sizes)


@dataclass(frozen=True, eq=False)
class _Level:
    """Some people, sorted by the first half of their hashes, and their counts."""

    high: NDArray[np.uint64]
    low: NDArray[np.uint64]
    counts: NDArray[Any]

    def find(self, high: NDArray[np.uint64], low: NDArray[np.uint64]) -> tuple[Integers, Flags]:
        """The index of each of these people, or where it would be inserted, and whether it is here."""
        places = np.searchsorted(self.high, high)
        here, asked = np.zeros(len(high), dtype=np.bool_), np.arange(len(high))
        while len(asked):
            at = places[asked]
            same = self.high.take(at, mode="clip") == high[asked]
            asked, at = asked[same], at[same]
            match = self.low[at] == low[asked]
            here[asked[match]] = True
            asked = asked[~match]
            places[asked] += 1  # others share the first half
            asked = asked[places[asked] < len(self.high)]
        return places, here

    def with_newer(self, newer: _Level) -> _Level:
        """The union of both; a person who is in both has the newer count."""
        places, known = self.find(newer.high, newer.low)
        counts, new = self.counts.copy(), ~known
        counts[places[known]] = newer.counts[known]
        at = places[new] + np.arange(np.count_nonzero(new))
        if not len(at):
            return _Level(self.high, self.low, counts)
        old = np.ones(len(counts) + len(at), dtype=np.bool_)
        old[at] = False
        parts = ((self.high, newer.high), (self.low, newer.low), (counts, newer.counts))
        merged = []
        for mine, more in parts:
            whole = np.empty(len(old), dtype=mine.dtype)
            whole[old], whole[at] = mine, more[new]
            merged.append(whole)
        return _Level(*merged)


@dataclass(frozen=True, eq=False)
class Caps:
    """How many records of each person have counted, at most ``limit``. Secret.

    Parameters
    ----------
    limit
        How many records of a person count.
    levels
        Sorted arrays, oldest and largest first.
    """

    limit: int
    levels: tuple[_Level, ...] = ()

    @property
    def people(self) -> int:
        """How many entries are kept: at least the number of people, who may have two until arrays are merged."""
        return sum(len(level.high) for level in self.levels)

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(array.nbytes for level in self.levels for array in (level.high, level.low, level.counts))

    def counts(self, people: Hashes) -> Integers:
        """How many records of each of these people have counted."""
        found, asked = np.zeros(len(people), dtype=np.int64), np.arange(len(people))
        for level in reversed(self.levels):
            if not len(asked):
                break
            places, known = level.find(people[asked, 0], people[asked, 1])
            found[asked[known]] = level.counts[places[known]]
            asked = asked[~known]
        return found

    def with_counts(self, people: Hashes, counts: Integers) -> Caps:
        """The caps with new counts of some people, which replace the old ones.

        ``people`` are sorted by their first halves, and each is there once.
        """
        if not len(people):
            return self
        small = np.min_scalar_type(self.limit)
        newest = _Level(people[:, 0].copy(), people[:, 1].copy(), counts.astype(small))
        levels = list(self.levels)
        while levels and len(levels[-1].high) < RATIO * len(newest.high):
            newest = levels.pop().with_newer(newest)
        return Caps(self.limit, (*levels, newest))

    def emptied(self) -> Caps:
        """The same cap, and nobody has counted yet."""
        return Caps(self.limit)

    def state(self) -> dict[str, NDArray[Any]]:
        """All people and their counts, as arrays: what a state keeps."""
        if not self.levels:
            return {"high": np.empty(0, np.uint64), "low": np.empty(0, np.uint64), "counts": np.empty(0, np.uint8)}
        whole, *rest = self.levels
        for level in rest:
            whole = whole.with_newer(level)
        return {"high": whole.high, "low": whole.low, "counts": whole.counts}

    @staticmethod
    def restore(limit: int, arrays: dict[str, NDArray[Any]]) -> Caps:
        """What `state` gave, or refused (`headwater.files.FileRefusedError`)."""
        high, low, counts = arrays["high"], arrays["low"], arrays["counts"]
        need(high.ndim == 1 and high.shape == low.shape == counts.shape, "people")
        need(high.dtype.str == low.dtype.str == "<u8" and counts.dtype.kind == "u", "people")
        need(bool((high[1:] >= high[:-1]).all()) and int(counts.max(initial=1)) <= limit, "people")
        return Caps(limit, (_Level(high, low, counts),) if len(high) else ())
