"""`headwater info`: what a release, a folder of releases, a state or a schema is."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from headwater.cli.console import complain, out, say, shown
from headwater.cli.display import say_tally
from headwater.cli.exit_codes import reports_errors
from headwater.public.budget import Guarantee
from headwater.public.folder import folders, has_table, read_card
from headwater.public.protocol import AnySchema
from headwater.public.release import Release, expected_of
from headwater.public.schema import Schema, schema_from_dict
from headwater.public.tally import Tally
from headwater.run.lock import StateInUseError
from headwater.run.measured import BANNER, Moment, measured_beside, status_of
from headwater.run.restore import read_state
from headwater.run.state import is_state
from headwater.synthesizer import Synthesizer


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
        _columns(Schema.load(path))
    elif _begins(path, b"headwater release"):
        release = Release.load(path)
        say(f"{release}: {release.expected_error()}")
    elif _begins(path, b"headwater state"):
        _run(Synthesizer.load(path), None, path, plan)
    elif is_state(path):
        try:
            _run(*read_state(path), path, plan)
        except StateInUseError:  # what its owner has measured and kept can be read all the same
            _moment(measured_beside(path), f"{path} (state: secret, in use)", plan)
    elif path.read_bytes()[8:].startswith(BANNER.encode()):
        _moment(path, f"{path} (what was measured: public)", plan)
    else:
        raise ValueError(f"{path} is neither a release nor a state nor a schema (.toml, .json)")


def _run(synth: Synthesizer, tally: Tally | None, path: Path, plan: bool) -> None:
    """A run that nobody has open."""
    _print(status_of(synth.state.facts()), f"{path} (state: secret)")
    _columns(synth.schema)
    say_tally(synth.tally if tally is None else tally, None)
    if plan:
        out.print(shown(str(synth.plan())))


def _moment(path: Path, title: str, plan: bool) -> None:
    """The last moment that a run has kept."""
    moment = Moment.read(path)
    _print(status_of(moment.facts) | {"moment": f"the last one that was kept, of {moment.t:,} records"}, title)
    _columns(schema_from_dict(moment.facts["schema"]))
    if plan:
        out.print(shown(str(moment.plan())))


def _releases(places: list[Path], folder: Path) -> None:
    if not places:
        raise FileNotFoundError(errno.ENOENT, "there are no releases here", str(folder))
    if len(places) == 1:
        _release(places[0])
        return
    cards = [read_card(place) for place in places]
    pure = not any(card.get("delta") for card in cards)
    head = ["records", "rows", "ε" if pure else "ε, δ", "mechanism", "expected error"]
    table = Table(Column("release", no_wrap=True), *head, title=shown(f"{folder}: {len(places)} releases"))
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


def _release(place: Path) -> None:
    card = read_card(place)
    expected, (start, end) = expected_of(card), card["span"]
    schema = schema_from_dict(card.pop("schema"))
    card |= {"span": f"records {start + 1} to {end}", "expected_error": str(expected)}
    if not has_table(place):
        card["data"] += " (removed: only this card is left)"
    plain = {name: f"{value:,}" if isinstance(value, int) else str(value) for name, value in card.items()}
    _print({name: plain[name] for name, value in card.items() if value is not None}, str(place))
    _columns(schema)
    if expected.parts:
        say("  expected error of one column and of their mean, typical and in nine cases of ten:")
        for name, (typical, upper) in sorted(expected.parts.items(), key=lambda part: -part[1][0]):
            say(f"    {typical:<8.2g} {upper:<8.2g} {name}")


def _columns(schema: AnySchema) -> None:
    """A schema, a column a line."""
    columns = schema.columns.items() if isinstance(schema, Schema) else [("points", schema)]
    width = max(len(name) for name, _ in columns)
    for name, column in columns:
        say(f"  {name:<{width}}  {column!r}")


def _begins(path: Path, head: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(head)) == head


def _print(rows: dict[str, str], title: str) -> None:
    width = max(map(len, rows))
    say(title, style="bold")
    for name, value in rows.items():
        say(f"  {name:<{width}}  {value}")
