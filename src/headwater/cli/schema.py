"""`headwater schema`: draft a schema for a file."""

from __future__ import annotations

import errno
import shlex
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.console import say
from headwater.cli.exit_codes import reports_errors
from headwater.secret.read.draft import draft


@reports_errors
def command(
    data: Annotated[str, typer.Argument(help="A file of records.")],
    out_: Annotated[Path | None, typer.Option("--out", help="Where to write it; default: standard output.")] = None,
    input_format: Annotated[
        str | None, typer.Option(help="Of the data, if its name does not say: csv, jsonl, json, parquet or arrow.")
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="Between the fields of CSV data, if it does not show.")] = None,
    encoding: Annotated[str | None, typer.Option(help="Of text: UTF-8 unless given, such as cp1252 or utf-16.")] = None,
    values: Annotated[
        bool, typer.Option("--values", help="Also list the values of categories that were seen, as comments. Secret.")
    ] = False,
) -> None:
    """Draft a schema from the names and types of a file's columns. Bounds are left open, for you to fill in.

    How the file is written is declared in the draft: its format, delimiter and encoding, its dates and numbers.

    A bound taken from the data would reveal the largest or smallest record. Take bounds and the values of categories
    from what you know of the world. What --values lists is to be checked, and as secret as the data until then.

    Example: headwater schema trips.csv --out trips.toml
    """
    mark = "\t" if delimiter == "\\t" else delimiter
    text = draft(data, values=values, format=input_format, delimiter=mark, encoding=encoding)
    if out_ is None:
        typer.echo(text, nl=False)
        return
    try:
        with out_.open("x", encoding="utf-8") as file:  # never over a schema that somebody has filled in
            if values:
                out_.chmod(0o600)
            file.write(text)
    except FileExistsError:
        remedy = "there is a file here already; give --out another name, or remove it first"
        raise FileExistsError(errno.EEXIST, remedy, str(out_)) from None
    command = shlex.join(["headwater", "run", data, "--schema", str(out_), "--epsilon", "1"])
    say(f"{out_}: fill in the bounds that are left open, then: {command}")
