"""The live demonstration: a service on the bundled flights, and a feeder that posts them as if they happened now."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from headwater.cli import serve
from headwater.cli.console import say
from headwater.public.schema import Schema
from headwater.run import Schedule
from headwater.secret.read.source import open_source

_BATCH, _PAUSE = 250, 0.5  # records, seconds: a year of flights in about ten minutes


def serve_live(data: Path, schema: Path, out: Path, epsilon: float, port: int) -> None:
    """Serve, feed, and print where the page is; returns after Ctrl-C."""
    say(f"\n$ headwater serve --schema {schema} --epsilon {epsilon:g} --out {out} --every 2000 --port {port} --quiet\n")

    def feed(address: str) -> None:
        thread = threading.Thread(target=_feed, args=(data, schema, f"{address}runs/{schema.stem}"), daemon=True)
        thread.start()
        say(
            f"\nlook at {address}runs/{schema.stem} in a browser; flights are being posted; Ctrl-C ends it",
            style="bold",
        )

    single = {"epsilon": epsilon, "out": out, "schedule": Schedule(records=2000)}
    serve.start(schema=schema, single=single, changes={"port": port}, quiet=True, started=feed)


def _feed(data: Path, schema: Path, address: str) -> None:
    """Post the flights that the run does not have yet, a few at a time."""
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
