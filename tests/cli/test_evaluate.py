"""`evaluate` and `report` read as the schema on the card declares, and say what bounds cut."""

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headwater.cli.app import app
from headwater.cli.exit_codes import Exit

SCHEMA = """
headwater = 1
input_format = "csv"
delimiter = ";"
ignore_extra = true
columns.x = {kind = "number", low = 0, high = 0.1}
columns.town = {kind = "category", values = ["a", "b"]}
"""


def call(line: str) -> Result:
    return CliRunner().invoke(app, shlex.split(line))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run on a file of odd ways: semicolons, no ending that says CSV, a column too many, values beyond bounds."""
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(SCHEMA)
    rows = [f"{i / 100};{'ab'[i % 2]};extra" for i in range(100)]
    Path("in.txt").write_text("\n".join(["x;town;more", *rows]) + "\n")
    done = call("run in.txt --schema s.toml --epsilon 1 --every 50 --seed 1")
    assert done.exit_code == 0, done.output
    return tmp_path


def test_the_schema_comes_from_the_card_and_files_are_read_as_by_run(place: Path) -> None:
    done = call("evaluate in.txt releases/release-000000000100 --json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["rows"] == {"real": 100, "synthetic": 100}
    assert found["bounds_that_cut"] == pytest.approx({"x": 0.89})
    assert found["pairs"][0]["columns"] == ["x", "town"]
    printed = call("evaluate in.txt releases/release-000000000100").stdout
    assert "BOUNDS CUT" in printed
    assert "ranges and categories" in printed


def test_too_few_real_records_are_said_first(place: Path) -> None:
    lines = Path("in.txt").read_text().splitlines()
    Path("few.txt").write_text("\n".join(lines[:61]) + "\n")
    said = "TOO FEW REAL RECORDS: the release is about records 1 to 100, and only 60 were given."
    done = call("evaluate few.txt releases/release-000000000100")
    assert done.exit_code == 0, done.output
    assert said in " ".join(done.stdout.split()[:40])
    found = json.loads(call("evaluate few.txt releases/release-000000000100 --json").stdout)
    assert found["shortage"].startswith(said)
    assert list(found)[:2] == ["warning", "shortage"]
    for enough in ("in.txt releases/release-000000000100", "few.txt releases/release-000000000050"):
        assert "TOO FEW" not in call(f"evaluate {enough}").stdout


def test_a_report_says_that_real_records_are_missing(place: Path) -> None:
    lines = Path("in.txt").read_text().splitlines()
    Path("few.txt").write_text("\n".join(lines[:61]) + "\n")
    done = call("report releases --against few.txt")
    assert "fewer real records than the last release is about" in " ".join(done.output.split())
    said = "TOO FEW REAL RECORDS: the last release is about records 1 to 100, and only 60 were given."
    assert said in Path("report.html").read_text()
    done = call("report releases --against in.txt")
    assert "fewer real records" not in done.output
    assert "TOO FEW" not in Path("report.html").read_text()


def test_real_rows_that_are_no_records_are_said_first(place: Path) -> None:
    """A file that is read otherwise than by the run: nearly all rows are bad, and left out."""
    lines = Path("in.txt").read_text().splitlines()
    Path("odd.txt").write_text("\n".join([*lines[:31], *(line.replace(";", "|") for line in lines[31:])]) + "\n")
    said = "TOO FEW REAL RECORDS: of 100 rows only 30 are records"
    reading = "--bad-rows null"
    printed = call(f"evaluate odd.txt releases/release-000000000100 {reading}").stdout
    assert said in " ".join(printed.split())
    done = call(f"report releases --against odd.txt {reading}")
    assert done.exit_code == 0, done.output
    assert said in Path("report.html").read_text()


def test_files_that_are_no_release_need_a_schema(place: Path) -> None:
    done = call("evaluate in.txt in.txt")
    assert done.exit_code == Exit.USAGE
    assert "--schema" in done.output
    done = call("evaluate in.txt releases")
    assert done.exit_code == Exit.USAGE
    assert "name one of them, such as releases/release-000000000100" in done.output.replace("\n", "")


def test_a_report_is_named_and_public_only_beside_real_data(place: Path) -> None:
    done = call("report releases --against in.txt --public --name Towns")
    assert done.exit_code == 0, done.output
    assert "NOT PRIVATE" not in done.output
    page = Path("report.html").read_text()
    assert '"data":"Towns"' in page
    assert "NOT PRIVATE" in call("report releases --against in.txt").output
    assert call("report releases --public").exit_code == Exit.USAGE


def test_bad_rows_are_left_out_as_the_run_did_without_saying_it_again(place: Path) -> None:
    """The card says the policy."""
    Path("bad.txt").write_text(Path("in.txt").read_text() + "oops;a;extra\n")
    done = call("run bad.txt --schema s.toml --epsilon 1 --out out --seed 1 --bad-rows null")
    assert done.exit_code == 0, done.output
    for command in ("evaluate bad.txt out/release-000000000101", "report out --against bad.txt"):
        compared = call(f"{command}")
        assert compared.exit_code == 0, compared.output
        refused = call(f"{command} --bad-rows stop")
        assert refused.exit_code == Exit.INPUT


def test_releases_of_one_run_are_drawn_together_though_its_policy_changed(place: Path) -> None:
    Path("in.txt").write_text(Path("in.txt").read_text() + "oops;a;extra\n" + "0.05;b;extra\n" * 49)
    assert call("run in.txt --schema s.toml --epsilon 1 --every 50 --seed 1").exit_code == Exit.INPUT
    done = call("run in.txt --schema s.toml --epsilon 1 --every 50 --seed 1 --bad-rows null")
    assert done.exit_code == 0, done.output
    cards = [json.loads(path.read_text()) for path in sorted(Path("releases").glob("*/card.json"))]
    assert [card["schema"].get("bad_rows") for card in cards] == [None, None, "null"]
    drawn = call("report releases --against in.txt")
    assert drawn.exit_code == 0, drawn.output


def test_files_with_a_column_of_people_are_compared_as_they_are(place: Path) -> None:
    """Such a column is in no schema; other columns that the run left out are no reason to refuse a file either."""
    Path("p.toml").write_text('headwater = 1\ncolumns.x = {kind = "number", low = 0, high = 1}\n')
    Path("people.csv").write_text("x,who\n" + "".join(f"{i % 97 / 97},{i % 40}\n" for i in range(200)))
    person = "--person who --records-per-person 5"
    done = call(f"run people.csv --schema p.toml --epsilon 1 --out others {person}")
    assert done.exit_code == 0, done.output
    for command in ("evaluate people.csv others/release-000000000200", "report others --against people.csv"):
        compared = call(command)
        assert compared.exit_code == 0, compared.output
