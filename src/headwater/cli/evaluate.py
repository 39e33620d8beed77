"""`headwater evaluate`: how close a synthetic table is to the real one. Not private."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.console import out, say
from headwater.cli.exit_codes import reports_errors
from headwater.cli.options import BadRows
from headwater.public.schema import Schema


@reports_errors
def command(
    real: Annotated[list[str], typer.Argument(metavar="REAL... SYNTHETIC", help="Files, the synthetic one last.")],
    schema: Annotated[
        Path | None, typer.Option(help="What the columns are: a TOML or JSON file. A release brings its own.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    bad_rows: BadRows = None,
) -> None:
    """Compare a synthetic table with the real one: each column and pair, range queries, dependence, W1.

    What it prints is computed from the real data and is NOT PRIVATE. A folder of a release stands for its table,
    and is compared with the records that it is about; if there are fewer, a warning comes first.

    Example: headwater evaluate trips.csv releases/release-000000010000
    """
    from headwater.evaluation import evaluate

    if len(real) < 2:
        raise ValueError("name the real file or files, then the synthetic one")
    *truth, synthetic = real
    known = Schema.load(schema) if schema is not None else None
    if not Path(synthetic).exists():
        raise FileNotFoundError(errno.ENOENT, "there is nothing here", synthetic)
    if known is None and not Path(synthetic).is_dir():
        raise ValueError(f"name the schema (--schema FILE): {synthetic} is not the folder of a release, which has one")
    found = evaluate(truth, synthetic, known, reading={"bad_rows": bad_rows})
    if as_json:
        out.print_json(json.dumps(found.to_dict()), ensure_ascii=True)
    else:
        for line in str(found).splitlines():
            say(line, "bold red" if line.startswith(("NOT PRIVATE", "TOO FEW", "BOUNDS CUT")) else "")
