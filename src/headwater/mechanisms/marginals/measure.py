"""Marginals: noisy contingency tables of one and two columns, per bucket of time.

When a slow bucket closes, one-way marginals are measured first. By what they say and what was published before, pairs
of columns are chosen, partly by a private choice, and measured; then pairs that the published model predicts badly.
Fast buckets measure one-way marginals of the columns that move. All of this happens at bucket ends, whoever asks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.privacy import Ledger
from headwater.noise import Noise
from headwater.mechanisms.marginals.bucket import FAST, SLOW, Bucket
from headwater.mechanisms.marginals.codes import Codes, codings, encode
from headwater.mechanisms.marginals.measured import Measured, NoisyTable
from headwater.mechanisms.marginals.plan import Plan, plan, stage_at
from headwater.mechanisms.marginals.saving import pack, unpack
from headwater.mechanisms.marginals.slow import SlowBucket
from headwater.partition import Points
from headwater.table.schema import Schema
from headwater.table.unit_cube import UnitCube


class MarginalsMechanism:
    """The mechanism for wide tables: same promise as cascade's, made for many columns.

    Parameters
    ----------
    schema
        What a record is.
    epsilon
        The privacy budget of the whole run.
    noise
        Where protecting randomness is drawn.

    Formal guarantees
    -----------------
    All tables at all times together are ε-differentially private for replacing one record, of any stream, chosen
    adaptively or not. The record lies in one bucket of each timescale. There it moves two counts of each table by one,
    and every score of a choice by at most two; the budgets of the tables and choices of its buckets add up to at most ε
    on every path of outcomes (`Stage.ledger`, `proofs/marginals.md`).
    """

    name = "marginals"
    version = 1
    windows = True

    def __init__(self, schema: Schema | UnitCube, epsilon: float, noise: Noise) -> None:
        self.schema, self.epsilon, self.noise, self.t = schema, epsilon, noise, 0
        self.codings = codings(schema)
        self.tables: list[NoisyTable] = []  # all that was ever measured, by end of bucket
        self.stage = stage_at(0, epsilon, len(self.codings))
        self.moving = [1.0] * len(self.codings)  # how fast buckets divide their budget among the columns
        self._codes = self._room(0)  # of the records in the open slow bucket, in order of arrival

    def encode(self, points: Points) -> Codes:
        """What is kept of points: a code for each column. Reads nothing of the run."""
        return encode(points, self.schema)

    def update(self, rows: Codes) -> None:
        """Take records in order of arrival, as `encode` gives them."""
        rows = np.asarray(rows)
        if rows.ndim != 2 or rows.shape[1] != len(self.codings) or rows.dtype.kind != "u":
            raise ValueError(f"rows must be codes of shape (n, {len(self.codings)}), as encode() gives them")
        if len(rows) and any(int(row.max()) >= coding.size for row, coding in zip(rows.T, self.codings, strict=True)):
            raise ValueError("a code is beyond the values of its column: give rows as encode() gives them")
        while len(rows):
            held, end = self.t - self.stage.start, self.stage.fast_end(self.t)
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

    def _room(self, records: int) -> Codes:
        return np.empty((len(self.codings), records), dtype=np.uint16)

    def _bucket(self, timescale: int, start: int) -> Bucket:
        codes = self._codes[:, start - self.stage.start : self.t - self.stage.start]
        return Bucket(codes, self.codings, self.noise, timescale, start, self.t)

    def _close(self) -> None:
        """Measure the buckets that end now."""
        stage, known = self.stage, list(self.tables)
        if stage.fast:
            fast = self._bucket(FAST, self.t - 1 - (self.t - 1 - stage.start) % stage.fast)
            known += fast.one_way(stage.fast_budget, self.moving, known)
        if self.t == stage.end:
            following = stage_at(self.t, self.epsilon, len(self.codings))
            slow = SlowBucket(self._bucket(SLOW, stage.start), stage, known, self.epsilon)
            slow.measure()
            known, self.moving, self.stage, self._codes = slow.known, slow.moving(following), following, self._room(0)
        self.tables = known

    def measured(self, since: int = 0) -> Measured:
        """What is published about the records after the first ``since`` ones, or a few more: whole buckets only."""
        start = max((table.start for table in self.tables if table.start <= since), default=0) if since else 0
        return Measured(self.t, start, self.epsilon, self.codings, tuple(self.tables))

    def ledger(self) -> Ledger:
        """What one record arriving now can move."""
        return self.stage.ledger()

    def plan(self, until: int) -> Plan:
        """The schedule up to some time."""
        return plan(len(self.codings), self.epsilon, until)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything that is needed to go on, but for the key: as secret as the data."""
        return pack(self.t, self.tables, self.moving, self._codes[:, : self.t - self.stage.start])

    def restore(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a `state`; what is none is refused."""
        self.t, self.tables, self.moving, self._codes = unpack(header, arrays, self.codings, self.epsilon)
        self.stage = stage_at(self.t, self.epsilon, len(self.codings))


MECHANISM = MarginalsMechanism
