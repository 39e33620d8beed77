"""`headwater serve`: a service to write to and to read from, with a live page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from headwater.cli import options
from headwater.cli.console import say
from headwater.cli.exit_codes import reports_errors
from headwater.public.schema import Schema
from headwater.run import Schedule
from headwater.run.config import KEEP, ROWS, limit


@reports_errors
def command(
    *,
    config: Annotated[
        Path | None, typer.Argument(metavar="[SERVICE.TOML]", help="One table for each run; or give --schema.")
    ] = None,
    schema: Annotated[Path | None, typer.Option(help="What the columns are, of a single run.")] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="The privacy budget of the whole run, for ever.", **options.NUMBER)
    ] = None,
    delta: options.Delta = 0.0,
    out_: options.Out = Path("releases"),
    every: options.Every = "10000",
    state: options.State = None,
    mechanism: options.Mechanism = "auto",
    expect: options.Expect = None,
    person: options.PersonColumn = None,
    records_per_person: options.PersonRecords = None,
    person_period: options.PersonPeriod = None,
    null_person: options.NullPerson = "refuse",
    records_per_bucket: options.PersonBucket = None,
    name: Annotated[str | None, typer.Option(help="Of the run. Default: the name of the schema file.")] = None,
    format_: options.Format = "parquet",
    rows: options.Rows = str(ROWS),
    keep: options.Keep = str(KEEP),
    bad_rows: options.BadRows = None,
    allow_copy: options.AllowCopy = False,
    public: Annotated[bool, typer.Option("--public", help="Reading needs no token.")] = False,
    host: Annotated[str | None, typer.Option(help="The address to listen at. Default: 127.0.0.1.")] = None,
    port: Annotated[
        int | None, typer.Option(help="The port to listen at. Default: 8640; 0 for any.", **options.INTEGER)
    ] = None,
    tokens: Annotated[Path | None, typer.Option(help="The file that `headwater token` wrote.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No log line for requests that went well.")] = False,
) -> None:
    """Serve runs over HTTP: records are posted, releases are fetched, a page shows them as they grow.

    Without tokens it listens on this machine only. SIGTERM and Ctrl-C end it in order; a kill loses nothing either.

    Example: headwater serve --schema trips.toml --epsilon 1 --out releases --port 8640
    """
    single = {
        "epsilon": epsilon,
        "delta": delta,
        "out": out_,
        "schedule": Schedule.parse(every),
        "state": state,
        "mechanism": mechanism,
        "expect": expect,
        "format": format_,
        "rows": limit("--rows", rows),
        "keep": limit("--keep", keep),
        "bad_rows": bad_rows,
        "allow_copy": allow_copy,
        "public": public,
        "person": options.person_of(person, records_per_person, person_period, null_person, records_per_bucket),
    }
    changes = {"host": host, "port": port, "tokens": tokens}
    start(config=config, schema=schema, name=name, single=single, changes=changes, quiet=quiet)


def start(
    *,
    config: Path | None = None,
    schema: Path | None = None,
    name: str | None = None,
    single: dict[str, Any],
    changes: dict[str, Any],
    quiet: bool,
    started: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve the runs of a file, or a single one, and call back with the address when requests are answered."""
    try:
        from headwater.service import RunSettings, ServiceConfig
        from headwater.service.server import serve
    except ModuleNotFoundError as error:
        raise ImportError(f"{error.name} is not installed: pip install 'headwater[serve]'") from None
    given = {key: value for key, value in changes.items() if value is not None}
    if config is not None and schema is None:
        if single.get("person") is not None:
            raise ValueError("with a service.toml write the person into the table of its run: person = { column = … }")
        found = replace(ServiceConfig.load(config), **given)
    elif schema is not None and config is None:
        if single["epsilon"] is None:
            raise ValueError("give --epsilon, the privacy budget of the whole run")
        run = RunSettings(schema=Schema.load(schema), **single)
        found = ServiceConfig({name or schema.stem: run}, **given)
    else:
        raise ValueError("give a service.toml, or --schema and --epsilon for a single run")

    def ready(address: str) -> None:
        for run_name in found.runs:
            say(f"{run_name}: {address}runs/{run_name}")
        started(address)

    serve(found, ready, quiet=quiet)
