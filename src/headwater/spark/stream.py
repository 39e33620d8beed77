"""Runs that are fed by Spark: micro-batches of a stream, or whole data frames."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from headwater.public import protocol as registry
from headwater.public.bad_rows import policy_of
from headwater.public.person import Person
from headwater.public.protocol import AnySchema
from headwater.run import FolderSink, Run, RunConfig, Schedule
from headwater.run.sink import Sink
from headwater.spark.counting import Counted, count
from headwater.spark.frames import Placed, place
from headwater.spark.grouping import Repeats
from headwater.spark.keys import KeyedRuns, Keys
from headwater.spark.session import PYSPARK
from headwater.synthesizer import Synthesizer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

POSITION = "spark"
"""The name under which a run keeps the last micro-batch that it has taken, and of which query."""


_REPEATS: WeakKeyDictionary[Synthesizer | Run, Repeats] = WeakKeyDictionary()


class OtherQueryError(ValueError):
    """A state whose micro-batches came from another query: their numbers say nothing about this one's."""


def update(
    target: Synthesizer | Run,
    frame: DataFrame,
    *,
    order: Sequence[str] | None = None,
    bad_rows: str | None = None,
    position: dict[str, Any] | None = None,
) -> int:
    """Take all records of a batch data frame, counted by its executors, and return how many there are with them.

    Parameters
    ----------
    target
        What takes them.
    frame
        The columns of the schema, in any order, and those of ``order``.
    order
        Columns that say where a record stands in its source, the last of them a whole number; see `stream`.
    bad_rows
        As for `Run.take`; without a state ``"stop"`` or ``"null"``.
    position
        As for `Run.take`.
    """
    synth = target if isinstance(target, Synthesizer) else target.synth
    policy = target.policy(bad_rows) if isinstance(target, Run) else policy_of(bad_rows, synth.schema)
    if policy == "quarantine" and isinstance(target, Synthesizer):
        raise ValueError('bad_rows="quarantine" needs a run with a state (headwater.run); here "null" is possible')
    promised = synth.epsilon, synth.mechanism, None, synth.budget.delta, synth.person
    config = RunConfig(synth.schema, *promised, synth.expect)
    placed = replace(place(frame, synth.schema, order, person=synth.person), repeats=_repeats(target))
    due = {0: target.next_due} if isinstance(target, Run) else {}
    found = count(placed, config, {0: target.t}, policy, synth.person_key, due)[0]
    if isinstance(target, Run):
        take(target, found, position or {})
    elif found.rows is not None:
        target.update_rows(found.rows)
    elif found.counts is not None:
        target.update_counts(found.counts, found.tally)
    return target.t


def _repeats(target: Synthesizer | Run) -> Repeats:
    """What is known of the frames that this run took before."""
    return _REPEATS.setdefault(target, Repeats())


def take(run: Run, found: Counted, position: dict[str, Any]) -> None:
    """Let a run take what was counted, with a position in the same transaction."""
    if found.rows is not None:
        run.take_rows(found.rows, found.tally, position=position, quarantined=found.bad)
    elif found.counts is None:
        run.keep_position(position)
    else:
        run.take_counts(found.counts, found.tally, position=position, quarantined=found.bad)


