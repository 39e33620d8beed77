"""A run from end to end: records go in, the mechanism measures, a model is fitted, a release comes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from headwater.one_run import CountedUpdates, EncodedRows, encode_with_people
from headwater.public import protocol as registry
from headwater.public.bad_rows import policy_of
from headwater.public.budget import Budget, Ledger, check_delta, check_epsilon, warn_of_delta, warn_of_epsilon
from headwater.public.errors import TableError
from headwater.public.laws import IntegerLaplace
from headwater.public.person import Person
from headwater.public.protocol import AnySchema, Facts, Measured, Rows, with_null_records
from headwater.public.release import Release
from headwater.public.schema import Schema
from headwater.public.tally import Tally
from headwater.secret.counts import BucketedCounts, whole_numbers
from headwater.secret.mechanism import mechanism_class
from headwater.secret.noise import new_keys, new_person_key, release_seed
from headwater.secret.people import People
from headwater.secret.read.batches import Chunk, batches_of
from headwater.state import SynthesizerState, checked_person, checked_schema, options_of, table_kind, window_start


def pmm(
    table: object, schema: AnySchema, *, epsilon: float, consistency: str | None = None, seed: int | None = None
) -> Release:
    """One ε-private release of a data set that is already complete.

    Parameters
    ----------
    table
        All records: any kind of table that the schema reads.
    schema
        What a record is.
    epsilon
        The privacy budget.
    consistency
        How noisy counts are made to add up: ``"halving"`` or ``"proportional"``.
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
    points, kind = checked_schema(schema).encode(table), mechanism_class("pmm")
    mechanism = kind(schema, check_epsilon(epsilon), noise, **options_of(kind, {"consistency": consistency}))
    mechanism.update(mechanism.encode(points))
    seed = release_seed(public, mechanism.t, 0)
    facts = Facts(mechanism.t, mechanism.ledger().guarantee(float(epsilon)), schema, "pmm")
    model = registry.model("pmm").fit(mechanism.measured(0, seed), schema, seed)
    return Release(facts, 0, model, seed, table_kind(schema, table))


