"""Counted records of a slow bucket that is open: what a mechanism keeps of them until it is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from headwater.files import need
from headwater.mechanisms.counted import Bucket, Unsigned, distinct, short, total
from headwater.mechanisms.protocol import Arrays, Rows, null_records


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
    """

    start: int
    records: int
    rows: Rows
    counts: Unsigned

    @staticmethod
    def of(start: int, rows: Rows, counts: NDArray[Any], coarser: Callable[[Rows], Rows]) -> CountedBucket:
        """Counted rows as a mechanism keeps them."""
        null, records = null_records(rows), int(counts.sum())
        if null.any():
            rows, counts = rows[~null], counts[~null]
        rows = coarser(rows)
        if rows.shape[1] == 1 and not (rows[1:, 0] > rows[:-1, 0]).all():
            rows, counts = distinct(rows, counts)  # cells stay sorted, as counting by leaves needs them
        return CountedBucket(start, records, rows, short(counts))

    def plus(self, others: Iterable[CountedBucket]) -> CountedBucket:
        """The sum of this and others, as counts of the bucket of this one."""
        every = [self, *others]
        rows, counts = distinct(*(np.concatenate([getattr(one, f) for one in every]) for f in ("rows", "counts")))
        return CountedBucket(self.start, sum(one.records for one in every), rows, short(counts))


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
        """The counts of records ``first … end − 1``, which are a bucket."""
        return [one for one in self.buckets if first <= one.start < end]

    def plus(self, bucket: CountedBucket) -> Self:
        """These and one more. Counts of one bucket are added up when they are of similar size: each is few times."""
        buckets = [*self.buckets, bucket]
        while len(buckets) > 1 and buckets[-2].start == buckets[-1].start:
            if len(buckets[-2].counts) > 2 * len(buckets[-1].counts):
                break
            last = buckets.pop()
            buckets[-1] = buckets[-1].plus([last])
        return type(self)(tuple(buckets))

    def merged(self, start: int) -> Self:
        """With one sum for all that arrived since ``start``: no bucket of only some of them is measured any more."""
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
            one = CountedBucket(first, records, rows[at : at + size], short(counts[at : at + size]))
            need(total(one.counts) <= records, "counted")
            found.append(one)
            at, before = at + size, first
        need(at == len(counts), "counted")
        kept = cls(tuple(found))
        need(all(kept.records - kept.before(one.start) <= t - one.start for one in found), "counted")
        return kept


def parts_by_bucket(
    rows: Rows, counts: NDArray[Any], t: int, bucket: Bucket
) -> Iterator[tuple[int, Rows, NDArray[Any]]]:
    """Start, rows and counts of each bucket that counted records fall into, the first of them number ``t``.

    An entry that is in two buckets is divided: only its bucket decides what a record counts in.
    """
    ends = np.cumsum(counts, dtype=np.int64)
    ends += t
    until = int(ends[-1]) if len(ends) else t
    first = 0
    while t < until:
        start, end = bucket(t)
        end = min(end, until)
        last = int(np.searchsorted(ends, end)) + 1
        part = counts[first:last]
        before, after = t - (int(ends[first]) - int(counts[first])), int(ends[last - 1]) - end
        if before or after:
            part = part.astype(np.int64)
            part[0] -= before
            part[-1] -= after
        yield start, rows[first:last], part
        first, t = last - (int(ends[last - 1]) > end), end
