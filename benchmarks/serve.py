"""The service: speed against the same records in process, readers beside writers, memory, and fifty kills.

The service and the load have a process each. Times are those of one run on one machine; ratios are what counts.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from benchmarks.serve_kills import EPSILON, Outcome, attack, free_port, served
from benchmarks.serve_tables import BATCH, KINDS, Records
from headwater.client import Client
from headwater.markdown import table
from headwater.synthesizer import Synthesizer

OUT = Path(__file__).parents[1] / "docs/benchmarks"
BATCHES, CONNECTIONS, READERS = 100, 64, 200


def in_process(records: Records, tables: list[pa.Table]) -> float:
    synth = Synthesizer(records.schema, epsilon=EPSILON)
    begun = time.perf_counter()
    for one in tables:
        synth.update(one)
    return BATCH * len(tables) / (time.perf_counter() - begun)


def posted(port: int, tables: list[pa.Table], writers: int = 2) -> float:
    """Records a second, by batches over some connections; every batch is on the disk when it is answered."""

    def write(part: list[pa.Table]) -> None:
        with Client(f"http://127.0.0.1:{port}/runs/trips", patience=120) as client:
            for one in part:
                client.write(one)

    threads = [threading.Thread(target=write, args=(tables[number::writers],)) for number in range(writers)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return BATCH * len(tables) / (time.perf_counter() - begun)


def settle(port: int) -> None:
    """Until every release that is due is published: single posts are measured by themselves."""
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/runs/trips/status") as answer:
            if not json.load(answer)["behind"]:
                return
        time.sleep(0.2)


def load(
    kind: str, port: int, seconds: float, connections: int, columns: str, pause: float = 0.0, name: str = "a"
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.serve_load", kind, "--port", str(port), "--seconds", str(seconds)]
    command += ["--connections", str(connections), "--pause", str(pause), "--name", name, "--columns", columns]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str]) -> dict[str, Any]:
    text, _ = process.communicate()
    return dict(json.loads(text))


def resident(process: subprocess.Popen[bytes]) -> float:
    """Megabytes."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def peak(process: subprocess.Popen[bytes]) -> float:
    """Megabytes, at the highest."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def slow_readers(port: int, count: int) -> list[socket.socket]:
    """Readers who ask for whole tables and events, and take nothing of the answers."""
    found = list[socket.socket]()
    for number in range(count):
        connection = socket.create_connection(("127.0.0.1", port))
        what = "events" if number % 2 else "releases/now/data.csv"
        connection.sendall(f"GET /runs/trips/{what} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        found.append(connection)
    return found


def measure(folder: Path, seconds: float, columns: str) -> dict[str, Any]:
    records = KINDS[columns]
    tables, port = records.frames(BATCHES), free_port()
    found: dict[str, Any] = {"in_process": in_process(records, tables)}
    with served(folder, port, "--every", "200000", schema=records.schema) as process:
        posted(port, tables[:5])  # warm
        found["posted"] = posted(port, tables)
        settle(port)
        found["single"] = result(load("write", port, seconds, CONNECTIONS, columns))
        readers = load("read", port, seconds + 4, READERS, columns, 1.0)
        time.sleep(2)
        found["beside_readers"] = result(load("write", port, seconds, CONNECTIONS, columns, name="b"))
        found["readers"] = result(readers)
        found["memory_before"] = resident(process)
        slow = slow_readers(port, 100)
        for _ in range(3):
            posted(port, tables)
        settle(port)  # a table of a million rows that is being published takes memory for itself
        found["memory_after"], found["memory_peak"] = resident(process), peak(process)
        for connection in slow:
            with suppress(OSError):
                connection.close()
        with Client(f"http://127.0.0.1:{port}/runs/trips") as client:
            found["records"] = client.status()["t"]
    return found


def verdicts(found: dict[str, Any], columns: str) -> list[tuple[str, str, str, bool]]:
    batches = found["posted"] / found["in_process"]
    single, beside = found["single"], found["beside_readers"]
    grown = found["memory_after"] - found["memory_before"]
    rows = [
        (
            "batches of 10,000 by Arrow, against `Synthesizer.update` in process",
            f"{found['posted']:,.0f} against {found['in_process']:,.0f} records a second: {batches:.2f}",
            "at least 0.3",
            batches >= 0.3,
        ),
        ("single records a second, durable", f"{single['rate']:,.0f}", "at least 1,000", single["rate"] >= 1000),
        ("99% of them answered within", f"{single['p99']} ms", "below 100 ms", single["p99"] < 100),
        (
            f"the same beside {READERS} readers of `now`, one request a second each",
            f"{beside['rate']:,.0f} a second: {beside['rate'] / single['rate']:.2f}",
            "more than 0.5",
            beside["rate"] > 0.5 * single["rate"],
        ),
        (
            "memory of the process, grown by 3,000,000 records beside 100 readers who take nothing",
            f"{grown:,.0f} MB, from {found['memory_before']:,.0f}; at the highest {found['memory_peak']:,.0f}",
            "below 500 MB",
            grown < 500,
        ),
    ]
    return [(f"{columns} columns: {what}", *rest) for what, *rest in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--kills", type=int, default=50, help="0: keep what was measured before")
    parser.add_argument("--columns", choices=tuple(KINDS), help="only this table; nothing is written")
    chosen = parser.parse_args()
    found, rows = dict[str, Any](), list[tuple[str, str, str, bool]]()
    for columns in [chosen.columns] if chosen.columns else KINDS:
        with TemporaryDirectory(prefix="headwater-serve-") as name:
            found[columns] = measure(Path(name), chosen.seconds, columns)
        rows += verdicts(found[columns], columns)
    if chosen.columns:
        sys.exit("\n".join(map(str, rows)))
    if chosen.kills:
        with TemporaryDirectory(prefix="headwater-kills-") as name:
            found["kills"] = vars(attack(Path(name), kills=chosen.kills, writers=16, most=40, seed=2026, pause=2.0))
    elif (OUT / "serve.json").exists():
        found["kills"] = json.loads((OUT / "serve.json").read_text()).get("kills")
    if found.get("kills"):
        outcome = Outcome(**found["kills"])
        text = f"{outcome.posts:,} posts, {outcome.records:,} records, {outcome.served} releases served"
        ok = not outcome.problems
        said = "nothing lost, nothing twice, nothing changed" if ok else "; ".join(outcome.problems)
        rows.append((f"{outcome.kills} kills with −9, 16 connections", f"{text}: {said}", "no loss", ok))
    print(json.dumps(found, indent=1))
    for row in rows:
        print(row)
    lines = [[what, value, wanted, "yes" if fits else "**no**"] for what, value, wanted, fits in rows]
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "serve.json").write_text(json.dumps(found, indent=2) + "\n")
    page = (
        f"# The service\n\n`make bench-serve` on {os.cpu_count()} cores. {(__doc__ or '').strip().splitlines()[2]}\n\n"
    )
    if os.sched_getscheduler(0) != os.SCHED_OTHER:
        page += "Other work shared the machine: service and load ran at real-time priority, kills at the usual one.\n\n"
    page += table(["what", "measured", "wanted", "holds"], lines) + "\n"
    (OUT / "serve.md").write_text(page)
    sys.exit(not all(fits for *_, fits in rows))


if __name__ == "__main__":
    main()
