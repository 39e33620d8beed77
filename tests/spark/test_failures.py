"""What fails on a real cluster changes no release: workers, drivers, attempts of tasks, micro-batches read again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.run import FolderSink, Run
from tests.spark import driver
from tests.spark.cluster import Cluster
from tests.spark.conftest import need_cluster
from tests.spark.support import CASES, one_process, records, releases, write_files

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of its own: the session that other tests share has all cores of theirs for as long as it lives."""
    need_cluster()
    with Cluster(tmp_path_factory.mktemp("failures")) as found:
        yield found


def start_driver(cluster: Cluster, folder: Path, log: str) -> subprocess.Popen[bytes]:
    with (folder / log).open("wb") as file:
        command = [sys.executable, "-m", "tests.spark.driver", cluster.url, str(folder)]
        return subprocess.Popen(
            command, env=cluster.environment, stdout=file, stderr=file, cwd=ROOT, start_new_session=True
        )


@pytest.mark.slow
def test_a_worker_and_then_the_driver_are_killed_and_attempts_of_tasks_do_not_matter(
    cluster: Cluster, tmp_path: Path
) -> None:
    """A worker is killed with −9 in the first micro-batch, and the driver after its first release.

    Tasks fail once, and are started twice by speculation.
    """
    schema, mechanism = CASES[driver.CASE]
    tables = [records(schema, 900, n) for n in range(driver.FILES)]
    write_files(tmp_path / "in", tables, "csv")
    expected = one_process(schema, mechanism, tables, tmp_path / "one", driver.EVERY)
    process = start_driver(cluster, tmp_path, "first.log")

    def wait_for(there: Callable[[], object]) -> None:
        for _ in range(3000):
            if there() or process.poll() is not None:
                return
            time.sleep(0.1)

    wait_for((tmp_path / "state").exists)
    time.sleep(3)
    cluster.kill(cluster.workers.pop(0))
    cluster.workers.append(cluster.start_worker())
    wait_for(lambda: releases(tmp_path / "out"))
    ended = process.poll()
    if ended is None:
        os.killpg(process.pid, signal.SIGKILL)  # the process and its Java machine
    process.wait()
    assert ended is None, (tmp_path / "first.log").read_text()[-3000:]
    before = releases(tmp_path / "out")
    assert before, (tmp_path / "first.log").read_text()[-3000:]
    assert len(before) < len(expected)
    second = start_driver(cluster, tmp_path, "second.log")
    assert second.wait(timeout=300) == 0, (tmp_path / "second.log").read_text()[-3000:]
    assert releases(tmp_path / "out") == expected
    assert before.items() <= expected.items()
    with Run.resume(tmp_path / "state", FolderSink(tmp_path / "out")) as run:
        assert run.t == 900 * driver.FILES
    log = (tmp_path / "first.log").read_text() + (tmp_path / "second.log").read_text()
    for happened in ("fails once", "Lost executor"):
        assert happened in log  # and tasks were repeated
