"""Records of a slow bucket that is open: what a mechanism keeps of them until it is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from headwater.public.files import need
from headwater.public.protocol import Arrays, Rows, Span, null_records
from headwater.secret.batch import Batch, distinct, short

_TOGETHER = 16  # parts of one record a row are joined so many at a time: joining takes longer than taking a record


class Part(NamedTuple):
    """Records that the same buckets hold from now on: their order is forgotten. ``counts`` None: one record a row."""

    start: int
    records: int  # null records too, which have no row
    rows: Rows
    counts: NDArray[Any] | None = None


def cut(batch: Batch, t: int, bucket: Callable[[int], Span]) -> Iterator[Part]:
    """A batch cut where a bucket ends; an entry that is in two buckets is divided. ``bucket`` is asked as it goes."""
    sums = None if batch.counts is None else np.concatenate(([0], np.cumsum(batch.counts, dtype=np.int64)))
    begin, size = t, len(batch.rows) if sums is None else int(sums[-1])
    while t < begin + size:
        start, end = bucket(t)
        end = min(end, begin + size)
        a, b = t - begin, end - begin
        if sums is None:
            yield Part(start, end - t, batch.rows[a:b])
        else:
            i, j = int(np.searchsorted(sums, a, side="right")) - 1, int(np.searchsorted(sums, b))
            yield Part(start, end - t, batch.rows[i:j], np.diff(np.clip(sums[i : j + 1], a, b)))
        t = end


def between(first: int, batch: Batch, start: int, end: int) -> Batch:
    """The records of a batch from number ``start`` on, before number ``end``; all if they are to be taken at once."""
    if batch.until is not None or (start <= first and first + batch.records <= end):
        if start > first:
            raise ValueError("a part of records that were counted to be taken at once")
        return batch
    parts = cut(batch, first, lambda number: Span(start, end) if number >= start else Span(first, start))
    return next(Batch(part.rows, part.counts) for part in parts if part.start == start)


@dataclass(frozen=True, eq=False)
class Held:
    """All records of an open slow bucket."""

    parts: tuple[Part, ...] = ()

    def within(self, span: Span) -> tuple[list[Rows], list[tuple[Rows, NDArray[Any]]]]:
        """Rows of one record each, and counted rows, of the buckets that begin in a span."""
        found = [part for part in self.parts if span.start <= part.start < span.end and len(part.rows)]
        plain = [part.rows for part in found if part.counts is None]
        return plain, [(part.rows, part.counts) for part in found if part.counts is not None]

    def plus(self, part: Part, coarser: Callable[[Rows], Rows] = lambda rows: rows) -> Self:
        """With more records of the last bucket, or of the next one. Parts of similar size are joined."""
        rows, counts, null = part.rows, part.counts, null_records(part.rows)
        if np.count_nonzero(null):
            rows, counts = rows[~null], None if counts is None else counts[~null]
        new = Part(part.start, part.records, coarser(rows), None if counts is None else short(counts))
        parts, together = [*self.parts, new], 2 if counts is not None else _TOGETHER
        while len(parts) >= together:
            some = parts[-together:]
            if some[0].start != new.start or len(some[0].rows) >= together * max(len(some[-1].rows), 1):
                break
            if any((one.counts is None) != (counts is None) for one in some):
                break
            parts[-together:] = [_joined(new.start, some)]
        return type(self)(tuple(parts))

    def merged(self, start: int) -> Self:
        """With all since ``start`` as one bucket: none of only some of it is measured any more."""
        kept = tuple(part for part in self.parts if part.start < start)
        since = self.parts[len(kept) :]
        plain, counted = ([part for part in since if (part.counts is None) == kind] for kind in (True, False))
        return type(self)((*kept, *(_joined(start, some) for some in (plain, counted) if some)))

    def state(self) -> Arrays:
        spans = [(part.start, part.records, len(part.rows), part.counts is not None) for part in self.parts]
        counts = [np.empty(0, dtype=np.int64), *(part.counts for part in self.parts if part.counts is not None)]
        rows = [part.rows.astype(part.rows.dtype.newbyteorder("<")) for part in self.parts]
        return {
            "held": np.array(spans, dtype=np.int64).reshape(-1, 4),
            "held_rows": np.concatenate([np.empty(0, np.uint8), *(each.reshape(-1).view(np.uint8) for each in rows)]),
            "held_counts": np.concatenate(counts).astype(np.int64),
        }

    @classmethod
    def restore(cls, arrays: Arrays, width: int, word: np.dtype[Any]) -> Self:
        spans, data, counts = (arrays[name] for name in ("held", "held_rows", "held_counts"))
        need(spans.shape[1:] == (4,) and data.dtype == np.uint8 and counts.dtype == np.int64, "held")
        need(len(data) == int(spans[:, 2].sum()) * width * word.itemsize, "held_rows")
        need(len(counts) == int(spans[spans[:, 3] == 1, 2].sum()), "held_counts")
        rows = data.view(word.newbyteorder("<")).astype(word).reshape(-1, width)
        parts = list[Part]()
        for start, records, size, counted in spans.tolist():
            parts.append(Part(start, records, rows[:size], short(counts[:size]) if counted else None))
            rows, counts = rows[size:], counts[size:] if counted else counts
        return cls(tuple(parts))


def _joined(start: int, parts: list[Part]) -> Part:
    records = sum(part.records for part in parts)
    rows = np.concatenate([part.rows for part in parts]) if len(parts) > 1 else parts[0].rows
    counts = [part.counts for part in parts if part.counts is not None]
    if len(parts) == 1 or not counts:
        return Part(start, records, rows, counts[0] if counts else None)
    rows, summed = distinct(rows, np.concatenate(counts))
    return Part(start, records, rows, short(summed))
