"""Counted records of a slow bucket that is open: what a mechanism keeps of them until it is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from headwater.public.files import need
from headwater.public.protocol import Arrays, Rows, null_records
from headwater.secret.counts import Bucket, RunningSums, Unsigned, distinct, short, total

_MANY = 16  # parts of a bucket that are kept beside one another
_LARGE = 1 << 17  # rows of a part that is kept beside others


@dataclass(frozen=True, eq=False)
class CountedBucket:
    """Counted records that the same buckets hold from now on: their order and their numbers are forgotten."""

    start: int
    records: int
    rows: Rows
    counts: Unsigned

    @staticmethod
    def of(
        start: int, records: int, rows: Rows, counts: NDArray[Any], coarser: Callable[[Rows], Rows] | None = None
    ) -> list[CountedBucket]:
        """Counted rows as a mechanism keeps them; of cells several, in each of which they are sorted and distinct."""
        null = null_records(rows)
        if null.any():
            rows, counts = rows[~null], counts[~null]
        if coarser is not None:
            rows = coarser(rows)
        if rows.shape[1] > 1:
            return [CountedBucket(start, records, rows, short(counts))]
        (edges,) = (rows[1:, 0] <= rows[:-1, 0]).nonzero()
        if len(edges) > _MANY:
            rows, counts = distinct(rows, counts)
            edges = edges[:0]
        first, *others = pairwise([0, *(edges + 1).tolist(), len(rows)])
        found = [CountedBucket(start, total(counts[i:j]), rows[i:j], short(counts[i:j])) for i, j in others]
        rest = records - sum(one.records for one in found)
        return [CountedBucket(start, rest, rows[: first[1]], short(counts[: first[1]])), *found]

    def plus(self, others: Iterable[CountedBucket]) -> CountedBucket:
        every = [self, *others]
        rows, counts = distinct(*(np.concatenate([getattr(one, f) for one in every]) for f in ("rows", "counts")))
        return CountedBucket(self.start, sum(one.records for one in every), rows, short(counts))


@dataclass(frozen=True, eq=False)
class CountedBuckets:
    """All counted records of an open slow bucket."""

    buckets: tuple[CountedBucket, ...] = ()

    @property
    def records(self) -> int:
        return sum(one.records for one in self.buckets)

    def before(self, number: int) -> int:
        return sum(one.records for one in self.buckets if one.start < number)

    def within(self, first: int, end: int) -> list[CountedBucket]:
        return [one for one in self.buckets if first <= one.start < end]

    def plus(self, parts: Iterable[CountedBucket]) -> Self:
        buckets = list(self.buckets)
        for part in parts:
            buckets = _with(buckets, part)
        return type(self)(tuple(buckets))

    def merged(self, start: int) -> Self:
        kept = [one for one in self.buckets if one.start < start]
        since = [one if one.start == start else replace(one, start=start) for one in self.buckets[len(kept) :]]
        return type(self)((*kept, *_few(since))) if since else self

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
) -> Iterator[tuple[int, int, Rows, NDArray[Any]]]:
    """Start, records, rows and counts of each bucket that counted records fall into, the first of them number ``t``."""
    sums, begin, first = RunningSums(counts), t, 0
    until = begin + int(sums.of_first(len(counts)))
    while t < until:
        start, end = bucket(t)
        end = min(end, until)
        last = sums.reaching(end - begin)
        part = counts[first:last]
        before, beyond = t - begin - int(sums.of_first(first)), begin + int(sums.of_first(last)) - end
        if before or beyond:
            part = part.astype(np.int64)
            part[0] -= before
            part[-1] -= beyond
        yield start, end - t, rows[first:last], part
        first, t = last - (beyond > 0), end


def _with(buckets: list[CountedBucket], bucket: CountedBucket) -> list[CountedBucket]:
    same = len(buckets)
    while same and buckets[same - 1].start == bucket.start:
        same -= 1
    return [*buckets[:same], *_few([*buckets[same:], bucket])]


def _few(parts: list[CountedBucket]) -> list[CountedBucket]:
    """The parts of one bucket; of the last ones those that are small, or whose records repeat, are added up."""
    first, size = len(parts), 0
    while first and (not size or len(parts[first - 1].counts) <= 2 * size):
        first -= 1
        size += max(len(parts[first].counts), 1)
    alike = parts[first:]
    apart = [one for one in alike if len(one.counts) >= max(_LARGE, one.records // 2)]
    if len(apart) > _MANY:
        apart = []
    rest = [one for one in alike if one not in apart]
    return [*parts[:first], *apart, *([rest[0].plus(rest[1:])] if len(rest) > 1 else rest)]
