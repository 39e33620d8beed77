"""A run as an object with one owner: what is known of it, saved and loaded, never copied."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from threading import RLock
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast

import numpy as np

from headwater.public.bad_rows import BadRow, flags_of
from headwater.public.budget import Guarantee, Ledger
from headwater.public.errors import TableError
from headwater.public.files import this_process
from headwater.public.input_schema import InputSchema
from headwater.public.partition import Integers, Points
from headwater.public.person import OWN, Person
from headwater.public.protocol import AnySchema, Rows, with_null_records
from headwater.public.schema import Schema
from headwater.public.series import Values
from headwater.public.tally import Tally
from headwater.secret.counts import (
    BucketedCounts,
    CountedParts,
    Part,
    check_counts,
    count_by_bucket,
    total,
    whole_numbers,
)
from headwater.secret.mechanism import CountingMechanism, Mechanism
from headwater.secret.noise import GAUSSIAN_VERSION, run_id
from headwater.secret.people import NOBODY, SOMEBODY, People
from headwater.secret.read.batch import Batch
from headwater.state import SynthesizerState, whole


@dataclass(frozen=True)
class EncodedRows:
    """A batch as a mechanism takes it."""

    rows: Rows
    bad: tuple[BadRow, ...]
    tally: Tally
    people: People | None = None
    nobody: tuple[str, ...] = ()

    def among(self, batch: Batch) -> EncodedRows:
        """These rows of a batch of a file, with its lines that could not be read, which are null records."""
        rows = np.full((batch.records, self.rows.shape[1]), np.iinfo(self.rows.dtype).max, dtype=self.rows.dtype)
        rows[batch.places] = self.rows
        named = [one for one in batch.bad if one.person is not None]
        if self.people is not None and named:
            hashes, _, _ = self.people.read(Values([one.person for one in named]), None, self.nobody)
            width = rows.shape[1] - self.people.columns(rows.dtype.itemsize)
            null = np.full((len(named), width), np.iinfo(rows.dtype).max, dtype=rows.dtype)
            rows[[one.row for one in named]] = self.people.attached(null, hashes)
        tally = self.tally + Tally(len(batch.bad)).add_bad(one.error for one in batch.bad)
        if first := batch.all_bad(self.bad[:1])[:1]:  # with its file and line
            tally.first_bad = str(first[0].error.without_row())
        return EncodedRows(rows, self.bad, tally, self.people, self.nobody)


def encode_with_people(people: People, mechanism: Mechanism, schema: Schema, table: object, policy: str) -> EncodedRows:
    """A batch whose records belong to people: behind what the mechanism keeps of a record is who it belongs to."""
    column = people.person.column
    nobody = tuple(InputSchema(schema, column).nobody)
    found = schema.encode_batch(table, bad_rows=policy, beside=column)
    assert found.beside is not None  # noqa: S101 - it was asked for
    unread = flags_of(list(found.unread), len(found.points)) if found.unread else None
    hashes, nowhere, errors = people.read(found.beside, unread, nobody)
    wrong: dict[int, TableError] = {row: error.at(row=row, column=column) for row, error in errors.items()}
    unnamed = (hashes == (SOMEBODY if people.person.null == OWN else NOBODY)).all(axis=1)
    unnamed[[*wrong, *found.unread]] = False
    found.tally.add(column, "missing", int(np.count_nonzero(unnamed)))
    if wrong and policy == "stop":
        raise wrong[min(wrong)]
    known = {bad.row: bad.error for bad in found.bad}
    found.tally.add_bad(error for row, error in wrong.items() if row not in known)
    wrong |= known
    bad = tuple(BadRow(row, wrong[row]) for row in sorted(wrong))
    null = nowhere | flags_of(list(wrong), len(hashes))
    rows = with_null_records(mechanism.encode(found.points), null if null.any() else None)
    return EncodedRows(people.attached(rows, hashes), bad, found.tally, people, nobody)


_COPIED = (
    "a synthesizer cannot be copied or pickled: two copies would put the same noise on different records, which shows "
    "what it should hide. Write it with save() and go on once with Synthesizer.load()"
)
_FORKED = (
    "this synthesizer belongs to the process that this one was forked from: going on in both would put the same noise "
    "on different records, which shows what it should hide. Make it in the forked process; or write it with save() "
    "beforehand, and go on once, in one process, with Synthesizer.load()"
)
_UPDATE = "update(table) takes records, one or many, as often as more arrive"
_SAMPLE = "release().sample(n) gives synthetic records"
_OTHER_NAMES = {
    **dict.fromkeys(("fit", "partial_fit", "learn_one", "learn_many", "fit_processed_data", "add", "append"), _UPDATE),
    **dict.fromkeys(("sample", "generate", "predict", "transform", "sample_from_conditions"), _SAMPLE),
    **dict.fromkeys(("fit_transform", "fit_sample"), f"{_UPDATE}, and {_SAMPLE}"),
    "merge": "a run has one owner: encode(table) can run anywhere, and update_rows takes what it gives",
}
"""By the name of a method in scikit-learn, SDV, river and sketches: what to call here."""


class OneRun:
    """What every run has, whatever it is fed with. An update replaces its state as a whole."""

    def __init__(self, state: SynthesizerState) -> None:
        self._state = state
        self.schema, self.budget, self.mechanism = state.schema, state.budget, state.mechanism.name
        self.epsilon = state.budget.epsilon
        self.guarantee: Guarantee = state.guarantee
        self._process, self._turn = this_process(), RLock()

    @property
    def t(self) -> int:
        """How many records have arrived. Public."""
        return self._mechanism.t

    @property
    def expect(self) -> int | None:
        """How many records the plan is laid out for; None if that was not declared, or is of no use. Public."""
        found: int | None = self._state.options.get("expect")
        return found

    @property
    def person(self) -> Person | None:
        """Who records belong to, as it was declared. Public."""
        return self._state.people.person if self._state.people else None

    @property
    def person_key(self) -> bytes | None:
        """The key of `headwater.people.hash_people` in this run. Secret."""
        return self._state.people.key if self._state.people else None

    @property
    def input_schema(self) -> AnySchema | InputSchema:
        """The columns that are read: those of the schema, and the one that names the person."""
        return self.schema if self.person is None else InputSchema(cast("Schema", self.schema), self.person.column)

    @property
    def width(self) -> int:
        """How many integers are kept of a record."""
        people = self._state.people
        if people is None:
            return self._mechanism.width
        nothing = self._mechanism.encode(np.empty((0, self.schema.dimension)))
        return self._mechanism.width + people.columns(nothing.dtype.itemsize)

    @property
    def tally(self) -> Tally:
        """What `update` has clipped, not found listed, found missing, or capped. Secret: there is no noise in it."""
        return self._state.tally.with_capped(self.capped, self.t)

    @property
    def capped(self) -> int:
        """How many records did not count, because their person had enough that did. Secret: there is no noise in it."""
        return self._state.people.capped if self._state.people else 0

    @property
    def _lock(self) -> RLock:
        if this_process() != self._process:
            raise RuntimeError(_FORKED)
        return self._turn

    @property
    def _mechanism(self) -> Mechanism:
        return self._state.mechanism

    def plan(self, until: int | None = None) -> Any:  # noqa: ANN401 - of the mechanism's own type
        """The schedule of buckets and budgets, of cascade with the noise: print it. Not of the paper's mechanism.

        Parameters
        ----------
        until
            Up to which time; twice the present one unless given.
        """
        if not hasattr(self._mechanism, "plan"):
            raise ValueError(f"mechanism={self.mechanism!r} has no plan to print; 'cascade' and 'marginals' have")
        return self._mechanism.plan(max(2 * self.t, 1) if until is None else whole("until", until))

    def ledger(self, t: int | None = None) -> Ledger:
        """Every draw of noise that a record arriving now can move; it adds up to at most ε, or to a ρ that keeps it.

        Parameters
        ----------
        t
            How many records arrived before it, if it is another one than the next: past or to come.
        """
        return Ledger(self._mechanism.ledger(None if t is None else whole("t", t)), self.budget)

    @property
    def run_id(self) -> str:
        """A name of this run, the same for ever and on all its cards. Public: depends on neither data nor noise."""
        return run_id(self._state.public)

    @property
    def measurement_version(self) -> str:
        """Names the rule that decides what is measured. A state goes on only under the rule that it began with."""
        gaussian = f", Gaussian noise {GAUSSIAN_VERSION}" if self.budget.delta else ""
        return f"{self.mechanism} {self._mechanism.version}{gaussian}"

    @property
    def status(self) -> str:
        """How finely the mechanism measures at this time, in words. Public."""
        return self._mechanism.status()

    @property
    def has_windows(self) -> bool:
        """Whether `release` can be about the last records only. Public."""
        return self._mechanism.windows

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything that is needed to go on. The file is as secret as the data; only its owner can read it.

        Parameters
        ----------
        path
            The file to write.
        """
        with self._lock:
            self._state.write(path)

    def to_bytes(self) -> bytes:
        """What `save` writes, as bytes: as secret as the data."""
        with self._lock:
            return self._state.to_bytes()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Go on from where `save` was called, with the very same noise.

        Go on **once**: two runs from one file publish the same noise on different data.

        Parameters
        ----------
        path
            A file that `save` wrote.
        """
        return cls._of(SynthesizerState.read(path))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Go on from where `to_bytes` was called, **once**, like `load`.

        Parameters
        ----------
        data
            What `to_bytes` gave.
        """
        return cls._of(SynthesizerState.from_bytes(data))

    @classmethod
    def _of(cls, state: SynthesizerState) -> Self:
        synth = cls.__new__(cls)
        OneRun.__init__(synth, state)
        return synth

    def __reduce_ex__(self, protocol: object) -> NoReturn:  # copy() and deepcopy() call it as well
        raise TypeError(_COPIED)

    def __repr__(self) -> str:
        delta = f", delta={self.budget.delta:g}" if self.budget.delta else ""
        budget = f"epsilon={self.epsilon:g}{delta}"
        expect = f", expect={self.expect}" if self.expect else ""
        return f"Synthesizer({self.schema!r}, {budget}, mechanism={self.mechanism!r}{expect}) at t = {self.t:,}"

    if not TYPE_CHECKING:  # a checker would take any name for an attribute

        def __getattr__(self, name: str) -> NoReturn:
            """Names of other libraries, answered with ours."""
            known = f"; {_OTHER_NAMES[name]}" if name in _OTHER_NAMES else ""
            raise AttributeError(f"a {type(self).__name__} has no attribute {name!r}{known}", name=name, obj=self)


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
