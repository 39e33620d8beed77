"""A real standalone cluster on this machine: one master and two workers, each a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.spark.session import missing, session

WANTED = os.environ.get("HEADWATER_SPARK", "")
"""``required``: without Java or pyspark the tests fail. ``yes``: they run if they can. Empty: they are left out."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that use the cluster are skipped, with the reason, where it cannot run or is not asked for."""
    reason = missing() if WANTED else "a cluster takes minutes: make test-spark runs these"
    if WANTED == "required" or not reason:
        return
    for item in items:
        if "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason=reason))


class Cluster:
    """One master and two workers."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self.folder, self.home = folder, Path(pyspark.__file__).parent
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"spark://127.0.0.1:{self.port}"
        self.environment = os.environ | {
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "OMP_NUM_THREADS": "1",
        }
        self.started = 0
        self.master = self._start("master.Master", "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0")
        self._wait_for("master.Master", "I have been elected leader")
        self.workers = [self.start_worker() for _ in range(2)]

    def start_worker(self) -> subprocess.Popen[bytes]:
        """Another worker."""
        work, self.started = self.folder / f"work{self.started}", self.started + 1
        options = ("--host", "127.0.0.1", "-c", "1", "-m", "1g", "--webui-port", "0", "-d", str(work), self.url)
        worker = self._start("worker.Worker", *options, log=f"worker{self.started}")
        self._wait_for(f"worker{self.started}", "Successfully registered")
        return worker

    def _start(self, name: str, *options: str, log: str | None = None) -> subprocess.Popen[bytes]:
        command = [str(self.home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *options]
        with (self.folder / f"{log or name}.log").open("wb") as file:
            # In a process group of its own, so that a killed worker takes its executors with it.
            return subprocess.Popen(
                command, env=self.environment, stdout=file, stderr=file, cwd=self.folder, start_new_session=True
            )

    def _wait_for(self, log: str, words: str) -> None:
        for _ in range(600):
            if words in (self.folder / f"{log}.log").read_text(errors="replace"):
                return
            time.sleep(0.1)
        raise TimeoutError((self.folder / f"{log}.log").read_text(errors="replace")[-2000:])

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """End a process and everything that it has started, at once."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def settings(self) -> dict[str, str]:
        """Of a session on this cluster."""
        return {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.cores.max": "2",
            "spark.sql.shuffle.partitions": "3",
            "spark.sql.session.timeZone": "UTC",
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
            "spark.executorEnv.OMP_NUM_THREADS": "1",
            "spark.task.maxFailures": "8",
        }


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    found = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield found
    finally:
        for process in (*found.workers, found.master):
            found.kill(process)


@pytest.fixture(scope="session")
def spark(cluster: Cluster) -> Iterator[Any]:
    """A session of this process on the cluster."""
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    settings = cluster.settings() | {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(cluster.folder),
        "spark.eventLog.compress": "false",
    }
    found = session(cluster.url, **{name.replace(".", "__"): value for name, value in settings.items()})
    yield found
    found.stop()
