"""Readers who ask for too much, go away, hold on or fill the disk: all others are served all the same."""

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from benchmarks import serve_attacks as attacks
from headwater.service.answers import ProblemError
from headwater.service.render import Cache, File, GoneError, Queue, unless_gone
from tests.service.conftest import SCHEMA, records
from tests.service.test_process import Process

Check = Callable[[], None]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    found = Process(tmp_path_factory.mktemp("service"))
    with found.client() as client:
        client.write(records(250))
    attacks.ask(found.port, attacks.SMALL)
    yield found
    found.end()


def small_answers(process: Process, seconds: float) -> None:
    """Small tables, published ones and posts are answered within a second."""
    end, times = time.monotonic() + seconds, list[float]()
    rows = 5
    while time.monotonic() < end:
        rows += 1  # each another table: none of them is there yet
        for address in (f"{attacks.RUN}/releases/now/data.csv?rows={rows}", f"{attacks.RUN}/releases/200/data.parquet"):
            status, took, _ = attacks.ask(process.port, address, 5)
            assert status == 200, (address, status)
            times.append(took)
    assert sorted(times)[int(0.9 * len(times))] < 1  # 99% in `make bench-serve`, on a machine of its own


@pytest.mark.slow
def test_requests_whose_clients_are_gone_keep_nobody_waiting(process: Process) -> None:
    attacks.abandon(process.port, 300)
    small_answers(process, 3)
    assert "500" not in {line.split('"status": ')[1][:3] for line in process.log.splitlines() if '"status"' in line}


@pytest.mark.slow
def test_connections_that_are_held_keep_nobody_waiting_and_too_many_get_a_503_at_once(process: Process) -> None:
    with attacks.held(process.port, 24):
        time.sleep(0.3)
        status, took, _ = attacks.ask(process.port, attacks.LARGE.format(rows=777_777))
        assert (status, took < 1) == (503, True)  # of the same client
        small_answers(process, 3)
        with process.client() as client:
            assert client.write(records(1)) > 250


