"""`headwater token`: makes, lists and revokes the tokens of a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.console import complain, say
from headwater.cli.exit_codes import reports_errors


@reports_errors
def command(
    file: Annotated[Path, typer.Argument(help="The file of hashed tokens; made if it is not there.")],
    role: Annotated[str | None, typer.Option(help="write, read or admin.")] = None,
    run: Annotated[str, typer.Option(help="The run that it is for; * for all.")] = "*",
    revoke: Annotated[str | None, typer.Option(help="The id of a token that is to be refused from now on.")] = None,
) -> None:
    """Make a token for a service and print it, once; only its hash is kept. Without options, list what there is.

    A running service follows within a second.

    Example: headwater token service.tokens --role write --run trips
    """
    from headwater.service import tokens

    if revoke is not None:
        tokens.revoke(file, revoke)
        say("revoked")
    elif role is not None:
        text = tokens.create(file, role, run)
        complain("Keep this token: it is shown this once. Whoever has it may act in its role.")
        typer.echo(text)
    else:
        for token in tokens.read(file):
            say(f"{token.id}  {token.role:5}  {token.run}")
