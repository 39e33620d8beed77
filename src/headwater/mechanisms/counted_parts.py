"""Counted records as they came, in parts of one bucket each: what an owner checks, keeps and adds up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.mechanisms.counted import BucketedCounts, BucketUntil, Parts, runs, total, whole_numbers
from headwater.mechanisms.protocol import Rows


class Part(NamedTuple):
    """Rows of one bucket, in any order, and how many records each of them stands for.

    Parameters
    ----------
    start
        The number of the first record of the bucket.
    """

    start: int
    rows: Rows
    counts: NDArray[Any]


@dataclass(frozen=True, eq=False)
class CountedParts:
    """Counted records of any number of buckets, as many processes have counted them. As secret as the records.

    The same as `BucketedCounts`, but nothing was copied or added up: a row may occur once in each part.

    Parameters
    ----------
    parts
        In the order of their buckets, any number for each.
    until
        As for `BucketedCounts`.
    """

    parts: Sequence[Part]
    until: int | None = None

    @staticmethod
    def of(parts: Parts, until: int | None) -> CountedParts:
        """Parts from any number of processes, by the starts of their buckets."""
        return CountedParts([Part(start, *one) for start in sorted(parts) for one in parts[start]], until)

    @staticmethod
    def of_arrays(counts: BucketedCounts) -> CountedParts:
        """Counts in one array, cut into buckets."""
        cut = ((slice(i, j), int(counts.starts[i])) for i, j in runs(counts.starts))
        return CountedParts([Part(start, counts.rows[at], counts.counts[at]) for at, start in cut], counts.until)

    @property
    def codes(self) -> int:
        """How many rows there are in all parts."""
        return sum(len(one.counts) for one in self.parts)

    @property
    def records(self) -> int:
        """How many records were counted."""
        return sum(total(one.counts) for one in self.parts)

    @property
    def rows(self) -> Rows:
        """The rows of all parts one after another."""
        return np.concatenate([one.rows for one in self.parts])

    @property
    def counts(self) -> NDArray[Any]:
        """How many records each of `rows` stands for."""
        return np.concatenate([one.counts for one in self.parts])


def check_counts(counts: object, t: int, check: Callable[[NDArray[Any]], Rows], bucket: BucketUntil) -> CountedParts:
    """Counted records that are exactly those after the first ``t``, or an error that says what is wrong.

    ``check`` refuses rows that no record has, ``bucket`` gives first number and end of the bucket of a number.
    """
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
