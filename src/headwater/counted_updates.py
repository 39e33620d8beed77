"""Records that were counted elsewhere, by processes that know their numbers, as updates of a run."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from headwater.arguments import whole
from headwater.mechanisms.counted import BucketedCounts, Integers, count_by_bucket, total, whole_numbers
from headwater.mechanisms.counted_parts import CountedParts, Part, check_counts
from headwater.mechanisms.protocol import CountingMechanism, Rows
from headwater.one_run import OneRun
from headwater.partition import Points
from headwater.table.tally import Tally


class CountedUpdates(OneRun):
    """A run that takes counts of records in place of the records."""

    def bucket(self, number: int, until: int | None = None) -> tuple[int, int]:
        """The fastest bucket that record ``number`` (from 0) falls into: its first record, and its end. Public.

        A function of schema, ε, mechanism and ``until`` alone: any process with the same ones gets the same.

        Parameters
        ----------
        number
            A record's number in the order of arrival, past or to come.
        until
            How many records there are after an update that takes this one. Then it is the slowest bucket whose faster
            ones are never measured, since nothing is published before the update has ended.
        """
        if whole("number", number) < 0:
            raise ValueError(f"number must be at least 0, not {number}")
        return self._counting("bucket").bucket(number, until)

    def buckets(self, first: int, end: int, until: int | None = None) -> list[tuple[int, int]]:
        """All buckets that records ``first … end − 1`` fall into, as `bucket` gives each. Public.

        Parameters
        ----------
        first, end
            Numbers in the order of arrival, past or to come.
        until
            As for `bucket`.
        """
        mechanism, found = self._counting("bucket"), list[tuple[int, int]]()
        while first < end:
            found.append(mechanism.bucket(first, until))
            first = found[-1][1]
        return found

    def count_rows(self, rows: Rows, numbers: object, until: int | None = None) -> BucketedCounts:
        """`headwater.Synthesizer.histogram` of records that were encoded before.

        Parameters
        ----------
        rows
            As `encode` gives them.
        numbers
            As for `histogram`.
        until
            As for `histogram`.
        """
        mechanism = self._counting("histogram")
        array = whole_numbers("numbers", numbers)
        first = whole("numbers", numbers) if array.ndim == 0 else None
        if first is None and (array.shape != (len(rows),) or (array.dtype.kind not in "iu" and array.size)):
            raise ValueError(f"numbers must be {len(rows)} whole numbers, or that of the first record")
        if array.size and array.min() < 0:
            raise ValueError("numbers must be at least 0")
        given = array.astype(np.int64) if first is None else first
        return count_by_bucket(rows, given, lambda number: mechanism.bucket(number, until), mechanism.coarser, until)

    def update_counts(self, counts: BucketedCounts | CountedParts, tally: Tally = Tally()) -> None:  # noqa: B008 - frozen
        """Take records that were counted elsewhere (`histogram`): the same as the records in order, bit for bit.

        The paper's mechanism needs the records themselves.

        Parameters
        ----------
        counts
            Of all records after the first `t`, up to any number, each of them counted once.
        tally
            What was clipped, unlisted, missing or bad in them, if that is known.
        """
        with self._lock:
            checked = self.check_counts(counts, self.t)
            self._state = self._state.after_counts(checked, tally)

    def place_bits(self, axis: int) -> int:
        """How many binary digits of a coordinate on a continuous axis decide the row of a record. Public.

        Parameters
        ----------
        axis
            Its number.
        """
        return max(self._counting("histogram").place_bits(axis), 1)

    def encode_points(self, points: Points) -> Rows:
        """The rows of points of the cube, as `encode` gives those of records.

        Parameters
        ----------
        points
            As ``schema.encode`` gives them.
        """
        return self._mechanism.encode(points)

    def coarser(self, rows: Rows, starts: Integers) -> Rows:
        """Rows without what no noisy count of their bucket can ever distinguish.

        Parameters
        ----------
        rows
            As `encode` gives them.
        starts
            The first number of the bucket of each, rising.
        """
        mechanism, parts = self._counting("histogram"), [rows[:0]]
        edges = np.flatnonzero(np.diff(starts, prepend=-1))
        for first, end in pairwise([*edges.tolist(), len(starts)]):
            parts.append(mechanism.coarser(rows[first:end], int(starts[first])))
        return np.concatenate(parts)

    def check_counts(self, counts: BucketedCounts | CountedParts, t: int) -> CountedParts:
        """Counted records that can follow after ``t`` records, or an error that says what is wrong with them.

        Parameters
        ----------
        counts
            As for `update_counts`.
        t
            How many records there are before them.
        """
        mechanism = self._counting("update_counts")
        return check_counts(counts, t, mechanism.check, mechanism.bucket)

    def update_counted_rows(self, rows: object, counts: object, until: int | None = None) -> None:
        """Take counted records that `check_counts` has checked, all of them or, without ``until``, the first ones.

        For states.

        Parameters
        ----------
        rows
            In the order of their buckets.
        counts
            How many records each row stands for.
        until
            As `check_counts` gave it.
        """
        mechanism = self._counting("update_counts")
        with self._lock:
            part = Part(self.t, mechanism.check(whole_numbers("rows", rows)), whole_numbers("counts", counts))
            if until not in (None, self.t + total(part.counts)):
                raise ValueError("records that were counted to be taken at once are taken at once")
            self._state = self._state.after_counts(CountedParts([part], until), Tally())

    def _counting(self, what: str) -> CountingMechanism:
        if self.person is not None:
            raise ValueError(f"{what} counts records, and does not know whose they are; use update() with person=")
        if not isinstance(self._mechanism, CountingMechanism):
            raise ValueError(f"{what} needs mechanism='cascade' or 'marginals'; this run uses {self.mechanism!r}")
        return self._mechanism
