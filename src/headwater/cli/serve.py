"""`headwater serve`: a service to write to and to read from, with a live page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from headwater.cli.console import say
from headwater.cli.exit_codes import reports_errors
from headwater.cli.options import INTEGER, NUMBER, RunOptions, takes_run_options
from headwater.public.schema import Schema
from headwater.run import Schedule
from headwater.run.config import limit


@reports_errors
@takes_run_options
def command(
    *,
    config: Annotated[
        Path | None, typer.Argument(metavar="[SERVICE.TOML]", help="One table for each run; or give --schema.")
    ] = None,
    schema: Annotated[Path | None, typer.Option(help="What the columns are, of a single run.")] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="The privacy budget of the whole run, for ever.", **NUMBER)
    ] = None,
    name: Annotated[str | None, typer.Option(help="Of the run. Default: the name of the schema file.")] = None,
    public: Annotated[bool, typer.Option("--public", help="Reading needs no token.")] = False,
    host: Annotated[str | None, typer.Option(help="The address to listen at. Default: 127.0.0.1.")] = None,
    port: Annotated[
        int | None, typer.Option(help="The port to listen at. Default: 8640; 0 for any.", **INTEGER)
    ] = None,
    tokens: Annotated[Path | None, typer.Option(help="The file that `headwater token` wrote.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No log line for requests that went well.")] = False,
    how: RunOptions,
) -> None:
    """Serve runs over HTTP: records are posted, releases are fetched, a page shows them as they grow.

    Without tokens it listens on this machine only. SIGTERM and Ctrl-C end it in order; a kill loses nothing either.

    Example: headwater serve --schema trips.toml --epsilon 1 --out releases --port 8640
    """
    if (config is None) == (schema is None):
        raise ValueError("give a service.toml, or --schema and --epsilon for a single run")
    person = how.declared_person()
    if config is not None and person is not None:
        raise ValueError("with a service.toml write the person into the table of its run: person = { column = … }")
    runs: Path | dict[str, dict[str, Any]] = config or {}
    if schema is not None:
        if epsilon is None:
            raise ValueError("give --epsilon, the privacy budget of the whole run")
        single = {
            "schema": Schema.load(schema),
            "epsilon": epsilon,
            "delta": how.delta,
            "out": how.out_,
            "schedule": Schedule.parse(how.every),
            "state": how.state,
            "mechanism": how.mechanism,
            "expect": how.expect,
            "format": how.format_,
            "rows": limit("--rows", how.rows),
            "keep": limit("--keep", how.keep),
            "bad_rows": how.bad_rows,
            "allow_copy": how.allow_copy,
            "public": public,
            "person": person,
        }
        runs = {name or schema.stem: single}
    start(runs, quiet=quiet, host=host, port=port, tokens=tokens)


def start(
    runs: Path | dict[str, dict[str, Any]],
    *,
    quiet: bool,
    started: Callable[[str], None] = lambda address: None,
    **changes: Any,  # noqa: ANN401 - fields of `ServiceConfig`
) -> None:
    """Serve the runs of a file, or the given ones, and call back with the address when requests are answered."""
    try:
        from headwater.service import RunSettings, ServiceConfig
        from headwater.service.server import serve
    except ModuleNotFoundError as error:
        raise ImportError(f"{error.name} is not installed: pip install 'headwater[serve]'") from None
    given = {key: value for key, value in changes.items() if value is not None}
    if isinstance(runs, Path):
        found = replace(ServiceConfig.load(runs), **given)
    else:
        found = ServiceConfig({name: RunSettings(**settings) for name, settings in runs.items()}, **given)

    def ready(address: str) -> None:
        for name in found.runs:
            say(f"{name}: {address}runs/{name}")
        started(address)

    serve(found, ready, quiet=quiet)
