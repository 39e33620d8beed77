"""Counted records: the distinct rows of a bucket of time, and how often each occurs.

A record's number in the order of arrival decides its buckets. Inside the fastest bucket order decides nothing more, so
any process can count the records whose numbers it knows, and counts of one bucket from many processes add up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from headwater.files import need
from headwater.mechanisms.protocol import Arrays, Rows, null_records

Integers = NDArray[np.int64]
Bucket = Callable[[int], tuple[int, int]]
Unsigned = NDArray[np.unsignedinteger[Any]]

_ODD = 0x9E3779B97F4A7C15  # mixes the integers of a row; which rows are compared depends on it, the result does not


@dataclass(frozen=True, eq=False)
class BucketedCounts:
    """Counted records of any number of fastest buckets. As secret as the records.

    Parameters
    ----------
    starts
        For each entry, the number of the first record of its bucket, in increasing order.
    rows
        For each entry a row, as `headwater.Synthesizer.encode` gives it; null records too.
    counts
        How many records of the bucket have this row.

    Examples
    --------
    >>> one = BucketedCounts(np.array([0]), np.array([[7]], dtype=np.uint64), np.array([2]))
    >>> (one + one).counts.tolist(), (one + one).records
    ([4], 4)
    """

    starts: Integers
    rows: Rows
    counts: Integers

    @property
    def records(self) -> int:
        """How many records were counted."""
        return _total(self.counts)

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
        every, found = list(parts), defaultdict[int, list[tuple[Rows, Integers]]](list)
        for one in every:
            for i, j in _runs(one.starts):
                found[int(one.starts[i])].append((one.rows[i:j], one.counts[i:j]))
        return _joined((start, *_added(found[start])) for start in sorted(found)) or every[0]


def check_counts(counts: object, t: int, check: Callable[[NDArray[Any]], Rows], bucket: Bucket) -> BucketedCounts:
    """Counted records that are exactly those after the first ``t``, or an error that says what is wrong.

    Parameters
    ----------
    counts
        As `count_by_bucket` gives them.
    t
        How many records arrived before.
    check
        Refuses rows that no record has.
    bucket
        First number and end of the bucket that holds a number.
    """
    if not isinstance(counts, BucketedCounts):
        raise TypeError(f"counts must be BucketedCounts, as histogram() gives them, not {type(counts).__name__}")
    starts, numbers, rows = (whole_numbers(name, getattr(counts, name)) for name in ("starts", "counts", "rows"))
    for name, array in (("starts", starts), ("counts", numbers)):
        if array.ndim != 1 or len(array) != len(rows):
            raise ValueError(f"{name} must be a list as long as rows, not of shape {array.shape}")
        if array.dtype.kind not in "iu" and array.size:
            raise TypeError(f"{name} must be whole numbers, not {array.dtype}")
    if numbers.size and (int(numbers.min()) < 1 or int(numbers.max()) >= 1 << 53):
        raise ValueError("counts must lie between 1 and 2^53 − 1")
    starts, rows = starts.astype(np.int64), check(rows)
    if (np.diff(starts) < 0).any():
        raise ValueError("starts must not fall; add counts with + or BucketedCounts.merge")
    runs = list(_runs(starts))
    for number, (i, j) in enumerate(runs):
        first, end = bucket(t)
        found, wanted = _total(numbers[i:j]), end - t
        if int(starts[i]) != first or found > wanted or (found < wanted and number + 1 < len(runs)):
            raise ValueError(
                f"the bucket of records {int(starts[i]):,} and after has {found:,} counted ones, where the next "
                f"{wanted:,} of the bucket from {first:,} were expected: count every record after the first t once"
            )
        t += found
    return BucketedCounts(starts, rows, numbers.astype(np.int64))


def count_by_bucket(
    rows: Rows, numbers: Integers, bucket: Bucket, coarser: Callable[[Rows, int], Rows]
) -> BucketedCounts:
    """Count records by the fastest bucket that they arrived in.

    Parameters
    ----------
    rows
        What is kept of each record.
    numbers
        Each record's number in the order of arrival, from 0.
    bucket
        First number and end of the bucket that holds a number.
    coarser
        Rows of the bucket that holds a number, without what no noisy count can ever tell apart.
    """
    if len(numbers) and (np.diff(numbers) < 0).any():
        order = np.argsort(numbers, kind="stable")
        rows, numbers = rows[order], numbers[order]
    found, first = list[tuple[int, Rows, Integers]](), 0
    while first < len(rows):
        start, end = bucket(int(numbers[first]))
        last = int(np.searchsorted(numbers, end))
        found.append((start, *distinct(coarser(rows[first:last], start))))
        first = last
    return _joined(found) or BucketedCounts(np.empty(0, dtype=np.int64), rows, np.empty(0, dtype=np.int64))


def _added(parts: list[tuple[Rows, Integers]]) -> tuple[Rows, Integers]:
    """The sum of the counts of one bucket."""
    rows, counts = zip(*parts, strict=True)
    return parts[0] if len(parts) == 1 else distinct(np.concatenate(rows), np.concatenate(counts))


def _joined(buckets: Iterable[tuple[int, Rows, Integers]]) -> BucketedCounts | None:
    every = list(buckets)
    if not every:
        return None
    starts = np.repeat([start for start, _, _ in every], [len(rows) for _, rows, _ in every]).astype(np.int64)
    return BucketedCounts(starts, *(np.concatenate([one[field] for one in every]) for field in (1, 2)))


def _runs(values: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """First and end of each run of equal values."""
    edges = np.flatnonzero(np.diff(values)) + 1
    return zip([0, *edges.tolist()], [*edges.tolist(), len(values)], strict=True) if len(values) else iter(())


def distinct(rows: Rows, counts: NDArray[Any] | None = None) -> tuple[Rows, Integers]:
    """The distinct rows in a fixed order, and how often each occurs.

    Wide rows are ordered by a hash: two different rows with the same one may keep equal rows apart, which changes no
    sum of counts.

    Parameters
    ----------
    rows
        An array of shape ``(n, width)``.
    counts
        How often each row stands for; once unless given.
    """
    if rows.shape[1] == 1:
        names, numbers = distinct_cells(rows[:, 0], counts)
        return names[:, None], numbers
    mixed = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T:
        mixed = (mixed ^ column) * np.uint64(_ODD)
        mixed ^= mixed >> np.uint64(29)
    order = np.argsort(mixed, kind="stable")
    ordered = rows[order]
    first = np.flatnonzero(np.append(np.ones(min(len(rows), 1), bool), (ordered[1:] != ordered[:-1]).any(axis=1)))
    return ordered[first], _sums(first, len(rows), None if counts is None else counts[order])


def distinct_cells(cells: Unsigned, counts: NDArray[Any] | None = None) -> tuple[Unsigned, Integers]:
    """The same for rows of one integer, in increasing order."""
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


@dataclass(frozen=True, eq=False)
class CountedBucket:
    """Counted records that the same buckets hold from now on: their order and their numbers are forgotten.

    Parameters
    ----------
    start
        Of the smallest bucket that they are known to be in.
    records
        How many there are, null records too.
    rows
        The distinct rows of those that are not null, perhaps coarser than they were.
    counts
        How often each occurs.
    """

    start: int
    records: int
    rows: Rows
    counts: Unsigned

    @staticmethod
    def of(start: int, rows: Rows, counts: Integers, coarser: Callable[[Rows], Rows]) -> CountedBucket:
        """Counted rows as a mechanism keeps them."""
        null, records = null_records(rows), int(counts.sum())
        if null.any():
            rows, counts = rows[~null], counts[~null]
        rows = coarser(rows)
        if rows.shape[1] == 1 and not (rows[1:, 0] > rows[:-1, 0]).all():
            rows, counts = distinct(rows, counts)  # cells stay sorted, as counting by leaves needs them
        return CountedBucket(start, records, rows, _short(counts))

    def plus(self, others: Iterable[CountedBucket]) -> CountedBucket:
        """All together, in the bucket of this one."""
        every = [self, *others]
        rows, counts = distinct(*(np.concatenate([getattr(one, f) for one in every]) for f in ("rows", "counts")))
        return CountedBucket(self.start, sum(one.records for one in every), rows, _short(counts))


@dataclass(frozen=True, eq=False)
class CountedBuckets:
    """All counted records of an open slow bucket. Immutable: whatever changes it gives another one."""

    buckets: tuple[CountedBucket, ...] = ()

    @property
    def records(self) -> int:
        """How many records were counted."""
        return sum(one.records for one in self.buckets)

    def before(self, number: int) -> int:
        """How many of them arrived before record number ``number``, which starts or ends a bucket."""
        return sum(one.records for one in self.buckets if one.start < number)

    def within(self, first: int, end: int) -> list[CountedBucket]:
        """Those of a bucket."""
        return [one for one in self.buckets if first <= one.start < end]

    def plus(self, bucket: CountedBucket) -> Self:
        """These and more. Parts of one bucket are added up when they are of similar size, so that each is few times."""
        buckets = [*self.buckets, bucket]
        while len(buckets) > 1 and buckets[-2].start == buckets[-1].start:
            if len(buckets[-2].counts) > 2 * len(buckets[-1].counts):
                break
            last = buckets.pop()
            buckets[-1] = buckets[-1].plus([last])
        return type(self)(tuple(buckets))

    def merged(self, start: int) -> Self:
        """With one sum for all that arrived since ``start``: no bucket that tells them apart is measured any more."""
        before = tuple(one for one in self.buckets if one.start < start)
        first, *others = self.buckets[len(before) :] or (None,)
        if first is None or (not others and first.start == start):
            return self
        return type(self)((*before, CountedBucket(start, first.records, first.rows, first.counts).plus(others)))

    def state(self) -> Arrays:
        """As arrays, for a file; none if there are no counted records."""
        if not self.buckets:
            return {}
        spans = [(one.start, one.records, len(one.counts)) for one in self.buckets]
        rows, counts = np.concatenate([one.rows for one in self.buckets]), [one.counts for one in self.buckets]
        return {
            "counted": np.array(spans, dtype=np.int64).reshape(-1),
            "counted_rows": rows.astype(rows.dtype.newbyteorder("<")).reshape(-1).view(np.uint8),
            "counted_counts": np.concatenate([one.astype(np.int64) for one in counts]),
        }

    @classmethod
    def restore(cls, arrays: Arrays, start: int, t: int, width: int, word: type[Any], bucket: Bucket) -> Self:
        """What `state` gave, if these can be the counted records of a slow bucket that is open from ``start`` to ``t``.

        The mechanism checks the rows.
        """
        if "counted" not in arrays:
            return cls()
        spans, data, counts = (arrays[name] for name in ("counted", "counted_rows", "counted_counts"))
        need(spans.dtype == counts.dtype == np.int64 and data.dtype == np.uint8, "counted")
        need(spans.ndim == counts.ndim == data.ndim == 1 and len(spans) % 3 == 0, "counted")
        need(len(data) == len(counts) * width * np.dtype(word).itemsize, "counted_rows")
        need(not len(counts) or (int(counts.min()) > 0 and int(counts.max()) <= t), "counted_counts")
        rows = data.view(np.dtype(word).newbyteorder("<")).astype(word).reshape(-1, width)
        found, at, before = list[CountedBucket](), 0, start
        for first, records, size in spans.reshape(-1, 3).tolist():
            need(before <= first < t and bucket(first)[0] == first, "counted")
            need(0 <= size <= len(counts) - at and 0 < records <= t - first, "counted")
            one = CountedBucket(first, records, rows[at : at + size], _short(counts[at : at + size]))
            need(_total(one.counts) <= records, "counted")
            found.append(one)
            at, before = at + size, first
        need(at == len(counts), "counted")
        kept = cls(tuple(found))
        need(all(kept.records - kept.before(one.start) <= t - one.start for one in found), "counted")
        return kept


def parts_by_bucket(rows: Rows, counts: Integers, t: int, bucket: Bucket) -> Iterator[tuple[int, Rows, Integers]]:
    """Start, rows and counts of each fastest bucket that counted records fall into, the first of them number ``t``.

    An entry that is in two buckets is divided: only its bucket decides what a record counts in.
    """
    ends = np.cumsum(counts) + t
    total = int(ends[-1]) if len(ends) else t
    first = 0
    while t < total:
        start, end = bucket(t)
        end = min(end, total)
        last = int(np.searchsorted(ends, end)) + 1
        part = np.minimum(ends[first:last], end) - np.maximum(ends[first:last] - counts[first:last], t)
        yield start, rows[first:last], part
        first, t = last - (int(ends[last - 1]) > end), end


def whole_numbers(what: str, numbers: object) -> NDArray[Any]:
    """An array, or an error that names what it is."""
    if isinstance(numbers, np.ma.MaskedArray):
        raise TypeError(f"{what} must not be a masked array: leave out what is masked first")
    return np.asarray(numbers)


def _total(counts: NDArray[Any]) -> int:
    """The sum, exact whatever the counts are: Python's numbers do not wrap around."""
    small = int(counts.max(initial=0)) < 1 << 31 and len(counts) < 1 << 31
    return int(counts.sum(dtype=np.int64)) if small else sum(counts.tolist())


def _short(counts: NDArray[Any]) -> Unsigned:
    largest = int(counts.max(initial=0))
    return counts.astype(np.uint8 if largest < 1 << 8 else np.uint32 if largest < 1 << 32 else np.uint64)
