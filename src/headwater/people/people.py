"""The people of a run: reads who a record belongs to, and decides which records count.

Formal guarantees
-----------------
Whether a record counts is a function of how many records of the same person counted before it (in its period, and in
its bucket), of its place in the order of arrival and of the clock: never of another person's records. So replacing the
records of one person leaves those of all others as they are, and moves at most ``records`` of those that count
(`proofs/people.md`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.files import FileRefusedError, need, whole_number
from headwater.people.caps import Caps, Groups
from headwater.people.hashing import HASH_BYTES, NAMES_VERSION, NOBODY, SOMEBODY, Hashes, hash_each
from headwater.people.person import NOWHERE, OWN, Person
from headwater.table.errors import TableError
from headwater.table.series import Values

Flags = NDArray[np.bool_]
Rows = NDArray[np.unsignedinteger[Any]]
Stamps = NDArray[np.uint64]
"""For each record the number of its period by the clock, from 1 on, or `UNSTAMPED`."""
UNSTAMPED = np.uint64(2**64 - 1)
"""As all other integers of a null record, so that lines of a file that cannot be read are stamped like the rest."""

_STAMP_BYTES = 8

_MISSING = TableError(
    "no person is named",
    'name one, or declare what such records are (null=, --null-person): "own", a person with no other, or "nowhere"',
    sender="name one",
)


@dataclass(frozen=True, eq=False)
class People:
    """Who has had how many records that count. An update gives another one. Secret.

    Parameters
    ----------
    person
        What was declared.
    key
        The run's own key for hashes of people.
    caps
        How many records of each person have counted, in this period.
    in_bucket
        How many of them in this bucket; None if there is no such cap.
    period
        The number of this period.
    capped
        How many records did not count because of a cap.
    """

    person: Person
    key: bytes
    caps: Caps
    in_bucket: Caps | None = None
    period: int = 0
    capped: int = 0

    @staticmethod
    def begin(person: Person, key: bytes) -> People:
        """The people of a run before its first record: nobody has a record."""
        within = None if person.per_bucket is None else Caps(person.per_bucket)
        return People(person, key, Caps(person.records), within)

    # ---- what is kept of a record, beside what the mechanism keeps

    def read(
        self, values: Values, bad: Flags | None, nobody: Collection[str] = ()
    ) -> tuple[Hashes, Flags, dict[int, TableError]]:
        """The hashes of a column, which of its records must be null records, and the errors of rows that are wrong.

        What a row that names nobody is, `Person.null` says.

        Parameters
        ----------
        values
            The column that names the person.
        bad
            Rows whose columns could not even be found: they belong to nobody.
        nobody
            Texts that name nobody, beside blank ones.
        """
        if nobody and isinstance(values.data, list):
            values = replace(values, data=[None if _is_one(item, nobody) else item for item in values.data])
        hashes, wrong = hash_each(values, self.key)
        missing: Flags = (hashes == NOBODY).all(axis=1)
        nowhere = missing.copy()
        if self.person.null == OWN:
            named = np.array(sorted(wrong), dtype=np.int64)
            missing[named] = False
            hashes[missing] = SOMEBODY
            nowhere &= ~missing
        elif self.person.null != NOWHERE:
            wrong = {int(row): wrong.get(int(row), _MISSING) for row in np.flatnonzero(missing)}
        if bad is not None:
            hashes[bad], nowhere = NOBODY, nowhere | bad
            wrong = {row: error for row, error in wrong.items() if not bad[row]}
        return hashes, nowhere, wrong

    def columns(self, itemsize: int) -> int:
        """How many integers of ``itemsize`` bytes `attached` adds to a row: the hash and, with a clock, the stamp."""
        return (HASH_BYTES + (_STAMP_BYTES if self.person.seconds else 0)) // itemsize

    def attached(self, rows: Rows, hashes: Hashes) -> Rows:
        """Rows with the person of each record behind them, as integers of the rows' own type."""
        parts = [rows, _integers(hashes, rows.dtype)]
        if self.person.seconds:
            parts.append(_integers(np.full((len(rows), 1), UNSTAMPED), rows.dtype))
        return np.concatenate(parts, axis=1)

    def split(self, rows: NDArray[Any], width: int) -> tuple[Rows, Hashes, Stamps | None]:
        """What `attached` gave: rows of the mechanism, hashes and stamps."""
        if rows.ndim != 2 or rows.dtype.kind != "u" or rows.shape[1] != width + self.columns(rows.dtype.itemsize):
            raise ValueError("rows must be as encode() gives them in a run with person=: each with its person")
        words = np.ascontiguousarray(rows[:, width:]).view(np.uint8).view(np.dtype("<u8")).astype(np.uint64)
        return rows[:, :width], words[:, :2], words[:, 2] if self.person.seconds else None

    def stamped(self, rows: Rows, width: int, clock: Callable[[], float] = time.time) -> Rows:
        """Rows in which the stamps that are `UNSTAMPED` are the period of this moment by the clock.

        Called once for each record, in order of arrival.
        """
        if not self.person.seconds:
            return rows
        _, _, stamps = self.split(rows, width)
        assert stamps is not None  # noqa: S101 - with a clock
        now = max(int(clock() // self.person.seconds), 1)
        written = np.where(stamps == UNSTAMPED, np.uint64(now), stamps)[:, None]
        kept = rows.shape[1] - _STAMP_BYTES // rows.dtype.itemsize
        return np.concatenate((rows[:, :kept], _integers(written, rows.dtype)), axis=1)

    # ---- which records count

    def after(
        self, hashes: Hashes, stamps: Stamps | None, t: int, bucket_end: Callable[[int], int] | None = None
    ) -> tuple[Flags, People]:
        """Which records of a batch count, and the people after it.

        A record counts if fewer than ``records`` of its person counted before it in its period, and fewer than
        ``per_bucket`` in its bucket.

        Parameters
        ----------
        hashes
            Whose records they are, in order of arrival.
        stamps
            Their periods by the clock, if periods go by it.
        t
            How many records came before.
        bucket_end
            Where the bucket ends that record ``t`` (from 0) lies in: needed if there is a cap for buckets.
        """
        counted, people = np.ones(len(hashes), dtype=np.bool_), self
        for start, end, period, opens in self._segments(len(hashes), stamps, t, bucket_end):
            anew = period != people.period
            if anew:
                people = replace(people, period=period, caps=people.caps.emptied())
            # In a new period too: what somebody did before it must not decide which of their records count in it.
            if (opens or anew) and people.in_bucket is not None:
                people = replace(people, in_bucket=people.in_bucket.emptied())
            counted[start:end], people = people._within(hashes[start:end])
        return counted, people

    def _segments(
        self, size: int, stamps: Stamps | None, t: int, bucket_end: Callable[[int], int] | None
    ) -> Iterator[tuple[int, int, int, bool]]:
        """A batch cut where a period or a bucket ends: start, end, period, and whether a bucket begins.

        Periods never go back: where the clock did, the later period stays.
        """
        place, period, arrivals = 0, self.period, self.person.arrivals
        effective = None if stamps is None else np.maximum.accumulate(np.maximum(stamps, np.uint64(period)))
        while place < size:
            end = size
            if arrivals is not None:
                period = (t + place) // arrivals
                end = min(end, (period + 1) * arrivals - t)
            elif effective is not None:
                period = int(effective[place])
                end = min(end, int(np.searchsorted(effective, period, side="right")))
            opens = False
            if self.in_bucket is not None:
                assert bucket_end is not None  # noqa: S101 - or refused when the run began
                end = min(end, bucket_end(t + place) - t)
                opens = t + place == 0 or bucket_end(t + place - 1) == t + place
            yield place, end, period, opens
            place = end

    def _within(self, hashes: Hashes) -> tuple[Flags, People]:
        """What `after` returns, for records of one period and one bucket.

        Records of `NOBODY` and `SOMEBODY` have no cap: the former are null records already, each of the latter is the
        only one of its person.
        """
        named = np.flatnonzero((hashes[:, 0] != NOBODY[0]) | (hashes[:, 1] < SOMEBODY[1]))
        groups = Groups.of(hashes[named])
        before = self.caps.counts(groups.people)
        left = self.caps.limit - before
        if self.in_bucket is not None:
            lately = self.in_bucket.counts(groups.people)
            left = np.minimum(left, self.in_bucket.limit - lately)
        counted = np.ones(len(hashes), dtype=np.bool_)
        counted[named] = groups.earlier < left[groups.person]
        more = np.minimum(left, groups.sizes)
        (grown,) = (more > 0).nonzero()
        people = replace(
            self,
            caps=self.caps.with_counts(groups.people[grown], (before + more)[grown]),
            capped=self.capped + int(np.count_nonzero(~counted)),
        )
        if people.in_bucket is not None:
            within = people.in_bucket.with_counts(groups.people[grown], (lately + more)[grown])
            people = replace(people, in_bucket=within)
        return counted, people

    # ---- kept with the state

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything that is needed to go on: as secret as the data."""
        header = {"person": self.person.to_dict(), "key": self.key.hex(), "period": self.period, "capped": self.capped}
        header["names"] = NAMES_VERSION
        arrays = {f"people {name}": array for name, array in self.caps.state().items()}
        if self.in_bucket is not None:
            arrays |= {f"bucket people {name}": array for name, array in self.in_bucket.state().items()}
        return header, arrays

    @staticmethod
    def restore(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> People:
        """Go on from a `state`, or refuse it."""
        person, key = Person.from_dict(header["person"]), bytes.fromhex(header["key"])
        need(len(key) == 32, "people")
        if header.get("names") != NAMES_VERSION:
            raise FileRefusedError(
                "this run distinguished people by another rule than this version does: go on with the version that it "
                "began with, or begin a new run"
            )
        people = People.begin(person, key)
        names = ("high", "low", "counts")
        caps = Caps.restore(person.records, {name: arrays[f"people {name}"] for name in names})
        within = people.in_bucket
        if within is not None:
            within = Caps.restore(within.limit, {name: arrays[f"bucket people {name}"] for name in names})
        period, capped = (whole_number(header[name], name) for name in ("period", "capped"))
        return People(person, key, caps, within, period, capped)


def _is_one(item: object, texts: Collection[str]) -> bool:
    """Whether a value is one of some texts, or the bytes of one, with blanks around it or not."""
    if issubclass(type(item), bytes | bytearray):
        item = bytes(item).decode("utf-8", "replace")  # type: ignore[call-overload]
    return issubclass(type(item), str) and str.strip(item) in texts  # type: ignore[arg-type]


def _integers(words: NDArray[np.uint64], dtype: np.dtype[Any]) -> Rows:
    """64-bit words as integers of another type, little-endian, row by row."""
    plain = np.ascontiguousarray(words.astype("<u8"))
    return plain.view(np.uint8).view(dtype.newbyteorder("<")).astype(dtype, copy=False)
