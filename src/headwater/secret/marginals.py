"""Marginals: noisy contingency tables of one and two columns, per bucket of time.

When a slow bucket closes, one-way marginals are measured first. By what they say and what was published before, pairs
of columns are chosen, partly by a private choice, and measured; then pairs that the published model predicts badly.
Fast buckets measure one-way marginals of the columns that move. All of this happens at bucket ends, whoever asks.
"""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from headwater.public.budget import Budget, Ledger
from headwater.public.marginals.codes import Codes, codings, encode
from headwater.public.marginals.measured import Closing, Measured, NoisyTable, Outlook
from headwater.public.marginals.plan import Plan, Stage, plan, stage_at
from headwater.public.partition import Points
from headwater.public.protocol import AnySchema, Kept, Rows, Span, State
from headwater.secret.batch import Batch
from headwater.secret.bucket import FAST, SLOW, Bucket, SlowBucket
from headwater.secret.held import Held, Part, cut
from headwater.secret.mechanism import twin
from headwater.secret.noise import Noise


class MarginalsMechanism:
    """The mechanism for wide tables: same promise as cascade's, made for many columns."""

    name: ClassVar[str] = "marginals"
    version: ClassVar[int] = 11
    windows: ClassVar[bool] = True

    def __init__(self, schema: AnySchema, budget: Budget | float, noise: Noise, expect: int | None = None) -> None:
        self.schema, self.budget, self.noise, self.t = schema, Budget.of(budget), noise, 0
        self.expect = expect
        self.epsilon = self.budget.epsilon
        self.codings = codings(schema)
        self.sizes = tuple(coding.size for coding in self.codings)
        self.closings: tuple[Closing, ...] = ()  # all that was ever measured, by end of bucket
        self.known: dict[Span, Closing] = {}  # what was measured and kept before this mechanism came so far
        self.stage = self.stage_at(0)
        self.outlook = Outlook((), (), (1.0,) * len(self.sizes))
        self._held = Held()  # the records of the open slow bucket

    @property
    def tables(self) -> tuple[NoisyTable, ...]:
        """All that was ever measured, by end of bucket."""
        return tuple(table for closing in self.closings for table in closing.tables)

    def stage_at(self, t: int) -> Stage:
        return stage_at(t, self.budget, len(self.sizes), self.expect)

    def encode(self, points: Points) -> Codes:
        return encode(points, self.schema)

    def update(self, batch: Batch) -> Self:
        new = twin(self)  # what happens to it binds its attributes anew
        for part in cut(batch, self.t, lambda number: new.spans(number)[-1]):
            new._take(part)
        return new

    def _take(self, part: Part) -> None:
        """Take records up to the end of a bucket at most."""
        self._held = self._held.plus(part)
        self.t += part.records
        stage = self.stage
        if stage.fast and self.t == self.spans(part.start)[-1].end:
            self._close(Span(part.start, self.t), FAST)
        if self.t == stage.end:
            self._close(Span(stage.start, self.t), SLOW)
            self.stage, self._held = self.stage_at(self.t), Held()
        elif stage.fast and self.t == self.spans(part.start)[-1].end:
            self._held = self._held.merged(stage.start)  # no fast bucket of these records is measured any more

    def _close(self, span: Span, timescale: int) -> None:
        """Measure a bucket that ends now, unless that was done before."""
        closing = self.known.get(span) or self._measure(span, timescale)
        self.closings = (*self.closings, closing)
        self.outlook = closing.outlook

    def _measure(self, span: Span, timescale: int) -> Closing:
        stage, known = self.stage, self.tables
        plain, counted = self._held.within(span)
        rows = np.concatenate(plain) if plain else np.empty((0, len(self.sizes)), dtype=np.uint16)
        codes = np.ascontiguousarray(rows.T)
        bucket = Bucket(codes, self.codings, self.noise, timescale, *span, stage.accounting, counted)
        if timescale == FAST:
            found = bucket.one_way(stage.fast_budget, self.outlook.moving, known)
            return Closing(*span, tuple(found), self.outlook)
        slow = SlowBucket(bucket, stage, known, self.outlook, self.epsilon)
        slow.measure()
        return Closing(*span, tuple(slow.known[len(known) :]), slow.ahead(self.stage_at(self.t)))

    def spans(self, number: int) -> tuple[Span, ...]:
        stage = self.stage if self.stage.start <= number < self.stage.end else self.stage_at(number)
        slow = Span(stage.start, stage.end)
        if not stage.fast:
            return (slow,)
        return slow, Span(number - (number - stage.start) % stage.fast, stage.fast_end(number))

    def coarser(self, rows: Rows, number: int) -> Rows:
        return rows

    def measured(self, seed: int) -> Measured:
        return Measured(self.t, 0, self.epsilon, self.codings, self.tables, self.schema)

    def kept(self) -> Kept:
        return {Span(closing.start, closing.end): closing for closing in self.closings}

    def knowing(self, kept: Kept) -> Self:
        new = twin(self)
        new.known = self.known | {span: closing for span, closing in kept.items() if span.end > self.t}
        return new

    def ledger(self, t: int | None = None) -> Ledger:
        return (self.stage if t is None else self.stage_at(t)).ledger()

    def plan(self, until: int) -> Plan:
        return plan(len(self.sizes), self.budget, until, self.expect)

    def state(self) -> State:
        header, arrays = Measured.pack(self.kept())
        return {"t": self.t} | header, arrays | self._held.state()

    @classmethod
    def restore(
        cls, schema: AnySchema, budget: Budget | float, noise: Noise, state: State, expect: int | None = None
    ) -> Self:
        (header, arrays), found = state, cls(schema, budget, noise, expect)
        found.t, found.closings = header["t"], tuple(Measured.unpack(header, arrays, schema).values())
        found.stage = found.stage_at(found.t)
        if found.closings:
            found.outlook = found.closings[-1].outlook
        found._held = Held.restore(arrays, len(found.sizes), np.dtype(np.uint16))
        return found


MECHANISM = MarginalsMechanism
