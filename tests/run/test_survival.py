"""Real processes, really killed: what a run leaves behind is what it would have left if nobody had touched it."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from headwater.run.store import Store

from headwater.cli.exit_codes import Exit
from tests.support.nightly import NIGHTLY

KILLS = 50 if NIGHTLY else 12  # of one run
ROWS = 12_000
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


def write_input(folder: Path, rows: int = ROWS) -> None:
    rng = np.random.default_rng(5)
    kinds = rng.choice(["a", "b", "c", ""], rows, p=[0.5, 0.2, 0.2, 0.1])
    lines = [
        f"{x:.6f},{k},{n}" for x, k, n in zip(rng.beta(2, 5, rows), kinds, rng.integers(0, 101, rows), strict=True)
    ]
    (folder / "in.csv").write_text("x,kind,n\n" + "\n".join(lines) + "\n")
    (folder / "s.toml").write_text(SCHEMA)


def command(folder: Path, out: str = "out", *more: str) -> list[str]:
    options = ["--schema", "s.toml", "--epsilon", "1", "--out", out, "--every", "200", "--seed", "7", *more]
    return [sys.executable, "-m", "headwater.cli", "run", "in.csv", *options]


def environment() -> dict[str, str]:
    return {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "PYTHONWARNINGS": "ignore"}


def start(folder: Path, out: str = "out", *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command(folder, out, *more), cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def finish(folder: Path, out: str = "out", *more: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command(folder, out, *more), cwd=folder, env=environment(), capture_output=True, check=False)


def content(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("survival")
    write_input(folder)
    done = finish(folder)
    assert done.returncode == 0, done.stderr.decode()
    found = content(folder / "out")
    assert len(found) == 2 * ROWS // 200
    return folder, found


def test_after_many_kills_everything_is_byte_for_byte_what_it_would_have_been(
    undisturbed: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    """Kills come at random moments; a release that was seen whole once must never change afterwards."""
    _, expected = undisturbed
    rng, kills, halfway = random.Random(11), 0, 0  # noqa: S311 - when to kill is no secret
    trial, patience = 0, 1.0
    while kills < KILLS:
        trial += 1
        folder = tmp_path / f"trial{trial}"
        folder.mkdir()
        write_input(folder)
        seen: dict[str, bytes] = {}
        while True:
            process = start(folder)
            try:
                _, errors = process.communicate(timeout=patience * rng.uniform(0.3, 1.1))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.communicate()
                kills += 1
                now = {name: data for name, data in content(folder / "out").items() if not name.startswith(".")}
                halfway += 0 < len(now) < len(expected)
                if len(now) == len(seen):  # a busy machine: give the next one more time to start
                    patience *= 1.1
                assert all(now[name] == data for name, data in seen.items())
                assert all(expected[name] == data for name, data in now.items())
                seen = now
                continue
            assert process.returncode == 0, errors.decode()
            break
        assert content(folder / "out") == expected
    assert halfway >= KILLS // 5  # most kills hit a run at work, not one that was still starting


def test_limits_and_windows_come_out_the_same_after_kills(tmp_path: Path) -> None:
    """Old tables that were removed do not come back, no card is lost, and nothing else is left behind."""
    limits = ("--rows", "150", "--keep", "3", "--window", "900")
    (tmp_path / "calm").mkdir()
    write_input(tmp_path / "calm")
    done = finish(tmp_path / "calm", "out", *limits)
    assert done.returncode == 0, done.stderr.decode()
    rng, patience, kills = random.Random(5), 2.0, 0  # noqa: S311 - when to kill is no secret
    while not kills:  # a run that ended before it could be killed is begun anew, and gets less time
        shutil.rmtree(tmp_path / "killed", ignore_errors=True)
        (tmp_path / "killed").mkdir()
        write_input(tmp_path / "killed")
        patience /= 1.5
        while True:
            process = start(tmp_path / "killed", "out", *limits)
            try:
                _, errors = process.communicate(timeout=patience * rng.uniform(0.5, 1.1))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.communicate()
                kills, patience = kills + 1, patience * 1.1
                continue
            assert process.returncode == 0, errors.decode()
            break
    expected = content(tmp_path / "calm" / "out")
    assert content(tmp_path / "killed" / "out") == expected
    names = [Path(name).name for name in expected]
    assert (names.count("card.json"), names.count("data.parquet")) == (2 * ROWS // 200, 2 * 3)


def test_a_second_process_on_the_same_state_is_refused_and_harms_nothing(
    undisturbed: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    write_input(tmp_path, rows=100)
    first = start(tmp_path, "out", "--follow")
    try:
        deadline = time.monotonic() + 30
        while not (tmp_path / "out.state").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        second = finish(tmp_path)
        assert second.returncode == Exit.STATE
        assert b"uses this state" in second.stderr
        assert first.poll() is None
    finally:
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=30)
    assert first.returncode == 0


def test_a_followed_file_that_grows_gives_what_the_whole_file_gives(
    undisturbed: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    """Written piece by piece, lines torn in the middle, and stopped with Ctrl-C at the end."""
    source, expected = undisturbed
    data = (source / "in.csv").read_bytes()
    (tmp_path / "s.toml").write_text(SCHEMA)
    (tmp_path / "in.csv").write_bytes(data[:1000])
    process = start(tmp_path, "out", "--follow")
    last = tmp_path / "out" / f"release-{ROWS:012d}"
    try:
        with (tmp_path / "in.csv").open("ab") as file:
            for begin in range(1000, len(data), 37_501):
                file.write(data[begin : begin + 37_501])
                file.flush()
                time.sleep(0.2)
        deadline = time.monotonic() + 60
        while not last.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors.decode()
    assert b"same command again" in said
    assert content(tmp_path / "out") == expected


def test_going_on_with_other_settings_is_refused_and_names_them(
    undisturbed: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    write_input(tmp_path, rows=400)
    assert finish(tmp_path).returncode == 0
    before = content(tmp_path / "out")
    other = finish(tmp_path, "out", "--mechanism", "paper")
    assert other.returncode == Exit.STATE
    assert b"another mechanism" in other.stderr
    assert content(tmp_path / "out") == before


def test_an_input_that_was_altered_under_the_run_is_refused_and_the_run_goes_on_when_it_is_put_right(
    undisturbed: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    source, expected = undisturbed
    data = (source / "in.csv").read_bytes()
    half = data.index(b"\n", len(data) // 2) + 1
    write_input(tmp_path)
    (tmp_path / "in.csv").write_bytes(data[:half])
    assert finish(tmp_path).returncode == 0
    early = content(tmp_path / "out")
    (tmp_path / "in.csv").write_bytes(data.replace(b"0.", b"0.1", 1))
    changed = finish(tmp_path)
    assert changed.returncode == Exit.INPUT, changed.stderr.decode()
    assert b"in.csv" in changed.stderr
    (tmp_path / "in.csv").write_bytes(data)
    assert finish(tmp_path).returncode == 0
    late = content(tmp_path / "out")
    extra = set(late) - set(expected)  # the one at the end of the half
    assert {name: data for name, data in late.items() if name not in extra} == expected
    assert all(late[name] == data for name, data in early.items())


def test_a_bad_record_stops_the_run_before_it_is_counted_and_the_corrected_one_goes_on(
    undisturbed: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    source, expected = undisturbed
    data = (source / "in.csv").read_bytes()
    lines = data.split(b"\n")
    good, lines[9_000] = lines[9_000], b"0.5,a,many"
    write_input(tmp_path)
    (tmp_path / "in.csv").write_bytes(b"\n".join(lines))
    refused = finish(tmp_path)
    assert refused.returncode == Exit.INPUT
    text = refused.stderr.decode()
    assert "line 9001" in text
    assert '"n"' in text
    assert "many" not in text
    lines[9_000] = good
    (tmp_path / "in.csv").write_bytes(b"\n".join(lines))
    assert finish(tmp_path).returncode == 0
    assert content(tmp_path / "out") == expected


def test_a_release_card_says_what_anyone_may_know(undisturbed: tuple[Path, dict[str, bytes]]) -> None:
    folder, _ = undisturbed
    card = json.loads((folder / "out" / "release-000000000400" / "card.json").read_text())
    assert card["t"] == card["rows"] == 400
    assert card["epsilon"] == 1
    assert card["mechanism"] == "cascade"
    assert card["time"] == "2023-11-14T22:13:20+00:00"
    assert set(card["schema"]["columns"]) == {"x", "kind", "n"}


@pytest.mark.parametrize(("more", "code"), [((), Exit.INTERRUPTED), (("--follow",), Exit.DONE)])
def test_the_exit_code_says_whether_ctrl_c_cut_something_short(
    tmp_path: Path, more: tuple[str, ...], code: Exit
) -> None:
    """Standard input stays open. With --follow there is no other end; without it, records were still expected."""
    write_input(tmp_path, rows=100)
    words = ["-" if word == "in.csv" else word for word in command(tmp_path, "out", *more)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(words, cwd=tmp_path, env=environment(), stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdin is not None
    process.stdin.write((tmp_path / "in.csv").read_bytes())
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not (tmp_path / "out.state").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors.decode()
    assert b"give the same command again" in said


def test_a_pipe_that_is_ended_in_order_and_goes_on_loses_no_record(tmp_path: Path) -> None:
    """One writer and one pipe: what had been read of a batch is counted, and the rest is still in the pipe."""
    (tmp_path / "s.toml").write_text('headwater = 1\n[columns.x]\nkind = "number"\nlow = 0\nhigh = 1\n')
    words = [sys.executable, "-m", "headwater.cli", "run", "-", "--schema", "s.toml", "--epsilon", "1"]
    words += ["--every", "1000000"]
    out, into = os.pipe()
    count = 0

    def write(seconds: float) -> None:
        nonlocal count
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            os.write(into, b"0.5\n" * 50)
            count += 50
            time.sleep(0.01)

    def start(*more: str) -> subprocess.Popen[bytes]:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([*words, *more], cwd=tmp_path, env=environment(), stdin=out, **pipes)

    try:
        os.write(into, b"x\n")
        process = start()
        while not (tmp_path / "releases.state").exists():
            time.sleep(0.05)
        write(2)
        process.send_signal(signal.SIGTERM)
        write(0.5)
        said, errors = process.communicate(timeout=60)
        assert process.returncode == Exit.INTERRUPTED, errors.decode()
        assert b"every complete record that was read from the pipe is counted." in said
        process = start("--stdin-continues")
        os.write(into, b"0.25")
        os.close(into)
        into = -1
        said, errors = process.communicate(timeout=60)
        assert process.returncode == Exit.DONE, errors.decode()
    finally:
        for end in (out, into):
            if end >= 0:
                os.close(end)
    with Store.open(tmp_path / "releases.state", observe=True) as store:
        assert store.t == count + 1
