"""What somebody else wrote is shown as it is written: it can neither control the terminal nor end the command."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import headwater as hw
from headwater.cli.app import app
from headwater.cli.exit_codes import Exit
from headwater.public.folder import publish

ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b2J\u202e"
NAMES = ["[/nothing]", "[bold red]", f"cascade{ESCAPE}", "[link=file:///etc/passwd]here[/link]", ":skull:"]


def call(text: str) -> Result:
    return CliRunner().invoke(app, shlex.split(text))


@pytest.fixture
def releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two releases in the folder ``out``, which lies in the current one, and a table with its schema."""
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text('headwater = 1\n[columns.x]\nkind = "number"\nlow = 0\nhigh = 1\n')
    Path("in.csv").write_text("x\n0.5\n0.25\n")
    synth = hw.Synthesizer(hw.Schema(x=hw.Number(0, 1)), epsilon=1.0, seed=1)
    for _ in range(2):
        synth.update({"x": [0.1, 0.5]})
        publish(synth.release(), "out", run="abc")
    return tmp_path / "out"


def alter(folder: Path, **changes: Any) -> None:  # noqa: ANN401
    path = folder / "card.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def assert_harmless(result: Result) -> None:
    assert result.exit_code in (0, Exit.STATE, Exit.INPUT), (result.output, result.exception)
    assert not set("\x1b\x07\x9b\u202e") & set(result.output)
    assert "Traceback" not in result.output


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("path", ["out", "out/release-000000000004"])
def test_a_card_is_shown_as_it_is_written(releases: Path, path: str, name: str) -> None:
    schema = {"headwater": 1, "columns": {name: {"kind": "category", "values": [name, "b"]}}}
    alter(releases / "release-000000000004", mechanism=name, headwater=name, run="abc", schema=schema, note=name)
    shown = call(f"info {path}")
    assert shown.exit_code == 0, (shown.output, shown.exception)
    assert_harmless(shown)
    assert name.partition("\x1b")[0].split(" ")[0][:9] in shown.output


@pytest.mark.parametrize("field", ["time", "neighbours", "sha256", "data", "extra\x1b[2J"])
def test_no_field_of_a_card_reaches_the_terminal_raw(releases: Path, field: str) -> None:
    alter(releases / "release-000000000004", **{field: f"x{ESCAPE}[/red]"})
    assert_harmless(call("info out/release-000000000004"))
    assert_harmless(call("evaluate in.csv out/release-000000000004 --schema s.toml"))


def test_a_release_of_another_run_with_a_hostile_name_is_named_harmlessly(releases: Path) -> None:
    place = releases / "release-\x1b[2J[red]"  # a file name has no slashes
    os.rename(releases / "release-000000000004", place)
    alter(place, run=f"other{ESCAPE}")
    assert_harmless(call("info out"))
    refused = call("run in.csv --schema s.toml --epsilon 1 --out out")
    assert refused.exit_code == Exit.STATE
    assert_harmless(refused)


def test_the_names_of_columns_are_shown_as_they_are_written(releases: Path) -> None:
    name = "x\x1b[2J\u202e[/red]"
    Path("s.json").write_text(json.dumps({"headwater": 1, "columns": {name: {"kind": "number", "low": 0, "high": 1}}}))
    Path("odd.csv").write_text(f"{name}\n0.5\n0.25\n")
    for command in (
        "info s.json",
        "evaluate odd.csv odd.csv --schema s.json",
        "run odd.csv --schema s.json --epsilon 1",
    ):
        for option in ("", " --json") if command.startswith("evaluate") else ("",):
            shown = call(command + option)
            assert shown.exit_code == 0, shown.output
            assert_harmless(shown)


def test_a_copy_is_published_from_only_if_that_is_allowed(releases: Path) -> None:
    """What the release measures would be kept in the copy, and not in the state that it was copied from."""
    assert call("run in.csv --schema s.toml --epsilon 1 --out mine").exit_code == 0
    for ending in ("state", "state.measured"):  # what was measured belongs to the state
        Path(f"copy.{ending}").write_bytes(Path(f"mine.{ending}").read_bytes())
    os.chmod("copy.state", 0o600)
    refused = call("release copy.state --out w")
    assert refused.exit_code == Exit.STATE
    assert "--allow-copy" in refused.output
    assert not Path("w").exists()
    assert call("release copy.state --out w --allow-copy").exit_code == 0
