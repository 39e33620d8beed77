"""What is made for readers: a queue in which clients take turns, a bounded place for the tables, and their formats."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from headwater.public.build import in_text
from headwater.public.folder import write_table
from headwater.public.protocol import AnySchema
from headwater.service.answers import ProblemError, busy

MEDIA = {
    "parquet": "application/vnd.apache.parquet",
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "arrow": "application/vnd.apache.arrow.stream",
}
"""The media type of each format that is sent."""

_PIECE, _JSON_PIECE = 1 << 17, 200  # rows that are written at a time: between two of them a table can be given up
_LONGEST_REST = 2.0  # seconds
_STAYS = 60.0  # seconds for which a table stays that was asked for: it may be being sent
_MEMORY = 32 << 20  # bytes of small tables
_T = TypeVar("_T")
Check = Callable[[], None]
Tables = Callable[[], Iterator[Any]]  # of Arrow


class GoneError(Exception):
    """Nobody waits for this any more."""


class _Job:
    def __init__(self, client: str, work: Callable[[Check], Any], closed: threading.Event) -> None:
        self.client, self.work, self._closed = client, work, closed
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.readers, self._used = 0, 0.0

    def run(self) -> object:
        """In a thread."""
        self._used = time.thread_time()
        return self.work(self.check)

    def check(self) -> None:
        """Rest as long as was worked since the last time, since records come first; end if nobody waits."""
        time.sleep(min(time.thread_time() - self._used, _LONGEST_REST))
        self._used = time.thread_time()
        if not self.readers or self._closed.is_set():
            raise GoneError


class Queue:
    """Work for readers by so many threads."""

    def __init__(self, name: str, threads: int, share: int, most: int) -> None:
        self._pool = ThreadPoolExecutor(threads, name)
        self._idle, self._share, self._most = threads, share, most
        self._jobs: dict[Hashable, _Job] = {}  # waiting or under way
        self._turns: OrderedDict[str, deque[tuple[Hashable, _Job]]] = OrderedDict()  # waiting, by client
        self._closed = threading.Event()

    @property
    def busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self._jobs)

    async def result(self, client: str, key: Hashable, work: Callable[[Check], _T]) -> _T:
        """The result of work, which calls what it is given from time to time: that ends it if nobody waits."""
        job = self._jobs.get(key)
        if job is None:
            mine = sum(other.client == client for other in self._jobs.values())
            if mine >= self._share or len(self._jobs) >= self._most or self._closed.is_set():
                raise busy("too much is being asked for at a time")
            job = self._jobs[key] = _Job(client, work, self._closed)
            self._turns.setdefault(client, deque()).append((key, job))
        job.readers += 1
        self._begin()
        try:
            found: _T = await asyncio.shield(job.done)
            return found
        finally:
            job.readers -= 1
            if not job.readers:
                self._forget(key, job)

    def _begin(self) -> None:
        while self._idle and self._turns:
            client, jobs = self._turns.popitem(last=False)
            key, job = jobs.popleft()
            if jobs:
                self._turns[client] = jobs  # behind all others
            self._idle -= 1
            running = asyncio.get_running_loop().run_in_executor(self._pool, job.run)
            running.add_done_callback(partial(self._end, key, job))

    def _end(self, key: Hashable, job: _Job, running: asyncio.Future[Any]) -> None:
        self._idle += 1
        self._forget(key, job)
        error = asyncio.CancelledError() if running.cancelled() else running.exception()
        if job.readers and not job.done.done():
            if error is None:
                job.done.set_result(running.result())
            else:
                job.done.set_exception(busy("the service is stopping") if isinstance(error, GoneError) else error)
        if not self._closed.is_set():
            self._begin()

    def _forget(self, key: Hashable, job: _Job) -> None:
        if self._jobs.get(key) is job:
            del self._jobs[key]
        waiting = self._turns.get(job.client, deque())
        if (key, job) in waiting:
            waiting.remove((key, job))
            if not waiting:
                del self._turns[job.client]

    def close(self) -> None:
        """End what is under way."""
        self._closed.set()
        self._pool.shutdown(cancel_futures=True)


async def unless_gone(receive: Callable[[], Awaitable[Any]], work: Awaitable[_T]) -> _T:
    """The result of work for a request; given up when its client goes away."""

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ProblemError(400, "the client went away")
        return working.result()
    finally:
        leaving.cancel()
        working.cancel()


class Cache:
    """Tables that were made for readers, by name: small ones in memory, others in a folder of its own."""

    def __init__(self, folder: Path, most: int, free: int) -> None:
        self._folder, self._most, self._free, self._ours = folder, most, free, False
        self._files: OrderedDict[Path, tuple[int, float]] = OrderedDict()  # bytes, and when it was asked for last
        self._small: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Begin with an empty folder: a service that was killed has left its files there."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700, parents=True)
        self._ours = True

    def find(self, name: str) -> bytes | Path | None:
        """The table of this name, if it is there."""
        with self._lock:
            if name in self._small:
                self._small.move_to_end(name)
                return self._small[name]
            path = self._folder / name
            if path not in self._files:
                return None
            self._files[path] = (self._files.pop(path)[0], time.monotonic())
            return path

    def make(self, name: str, form: str, schema: AnySchema, tables: Tables, small: bool, check: Check) -> bytes | Path:
        """Write a table, in memory if it is ``small``. ``check`` is called after each piece."""
        if not small:
            return self._make_file(name, form, schema, tables, check)
        with pa.BufferOutputStream() as sink:
            write(_watched(tables(), form, check), sink, form, schema)
            content: bytes = sink.getvalue().to_pybytes()
        with self._lock:
            self._small[name] = content
            while sum(map(len, self._small.values())) > _MEMORY and len(self._small) > 1:
                self._small.popitem(last=False)
        return content

    def _make_file(self, name: str, form: str, schema: AnySchema, tables: Tables, check: Check) -> Path:
        path = self._folder / name
        hidden = path.with_name(f".{name}")

        def check_all() -> None:
            check()
            self._make_room(hidden.stat().st_size)

        try:
            self._make_room(0)
            with pa.OSFile(str(hidden), "wb") as sink:
                write(_watched(tables(), form, check_all), sink, form, schema)
            os.rename(hidden, path)
        except OSError:  # no room, though there was some a moment ago
            raise busy("there is no room to make this table", seconds=10) from None
        finally:
            hidden.unlink(missing_ok=True)
        with self._lock:
            self._files[path] = (path.stat().st_size, time.monotonic())
        return path

    def _make_room(self, needed: int) -> None:
        """Remove tables that were not asked for of late; a 503 if that is not enough."""
        with self._lock:
            for path, (_, asked) in list(self._files.items()):
                if self._fits(needed) or time.monotonic() - asked < _STAYS:
                    break
                self._remove(path)
            if not self._fits(needed):
                detail = "there is no room to make this table; ask for fewer rows (rows=), or"
                raise ProblemError(503, f"{detail} try again in a minute", {"Retry-After": "60"})

    def _fits(self, needed: int) -> bool:
        return sum(size for size, _ in self._files.values()) + needed <= self._most and self._enough_free()

    def _enough_free(self) -> bool:
        return shutil.disk_usage(self._folder.parent).free >= self._free

    def keep_free(self) -> None:
        """Give the disk back, if too little of it is free. Called again and again."""
        if not self._enough_free():
            self.give_back()

    def give_back(self) -> bool:
        """Remove all files; whether there were any."""
        with self._lock:
            paths = list(self._files)
            for path in paths:
                self._remove(path)
            return bool(paths)

    def _remove(self, path: Path) -> None:
        del self._files[path]
        with suppress(OSError):
            os.truncate(path, 0)
            path.unlink()

    def close(self) -> None:
        """Remove the folder, unless `clear` was never called: then it is somebody else's."""
        if self._ours:
            shutil.rmtree(self._folder, ignore_errors=True)


def _watched(tables: Iterator[Any], form: str, check: Check) -> Iterator[Any]:
    rows = _JSON_PIECE if form == "json" else _PIECE  # JSON is made by Python, and nothing else meanwhile
    for table in tables:
        for start in range(0, max(table.num_rows, 1), rows):
            check()
            yield table.slice(start, rows)
    check()


def write(tables: Iterator[Any], sink: Any, form: str, schema: AnySchema) -> None:  # noqa: ANN401 - a file of Arrow
    """Write Arrow tables of a schema, at least one."""
    if form in ("parquet", "csv"):
        write_table(tables, sink, form, schema)
    elif form == "arrow":
        first = next(tables)
        with pa.ipc.new_stream(sink, first.schema) as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)
    else:
        before = b"[\n"
        for table in in_text(tables, schema):
            if table.num_rows:
                sink.write(before + b",\n".join(map(msgspec.json.encode, table.to_pylist())))
                before = b",\n"
        sink.write(b"[]\n" if before == b"[\n" else b"\n]\n")
