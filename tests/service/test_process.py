"""The service as a process with sockets: hostile bytes, slow bytes, events, and an end in order."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.serve_kills import answering, free_port
from headwater.client import Client, ServiceError
from headwater.public.schema import Schema
from headwater.run.state import State
from headwater.service import tokens
from tests.service.conftest import SCHEMA, records

pytestmark = pytest.mark.slow  # processes, browsers and brokers


class Process:
    """A service of one run called trips."""

    def __init__(self, folder: Path, schema: Schema = SCHEMA, more: str = "", limits: str = "") -> None:
        self.folder, self.port = folder, free_port()
        schema.save(folder / "trips.toml")
        limits = f"[limits]\nbody_seconds = 1.5\nbody_bytes = 100000\n{limits}"
        run = '[runs.trips]\nschema = "trips.toml"\nepsilon = 1\nevery = "100"\nout = "out"'
        (folder / "service.toml").write_text(f"port = {self.port}\n{more}\n{limits}\n{run}\n")
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "headwater.cli", "serve", str(self.folder / "service.toml")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        answering(self.port, self.process)

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait()

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def client(self) -> Client:
        return Client(f"http://127.0.0.1:{self.port}/runs/trips", patience=10)

    def send(self, *parts: bytes, pause: float = 0.0, seconds: float = 20.0) -> bytes:
        """What comes back until the service closes the connection, or is silent for so long."""
        with closing(socket.create_connection(("127.0.0.1", self.port), timeout=seconds)) as connection:
            found = b""
            try:
                for part in parts:
                    connection.sendall(part)
                    time.sleep(pause)
                while more := connection.recv(65536):
                    found += more
            except OSError:
                pass
            return found


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    found = Process(tmp_path_factory.mktemp("service"))
    yield found
    if found.process.poll() is None:
        found.process.kill()
    found.process.wait()


HOST = b"Host: 127.0.0.1\r\n"
POST = b"POST /runs/trips/records HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
BODY = b'{"x":0.5,"kind":"a"}'


def statuses(answer: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3})", answer)]


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        (
            "both lengths",
            POST + b"Content-Length: 20\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n",
        ),
        ("two lengths", POST + b"Content-Length: 20\r\nContent-Length: 5\r\n\r\n" + BODY),
        ("a negative length", POST + b"Content-Length: -5\r\n\r\n" + BODY),
        ("a length with a sign", POST + b"Content-Length: +20\r\n\r\n" + BODY),
        ("an odd coding", POST + b"Transfer-Encoding: xchunked\r\n\r\n" + BODY),
        ("a folded header", POST + b"X-A: b\r\n c\r\nContent-Length: 20\r\n\r\n" + BODY),
        ("a space before the colon", POST + b"Content-Length : 20\r\n\r\n" + BODY),
        ("two hosts", POST + b"Host: evil.example\r\nContent-Length: 20\r\n\r\n" + BODY),
        ("no host", b"GET /runs HTTP/1.1\r\n\r\n"),
        ("a null byte", b"GET /runs\0 HTTP/1.1\r\n" + HOST + b"\r\n"),
        ("a bad chunk", POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + BODY),
        ("no HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 50 + b"\r\n\r\n"),
    ],
)
def test_requests_that_two_parsers_might_read_in_two_ways_are_refused(
    process: Process, name: str, request_: bytes
) -> None:
    with process.client() as client:
        before = client.status()["t"]
        answer = process.send(request_, seconds=4)
        assert all(status >= 400 for status in statuses(answer)), (name, answer)
        assert len(statuses(answer)) <= 1
        assert client.status()["t"] == before


def test_a_path_is_never_a_path_of_files(process: Process) -> None:
    for path in (
        b"/../service.toml",
        b"/static/../../../etc/passwd",
        b"/runs/trips/../../service.toml",
        b"//etc/passwd",
    ):
        answer = process.send(b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
        assert statuses(answer) == [404]
        assert b"epsilon" not in answer
        assert b"root:" not in answer


def test_a_head_that_never_ends_is_cut_off(process: Process) -> None:
    begun = time.monotonic()
    process.send(b"GET / HTTP/1.1\r\nX: ", b"a" * 1_000_000)
    assert process.send(b"GET / HTTP/1.1\r\nHo") == b""  # slow: nothing more comes
    whole = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"
    assert statuses(process.send(whole, whole + b"GET / HTTP/1.1\r\nHo", pause=0.3)) == [200, 200]  # so is the third
    assert time.monotonic() - begun < 15
    many = b"".join(b"X-%d: y\r\n" % i for i in range(10_000))
    assert 200 not in statuses(process.send(b"GET / HTTP/1.1\r\n" + HOST + many, b"\r\n"))


def test_a_slow_body_gets_an_answer_and_a_half_one_counts_nothing(process: Process) -> None:
    with process.client() as client:
        before = client.status()["t"]
        slow = process.send(POST + b"Content-Length: 20\r\n\r\n" + BODY[:5], seconds=10)
        assert statuses(slow) == [408]
        with closing(socket.create_connection(("127.0.0.1", process.port))) as connection:
            connection.sendall(POST + b"Content-Length: 20\r\n\r\n" + BODY[:5])
        large = process.send(POST + b"Content-Length: 99999999999\r\n\r\n" + BODY)
        assert statuses(large) == [413]
        chunk = b"%x\r\n" % 60_000 + b" " * 60_000 + b"\r\n"
        endless = process.send(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + chunk + chunk)
        assert statuses(endless) == [413]
        assert client.status()["t"] == before
        assert client.write(records(1)) == before + 1


def test_events_tell_what_changed_and_a_client_hears_them(process: Process) -> None:
    with process.client() as client, process.client() as listener:
        seen = list[int]()

        def listen() -> None:
            for state in listener.events():
                seen.append(state["t"])
                if len(seen) >= 2:
                    return

        thread = threading.Thread(target=listen)
        thread.start()
        end = time.monotonic() + 20
        while not seen and time.monotonic() < end:
            time.sleep(0.02)
        t = client.write(records(3))
        thread.join(20)
        assert seen[-1] == t
        assert seen[0] == t - 3


def test_a_revoked_token_loses_its_stream_and_its_half_sent_post_within_a_second(tmp_path: Path) -> None:
    read, write = (tokens.create(tmp_path / "tokens", role) for role in ("read", "write"))
    process = Process(tmp_path, more='tokens = "tokens"')
    try:
        with closing(socket.create_connection(("127.0.0.1", process.port), timeout=10)) as stream:
            head = b"GET /runs/trips/events HTTP/1.1\r\n" + HOST + b"Authorization: Bearer %s\r\n\r\n"
            stream.sendall(head % read.encode())
            while b"event: state" not in stream.recv(65536):
                pass
            with closing(socket.create_connection(("127.0.0.1", process.port), timeout=10)) as post:
                post.sendall(
                    POST + b"Authorization: Bearer %s\r\nContent-Length: 20\r\n\r\n" % write.encode() + BODY[:5]
                )
                for token in (read, write):
                    tokens.revoke(tmp_path / "tokens", token)
                begun = time.monotonic()
                time.sleep(1.1)
                post.sendall(BODY[5:])
                assert statuses(post.recv(65536)) == [401]
            while b"0\r\n\r\n" not in stream.recv(65536):
                pass
            assert time.monotonic() - begun < 3  # one second, on a machine of its own
    finally:
        process.end()


def test_the_client_writes_tables_of_any_kind_and_reads_them(process: Process) -> None:
    import pandas
    import polars
    import pyarrow

    rows = records(40)
    with process.client() as client:
        t = client.status()["t"]
        for number, table in enumerate(
            (rows, rows[0], pandas.DataFrame(rows), polars.DataFrame(rows), pyarrow.Table.from_pylist(rows))
        ):
            t += 1 if number == 1 else 40
            assert client.write(table) == t
        key = client.write(rows, key="mine")
        assert client.write(rows, key="mine") == key
        with pytest.raises(ServiceError, match="409"):
            client.write(rows[:3], key="mine")
        with pytest.raises(ServiceError) as caught:
            client.write([*rows, {"x": 3, "kind": "?"}])
        assert (caught.value.more["row"], caught.value.more["column"]) == (40, "kind")
        assert client.now(rows=7).num_rows == 7
        assert set(client.now(rows=7, where={"kind": "a", "x": (0, 0.5)})["kind"].to_pylist()) == {"a"}
        assert client.now(last=20).num_rows >= 20
        assert client.card(last=20)["span"][1] == client.card()["t"] == client.status()["t"]
        first = client.releases()[0]["t"]
        assert client.release(first).num_rows == first == client.card(first)["rows"]


def test_logs_are_json_lines(process: Process) -> None:
    lines = [json.loads(line) for line in process.log.splitlines() if line.startswith("{")]
    assert {"start", "request"} <= {line["event"] for line in lines}
    assert not any("127.0.0.1" in json.dumps(line) for line in lines)


def test_sigterm_ends_it_in_order_and_the_next_one_goes_on(process: Process) -> None:
    with process.client() as client:
        t = client.write(records(5))
    with closing(socket.create_connection(("127.0.0.1", process.port))) as connection:  # a reader who stays
        connection.sendall(b"GET /runs/trips/events HTTP/1.1\r\n" + HOST + b"\r\n")
        connection.recv(100)
        process.process.send_signal(signal.SIGTERM)
        assert process.process.wait(30) == 0
    with State.open(process.folder / "out.state", observe=True) as store:
        kept, _, journal = store.load()
    assert (kept, journal) == (t, [])
    assert '"event": "stop"' in process.log.splitlines()[-1]
    process.start()
    with process.client() as client:
        assert client.status()["t"] == t


def test_a_second_service_of_the_same_state_is_refused(process: Process) -> None:
    command = [sys.executable, "-m", "headwater.cli", "serve", str(process.folder / "service.toml"), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, "COLUMNS": "200"})
    assert done.returncode == 5
    assert "another process" in done.stderr
