"""Looking into a run that is under way: its owner answers, and nobody else touches the state."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from headwater.run.requests import OwnerGoneError, request_release, request_status

import headwater as hw
from headwater.public.folder import folders
from headwater.run import FolderSink, Run, RunConfig, answer_requests
from headwater.run.lock import StateInUseError, StoreError

SCHEMA = hw.Schema(x=hw.Number(0, 1))


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run.open(RunConfig(SCHEMA, 1.0, seed=1), FolderSink(tmp_path / "out"), state=tmp_path / "run.state") as run:
        run.take({"x": np.random.default_rng(0).random(1000)})
        yield run


def asked(run: Run, question: Callable[[], Any], owner: Callable[[], None] | None = None) -> Any:  # noqa: ANN401
    """The answer, or the error, of a question that another thread asks while the owner goes on."""
    found: list[Any] = []

    def ask() -> None:
        try:
            found.append(question())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    deadline = time.monotonic() + 120  # longer than anybody waits for an answer
    while thread.is_alive() and time.monotonic() < deadline:
        (owner or (lambda: answer_requests(run)))()
        time.sleep(0.01)
    thread.join()
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


def test_the_owner_says_how_far_it_is(run: Run, tmp_path: Path) -> None:
    run.take({"x": [0.5, 7.0]})  # one is clipped
    status, tally = asked(run, lambda: request_status(tmp_path / "run.state", plan=True))
    assert tally == run.tally
    assert tally.columns
    assert (status["records"], status["mechanism"]) == ("1,002", "cascade")
    assert status["guarantee"] == str(run.synth.guarantee)
    assert "cascade" in status["plan"]
    assert not (tmp_path / "run.state.requests").exists()


def test_whoever_asks_while_another_one_tidies_up_is_answered(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of requests is removed by whoever had the last answer, perhaps just before the next request."""
    folder, open_, gone = tmp_path / "run.state.requests", os.open, list[str]()

    def opened(path: str, *more: int) -> int:
        if str(path).endswith(".new") and len(gone) < 3:
            gone.append(str(path))
            folder.rmdir()
        return open_(path, *more)

    monkeypatch.setattr("headwater.run.requests.os.open", opened)
    status, _ = asked(run, lambda: request_status(tmp_path / "run.state"))
    assert (status["records"], len(gone)) == ("1,000", 3)


def test_the_owner_publishes_what_it_would_have_published_itself(run: Run, tmp_path: Path) -> None:
    sink = FolderSink(tmp_path / "windows", "csv", rows=50)
    place, text = asked(run, lambda: request_release(tmp_path / "run.state", sink, last=100))
    synth = hw.Synthesizer(SCHEMA, epsilon=1.0, seed=1)
    synth.update({"x": np.random.default_rng(0).random(1000)})
    expected = synth.release(last=100)
    found = hw.Release.load(place)
    assert found.span == expected.span
    assert len(found) == 50
    assert found.sample(kind="columns")["x"].tolist() == expected.sample(50, kind="columns")["x"].tolist()
    assert "to 1,000" in text
    assert run.store is not None
    assert run.store.noted("measured_by") is not None
    assert str(tmp_path / "windows") in run.store.noted("sinks")


def test_what_the_owner_refuses_is_an_error_of_the_same_kind_and_the_run_goes_on(run: Run, tmp_path: Path) -> None:
    state = tmp_path / "run.state"
    with pytest.raises(ValueError, match="since must lie between"):
        asked(run, lambda: request_release(state, FolderSink(tmp_path / "w"), since=5000))
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        asked(run, lambda: request_release(state, FolderSink(tmp_path / "file" / "w")))
    other = hw.Synthesizer(SCHEMA, epsilon=1.0)
    other.update({"x": [0.5]})
    FolderSink(tmp_path / "other").publish(other.release(), other.run_id)
    with pytest.raises(hw.FileRefusedError, match="another run"):
        asked(run, lambda: request_release(state, FolderSink(tmp_path / "other")))
    assert run.take({"x": [0.5]}) == 1001


def test_without_an_owner_that_answers_one_is_told(run: Run, tmp_path: Path) -> None:
    with pytest.raises(StateInUseError, match="has not answered"):
        request_status(tmp_path / "run.state", seconds=0.2)
    assert not (tmp_path / "run.state.requests").exists()
    with pytest.raises(OwnerGoneError, match="has ended"):
        asked(run, lambda: request_status(tmp_path / "run.state"), run.close)


def test_a_request_that_nobody_waits_for_is_removed_and_not_answered(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "run.state.requests"
    folder.mkdir(mode=0o700)
    wanted = {"request": "release", "out": str(tmp_path / "w"), "format": "csv", "rows": None}
    left = folder / "left.json"
    left.write_text(json.dumps(wanted | {"last": None, "since": None}))
    left.chmod(0o600)
    answer_requests(run)
    assert list(folder.iterdir()) == []
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"request": "sing"}', '{"request": "release"}', "[" * 60_000])
def test_requests_that_are_none_do_no_harm(run: Run, tmp_path: Path, text: str) -> None:
    folder = tmp_path / "run.state.requests"
    folder.mkdir(mode=0o700)
    path = folder / "odd.json"
    path.write_text(text)
    path.chmod(0o600)
    with path.open("rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        answer_requests(run)
    assert run.take({"x": [0.5]}) == 1001


def test_a_folder_that_others_may_enter_is_not_looked_at(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run.state.requests").mkdir()
    (tmp_path / "run.state.requests").chmod(0o755)
    with pytest.raises(StoreError, match="has not answered"):
        asked(run, lambda: request_status(tmp_path / "run.state", seconds=0.3))


@pytest.mark.slow
def test_info_and_release_work_beside_a_run_that_follows_a_file(tmp_path: Path) -> None:
    """Two commands beside a third one; the file then grows, and the run publishes as if nobody had looked in."""
    values = np.random.default_rng(1).random(2000)
    (tmp_path / "in.csv").write_text("x\n" + "".join(f"{value:.6f}\n" for value in values[:1000]))
    (tmp_path / "s.toml").write_text('headwater = 1\n[columns.x]\nkind = "number"\nlow = 0\nhigh = 1\n')

    def words(*more: str) -> list[str]:
        return [sys.executable, "-m", "headwater.cli", *more]

    def call(*more: str) -> str:
        done = subprocess.run(words(*more), cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    options = ["--schema", "s.toml", "--epsilon", "1", "--out", "out", "--every", "500", "--seed", "3"]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    follow = words("run", "in.csv", *options, "--window", "300", "--follow")
    pipe = subprocess.PIPE
    process = subprocess.Popen(follow, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe)
    try:
        deadline = time.monotonic() + 120
        while len(folders(tmp_path / "out")) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        said = call("info", "out.state")
        assert "in use" in said
        assert "1,000" in said
        assert "records" in call("release", "out.state", "--out", "looks", "--last", "100")
        with (tmp_path / "in.csv").open("a") as file:
            file.write("".join(f"{value:.6f}\n" for value in values[1000:]))
        while len(folders(tmp_path / "out")) < 4 and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors.decode()
    assert len(folders(tmp_path / "looks")) == 1
    assert len(folders(tmp_path / "out" / "last-300")) == 4
    synth = hw.Synthesizer(SCHEMA, epsilon=1.0, seed=3)
    synth.update({"x": np.round(values, 6)})
    last = hw.Release.load(folders(tmp_path / "out")[-1])
    assert last.sample(kind="columns")["x"].tolist() == synth.release().sample(kind="columns")["x"].tolist()
    assert call("info", "out.state").count("in use") == 0
