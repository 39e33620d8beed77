"""A week of a log that is rotated, compressed and deleted, with bad lines in it, read by a process that is killed.

Every good record counts exactly once, every bad line is in the quarantine exactly once, and what is published is what
one undisturbed run over all lines would have published, windows too, whoever looks in meanwhile. Only so many tables
are kept, and the state does not grow with the log. ``HEADWATER_NIGHTLY=1`` plays seven days and kills twenty times.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from headwater.run.requests import request_status
from headwater.run.store import Store
from typer.testing import CliRunner

from headwater.audit import check_ledger
from headwater.cli.app import app
from headwater.public.card import has_table, read_card
from headwater.public.folder import folders
from headwater.public.schema import Schema
from headwater.run import FolderSink, Run, RunConfig, Schedule, feed
from headwater.run.lock import StoreError
from headwater.run.restore import read_state, read_tally
from headwater.secret.read.source import open_source
from tests.support.nightly import NIGHTLY

DAYS, LINES, KILLS = (7, 300, 20) if NIGHTLY else (3, 60, 3)
SCHEMA = 'headwater = 1\nbad_rows = "quarantine"\n[columns.n]\nkind = "integer"\nlow = 0\nhigh = 999999\n'
KEEP, WINDOW = 3, 40
BAD = ["oops", '"7', "7,8", "1.5", '5"5"']


def lines_of(day: int, rng: random.Random) -> list[str]:
    """Good lines, all different, and bad ones that say which they are."""
    found = [str(1000 * day + number) for number in range(LINES)]
    for number in range(LINES // 20):
        found.insert(rng.randrange(len(found)), f"{rng.choice(BAD)} #{day}-{number}")
    return found


class Log:
    """A log file, and whoever rotates it."""

    def __init__(self, folder: Path, how: str) -> None:
        self.path, self.how = folder / "log.csv", how
        self.path.write_text("n\n")

    def append(self, lines: list[str]) -> None:
        with open(self.path, "a") as file:
            file.write("".join(line + "\n" for line in lines))

    def rotate(self, keep: int) -> None:
        """Yesterday's log gets number 1, the one before is compressed, and all but some of the older are deleted."""
        name = str(self.path)
        for number in reversed(range(2, 2 + DAYS)):
            if Path(f"{name}.{number}.gz").exists():
                if number > keep:
                    os.unlink(f"{name}.{number}.gz")
                else:
                    os.rename(f"{name}.{number}.gz", f"{name}.{number + 1}.gz")
        if Path(f"{name}.1").exists():
            with open(f"{name}.1", "rb") as old, gzip.open(f"{name}.2.gz.tmp", "wb") as packed:
                shutil.copyfileobj(old, packed)
            os.rename(f"{name}.2.gz.tmp", f"{name}.2.gz")
            os.unlink(f"{name}.1")
        if self.how == "rename":
            os.rename(name, f"{name}.1")
            (self.path.with_suffix(".new")).write_text("n\n")
            os.rename(self.path.with_suffix(".new"), name)
        else:
            shutil.copy(name, f"{name}.1")
            os.truncate(name, 0)
            self.append(["n"])


def start(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "headwater.cli", "run", "logs/log.csv", "--schema", "s.toml", "--epsilon", "1"]
    command += ["--every", "50", "--seed", "3", "--format", "csv", "--keep", str(KEEP), "--window", str(WINDOW), *more]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "SOURCE_DATE_EPOCH": "1700000000"}
    with open(folder / "output.txt", "ab") as output:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)


def look_in(folder: Path) -> bool:
    """Ask the run how far it is, and for a window; whether it was under way."""
    state = str(folder / "releases.state")
    said = CliRunner().invoke(app, ["info", state])
    assert said.exit_code == 0, said.output
    if "in use" not in said.output:
        return False
    window = CliRunner().invoke(
        app, ["release", state, "--out", str(folder / "looks"), "--last", "30", "--format", "csv"]
    )
    assert window.exit_code == 0, window.output
    return True


def said_records(folder: Path) -> int:
    """How many records the run says it has taken; 0 if it is not under way."""
    with suppress(StoreError):
        return int(request_status(folder / "releases.state")[0]["records"].replace(",", ""))
    return 0


def taken(folder: Path) -> int:
    """How many records the state of a stopped run has taken."""
    state = folder / "releases.state"
    if not state.exists():
        return 0
    with Store.open(state, observe=True) as store:
        return store.t


