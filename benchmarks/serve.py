"""The service: speed against the same records in process, readers beside writers, memory, and fifty kills.

The service and the load have a process each.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
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

from benchmarks.pages import Figure, failed, judged, kept, publish
from benchmarks.serve_kills import EPSILON, attack, free_port, served
from benchmarks.serve_tables import BATCH, KINDS, Records
from headwater import Synthesizer
from headwater.client import Client

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


def load(kind: str, port: int, seconds: float, columns: str, name: str = "a") -> subprocess.Popen[str]:
    """Writers or readers in a process of their own."""
    connections, pause = (READERS, 1.0) if kind == "read" else (CONNECTIONS, 0.0)
    how = {"kind": kind, "port": port, "seconds": seconds, "columns": columns, "name": name}
    command = [
        sys.executable,
        "-m",
        "benchmarks.serve_load",
        json.dumps(how | {"connections": connections, "pause": pause}),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str]) -> dict[str, Any]:
    text, _ = process.communicate()
    return dict(json.loads(text))


def resident(process: subprocess.Popen[bytes]) -> float:
    """Megabytes."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


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
    with served(folder, port, 200_000, records.schema) as process:
        posted(port, tables[:5])  # warm
        found["posted"] = posted(port, tables)
        settle(port)
        found["single"] = result(load("write", port, seconds, columns))
        readers = load("read", port, seconds + 4, columns)
        time.sleep(2)
        found["beside_readers"] = result(load("write", port, seconds, columns, "b"))
        found["readers"] = result(readers)
        found["memory_before"] = resident(process)
        slow = slow_readers(port, 100)
        for _ in range(3):
            posted(port, tables)
        settle(port)  # a table of a million rows that is being published takes memory for itself
        found["memory_after"] = resident(process)
        for connection in slow:
            with suppress(OSError):
                connection.close()
    return found


def attacked(folder: Path, seconds: float, columns: str) -> dict[str, Any]:
    """Writers and small reads while others ask for large tables, take them or go away, on a disk that is nearly full.

    The processor time of the service says whether it or the machine is short of it.
    """
    records, port = KINDS[columns], free_port()
    room = shutil.disk_usage(folder).free - (400 << 20)
    with served(folder, port, 200_000, records.schema, f"free_bytes = {room}") as process:
        posted(port, records.frames(5))
        settle(port)
        found: dict[str, Any] = {"alone": timed(process, port, seconds, columns, "a")}
        asking = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.serve_attacks", kind, str(port), str(seconds + 2)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for kind in ("attack", "small")
        ]
        time.sleep(1)
        found["beside"] = timed(process, port, seconds, columns, "b")
        found["large"], found["small"] = map(result, asking)
        found["load"] = os.getloadavg()[0]
    return found


def timed(process: subprocess.Popen[bytes], port: int, seconds: float, columns: str, name: str) -> dict[str, Any]:
    """Single posts, and the share of a processor that the service has used meanwhile."""

    def used() -> float:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before, begun = used(), time.monotonic()
    found = result(load("write", port, seconds, columns, name))
    return {**found, "processor": (used() - before) / (time.monotonic() - begun)}


def figures(found: dict[str, Any]) -> list[Figure]:
    """What is asked."""
    asked = list[Figure]()
    for columns in (name for name in KINDS if name in found):
        one, many = found[columns], f"{columns} columns: "
        single, beside = one["single"], one["beside_readers"]
        grown, batches = one["memory_after"] - one["memory_before"], one["posted"] / one["in_process"]
        asked += [
            Figure(f"{many}batches of {BATCH:,} by Arrow / `Synthesizer.update` in process", batches, at_least=0.3),
            Figure(f"{many}records by Arrow", one["posted"], "a second"),
            Figure(f"{many}single records, durable", single["rate"], "a second", at_least=1_000),
            Figure(f"{many}99 % of them answered within", single["p99"], "ms", at_most=100),
            Figure(f"{many}the rate beside {READERS} readers / without", beside["rate"] / single["rate"], at_least=0.5),
            Figure(f"{many}memory grown by 3,000,000 records beside 100 slow readers", grown, "MB", at_most=500),
        ]
    if found.get("attacked"):
        one = found["attacked"]
        ratio, small = one["beside"]["rate"] / one["alone"]["rate"], one["small"]
        failing = sum(answers.get("500", 0) for answers in (one["large"], small["statuses"], one["beside"]["statuses"]))
        asked += [
            Figure("under attack by readers: rate of single records / without", ratio, at_least=0.5),
            Figure("99 % of small tables, each another one, answered within", small["p99"], "s", at_most=1),
            Figure("answers of 500", failing, at_most=0),
        ]
    if found.get("kills"):
        kills = found["kills"]
        what = f"lost, doubled or changed by {kills['kills']} kills with −9, of {kills['records']:,} records"
        asked.append(Figure(what, len(kills["problems"]), at_most=0))
    return asked


ATTACKERS = """Attackers ask for tables of up to a million rows, read them or go away, on a disk with 400 MB
to spare. """


def page(found: dict[str, Any]) -> str:
    """The page in Markdown."""
    return f"""# The service

{judged(figures(found))}
Service and load have a process each, on one machine of {found["cores"]} cores. Every post is on the disk when it is
answered. Single records come over {CONNECTIONS} connections; readers of the release of this moment make one request a
second each; slow readers ask for whole tables and events, and take nothing of the answers. Kills come while 16
connections write with retries; afterwards the state holds exactly what was acknowledged, and replaying it gives every
release that was served. {ATTACKERS if "attacked" in found else ""}Made by `make bench-serve`; `serve.json` has all
numbers.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--kills", type=int, default=50, help="0: keep what was measured before")
    parser.add_argument("--columns", choices=tuple(KINDS), help="only this table; nothing is written")
    chosen = parser.parse_args()
    found: dict[str, Any] = {"cores": os.cpu_count()}
    for columns in [chosen.columns] if chosen.columns else KINDS:
        with TemporaryDirectory(prefix="headwater-serve-") as name:
            found[columns] = measure(Path(name), chosen.seconds, columns)
    with TemporaryDirectory(prefix="headwater-serve-") as name:
        found["attacked"] = attacked(Path(name), chosen.seconds, chosen.columns or "2")
    if chosen.columns:
        sys.exit("\n".join(map(str, figures(found))))
    if chosen.kills:
        with TemporaryDirectory(prefix="headwater-kills-") as name:
            found["kills"] = vars(attack(Path(name), kills=chosen.kills, writers=16, most=40, seed=2026, pause=2.0))
    else:
        found["kills"] = kept("serve").get("kills")
    publish("serve", found, page)
    sys.exit(failed(figures(found)))


if __name__ == "__main__":
    main()