@pytest.mark.slow
def test_behind_a_proxy_that_is_named_each_client_has_a_share_of_its_own(tmp_path: Path) -> None:
    process = Process(tmp_path, more='proxies = ["127.0.0.1"]')
    try:
        with process.client() as client:
            client.write(records(250))
        with attacks.held(process.port, 24, {"X-Forwarded-For": "192.0.2.1"}):
            time.sleep(0.3)
            address = attacks.LARGE.format(rows=500_000)
            for forwarded, status in (("192.0.2.1", 503), ("192.0.2.2", 200)):
                assert attacks.ask(process.port, address, headers={"X-Forwarded-For": forwarded})[0] == status
    finally:
        process.end()


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount")
def test_readers_cannot_take_the_disk_from_writers(tmp_path: Path) -> None:
    """A disk of 64 MB, 24 of which are for records. Tables on demand are several times as large."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "none", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount here")
    process = Process(disk, limits="cache_bytes = 1000000000\nfree_bytes = 24000000")
    try:
        with process.client() as client:
            client.write(records(250))
            floods = [attacks.Flood(process.port, rows) for rows in (900_000, 600_000, 400_000)]
            for flood in floods:
                flood.start()
            end, t = time.monotonic() + 8, 250
            while time.monotonic() < end:
                t += 2000
                assert client.write(records(2000)) == t
                assert attacks.ask(process.port, "/readyz")[0] == 200
                assert attacks.ask(process.port, attacks.SMALL)[0] == 200
            filler = disk / "filler"  # others fill it: what was made for readers is given back first
            filler.write_bytes(bytes(int(0.9 * free_of(disk))))
            assert client.write(records(100)) == t + 100
            assert attacks.ask(process.port, attacks.SMALL)[0] == 200
            statuses = {status for flood in floods for status in flood.stop()}
            assert statuses <= {0, 200, 503}
            assert 503 in statuses
    finally:
        process.end()
        subprocess.run(["umount", "-l", str(disk)], check=True)  # noqa: S607 - fixed words


def free_of(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def test_clients_take_turns_and_whoever_has_a_share_is_refused() -> None:
    async def attack() -> list[str]:
        queue, gate, order = Queue("test", threads=1, share=3, most=5), threading.Event(), list[str]()

        def work(name: str) -> Callable[[Check], None]:
            def wait(check: Check) -> None:
                gate.wait(10)
                order.append(name)

            return wait

        asked = [asyncio.ensure_future(queue.result("greedy", number, work(f"greedy {number}"))) for number in range(3)]
        await asyncio.sleep(0.05)
        with pytest.raises(ProblemError) as caught:
            await queue.result("greedy", 4, work("greedy 4"))
        assert (caught.value.status, "Retry-After" in caught.value.headers) == (503, True)
        asked += [asyncio.ensure_future(queue.result("other", number, work(f"other {number}"))) for number in (10, 11)]
        await asyncio.sleep(0.05)
        with pytest.raises(ProblemError):
            await queue.result("third", 20, work("third"))  # five are there
        asked.append(asyncio.ensure_future(queue.result("third", 11, work("twice"))))  # but not to what is made anyway
        await asyncio.sleep(0.05)
        gate.set()
        await asyncio.gather(*asked)
        queue.close()
        return order

    assert asyncio.run(attack()) == ["greedy 0", "other 10", "greedy 1", "other 11", "greedy 2"]


def test_work_for_a_request_that_is_gone_stops_and_what_waits_never_begins() -> None:
    async def attack() -> tuple[list[str], bool]:
        queue, seen = Queue("test", threads=1, share=9, most=9), list[str]()
        stopped = threading.Event()

        def long(check: Check) -> None:
            seen.append("long")
            try:
                while True:
                    check()
                    time.sleep(0.005)
            except GoneError:
                stopped.set()
                raise

        leave = asyncio.Event()

        async def receive() -> dict[str, str]:
            await leave.wait()
            return {"type": "http.disconnect"}

        works: list[Callable[[Check], None]] = [long, lambda check: seen.append("never")]
        asked = [
            asyncio.ensure_future(unless_gone(receive, queue.result("a", number, work)))
            for number, work in enumerate(works)
        ]
        await asyncio.sleep(0.1)
        leave.set()
        await asyncio.gather(*asked, return_exceptions=True)
        await queue.result("b", 9, lambda check: seen.append("other"))
        queue.close()
        return seen, stopped.wait(5)

    assert asyncio.run(attack()) == (["long", "other"], True)


def test_tables_for_readers_take_no_more_than_their_share_of_the_disk(tmp_path: Path) -> None:
    def make(cache: Cache, name: str, rows: int) -> File:
        table = pa.table({"x": [0.5] * 1000, "kind": ["a"] * 1000})
        found = cache.make(name, "csv", SCHEMA, lambda: iter([table] * (rows // 1000)), False, lambda: None)
        assert isinstance(found, File)
        return found

    cache = Cache(tmp_path, 300_000, 0)
    first = make(cache, "first", 20_000)
    sent = first.pieces()
    next(sent)
    make(cache, "second", 10_000)
    with pytest.raises(ProblemError) as caught:
        make(cache, "third", 20_000)  # the first one is being sent
    assert caught.value.status == 503
    assert cache.give_back()
    assert list(sent) == []
    assert [cache.find(name) for name in ("first", "second")] == [None, None]
    del first
    assert make(cache, "third", 20_000) is cache.find("third")
    make(cache, "fourth", 20_000)  # the third one was not being sent
    assert cache.find("third") is None
    assert not list(tmp_path.iterdir())  # nothing stays after a kill
    with pytest.raises(ProblemError):
        make(Cache(tmp_path, 1 << 40, 1 << 60), "any", 1000)


def test_a_full_disk_is_given_back_by_readers_before_a_post_is_refused(tmp_path: Path) -> None:
    from headwater.run import FolderSink, Run, RunConfig
    from headwater.run.lock import StoreError
    from headwater.service import Limits, RunSettings
    from headwater.service.write import Form, Post, Writer

    gave = list[bool]()
    with Run.open(RunConfig(SCHEMA, 1.0), FolderSink(tmp_path / "out"), state=tmp_path / "state") as run:
        take = run.take

        def full(batch: object, **more: Any) -> int:  # noqa: ANN401 - as there
            if not gave:
                raise StoreError("state", "the disk is full", "make room")
            return take(batch, **more)

        run.take = full  # type: ignore[assignment, method-assign]
        cache = Cache(tmp_path, 1 << 20, 0)
        cache.give_back = lambda: not gave.append(True)  # type: ignore[method-assign, func-returns-value]
        writer = Writer(run, RunSettings(SCHEMA, 1.0, out=tmp_path / "out"), Limits(), lambda t: None, cache)

        post = Post(b'{"x": 0.5, "kind": "a"}', Form("json"), None, b"d" * 16)
        writer.submit(post)
        assert post.answer.result(10).t == 1
        writer.close()
