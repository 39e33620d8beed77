"""Options that several commands have, and how their numbers are read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from headwater.public.person import Person

_LONGEST = 30  # digits: more are no number of anything


def integer(text: str) -> int:
    """A whole number, as it is given for any option.

    >>> integer("10_000"), integer("10,000")
    (10000, 10000)
    """
    plain = str(text).strip()
    if not re.fullmatch(r"-?\d{1,3}(,\d{3})+|-?\d+(_\d+)*", plain, re.ASCII) or len(plain) > _LONGEST:
        raise typer.BadParameter(f"write a whole number in digits, such as 10000 or 10_000, not {text!r}")
    return int(plain.replace(",", "").replace("_", ""))


def number(text: str) -> float:
    """A number, as it is given for any option.

    >>> number("1e-9"), number("0.5")
    (1e-09, 0.5)
    """
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"write a number such as 1, 0.5 or 1e-9, not {text!r}") from None


INTEGER: dict[str, Any] = {"parser": integer, "metavar": "INTEGER"}
NUMBER: dict[str, Any] = {"parser": number, "metavar": "FLOAT"}
RECORDS: dict[str, Any] = {"parser": integer, "metavar": "RECORDS"}

Delta = Annotated[
    float, typer.Option(help="By how much probabilities may differ beyond ε, such as 1e-9. 0: pure ε.", **NUMBER)
]
Out = Annotated[Path, typer.Option("--out", help="The folder that releases go to.")]
Every = Annotated[str, typer.Option(help="Publish after so many records (10000) or so much time (30s, 15min, 1h).")]
State = Annotated[
    Path | None, typer.Option(help="The file that keeps the run. Secret. Default: the name of --out plus .state.")
]
Mechanism = Annotated[
    str, typer.Option(help="How records are measured: auto, cascade, marginals or paper. auto goes by the schema.")
]
Expect = Annotated[
    int | None, typer.Option(help="How many records you expect in all, if you know: plan for them.", **RECORDS)
]
Format = Annotated[str, typer.Option("--format", help="Of releases: parquet or csv.")]
Rows = Annotated[str, typer.Option(help="A release of more rows is published as a sample of so many; or all.")]
Keep = Annotated[str, typer.Option(help="So many of the newest releases keep their table, others their card; or all.")]
BadRows = Annotated[
    str | None,
    typer.Option(
        help="Invalid rows: stop; null (counted in t only); quarantine (null, and kept). Default: as the schema says."
    ),
]
AllowCopy = Annotated[
    bool, typer.Option("--allow-copy", help="Continue from a copy or an older backup of a state. No other run may.")
]

PersonColumn = Annotated[
    str | None,
    typer.Option(
        "--person", metavar="COLUMN", help="The column that names the person, in one spelling: ε is then for a person."
    ),
]
PersonRecords = Annotated[
    int | None,
    typer.Option("--records-per-person", help="How many records of a person count: noise grows with it.", **INTEGER),
]
PersonPeriod = Annotated[
    str | None,
    typer.Option(
        "--person-period", help="Count anew after so many arrivals (100000) or so much time (1d): ε is for a period."
    ),
]
NullPerson = Annotated[
    str, typer.Option("--null-person", help="A record that names nobody: refuse; own (a person of its own); nowhere.")
]
PersonBucket = Annotated[
    int | None,
    typer.Option("--records-per-bucket", help="Of those, how many count in one bucket; with --delta only.", **INTEGER),
]

_PERSON = {
    "records": "--records-per-person",
    "per": "--person-period",
    "null": "--null-person",
    "per_bucket": "--records-per-bucket",
}


def person_of(
    column: str | None, records: int | None, period: str | None, null: str, per_bucket: int | None
) -> Person | None:
    """The person that the options declare, None if they declare none; half a declaration is refused."""
    if column is None:
        if records is not None or period is not None or per_bucket is not None:
            raise ValueError("--records-per-person needs --person, the column that names the person")
        return None
    if not column or records is None:
        raise ValueError("--person needs the name of a column, and --records-per-person: how many records count")
    try:
        return Person(column, records=records, per=period, null=null, per_bucket=per_bucket)
    except ValueError as error:  # names arguments
        argument = re.compile(rf"\b({'|'.join(_PERSON)})\b(?= must| \()")
        raise ValueError(argument.sub(lambda found: _PERSON[found[0]], str(error))) from None
