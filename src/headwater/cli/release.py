"""`headwater release`: publish the release of this moment, or a window, from a state."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.outcome import say, told
from headwater.pipeline import opened
from headwater.release.folder import publish, refuse_others


@told
def command(
    state: Annotated[Path, typer.Argument(help="The state of a run that has stopped.")],
    out_: Annotated[Path, typer.Option("--out", help="The folder that the release goes to.")] = Path("releases"),
    last: Annotated[int | None, typer.Option(help="Only about the last so many records.")] = None,
    since: Annotated[int | None, typer.Option(help="Only about the records after the first so many.")] = None,
    format_: Annotated[str, typer.Option("--format", help="parquet or csv.")] = "parquet",
) -> None:
    """Publish what a run has learned so far, at no further cost in ε: all of it, or a window of time.

    Example: headwater release releases.state --out windows --last 50000
    """
    with opened(state) as synth:
        if synth.t == 0:
            raise ValueError(f"{state}: no record has come yet, so there is nothing to publish")
        release = synth.release(last=last, since=since)
        refuse_others(out_, synth.run_id)
        place = publish(release, out_, run=synth.run_id, format=format_)
    if not (place / f"data.{format_}").exists():  # what was published stays as it is
        raise ValueError(
            f"{place}: this release was published before in another format; give another --out for this one"
        )
    first, end = release.span
    say(f"{place}: records {first + 1:,} to {end:,}, {release.expected_error()}")
