"""The commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli import audit, demo, evaluate, info, release, report, run, schema, serve, token
from headwater.version import __version__

app = typer.Typer(
    name="headwater",
    help="Synthetic data from a live stream, published again and again under one fixed privacy budget.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a traceback with local variables would print people's records
    rich_markup_mode=None,
)
for name, module in {
    "run": run,
    "release": release,
    "report": report,
    "info": info,
    "schema": schema,
    "evaluate": evaluate,
    "audit": audit,
    "serve": serve,
    "token": token,
    "demo": demo,
}.items():
    app.command(name)(module.command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headwater {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Synthetic data from a live stream, published again and again under one fixed privacy budget."""
