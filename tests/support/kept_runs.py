"""Runs with a state, driven by hand."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np

import headwater as hw
from headwater.run import FolderSink, Run, RunConfig, Schedule
from headwater.run.state import State
from headwater.secret.batch import Batch

SCHEMA = hw.Schema(x=hw.Number(0, 1))
VALUES = np.random.default_rng(0).random(1250)


def open_run(folder: Path, every: str | None = None, **more: Any) -> Run:  # noqa: ANN401 - options of both
    """A run in a folder, new or continued."""
    how = {name: more.pop(name) for name in ("allow_copy", "windows") if name in more}
    sink, state = more.pop("sink", None) or FolderSink(folder / "out"), more.pop("state", folder / "run.state")
    schedule = Schedule.parse(every) if every else Schedule()
    options: dict[str, Any] = {"schema": SCHEMA, "epsilon": 1.0, "seed": 1} | more
    return Run.open(RunConfig(**options), sink, state=state, schedule=schedule, **how)


def take(run: Run, start: int, end: int, **more: Any) -> None:  # noqa: ANN401 - as there
    """Some of the values, and whatever is due."""
    run.take({"x": VALUES[start:end]}, **more)
    run.publish_if_due()


def kill(run: Run) -> None:
    """What a killed process leaves: no snapshot, and a lock that nobody holds."""
    assert run._state is not None
    run._state.close()


def write(state: State, number: int) -> None:
    """A part of a sequence that is always the same."""
    rows = np.random.default_rng(number).integers(0, 1 << 60, (1000, 2), dtype=np.uint64)
    state.append(Batch(rows), {"part": number})


def tables(folder: Path) -> dict[str, bytes]:
    """Every published table below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("data.*"))}


class FailingDisk:
    """A connection whose commits fail: before they have happened, or after, as when the last sync fails."""

    def __init__(self, real: sqlite3.Connection, *, after: bool, reads: bool) -> None:
        self._real, self._after, self._reads, self.failed = real, after, reads, False

    def execute(self, sql: str, *more: Any) -> sqlite3.Cursor:  # noqa: ANN401 - as there
        if self.failed and not self._reads and sql != "ROLLBACK":
            raise self._error()
        if sql == "COMMIT" and not self.failed:
            self.failed = True
            if self._after:
                self._real.execute(sql)
            raise self._error()
        return self._real.execute(sql, *more)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever it is
        return getattr(self._real, name)

    def _error(self) -> sqlite3.OperationalError:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        return error


@contextmanager
def failing(state: State, *, after: bool, reads: bool = True) -> Iterator[None]:
    real = state._connection
    state._connection = cast("sqlite3.Connection", FailingDisk(real, after=after, reads=reads))
    try:
        yield
    finally:
        state._connection = real
