"""Options that several commands have, and how their numbers are read."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from headwater.public.person import Person
from headwater.run.config import KEEP, ROWS

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

Out = Annotated[Path, typer.Option("--out", help="The folder that releases go to.")]
BadRows = Annotated[
    str | None,
    typer.Option(
        help="Invalid rows: stop; null (counted in t only); quarantine (null, and kept). Default: as the schema says."
    ),
]
AllowCopy = Annotated[
    bool, typer.Option("--allow-copy", help="Continue from a copy or an older backup of a state. No other run may.")
]

_PERSON = {
    "records": "--records-per-person",
    "per": "--person-period",
    "null": "--null-person",
    "per_bucket": "--records-per-bucket",
}


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of one run, for every command that begins one: `takes_run_options` declares them."""

    delta: Annotated[
        float, typer.Option(help="By how much probabilities may differ beyond ε, such as 1e-9. 0: pure ε.", **NUMBER)
    ] = 0.0
    out_: Out = Path("releases")
    every: Annotated[
        str, typer.Option(help="Publish after so many records (10000) or so much time (30s, 15min, 1h).")
    ] = "10000"
    state: Annotated[
        Path | None, typer.Option(help="The file that keeps the run. Secret. Default: the name of --out plus .state.")
    ] = None
    mechanism: Annotated[
        str, typer.Option(help="How records are measured: auto, cascade, marginals or paper. auto goes by the schema.")
    ] = "auto"
    expect: Annotated[
        int | None, typer.Option(help="How many records you expect in all, if you know: plan for them.", **RECORDS)
    ] = None
    format_: Annotated[str, typer.Option("--format", help="Of releases: parquet or csv.")] = "parquet"
    rows: Annotated[str, typer.Option(help="A release of more rows is published as a sample of so many; or all.")] = (
        str(ROWS)
    )
    keep: Annotated[
        str, typer.Option(help="So many of the newest releases keep their table, others their card; or all.")
    ] = str(KEEP)
    bad_rows: BadRows = None
    allow_copy: AllowCopy = False
    person: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="The column that names the person, in one spelling: ε is then for a person."
        ),
    ] = None
    records_per_person: Annotated[
        int | None, typer.Option(help="How many records of a person count: noise grows with it.", **INTEGER)
    ] = None
    person_period: Annotated[
        str | None,
        typer.Option(help="Count anew after so many arrivals (100000) or so much time (1d): ε is for a period."),
    ] = None
    null_person: Annotated[
        str, typer.Option(help="A record that names nobody: refuse; own (a person of its own); nowhere.")
    ] = "refuse"
    records_per_bucket: Annotated[
        int | None, typer.Option(help="Of those, how many count in one bucket; with --delta only.", **INTEGER)
    ] = None

    def declared_person(self) -> Person | None:
        """None if there is none; half a declaration is refused."""
        records, period, per_bucket = self.records_per_person, self.person_period, self.records_per_bucket
        if self.person is None:
            if records is not None or period is not None or per_bucket is not None:
                raise ValueError("--records-per-person needs --person, the column that names the person")
            return None
        if not self.person or records is None:
            raise ValueError("--person needs the name of a column, and --records-per-person: how many records count")
        try:
            return Person(self.person, records=records, per=period, null=self.null_person, per_bucket=per_bucket)
        except ValueError as error:  # names arguments
            argument = re.compile(rf"\b({'|'.join(_PERSON)})\b(?= must| \()")
            raise ValueError(argument.sub(lambda found: _PERSON[found[0]], str(error))) from None


def takes_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Declare every field of `RunOptions` as an option of a command, which gets them together, as ``how``."""

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:  # noqa: ANN401 - the options of any command
        how = {field.name: given.pop(field.name) for field in fields(RunOptions) if field.name in given}
        command(**given, how=RunOptions(**how))

    own, shared = (inspect.signature(one, eval_str=True).parameters.values() for one in (command, RunOptions))
    parameters = [*(one for one in own if one.name != "how"), *shared]
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what Typer reads
    wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapped
