"""Counted records as they came, in parts of one bucket each: what an owner checks, keeps and adds up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.public.partition import Integers
from headwater.public.protocol import Rows

Bucket = Callable[[int], tuple[int, int]]
BucketUntil = Callable[[int, int | None], tuple[int, int]]
Unsigned = NDArray[np.unsignedinteger[Any]]
Parts = defaultdict[int, list[tuple[Rows, NDArray[Any]]]]
"""For the start of each bucket, rows and counts from any number of processes."""

_WORD = 62  # bits of a word that rows are packed into: no shift reaches all of it
_ODD = 0x9E3779B97F4A7C15  # mixes the integers of a row; which rows are compared depends on it, the result does not


@dataclass(frozen=True, eq=False)
class BucketedCounts:
    """Counted records of any number of buckets. As secret as the records.

    Parameters
    ----------
    starts
        For each entry, the number of the first record of its bucket, in increasing order.
    rows
        For each entry a row, as `headwater.Synthesizer.encode` gives it; null records too.
    counts
        How many records of the bucket have this row.
    until
        How many records there are with these, if they are taken at once, so that buckets inside a slower one that is
        closed then were not counted apart (`headwater.Synthesizer.bucket`). Without it buckets are the fastest ones.

    Examples
    --------
    >>> one = BucketedCounts(np.array([0]), np.array([[7]], dtype=np.uint64), np.array([2]))
    >>> (one + one).counts.tolist(), (one + one).records
    ([4], 4)
    """

    starts: Integers
    rows: Rows
    counts: NDArray[Any]
    until: int | None = None

    @property
    def records(self) -> int:
        """How many records were counted."""
        return total(self.counts)

    def __add__(self, other: BucketedCounts) -> BucketedCounts:
        return BucketedCounts.merge((self, other))

    @staticmethod
    def merge(parts: Iterable[BucketedCounts]) -> BucketedCounts:
        """The sum of all parts, in any order.

        Parameters
        ----------
        parts
            At least one.
        """
        every, found = list(parts), Parts(list)
        until = every[0].until
        for one in every:
            if one.until != until:
                raise ValueError("counts of other buckets: give every part the same until")
            for i, j in runs(one.starts):
                found[int(one.starts[i])].append((one.rows[i:j], one.counts[i:j]))
        return add_parts(found, until) if found else every[0]


def count_by_bucket(
    rows: Rows,
    numbers: Integers | int,
    bucket: Bucket,
    coarser: Callable[[Rows, int], Rows],
    until: int | None = None,
) -> BucketedCounts:
    """Count records by the bucket that they arrived in, given their numbers, or the first of consecutive ones."""
    if not isinstance(numbers, int) and (np.diff(numbers) < 0).any():
        order = np.argsort(numbers, kind="stable")
        rows, numbers = rows[order], numbers[order]
    found, first = list[tuple[int, Rows, Integers]](), 0
    while first < len(rows):
        start, end = bucket(numbers + first if isinstance(numbers, int) else int(numbers[first]))
        last = min(end - numbers, len(rows)) if isinstance(numbers, int) else int(np.searchsorted(numbers, end))
        found.append((start, *distinct(coarser(rows[first:last], start))))
        first = last
    nothing = np.empty(0, dtype=np.int64)
    return _joined(found, until) if found else BucketedCounts(nothing, rows, nothing, until)


def add_parts(parts: Parts, until: int | None) -> BucketedCounts:
    return _joined(((start, *_added(parts[start])) for start in sorted(parts)), until)


def _added(parts: list[tuple[Rows, NDArray[Any]]]) -> tuple[Rows, NDArray[Any]]:
    if len(parts) == 1:
        return parts[0]
    every, numbers = zip(*parts, strict=True)
    rows, counts = distinct(np.concatenate(every), np.concatenate(numbers))
    return rows, short(counts)


def _joined(buckets: Iterable[tuple[int, Rows, NDArray[Any]]], until: int | None) -> BucketedCounts:
    every = list(buckets)
    firsts = np.array([start for start, _, _ in every], dtype=np.int64)
    starts = np.repeat(firsts, [len(rows) for _, rows, _ in every])
    rows, counts = (np.concatenate([one[field] for one in every]) for field in (1, 2))
    return BucketedCounts(starts, rows, counts, until)


def runs(values: NDArray[Any]) -> Iterator[tuple[int, int]]:
    edges = np.flatnonzero(values[1:] != values[:-1]) + 1
    return zip([0, *edges.tolist()], [*edges.tolist(), len(values)], strict=True) if len(values) else iter(())


def distinct(rows: Rows, counts: NDArray[Any] | None = None) -> tuple[Rows, Integers]:
    """The distinct rows in a fixed order, and how often each occurs."""
    if rows.shape[1] == 1:
        names, numbers = distinct_cells(rows[:, 0], counts)
        return names[:, None], numbers
    bits = [int(column.max(initial=0)).bit_length() for column in rows.T]
    if sum(bits) <= _WORD:
        names, numbers = distinct_cells(_side_by_side(rows, bits), counts)
        return _apart(names, bits, rows.dtype), numbers
    mixed = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T:
        mixed = (mixed ^ column) * np.uint64(_ODD)
        mixed ^= mixed >> np.uint64(29)
    order = np.argsort(mixed, kind="stable")
    ordered = rows[order]
    first = np.flatnonzero(np.append(np.ones(min(len(rows), 1), bool), (ordered[1:] != ordered[:-1]).any(axis=1)))
    return ordered[first], _sums(first, len(rows), None if counts is None else counts[order])


def _side_by_side(rows: Rows, bits: list[int]) -> Unsigned:
    word = np.dtype(np.uint32 if sum(bits) <= 32 else np.uint64)
    words: Unsigned = np.zeros(len(rows), dtype=word)
    for column, width in zip(rows.T, bits, strict=True):
        words = words << word.type(width) | column.astype(word, copy=False)
    return words


def _apart(words: Unsigned, bits: list[int], kind: np.dtype[Any]) -> Rows:
    rows = np.empty((len(words), len(bits)), dtype=kind)
    for column in reversed(range(len(bits))):
        width = words.dtype.type(bits[column])
        rows[:, column] = words & ((words.dtype.type(1) << width) - words.dtype.type(1))
        words = words >> width
    return rows


def distinct_cells(cells: Unsigned, counts: NDArray[Any] | None = None) -> tuple[Unsigned, Integers]:
    """The same for rows of one integer, in increasing order."""
    if counts is not None and total(counts) <= 2 * len(cells):  # sorting records takes less time than sorting pairs
        (several,) = (counts > 1).nonzero()
        cells, counts = np.concatenate((cells, np.repeat(cells[several], counts[several] - 1))), None
    if counts is None:
        ordered, numbers = np.sort(cells), None
    elif len(cells) and int(cells.max()) < 1 << 32 and int(counts.max()) < 1 << 32:  # one sort of words is much faster
        words = np.sort(cells.astype(np.uint64) << np.uint64(32) | counts.astype(np.uint64))
        ordered, numbers = (words >> np.uint64(32)).astype(cells.dtype), words & np.uint64(0xFFFFFFFF)
    else:
        order = np.argsort(cells, kind="stable")
        ordered, numbers = cells[order], counts[order]
    first = np.flatnonzero(np.append(np.ones(min(len(cells), 1), bool), ordered[1:] != ordered[:-1]))
    return ordered[first], _sums(first, len(cells), numbers)


def _sums(first: NDArray[np.intp], size: int, counts: NDArray[Any] | None) -> Integers:
    if counts is None:
        return np.diff(first, append=size).astype(np.int64)
    return np.add.reduceat(counts.astype(np.int64), first) if len(first) else np.empty(0, dtype=np.int64)


class RunningSums:
    """The sums of the first so many counts, each of which is at least one."""

    def __init__(self, counts: NDArray[Any]) -> None:
        (several,) = (counts > 1).nonzero()
        few = len(several) < len(counts) // 8
        self._size, self._several = len(counts), several if few else None
        summed = counts[several].astype(np.int64) - 1 if few else counts
        self._sums = np.zeros(len(summed) + 1, dtype=np.int64)
        np.cumsum(summed, out=self._sums[1:])

    def of_first(self, entries: Integers | int) -> Integers:
        if self._several is None:
            return self._sums.take(entries)
        found: Integers = entries + self._sums.take(np.searchsorted(self._several, entries))
        return found

    def reaching(self, total: int) -> int:
        if self._several is None:
            return min(int(np.searchsorted(self._sums, total)), self._size)
        last = int(np.searchsorted(self._several + 1 + self._sums[1:], total))
        until = int(self._several[last]) + 1 if last < len(self._several) else self._size
        return min(total - int(self._sums[last]), until)


def whole_numbers(what: str, numbers: object) -> NDArray[Any]:
    if type(numbers) is not np.ndarray and isinstance(numbers, np.ma.MaskedArray):  # in this order: a lazy import
        raise TypeError(f"{what} must not be a masked array: leave out what is masked first")
    return np.asarray(numbers)


def short(counts: NDArray[Any]) -> Unsigned:
    largest = int(counts.max(initial=0))
    word = np.uint8 if largest < 1 << 8 else np.uint32 if largest < 1 << 32 else np.uint64
    return counts.astype(word, copy=False)


def total(counts: NDArray[Any]) -> int:
    small = int(counts.max(initial=0)) < 1 << 31 and len(counts) < 1 << 31
    return int(counts.sum(dtype=np.int64)) if small else sum(counts.tolist())


class Part(NamedTuple):
    """Rows of one bucket, in any order, and how many records each of them stands for."""

    start: int
    rows: Rows
    counts: NDArray[Any]


@dataclass(frozen=True, eq=False)
class CountedParts:
    """Counted records of any number of buckets, as many processes have counted them."""

    parts: Sequence[Part]
    until: int | None = None

    @staticmethod
    def of(parts: Parts, until: int | None) -> CountedParts:
        return CountedParts([Part(start, *one) for start in sorted(parts) for one in parts[start]], until)

    @staticmethod
    def of_arrays(counts: BucketedCounts) -> CountedParts:
        cut = ((slice(i, j), int(counts.starts[i])) for i, j in runs(counts.starts))
        return CountedParts([Part(start, counts.rows[at], counts.counts[at]) for at, start in cut], counts.until)

    @property
    def codes(self) -> int:
        return sum(len(one.counts) for one in self.parts)

    @property
    def records(self) -> int:
        return sum(total(one.counts) for one in self.parts)

    @property
    def rows(self) -> Rows:
        return np.concatenate([one.rows for one in self.parts])

    @property
    def counts(self) -> NDArray[Any]:
        return np.concatenate([one.counts for one in self.parts])


def check_counts(counts: object, t: int, check: Callable[[NDArray[Any]], Rows], bucket: BucketUntil) -> CountedParts:
    """Counted records that are exactly those after the first ``t``, or an error that says what is wrong."""
    given = counts if isinstance(counts, CountedParts) else _cut(counts)
    parts = [Part(start, check(rows), _checked(numbers)) for start, rows, numbers in given.parts]
    buckets = [(start, list(found)) for start, found in groupby(parts, lambda one: one.start)]
    for number, (start, of_bucket) in enumerate(buckets):
        first, end = bucket(t, given.until)
        found, wanted = sum(total(one.counts) for one in of_bucket), end - t
        if start != first or found > wanted or (found < wanted and number + 1 < len(buckets)):
            raise ValueError(
                f"the bucket of records {start:,} and after has {found:,} counted ones, where the next "
                f"{wanted:,} of the bucket from {first:,} were expected: count every record after the first t once"
            )
        t += found
    if given.until not in (None, t):
        raise ValueError(f"counted for {given.until!r} records in all, and there are {t:,} with these")
    return CountedParts(parts, given.until)


def _cut(counts: object) -> CountedParts:
    """Counts in arrays that fit one another, cut into buckets."""
    if not isinstance(counts, BucketedCounts):
        raise TypeError(f"counts must be BucketedCounts, as histogram() gives them, not {type(counts).__name__}")
    starts, numbers, rows = (whole_numbers(name, getattr(counts, name)) for name in ("starts", "counts", "rows"))
    for name, array in (("starts", starts), ("counts", numbers)):
        if array.ndim != 1 or len(array) != len(rows):
            raise ValueError(f"{name} must be a list as long as rows, not of shape {array.shape}")
        if array.dtype.kind not in "iu" and array.size:
            raise TypeError(f"{name} must be whole numbers, not {array.dtype}")
    _checked(numbers)
    if (starts[1:] < starts[:-1]).any():
        raise ValueError("starts must not fall; add counts with + or BucketedCounts.merge")
    return CountedParts.of_arrays(BucketedCounts(starts, rows, numbers, counts.until))


def _checked(numbers: NDArray[Any]) -> NDArray[Any]:
    if numbers.size and (int(numbers.min()) < 1 or int(numbers.max()) >= 1 << 53):
        raise ValueError("counts must lie between 1 and 2^53 − 1")
    return numbers if numbers.dtype.kind == "u" else numbers.astype(np.int64)
