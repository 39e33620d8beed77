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

from headwater.cli.console import complain, say
from headwater.cli.display import Display, ShownSink
from headwater.cli.exit_codes import Exit, reports_errors
from headwater.cli.options import INTEGER, NUMBER, RECORDS, RunOptions, takes_run_options
from headwater.public.budget import warn_of_delta
from headwater.public.outlook import outlook
from headwater.public.schema import InputSchema, Schema
from headwater.public.tables import pyarrow
from headwater.public.tally import policy_of
from headwater.run import Run, RunConfig, Schedule, feed, spent
from headwater.run.config import limit
from headwater.run.feed import MEASURE_EVERY
from headwater.run.lock import StateInUseError, StoreError
from headwater.run.state import state_beside
from headwater.secret.read.source import Source, open_source

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE = 5.0  # seconds until a state that is in use is refused


@reports_errors
@takes_run_options
def command(
    *,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT", help="Files or folders, oldest records first; - is standard input."),
    ] = None,
    schema: Annotated[Path, typer.Option(help="What the columns are: a TOML or JSON file.")],
    epsilon: Annotated[float, typer.Option(help="The privacy budget of the whole run, for ever.", **NUMBER)],
    no_state: Annotated[bool, typer.Option("--no-state", help="Keep nothing: the run cannot be continued.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep reading what is added to the last file or folder.")
    ] = False,
    window: Annotated[
        list[int] | None,
        typer.Option(help="Also publish so many of the last records, in a subfolder. Repeatable.", **RECORDS),
    ] = None,
    measure_every: Annotated[
        float, typer.Option(help="Seconds between moments that other processes can see.", **NUMBER)
    ] = MEASURE_EVERY,
    stdin_continues: Annotated[
        bool,
        typer.Option("--stdin-continues", help="When a run is continued: standard input starts with new records."),
    ] = False,
    kafka: Annotated[str | None, typer.Option(help="HOST:PORT of brokers: read a topic instead of files.")] = None,
    topic: Annotated[str | None, typer.Option(help="The topic to read, with --kafka.")] = None,
    topic_format: Annotated[str, typer.Option(help="Of the values of a topic: json or csv.")] = "json",
    again: Annotated[
        bool, typer.Option("--again", help="Begin although earlier runs have spent ε on this input: the costs add up.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="For tests only: a seeded run protects nobody.", **INTEGER)] = None,
    how: RunOptions,
) -> None:
    """Read records in order of time and publish synthetic tables, again and again, under one ε.

    Give the same command again after any interruption, and the run goes on where it was. How files are written
    (delimiter, encoding, decimal comma, dates) is declared in the schema file, as `headwater schema` drafts it.

    Example: headwater run trips.csv --schema trips.toml --epsilon 1 --out releases --every 10000
    """
    if (kafka is None) == (not inputs) or (kafka is None) != (topic is None):
        raise ValueError("give files to read, or --kafka and --topic")
    if topic_format not in ("json", "csv"):
        raise ValueError(f"the values of a topic are json or csv, not {topic_format!r}")
    kept = None if no_state else how.state or state_beside(how.out_)
    Thread(target=_import_ahead, args=(how.format_,), name="headwater-import").start()
    with _interruptible() as stop, Display(endless=follow or kafka is not None) as display:
        try:
            whose, known = how.declared_person(), Schema.load(schema)
            config = RunConfig(known, epsilon, how.mechanism, seed, how.delta, whose, how.expect)
            policy = policy_of(how.bad_rows, config.schema)
            if policy == "quarantine" and kept is None:
                raise ValueError("--bad-rows quarantine needs a state: leave out --no-state, or use --bad-rows null")
            if how.expect is not None:
                _look_ahead(config, how.expect)
            limits = {"rows": limit("--rows", how.rows), "keep": limit("--keep", how.keep)}
            sink = ShownSink(display, how.out_, how.format_, **limits)
            windows = {n: ShownSink(display, how.out_ / f"last-{n}", how.format_, **limits) for n in window or ()}
            opened: dict[str, Any] = {"state": kept, "schedule": Schedule.parse(how.every), "windows": windows}
            with _opened(config, sink, allow_copy=how.allow_copy, **opened) as run:
                display.start(run)
                try:
                    if kafka is not None and topic is not None:
                        from headwater import kafka as topics

                        extra = known.reading.get("ignore_extra", False)
                        with topics.Topic(kafka, topic, run.position(topics.POSITION)) as messages:
                            reading: dict[str, Any] = {"bad_rows": policy, "ignore_extra": extra}
                            topics.feed(run, messages, topic_format, **reading, progress=display.update)
                    else:
                        written: dict[str, Any] = {
                            "stdin_continues": stdin_continues,
                            "follow": follow,
                            "bad_rows": policy,
                            "batch_rows": 1 << 17,  # fewer, larger commits; an idle input ends a batch earlier
                        }
                        records = known if whose is None else InputSchema(known, whose.column)
                        shown: dict[str, Any] = {"measure_every": measure_every, "progress": display.update}
                        with (
                            open_source(inputs or [], records, run.position("input"), **written) as source,
                            spent.noted(run, lambda earlier: _confirm(run, earlier, again, display), _warn) as first,
                        ):
                            stop.source = source
                            feed(run, source, bad_rows=policy, first=None if seed is not None else first, **shown)
                finally:
                    with suppress(StoreError):  # then nothing more can be known
                        display.update()
        except KeyboardInterrupt:
            stop.at_once = True
    display.summarize(how.out_, kept, stopped=stop.stopped, left=stop.left)
    if stop.stopped and not follow and kafka is None:
        raise typer.Exit(int(Exit.INTERRUPTED))


def _warn(text: str) -> None:
    complain(text, "yellow", "warning:")


def _confirm(run: Run, earlier: list[spent.Spent], again: bool, display: Display) -> None:
    """Say what earlier runs have spent on the same records, and ask whether to go on."""
    runs = f"{len(earlier)} earlier run" + "s" * (len(earlier) > 1)
    said = (
        f"{runs} began with the same records and spent {spent.cost(earlier)} on them (the last at {earlier[-1].at}, "
        f"into {earlier[-1].out}); with this one {spent.cost([*earlier, run.guarantee])} are spent on them in all"
    )
    if again:
        _warn(said)
    elif not display.asks(said):
        raise ValueError(f"{said}. Go on with an earlier run (its --out and --state), or begin this one with --again")


def _look_ahead(config: RunConfig, expect: int) -> None:
    """Say what errors to expect of so many records."""
    if expect < 1:
        raise ValueError(f"--expect must be a whole number of records from 1 on, not {expect}")
    warn_of_delta(config.delta, expect, 1)
    each: dict[str, Any] = {"delta": config.delta, "mechanism": config.mechanism}
    if config.person:
        each |= {"records_per_person": config.person.records, "records_per_bucket": config.person.per_bucket}
    likely = outlook(config.schema, epsilon=config.epsilon, records=expect, expect=expect, **each)
    if likely.poor:
        _warn(str(likely))
    else:
        say(str(likely))


def _import_ahead(format_: str) -> None:
    """Import what reading and writing will need, while a state is created and the disk is waited for."""
    for part in ("compute", "csv", "parquet")[: 3 if format_ == "parquet" else 2]:
        with suppress(ImportError):  # raised again where it is needed
            pyarrow(part)


def _opened(config: RunConfig, sink: ShownSink, **options: Any) -> Run:  # noqa: ANN401 - those of `Run.open`
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

    What was read from a pipe is kept by nobody else, so it is taken first; a second signal stops that too.
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
