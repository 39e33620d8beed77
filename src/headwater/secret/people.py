"""The people of a run: reads who a record belongs to, and decides which records count.

Formal guarantees
-----------------
Whether a record counts is a function of how many records of the same person counted before it (in its period, and in
its bucket), of its place in the order of arrival and of the clock: never of another person's records. So replacing the
records of one person leaves those of all others as they are, and moves at most ``records`` of those that count
(`proofs/people.md`).
"""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.columns import describe
from headwater.public.errors import TableError, failures, refusal
from headwater.public.files import FileRefusedError, need
from headwater.public.partition import Flags, Integers
from headwater.public.person import NOWHERE, OWN, Person
from headwater.public.protocol import Rows
from headwater.public.tables import Unreadable, Values, is_missing

Hashes = NDArray[np.uint64]
"""An array of shape ``(n, 2)``: 128 bits for each record."""

Keys = NDArray[np.bytes_]
"""The same as 16 bytes each, which compare as the numbers do."""

HASH_BYTES = 16
_TOP = np.uint64(2**64 - 1)
NOBODY = np.array([_TOP, _TOP])
"""The hash of a record that names nobody and is ignored."""
SOMEBODY = np.array([_TOP, _TOP - np.uint64(1)])
"""The hash of a record whose person has no other."""
NAMES_VERSION = 5
"""Which names are one person: a run goes on only with the rule that it began with, or caps would be forgotten."""
_WHOLE_TEXT = re.compile(r"(-?[0-9]+)\.0*")
_SCIENTIFIC = re.compile(r"-?[0-9]+(\.[0-9]*)?[eE][+-]?[0-9]{1,3}")
_LONG = 10**500  # Python writes no integer of more than some thousand digits
_EXACT = 2.0**53  # from it on neighbouring whole numbers are one float

_WHOLE = TableError(
    "a number that is not whole, where a person is named", "name people by text or by whole numbers, as they are"
)


def hash_each(values: Values, key: bytes) -> tuple[Hashes, dict[int, TableError]]:
    """The keyed hash of each row's `identity`, and the errors of rows that name no person that can be read."""
    items, codes = values.distinct()
    items, codes = [*items, Unreadable(), None], np.where(codes < 0, codes + len(items) + 2, codes)
    start, digests, wrong = hashlib.blake2b(digest_size=HASH_BYTES, key=key), bytearray(), dict[int, TableError]()
    nobody = NOBODY.tobytes()
    for index, item in enumerate(items):
        try:
            name = identity(item)
        except failures() as error:  # ours, or of the value itself
            name, wrong[index] = None, refusal(error)
        if name is None:
            digests += nobody
            continue
        one = start.copy()
        one.update(name)
        digests += one.digest()
    hashes = np.frombuffer(bytes(digests), dtype="<u8").astype(np.uint64).reshape(-1, 2)
    rows = np.flatnonzero(np.isin(codes, list(wrong))).tolist() if wrong else []
    return hashes[codes], {row: wrong[int(codes[row])] for row in rows}


def identity(item: Any) -> bytes | None:  # noqa: ANN401 - a value of any type
    if isinstance(item, bytes | bytearray):
        try:
            item = item.decode()
        except UnicodeDecodeError:
            return b"\0bytes " + bytes(item)
    if isinstance(item, str):
        return _plainly(item).encode("utf-8", "surrogatepass") if item.strip() else None
    if is_missing(item):
        return None
    if isinstance(item, int | np.integer) and not isinstance(item, bool | np.timedelta64):
        return b"%d" % int(item) if abs(int(item)) < _LONG else f"{Decimal(int(item)):f}".encode()
    if isinstance(item, float | np.floating | Decimal):
        if abs(float(item)) >= _EXACT or item != item // 1:
            raise _WHOLE.at()  # a copy: what is raised keeps the frames that it went through
        return b"%d" % int(item)
    if isinstance(item, uuid.UUID):
        return str(item).encode()
    raise TableError(f"{describe(item)}, where a person is named", "name people by text or by whole numbers")


def _plainly(text: str) -> str:
    if "." in text and (found := _WHOLE_TEXT.fullmatch(text)):
        text = found[1]
    elif ("e" in text or "E" in text) and _SCIENTIFIC.fullmatch(text):
        number = Decimal(text)
        whole = number.to_integral_value()
        text = f"{whole:f}" if number == whole else text  # of an integer Python writes some thousand digits only
    return "0" if text == "-0" else text


RATIO = 2  # an array that is not so many times larger than the next one is merged with it


@dataclass(frozen=True, eq=False)
class Groups:
    """The people of a batch, each once, and the place of every record among those of its person."""

    people: Keys
    person: Integers
    earlier: Integers
    sizes: Integers

    @staticmethod
    def of(hashes: Hashes) -> Groups:
        """The records of a batch, given in order of arrival, grouped by person."""
        keys = hashes.astype(">u8").view("S16")[:, 0]
        order = np.argsort(keys, kind="stable")
        ranked = keys[order]
        (starts,) = np.append(np.ones(min(len(keys), 1), bool), ranked[1:] != ranked[:-1]).nonzero()
        sizes = np.diff(starts, append=len(order))
        person, earlier = np.empty(len(order), dtype=np.int64), np.empty(len(order), dtype=np.int64)
        person[order] = np.repeat(np.arange(len(starts)), sizes)
        earlier[order] = np.arange(len(order)) - np.repeat(starts, sizes)
        return Groups(ranked[starts], person, earlier, sizes)


