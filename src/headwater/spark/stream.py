"""Runs that are fed by Spark: micro-batches of a stream, or whole data frames."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from headwater.public.person import Person
from headwater.public.protocol import AUTO, AnySchema
from headwater.public.tally import policy_of
from headwater.run import FolderSink, Run, RunConfig, Schedule
from headwater.run.sink import Sink
from headwater.spark.count import count
from headwater.spark.frame import Placed, place
from headwater.synthesizer import Synthesizer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

POSITION = "spark"
"""The name under which a run keeps the last micro-batch that it has taken, and of which query."""
PYSPARK = "pyspark is not installed: pip install 'headwater[spark]'"
JAVA = (
    "no Java was found, which Spark needs: install a Java 17 runtime (Debian: apt install openjdk-17-jre-headless), "
    "or set JAVA_HOME to where one is"
)


def missing() -> str:
    """What Spark needs and this machine does not have, in a sentence; empty if there is all of it."""
    try:
        import pyspark  # noqa: F401 - asked for by name only
    except ImportError:
        return PYSPARK
    home = os.environ.get("JAVA_HOME")
    found = (Path(home) / "bin" / "java").exists() if home else shutil.which("java") is not None
    return "" if found else JAVA


def session(master: str = "local[*]", **settings: str) -> SparkSession:
    """A Spark session whose workers run the same Python as this process.

    Any session does; this one is for a first try and for tests.

    Parameters
    ----------
    master
        Where the cluster is, as Spark names it.
    settings
        Settings of Spark, with ``__`` for dots: ``spark__executor__memory="1g"``.
    """
    if problem := missing():
        raise ImportError(problem)
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("headwater")
    for name, value in settings.items():
        builder = builder.config(name.replace("__", "."), value)
    return builder.getOrCreate()


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
        What happens to invalid rows: ``"stop"`` or ``"null"``.
    position
        As for `Run.take`.
    """
    synth = target if isinstance(target, Synthesizer) else target.synth
    policy = _policy(bad_rows, synth.schema)
    promised = synth.epsilon, synth.mechanism, None, synth.budget.delta, synth.person
    config = RunConfig(synth.schema, *promised, synth.expect)
    placed = place(frame, synth.schema, order, synth.person)
    if isinstance(target, Run):
        target.policy(policy)
        return _take(target, placed, config, policy, position or {})
    if found := count(placed, config, target.t, policy, synth.person_key):
        target.take(found)
    return target.t


def _take(run: Run, placed: Placed, config: RunConfig, policy: str, position: dict[str, Any]) -> int:
    found = count(placed, config, run.t, policy, run.synth.person_key, run.next_due)
    if found is not None:
        return run.take(found, position=position)
    run.keep_position(position)
    return run.t


def _policy(bad_rows: str | None, schema: AnySchema) -> str:
    policy = policy_of(bad_rows, schema)
    if policy == "quarantine":
        raise ValueError('on Spark bad_rows is "stop" or "null": a quarantine is for runs that read records themselves')
    return policy


def stream(
    frame: DataFrame,
    schema: AnySchema,
    *,
    epsilon: float,
    state: str | Path,
    out: str | Path | Sink,
    every: int | str,
    delta: float = 0.0,
    mechanism: str = AUTO,
    person: Person | None = None,
    expect: int | None = None,
    order: Sequence[str] | None = None,
    bad_rows: str | None = None,
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
        The file that keeps the run, on a disk of the driver.
    out
        Where releases go: a folder, or any sink.
    every
        When to publish: a number of records, or a length of time such as ``"15min"``.
    delta
        As for `headwater.Synthesizer`.
    mechanism
        As for `headwater.Synthesizer`; not ``"paper"``.
    person
        As for `headwater.Synthesizer`: executors hash who a record belongs to, and the owner decides which records
        count. For that it needs every record, so what reaches the driver grows with records.
    expect
        As for `headwater.Synthesizer`.
    order
        Columns whose values say where a record stands in its source, the last of them a whole number: they decide the
        order of records inside a micro-batch, and must not depend on what records hold. Unless given: topic, partition
        and offset if the frame has them and the schema does not; else file and place in it, unless files are in
        partitions of a table; else partition and row of the frame. A plan that does more than read and choose columns
        is refused without them.
    bad_rows
        What happens to invalid rows: ``"stop"`` or ``"null"``.
    checkpoint
        Where Spark keeps what it has read; ``state`` with ``.checkpoint`` behind it unless given.
    trigger
        Arguments of Spark's own ``trigger``, such as ``{"availableNow": True}``.
    seed
        For tests only: a seeded run protects nobody.
    clock
        The time in seconds; its start does not matter.
    """
    policy, schedule = _policy(bad_rows, schema), Schedule.parse(str(every))
    placed, place_of = place(frame, schema, order, person), Path(state)
    sink = FolderSink(Path(out)) if isinstance(out, str | Path) else out
    config = RunConfig(schema, epsilon, mechanism, seed, delta, person, expect)
    run = Run.open(config, sink, state=place_of, schedule=schedule)
    try:
        if person is None:
            run.synth.bucket(0)  # a mechanism that takes counts
        # A state goes on with what it was begun with.
        query = Query(run, placed, replace(config, expect=run.synth.expect), run.policy(policy), clock)
        writer = placed.frame.writeStream.foreachBatch(query.take)
        writer = writer.option("checkpointLocation", checkpoint or f"{place_of}.checkpoint")
        query.query = (writer.trigger(**trigger) if trigger else writer).start()
        return query
    except BaseException:
        run.close()
        raise


class Query:
    """A running query and the run that it feeds. Made by `stream`; stop it, or use it in a ``with`` block.

    Parameters
    ----------
    run
        The run.
    placed, config, policy, clock
        As `stream` makes them.

    Attributes
    ----------
    query
        Spark's own query: its progress, its status.
    """

    run: Run
    query: StreamingQuery

    def __init__(self, run: Run, placed: Placed, config: RunConfig, policy: str, clock: Callable[[], float]) -> None:
        self.run = run
        self._placed, self._config, self._policy, self._clock = placed, config, policy, clock
        self._error: Exception | None = None

    def take(self, frame: DataFrame, batch: int) -> None:
        """Take one micro-batch, unless that was done before, and publish what is due.

        Called by Spark, with the same number whenever it repeats a micro-batch.
        """
        query, run = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"), self.run
        try:
            if not _taken(run, query, batch):
                placed = replace(self._placed, frame=frame)
                position = {POSITION: {"query": query, "batch": batch}}
                _take(run, placed, self._config, self._policy, position)
            run.publish_if_due(self._clock())
        except Exception as error:
            self._error = error
            raise

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
            self.run.publish()
        self.run.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()


def _taken(run: Run, query: str, batch: int) -> bool:
    kept = run.position(POSITION)
    if kept is None:
        return False
    if kept["query"] != query:
        raise OtherQueryError(
            "this state was fed by another query, whose checkpoint says what was read; start with that checkpoint, or "
            "with another state for a new run, which spends its own ε"
        )
    return bool(batch <= kept["batch"])
