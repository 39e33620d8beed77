"""Options that say who records belong to, the same for every command that begins a run."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from headwater.cli.numbers import INTEGER
from headwater.public.person import Person

Column = Annotated[
    str | None,
    typer.Option(
        "--person", metavar="COLUMN", help="The column that names the person, in one spelling: ε is then for a person."
    ),
]
Records = Annotated[
    int | None,
    typer.Option("--records-per-person", help="How many records of a person count: noise grows with it.", **INTEGER),
]
Period = Annotated[
    str | None,
    typer.Option(
        "--person-period", help="Count anew after so many arrivals (100000) or so much time (1d): ε is for a period."
    ),
]
Null = Annotated[
    str, typer.Option("--null-person", help="A record that names nobody: refuse; own (a person of its own); nowhere.")
]
PerBucket = Annotated[
    int | None,
    typer.Option("--records-per-bucket", help="Of those, how many count in one bucket; with --delta only.", **INTEGER),
]

_OPTIONS = {
    "records": "--records-per-person",
    "per": "--person-period",
    "null": "--null-person",
    "per_bucket": "--records-per-bucket",
}
_ARGUMENT = re.compile(rf"\b({'|'.join(_OPTIONS)})\b(?= must| \()")


def person_of(
    column: str | None, records: int | None, period: str | None, null: str, per_bucket: int | None
) -> Person | None:
    """The person that the options declare, None if they declare none; half a declaration is refused."""
    if column is None:
        if records is not None or period is not None or per_bucket is not None:
            raise ValueError("--records-per-person needs --person, the column that names the person")
        return None
    if records is None:
        raise ValueError("--person needs --records-per-person, how many records of a person count")
    if not column:
        raise ValueError("--person needs the name of the column that names the person")
    try:
        return Person(column, records=records, per=period, null=null, per_bucket=per_bucket)
    except ValueError as error:  # names arguments
        raise ValueError(_ARGUMENT.sub(lambda found: _OPTIONS[found[0]], str(error))) from None
