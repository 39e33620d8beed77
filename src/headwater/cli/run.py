"""`headwater run`: from a stream of files to a stream of releases."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Annotated, Any

import typer

from headwater.cli import people, publishing, reading
from headwater.cli.display import Display, ShownSink
from headwater.cli.exit_codes import Exit, reports_errors
from headwater.cli.numbers import INTEGER, NUMBER, integer
from headwater.public.arrow import pyarrow
from headwater.public.bad_rows import policy_of
from headwater.public.budget import warn_of_delta
from headwater.public.input_schema import InputSchema
from headwater.public.outlook import outlook
from headwater.public.schema import Schema
from headwater.run import Run, RunConfig, Schedule, feed
from headwater.run.limits import KEEP, ROWS, limit
from headwater.run.opening import state_beside
from headwater.run.store import StateInUseError, StoreError
from headwater.secret.read.source import Source, open_source

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE = 5.0  # seconds until a state that is in use is refused


@reports_errors
def command(
    *,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT", help="Files or folders, oldest records first; - is standard input."),
    ] = None,
    schema: Annotated[Path, typer.Option(help="What the columns are: a TOML or JSON file.")],
    epsilon: Annotated[float, typer.Option(help="The privacy budget of the whole run, for ever.", **NUMBER)],
    delta: publishing.Delta = 0.0,
    out_: publishing.Out = Path("releases"),
    every: publishing.Every = "10000",
    state: publishing.State = None,
    no_state: Annotated[bool, typer.Option("--no-state", help="Keep nothing: the run cannot be continued.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep reading what is added to the last file or folder.")
    ] = False,
    mechanism: publishing.Mechanism = "auto",
    format_: publishing.Format = "parquet",
    rows: publishing.Rows = str(ROWS),
    keep: publishing.Keep = str(KEEP),
    window: Annotated[
        list[int] | None,
        typer.Option(
            parser=integer,
            metavar="LAST",
            help="Also publish the last so many records, in a subfolder of --out. May be repeated.",
        ),
    ] = None,
    input_format: reading.InputFormat = None,
    delimiter: reading.Delimiter = None,
    ignore_extra: reading.IgnoreExtra = False,
    bad_rows: publishing.BadRows = None,
    encoding: reading.Encoding = None,
    stdin_continues: Annotated[
        bool,
        typer.Option("--stdin-continues", help="When a run is continued: standard input starts with new records."),
    ] = False,
    allow_copy: publishing.AllowCopy = False,
    expect: publishing.Expect = None,
    kafka: Annotated[str | None, typer.Option(help="HOST:PORT of brokers: read a topic instead of files.")] = None,
    topic: Annotated[str | None, typer.Option(help="The topic to read, with --kafka.")] = None,
    topic_format: Annotated[str, typer.Option(help="Of the values of a topic: json or csv.")] = "json",
    person: people.Column = None,
    records_per_person: people.Records = None,
    person_period: people.Period = None,
    null_person: people.Null = "refuse",
    records_per_bucket: people.PerBucket = None,
    seed: Annotated[int | None, typer.Option(help="For tests only: a seeded run protects nobody.", **INTEGER)] = None,
) -> None:
    """Read records in order of time and publish synthetic tables, again and again, under one ε.

    Give the same command again after any interruption, and the run goes on where it was.

    Example: headwater run trips.csv --schema trips.toml --epsilon 1 --out releases --every 10000
    """
    if (kafka is None) == (not inputs) or (kafka is None) != (topic is None):
        raise ValueError("give files to read, or --kafka and --topic")
    if topic_format not in ("json", "csv"):
        raise ValueError(f"the values of a topic are json or csv, not {topic_format!r}")
    if kafka is not None and any((input_format, delimiter, encoding)):
        raise ValueError("how values of a topic are written is said in the schema: options about it are for files")
    kept = None if no_state else state or state_beside(out_)
    how: dict[str, Any] = {
        **reading.options(input_format, delimiter, ignore_extra, encoding),
        "stdin_continues": stdin_continues,
        "follow": follow,
        "batch_rows": 1 << 17,  # fewer, larger commits; an idle input ends a batch earlier
    }
    Thread(target=_import_ahead, args=(format_,), name="headwater-import").start()
    with _interruptible() as stop, Display(endless=follow or kafka is not None) as display:
        try:
            whose = people.person_of(person, records_per_person, person_period, null_person, records_per_bucket)
            known = Schema.load(schema)
            records = known if whose is None else InputSchema(known, whose.column)
            config = RunConfig(known, epsilon, mechanism, seed, delta, whose, expect)
            policy = policy_of(bad_rows, config.schema)
            if policy == "quarantine" and kept is None:
                raise ValueError("--bad-rows quarantine needs a state: leave out --no-state, or use --bad-rows null")
            how["bad_rows"] = policy
            if expect is not None:
                if expect < 1:
                    raise ValueError(f"--expect must be a whole number of records from 1 on, not {expect}")
                warn_of_delta(delta, expect, 1)
                each: dict[str, Any] = {"delta": delta}
                if whose:
                    each |= {"records_per_person": whose.records, "records_per_bucket": whose.per_bucket}
                display.expect(
                    outlook(config.schema, epsilon=epsilon, records=expect, expect=expect, mechanism=mechanism, **each)
                )
            limits = {"rows": limit("--rows", rows), "keep": limit("--keep", keep)}
            sink = ShownSink(display, out_, format_, **limits)
            windows = {n: ShownSink(display, out_ / f"last-{n}", format_, **limits) for n in window or ()}
            options: dict[str, Any] = {"state": kept, "schedule": Schedule.parse(every), "allow_copy": allow_copy}
            options["windows"] = windows
            with _opened(config, sink, options) as run:
                display.start(run)
                try:
                    if kafka is not None and topic is not None:
                        from headwater import kafka as topics

                        with topics.Topic(kafka, topic, run.position(topics.POSITION)) as messages:
                            extra: dict[str, Any] = {"bad_rows": policy, "ignore_extra": ignore_extra}
                            topics.feed(run, messages, topic_format, **extra, progress=display.update)
                    else:
                        with open_source(inputs or [], records, run.position("input"), **how) as source:
                            stop.source = source
                            feed(run, source, bad_rows=policy, progress=display.update)
                finally:
                    with suppress(StoreError):  # then nothing more can be known
                        display.update()
        except KeyboardInterrupt:
            stop.at_once = True
    display.summarize(out_, kept, stopped=stop.stopped, left=stop.left)
    if stop.stopped and not follow and kafka is None:
        raise typer.Exit(int(Exit.INTERRUPTED))


def _import_ahead(format_: str) -> None:
    """Import what reading and writing will need, while a state is created and the disk is waited for."""
    for part in ("compute", "csv", "parquet")[: 3 if format_ == "parquet" else 2]:
        with suppress(ImportError):  # raised again where it is needed
            pyarrow(part)


def _opened(config: RunConfig, sink: ShownSink, options: dict[str, Any]) -> Run:
    """The run, as soon as its state is free: a command that looks into a stopped run has it for a moment."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return Run.open(config, sink, **options)
        except StateInUseError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


class _Stop:
    """What Ctrl-C and SIGTERM do: they stop the run once; while it is being closed, further ones are ignored.

    What was read from a pipe is nowhere else, so it is taken first; a second signal stops that too.
    """

    def __init__(self) -> None:
        self.source: Source | None = None
        self.at_once = False

    @property
    def stopped(self) -> bool:
        return self.at_once or (self.source is not None and self.source.stopped)

    @property
    def left(self) -> str:
        """What was read from a pipe and is not counted, in words."""
        if not self.stopped or self.source is None or not self.source.piped:
            return ""
        if self.at_once:
            return "stopped at once: records that were read from the pipe and not counted yet are in no state"
        torn = f"; {size:,} bytes of one that had not ended are not" if (size := self.source.unfinished) else ""
        return (
            f"every complete record that was read from the pipe is counted{torn}. If the pipe goes on with new records "
            "(--stdin-continues), it must begin with a whole one, the first that is not counted"
        )

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.source is not None and self.source.piped and not self.source.stopped:
            self.source.stop()
            return
        for other in _SIGNALS:
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt


@contextmanager
def _interruptible() -> Iterator[_Stop]:
    stop = _Stop()
    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
