"""Runs experiments on all processors, with a checkpoint after every chunk, so that an audit survives a kill."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import multiprocessing
import os
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import headwater
from headwater.audit.events import Value
from headwater.audit.experiments import BARE, Experiment

CHUNK = 250  # runs that are lost at most, for each process, when an audit is interrupted
MANY = 50_000  # of draws of bare noise, which are quick

Columns = dict[str, list[Value]]
Progress = Callable[[int, int, str], None]  # chunks done, chunks in all, what was done last


@dataclass(frozen=True)
class _Task:
    """One chunk of runs of one experiment on one of its streams."""

    experiment: Experiment
    side: int
    number: int
    runs: int
    seed: int | None
    phase: str = ""  # runs that chose a pair are never counted again as runs that measure it

    @property
    def key(self) -> str:
        of_chunk = f"{self.side} {self.number} {self.runs} {self.seed} {self.phase}"
        return f"{_code()} {self.experiment.fingerprint} {of_chunk}"

    def run(self) -> Columns:
        seed = None if self.seed is None else self.seed + 2 * CHUNK * self.number
        return self.experiment.columns(self.side, self.runs, seed)


@functools.cache
def _code() -> str:
    """A digest of all source files: what other code has measured is not taken for this code's."""
    digest = hashlib.sha256()
    for path in sorted(Path(headwater.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _watch_parent() -> None:
    """End this worker when the process that started it is gone: a killed audit must leave nothing running."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def leave() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=leave, daemon=True).start()


class Checkpoint:
    """A file of finished chunks, one a line. A line that a kill cut short is skipped. ``None`` keeps nothing."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.path = None if path is None else Path(path)
        self._known: dict[str, str] = {}
        self._torn = False
        if self.path is not None and self.path.exists():
            text = self.path.read_text(errors="replace")
            self._torn = bool(text) and not text.endswith("\n")
            for line in text.splitlines():
                try:
                    entry = json.loads(line)
                    self._known[entry["key"]] = entry["data"]
                except (ValueError, KeyError, TypeError):
                    continue

    def get(self, key: str) -> Columns | None:
        """The columns of a chunk that was finished before."""
        if (data := self._known.get(key)) is None:
            return None
        try:
            columns: object = json.loads(zlib.decompress(base64.b64decode(data)))
        except (ValueError, TypeError, zlib.error):
            return None
        return columns if isinstance(columns, dict) else None

    def put(self, key: str, columns: Columns) -> None:
        """Keep a chunk: it is on the disk when this returns."""
        if self.path is None:
            return
        data = base64.b64encode(zlib.compress(json.dumps(columns).encode())).decode()
        with self.path.open("ab") as file:
            file.write((b"\n" if self._torn else b"") + json.dumps({"key": key, "data": data}).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._torn = False


def run_experiments(
    experiments: Sequence[Experiment],
    runs: int,
    *,
    processes: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    seed: int | None = None,
    phase: str = "",
    progress: Progress | None = None,
) -> Iterator[tuple[Experiment, tuple[Columns, Columns]]]:
    """All runs of every experiment, ``runs`` on each stream; experiments come as they are finished.

    Without a seed every run has a key of its own from the operating system. With one process everything happens in
    this one; with more, call it from a module that can be imported without side effects.
    """
    tasks = [task for experiment in experiments for task in _tasks(experiment, runs, seed, phase)]
    kept, left = Checkpoint(checkpoint), dict[str, int]()
    for task in tasks:
        left[task.experiment.fingerprint] = left.get(task.experiment.fingerprint, 0) + 1
    found: dict[str, dict[tuple[int, int], Columns]] = {name: {} for name in left}
    for done, (task, columns) in enumerate(_finished(tasks, kept, processes), start=1):
        name = task.experiment.fingerprint
        found[name][task.side, task.number] = columns
        if progress:
            progress(done, len(tasks), task.experiment.name)
        if len(found[name]) == left[name]:
            yield task.experiment, _joined(found.pop(name))


def _tasks(experiment: Experiment, runs: int, seed: int | None, phase: str) -> Iterator[_Task]:
    runs, size = (max(runs, MANY), max(runs, MANY)) if experiment.mechanism in BARE else (runs, CHUNK)
    for number, start in enumerate(range(0, runs, size)):
        for side in (0, 1):
            yield _Task(experiment, side, number, min(size, runs - start), seed, phase)


def _finished(tasks: Sequence[_Task], kept: Checkpoint, processes: int | None) -> Iterator[tuple[_Task, Columns]]:
    todo = []
    for task in tasks:
        columns = kept.get(task.key)
        if columns is None:
            todo.append(task)
        else:
            yield task, columns
    count = min(processes or os.cpu_count() or 1, max(len(todo), 1))
    if count == 1:
        for task in todo:
            columns = task.run()
            kept.put(task.key, columns)
            yield task, columns
        return
    context = multiprocessing.get_context("spawn")  # a forked process would share what must not be shared
    with ProcessPoolExecutor(count, mp_context=context, initializer=_watch_parent) as pool:
        waiting: dict[Future[Columns], _Task] = {}
        try:
            for task in todo:
                waiting[pool.submit(_Task.run, task)] = task
                if len(waiting) >= 2 * count:
                    yield from _collected(waiting, kept)
            while waiting:
                yield from _collected(waiting, kept)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _collected(waiting: dict[Future[Columns], _Task], kept: Checkpoint) -> Iterator[tuple[_Task, Columns]]:
    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
        task = waiting.pop(future)
        columns = future.result()
        kept.put(task.key, columns)
        yield task, columns


def _joined(parts: dict[tuple[int, int], Columns]) -> tuple[Columns, Columns]:
    """The chunks of both streams, in order; a feature that a run does not have is ``None`` there."""
    names = {name: None for columns in parts.values() for name in columns}
    sides: list[Columns] = [{name: [] for name in names} for _ in range(2)]
    for (side, _), columns in sorted(parts.items()):
        runs = max(map(len, columns.values()), default=0)
        for name in names:
            sides[side][name].extend(columns.get(name, [None] * runs))
    return sides[0], sides[1]
