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
NullValues = Annotated[
    list[str] | None,
    typer.Option(
        "--null-value", help="A text that means missing, such as NA, if the schema does not say it. Repeatable."
    ),
]
Decimal = Annotated[
    str | None, typer.Option(help="Before decimals, if the schema does not say it: a point or a comma.")
]
Thousands = Annotated[
    str | None, typer.Option(help="Between thousands, if the schema does not say it: such as a point or a comma.")
]
Formats = Annotated[
    list[str] | None,
    typer.Option(
        "--date-format",
        metavar="NAME=FORMAT",
        help="How dates of a column are written, if the schema does not say it: day=%d.%m.%Y. Repeatable.",
    ),
]
BadRows = Annotated[
    str | None,
    typer.Option(help="Rows that are no records: stop, or null to leave them out. Default: as the schema says."),
]


def options(
    input_format: str | None,
    delimiter: str | None,
    ignore_extra: bool,
    encoding: str | None = None,
    null_values: list[str] | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    formats: list[str] | None = None,
) -> dict[str, Any]:
    """The same as fields of `headwater.secret.read.Options`."""
    return {
        "format": input_format,
        "delimiter": delimiter_of(delimiter),
        "ignore_extra": ignore_extra,
        "encoding": encoding,
        "null_values": tuple(null_values or ()),
        "decimal": decimal,
        "thousands": thousands,
        "formats": tuple(_format(text) for text in formats or ()),
    }


def delimiter_of(text: str | None) -> str | None:
    r"""A delimiter as it is given: a tab may be written as ``\t``."""
    return "\t" if text == "\\t" else text


def _format(text: str) -> tuple[str, str]:
    name, _, format_ = text.partition("=")
    if not format_:
        raise ValueError(f"--date-format needs a column and a format, such as day=%d.%m.%Y, not {text!r}")
    return name.strip(), format_
