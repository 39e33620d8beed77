"""`headwater release`: publish the release of this moment, or a window, from a state."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.console import say
from headwater.cli.exit_codes import reports_errors
from headwater.cli.options import INTEGER, AllowCopy, Out
from headwater.public.files import write_whole
from headwater.public.folder import read_card
from headwater.run import FolderSink, Published, Run
from headwater.run.config import limit
from headwater.run.lock import StateInUseError
from headwater.run.measured import Moment, measured_beside
from headwater.run.state import is_state
from headwater.synthesizer import Synthesizer


@reports_errors
def command(
    state: Annotated[Path, typer.Argument(help="The state of a run, stopped or under way.")],
    out_: Out = Path("releases"),
    last: Annotated[
        int | None,
        typer.Option(help="Only about the last so many records, and those before them in their bucket.", **INTEGER),
    ] = None,
    since: Annotated[
        int | None, typer.Option(help="Only about the records after the first so many, as --last.", **INTEGER)
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="Of the table: parquet or csv.")] = "parquet",
    rows: Annotated[str, typer.Option(help="Publish a sample of at most so many rows, or all.")] = "all",
    allow_copy: AllowCopy = False,
) -> None:
    """Publish what a run has learned so far, at no further cost in ε: all of it, or a window of time.

    If the run has stopped, what the release needs is measured now, and kept before the release can be seen. If it is
    under way, the release is of the last moment that it has kept.

    Example: headwater release releases.state --out windows --last 50000
    """
    sink = FolderSink(out_, format_, rows=limit("--rows", rows))
    published = _published(state, sink, last, since, allow_copy)
    if not (Path(published.place) / f"data.{format_}").exists():  # what was published stays as it is
        raise ValueError(
            f"{published.place}: this release was published before, in another format or so long ago that its table "
            "was removed; give another --out for this one"
        )
    say(str(published))
    start, end = read_card(Path(published.place))["span"]
    wanted = last or (end - since if since is not None else end - start)
    if end - start > 1.1 * wanted:
        say(
            f"that is {end - start:,} records, not {wanted:,}: a window begins where a bucket of the run did, and no "
            "later one reaches back as far as was asked"
        )


def _published(state: Path, sink: FolderSink, last: int | None, since: int | None, allow_copy: bool) -> Published:
    """Publish from a state: of a run, or one that `Synthesizer.save` wrote."""
    if state.is_file() and not is_state(state):
        return _from_file(state, sink, last, since)
    try:
        with Run.resume(state, sink, allow_copy=allow_copy) as run:
            _refuse_empty(state, run.t)
            return run.publish_to(sink, last=last, since=since)
    except StateInUseError:
        moment = Moment.read(measured_beside(state))
        sink.begin(moment.run_id)
        release = moment.release(last=last, since=since)
        say(f"a run uses this state: this is the last moment that it has kept, of {moment.t:,} records")
        return sink.there(release, moment.run_id) or sink.publish(release, moment.run_id)


def _from_file(path: Path, sink: FolderSink, last: int | None, since: int | None) -> Published:
    """What the release measures is written back first. A newer state that its owner saves meanwhile stays."""
    read, synth = path.stat(), Synthesizer.load(path)
    _refuse_empty(path, synth.t)
    sink.begin(synth.run_id)
    make = synth.begin_release(last=last, since=since)
    write_whole(path, [synth.to_bytes()], mode=0o600, read=read)
    return sink.publish(make(), synth.run_id)


def _refuse_empty(state: Path, t: int) -> None:
    if t == 0:
        raise ValueError(f"{state}: no record has come yet, so there is nothing to publish")