class Synthesizer(CountedUpdates):
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
    consistency
        Of the paper's mechanism only: how noisy counts are made to add up: ``"halving"`` or ``"proportional"``.
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
        consistency: str | None = None,
        expect: int | None = None,
        person: Person | None = None,
        seed: int | None = None,
    ) -> None:
        schema, budget = checked_schema(schema), Budget(check_epsilon(epsilon), check_delta(delta))
        people = None
        if person is not None:
            people = People.begin(checked_person(person, schema), new_person_key(seed))
            budget = replace(budget, records=person.records, per_bucket=person.per_bucket)
            if person.per_bucket is not None and not budget.delta:
                raise ValueError("per_bucket lowers noise with a delta only: leave it out, or give a delta (--delta)")
        mechanism = registry.resolved(mechanism, schema)
        kind = mechanism_class(mechanism)
        if not kind.online:
            raise ValueError(f"{mechanism} takes a whole data set at once; call headwater.{mechanism} for that")
        if budget.delta and not kind.deltas:
            raise ValueError(
                f"mechanism={mechanism!r} keeps pure ε only: leave out delta, or take cascade or marginals"
            )
        options = options_of(kind, {"consistency": consistency, "expect": expect})
        warn_of_epsilon(budget.epsilon, 2)
        super().__init__(SynthesizerState.begin(kind, schema, budget, options, new_keys(seed), people))

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
            What happens to rows that are no records of the schema. ``"stop"``: the batch is refused. ``"null"``: such a
            record has arrived and is nowhere: `t` counts it, and nothing else does. None: as the schema says, or else
            ``"stop"``.
        """
        bad_rows = policy_of(bad_rows, self.schema)
        if bad_rows == "quarantine":
            raise ValueError('bad_rows="quarantine" needs a run with a state (headwater.run); here "null" is possible')
        before = self.t
        for part in batches_of(table, self.input_schema, bad_rows):
            try:
                self._update_batch(part, bad_rows)
            except (TypeError, ValueError) as error:
                named = part.batch.with_line(error) if part.batch and isinstance(error, TableError) else error
                if self.t > before:
                    named.add_note(f"The {self.t - before:,} records before this batch were counted.")
                raise named from None

    def _update_batch(self, part: Chunk, bad_rows: str) -> None:
        encoded = self.encode_batch(part.table, bad_rows=bad_rows)
        if part.batch is not None and (part.batch.bad or encoded.bad):
            encoded = encoded.among(part.batch)
        with self._lock:
            rows, kind = self.stamped(encoded.rows), table_kind(self.schema, part.table)
            self._state = self._state.after(rows, encoded.tally, kind)

    def encode(self, table: object, *, bad_rows: str | None = None) -> Rows:
        """What `update` keeps of a batch: a row of integers for every record. Not private.

        Reads and changes nothing of the run: any process with the same schema, ε and mechanism gets the same;
        with ``person=`` it needs the run's `person_key` as well.

        Parameters
        ----------
        table
            Any kind of table that the schema reads.
        bad_rows
            As for `update`.
        """
        return self.encode_batch(table, bad_rows=bad_rows).rows

    def encode_batch(
        self, table: object, *, bad_rows: str | None = None, person_key: bytes | None = None
    ) -> EncodedRows:
        """The same, with the rows that are bad and a tally of what was clipped.

        Parameters
        ----------
        table
            Any kind of table that the schema reads.
        bad_rows
            As for `update`; ``"quarantine"`` as well.
        person_key
            The `person_key` of the run that takes the rows, where records belong to people; this run's unless given.
        """
        bad_rows = policy_of(bad_rows, self.schema)
        people = self._state.people
        if people is not None:
            people = people if person_key is None else replace(people, key=person_key)
            return encode_with_people(people, self._mechanism, cast("Schema", self.schema), table, bad_rows)
        found = self.schema.encode_batch(table, bad_rows=bad_rows)
        return EncodedRows(with_null_records(self._mechanism.encode(found.points), found.flags), found.bad, found.tally)

    def stamped(self, rows: Rows) -> Rows:
        """Rows with the period of this moment, where periods of people go by the clock: before they are kept.

        Parameters
        ----------
        rows
            As `encode` gives them.
        """
        people = self._state.people
        return rows if people is None else people.stamped(rows, self._mechanism.width)

    def update_rows(self, rows: object) -> None:
        """Take records as `encode` gave them, here or elsewhere. The same as `update` with the records themselves.

        A row that stands for no record of the schema counts as a record that is nowhere.

        Parameters
        ----------
        rows
            An array of shape ``(n, width)``.
        """
        with self._lock:
            self._state = self._state.after(self.check_rows(rows), Tally(), None)

    def check_rows(self, rows: object) -> Rows:
        """Rows that `update_rows` can take, or an error that says what is wrong with them; `stamped` as well.

        Parameters
        ----------
        rows
            As `encode` gave them, here or elsewhere.
        """
        return self._state.checked(whole_numbers("rows", rows))

    def histogram(
        self, table: object, numbers: object, *, bad_rows: str | None = None, until: int | None = None
    ) -> BucketedCounts:
        """Records counted by bucket and row, for `update_counts` of the run that they belong to. Not private.

        Reads and changes nothing of the run: any process with the same schema, ε and mechanism gets the same.

        Parameters
        ----------
        table
            Any kind of table that the schema reads.
        numbers
            The number of each record in the order of arrival, from 0; or that of the first one, if they follow one
            another. They must not depend on what records hold: if replacing a record changed the numbers of others,
            the loss would not be ε.
        bad_rows
            As for `update`.
        until
            How many records the run will have when one `update_counts` has taken these and all others before them, if
            that is known: then they are counted in fewer and larger buckets (`bucket`).

        Examples
        --------
        >>> from headwater import unit_cube
        >>> owner, worker = (Synthesizer(unit_cube(2), epsilon=1.0) for _ in range(2))
        >>> table = [[0.1, 0.2], [0.9, 0.9], [0.1, 0.2], [0.1, 0.2]]
        >>> odd, even = worker.histogram(table[1::2], [1, 3]), worker.histogram(table[::2], [0, 2])
        >>> owner.update_counts(odd + even)
        >>> owner.t, (odd + even).counts.tolist()
        (4, [3, 1])
        """
        return self.count_rows(self.encode(table, bad_rows=bad_rows), numbers, until)

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
            t, kind = self.t, self._state.kind
            start, seed, measured = self._measure(last, since)
            laws = self._laws()

        def make() -> Release:
            # From here on nothing has seen data, and other threads may go on.
            model = registry.model(self.mechanism).fit(measured, self.schema, seed)
            return Release(Facts(t, self.guarantee, self.schema, self.mechanism, laws), start, model, seed, kind)

        warn_of_delta(self.budget.delta, t, 3)
        return make

    def _laws(self) -> str:
        if not self.budget.delta:
            return str(getattr(self._mechanism, "noise_name", IntegerLaplace.name))
        ledgers = [self._mechanism.ledger(1 << q >> 1) for q in range(max(self.t, 1).bit_length())]
        return Ledger(spend for ledger in ledgers for spend in ledger).laws

    def measured(self, *, last: int | None = None, since: int | None = None) -> Measured:
        """The noisy counts that a release of this moment is made from: as public as the release itself.

        Parameters
        ----------
        last, since
            As for `release`.
        """
        with self._lock:
            return self._measure(last, since)[-1]

    def _measure(self, last: int | None, since: int | None) -> tuple[int, int, Measured]:
        start = self._mechanism.window(window_start(self.t, last, since))
        seed = release_seed(self._state.public, self.t, start)
        return start, seed, self._mechanism.measured(start, seed)
