"""Marginals: noisy contingency tables of one and two columns, per bucket of time.

When a slow bucket closes, one-way marginals are measured first. By what they say and what was published before, pairs
of columns are chosen, partly by a private choice, and measured; then pairs that the published model predicts badly.
Fast buckets measure one-way marginals of the columns that move. All of this happens at bucket ends, whoever asks.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from headwater.files import need, whole_number
from headwater.mechanisms.marginals.bucket import FAST, SLOW, Bucket
from headwater.mechanisms.marginals.codes import FINEST, NULL, Codes, codings, encode
from headwater.mechanisms.marginals.measured import Integers, Measured, NoisyTable
from headwater.mechanisms.marginals.plan import Plan, Stage, plan, stage_at
from headwater.mechanisms.marginals.prediction import Outlook
from headwater.mechanisms.marginals.saving import check_codes, pack, unpack
from headwater.mechanisms.marginals.slow import SlowBucket
from headwater.mechanisms.open_counts import CountedBucket, CountedBuckets, parts_by_bucket
from headwater.mechanisms.protocol import AnySchema, Arrays, Header, Options, Rows, State
from headwater.noise import Noise
from headwater.partition import Points
from headwater.privacy import Budget, IntegerLaplace, Ledger


class MarginalsMechanism:
    """The mechanism for wide tables: same promise as cascade's, made for many columns.

    Parameters
    ----------
    schema
        What a record is.
    budget
        Of the whole run.
    noise
        Where the noise comes from.
    expect
        How many records are expected in all, if that is known: a stage ends with them.

    Formal guarantees
    -----------------
    All tables at all times together are ε-differentially private for replacing one record, of any stream, chosen
    adaptively or not. The record lies in one bucket of each timescale. There it moves two counts of each table by one,
    and every score of a choice by at most two; the budgets of the tables and choices of its buckets add up to at most ε
    on every path of outcomes (`Stage.ledger`, `proofs/marginals.md`). With a δ they add up to the ρ that keeps (ε, δ),
    in stages with Gaussian noise (`proofs/gaussian.md`).
    """

    name: ClassVar[str] = "marginals"
    online: ClassVar[bool] = True
    windows: ClassVar[bool] = True
    thresholds: ClassVar[bool] = False
    partitions: ClassVar[bool] = True
    divides: ClassVar[bool] = True
    """Whether a spend of the ledger is divided among tables: then each of them has more noise than is listed."""
    deltas: ClassVar[bool] = True
    noise_name: ClassVar[str] = f"{IntegerLaplace.name}, of small tables jointly"
    """The laws of noise without a δ, on cards."""
    version: ClassVar[int] = 8
    options: ClassVar[Options] = {"expect": int}

    def __init__(self, schema: AnySchema, budget: Budget | float, noise: Noise, expect: int | None = None) -> None:
        self.schema, self.budget, self.noise, self.t = schema, Budget.of(budget), noise, 0
        self.expect = expect
        self.epsilon = self.budget.epsilon
        self.codings = codings(schema)
        self.width = len(self.codings)
        self.tables: tuple[NoisyTable, ...] = ()  # all that was ever measured, by end of bucket
        self.stage = self.stage_at(0)
        self.outlook = Outlook((), (), (1.0,) * self.width)
        self._codes = self._room(0)  # of the records in the open slow bucket, in order of arrival
        self._counted = CountedBuckets()  # those of them that were counted elsewhere

    def __copy__(self) -> Self:
        """A copy that shares everything: an update binds names anew, and writes only behind the records it has."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def stage_at(self, t: int) -> Stage:
        """The stage that record number ``t`` (from 0) belongs to. Public."""
        return stage_at(t, self.budget, self.width, self.expect)

    def encode(self, points: Points) -> Codes:
        """A code for each column of every record."""
        return encode(points, self.schema)

    def place_bits(self, axis: int) -> int:
        """So many binary digits of a coordinate decide the code of a continuum."""
        return (FINEST - 1).bit_length() + self.codings[axis].missing

    def check(self, rows: NDArray[Any]) -> Codes:
        """Codes that were found elsewhere, or an error that says what is wrong with them."""
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise ValueError(f"rows must have shape (n, {self.width}), as encode() gives them, not {rows.shape}")
        if rows.dtype.kind not in "iu" and rows.size:
            raise TypeError(f"rows must be whole numbers, not {rows.dtype}")
        good = rows
        for number, coding in enumerate(self.codings):
            if _beyond(good[:, number], coding.size):
                good = good[(good != NULL).any(axis=1)]  # looked for only now: there is hardly ever a null record
            if _beyond(good[:, number], coding.size):
                raise ValueError(f"rows[:, {number}] must lie between 0 and {coding.size - 1}, as encode() gives them")
        return rows.astype(np.uint16, copy=False)

    def update(self, rows: Rows) -> None:
        """Take records in order of arrival."""
        while len(rows):
            held, end = self.t - self.stage.start - self._counted.records, self.stage.fast_end(self.t)
            take = min(end - self.t, len(rows))
            if held + take > self._codes.shape[1]:
                grown = self._room(min(max(2 * held, held + take, 1 << 12), self.stage.size))
                grown[:, :held] = self._codes[:, :held]
                self._codes = grown
            self._codes[:, held : held + take] = rows[:take].T
            self.t += take
            rows = rows[take:]
            if self.t == end:
                self._close()

    def bucket(self, number: int, until: int | None = None) -> tuple[int, int]:
        """The fastest bucket that record ``number`` (from 0) falls into: its first record, and its end.

        All of them are measured, whatever comes at once.
        """
        stage = self.stage
        if not stage.start <= number < stage.end:
            stage = self.stage_at(number)
        start = number - (number - stage.start) % (stage.fast or stage.size)
        return start, stage.fast_end(number)

    def coarser(self, rows: Rows, number: int) -> Rows:
        """The rows themselves: any two codes may be counted in different cells."""
        return rows

    def update_counts(self, rows: Rows, counts: Integers, until: int | None = None) -> None:
        """Take counted records, in the order of their fastest buckets and in any order inside these."""
        for start, records, part, numbers in parts_by_bucket(rows, counts, self.t, self.bucket):
            found = CountedBucket.of(start, records, part, numbers)
            self._counted = self._counted.plus(found)
            self.t += records
            if self.t == self.bucket(start)[1]:
                self._close()
                self._counted = self._counted.merged(self.stage.start)  # the fast bucket was measured

    def _room(self, records: int) -> Codes:
        return np.empty((self.width, records), dtype=np.uint16)

    def _bucket(self, timescale: int, start: int) -> Bucket:
        counted, opened = self._counted, self.stage.start
        codes = self._codes[:, start - opened - counted.before(start) : self.t - opened - counted.records]
        within, accounting = counted.within(start, self.t), self.stage.accounting
        return Bucket(codes, self.codings, self.noise, timescale, start, self.t, accounting, within)

    def _close(self) -> None:
        """Measure the buckets that end now."""
        stage, known = self.stage, list(self.tables)
        if stage.fast:
            fast = self._bucket(FAST, self.t - 1 - (self.t - 1 - stage.start) % stage.fast)
            known += fast.one_way(stage.fast_budget, self.outlook.moving, known)
        if self.t == stage.end:
            following = self.stage_at(self.t)
            slow = SlowBucket(self._bucket(SLOW, stage.start), stage, known, self.outlook, self.epsilon)
            slow.measure()
            known, self.outlook, self.stage = slow.known, slow.ahead(following), following
            self._codes, self._counted = self._room(0), CountedBuckets()
        self.tables = tuple(known)

    def window(self, since: int) -> int:
        """The last start of a closed bucket, of either timescale, before record ``since + 1``."""
        return max((table.start for table in self.tables if table.start <= since), default=0) if since else 0

    def measured(self, start: int, seed: int) -> Measured:
        """All that is published about the records after the first ``start``."""
        return Measured(self.t, start, self.epsilon, self.codings, self.tables, self.schema)

    def status(self) -> str:
        """The stage at this time, in words."""
        fast = f", in buckets of {self.stage.fast:,}" if self.stage.fast else ""
        return f"records {self.stage.start:,} to {self.stage.end:,}{fast}"

    def ledger(self, t: int | None = None) -> Ledger:
        """What one record of a stage can move."""
        stage = self.stage if t is None else self.stage_at(t)
        return stage.ledger()

    def bucket_end(self, t: int) -> int:
        """Where the slow bucket ends that record number ``t`` (from 0) lies in. Public."""
        return self.stage_at(t).end

    def plan(self, until: int) -> Plan:
        """The schedule up to some time."""
        return plan(self.width, self.budget, until, self.expect)

    def state(self) -> State:
        """Everything that is needed to go on, but for the key: as secret as the data."""
        codes = self._codes[:, : self.t - self.stage.start - self._counted.records]
        header, arrays = pack(self.t, self.tables, self.outlook, codes)
        return header | {"version": self.version}, arrays | self._counted.state()

    def restore(self, header: Header, arrays: Arrays) -> None:
        """Go on from a `state`, if it is one."""
        need(header.get("version") == self.version, "version")
        t = whole_number(header["t"], "t")
        self.stage = self.stage_at(t)
        counted = CountedBuckets.restore(arrays, self.stage.start, t, self.width, np.uint16, self.bucket)
        for one in counted.buckets:
            check_codes(one.rows.T, self.codings)
        tables, outlook, codes = unpack(header, arrays, self.codings, self.stage_at, counted.records)
        self.t, self.tables, self.outlook, self._codes = t, tuple(tables), outlook, codes
        self._counted = counted


def _beyond(codes: NDArray[Any], size: int) -> bool:
    """Whether some code is none of ``0 … size − 1``."""
    signed = codes.dtype.kind == "i"
    return bool(len(codes)) and bool(int(codes.max()) >= size or (signed and codes.min() < 0))


MECHANISM = MarginalsMechanism
