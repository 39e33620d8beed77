"""Real processes, really killed: what a run leaves behind is what it would have left if nobody had touched it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwater.cli.exit_codes import Exit
from headwater.run.state import State
from tests.support.nightly import NIGHTLY

KILLS = 50 if NIGHTLY else 8  # of one run
ROWS, BAD = 12_000, 40
SCHEMA = """
headwater = 1
[columns.x]
kind = "number"
low = 0
high = 1
[columns.kind]
kind = "category"
values = ["a", "b", "c"]
missing = true
[columns.n]
kind = "integer"
low = 0
high = 100
"""
LIMITS = ("--rows", "150", "--keep", "3", "--window", "900", "--bad-rows", "quarantine")


def write_input(folder: Path, rows: int = ROWS) -> list[str]:
    """Records, of which some are bad and say which they are."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(5)
    kinds = rng.choice(["a", "b", "c", ""], rows, p=[0.5, 0.2, 0.2, 0.1])
    columns = zip(rng.beta(2, 5, rows), kinds, rng.integers(0, 101, rows), strict=True)
    lines = [f"{x:.6f},{k},{n}" for x, k, n in columns]
    bad = [f"0.5,a,bad {number}" for number in range(BAD)]
    lines[:: -(-rows // BAD)] = bad[: len(lines[:: -(-rows // BAD)])]
    (folder / "in.csv").write_text("x,kind,n\n" + "\n".join(lines) + "\n")
    (folder / "s.toml").write_text(SCHEMA)
    return bad


def start(folder: Path, *more: str, file: str = "in.csv", **how: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401
    words = [sys.executable, "-m", "headwater.cli", "run", file, "--schema", "s.toml", "--epsilon", "1", "--out", "out"]
    words += ["--every", "200", "--seed", "7", *more]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "PYTHONWARNINGS": "ignore"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how
    return subprocess.Popen(words, cwd=folder, env=environment, **pipes)


def finish(folder: Path, *more: str) -> tuple[int, str]:
    process = start(folder, *more)
    _, errors = process.communicate()
    return process.returncode, errors.decode()


def content(out: Path) -> dict[str, bytes]:
    found = (path for path in sorted(out.rglob("*")) if path.is_file() and not path.parent.name.startswith("."))
    return {str(path.relative_to(out)): path.read_bytes() for path in found}


def wait_for(path: Path, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert path.exists()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("survival")
    write_input(folder)
    code, errors = finish(folder, *LIMITS)
    assert code == 0, errors
    found = content(folder / "out")
    names = [Path(name).name for name in found]
    assert (names.count("card.json"), names.count("data.parquet")) == (2 * ROWS // 200, 2 * 3)
    card = json.loads(found["release-000000000400/card.json"])
    assert (card["t"], card["rows"], card["epsilon"], card["mechanism"]) == (400, 150, 1, "cascade")
    assert card["time"] == "2023-11-14T22:13:20+00:00"
    return found


def test_after_many_kills_everything_is_byte_for_byte_what_it_would_have_been(
    undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    """Kills come at random moments. A card that was seen once never changes, and tables that were removed stay away."""
    rng, kills, halfway, trial, patience = random.Random(11), 0, 0, 0, 1.0  # noqa: S311 - when to kill is no secret
    while kills < KILLS:
        trial += 1
        folder, seen = tmp_path / f"trial{trial}", dict[str, bytes]()
        bad = write_input(folder)
        while True:
            process = start(folder, *LIMITS)
            try:
                _, errors = process.communicate(timeout=patience * rng.uniform(0.3, 1.1))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.communicate()
                kills += 1
                now = {name: data for name, data in content(folder / "out").items() if name.endswith("card.json")}
                halfway += 0 < len(now) < 2 * ROWS // 200
                if len(now) == len(seen):  # a busy machine: give the next one more time to start
                    patience *= 1.1
                assert now.items() >= seen.items()
                assert undisturbed.items() >= now.items()
                seen = now
                continue
            assert process.returncode == 0, errors.decode()
            break
        assert content(folder / "out") == undisturbed
        kept = (folder / "out.state.bad-rows.jsonl").read_text().splitlines()
        assert [json.loads(line)["text"] for line in kept] == bad
        names = {"out.state", "out.state.lock", "out.state.measured", "out.state.bad-rows.jsonl"}
        assert {path.name for path in folder.glob("out.state*")} == names
        patience /= 1.5
    assert halfway >= KILLS // 5  # most kills hit a run at work, not one that was still starting


def test_a_followed_file_that_grows_gives_what_the_whole_file_gives(
    undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    """Written piece by piece, lines torn in the middle, and stopped with Ctrl-C; a second process is refused."""
    write_input(tmp_path)
    data = (tmp_path / "in.csv").read_bytes()
    (tmp_path / "in.csv").write_bytes(data[:1000])
    process = start(tmp_path, "--follow", *LIMITS)
    try:
        wait_for(tmp_path / "out.state")
        code, errors = finish(tmp_path, *LIMITS)
        assert (code, "uses this state" in errors) == (Exit.STATE, True)
        with (tmp_path / "in.csv").open("ab") as file:
            for begin in range(1000, len(data), 37_501):
                file.write(data[begin : begin + 37_501])
                file.flush()
                time.sleep(0.2)
        wait_for(tmp_path / "out" / f"release-{ROWS:012d}")
    finally:
        process.send_signal(signal.SIGINT)
        said, found = process.communicate(timeout=60)
    assert process.returncode == 0, found.decode()
    assert b"same command again" in said
    assert content(tmp_path / "out") == undisturbed


def test_an_input_or_settings_that_were_altered_are_refused_and_the_run_goes_on_when_they_are_right(
    undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    write_input(tmp_path)
    data = (tmp_path / "in.csv").read_bytes()
    half = data.index(b"\n", len(data) // 2) + 1
    (tmp_path / "in.csv").write_bytes(data[:half])
    assert finish(tmp_path, *LIMITS)[0] == 0
    early = content(tmp_path / "out")
    code, errors = finish(tmp_path, *LIMITS, "--mechanism", "paper")
    assert (code, "another mechanism" in errors) == (Exit.STATE, True)
    (tmp_path / "in.csv").write_bytes(data.replace(b"0.", b"0.1", 1))
    code, errors = finish(tmp_path, *LIMITS)
    assert (code, "in.csv" in errors) == (Exit.INPUT, True)
    assert content(tmp_path / "out") == early
    (tmp_path / "in.csv").write_bytes(data)
    assert finish(tmp_path, *LIMITS)[0] == 0
    late = content(tmp_path / "out")
    assert {name: late[name] for name in undisturbed} == undisturbed  # beside the ones at the end of the half


@pytest.mark.parametrize(("more", "code"), [((), Exit.INTERRUPTED), (("--follow",), Exit.DONE)])
def test_the_exit_code_says_whether_ctrl_c_cut_something_short(
    tmp_path: Path, more: tuple[str, ...], code: Exit
) -> None:
    """Standard input stays open. With --follow there is no other end; without it, records were still expected."""
    (tmp_path / "s.toml").write_text(SCHEMA)
    process = start(tmp_path, *more, file="-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"x,kind,n\n" + b"0.5,a,7\n" * 100)
    process.stdin.flush()
    wait_for(tmp_path / "out.state")
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors.decode()
    assert b"give the same command again" in said


def test_a_pipe_that_is_ended_in_order_and_goes_on_loses_no_record(tmp_path: Path) -> None:
    """One writer and one pipe: what had been read of a batch is counted, and the rest is still in the pipe."""
    (tmp_path / "s.toml").write_text('headwater = 1\n[columns.x]\nkind = "number"\nlow = 0\nhigh = 1\n')
    out, into = os.pipe()
    count = 0

    def write(seconds: float) -> None:
        nonlocal count
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            os.write(into, b"0.5\n" * 50)
            count += 50
            time.sleep(0.01)

    try:
        os.write(into, b"x\n")
        process = start(tmp_path, "--every", "1000000", file="-", stdin=out)
        wait_for(tmp_path / "out.state")
        write(2)
        process.send_signal(signal.SIGTERM)
        write(0.5)
        said, errors = process.communicate(timeout=60)
        assert process.returncode == Exit.INTERRUPTED, errors.decode()
        assert b"every complete record that was read from the pipe is counted." in said
        process = start(tmp_path, "--every", "1000000", "--stdin-continues", file="-", stdin=out)
        os.write(into, b"0.25")
        os.close(into)
        into = -1
        said, errors = process.communicate(timeout=60)
        assert process.returncode == Exit.DONE, errors.decode()
    finally:
        for end in (out, into):
            if end >= 0:
                os.close(end)
    with State.open(tmp_path / "out.state", observe=True) as state:
        assert state.t == count + 1
