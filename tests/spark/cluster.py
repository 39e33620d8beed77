"""A real standalone cluster on this machine: one master and two workers, each a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self


class Cluster:
    """One master and two workers, with logs in a folder; memory is of each executor, in megabytes."""

    def __init__(self, folder: Path, memory: int = 512) -> None:
        import pyspark

        self.folder, self.home, self.memory = folder, Path(pyspark.__file__).parent, memory
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
        options = f"--host 127.0.0.1 -c 1 -m {2 * self.memory}m --webui-port 0 -d {work} {self.url}".split(" ")
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self.workers, self.master):
            self.kill(process)

    def settings(self) -> dict[str, str]:
        """Of a session on this cluster."""
        return settings(self.memory)


def settings(memory: int) -> dict[str, str]:
    """Of a session on a cluster of this kind."""
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": f"{memory}m",
        "spark.cores.max": "2",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.session.timeZone": "UTC",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.task.maxFailures": "8",
    }
