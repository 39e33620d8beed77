"""What hostile readers do to a service over HTTP: drivers for tests and benchmarks, without anything of the service."""

from __future__ import annotations

import http.client
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

RUN = "/runs/trips"
LARGE = f"{RUN}/releases/now/data.json?rows={{rows}}"
SMALL = f"{RUN}/releases/now/data.json?rows=5"
NONE: Mapping[str, str] = {}


def ask(port: int, address: str, seconds: float = 60.0, headers: Mapping[str, str] = NONE) -> tuple[int, float, bytes]:
    """Status, seconds until the whole answer is there, and its body; status 0 if it was not there in time."""
    begun = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request("GET", address, headers=dict(headers))
        answer = connection.getresponse()
        body = answer.read()
        return answer.status, time.perf_counter() - begun, body
    except (OSError, http.client.HTTPException):
        return 0, time.perf_counter() - begun, b""
    finally:
        connection.close()


def begin(port: int, address: str, headers: Mapping[str, str] = NONE) -> socket.socket:
    """A request whose answer is not read."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    connection.sendall(f"GET {address} HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n".encode())
    return connection


def abandon(port: int, count: int, rows: int = 1_000_000) -> None:
    """Ask for so many large tables, each another one, and close each connection at once."""
    for number in range(count):
        begin(port, LARGE.format(rows=rows - number)).close()


@contextmanager
def held(port: int, count: int, headers: Mapping[str, str] = NONE, rows: int = 1_000_000) -> Iterator[None]:
    """Connections that ask for large tables, each another one, and take nothing of the answers."""
    connections = [begin(port, LARGE.format(rows=rows - number), headers) for number in range(count)]
    try:
        yield
    finally:
        for connection in connections:
            with suppress(OSError):
                connection.close()


class Flood(threading.Thread):
    """Asks for large tables again and again, each another one, and reads every answer; keeps the statuses."""

    def __init__(self, port: int, rows: int, pause: float = 0.0) -> None:
        super().__init__(daemon=True)
        self._port, self._rows, self._pause = port, rows, pause
        self._stopping = threading.Event()
        self.statuses: list[int] = []

    def run(self) -> None:
        """Ask until it is stopped."""
        number = 0
        while not self._stopping.is_set():
            number += 1
            self.statuses.append(ask(self._port, LARGE.format(rows=self._rows - number))[0])
            time.sleep(self._pause)

    def stop(self) -> list[int]:
        """The statuses of all answers."""
        self._stopping.set()
        self.join(60)
        return self.statuses


def attack(port: int, seconds: float) -> dict[str, int]:
    """Readers who take large tables, and others who ask for them and go away: how often each status was answered."""
    floods, end = [Flood(port, rows) for rows in (900_000, 600_000, 400_000)], time.monotonic() + seconds
    for flood in floods:
        flood.start()
    while time.monotonic() < end:
        abandon(port, 50)
        time.sleep(0.5)
    found = [str(status) for flood in floods for status in flood.stop()]
    return {status: found.count(status) for status in sorted(set(found))}


def small(port: int, seconds: float) -> dict[str, object]:
    """Small tables, each another one, one after the other: how long they take, and the statuses."""
    end, rows, times, found = time.monotonic() + seconds, 5, list[float](), list[str]()
    while time.monotonic() < end:
        rows += 1
        status, took, _ = ask(port, SMALL.replace("rows=5", f"rows={rows}"))
        times.append(took)
        found.append(str(status))
        time.sleep(0.05)
    times.sort()
    counts = {status: found.count(status) for status in sorted(set(found))}
    return {"statuses": counts, "p99": times[int(0.99 * len(times))], "most": times[-1]}


if __name__ == "__main__":
    kind, port, seconds = sys.argv[1:]
    print(json.dumps({"attack": attack, "small": small}[kind](int(port), float(seconds))))
