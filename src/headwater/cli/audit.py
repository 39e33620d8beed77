"""`headwater audit`: try to refute the promise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.console import complain, out, say
from headwater.cli.exit_codes import Exit, reports_errors
from headwater.cli.numbers import INTEGER


@reports_errors
def command(
    size: Annotated[str, typer.Option(help="quick (about a minute), standard or full (hours).")] = "quick",
    runs: Annotated[
        int | None, typer.Option(help="How often each case runs, if not as the size says.", **INTEGER)
    ] = None,
    only: Annotated[str | None, typer.Option(help="Only cases whose name contains this.")] = None,
    search: Annotated[int, typer.Option(help="How many random pairs of streams to try as well.", **INTEGER)] = 0,
    checkpoint: Annotated[Path | None, typer.Option(help="Keep finished work here, and go on from it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Attack the guarantee with made-up streams, and say how large an ε the attacks can prove.

    Each case is a pair of streams that differ in one record, and something that a user could publish. The lower bound
    holds with a confidence of 99.9 %. If the stricter bound for the whole audit exceeds a claim, that is a bug.

    Example: headwater audit --size quick --search 20
    """
    from headwater.audit import run_audit

    found = run_audit(size, runs=runs, only=only, search=search, checkpoint=checkpoint, show=True)
    if as_json:
        out.print_json(found.to_json())
    else:
        say(str(found))
    if not found.passed:
        complain(f"claims refuted: {', '.join(found.alarms)}", "bold red")
        raise typer.Exit(int(Exit.LEAK))
