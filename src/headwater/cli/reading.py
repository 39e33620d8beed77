"""Options that say how files of records are read, the same for every command that reads some."""

from __future__ import annotations

from typing import Annotated, Any

import typer

InputFormat = Annotated[
    str | None, typer.Option(help="Of the input, if its name does not say: csv, jsonl, parquet or arrow.")
]
Delimiter = Annotated[str | None, typer.Option(help="Between the fields of CSV input: a comma unless given.")]
IgnoreExtra = Annotated[bool, typer.Option("--ignore-extra", help="Leave out columns that the schema does not name.")]


def options(input_format: str | None, delimiter: str | None, ignore_extra: bool) -> dict[str, Any]:
    """The same as fields of `headwater.table.readers.Options`."""
    return {"format": input_format, "delimiter": delimiter, "ignore_extra": ignore_extra}
