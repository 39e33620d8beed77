"""Runs with a state, driven by hand."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
    run._state.close()


def write(state: State, number: int) -> None:
    """A part of a sequence that is always the same."""
    rows = np.random.default_rng(number).integers(0, 1 << 60, (1000, 2), dtype=np.uint64)
    state.append(Batch(rows), {"part": number})


def tables(folder: Path) -> dict[str, bytes]:
    """Every published table below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("data.*"))}


@contextmanager
def one_file() -> Iterator[None]:
    """No snapshot takes the place of the state: what is put back is put back into the same file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "_snapshot_if", lambda *_: None)
        yield


@contextmanager
def failing(*, lasting: bool) -> Iterator[None]:
    """A disk that fails to sync, and if it is ``lasting`` to take back what was not synced."""
    sync, left = os.fsync, [1 << 30 if lasting else 1]

    def fails(handle: int) -> None:
        if left[0]:
            left[0] -= 1
            raise OSError(errno.EIO, "Input/output error")
        sync(handle)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        yield
