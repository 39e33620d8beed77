"""Nothing lost, nothing twice: writers with retries, readers, and a service that is killed with −9 again and again."""

from __future__ import annotations

import hashlib
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serve_tables import NARROW
from headwater import Schema, Synthesizer
from headwater.client import Client
from headwater.run.state import State
from headwater.secret.batch import Batch
from headwater.service.render import write

SCHEMA = NARROW.schema
EPSILON, EVERY = 1.0, 2_000


@dataclass
class Outcome:
    """What happened."""

    kills: int = 0
    posts: int = 0
    records: int = 0
    served: int = 0
    problems: list[str] = field(default_factory=list)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(
    folder: Path, port: int, every: int = EVERY, schema: Schema = SCHEMA, limits: str = ""
) -> Iterator[subprocess.Popen[bytes]]:
    """A service in a process of its own, answering; killed at the end if it still runs."""
    path = folder / "trips.toml"
    if not path.exists():
        schema.save(path)
    run = f'schema = "trips.toml"\nepsilon = {EPSILON}\nout = "out"\nevery = "{every}"'
    (folder / "service.toml").write_text(f"port = {port}\n[limits]\n{limits}\n[runs.trips]\n{run}\n")
    command = [sys.executable, "-m", "headwater.cli", "serve", str(folder / "service.toml"), "--quiet"]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        answering(port, process)
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()


def answering(port: int, process: subprocess.Popen[bytes], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError("the service has ended; see its log")
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.05)
    raise TimeoutError("the service does not answer")


class Writer(threading.Thread):
    """Writes single records and batches until it is stopped; each until it is acknowledged."""

    def __init__(self, port: int, number: int, seed: int, most: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._client = Client(f"http://127.0.0.1:{port}/runs/trips", patience=300, timeout=20)
        self._number, self._random, self._most, self._stopping = number, random.Random(f"{seed} {number}"), most, stop  # noqa: S311
        self.written: list[dict[str, Any]] = []
        self.posts = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        """Write until it is stopped."""
        try:
            while not self._stopping.is_set():
                size = 1 if self._random.random() < 0.8 else self._random.randint(2, self._most)
                batch = [{"x": self._random.random(), "writer": f"w{self._number}"} for _ in range(size)]
                self._client.write(batch)
                self.written += batch
                self.posts += 1
        except BaseException as error:
            self.error = error
        finally:
            self._client.close()


class Reader(threading.Thread):
    """Reads the release of this moment and the published ones; remembers a digest of each by its time."""

    def __init__(self, port: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._base, self._stopping = f"http://127.0.0.1:{port}/runs/trips", stop
        self.now: dict[int, str] = {}
        self.published: dict[int, str] = {}
        self.different: list[int] = []

    def run(self) -> None:
        """Read until it is stopped."""
        with Client(self._base, patience=0.2) as client:
            while not self._stopping.is_set():
                with suppress(OSError, RuntimeError, HTTPException):
                    self._see(self.now, *self._get("now"))
                    for one in client.releases()[-3:]:
                        self._see(self.published, *self._get(str(one["t"])))
                time.sleep(0.05)

    def _get(self, name: str) -> tuple[int, str]:
        with urllib.request.urlopen(f"{self._base}/releases/{name}/data.parquet", timeout=20) as answer:  # noqa: S310
            return int(answer.headers["Headwater-T"]), hashlib.sha256(answer.read()).hexdigest()

    def _see(self, known: dict[int, str], t: int, digest: str) -> None:
        if known.setdefault(t, digest) != digest:
            self.different.append(t)

    def check(self) -> list[int]:
        """The published releases that are not what they were when they were served first."""
        return [t for t, digest in self.published.items() if self._get(str(t)) != (t, digest)]


def attack(folder: Path, *, kills: int, writers: int, most: int, seed: int, pause: float) -> Outcome:
    """Write, read and kill, then compare what the state holds with what was acknowledged."""
    outcome, chance = Outcome(), random.Random(seed)  # noqa: S311 - what is written is no secret
    port, stop = free_port(), threading.Event()
    threads = [Writer(port, number, seed, most, stop) for number in range(writers)]
    reader = Reader(port, stop)
    for thread in (*threads, reader):
        thread.start()
    for _ in range(kills):
        with served(folder, port):
            time.sleep(chance.uniform(0.05, pause))
            outcome.kills += 1  # leaving the block kills
    with served(folder, port):
        time.sleep(pause)
        end = time.monotonic() + 60
        while (sum(thread.posts for thread in threads) <= 20 or len(reader.now) <= 3) and time.monotonic() < end:
            time.sleep(0.05)  # a machine that is busy gets the time that it takes
        stop.set()
        for thread in threads:
            thread.join(120)
        reader.join(60)
        outcome.problems += [f"a release changed: t = {t}" for t in (*reader.different, *reader.check())]
        with Client(f"http://127.0.0.1:{port}/runs/trips") as client:
            status = client.status()
    outcome.problems += [f"a writer failed: {thread.error!r}" for thread in threads if thread.error]
    written = [record for thread in threads for record in thread.written]
    outcome.posts, outcome.records = sum(thread.posts for thread in threads), len(written)
    if status["t"] != len(written):
        outcome.problems.append(f"t is {status['t']:,}, and {len(written):,} records were acknowledged")
    outcome.served = len(reader.now) + len(reader.published)
    outcome.problems += compare(folder, written, {**reader.now, **reader.published})
    return outcome


def compare(folder: Path, written: list[dict[str, Any]], digests: dict[int, str]) -> list[str]:
    """Whether the journal holds exactly the rows of what was written, and replaying it gives what was served."""
    with State.open(folder / "out.state", observe=True) as store:
        first, data, journal = store.load()
        epsilon = store.config["epsilon"]
    if first:
        return ["there is a snapshot: write less, so that the journal holds everything"]
    synth = Synthesizer.from_bytes(data)
    columns = {name: [record[name] for record in written] for name in ("x", "writer")}
    rows = np.concatenate([batch.rows for _, batch in journal])
    problems = list[str]()
    if not np.array_equal(np.sort(rows, axis=0), np.sort(synth.encode(columns).rows, axis=0)):
        problems.append("the state holds other records than were acknowledged")
    for t in sorted(digests):
        synth.take(Batch(rows[synth.t : t]))
        path = folder / "again.parquet"
        write(synth.release().tables("arrow"), path, "parquet", SCHEMA)
        if hashlib.sha256(path.read_bytes()).hexdigest() != digests[t]:
            problems.append(f"a run that was never killed would have released something else at t = {t}")
    if synth.ledger().total > epsilon:
        problems.append("the ledger spends more than ε")
    return problems
