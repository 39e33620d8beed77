"""`headwater report`: one page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from headwater.cli.console import complain, err, say
from headwater.cli.exit_codes import reports_errors
from headwater.cli.options import BadRows
from headwater.public.schema import schema_from_dict


@reports_errors
def command(
    releases: Annotated[Path, typer.Argument(help="The folder of releases.")],
    out_: Annotated[Path, typer.Option("--out", help="The HTML page to write.")] = Path("report.html"),
    against: Annotated[
        list[str] | None, typer.Option(help="The real data, to show as well. The page is then NOT PRIVATE.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="The real data are public anyway: no warning, anyone may read the page.")
    ] = False,
    name: Annotated[
        str | None, typer.Option(help="What the data are called, for the title; default: by the folder.")
    ] = None,
    pair: Annotated[
        list[str] | None, typer.Option(help="Two columns to draw against each other, as NAME,NAME. May be repeated.")
    ] = None,
    bad_rows: BadRows = None,
) -> None:
    """Draw how the releases of a run grew and how good they are: a page that needs no network.

    It is as private as the releases are. With --against it also shows the real data, under a red banner: keep that
    page to yourself.

    Example: headwater report releases --out report.html
    """
    from headwater.evaluation.inputs import rows_of
    from headwater.report import usual_name, write_report
    from headwater.report.releases import find

    truth = None
    if against:
        truth = rows_of(against, schema_from_dict(find(releases)[-1].card["schema"]), bad_rows=bad_rows)
    elif public:
        raise ValueError("--public is about the real data: name them with --against")
    pairs = [_pair(names) for names in pair] if pair else None
    with Progress(console=err, transient=True) as bar:
        task, short = {what: bar.add_task(what, total=None) for what in ("releases", "real rows")}, [False]

        def show(what: str, done: int, total: int) -> None:
            bar.update(task[what], completed=done, total=total)
            short[0] = done < total if what == "real rows" else short[0]

        page = write_report(releases, out_, against=truth, pairs=pairs, name=name, public=public, progress=show)
    if short[0]:
        complain(f"there are fewer real records than the last release is about: {page} says how many", "bold red")
    if against and not public:
        complain(f"{page} shows the real data: it is NOT PRIVATE", "bold red")
    say(f"{page}: open it in a browser")
    if name is None:
        say(f'the data are called "{usual_name(releases)}" there, after the folder: --name gives another title')


def _pair(names: str) -> tuple[str, str]:
    first, _, second = names.partition(",")
    if not second:
        raise ValueError(f"--pair needs two column names with a comma between them, not {names!r}")
    return first.strip(), second.strip()
