"""Options that say what a run publishes and how it is kept, the same for every command that begins a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.numbers import NUMBER, integer

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
    int | None,
    typer.Option(
        parser=integer, metavar="RECORDS", help="How many records you expect in all, if you know: plan for them."
    ),
]
Format = Annotated[str, typer.Option("--format", help="Of releases: parquet or csv.")]
Rows = Annotated[str, typer.Option(help="A release of more rows is published as a sample of so many; or all.")]
Keep = Annotated[
    str, typer.Option(help="Only the newest so many releases keep their table, older ones their card; or all.")
]
BadRows = Annotated[
    str | None,
    typer.Option(
        help="Rows that are no records: stop; null (counted, and nowhere); quarantine (also kept beside the state)."
    ),
]
AllowCopy = Annotated[
    bool, typer.Option("--allow-copy", help="Continue from a copy or an older backup of a state. No other run may.")
]
