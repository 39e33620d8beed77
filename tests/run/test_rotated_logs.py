"""How a log that is renamed reaches a run: the ways that the page of schema files gives, with the real tools."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.serve_kills import answering, free_port
from headwater import Category, Number, Schema
from headwater.client import Client

pytestmark = pytest.mark.slow
PAGE = (Path(__file__).parents[2] / "docs" / "schema-files.md").read_text(encoding="utf-8")
SCHEMA = Schema(x=Number(0, 1), city=Category("Bonn", "Ulm"))
HEADWATER = [sys.executable, "-m", "headwater.cli"]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a process in a folder, and ends it."""
    SCHEMA.save(tmp_path / "log.toml")
    with ExitStack() as ends:

        def start(words: list[str], **more: object) -> subprocess.Popen[bytes]:
            process: subprocess.Popen[bytes] = ends.enter_context(
                subprocess.Popen(words, cwd=tmp_path, **more)  # type: ignore[call-overload]
            )
            ends.callback(process.kill)
            return process

        yield start


def within(seconds: float, true: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def write(path: Path, records: int, city: str) -> None:
    path.write_text("".join(json.dumps({"x": i / records, "city": city}) + "\n" for i in range(records)))


@pytest.mark.skipif(not shutil.which("syslog-ng"), reason="syslog-ng is not installed")
def test_a_shipper_posts_a_log_that_is_renamed_while_it_is_written(
    tmp_path: Path, started: Callable[..., subprocess.Popen[bytes]]
) -> None:
    log, port = tmp_path / "log.jsonl", free_port()
    (example,) = re.findall(r"```conf\n(.*?)```", PAGE, flags=re.DOTALL)
    example = example.replace("/var/log/trips.jsonl", str(log)).replace("8640", str(port))
    (tmp_path / "syslog-ng.conf").write_text(example)
    words = f"serve --schema log.toml --epsilon 1 --out live --port {port} --quiet"
    answering(port, started([*HEADWATER, *words.split()]))
    write(log, 500, "Bonn")
    started(shlex.split("syslog-ng -F -f syslog-ng.conf -R persist -p pid -c control"))
    with Client(f"http://127.0.0.1:{port}/runs/log") as client:
        assert within(20, lambda: client.status()["t"] == 500)
        log.rename(tmp_path / "log.jsonl.1")
        write(log, 700, "Ulm")
        assert within(20, lambda: client.status()["t"] >= 1200)
        assert client.status()["t"] == 1200


def test_a_pipe_from_tail_follows_a_log_that_is_renamed(
    tmp_path: Path, started: Callable[..., subprocess.Popen[bytes]]
) -> None:
    log = tmp_path / "log.csv"
    log.write_text("x,city\n" + "0.5,Bonn\n" * 500)
    (given,) = re.findall(r"`(tail -n \+1 -F log\.csv) \\\| headwater (run - .*?)`", PAGE)
    tail = started(given[0].split(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    run = started([*HEADWATER, *given[1].split(), "--every", "1000"], stdin=tail.stdout)
    time.sleep(3)  # tail looks for another file under the name once a second
    log.rename(tmp_path / "log.csv.1")
    log.write_text("0.25,Ulm\n" * 500)
    assert within(20, lambda: (tmp_path / "releases" / "release-000000001000" / "card.json").exists())
    tail.terminate()
    assert run.wait(timeout=20) == 0
