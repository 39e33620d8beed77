"""Every command is documented: on its page, in its --help, with an example that works and an exit code for each end."""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
import subprocess
import sys
from importlib import resources
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer.main
from typer.testing import CliRunner

import headwater as hw
from headwater.cli.app import app
from headwater.cli.exit_codes import Exit
from tests.support.nightly import NIGHTLY

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
COMMANDS = [str(command.name) for command in app.registered_commands]


def help_of(name: str) -> str:
    result = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "300"})
    assert result.exit_code == 0
    return str(result.output)


def section_of(name: str) -> str:
    return PAGE.split(f"## headwater {name}\n")[1].split("\n## ")[0]


def example_of(name: str) -> str:
    """The example that --help ends its text with, which it may break over lines."""
    found = re.search(r"^\s+Example: (.*?)\n\s*\n", help_of(name), flags=re.MULTILINE | re.DOTALL)
    assert found, f"headwater {name} --help shows no example"
    return " ".join(found[1].split())


def test_the_page_is_what_the_commands_say() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "write-cli-docs", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_command_has_a_section_and_no_other_has() -> None:
    assert re.findall(r"^## headwater (\S+)$", PAGE, flags=re.MULTILINE) == COMMANDS
    assert list(typer.main.get_command(app).commands) == COMMANDS  # type: ignore[attr-defined]  # a group has them


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_names_exactly_the_options_that_help_names(name: str) -> None:
    helped = set(re.findall(r"^\s+(--[a-z-]+)", help_of(name), flags=re.MULTILINE)) - {"--help"}
    paged = set(re.findall(r"`(--[a-z-]+)[^`]*`", section_of(name)))
    assert paged == helped


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_shows_the_example_of_help(name: str) -> None:
    assert f"```\n{example_of(name)}\n```" in section_of(name)


def test_every_exit_code_is_on_the_page() -> None:
    codes = PAGE.split("## Exit codes")[1]
    assert [int(code) for code in re.findall(r"^\| (\d+) \| \S", codes, flags=re.MULTILINE)] == list(Exit)


def test_the_demonstration_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the first flights; ``HEADWATER_NIGHTLY=1`` takes the whole year, as `make demo` does."""
    bundled = resources.files("headwater")
    with gzip.open(Path(str(bundled)) / "data" / "flights.csv.gz") as file:
        lines = None if NIGHTLY else list(islice(file, 20_501))
    if lines:
        shutil.copytree(str(bundled / "data"), tmp_path / "part" / "data")
        (tmp_path / "part" / "data" / "flights.csv.gz").write_bytes(gzip.compress(b"".join(lines)))
        monkeypatch.setattr("headwater.cli.demo.resources", SimpleNamespace(files=lambda _: tmp_path / "part"))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, shlex.split(example_of("demo"))[1:])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "headwater-demo" / "report.html").stat().st_size > 10_000


def test_every_bundled_flight_is_a_record_of_the_bundled_schema() -> None:
    data = Path(str(resources.files("headwater"))) / "data"
    schema = hw.Schema.load(data / "flights.toml")
    tallies = [schema.encode_batch(table, bad_rows="stop").tally for table in hw.read(data / "flights.csv.gz", schema)]
    assert sum(tally.records for tally in tallies) == 336_776


def test_every_option_that_the_makefile_gives_to_a_command_exists() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group has commands
    given = re.findall(r"bin/headwater (\w+) (.*)", (ROOT / "Makefile").read_text().replace("$(BIN)", "bin"))
    assert {name for name, _ in given} == {"demo", "audit"}
    for name, words in given:
        known = {option for parameter in commands[name].params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", words)) <= known
