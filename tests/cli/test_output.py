"""Options of the command line about what comes out: limits, windows, the mechanism, and what can be expected."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import headwater as hw
from headwater.cli.app import app
from headwater.cli.exit_codes import Exit
from headwater.public.folder import folders, has_table, read_card

WIDE = hw.Schema({f"c{i}": hw.Category(*map(str, range(20))) for i in range(6)})
NARROW = hw.Schema(x=hw.Number(0, 1))


def call(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    NARROW.save("narrow.toml")
    WIDE.save("wide.toml")
    rng = np.random.default_rng(0)
    Path("narrow.csv").write_text("x\n" + "".join(f"{value:.6f}\n" for value in rng.random(1000)))
    rows = rng.integers(0, 20, size=(400, 6))
    lines = [",".join(map(str, row)) for row in [WIDE.names, *rows.tolist()]]
    Path("wide.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def run(kind: str, *more: object) -> Result:
    return call("run", f"{kind}.csv", "--schema", f"{kind}.toml", "--epsilon", 1, "--every", 200, *more)


def test_rows_keep_and_window_bound_what_a_run_leaves_on_the_disk(here: Path) -> None:
    done = run("narrow", "--rows", "1_00", "--keep", 2, "--window", 300, "--window", 50)
    assert done.exit_code == 0, done.output
    for folder in ("releases", "releases/last-300", "releases/last-50"):
        places = folders(folder)
        assert [has_table(place) for place in places] == [False, False, False, True, True]
        assert all(read_card(place)["rows"] <= 100 for place in places)
    listed = call("info", "releases")
    assert listed.output.count("removed") == 3
    assert call("report", "releases").exit_code == 0
    gone = call("evaluate", "narrow.csv", folders("releases")[0], "--schema", "narrow.toml")
    assert gone.exit_code not in (Exit.DONE, Exit.BUG), gone.output
    shown = call("info", folders("releases")[-1])
    assert "sample" in shown.output
    whole = call("release", "releases.state", "--out", "whole")
    assert whole.exit_code == 0, whole.output
    assert read_card(folders("whole")[0])["rows"] == 1000


@pytest.mark.parametrize("words", [("--rows", "0"), ("--keep", "few"), ("--window", "0")])
def test_limits_that_are_none_are_refused_and_nothing_begins(here: Path, words: tuple[str, str]) -> None:
    refused = run("narrow", *words)
    assert refused.exit_code == Exit.USAGE, refused.output
    assert not Path("releases.state").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--expect 0", "--expect must be"),
        ("--person who --records-per-person 0", "--records-per-person must be"),
        ("--person who --records-per-person 3 --person-period 1x", "--person-period must be"),
        ("--person who --records-per-person 3 --null-person ignore", "--null-person must be"),
        (
            "--person who --records-per-person 3 --records-per-bucket 4",
            "--records-per-bucket (4) must not be above --records-per-person (3)",
        ),
    ],
)
def test_an_option_is_refused_by_its_own_name(here: Path, words: str, said: str) -> None:
    refused = run("narrow", *words.split())
    assert refused.exit_code == Exit.USAGE, refused.output
    assert f"error: {said}" in " ".join(refused.output.split())
    assert not Path("releases.state").exists()


@pytest.mark.parametrize(("kind", "mechanism"), [("narrow", "cascade"), ("wide", "marginals")])
def test_the_mechanism_and_why_it_was_chosen_are_told_everywhere(here: Path, kind: str, mechanism: str) -> None:
    began = run(kind)
    assert began.exit_code == 0, began.output
    assert f"mechanism: {mechanism} (" in began.output
    assert "column" in began.output
    state = call("info", "releases.state").output
    assert mechanism in state
    assert "more accurate" in state
    card = json.loads((folders("releases")[0] / "card.json").read_text())
    assert card["mechanism"] == mechanism
    assert "more accurate" in card["mechanism_reason"]
    assert run(kind, "--mechanism", "auto").exit_code == 0
    other = run(kind, "--mechanism", "paper")
    assert other.exit_code == Exit.STATE


def test_a_schema_for_which_nothing_can_be_good_is_warned_of_with_numbers(here: Path) -> None:
    done = run("wide", "--expect", 400)
    assert done.exit_code == 0
    assert "warning: 400 records of 6 columns at ε = 1 (marginals)" in done.output
    assert "records on" in done.output
    assert done.output.count("the release of 200 records says little") == 1
    fine = run("narrow", "--expect", 100_000, "--out", "other")
    assert "warning" not in fine.output
    assert "100,000 records of 1 column at ε = 1 (cascade): W1 about" in fine.output


def test_a_run_goes_on_with_what_it_was_told_to_expect_and_says_so(here: Path) -> None:
    assert run("wide", "--expect", 400).exit_code == 0
    assert "expect     400 records" in call("info", "releases.state").output
    assert run("wide").exit_code == 0
    other = run("wide", "--expect", 500)
    assert other.exit_code == Exit.STATE
    assert "another expect (--expect 400);" in " ".join(other.output.split())
    assert run("wide", "--out", "unplanned", "--again").exit_code == 0
    assert "expect" not in call("info", "unplanned.state").output
    late = run("wide", "--out", "unplanned", "--expect", 500)
    assert late.exit_code == Exit.STATE
    assert "another expect (none: leave out --expect);" in " ".join(late.output.split())


def test_the_operator_is_told_what_was_clipped_unlisted_missing_or_bad_and_nobody_else(tmp_path: Path) -> None:
    """At the end of the run and by ``info`` of the state, marked as secret; no release says it."""
    schema = {"x": hw.Number(0, 0.1), "kind": hw.Category("a", "b", other="b"), "n": hw.Integer(0, 9, missing=True)}
    hw.Schema(schema).save(tmp_path / "s.toml")
    lines = ["x,kind,n", *(f"{i / 100},{'abcd'[i % 4]},{'' if i % 5 == 0 else i % 10}" for i in range(100)), "oops,a,1"]
    (tmp_path / "in.csv").write_text("\n".join([*lines, ""]))
    command = ["run", tmp_path / "in.csv", "--schema", tmp_path / "s.toml", "--epsilon", 1, "--out", tmp_path / "out"]
    refused = call(*command)
    assert refused.exit_code == Exit.INPUT
    assert "line 102" in refused.output
    assert "--bad-rows null or quarantine" in " ".join(refused.output.split())
    done, told = call(*command, "--bad-rows", "quarantine"), call("info", tmp_path / "out.state")
    for output in (done.output, told.output):
        said = " ".join(output.split())
        assert "secret, counted without noise" in said
        assert "1 of 101 rows were bad" in said
        assert "line 102" in said
        assert "x: 89 clipped (88%), 1 bad" in said
        assert "kind: 50 unlisted (50%)" in said
        assert "n: 20 missing (20%)" in said
        assert "oops" not in said
    quarantine = tmp_path / "out.state.bad-rows.jsonl"
    assert quarantine.stat().st_mode & 0o077 == 0
    assert "oops,a,1" in quarantine.read_text()
    assert quarantine.name in done.output.replace("\n", "")
    published = call("info", tmp_path / "out").output + (folders(tmp_path / "out")[0] / "card.json").read_text()
    assert not any(word in published for word in ("clipped", "unlisted", "rows were bad", "oops"))
