"""`headwater run`: from a stream of files to a stream of releases."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from headwater.cli.display import Display
from headwater.cli.outcome import Exit, told
from headwater.pipeline import Every, run
from headwater.table.schema import Schema


@told
def command(
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="INPUT...", help="Files or folders, oldest records first; - is standard input."),
    ],
    schema: Annotated[Path, typer.Option(help="What the columns are: a TOML or JSON file.")],
    epsilon: Annotated[float, typer.Option(help="The privacy budget of the whole run, for ever.")],
    out_: Annotated[Path, typer.Option("--out", help="The folder that releases go to.")] = Path("releases"),
    every: Annotated[
        str, typer.Option(help="Publish after so many records (10000) or so much time (30s, 15min, 1h).")
    ] = "10000",
    state: Annotated[
        Path | None, typer.Option(help="What is needed to go on. Secret. Default: the name of --out plus .state.")
    ] = None,
    no_state: Annotated[bool, typer.Option("--no-state", help="Keep nothing: the run cannot be continued.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep reading what is added to the last file or folder.")
    ] = False,
    mechanism: Annotated[str, typer.Option(help="cascade, or paper.")] = "cascade",
    format_: Annotated[str, typer.Option("--format", help="Of releases: parquet or csv.")] = "parquet",
    input_format: Annotated[
        str | None, typer.Option(help="Of the input, if its name does not say: csv, jsonl, parquet or arrow.")
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="Between the fields of CSV input: a comma unless given.")
    ] = None,
    ignore_extra: Annotated[
        bool, typer.Option("--ignore-extra", help="Leave out columns that the schema does not name.")
    ] = False,
    stdin_continues: Annotated[
        bool,
        typer.Option(
            "--stdin-continues", help="When going on: standard input begins with the next record, without a header."
        ),
    ] = False,
    allow_copy: Annotated[
        bool, typer.Option("--allow-copy", help="Go on from a copy or a backup of a state. No other run may.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="For tests only: a seeded run protects nobody.")] = None,
) -> None:
    """Read records in order of time and publish synthetic tables, again and again, under one ε.

    Give the same command again after any interruption, and the run goes on where it was.

    Example: headwater run trips.csv --schema trips.toml --epsilon 1 --out releases --every 10000
    """
    whole = out_.resolve() if out_.name in ("", "..") else out_
    kept = None if no_state else state or whole.with_name(whole.name + ".state")
    stopped = False

    def stop(number: int, frame: FrameType | None) -> None:
        for other in before:
            signal.signal(other, signal.SIG_IGN)  # once is enough: what is under way is brought to its end
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    with Display() as display:
        try:
            for progress in run(
                inputs, Schema.load(schema), epsilon=epsilon, out=out_, every=Every.parse(every), state=kept,
                mechanism=mechanism, release_format=format_, follow=follow, seed=seed, allow_copy=allow_copy,
                begun=display.begun, format=input_format, delimiter=delimiter, ignore_extra=ignore_extra,
                stdin_continues=stdin_continues,
            ):  # fmt: skip
                display.show(progress)
        except KeyboardInterrupt:
            stopped = True
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    display.close(out_, kept, stopped=stopped)
    if stopped and not follow:
        raise typer.Exit(int(Exit.INTERRUPTED))
