"""`headwater info`: what a release, a folder of releases, a state or a schema is."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from headwater.cli.console import complain, out, say, shown
from headwater.cli.exit_codes import reports_errors
from headwater.mechanisms.accuracy import ExpectedError
from headwater.release.folder import folders, has_table, read_card
from headwater.release.release import Release
from headwater.run.requests import OwnerGoneError, request_status
from headwater.run.restore import read_state
from headwater.run.status import status_of
from headwater.run.store import StateInUseError, is_store
from headwater.table.schema import Schema, schema_from_dict


@reports_errors
def command(
    path: Annotated[Path, typer.Argument(help="A release, a folder of releases, a state or a schema.")],
    plan: Annotated[bool, typer.Option("--plan", help="Of a state: also the schedule of buckets and noise.")] = False,
) -> None:
    """Say what a file or folder is. Of a state, only what is public is shown.

    Example: headwater info releases
    """
    if path.name == "card.json":
        path = path.parent
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, "there is nothing here", str(path))
    if path.is_dir():
        _releases([path] if (path / "card.json").exists() else folders(path), path)
    elif path.suffix in (".toml", ".json"):
        say(str(Schema.load(path)))
    elif _begins(path, b"headwater release"):
        release = Release.load(path)
        say(f"{release}: {release.expected_error()}")
    elif not is_store(path) and not _begins(path, b"headwater state"):
        raise ValueError(f"{path} is neither a release nor a state nor a schema (.toml, .json)")
    else:
        rows, use = _state(path, plan)
        schedule = rows.pop("plan", None)
        _print(rows, f"{path} (state: secret{use})")
        if schedule is not None:
            out.print(shown(schedule))


def _state(path: Path, plan: bool) -> tuple[dict[str, str], str]:
    """What a state is, and whether somebody uses it. Its owner answers if there is one."""
    while True:
        try:
            return status_of(read_state(path), plan=plan), ""
        except StateInUseError:
            with suppress(OwnerGoneError):  # then it is free again
                return request_status(path, plan=plan), ", in use"


def _releases(places: list[Path], folder: Path) -> None:
    if not places:
        raise FileNotFoundError(errno.ENOENT, "there are no releases here", str(folder))
    if len(places) == 1:
        card = read_card(places[0])
        card["schema"] = str(schema_from_dict(card["schema"]))
        card["span"] = "records {} to {}".format(card["span"][0] + 1, card["span"][1])
        card["expected_error"] = _error(card["expected_error"])
        _print({name: _plain(value) for name, value in card.items()}, str(places[0]))
        return
    title = shown(f"{folder}: {len(places)} releases")
    table = Table("release", "records", "rows", "ε", "mechanism", "expected error", title=title)
    for place in places:
        card = read_card(place)
        about = _error(card["expected_error"])
        rows = f"{card['rows']:,}" if has_table(place) else "removed"
        records = f"{card['span'][1] - card['span'][0]:,}"
        table.add_row(*map(shown, (place.name, records, rows, f"{card['epsilon']:g}", card["mechanism"], about)))
    out.print(table)
    runs = {str(card.get("run")): card["epsilon"] for card in map(read_card, places)}
    if len(runs) == 1:
        say("ε is that of all these releases together: it does not add up.")
    else:
        cost = sum(runs.values())
        complain(f"these are releases of {len(runs)} runs: together they cost ε = {cost:g}", "bold red")


def _begins(path: Path, head: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(head)) == head


def _error(error: dict[str, float] | None) -> str:
    return str(ExpectedError(error["typical"], error["upper"])) if error else "unknown"


def _plain(value: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    return f"{value:,}" if isinstance(value, int) else str(value)


def _print(rows: dict[str, str], title: str) -> None:
    width = max(map(len, rows))
    say(title, style="bold")
    for name, value in rows.items():
        say(f"  {name:<{width}}  {value}")
