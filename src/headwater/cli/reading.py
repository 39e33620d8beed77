"""Options that say how files of records are read, the same for every command that reads some."""

from __future__ import annotations

from typing import Annotated, Any

import typer

InputFormat = Annotated[
    str | None,
    typer.Option(help="Of the input, if its name does not say: csv, jsonl, json, parquet or arrow."),
]
Delimiter = Annotated[str | None, typer.Option(help="Between the fields of CSV input: a comma unless given.")]
IgnoreExtra = Annotated[bool, typer.Option("--ignore-extra", help="Leave out columns that the schema does not name.")]
Encoding = Annotated[str | None, typer.Option(help="Of text: UTF-8 unless given, such as cp1252 or utf-16.")]
BadRows = Annotated[
    str | None,
    typer.Option(help="Rows that are no records: stop, or null to leave them out. Default: as the schema says."),
]


def options(
    input_format: str | None,
    delimiter: str | None,
    ignore_extra: bool,
    encoding: str | None = None,
) -> dict[str, Any]:
    """The same as fields of `headwater.secret.read.Options`."""
    return {
        "format": input_format,
        "delimiter": delimiter_of(delimiter),
        "ignore_extra": ignore_extra,
        "encoding": encoding,
    }


def delimiter_of(text: str | None) -> str | None:
    r"""A delimiter as it is given: a tab may be written as ``\t``."""
    return "\t" if text == "\\t" else text
