"""Files are read ahead, and nothing else shows it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import headwater as hw
from headwater.run import feed
from headwater.run.feed import AHEAD
from headwater.secret.read.batch import Batch
from headwater.secret.read.source import open_source
from tests.support.kept_runs import SCHEMA, open_run, tables

PATIENCE = 30.0  # seconds, of which a busy machine may need some


class Slow:
    """Batches that take a while to come, and who asks for them."""

    complete = True

    def __init__(self, path: Path, seconds: float = 0.0) -> None:
        self._batches = open_source(path, SCHEMA, batch_rows=100)
        self._seconds = seconds
        self.asked = self.inside = 0
        self.threads = set[int]()

    def close(self) -> None:
        self._batches.close()

    def __iter__(self) -> Iterator[Batch | None]:
        return self

    def __next__(self) -> Batch | None:
        self.asked += 1
        self.inside += 1
        self.threads.add(threading.get_ident())
        try:
            time.sleep(self._seconds)
            return next(self._batches)
        finally:
            self.inside -= 1


def write(path: Path, rows: int, bad: int | None = None) -> Path:
    path.write_text("x\n" + "".join("abc\n" if row == bad else f"{row % 97 / 97}\n" for row in range(rows)))
    return path


@pytest.mark.parametrize("bad", [None, 0, 250, 399])
@pytest.mark.parametrize("rows", [0, 1, 100, 400])
def test_what_is_taken_published_and_refused_is_the_same_without_reading_ahead(
    tmp_path: Path, rows: int, bad: int | None
) -> None:
    path, found = write(tmp_path / "in.csv", rows, bad), []
    for ahead in (True, False):
        folder = tmp_path / str(ahead)
        folder.mkdir()
        error = None
        with open_run(folder, "150") as run:
            with open_source(path, SCHEMA, batch_rows=100) as source:
                source.complete = ahead
                try:
                    feed(run, source)
                except hw.TableError as refused:
                    error = str(refused)
            found.append((run.t, run.position("input"), error, tables(folder)))
    assert found[0] == found[1]
    assert (found[0][2] is None) == (bad is None or bad >= rows)


def test_some_batches_are_read_while_one_is_taken_and_no_more(tmp_path: Path) -> None:
    source = Slow(write(tmp_path / "in.csv", 1000))

    def look() -> None:
        wanted, end = min(run.t // 100 + AHEAD, 11), time.monotonic() + PATIENCE
        while source.asked < wanted and time.monotonic() < end:
            time.sleep(0.001)
        assert source.asked == wanted

    with closing(source), open_run(tmp_path, "150") as run:
        feed(run, source, progress=look)
        assert run.t == 1000
    assert len(source.threads) == 1
    assert threading.get_ident() not in source.threads


def test_nothing_is_read_any_more_when_a_run_has_stopped(tmp_path: Path) -> None:
    source = Slow(write(tmp_path / "in.csv", 1000), seconds=0.05)

    def stop() -> None:
        raise KeyboardInterrupt

    with closing(source), open_run(tmp_path, "150") as run:
        with pytest.raises(KeyboardInterrupt):
            feed(run, source, progress=stop)
        assert run.t == 100
    assert source.inside == 0
    assert source.asked <= 1 + AHEAD
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("headwater-read")]


def test_only_files_that_are_not_followed_are_read_ahead(tmp_path: Path) -> None:
    """Of a pipe nobody knows when more will come; and then a run must be stopped at once."""
    path = write(tmp_path / "in.csv", 10)
    with open_source(path, SCHEMA) as source:
        assert source.complete
    with open_source(path, SCHEMA, follow=True) as source:
        assert not source.complete
    with open_source("-", SCHEMA) as source:
        assert not source.complete
    if sys.platform != "win32":
        os.mkfifo(tmp_path / "pipe.csv")
        with open_source(tmp_path / "pipe.csv", SCHEMA) as source:
            assert not source.complete
