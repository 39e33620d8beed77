"""`headwater info`: what a release, a folder of releases, a state or a schema is."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from headwater.cli.console import complain, out, say, shown
from headwater.cli.display import say_tally
from headwater.cli.exit_codes import reports_errors
from headwater.public.budget import Guarantee
from headwater.public.card import has_table, read_card
from headwater.public.folder import folders
from headwater.public.release import Release, expected_of
from headwater.public.schema import Schema, schema_from_dict
from headwater.public.tally import Tally
from headwater.run.requests import OwnerGoneError, request_status
from headwater.run.restore import read_state, read_tally
from headwater.run.status import status_of
from headwater.run.store import StateInUseError, is_store


@reports_errors
def command(
    path: Annotated[Path, typer.Argument(help="A release, a folder of releases, a state or a schema.")],
    plan: Annotated[bool, typer.Option("--plan", help="Of a state: also the schedule of buckets and noise.")] = False,
) -> None:
    """Say what a file or folder is. Of a state, what is public, and what its operator should know of the data.

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
        rows, tally, use = _state(path, plan)
        schedule = rows.pop("plan", None)
        _print(rows, f"{path} (state: secret{use})")
        say_tally(tally, None)
        if schedule is not None:
            out.print(shown(schedule))


def _state(path: Path, plan: bool) -> tuple[dict[str, str], Tally, str]:
    """What a state is, and whether somebody uses it. Its owner answers if there is one."""
    while True:
        try:
            synth = read_state(path)
            return status_of(synth, plan=plan), read_tally(path, synth), ""
        except StateInUseError:
            with suppress(OwnerGoneError):  # then it is free again
                return *request_status(path, plan=plan), ", in use"


def _releases(places: list[Path], folder: Path) -> None:
    if not places:
        raise FileNotFoundError(errno.ENOENT, "there are no releases here", str(folder))
    if len(places) == 1:
        card = read_card(places[0])
        card["schema"] = str(schema_from_dict(card["schema"]))
        card["span"] = "records {} to {}".format(card["span"][0] + 1, card["span"][1])
        expected = expected_of(card)
        card["expected_error"] = str(expected)
        if not has_table(places[0]):
            card["data"] += " (removed: only this card is left)"
        _print({name: _plain(value) for name, value in card.items() if value is not None}, str(places[0]))
        if expected.parts:
            say("  expected total variation of one column and of their mean, typical and in nine cases of ten:")
            for name, (typical, upper) in sorted(expected.parts.items(), key=lambda part: -part[1][0]):
                say(f"    {typical:<8.2g} {upper:<8.2g} {name}")
        return
    title = shown(f"{folder}: {len(places)} releases")
    cards = [read_card(place) for place in places]
    pure = not any(card.get("delta") for card in cards)
    table = Table(
        Column("release", no_wrap=True),
        "records",
        "rows",
        "ε" if pure else "ε, δ",
        "mechanism",
        "expected error",
        title=title,
    )
    for place, card in zip(places, cards, strict=True):
        loss = f"{card['epsilon']:g}" if pure else f"{card['epsilon']:g}, {card.get('delta', 0.0):g}"
        expected = expected_of(card)
        about = "unknown" if card["expected_error"] is None else f"{expected.typical:.2g} ({expected.measure})"
        rows = f"{card['rows']:,}" if has_table(place) else "removed"
        records = f"{card['span'][1] - card['span'][0]:,}"
        table.add_row(*map(shown, (place.name, records, rows, loss, card["mechanism"], about)))
    out.print(table)
    runs = {str(card.get("run")): (card["epsilon"], card.get("delta", 0.0)) for card in cards}
    if len(runs) == 1:
        say(f"{Guarantee.as_stated(cards[-1]).promise}, for all these releases together: it does not add up.")
    else:
        cost = Guarantee(sum(e for e, _ in runs.values()), sum(d for _, d in runs.values())).loss
        complain(f"these are releases of {len(runs)} runs: together they cost {cost}", "bold red")


def _begins(path: Path, head: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(head)) == head


def _plain(value: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    return f"{value:,}" if isinstance(value, int) else str(value)


def _print(rows: dict[str, str], title: str) -> None:
    width = max(map(len, rows))
    say(title, style="bold")
    for name, value in rows.items():
        say(f"  {name:<{width}}  {value}")
