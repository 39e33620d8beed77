"""`headwater info`: what a release, a folder of releases, a state or a schema is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from headwater.cli.outcome import out, told
from headwater.pipeline import opened
from headwater.publish.folder import folders, read_card
from headwater.table.schema import Schema, schema_from_dict


@told
def command(
    path: Annotated[Path, typer.Argument(help="A release, a folder of releases, a state or a schema.")],
    plan: Annotated[bool, typer.Option("--plan", help="Of a state: also the schedule of buckets and noise.")] = False,
) -> None:
    """Say what a file or folder is. Of a state, only what is public is shown.

    Example: headwater info releases
    """
    if path.is_dir():
        _releases([path] if (path / "card.json").exists() else folders(path), path)
    elif path.suffix in (".toml", ".json"):
        out.print(str(Schema.load(path)), soft_wrap=True, markup=False)
    else:
        with opened(path) as synth:
            rows = {"records": f"{synth.t:,}", "ε": f"{synth.epsilon:g}", "mechanism": synth.mechanism}
            rows |= {"level": synth.level, "schema": str(synth.schema)}
            _print(rows, f"{path} (state: secret)")
            if plan:
                out.print(str(synth.plan()), markup=False)


def _releases(places: list[Path], folder: Path) -> None:
    if not places:
        raise FileNotFoundError(2, "there are no releases here", str(folder))
    if len(places) == 1:
        card = read_card(places[0])
        card["schema"] = str(schema_from_dict(card["schema"]))
        _print({name: _plain(value) for name, value in card.items()}, str(places[0]))
        return
    table = Table("release", "records", "ε", "mechanism", "expected error", title=f"{folder}: {len(places)} releases")
    for place in places:
        card = read_card(place)
        error = card["expected_error"]
        about = f"{error['typical']:.2g} (below {error['upper']:.2g})" if error else "unknown"
        table.add_row(place.name, f"{card['rows']:,}", f"{card['epsilon']:g}", card["mechanism"], about)
    out.print(table)
    out.print("ε is that of all these releases together: it does not add up.")


def _plain(value: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    return f"{value:,}" if isinstance(value, int) else str(value)


def _print(rows: dict[str, str], title: str) -> None:
    table = Table(title=title, show_header=False, title_justify="left")
    for name, value in rows.items():
        table.add_row(name, value)
    out.print(table, markup=False)
