"""`headwater evaluate`: how close a synthetic table is to the real one. Not private."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from headwater.cli.outcome import out, told
from headwater.partition import Points
from headwater.publish.folder import folders, read_card
from headwater.table.errors import TableError
from headwater.table.readers import open_source
from headwater.table.schema import Schema


@told
def command(
    real: Annotated[list[str], typer.Argument(metavar="REAL... SYNTHETIC", help="Files, the synthetic one last.")],
    schema: Annotated[Path, typer.Option(help="What the columns are: a TOML or JSON file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    ignore_extra: Annotated[
        bool, typer.Option("--ignore-extra", help="Leave out columns that the schema does not name.")
    ] = False,
) -> None:
    """Compare a synthetic table with the real one: W1, each column, dependence of columns, range queries.

    What it prints is computed from the real data and is NOT PRIVATE. A folder of a release stands for its table.

    Example: headwater evaluate trips.csv releases/release-000000010000 --schema trips.toml
    """
    from headwater.evaluate.measures import evaluate  # here, so that the other commands start faster

    if len(real) < 2:
        raise ValueError("name the real file or files, then the synthetic one")
    known = Schema.load(schema)
    *truth, synthetic = real
    before = _points(truth, known, ignore_extra)
    found = evaluate(before, _points([_table(synthetic)], known, ignore_extra), known)
    if as_json:
        out.print_json(json.dumps(found.to_dict()))
    else:
        out.print(found)


def _table(path: str) -> str:
    folder = Path(path)
    if folders(folder):
        raise ValueError(f"{path} holds several releases: name one of them, such as {folders(folder)[-1]}")
    return str(folder / read_card(folder)["data"]) if (folder / "card.json").exists() else path


def _points(paths: list[str], schema: Schema, ignore_extra: bool) -> Points:
    parts = [np.empty((0, schema.dimension))]
    with open_source(paths, schema, ignore_extra=ignore_extra) as source:
        for batch in source:
            if batch is not None:
                try:
                    parts.append(schema.encode(batch.table))
                except TableError as error:
                    raise batch.place(error) from None
    return np.concatenate(parts)