def stream(
    frame: DataFrame,
    schema: AnySchema,
    *,
    epsilon: float,
    state: str | Path,
    out: str | Path | Sink,
    every: int | str,
    delta: float = 0.0,
    mechanism: str = registry.AUTO,
    person: Person | None = None,
    expect: int | None = None,
    order: Sequence[str] | None = None,
    bad_rows: str | None = None,
    key: dict[str, Sequence[str]] | None = None,
    checkpoint: str | None = None,
    trigger: dict[str, Any] | None = None,
    seed: int | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Query:
    """Start a query that takes a streaming data frame, micro-batch by micro-batch, and publishes as it goes.

    Executors read, encode and count; this process owns the run, adds counts and noise, and publishes. The state is that
    of ``headwater run``, and keeps the number of each micro-batch in the same transaction as its counts: whatever Spark
    repeats, after a failure, a kill or a restart, is counted once, also if it is cut into other partitions.

    Parameters
    ----------
    frame
        A streaming data frame with the columns of the schema, and those of ``order``.
    schema
        What a record is.
    epsilon
        The privacy budget of the whole run.
    state
        The file that keeps the run, on a disk of the driver; with ``key`` a folder of such files.
    out
        Where releases go: a folder, or any sink. With ``key`` a folder of folders.
    every
        When to publish: a number of records, or a length of time such as ``"15min"``.
    delta
        As for `headwater.Synthesizer`.
    mechanism
        As for `headwater.Synthesizer`; not ``"paper"``.
    person
        As for `headwater.Synthesizer`: executors hash who a record belongs to, and the owner decides which records
        count. For that it needs every record, so what reaches the driver grows with records. Not with ``key``.
    expect
        As for `headwater.Synthesizer`; with ``key`` of each run.
    order
        Columns whose values say where a record stands in its source, the last of them a whole number: they decide the
        order of records inside a micro-batch, and must not depend on what records hold. Unless given: topic, partition
        and offset if the frame has them and the schema does not; else file and place in it, unless files are in
        partitions of a table; else partition and row of the frame. A plan that does more than read and choose columns
        is refused without them.
    bad_rows
        What happens to rows that are no records: ``"stop"``, ``"null"`` or ``"quarantine"``.
    key
        A column of texts with a public key and all its values, such as ``{"region": ["north", "south"]}``: one run for
        each of them, and each record in one of them, so that all of them together promise what one does for any change
        that keeps every record's key.
    checkpoint
        Where Spark keeps what it has read; ``state`` with ``.checkpoint`` behind it unless given.
    trigger
        Arguments of Spark's own ``trigger``, such as ``{"availableNow": True}``.
    seed
        For tests only: a seeded run protects nobody.
    clock
        The time in seconds; its start does not matter.
    """
    config = RunConfig(schema, epsilon, mechanism, seed, delta, person, expect)
    schedule = Schedule.parse(str(every))
    keys = Keys.of(key)
    if keys and person:
        raise ValueError(
            "key= and person= do not go together: a person may have records of several keys, each with its own ε"
        )
    placed = place(frame, schema, order, keys.column if keys else None, person)
    place_of = Path(state)
    if keys:
        if not isinstance(out, str | Path):
            raise TypeError("with key= releases go into a folder, so out must be a path")
        runs = KeyedRuns.open(keys, config, place_of, Path(out), schedule)
    else:
        sink = FolderSink(Path(out)) if isinstance(out, str | Path) else out
        runs = KeyedRuns({0: Run.open(config, sink, state=place_of, schedule=schedule)})
    config = replace(config, expect=runs.runs[0].synth.expect)  # a state goes on with what it was begun with
    try:
        for run in runs.runs.values():
            if person is None:
                run.synth.bucket(0)  # a mechanism that takes counts
        query = Query(runs, placed, config, bad_rows, clock)
        writer = placed.frame.writeStream.foreachBatch(query.take)
        writer = writer.option("checkpointLocation", checkpoint or f"{place_of}.checkpoint")
        query.query = (writer.trigger(**trigger) if trigger else writer).start()
        return query
    except BaseException:
        runs.close()
        raise


class Query:
    """A running query and the run that it feeds. Made by `stream`; stop it, or use it in a ``with`` block.

    Parameters
    ----------
    runs
        The runs of all keys.
    placed
        The streaming frame.
    config
        Of the runs.
    bad_rows
        As for `stream`.
    clock
        As for `stream`.

    Attributes
    ----------
    query
        Spark's own query: its progress, its status.
    """

    query: StreamingQuery

    def __init__(
        self,
        runs: KeyedRuns,
        placed: Placed,
        config: RunConfig,
        bad_rows: str | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runs, self._placed, self._config, self._clock = runs, placed, config, clock
        for run in runs.runs.values():
            self._policy = run.policy(bad_rows)
        self._error: Exception | None = None

    @property
    def run(self) -> Run:
        """The run; of a query with keys that of the first one."""
        return self._runs.runs[0]

    @property
    def runs(self) -> dict[str, Run]:
        """The runs of a query with keys, by key."""
        return self._runs.by_key()

    def take(self, frame: DataFrame, batch: int) -> None:
        """Take one micro-batch, unless that was done before, and publish what is due. Called by Spark.

        Parameters
        ----------
        frame
            The micro-batch.
        batch
            Its number, the same whenever Spark repeats it.
        """
        try:
            self._take(frame, batch)
        except Exception as error:
            self._error = error
            raise

    def _take(self, frame: DataFrame, batch: int) -> None:
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        open_ = {number: run for number, run in self._runs.runs.items() if not _taken(run, query, batch)}
        if open_:
            placed = self._placed.of(frame)
            times = {number: run.t for number, run in open_.items()}
            due = {number: run.next_due for number, run in open_.items()}
            found = count(placed, self._config, times, self._policy, self.run.synth.person_key, due)
            for number, run in open_.items():
                take(run, found[number], {POSITION: {"query": query, "batch": batch}})
        for run in self._runs.runs.values():
            run.publish_if_due(self._clock())

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the query has ended, and raise what ended it; False if the time was not enough.

        Parameters
        ----------
        timeout
            In seconds; for ever unless given.
        """
        try:
            ended = self.query.awaitTermination() if timeout is None else self.query.awaitTermination(timeout)
        except Exception:
            if self._error is not None:  # the same words as everywhere, without Spark's
                raise self._error from None
            raise
        return timeout is None or bool(ended)

    def stop(self) -> None:
        """Stop the query, publish the release of this moment, and release the state. May be called twice."""
        self.query.stop()
        if self._error is None:
            self._runs.publish()
        self._runs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()


def _taken(run: Run, query: str, batch: int) -> bool:
    """Whether a run has taken a micro-batch of this query."""
    kept = run.position(POSITION)
    if kept is None:
        return False
    if kept["query"] != query:
        raise OtherQueryError(
            "this state was fed by another query, whose checkpoint says what was read; start with that checkpoint, or "
            "with another state for a new run, which spends its own ε"
        )
    return bool(batch <= kept["batch"])


__all__ = ["PYSPARK", "OtherQueryError", "Query", "stream", "take", "update"]
