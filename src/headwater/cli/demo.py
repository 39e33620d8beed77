"""`headwater demo`: the real thing on the bundled flights."""

from __future__ import annotations

import threading
import time
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli import report, run, serve
from headwater.cli.console import say
from headwater.cli.exit_codes import reports_errors
from headwater.cli.options import INTEGER, NUMBER
from headwater.public.schema import Schema
from headwater.run import Schedule
from headwater.secret.read.source import open_source

_NAME = "Flights from New York City, 2013"
_FLIGHTS = 336_776  # so many flights left: published, and so known without looking at any of them
_FILES = ("flights.csv.gz", "flights.toml", "README.md")
_BATCH, _PAUSE = 250, 0.5  # records, seconds: a year of flights in about ten minutes


@reports_errors
def command(
    folder: Annotated[Path, typer.Option("--out", help="Where to put everything.")] = Path("headwater-demo"),
    epsilon: Annotated[float, typer.Option(help="The privacy budget.", **NUMBER)] = 1.0,
    live: Annotated[bool, typer.Option("--live", help="Serve the flights live, and feed them, until Ctrl-C.")] = False,
    port: Annotated[int, typer.Option(help="Of the live service; 0 for any that is free.", **INTEGER)] = 8640,
) -> None:
    """Run on all flights that left New York City in 2013, in order of time, and draw what came out.

    These flights are public, so the page may show them next to the synthetic ones. It takes less than a minute.

    Example: headwater demo --out headwater-demo
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in _FILES:
        (folder / name).write_bytes(resources.files("headwater").joinpath("data", name).read_bytes())
    names = ("flights.csv.gz", "flights.toml", "releases", "report.html")
    data, schema, releases, page = (folder / name for name in names)
    if live:
        _serve(data, schema, releases, epsilon, port)
        return
    how = f"--again --epsilon {epsilon:g} --out {releases} --every 20000 --expect {_FLIGHTS}"
    say(f"\n$ headwater run {data} --schema {schema} {how}\n")
    records = {"inputs": [str(data)], "again": True}  # public ones: no ε is spent on anybody
    run.command(**records, schema=schema, epsilon=epsilon, out_=releases, every="20000", expect=_FLIGHTS)
    say(f'\n$ headwater report {releases} --out {page} --against {data} --public --name "{_NAME}"\n')
    report.command(releases, out_=page, against=[str(data)], public=True, name=_NAME)
    say(f"\nlook at {page.resolve()} in a browser", style="bold")


def _serve(data: Path, schema: Path, out: Path, epsilon: float, port: int) -> None:
    say(f"\n$ headwater serve --schema {schema} --epsilon {epsilon:g} --out {out} --every 2000 --port {port} --quiet\n")

    def feed(address: str) -> None:
        page = f"{address}runs/{schema.stem}"
        threading.Thread(target=_feed, args=(data, schema, page), daemon=True).start()
        say(f"\nlook at {page} in a browser; flights are being posted; Ctrl-C ends it", style="bold")

    single = {"schema": Schema.load(schema), "epsilon": epsilon, "out": out, "schedule": Schedule(records=2000)}
    serve.start({schema.stem: single}, quiet=True, started=feed, port=port)


def _feed(data: Path, schema: Path, address: str) -> None:
    from headwater.client import Client

    with Client(address) as client, open_source([data], Schema.load(schema), batch_rows=_BATCH) as source:
        skip = int(client.status()["t"])
        for batch in source:
            if batch is None:
                continue
            table = batch.table.slice(min(skip, batch.table.num_rows))
            skip -= batch.table.num_rows - table.num_rows
            if table.num_rows:
                client.write(table)
                time.sleep(_PAUSE)
