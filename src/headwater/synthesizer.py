"""A run from end to end: records go in, the mechanism measures, a model is fitted, a release comes out."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import RLock
from typing import NoReturn, Self, cast

import numpy as np

from headwater.public import protocol as registry
from headwater.public.budget import (
    Budget,
    Guarantee,
    Ledger,
    check_delta,
    check_epsilon,
    warn_of_delta,
    warn_of_epsilon,
)
from headwater.public.cube import UnitCube
from headwater.public.files import this_process
from headwater.public.person import Person
from headwater.public.protocol import AnySchema, Facts, Kept, Measured, Span
from headwater.public.release import Release, made_of, release_seed, run_id
from headwater.public.schema import InputSchema, Schema
from headwater.public.tables import kind_of
from headwater.public.tally import Tally, policy_of
from headwater.secret.batch import Batch, count_by_bucket, whole_numbers
from headwater.secret.noise import new_keys, new_person_key
from headwater.secret.people import People
from headwater.secret.pmm import ledger as pmm_ledger
from headwater.secret.pmm import measure_once
from headwater.secret.read.source import batches_of
from headwater.state import State, whole

_COPIED = (
    "a synthesizer cannot be copied or pickled: two copies would put the same noise on different records, which shows "
    "what it should hide. Write it with save() and go on once with Synthesizer.load()"
)
_FORKED = (
    "this synthesizer belongs to the process that this one was forked from: going on in both would put the same noise "
    "on different records, which shows what it should hide. Make it in the forked process; or write it with save() "
    "beforehand, and go on once, in one process, with Synthesizer.load()"
)


def pmm(table: object, schema: AnySchema, *, epsilon: float, seed: int | None = None) -> Release:
    """One ε-private release of a data set that is already complete.

    Parameters
    ----------
    table
        All records: any kind of table that the schema reads.
    schema
        What a record is.
    epsilon
        The privacy budget.
    seed
        For tests only: makes the release repeatable, and so protects nobody.

    Examples
    --------
    >>> from headwater import unit_cube
    >>> pmm([[0.1, 0.2], [0.3, 0.9]], unit_cube(2), epsilon=2.0).points().shape
    (2, 2)
    """
    warn_of_epsilon(check_epsilon(epsilon), 2)
    noise, public = new_keys(seed)
    points, partition = _checked_schema(schema).encode(table), schema.partition
    seed = release_seed(public, len(points), 0)
    guarantee = pmm_ledger(len(points), partition, epsilon).guarantee(float(epsilon))
    measured = measure_once(points, partition, epsilon, noise, seed)
    model = registry.model("pmm").fit(measured, schema, seed)
    return Release(Facts(len(points), guarantee, schema, "pmm"), 0, model, seed, _table_kind(schema, table))


class Synthesizer:
    """Turns a stream of records into synthetic data that may be published at any moment, under one fixed ε.

    A synthesizer may be shared between threads: updates are taken one after another, in some order, and a release is
    about the records of some moment between two updates.

    Parameters
    ----------
    schema
        What a record is: `headwater.Schema` for tables, `headwater.unit_cube` for arrays in ``[0,1]^d``.
    epsilon
        The privacy budget of the whole run, however long it lasts and however many releases are taken.
    delta
        By how much probabilities may differ beyond the factor of ε. 0, the default: not at all. With a tiny one, such
        as 1e-9, wide tables get much less noise. Of cascade and marginals only; above one over the number of records it
        is warned of.
    mechanism
        ``"auto"``: ``"marginals"`` for tables of four columns and more, ``"cascade"`` for all else.
        ``"cascade"``: noisy counts over cells of all columns together, in buckets of time; trees of cells are chosen by
        published numbers.
        ``"marginals"``: noisy counts of columns and of pairs of columns, in buckets of time.
        ``"paper"``: Algorithms 1 to 4 of He, Vershynin and Zhu.
    expect
        How many records you expect in all, if you know without looking at them. Marginals then lets a stage end with
        them, so that a release of so many has up to half the noise; the run goes on after them as before. The other
        mechanisms do as well without it. Public.
    person
        Who records belong to, if people may have several: then ε is for all records of one person together. Unless
        given, ε is for one record.
    seed
        For tests only: makes the run repeatable, and so protects nobody.

    Formal guarantees
    -----------------
    All releases of one run, taken together, are (ε, δ)-differentially private under replacing one record (event level),
    or all records of one person with ``person=``; and ε-differentially private if δ is 0. How many records arrived is
    public.

    Examples
    --------
    >>> import numpy as np
    >>> from headwater import unit_cube
    >>> synth = Synthesizer(unit_cube(2), epsilon=1.0)
    >>> synth.update(np.random.default_rng(0).random((1000, 2)))
    >>> release = synth.release()
    >>> release.points().shape
    (1000, 2)
    """

    def __init__(
        self,
        schema: AnySchema,
        *,
        epsilon: float,
        delta: float = 0.0,
        mechanism: str = registry.AUTO,
        expect: int | None = None,
        person: Person | None = None,
        seed: int | None = None,
    ) -> None:
        schema, budget = _checked_schema(schema), Budget(check_epsilon(epsilon), check_delta(delta))
        people = None
        if person is not None:
            if not isinstance(person, Person):
                raise TypeError(f'person must be such as Person("user_id", records=20), not {type(person).__name__}')
            InputSchema(cast("Schema", schema), person.column)  # or refused
            people = People.begin(person, new_person_key(seed))
            budget = replace(budget, records=person.records, per_bucket=person.per_bucket)
            if person.per_bucket is not None and not budget.delta:
                raise ValueError("per_bucket lowers noise with a delta only: leave it out, or give a delta (--delta)")
        if expect is not None and whole("expect", expect) < 1:
            raise ValueError(f"expect must be a number of records from 1 on, not {expect}")
        name = registry.resolved(mechanism, schema)
        warn_of_epsilon(budget.epsilon, 2)
        self._begin(State.begin(name, schema, budget, expect, new_keys(seed), people))

    def _begin(self, state: State) -> None:
        self.state, self._process, self._turn = state, this_process(), RLock()
        self.schema, self.budget, self.mechanism = state.schema, state.budget, state.mechanism.name
        self.epsilon = state.budget.epsilon
        self.guarantee: Guarantee = state.guarantee

    # ---- records in

    def update(self, table: object, *, bad_rows: str | None = None) -> None:
        """Take one record or a batch of them, in order of arrival.

        A batch gives exactly what its records one by one would give. A batch with anything wrong in it is refused
        whole, and nothing of it is counted; nor is anything if this is interrupted. Of a file or an iterator each
        batch is taken or refused by itself: those before the wrong one are counted, and `t` says how many that are.

        Parameters
        ----------
        table
            Any kind of table that the schema reads; an iterator of such tables, such as a generator, a reader of
            chunks (pandas) or of record batches (Arrow); or the path of a file that `headwater.read` reads (of several:
            ``update(headwater.read(paths, schema))``).
        bad_rows
            What happens to invalid rows. ``"stop"``: the batch is refused. ``"null"``: such a
            record is counted in `t` and otherwise ignored. None: as the schema says, or else
            ``"stop"``.
        """
        policy, before = policy_of(bad_rows, self.schema), self.t
        if policy == "quarantine":
            raise ValueError('bad_rows="quarantine" needs a run with a state (headwater.run); here "null" is possible')
        for part in batches_of(table, self.input_schema, policy):
            try:
                batch, kind = self.state.encode(part, policy), _table_kind(self.schema, part)
                with self._lock:
                    self.state = self.state.after(self.state.stamped(batch), kind)
            except (TypeError, ValueError) as error:
                if self.t > before:
                    error.add_note(f"The {self.t - before:,} records before this batch were counted.")
                raise

    def encode(
        self,
        table: object,
        numbers: object = None,
        until: int | None = None,
        *,
        bad_rows: str | None = None,
        person_key: bytes | None = None,
    ) -> Batch:
        """What `update` keeps of records: one by one in order of arrival, or, with numbers, counted. Not private.

        Reads and changes nothing of the run: any process with the same schema, ε and mechanism gets the same;
        with ``person=`` it needs the run's `person_key` as well. `take` counts it, here or in the run's own process.

        Parameters
        ----------
        table
            Any kind of table that the schema reads.
        numbers
            The number of each record in the order of arrival, from 0; or that of the first one, if they follow one
            another. They must not depend on what records hold: if replacing a record changed the numbers of others,
            the loss would not be ε. Not of the paper's mechanism, nor with ``person=``.
        until
            With numbers: how many records the run will have when one `take` has taken these and all others before
            them, if that is known: then they are counted in fewer and larger buckets (`bucket`).
        bad_rows
            As for `update`; ``"quarantine"`` as well.
        person_key
            The `person_key` of the run that takes the batch, where records belong to people; this run's unless given.

        Examples
        --------
        >>> from headwater import unit_cube
        >>> owner, worker = (Synthesizer(unit_cube(2), epsilon=1.0) for _ in range(2))
        >>> table = [[0.1, 0.2], [0.9, 0.9], [0.1, 0.2], [0.1, 0.2]]
        >>> odd, even = worker.encode(table[1::2], [1, 3]), worker.encode(table[::2], [0, 2])
        >>> owner.take(odd + even)
        >>> owner.t, (odd + even).records
        (4, 4)
        """
        state = self.state
        if person_key is not None and state.people is not None:
            state = replace(state, people=replace(state.people, key=person_key))
        found = state.encode(table, policy_of(bad_rows, self.schema))
        return found if numbers is None else self.count(found, numbers, until)

    def count(self, batch: Batch, numbers: object, until: int | None = None) -> Batch:
        """Records that `encode` gave one by one, counted by bucket and row.

        Parameters
        ----------
        batch
            As `encode` gave it, without numbers.
        numbers, until
            As for `encode`.
        """
        if self.person is not None:
            raise ValueError("counted records have no owners: give update() the records where there is a person=")
        array = whole_numbers("numbers", numbers)
        first = whole("numbers", numbers) if array.ndim == 0 else None
        if first is None and (array.shape != (batch.records,) or (array.dtype.kind not in "iu" and array.size)):
            raise ValueError(f"numbers must be {batch.records} whole numbers, or that of the first record")
        if array.size and array.min() < 0:
            raise ValueError("numbers must be at least 0")
        state, given = self.state, array.astype(np.int64) if first is None else first
        found = count_by_bucket(
            batch.rows, given, lambda number: state.bucket(number, until), state.mechanism.coarser, until
        )
        return replace(found, tally=batch.tally, bad=batch.bad)

    def bucket(self, number: int, until: int | None = None) -> Span:
        """The fastest bucket that record ``number`` (from 0) falls into: its first record, and its end. Public.

        A function of schema, ε, mechanism and ``until`` alone: any process with the same ones gets the same.

        Parameters
        ----------
        number
            From 0.
        until
            If the records up to this number are taken at once: the slowest bucket whose faster ones are never measured.
        """
        return self.state.bucket(whole("number", number), until)

    def take(self, batch: Batch) -> None:
        """Count a batch, all of it or nothing: the same as `update` with the records themselves, bit for bit.

        Parameters
        ----------
        batch
            As `encode` gave it, here or elsewhere; counted ones are all records after the first `t` up to any number,
            each of them once.
        """
        with self._lock:
            self.state = self.state.after(self.state.checked(batch))

    # ---- releases out

    def release(self, *, last: int | None = None, since: int | None = None) -> Release:
        """The synthetic data set of this moment. Costs no further ε; asking again gives the same one.

        A window is made from the same noisy counts, so it costs no further ε either. It starts where some bucket did,
        so it may hold up to a bucket more than was asked for; ``release.span`` says what it covers.

        Parameters
        ----------
        last
            Only the last so many records. Not with the paper's mechanism.
        since
            Only the records after the first so many. Not with the paper's mechanism.
        """
        return self.begin_release(last=last, since=since)()

    def begin_release(self, *, last: int | None = None, since: int | None = None) -> Callable[[], Release]:
        """What makes the release of this moment, whenever it is called: all that is measured for it is measured now.

        So what was measured can be kept (`save`) before time goes into the model, and several releases can be of one
        moment while records arrive.

        Parameters
        ----------
        last, since
            As for `release`.
        """
        with self._lock:
            state = self.state
            seed, measured = state.measured(last, since)
            facts = Facts(state.t, self.guarantee, self.schema, self.mechanism, state.laws())
        warn_of_delta(self.budget.delta, state.t, 3)
        return partial(made_of, measured, facts, seed, state.kind)  # which sees no data: other threads may go on

    def measured(self, *, last: int | None = None, since: int | None = None) -> Measured:
        """The noisy counts that a release of this moment is made from: as public as the release itself.

        Parameters
        ----------
        last, since
            As for `release`.
        """
        with self._lock:
            return self.state.measured(last, since)[-1]

    def know(self, kept: Kept) -> None:
        """Take for measured what was measured and kept before: it is never measured again.

        Parameters
        ----------
        kept
            As `kept` gave it, in this process or before it was killed.
        """
        with self._lock:
            self.state = replace(self.state, mechanism=self.state.mechanism.knowing(kept))

    # ---- what is known of the run

    @property
    def t(self) -> int:
        """How many records have arrived. Public."""
        return self.state.mechanism.t

    @property
    def expect(self) -> int | None:
        """How many records the plan is laid out for; None if that was not declared, or is of no use. Public."""
        return self.state.expect

    @property
    def person(self) -> Person | None:
        """Who records belong to, as it was declared. Public."""
        return self.state.people.person if self.state.people else None

    @property
    def person_key(self) -> bytes | None:
        """The key of the hashes of people in this run. Secret."""
        return self.state.people.key if self.state.people else None

    @property
    def input_schema(self) -> AnySchema | InputSchema:
        """The columns that are read: those of the schema, and the one that names the person."""
        return self.schema if self.person is None else InputSchema(cast("Schema", self.schema), self.person.column)

    @property
    def tally(self) -> Tally:
        """What `update` has clipped, not found listed, found missing, or capped. Secret: there is no noise in it."""
        return self.state.tally.with_capped(self.capped, self.t)

    @property
    def capped(self) -> int:
        """How many records did not count, because their person had enough that did. Secret: there is no noise in it."""
        return self.state.people.capped if self.state.people else 0

    @property
    def _lock(self) -> RLock:
        if this_process() != self._process:
            raise RuntimeError(_FORKED)
        return self._turn

    def plan(self, until: int | None = None) -> object:
        """The schedule of buckets and budgets, of cascade with the noise: print it. Not of the paper's mechanism.

        Parameters
        ----------
        until
            Up to which time; twice the present one unless given.
        """
        return self.state.mechanism.plan(max(2 * self.t, 1) if until is None else whole("until", until))

    def ledger(self, t: int | None = None) -> Ledger:
        """Every draw of noise that a record arriving now can move; it adds up to at most ε, or to a ρ that keeps it.

        Parameters
        ----------
        t
            How many records arrived before it, if it is another one than the next: past or to come.
        """
        return Ledger(self.state.mechanism.ledger(None if t is None else whole("t", t)), self.budget)

    @property
    def run_id(self) -> str:
        """A name of this run, the same for ever and on all its cards. Public: depends on neither data nor noise."""
        return run_id(self.state.public)

    @property
    def has_windows(self) -> bool:
        """Whether `release` can be about the last records only. Public."""
        return self.state.mechanism.windows

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything that is needed to go on. The file is as secret as the data; only its owner can read it.

        Parameters
        ----------
        path
            The file to write.
        """
        with self._lock:
            self.state.write(path)

    def to_bytes(self) -> bytes:
        """What `save` writes, as bytes: as secret as the data."""
        with self._lock:
            return self.state.to_bytes()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Go on from where `save` was called, with the very same noise.

        Go on **once**: two runs from one file publish the same noise on different data.

        Parameters
        ----------
        path
            A file that `save` wrote.
        """
        return cls._of(State.read(path))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Go on from where `to_bytes` was called, **once**, like `load`.

        Parameters
        ----------
        data
            What `to_bytes` gave.
        """
        return cls._of(State.from_bytes(data))

    @classmethod
    def _of(cls, state: State) -> Self:
        synth = cls.__new__(cls)
        synth._begin(state)
        return synth

    def __reduce_ex__(self, protocol: object) -> NoReturn:  # copy() and deepcopy() call it as well
        raise TypeError(_COPIED)

    def __repr__(self) -> str:
        delta = f", delta={self.budget.delta:g}" if self.budget.delta else ""
        budget = f"epsilon={self.epsilon:g}{delta}"
        expect = f", expect={self.expect}" if self.expect else ""
        return f"Synthesizer({self.schema!r}, {budget}, mechanism={self.mechanism!r}{expect}) at t = {self.t:,}"


def _checked_schema(schema: object) -> AnySchema:
    if not isinstance(schema, Schema | UnitCube):
        raise TypeError(
            f"schema must be a Schema or unit_cube(d), not {type(schema).__name__}: bounds are declared, and "
            "headwater.draft(table) drafts a schema file to declare them in"
        )
    return schema


def _table_kind(schema: AnySchema, table: object) -> str | None:
    """What kind of table to give back for this one. Points of a cube are always an array."""
    return kind_of(getattr(table, "table", table)) if isinstance(schema, Schema) else None
