"""`headwater audit`: try to refute the promise."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.console import complain, out, say
from headwater.cli.exit_codes import Exit, reports_errors
from headwater.cli.options import INTEGER


@reports_errors
def command(
    runs: Annotated[int, typer.Option(help="How often each case runs; 0 for exact losses only.", **INTEGER)] = 600,
    only: Annotated[str | None, typer.Option(help="Only cases whose name contains this.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Attack the guarantee with made-up streams, and say how large an ε the attacks can prove.

    Each case is a pair of streams that differ in one record, and something that a user could publish. The lower bound
    holds with a confidence of 99.9 %. If the stricter bound for the whole audit exceeds a claim, that is a bug.

    Example: headwater audit --runs 4000
    """
    from headwater.audit import run_audit

    found = run_audit(runs, only=only, show=True)
    if as_json:
        out.print_json(found.to_json())
    else:
        say(str(found))
    if not found.passed:
        complain(f"claims refuted: {', '.join(found.alarms)}", "bold red")
        raise typer.Exit(int(Exit.LEAK))