@dataclass(frozen=True, eq=False)
class _Level:
    keys: Keys
    counts: NDArray[Any]

    def find(self, people: Keys) -> tuple[Integers, Flags]:
        """The index of each of these people, or where it would be inserted, and whether it is here."""
        places = np.searchsorted(self.keys, people)
        return places, self.keys.take(places, mode="clip") == people

    def with_newer(self, newer: _Level) -> _Level:
        """The union of both; a person who is in both has the newer count."""
        places, known = self.find(newer.keys)
        counts = self.counts.copy()
        counts[places[known]] = newer.counts[known]
        at = places[~known]
        return _Level(np.insert(self.keys, at, newer.keys[~known]), np.insert(counts, at, newer.counts[~known]))


@dataclass(frozen=True, eq=False)
class Caps:
    """How many records of each person have counted, at most ``limit``."""

    limit: int
    levels: tuple[_Level, ...] = ()

    @property
    def people(self) -> int:
        return sum(len(level.keys) for level in self.levels)

    @property
    def nbytes(self) -> int:
        return sum(level.keys.nbytes + level.counts.nbytes for level in self.levels)

    def counts(self, people: Keys) -> Integers:
        found, asked = np.zeros(len(people), dtype=np.int64), np.arange(len(people))
        for level in reversed(self.levels):
            if not len(asked):
                break
            places, known = level.find(people[asked])
            found[asked[known]] = level.counts[places[known]]
            asked = asked[~known]
        return found

    def with_counts(self, people: Keys, counts: Integers) -> Caps:
        """The caps with new counts of some people, which replace the old ones."""
        if not len(people):
            return self
        newest = _Level(people, counts.astype(np.min_scalar_type(self.limit)))
        levels = list(self.levels)
        while levels and len(levels[-1].keys) < RATIO * len(newest.keys):
            newest = levels.pop().with_newer(newest)
        return Caps(self.limit, (*levels, newest))

    def emptied(self) -> Caps:
        return Caps(self.limit)

    def state(self) -> dict[str, NDArray[Any]]:
        whole, *rest = self.levels or (_Level(np.empty(0, "S16"), np.empty(0, np.uint8)),)
        for level in rest:
            whole = whole.with_newer(level)
        high, low = whole.keys.view(">u8").reshape(-1, 2).T.astype(np.uint64)
        return {"high": high, "low": low, "counts": whole.counts}

    @staticmethod
    def restore(limit: int, arrays: dict[str, NDArray[Any]]) -> Caps:
        high, low, counts = arrays["high"], arrays["low"], arrays["counts"]
        need(high.ndim == 1 and high.shape == low.shape == counts.shape, "people")
        keys = np.stack((high, low), axis=1).astype(">u8").view("S16")[:, 0]
        return Caps(limit, (_Level(keys, counts),) if len(high) else ())


Stamps = NDArray[np.uint64]
"""For each record the number of its period by the clock, from 1 on, or `UNSTAMPED`."""
UNSTAMPED = np.uint64(2**64 - 1)
"""As all other integers of a null record, so that lines of a file that cannot be read are stamped like the rest."""

_STAMP_BYTES = 8

_MISSING = TableError(
    "no person is named",
    'name one, or declare what such records are (null=, --null-person): "own", a person with no other, or "nowhere"',
)


@dataclass(frozen=True, eq=False)
class People:
    """Who has had how many records that count."""

    person: Person
    key: bytes
    caps: Caps
    in_bucket: Caps | None = None
    period: int = 0
    capped: int = 0

    @staticmethod
    def begin(person: Person, key: bytes) -> People:
        within = None if person.per_bucket is None else Caps(person.per_bucket)
        return People(person, key, Caps(person.records), within)

    # ---- what is kept of a record, beside what the mechanism keeps

    def read(
        self, values: Values, bad: Flags | None, nobody: Collection[str] = ()
    ) -> tuple[Hashes, Flags, dict[int, TableError]]:
        """The hashes of a column, which of its records must be null records, and the errors of rows that are wrong."""
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
        return (HASH_BYTES + (_STAMP_BYTES if self.person.seconds else 0)) // itemsize

    def attached(self, rows: Rows, hashes: Hashes) -> Rows:
        parts = [rows, _integers(hashes, rows.dtype)]
        if self.person.seconds:
            parts.append(_integers(np.full((len(rows), 1), UNSTAMPED), rows.dtype))
        return np.concatenate(parts, axis=1)

    def split(self, rows: NDArray[Any], width: int) -> tuple[Rows, Hashes, Stamps | None]:
        if rows.ndim != 2 or rows.dtype.kind != "u" or rows.shape[1] != width + self.columns(rows.dtype.itemsize):
            raise ValueError("rows must be as encode() gives them in a run with person=: each with its person")
        words = np.ascontiguousarray(rows[:, width:]).view(np.uint8).view(np.dtype("<u8")).astype(np.uint64)
        return rows[:, :width], words[:, :2], words[:, 2] if self.person.seconds else None

    def stamped(self, rows: Rows, width: int, clock: Callable[[], float] = time.time) -> Rows:
        """Rows in which the stamps that are `UNSTAMPED` are the period of this moment by the clock."""
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
        """Which records of a batch count, and the people after it."""
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
        """A batch cut where a period or a bucket ends: start, end, period, and whether a bucket begins."""
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
        """What `after` returns, for records of one period and one bucket."""
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
        return People(person, key, caps, within, header["period"], header["capped"])


def _is_one(item: object, texts: Collection[str]) -> bool:
    if issubclass(type(item), bytes | bytearray):
        item = bytes(item).decode("utf-8", "replace")  # type: ignore[call-overload]
    return issubclass(type(item), str) and str.strip(item) in texts  # type: ignore[arg-type]


def _integers(words: NDArray[np.uint64], dtype: np.dtype[Any]) -> Rows:
    plain = np.ascontiguousarray(words.astype("<u8"))
    return plain.view(np.uint8).view(dtype.newbyteorder("<")).astype(dtype, copy=False)
