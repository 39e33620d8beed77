"""The commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater import __version__
from headwater.cli import audit, demo, evaluate, info, release, report, run, schema, serve, token

app = typer.Typer(
    name="headwater",
    help="Synthetic data from a live stream, published again and again under one fixed privacy budget.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a traceback with local variables would print people's records
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _module, _summary in (  # a summary fits on a line of the list of commands
    (run, "Publish synthetic tables from a stream of records."),
    (serve, "Take records over HTTP, and show releases live."),
    (token, "Make a token for a service, or revoke one."),
    (release, "Publish once more from a state: all, or a window."),
    (report, "Draw how the releases of a run grew, on one page."),
    (info, "Say what a release, a state or a schema is."),
    (schema, "Draft a schema from the columns of a file."),
    (evaluate, "Compare a synthetic table with the real one."),
    (audit, "Attack the guarantee with made-up streams."),
    (demo, "Run on a year of public flights, and draw the result."),
):
    app.command(_module.__name__.rpartition(".")[2], short_help=_summary)(_module.command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headwater {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version, and exit.")
    ] = False,
) -> None:
    """Synthetic data from a live stream, published again and again under one fixed privacy budget."""
