"""The commands, put together; those that only call the library are here whole."""

from __future__ import annotations

import errno
import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from headwater import __version__
from headwater.cli import ask, demo, info, release, report, run, serve
from headwater.cli.console import complain, out, say
from headwater.cli.exit_codes import Exit, reports_errors
from headwater.cli.options import INTEGER, BadRows
from headwater.public.schema import Schema
from headwater.run import spent as ledger
from headwater.secret.read.draft import draft

app = typer.Typer(
    name="headwater",
    help="Synthetic data from a live stream, published again and again under one fixed privacy budget.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a traceback with local variables would print people's records
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@reports_errors
def token(
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


@reports_errors
def spent() -> None:
    """List what runs of this user have spent, by input: an input is known by its first records, not by its name.

    Runs of `headwater run` on files and standard input are written down; not those on topics, of a service, on Spark,
    or in Python, nor those with --seed.

    Example: headwater spent
    """
    inputs = ledger.by_input()
    for runs in inputs:
        say(f"{ledger.cost(runs)} on one input, by {len(runs)} run{'s' * (len(runs) > 1)}:", style="bold")
        for one in runs:
            say(f"  {one.at}  {ledger.cost([one])}  {one.out}")
    if not inputs:
        say(f"nothing is written down in {ledger.folder()}")


@reports_errors
def schema(
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


@reports_errors
def evaluate(
    real: Annotated[list[str], typer.Argument(metavar="REAL... SYNTHETIC", help="Files, the synthetic one last.")],
    schema: Annotated[
        Path | None, typer.Option(help="What the columns are: a TOML or JSON file. A release brings its own.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    bad_rows: BadRows = None,
) -> None:
    """Compare a synthetic table with the real one: columns, pairs, and answers to kinds of questions.

    What it prints is computed from the real data and is NOT PRIVATE. A folder of a release stands for its table,
    and is compared with the records that it is about; if there are fewer, a warning comes first.

    Example: headwater evaluate trips.csv releases/release-000000010000
    """
    from headwater import evaluation

    if len(real) < 2:
        raise ValueError("name the real file or files, then the synthetic one")
    *truth, synthetic = real
    known = Schema.load(schema) if schema is not None else None
    if not Path(synthetic).exists():
        raise FileNotFoundError(errno.ENOENT, "there is nothing here", synthetic)
    if known is None and not Path(synthetic).is_dir():
        raise ValueError(f"name the schema (--schema FILE): {synthetic} is not the folder of a release, which has one")
    found = evaluation.evaluate(truth, synthetic, known, reading={"bad_rows": bad_rows})
    if as_json:
        out.print_json(json.dumps(found.to_dict()), ensure_ascii=True)
    else:
        for line in str(found).splitlines():
            say(line, "bold red" if line.startswith(("NOT PRIVATE", "TOO FEW", "BOUNDS CUT", "STEPS CHANGE")) else "")


@reports_errors
def audit(
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


for _name, _command, _summary in (  # a summary fits on a line of the list of commands
    ("run", run.command, "Publish synthetic tables from a stream of records."),
    ("serve", serve.command, "Take records over HTTP, and show releases live."),
    ("token", token, "Make a token for a service, or revoke one."),
    ("release", release.command, "Publish once more from a state: all, or a window."),
    ("report", report.command, "Draw how the releases of a run grew, on one page."),
    ("ask", ask.command, "Ask a release: counts, shares, means, with error bars."),
    ("spent", spent, "List what was spent on which input."),
    ("info", info.command, "Say what a release, a state or a schema is."),
    ("schema", schema, "Draft a schema from the columns of a file."),
    ("evaluate", evaluate, "Compare a synthetic table with the real one."),
    ("audit", audit, "Attack the guarantee with made-up streams."),
    ("demo", demo.command, "Run on a year of public flights, and draw the result."),
):
    app.command(_name, short_help=_summary)(_command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headwater {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version, and exit.")
    ] = False,
) -> None:
    """Synthetic data from a live stream, published again and again under one fixed privacy budget."""
