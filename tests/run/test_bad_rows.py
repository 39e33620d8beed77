"""Bad rows in a run: never lost, never twice, in the operator's tally, and of them only the policy is published."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headwater import Number, Schema, TableError
from headwater.cli.app import app
from headwater.public.folder import folders, read_card
from headwater.run import Run, feed, measured_beside
from headwater.run.measured import Moment
from headwater.run.state import State
from headwater.secret.read.source import open_source
from tests.support.kept_runs import kill, open_run

SCHEMA = Schema(x=Number(0, 0.1), y=Number(0, 1, missing=True))
TEXT = "x,y\n0.05,0.5\noops,north\n0.5,\n\n0.01,1\n"


def run_in(folder: Path, **more: Any) -> Run:  # noqa: ANN401 - options
    return open_run(folder, schema=SCHEMA, **more)


def read_in(folder: Path, run: Run, policy: str, **options: int) -> None:
    with open_source(folder / "in.csv", SCHEMA, run.position("input"), bad_rows=policy, **options) as source:
        feed(run, source, bad_rows=policy)


def quarantined(folder: Path) -> list[str]:
    path = folder / "run.state.bad-rows.jsonl"
    return [json.loads(line)["text"] for line in path.read_text().splitlines()] if path.exists() else []


def test_stop_names_the_way_out_and_then_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(TEXT)
    with run_in(tmp_path) as run:
        with pytest.raises(TableError, match="--bad-rows null or quarantine"):
            read_in(tmp_path, run, "stop", batch_rows=1)
        assert run.t == 1
        read_in(tmp_path, run, "null")
        assert run.t == 5
        assert run.tally.bad == 2
        assert run.tally.columns == {"x": {"clipped": 1, "bad": 1}, "y": {"missing": 1}}
        assert 'in.csv, line 3, column "x": text that is not a number' in run.tally.first_bad
    assert quarantined(tmp_path) == []


def test_quarantine_is_secret_and_nothing_of_it_is_published(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(TEXT)
    with run_in(tmp_path) as run:
        read_in(tmp_path, run, "quarantine")
        assert run.t == 5
        run.take({"x": [0.05, None], "y": [0.5, 0.25]}, bad_rows="quarantine")  # tables as well
        run.take([{"x": 1}], bad_rows="quarantine")
        assert (run.t, run.tally.bad) == (8, 4)
    assert quarantined(tmp_path) == ["oops,north", "", '{"x": null, "y": 0.25}', '{"x": 1}']
    assert (tmp_path / "run.state.bad-rows.jsonl").stat().st_mode & 0o777 == 0o600
    seen = [path.read_bytes() for path in [*tmp_path.rglob("out/**/card.json"), *tmp_path.glob("*.measured")]]
    assert len(seen) == 2
    for text in (one.replace(b'"bad_rows": "quarantine"', b"") for one in seen):
        assert all(word not in text for word in (b"clipped", b"tally", b"bad", b"oops"))


def test_a_bad_row_is_in_the_quarantine_once_whatever_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the quarantine and the state: the rows are read again and are there once. If taken away: anew."""
    (tmp_path / "in.csv").write_text("x,y\n" + "".join(f"0.05,0.5\nbad {n},1\n" for n in range(6)))

    append = State.append

    def killed(state: State, batch: object, *more: Any) -> None:  # noqa: ANN401 - as there
        if batch is not None:
            raise KeyboardInterrupt
        append(state, None, *more)

    for batch_rows in (4, 3, 2):
        run = run_in(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(State, "append", killed)
            with pytest.raises(KeyboardInterrupt):
                read_in(tmp_path, run, "quarantine", batch_rows=batch_rows)
        kill(run)
    with run_in(tmp_path) as run:
        read_in(tmp_path, run, "quarantine", batch_rows=5)
        assert run.t == 12
        assert quarantined(tmp_path) == [f"bad {n},1" for n in range(6)]
        os.rename(tmp_path / "run.state.bad-rows.jsonl", tmp_path / "seen.jsonl")
        with open(tmp_path / "in.csv", "a") as file:
            file.write("bad 6,1\n")
        read_in(tmp_path, run, "quarantine")
    assert quarantined(tmp_path) == ["bad 6,1"]


def test_without_a_state_there_is_no_quarantine(tmp_path: Path) -> None:
    with run_in(tmp_path, state=None) as run:
        with pytest.raises(ValueError, match="only with a state"):
            run.take({"x": [0.05], "y": [0.5]}, bad_rows="quarantine")
        run.take({"x": [None], "y": [0.5]}, bad_rows="null")
        assert (run.t, run.tally.bad) == (1, 1)


# ---- every release says the policy


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
    (tmp_path / "in.csv").write_text("x,y\n" + "0.5,0.5\n" * 20)
    out, option = tmp_path / "out", ["--bad-rows", given] if given else []
    call("run", tmp_path / "in.csv", "--schema", tmp_path / "s.toml", "--epsilon", 1, "--out", out, *option)
    said = given or declared
    assert policies(out) == [None if said == "stop" and declared is None else said]


def test_it_may_change_during_a_run_and_a_killed_one_says_the_same(tmp_path: Path) -> None:
    """The policy is in the state before the release can be seen, and in what other processes read."""
    for bad_rows, x in ((None, 0.5), ("null", "bad"), (None, 0.5)):
        run = run_in(tmp_path)
        for _ in range(4):
            run.take({"x": [x, 0.05], "y": [1, 1]}, bad_rows=bad_rows)
        kill(run)
        with run_in(tmp_path) as run:
            run.publish()
            run.encoder("null")  # from now on, with no record since
            run.release()
            assert Moment.read(measured_beside(tmp_path / "run.state")).release().schema.to_dict()["bad_rows"] == "null"
            run.encoder(bad_rows)
    assert policies(tmp_path / "out") == [None, "null", "stop"]
    call("release", tmp_path / "run.state", "--out", tmp_path / "window", "--last", 5)
    assert policies(tmp_path / "window") == ["stop"]


@pytest.mark.parametrize("name", ["tally", "quarantine", "bad_rows"])
def test_a_position_has_no_name_that_the_run_keeps_something_under(tmp_path: Path, name: str) -> None:
    """A position of a user would be lost, and a release could not say the policy."""
    with run_in(tmp_path) as run:
        run.take({"x": [0.5], "y": [1]}, position={"mine": 1})
        for keep in (lambda at: run.take({"x": [0.5], "y": [1]}, position=at), run.keep_position):
            with pytest.raises(ValueError, match=f"under '{name}': give the position another name"):
                keep({"mine": 2, name: 7})
        assert (run.t, run.position("mine")) == (1, 1)
