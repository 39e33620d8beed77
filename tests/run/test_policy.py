"""Every release says what happened to bad rows when it was made, however that was asked for."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headwater as hw
from headwater.cli.app import app
from headwater.public.card import read_card
from headwater.public.folder import folders
from headwater.public.schema import Schema
from headwater.run import FolderSink, Run, RunConfig

SCHEMA = hw.Schema(x=hw.Number(0, 1))


def policies(out: Path) -> list[str | None]:
    """What the cards in a folder say, the oldest first."""
    return [read_card(folder)["schema"].get("bad_rows") for folder in folders(out)]


def call(*words: object) -> None:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("declared", [None, "stop", "null"])
@pytest.mark.parametrize("given", [None, "stop", "null", "quarantine"])
def test_the_card_says_the_policy_of_the_command(tmp_path: Path, declared: str | None, given: str | None) -> None:
    SCHEMA.with_bad_rows(declared).save(tmp_path / "s.toml")
    (tmp_path / "in.csv").write_text("x\n" + "0.5\n" * 20)
    out, option = tmp_path / "out", ["--bad-rows", given] if given else []
    call("run", tmp_path / "in.csv", "--schema", tmp_path / "s.toml", "--epsilon", 1, "--out", out, *option)
    said = given or declared
    assert policies(out) == [None if said == "stop" and declared is None else said]
    assert hw.Release.load(folders(out)[0]).schema == SCHEMA


def test_it_may_change_during_a_run_and_windows_and_later_releases_say_so(tmp_path: Path) -> None:
    out, state = FolderSink(tmp_path / "out"), tmp_path / "run.state"
    for bad_rows, x in ((None, 0.5), ("null", "bad"), (None, 0.5)):
        with Run.open(RunConfig(SCHEMA, 1.0), out, state=state) as run:
            for _ in range(4):
                run.take({"x": [x, 0.5]}, bad_rows=bad_rows)
            run.publish()
    assert policies(tmp_path / "out") == [None, "null", "stop"]
    call("release", state, "--out", tmp_path / "one")
    call("release", state, "--out", tmp_path / "window", "--last", 5)
    assert policies(tmp_path / "one") == policies(tmp_path / "window") == ["stop"]


def test_a_killed_run_makes_the_same_release_with_the_same_words(tmp_path: Path) -> None:
    """The policy is in the state before the release can be seen."""
    cards = []
    for name in ("whole", "killed"):
        config, state = RunConfig(SCHEMA, 1.0), tmp_path / f"{name}.state"
        run = Run.open(config, FolderSink(tmp_path / name), state=state)
        run.take({"x": ["bad", 0.5]}, bad_rows="null")
        if name == "killed":
            run.store.close()  # type: ignore[union-attr]  # as a kill leaves it
            run = Run.open(config, FolderSink(tmp_path / name), state=state)
        run.publish()
        run.close()
        cards.append(json.dumps(read_card(folders(tmp_path / name)[0])["schema"]))
    assert cards[0] == cards[1]
    assert Schema.from_dict(json.loads(cards[0])).bad_rows == "null"


@pytest.mark.parametrize("name", ["tally", "quarantine", "bad_rows"])
def test_a_position_has_no_name_that_the_run_keeps_something_under(tmp_path: Path, name: str) -> None:
    """A position of a user would be lost, and a release could not say the policy."""
    with Run.open(RunConfig(SCHEMA, 1.0), FolderSink(tmp_path / "out"), state=tmp_path / "run.state") as run:
        run.take({"x": [0.5]}, position={"mine": 1})
        for keep in (lambda at: run.take({"x": [0.5]}, position=at), run.keep_position):
            with pytest.raises(ValueError, match=f"under '{name}': give the position another name"):
                keep({"mine": 2, name: 7})
        assert (run.t, run.position("mine")) == (1, 1)
        run.publish()
    assert policies(tmp_path / "out") == [None]
