"""An interrupt at any line of a step: the step is done or it is not, and the run is what it would have been."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import headwater as hw
from headwater.run import FolderSink, Run, RunConfig, Schedule
from headwater.run import run as run_module
from headwater.run.lock import StoreError

CONFIG = RunConfig(hw.Schema(x=hw.Number(0, 1)), epsilon=1.0, seed=1)
VALUES = np.random.default_rng(0).random(300)
HERE = str(Path(run_module.__file__).parents[1])


class Interrupter:
    """Raises KeyboardInterrupt at the n-th line of the package that is run under it, as Ctrl-C would."""

    def __init__(self, line: int) -> None:
        self.left, self.fired = line, False

    def trace(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        if not frame.f_code.co_filename.startswith(HERE):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                self.fired = True
                sys.settrace(None)
                raise KeyboardInterrupt
        return self.trace


@contextmanager
def interrupted(line: int) -> Iterator[Interrupter]:
    interrupter, before = Interrupter(line), sys.gettrace()
    sys.settrace(interrupter.trace)
    try:
        yield interrupter
    finally:
        sys.settrace(before)


def open_run(folder: Path) -> Run:
    return Run.open(CONFIG, FolderSink(folder / "out"), state=folder / "run.state", schedule=Schedule(records=70))


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("data.*")}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    with open_run(folder) as run:
        for first in (0, 100, 200):
            run.take({"x": VALUES[first : first + 100]})
            run.publish_if_due()
    return content(folder)


@pytest.mark.filterwarnings(
    "ignore:.*FileIO:pytest.PytestUnraisableExceptionWarning"
)  # closed late if not in `with` yet
def test_an_interrupt_at_any_line_leaves_a_batch_whole_or_out(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    """Taking the second batch and publishing after it is interrupted once, at a line that moves on by 127 each time.

    Every second time the run goes on in the same process, otherwise it is closed and opened again.
    """
    line, kept, fired, reopen = 1, set[int](), True, False
    while fired:
        folder = tmp_path / f"line{line}"
        run = open_run(folder)
        run.take({"x": VALUES[:100]}, position={"batch": 1})
        run.publish_if_due()
        with interrupted(line) as interrupter:
            try:
                run.take({"x": VALUES[100:200]}, position={"batch": 2})
                run.publish_if_due()
            except KeyboardInterrupt:
                pass
        fired = interrupter.fired
        reopen = not reopen
        if reopen:
            run.close()
            run = open_run(folder)
        assert (run.t, run.position("batch")) in ((100, 1), (200, 2))
        kept.add(run.t)
        for first in range(run.t, 300, 100):
            run.publish_if_due()
            run.take({"x": VALUES[first : first + 100]})
        run.publish_if_due()
        run.close()
        assert content(folder) == undisturbed
        line += 127
    assert kept == {100, 200}
    assert line > 2000  # lines were there to be interrupted


def test_an_interrupt_in_the_middle_of_counting_does_not_leave_part_of_a_batch_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: dict[str, bytes]
) -> None:
    """The mechanism has taken half of the batch when the interrupt comes."""
    run = open_run(tmp_path)
    run.take({"x": VALUES[:100]})
    run.publish_if_due()

    def half(store: object, synth: hw.Synthesizer, entry: Any) -> None:  # noqa: ANN401
        synth.update_rows(entry.rows[: len(entry.rows) // 2])
        raise KeyboardInterrupt

    monkeypatch.setattr("headwater.run.durable.counted", half)
    with pytest.raises(KeyboardInterrupt):
        run.take({"x": VALUES[100:200]})
    monkeypatch.undo()
    assert run.t == 200  # it was kept, so it counts, and once
    run.publish_if_due()
    run.take({"x": VALUES[200:]})
    run.publish_if_due()
    run.close()
    assert content(tmp_path) == undisturbed


def test_a_snapshot_that_finds_no_room_after_a_batch_was_kept_does_not_refuse_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: dict[str, bytes]
) -> None:
    """It is kept and counts; whoever heard that it was not would give it again."""
    run = open_run(tmp_path)

    def full(*_: object) -> None:
        raise StoreError(tmp_path, "the disk is full", "make room")

    with monkeypatch.context() as patch:
        patch.setattr("headwater.run.durable.LEAST_SNAPSHOT", 1)
        patch.setattr("headwater.run.store.store.Store.snapshot_bytes", 0, raising=False)
        patch.setattr("headwater.run.store.store.Store.snapshot", full)
        assert run.take({"x": VALUES[:50]}) == 50  # before a release is due
    assert run.t == 50
    run.take({"x": VALUES[50:]})
    run.publish_if_due()
    run.close()
    assert content(tmp_path) == undisturbed


def test_a_batch_that_could_not_be_kept_is_not_counted_and_can_be_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: dict[str, bytes]
) -> None:
    run = open_run(tmp_path)
    run.take({"x": VALUES[:100]})

    def full(*_: object) -> None:
        raise StoreError(tmp_path, "the disk is full", "make room")

    monkeypatch.setattr("headwater.run.store.store.Store.append", full)
    with pytest.raises(StoreError):
        run.take({"x": VALUES[100:200]})
    monkeypatch.undo()
    assert run.t == 100
    run.publish_if_due()
    for first in (100, 200):
        run.take({"x": VALUES[first : first + 100]})
        run.publish_if_due()
    run.close()
    assert content(tmp_path) == undisturbed
