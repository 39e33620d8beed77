"""What is made for readers: a queue in which clients take turns, a bounded place for the tables, and their formats."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet, WeakValueDictionary, finalize

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
_PIECE, _JSON_PIECE = 1 << 17, 200  # rows that are written at a time: between two of them a table can be given up
_SENT = 1 << 18  # bytes that are read and sent at a time
_LONGEST_REST = 2.0  # seconds
_STAYS = 60.0  # seconds for which a table that is being sent keeps its room, if others need it
_MEMORY = 32 << 20  # bytes of small tables
_T = TypeVar("_T")
Check = Callable[[], None]
Tables = Callable[[], Iterator[Any]]  # of Arrow


class GoneError(Exception):
    """Nobody waits for this any more."""


class _Job:
    task: asyncio.Task[Any]

    def __init__(self, client: str, closed: threading.Event) -> None:
        self.client, self._closed, self.readers, self._used = client, closed, 0, 0.0

    def run(self, work: Callable[[Check], _T]) -> _T:
        self._used = time.thread_time()
        return work(self.check)

    def check(self) -> None:
        """Rest as long as was worked since the last time, since records come first; end if nobody waits."""
        time.sleep(min(time.thread_time() - self._used, _LONGEST_REST))
        self._used = time.thread_time()
        if not self.readers or self._closed.is_set():
            raise GoneError


class Queue:
    """Work for readers by so many threads: of every client as many jobs stand in line, so clients take turns."""

    def __init__(self, name: str, threads: int, share: int, most: int) -> None:
        self._pool, self._threads = ThreadPoolExecutor(threads, name), threads
        self._line, self._share, self._most = asyncio.Semaphore(threads), share, most
        self._turns = WeakValueDictionary[str, asyncio.Semaphore]()  # by client
        self._jobs: dict[Hashable, _Job] = {}
        self._closed = threading.Event()

    @property
    def busy(self) -> bool:
        return bool(self._jobs)

    async def result(self, client: str, key: Hashable, work: Callable[[Check], _T]) -> _T:
        """The result of work, which calls what it is given from time to time: that ends it if nobody waits."""
        job = self._jobs.get(key)
        if job is None:
            mine = sum(other.client == client for other in self._jobs.values())
            if mine >= self._share or len(self._jobs) >= self._most or self._closed.is_set():
                raise busy("too much is being asked for at a time")
            job = self._jobs[key] = _Job(client, self._closed)
            job.task = asyncio.create_task(self._run(job, key, work))
        job.readers += 1
        try:
            found: _T = await asyncio.shield(job.task)
            return found
        finally:
            job.readers -= 1
            if not job.readers:
                self._forget(key, job)
                job.task.cancel()

    async def _run(self, job: _Job, key: Hashable, work: Callable[[Check], _T]) -> _T:
        try:
            turn = self._turns.setdefault(job.client, asyncio.Semaphore(self._threads))
            async with turn, self._line:
                if self._closed.is_set():
                    raise GoneError
                return await asyncio.get_running_loop().run_in_executor(self._pool, partial(job.run, work))
        except GoneError:
            raise busy("the service is stopping") from None
        finally:
            self._forget(key, job)

    def _forget(self, key: Hashable, job: _Job) -> None:
        if self._jobs.get(key) is job:
            del self._jobs[key]

    def close(self) -> None:
        self._closed.set()
        self._pool.shutdown(cancel_futures=True)


async def unless_gone(receive: Callable[[], Awaitable[Any]], work: Awaitable[_T]) -> _T:
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


class File:
    """A file that is sent, open as long as anybody has this."""

    def __init__(self, number: int) -> None:
        self.number, self.size, self.made, self.cut = number, os.fstat(number).st_size, time.monotonic(), False
        finalize(self, os.close, number)

    def __len__(self) -> int:
        return self.size

    def pieces(self) -> Iterator[bytes]:
        """Its content, which ends early if its room was needed meanwhile."""
        at = 0
        while piece := os.pread(self.number, _SENT, at):
            yield piece
            at += len(piece)

    def give_back(self) -> None:
        self.cut, self.size = True, 0
        os.truncate(self.number, 0)


def regular(path: Path) -> File:
    """A file by its own name: never what a link leads to, nor a pipe that somebody has put in its place."""
    file = File(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
    if not stat.S_ISREG(os.fstat(file.number).st_mode):
        raise FileNotFoundError(path)
    return file


class Cache:
    """Tables that were made for readers, by name: small ones in memory, others in files that have no name.

    Whatever has no name on the disk is gone when nobody has it open, also after a kill.
    """

    def __init__(self, folder: Path, most: int, free: int) -> None:
        self._folder, self._most, self._free = folder, most, free
        self._small, self._large = (
            OrderedDict[str, bytes](),
            OrderedDict[str, File](),
        )  # what was asked for last is last
        self._open = WeakSet[File]()  # also those that are being made, and those that are still sent
        self._lock = threading.Lock()

    def find(self, name: str) -> bytes | File | None:
        kept: OrderedDict[str, Any]
        with self._lock:
            for kept in (self._small, self._large):
                if name in kept:
                    kept.move_to_end(name)
                    found: bytes | File = kept[name]
                    return found
        return None

    def make(self, name: str, form: str, schema: AnySchema, tables: Tables, small: bool, check: Check) -> bytes | File:
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

    def _make_file(self, name: str, form: str, schema: AnySchema, tables: Tables, check: Check) -> File:
        def check_all() -> None:
            check()
            self._make_room(made)

        try:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                made = File(os.dup(file.fileno()))
            with self._lock:
                self._open.add(made)
            self._make_room(made)
            with open(os.dup(made.number), "wb") as opened, pa.PythonFile(opened) as sink:
                write(_watched(tables(), form, check_all), sink, form, schema)
            self._make_room(made)
        except OSError:  # no room, though there was some a moment ago
            raise busy("there is no room to make this table", seconds=10) from None
        with self._lock:
            self._large[name] = made
        return made

    def _make_room(self, made: File) -> None:
        """Let tables go that were not asked for of late; a 503 if that is not enough for the one that is made."""
        with self._lock:
            while self._is_full(made) and self._large:
                self._large.popitem(last=False)
            for other in sorted(self._open, key=lambda file: file.made):
                if self._is_full(made) and time.monotonic() - other.made > _STAYS:
                    other.give_back()
            if made.cut or self._is_full(made):
                detail = "there is no room to make this table; ask for fewer rows (rows=), or"
                raise ProblemError(503, f"{detail} try again in a minute", {"Retry-After": "60"})

    def _is_full(self, made: File) -> bool:
        made.size = os.fstat(made.number).st_size
        return sum(file.size for file in self._open) > self._most or not self._enough_free()

    def _enough_free(self) -> bool:
        return shutil.disk_usage(self._folder).free >= self._free

    def keep_free(self) -> None:
        """Give the disk back, if too little of it is free. Called again and again."""
        if not self._enough_free():
            self.give_back()

    def give_back(self) -> bool:
        with self._lock:
            self._large.clear()
            files = [file for file in self._open if not file.cut]
            for file in files:
                file.give_back()
            return bool(files)


def _watched(tables: Iterator[Any], form: str, check: Check) -> Iterator[Any]:
    rows = _JSON_PIECE if form == "json" else _PIECE  # JSON is made by Python, and nothing else meanwhile
    for table in tables:
        for start in range(0, max(table.num_rows, 1), rows):
            check()
            yield table.slice(start, rows)
    check()


def write(tables: Iterator[Any], sink: Any, form: str, schema: AnySchema) -> None:  # noqa: ANN401 - a file of Arrow
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
