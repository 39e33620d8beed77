"""The command line as a user meets it: every command has help with an example that works, every failure its code."""

from __future__ import annotations

import json
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer.main
from typer.testing import CliRunner, Result

import headwater as hw
from headwater.cli.app import app
from headwater.cli.exit_codes import Exit
from headwater.cli.options import integer, number

COMMANDS = ["run", "serve", "token", "release", "report", "ask", "spent", "info", "schema", "evaluate", "audit", "demo"]
SCHEMA = """
headwater = 1
[columns.minutes]
kind = "number"
low = 0
high = 120
[columns.paid]
kind = "category"
values = ["card", "cash"]
[columns.riders]
kind = "integer"
low = 1
high = 6
missing = true
"""


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def trips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with trips.csv and trips.toml, which is the current one."""
    rng = np.random.default_rng(3)
    lines = [
        f"{minutes:.2f},{paid},{riders or ''}"
        for minutes, paid, riders in zip(
            rng.gamma(2, 10, 3000), rng.choice(["card", "cash"], 3000), rng.integers(0, 7, 3000), strict=True
        )
    ]
    (tmp_path / "trips.csv").write_text("minutes,paid,riders\n" + "\n".join(lines) + "\n")
    (tmp_path / "trips.toml").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*more: object) -> Result:
    return call("run", "trips.csv", "--schema", "trips.toml", "--epsilon", "1", "--every", "1000", *more)


def test_every_command_is_listed() -> None:
    assert sorted(COMMANDS) == sorted(str(command.name) for command in app.registered_commands)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_describes_every_option_and_shows_an_example_of_the_command_itself(command: str) -> None:
    text = " ".join(call(command, "-h").output.split())
    assert f"Example: headwater {command}" in text
    group = typer.main.get_command(app)
    for parameter in group.commands[command].params:  # type: ignore[attr-defined]  # a group has commands
        described = " ".join(str(getattr(parameter, "help", None) or "").split())
        assert len(described) > 10, f"{parameter.name} has no help"
        assert described in text


@pytest.mark.parametrize("width", ["80", "200"])
def test_no_line_of_the_list_of_commands_is_cut(width: str) -> None:
    text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": width}).output
    lines = text.split("Commands:")[1].strip().splitlines()
    assert [line.split()[0] for line in lines] == COMMANDS
    assert all(line.endswith(".") and not line.endswith("...") for line in lines)


def example(command: str) -> list[str]:
    """The example in the help of a command, as words."""
    (registered,) = [c for c in app.registered_commands if c.name == command]
    assert registered.callback is not None
    text = " ".join((registered.callback.__doc__ or "").split())
    return shlex.split(text.partition("Example: headwater ")[2])


def test_the_examples_in_the_help_work_one_after_the_other(trips: Path) -> None:
    """As one user would give them: a schema, a run, a look, a window, an evaluation, a page."""
    (trips / "trips.toml").rename(trips / "filled.toml")
    drafted = call(*example("schema"))
    assert drafted.exit_code == 0, drafted.output
    (trips / "filled.toml").replace(trips / "trips.toml")  # the user fills it in
    for command in ("run", "info", "release", "report"):
        done = call(*example(command))
        assert done.exit_code == 0, (command, done.output)
    assert (trips / "report.html").exists()
    words = example("evaluate")
    words = [word.replace("000000010000", "000000003000") for word in words]  # this stream is shorter
    judged = call(*words)
    assert judged.exit_code == 0, judged.output


def test_a_report_of_one_release_names_the_folder_to_give(trips: Path) -> None:
    assert run().exit_code == 0
    for more in ((), ("--against", "trips.csv")):
        refused = call("report", "releases/release-000000003000", *more)
        assert refused.exit_code == Exit.STATE
        assert "give the folder that it is in:" in " ".join(refused.output.split())


def test_a_run_publishes_on_time_and_at_the_end_and_going_on_adds_nothing(trips: Path) -> None:
    first = run("--every", "1300")
    assert first.exit_code == 0, first.output
    names = sorted(path.name for path in (trips / "releases").iterdir())
    assert names == [f"release-{t:012d}" for t in (1300, 2600, 3000)]
    table = pq.read_table(trips / "releases" / names[-1] / "data.parquet")
    assert table.num_rows == 3000
    assert table.column_names == ["minutes", "paid", "riders"]
    assert [str(kind) for kind in table.schema.types] == ["double", "string", "int64"]
    again = run("--every", "1300")
    assert again.exit_code == 0
    assert "going on from record 3,000" in again.output
    assert sorted(path.name for path in (trips / "releases").iterdir()) == names


def test_a_window_far_from_what_was_asked_says_how_many_and_why(trips: Path) -> None:
    assert run().exit_code == 0
    for words, wanted in (("--last 2", 2), ("--since 2990", 10), ("--last 3000", 3000), ("--since 0", 3000)):
        done = call("release", "releases.state", "--out", f"windows{wanted}", *words.split())
        (folder,) = Path(f"windows{wanted}").iterdir()
        start, end = json.loads((folder / "card.json").read_text())["span"]
        said = f"that is {end - start} records, not {wanted}: a window begins where a bucket"
        assert (said in " ".join(done.output.split())) == (wanted < 3000), done.output
        assert end == 3000 >= start + wanted


def test_a_release_is_not_published_again_in_another_format(trips: Path) -> None:
    assert run().exit_code == 0
    window = ("release", "releases.state", "--out", "windows", "--last", "500")
    assert call(*window).exit_code == call(*window).exit_code == 0
    refused = call(*window, "--format", "csv")
    assert refused.exit_code != 0
    assert "in another format or so long ago" in " ".join(refused.output.split())
    (folder,) = (trips / "windows").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["card.json", "data.parquet", "measured.parquet"]


@pytest.mark.slow
def test_evaluation_says_first_that_it_is_not_private(trips: Path) -> None:
    assert run().exit_code == 0
    arguments = ("evaluate", "trips.csv", "releases/release-000000001000", "--schema", "trips.toml")
    done = call(*arguments)
    assert done.output.lstrip().startswith("NOT PRIVATE")
    found = json.loads(call(*arguments, "--json").stdout)
    assert found["warning"].startswith("NOT PRIVATE")
    assert len(found["columns"]) > 1
    assert found["w1"] is None or 0 < found["w1"]["value"] < 0.2


def test_standard_input_is_read(trips: Path) -> None:
    text = (trips / "trips.csv").read_bytes()
    done = CliRunner().invoke(app, shlex.split("run - --schema trips.toml --epsilon 1 --every 1000"), input=text)
    assert done.exit_code == 0, done.output
    assert len(list((trips / "releases").iterdir())) == 3


def test_info_of_a_state_shows_what_is_public_and_keeps_the_key(trips: Path) -> None:
    assert run().exit_code == 0
    done = call("info", "releases.state", "--plan")
    assert done.exit_code == 0, done.output
    assert "3,000" in done.output
    assert "cascade, d = 3, ε = 1" in done.output
    assert "key" not in done.output


@pytest.mark.parametrize(
    ("arguments", "code", "say"),
    [
        ("run nowhere.csv --schema trips.toml --epsilon 1", Exit.FILES, "nowhere.csv"),
        ("run trips.csv --schema nowhere.toml --epsilon 1", Exit.FILES, "nowhere.toml"),
        ("run trips.csv --schema bad.toml --epsilon 1", Exit.SCHEMA, '"minutes"'),
        ("run trips.csv --schema trips.toml --epsilon -1", Exit.USAGE, "epsilon"),
        ("run trips.csv --schema trips.toml --epsilon 1 --every soon", Exit.USAGE, "15min"),
        ("run trips.csv --schema trips.toml --epsilon 1 --format xls", Exit.USAGE, "parquet"),
        ("run trips.csv --schema trips.toml --epsilon 1 --mechanism best", Exit.USAGE, "cascade"),
        ("run trips.csv --schema trips.toml", Exit.USAGE, "--epsilon"),
        ("run wrong.csv --schema trips.toml --epsilon 1", Exit.INPUT, "line 3"),
        ("release nowhere.state", Exit.STATE, "nowhere.state"),
        ("info nowhere", Exit.FILES, "nowhere"),
        ("info trips.csv", Exit.USAGE, "neither a release"),
        ("report nowhere", Exit.FILES, "nowhere"),
        ("evaluate trips.csv --schema trips.toml", Exit.USAGE, "synthetic"),
        ("schema nowhere.csv", Exit.FILES, "nowhere.csv"),
        ("evaluate trips.csv nowhere.csv", Exit.FILES, "nowhere.csv"),
        ("evaluate nowhere.csv trips.csv --schema trips.toml", Exit.FILES, "nowhere.csv"),
    ],
)
def test_what_is_wrong_has_its_exit_code_and_is_named(trips: Path, arguments: str, code: Exit, say: str) -> None:
    (trips / "bad.toml").write_text(SCHEMA.replace("high = 120", ""))
    (trips / "wrong.csv").write_text("minutes,paid,riders\n1,card,1\nplenty,cash,2\n")
    done = CliRunner().invoke(app, shlex.split(arguments))
    assert done.exit_code == code, done.output
    assert say in " ".join(done.output.split())
    assert "Traceback" not in done.output
    assert "plenty" not in done.output


def test_a_draft_never_overwrites_a_schema(trips: Path) -> None:
    done = call("schema", "trips.csv", "--out", "trips.toml")
    assert done.exit_code == Exit.FILES
    assert (trips / "trips.toml").read_text() == SCHEMA


def test_a_draft_with_values_is_its_owners_alone(trips: Path) -> None:
    done = call("schema", "trips.csv", "--out", "draft.toml", "--values")
    assert done.exit_code == Exit.DONE
    assert '# values = ["card", "cash"]' in (trips / "draft.toml").read_text()
    assert stat.S_IMODE((trips / "draft.toml").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: int("a secret"),
        lambda: pa.array(["a secret"]).cast("int64"),
        lambda: bytes([255]).decode(),
        lambda: dict[str, int]()["a person's secret"],
    ],
    ids=["Python", "Arrow", "text", "no value error"],
)
def test_an_error_that_is_none_of_ours_does_not_print_what_it_says(
    trips: Path, monkeypatch: pytest.MonkeyPatch, wrong: Callable[[], object]
) -> None:
    """Arrow and Python put values into theirs; ours name options."""
    monkeypatch.setattr("headwater.run.run.Run._count", lambda *_: wrong())
    done = run()
    assert done.exit_code == Exit.BUG, done.output
    assert "secret" not in done.output.replace("is secret", "")
    assert "0xff" not in done.output


def test_a_folder_holds_the_releases_of_one_run(trips: Path) -> None:
    """Two runs on the same records cost the sum of their ε, which no card would say."""
    assert run().exit_code == 0
    before = {path: path.read_bytes() for path in (trips / "releases").rglob("*") if path.is_file()}
    other = run("--state", "other.state")
    assert other.exit_code == Exit.STATE
    assert "another run" in " ".join(other.output.split())
    assert not (trips / "other.state").exists()
    assert call("release", "releases.state", "--last", "500").exit_code == 0
    assert all(path.read_bytes() == data for path, data in before.items())


def test_a_first_try_that_failed_does_not_stand_in_the_way_of_a_better_schema(trips: Path) -> None:
    good = (trips / "trips.toml").read_text()
    (trips / "trips.toml").write_text(good.replace("missing = true", ""))
    assert run().exit_code == Exit.INPUT
    (trips / "trips.toml").write_text(good)
    done = run()
    assert done.exit_code == 0, done.output


def test_a_newer_state_that_its_owner_saves_while_a_release_is_made_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    synth = hw.Synthesizer(hw.unit_cube(1), epsilon=1.0, seed=1)
    synth.update([[0.1], [0.2]])
    synth.save("python.hw")
    load = hw.Synthesizer.load

    def racing(path: Path) -> hw.Synthesizer:
        found = load(path)
        synth.update([[0.3]])
        synth.save(path)
        return found

    monkeypatch.setattr(hw.Synthesizer, "load", racing)
    refused = call("release", "python.hw", "--out", "out")
    assert refused.exit_code == Exit.STATE
    assert "since it was read" in " ".join(refused.output.split())
    assert load("python.hw").t == 3
    assert not list(tmp_path.glob("out/release-*"))


def test_what_python_saved_can_be_looked_at_and_published_from(trips: Path) -> None:
    synth = hw.Synthesizer(hw.Schema.load("trips.toml"), epsilon=1.0)
    for table in hw.read("trips.csv", synth.schema):
        synth.update(table)
    synth.save("python.hw")
    synth.release().save("release.hw")
    assert "3,000" in call("info", "python.hw").output
    assert "3,000 records" in call("info", "release.hw").output
    assert call("release", "python.hw", "--out", "mine").exit_code == 0


def test_a_window_is_evaluated_against_the_records_that_it_is_about(trips: Path) -> None:
    assert run().exit_code == 0
    assert call("release", "releases.state", "--out", "windows", "--last", "500").exit_code == 0
    (folder,) = (trips / "windows").iterdir()
    found = json.loads(call("evaluate", "trips.csv", folder, "--schema", "trips.toml", "--json").stdout)
    assert found["rows"]["real"] == found["rows"]["synthetic"] < 3000


def test_a_run_imports_neither_pandas_nor_polars(trips: Path) -> None:
    """They take a good part of a second to import, and not everybody has them. (Arrow asks for pandas at gaps.)"""
    (trips / "trips.toml").write_text("ignore_extra = true\n" + SCHEMA.partition("[columns.riders]")[0])
    code = """if True:
        import sys
        from headwater.cli.__main__ import main
        try:
            main()
        finally:
            print({"pandas", "polars"} & set(sys.modules))
    """
    words = ["run", "trips.csv", "--schema", "trips.toml", "--epsilon", "1"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("set()")


def test_every_number_of_an_option_is_refused_with_the_way_to_write_it() -> None:
    """Whatever the type: the parser of options says neither what is allowed nor how."""
    found = 0
    for command in app.registered_commands:
        assert command.callback is not None
        for name, hint in get_type_hints(command.callback, include_extras=True).items():
            if "option" in str(hint).lower() and re.search(r"\b(int|float)\b", str(get_args(hint)[0])):
                assert get_args(hint)[1].parser in (integer, number), f"{command.name} {name}"
                found += 1
    assert found > 15


@pytest.mark.parametrize("words", ["--expect 1e4", "--expect 15k", "--window 1e3", "--seed x", "--epsilon 1,5"])
def test_a_number_that_is_none_is_named_with_its_option_and_a_remedy(trips: Path, words: str) -> None:
    refused = call("run", "trips.csv", "--schema", "trips.toml", "--epsilon", "1", *words.split())
    assert refused.exit_code == Exit.USAGE
    option, given = words.split()
    said = " ".join(refused.output.split())
    assert option in said
    assert re.search(rf"write a .*number .*such as .*, not '{given}'", said)


@pytest.mark.parametrize("given", ["500", "5_00", "1,500"])
def test_numbers_of_records_may_be_grouped(trips: Path, given: str) -> None:
    words = ("run", "trips.csv", "--schema", "trips.toml", "--epsilon", "1", "--every", "3000", "--window", given)
    assert call(*words).exit_code == 0
    assert Path(f"releases/last-{integer(given)}").is_dir()
