"""Load for a service: single records over many connections, and readers of the release of this moment."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable

from benchmarks.serve_tables import KINDS

Send = Callable[[int], bytes]


async def connection(
    port: int, send: Send, until: float, pause: float, times: list[float], known: dict[str, int]
) -> None:
    """Requests one after another over one connection, as fast as they are answered, or with a pause."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    number = 0
    while time.perf_counter() < until:
        begun = time.perf_counter()
        writer.write(send(number))
        head = await reader.readuntil(b"\r\n\r\n")
        status, length = head[9:12].decode(), 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line[15:])
        if length:
            await reader.readexactly(length)
        times.append(time.perf_counter() - begun)
        known[status] = known.get(status, 0) + 1
        number += 1
        if pause:
            await asyncio.sleep(pause)
    writer.close()


def writing(worker: int, name: str, columns: str) -> Send:
    records = [KINDS[columns].record(1000 * worker + number) for number in range(1000)]
    head = b"POST /runs/trips/records HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"

    def send(number: int) -> bytes:
        body = records[number % len(records)]
        key = b"Idempotency-Key: %s-%d-%d\r\n" % (name.encode(), worker, number)
        return head + key + b"Content-Length: %d\r\n\r\n" % len(body) + body

    return send


def reading() -> Send:
    request = b"GET /runs/trips/releases/now/data.csv?rows=100 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    return lambda number: request


async def load(
    port: int, kind: str, connections: int, seconds: float, pause: float, name: str, columns: str
) -> dict[str, object]:
    times, known = list[float](), dict[str, int]()
    sending = [writing(worker, name, columns) if kind == "write" else reading() for worker in range(connections)]
    begun = time.perf_counter()
    await asyncio.gather(*(connection(port, send, begun + seconds, pause, times, known) for send in sending))
    took = time.perf_counter() - begun
    times.sort()
    at = {f"p{part}": round(1000 * times[min(int(len(times) * part / 100), len(times) - 1)], 1) for part in (50, 99)}
    return {"rate": len(times) / took, "requests": len(times), "statuses": known, **at}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(load(**json.loads(sys.argv[1])))))
