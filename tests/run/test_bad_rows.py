"""Bad rows in a run: never lost, never twice, never published, and in the operator's tally."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from headwater.run.durable import DurableSynthesizer

from headwater import Number, Schema, TableError
from headwater.run import FolderSink, Run, RunConfig, feed
from headwater.secret.read.source import open_source

SCHEMA = Schema(x=Number(0, 0.1), y=Number(0, 1, missing=True))
TEXT = "x,y\n0.05,0.5\noops,north\n0.5,\n\n0.01,1\n"


def run_in(folder: Path) -> Run:
    return Run.open(RunConfig(SCHEMA, 1.0, seed=1), FolderSink(folder / "out"), state=folder / "run.state")


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
    assert quarantined(tmp_path) == ["oops,north", ""]
    assert (tmp_path / "run.state.bad-rows.jsonl").stat().st_mode & 0o777 == 0o600
    cards = [path.read_text().replace('"bad_rows": "quarantine"', "") for path in tmp_path.rglob("out/**/card.json")]
    assert cards
    assert all(word not in card for card in cards for word in ("clipped", "tally", "bad", "oops"))


def test_a_bad_row_is_in_the_quarantine_once_whatever_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the quarantine and the state: the rows are read again, and are there once."""
    (tmp_path / "in.csv").write_text("x,y\n" + "".join(f"0.05,0.5\nbad {n},1\n" for n in range(6)))

    def killed(*_: object) -> int:
        raise KeyboardInterrupt

    for batch_rows in (4, 3, 2):
        with monkeypatch.context() as patch, run_in(tmp_path) as run:
            patch.setattr(DurableSynthesizer, "keep", killed)
            with pytest.raises(KeyboardInterrupt):
                read_in(tmp_path, run, "quarantine", batch_rows=batch_rows)
    with run_in(tmp_path) as run:
        read_in(tmp_path, run, "quarantine", batch_rows=5)
        assert run.t == 12
    assert quarantined(tmp_path) == [f"bad {n},1" for n in range(6)]


def test_a_quarantine_that_was_taken_away_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("x,y\nbad 1,1\n")
    with run_in(tmp_path) as run:
        read_in(tmp_path, run, "quarantine")
        os.rename(tmp_path / "run.state.bad-rows.jsonl", tmp_path / "seen.jsonl")
        with open(tmp_path / "in.csv", "a") as file:
            file.write("bad 2,1\n")
        read_in(tmp_path, run, "quarantine")
    assert quarantined(tmp_path) == ["bad 2,1"]


def test_tables_can_be_put_in_quarantine_as_well(tmp_path: Path) -> None:
    with run_in(tmp_path) as run:
        run.take({"x": [0.05, None], "y": [0.5, 0.25]}, bad_rows="quarantine")
        run.take([{"x": 1}], bad_rows="quarantine")
        assert (run.t, run.tally.bad) == (3, 2)
    assert [json.loads(text) for text in quarantined(tmp_path)] == [{"x": None, "y": 0.25}, {"x": 1}]


def test_without_a_state_there_is_no_quarantine(tmp_path: Path) -> None:
    with Run.open(RunConfig(SCHEMA, 1.0, seed=1), FolderSink(tmp_path / "out")) as run:
        with pytest.raises(ValueError, match="only beside a state"):
            run.take({"x": [0.05], "y": [0.5]}, bad_rows="quarantine")
        run.take({"x": [None], "y": [0.5]}, bad_rows="null")
        assert (run.t, run.tally.bad) == (1, 1)
