"""Records as a run takes and keeps them: one by one in order of arrival, or counted, bucket by bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.partition import Integers
from headwater.public.protocol import Rows, Span
from headwater.public.tally import BadRow, Tally

Unsigned = NDArray[np.unsignedinteger[Any]]

_WORD = 62  # bits of a word that rows are packed into: no shift reaches all of it
_ODD = 0x9E3779B97F4A7C15  # mixes the integers of a row; which rows are compared depends on it, the result does not


@dataclass(frozen=True, eq=False)
class Batch:
    """Records in order of arrival, or counted by bucket and row. As secret as the records.

    Parameters
    ----------
    rows
        What a mechanism keeps of each record, or of each distinct record of a bucket: a row of integers. The row of the
        largest integers is a null record: it counts in `headwater.Synthesizer.t` and is otherwise ignored.
    counts
        How many records each row stands for; None if every row is one record, in order of arrival.
    starts
        With counts, the number of the first record of each row's bucket; they do not fall.
    until
        How many records there are with these, if they are taken at once, so that buckets inside a slower one that is
        closed then were not counted apart. Without it buckets are the fastest ones.
    tally
        What was clipped, unlisted, missing or bad in them, if that is known.
    bad
        The invalid rows, with what is wrong in each.

    Examples
    --------
    >>> one = Batch(np.array([[7]], dtype=np.uint64), np.array([2]), np.array([0]))
    >>> (one + one).records, (one + one).rows.tolist()
    (4, [[7]])
    """

    rows: Rows
    counts: NDArray[Any] | None = None
    starts: Integers | None = None
    until: int | None = None
    tally: Tally = field(default_factory=Tally)
    bad: tuple[BadRow, ...] = ()

    @property
    def records(self) -> int:
        """How many records there are."""
        return len(self.rows) if self.counts is None else total(self.counts)

    def __add__(self, other: Batch) -> Batch:
        return Batch.merge((self, other))

    @staticmethod
    def merge(batches: Iterable[Batch]) -> Batch:
        """Counted records of any number of processes as one batch.

        Parameters
        ----------
        batches
            At least one, in any order.
        """
        found, rows, counts = side_by_side(batches), list[Rows](), list[Integers]()
        starts, numbers = np.asarray(found.starts), np.asarray(found.counts)
        for i, j in runs(starts):
            some, of_some = distinct(found.rows[i:j], numbers[i:j])
            rows.append(some)
            counts.append(of_some)
        sizes = [len(some) for some in rows]
        firsts = [int(starts[i]) for i, _ in runs(starts)]
        if not rows:
            return found
        summed = np.concatenate(rows), short(np.concatenate(counts)), np.repeat(np.array(firsts, np.int64), sizes)
        return Batch(*summed, found.until, found.tally)


def side_by_side(batches: Iterable[Batch]) -> Batch:
    """Counted records of any number of processes as one batch, in the order of their buckets; nothing is added up."""
    every = list(batches)
    if any(one.counts is None for one in every) or len({one.until for one in every}) > 1:
        raise ValueError("only records that were counted can be added up, all of them with the same until")
    rows, counts, starts = (
        np.concatenate([getattr(one, name) for one in every]) for name in ("rows", "counts", "starts")
    )
    order = np.argsort(starts, kind="stable")
    tally = sum((one.tally for one in every), Tally())
    return Batch(rows[order], counts[order], starts[order], every[0].until, tally)


def in_order(batches: Sequence[Batch]) -> Batch:
    """The records of several batches, one after another; nothing of them is counted."""
    bad, before = list[BadRow](), 0
    for batch in batches:
        bad += [replace(row, row=before + row.row) for row in batch.bad]
        before += len(batch.rows)
    tally = sum((batch.tally for batch in batches), Tally())
    return Batch(np.concatenate([batch.rows for batch in batches]), tally=tally, bad=tuple(bad))


def fastest(spans: Sequence[Span], until: int | None = None) -> Span:
    """The fastest of these buckets, or the slowest whose faster ones are never measured up to ``until``."""
    faster = spans[1:] or spans
    return next((span for span in faster if until is not None and span.end <= until), faster[-1])


def count_by_bucket(
    rows: Rows,
    numbers: Integers | int,
    bucket: Callable[[int], Span],
    coarser: Callable[[Rows, int], Rows],
    until: int | None = None,
) -> Batch:
    """Count records by the bucket that they arrived in, given their numbers, or the first of consecutive ones."""
    if not isinstance(numbers, int) and (np.diff(numbers) < 0).any():
        order = np.argsort(numbers, kind="stable")
        rows, numbers = rows[order], numbers[order]
    starts, found, counts, first = list[int](), [rows[:0]], [np.empty(0, dtype=np.int64)], 0
    while first < len(rows):
        start, end = bucket(numbers + first if isinstance(numbers, int) else int(numbers[first]))
        last = min(end - numbers, len(rows)) if isinstance(numbers, int) else int(np.searchsorted(numbers, end))
        some, of_some = distinct(coarser(rows[first:last], start))
        starts += [start] * len(some)
        found.append(some)
        counts.append(of_some)
        first = last
    return Batch(np.concatenate(found), np.concatenate(counts), np.array(starts, dtype=np.int64), until)


def check_rows(rows: object, like: Rows, sizes: Sequence[int]) -> Rows:
    """Rows that were encoded elsewhere, as integers like ``like``; an error says what is wrong with them."""
    found = whole_numbers("rows", rows)
    if found.ndim != 2 or found.shape[1] != len(sizes):
        raise ValueError(f"rows must have shape (n, {len(sizes)}), as encode() gives them, not {found.shape}")
    if found.dtype.kind not in "iu" and found.size:
        raise TypeError(f"rows must be whole numbers, not {found.dtype}")
    null = np.iinfo(like.dtype).max
    for number, size in enumerate(sizes):
        column = found[:, number]
        if not len(column) or (int(column.min()) >= 0 and int(column.max()) < size):
            continue
        column = column[(found != null).any(axis=1)]  # looked for only now: there is hardly ever a null record
        if len(column) and not (int(column.min()) >= 0 and int(column.max()) < size):
            raise ValueError(f"rows[:, {number}] must lie between 0 and {size - 1}, as encode() gives them")
    return found.astype(like.dtype, copy=False)


def check_counts(batch: Batch, t: int, bucket: Callable[[int], Span]) -> None:
    """Refuse counted records that are not exactly those after the first ``t``."""
    starts, counts = whole_numbers("starts", batch.starts), whole_numbers("counts", batch.counts)
    for name, array in (("starts", starts), ("counts", counts)):
        if array.ndim != 1 or len(array) != len(batch.rows):
            raise ValueError(f"{name} must be a list as long as rows, not of shape {array.shape}")
        if array.dtype.kind not in "iu" and array.size:
            raise TypeError(f"{name} must be whole numbers, not {array.dtype}")
    if counts.size and (int(counts.min()) < 1 or int(counts.max()) >= 1 << 53):
        raise ValueError("counts must lie between 1 and 2^53 − 1")
    if (starts[1:] < starts[:-1]).any():
        raise ValueError("starts must not fall; add counts with + or Batch.merge")
    for i, j in runs(starts):
        (first, end), found, start = bucket(t), total(counts[i:j]), int(starts[i])
        wanted = end - t
        if start != first or found > wanted or (found < wanted and j < len(starts)):
            raise ValueError(
                f"the bucket of records {start:,} and after has {found:,} counted ones, where the next "
                f"{wanted:,} of the bucket from {first:,} were expected: count every record after the first t once"
            )
        t += found
    if batch.until not in (None, t):
        raise ValueError(f"counted for {batch.until!r} records in all, and there are {t:,} with these")


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