@pytest.mark.parametrize("how", ["rename", "copy and truncate"])
def test_every_line_of_a_rotating_log_counts_once(tmp_path: Path, how: str) -> None:
    rng = random.Random(7)  # noqa: S311 - when to kill is no secret
    (tmp_path / "logs").mkdir()
    (tmp_path / "s.toml").write_text(SCHEMA)
    log, everything = Log(tmp_path / "logs", how), list[str]()
    ends = list[int]()  # how many lines there were when each day ended
    kills = sorted(rng.randrange(DAYS) for _ in range(KILLS))
    looks = 0
    log.append(["999000"])
    everything.append("999000")
    assert start(tmp_path).wait() == 0  # a run knows its log from its first record on
    process = start(tmp_path, "--follow")
    try:
        for day in range(DAYS):
            lines = lines_of(day, rng)
            everything += lines
            deaths = kills.count(day)
            cuts = [0, *sorted(rng.randrange(len(lines)) for _ in range(deaths)), len(lines)]
            for part, (first, last) in enumerate(pairwise(cuts)):
                log.append(lines[first:last])
                if part < deaths:
                    time.sleep(rng.uniform(0, 6))
                    looks += rng.random() < 0.7 and look_in(tmp_path)
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    process = start(tmp_path, "--follow")
            time.sleep(rng.uniform(0, 1))
            looks += look_in(tmp_path)
            if day + 1 < DAYS:
                log.rotate(keep=sum(end > published_until(tmp_path) for end in ends))  # what was taken may go
                ends.append(len(everything))
                if NIGHTLY or how == "rename":
                    time.sleep(rng.uniform(0.5, 4))  # some days nobody looks before the next rotation
        end = time.monotonic() + 600
        while process.poll() is None and time.monotonic() < end and said_records(tmp_path) < len(everything):
            time.sleep(0.5)
        looks += look_in(tmp_path)
        process.send_signal(signal.SIGTERM)
        process.wait()
    finally:
        process.kill()
        process.wait()
    said = (tmp_path / "output.txt").read_text()
    assert taken(tmp_path) == len(everything), said[-2000:]
    bad = [line for line in everything if "#" in line]
    kept = [json.loads(line)["text"] for line in (tmp_path / "releases.state.bad-rows.jsonl").read_text().splitlines()]
    assert sorted(kept) == sorted(bad)
    assert (tmp_path / "releases.state.bad-rows.jsonl").stat().st_mode & 0o777 == 0o600
    assert read_tally(tmp_path / "releases.state", read_state(tmp_path / "releases.state")).bad == len(bad)
    released_alone(tmp_path, everything)
    for place in ("releases", f"releases/last-{WINDOW}"):
        assert published(tmp_path / place) == published(tmp_path / place.replace("releases", "alone"))
        kept = [folder for folder in folders(tmp_path / place) if has_table(folder)]
        assert len(kept) == KEEP
    assert looks, said[-2000:]
    assert {read_card(folder)["epsilon"] for folder in folders(tmp_path / "looks")} == {1.0}
    check_ledger(read_state(tmp_path / "releases.state").ledger(), 1.0)
    assert (tmp_path / "releases.state").stat().st_size < 1 << 20
    left = {path.name for path in tmp_path.glob("releases.state*")}
    assert left == {"releases.state", "releases.state.lock", "releases.state.bad-rows.jsonl"}


def published_until(folder: Path) -> int:
    """How many records were taken at least, seen from outside."""
    names = [path.name for path in (folder / "releases").glob("release-*")]
    return max((int(name.removeprefix("release-")) for name in names), default=0)


def released_alone(folder: Path, lines: list[str]) -> None:
    """What one undisturbed run over all lines publishes."""
    (folder / "all.csv").write_text("n\n" + "".join(line + "\n" for line in lines))
    schema = Schema.load(folder / "s.toml")
    sink = FolderSink(folder / "alone", "csv", keep=KEEP)
    windows = {WINDOW: FolderSink(folder / "alone" / f"last-{WINDOW}", "csv", keep=KEEP)}
    how: Any = {"schedule": Schedule(50), "windows": windows}
    with (
        Run.open(RunConfig(schema, 1.0, seed=3), sink, state=folder / "alone.state", **how) as run,
        open_source(folder / "all.csv", schema, bad_rows="null") as source,
    ):
        feed(run, source, bad_rows="null")


def published(folder: Path) -> dict[str, str]:
    """The digests of all tables that were published by number of records, whether they are still there or not."""
    return {path.name: read_card(path)["sha256"] for path in folders(folder) if _by_number(path)}


def _by_number(path: Path) -> bool:
    return int(path.name.split("-")[1]) % 50 == 0
