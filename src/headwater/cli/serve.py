"""`headwater serve`: a service to write to and to read from, with a live page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from headwater.cli import people
from headwater.cli.console import say
from headwater.cli.exit_codes import reports_errors
from headwater.people import Person
from headwater.run import Schedule
from headwater.table.schema import Schema


@reports_errors
def command(
    *,
    config: Annotated[
        Path | None, typer.Argument(metavar="[SERVICE.TOML]", help="One table for each run; or give --schema.")
    ] = None,
    schema: Annotated[Path | None, typer.Option(help="What the columns are, of a single run.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The privacy budget of the whole run, for ever.")] = None,
    out_: Annotated[Path, typer.Option("--out", help="The folder that releases go to.")] = Path("releases"),
    every: Annotated[
        str, typer.Option(help="Publish after so many records (10000) or so much time (30s, 15min, 1h).")
    ] = "10000",
    state: Annotated[
        Path | None,
        typer.Option(help="The file that keeps the run. Secret. Default: the name of --out plus .state."),
    ] = None,
    mechanism: Annotated[str, typer.Option(help="auto, cascade, marginals or paper.")] = "auto",
    person: people.Column = None,
    records_per_person: people.Records = None,
    person_period: people.Period = None,
    null_person: people.Null = "refuse",
    records_per_bucket: people.PerBucket = None,
    name: Annotated[str | None, typer.Option(help="Of the run. Default: the name of the schema file.")] = None,
    public: Annotated[bool, typer.Option("--public", help="Reading needs no token.")] = False,
    host: Annotated[str | None, typer.Option(help="The address to listen at. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="The port to listen at. Default: 8640; 0 for any.")] = None,
    tokens: Annotated[Path | None, typer.Option(help="The file that `headwater token` wrote.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No log line for requests that went well.")] = False,
) -> None:
    """Serve runs over HTTP: records are posted, releases are fetched, a page shows them as they grow.

    Without tokens it listens on this machine only. SIGTERM and Ctrl-C end it in order; a kill loses nothing either.

    Example: headwater serve --schema trips.toml --epsilon 1 --out releases --port 8640
    """
    whose = people.person_of(person, records_per_person, person_period, null_person, records_per_bucket)
    start(
        config=config,
        single=None if schema is None else (schema, epsilon, out_, every, state, mechanism, name, public),
        person=whose,
        changes={"host": host, "port": port, "tokens": tokens},
        quiet=quiet,
    )


def start(
    *,
    config: Path | None,
    single: tuple[Path, float | None, Path, str, Path | None, str, str | None, bool] | None,
    changes: dict[str, Any],
    quiet: bool,
    person: Person | None = None,
    started: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve until the end, and call back with the address when requests are answered."""
    try:
        from headwater.service import RunSettings, ServiceConfig, logs
        from headwater.service.server import serve
    except ModuleNotFoundError as error:
        raise ImportError(f"{error.name} is not installed: pip install 'headwater[serve]'") from None
    if (config is None) == (single is None):
        raise ValueError("give a service.toml, or --schema and --epsilon for a single run")
    if config is not None and person is not None:
        raise ValueError("with a service.toml write the person into the table of its run: person = { column = … }")
    given = {key: value for key, value in changes.items() if value is not None}
    if config is not None:
        found = replace(ServiceConfig.load(config), **given)
    elif single is not None:
        schema, epsilon, out_, every, state, mechanism, name, public = single
        if epsilon is None:
            raise ValueError("give --epsilon, the privacy budget of the whole run")
        how: dict[str, Any] = {"state": state, "public": public, "person": person}
        run = RunSettings(Schema.load(schema), epsilon, out_, mechanism, Schedule.parse(every), **how)
        found = ServiceConfig({name or schema.stem: run}, **given)
    logs.quiet = quiet

    def ready(address: str) -> None:
        for run_name in found.runs:
            say(f"{run_name}: {address}runs/{run_name}")
        started(address)

    serve(found, ready)
