"""`headwater evaluate`: how close a synthetic table is to the real one. Not private."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from headwater.cli.console import clean, out
from headwater.cli.exit_codes import reports_errors
from headwater.release.folder import folders, read_card
from headwater.table.readers import read_points
from headwater.table.schema import Schema


@reports_errors
def command(
    real: Annotated[list[str], typer.Argument(metavar="REAL... SYNTHETIC", help="Files, the synthetic one last.")],
    schema: Annotated[Path, typer.Option(help="What the columns are: a TOML or JSON file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    ignore_extra: Annotated[
        bool, typer.Option("--ignore-extra", help="Leave out columns that the schema does not name.")
    ] = False,
) -> None:
    """Compare a synthetic table with the real one: W1, each column, dependence of columns, range queries.

    What it prints is computed from the real data and is NOT PRIVATE. A folder of a release stands for its table,
    and is compared with the records that it is about.

    Example: headwater evaluate trips.csv releases/release-000000010000 --schema trips.toml
    """
    from headwater.evaluate.measures import evaluate  # here, so that the other commands start faster

    if len(real) < 2:
        raise ValueError("name the real file or files, then the synthetic one")
    known = Schema.load(schema)
    *truth, synthetic = real
    table, span = _table(synthetic)
    before = np.concatenate([np.empty((0, known.dimension)), *read_points(truth, known, ignore_extra=ignore_extra)])
    if span is not None and len(before) >= span[1]:  # a release is about some records, not about all that came since
        before = before[slice(*span)]
    after = np.concatenate([np.empty((0, known.dimension)), *read_points([table], known, ignore_extra=ignore_extra)])
    found = evaluate(before, after, known)
    if as_json:
        out.print_json(json.dumps(found.to_dict()), ensure_ascii=True)
    else:
        named = tuple(replace(column, name=clean(column.name)) for column in found.columns)
        out.print(replace(found, columns=named))


def _table(path: str) -> tuple[str, tuple[int, int] | None]:
    """The file of a table, and which records a release is about."""
    folder = Path(path)
    if folders(folder):
        raise ValueError(f"{path} holds several releases: name one of them, such as {folders(folder)[-1]}")
    if not (folder / "card.json").exists():
        return path, None
    card = read_card(folder)
    return str(folder / card["data"]), (card["span"][0], card["span"][1])
