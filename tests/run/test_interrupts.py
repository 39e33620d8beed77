"""An interrupt or a kill at any line of a step: the step is done or not, and the run is what it would have been."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from headwater.run import FolderSink, Run, measured_beside
from headwater.run import run as run_module
from headwater.run.lock import StoreError
from headwater.run.measured import frames
from headwater.run.state import State
from tests.support.kept_runs import VALUES, open_run, tables, take
from tests.support.nightly import NIGHTLY

HERE = str(Path(run_module.__file__).parents[1])
STEP = 31 if NIGHTLY else 127  # lines between two trials


class Interrupter:
    """At the n-th line of the package that is run under it: Ctrl-C, or `kill -9`."""

    def __init__(self, line: int, *, kill: bool) -> None:
        self.left, self.kill, self.fired = line, kill, False

    def trace(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        if not frame.f_code.co_filename.startswith(HERE):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                self.fired = True
                sys.settrace(None)
                if self.kill:
                    os.kill(os.getpid(), signal.SIGKILL)
                raise KeyboardInterrupt
        return self.trace

    def call(self, step: Callable[[Run], object], run: Run) -> None:
        before = sys.gettrace()
        sys.settrace(self.trace)
        try:
            step(run)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)


def opened(folder: Path) -> Run:
    return open_run(folder, "70", windows={50: FolderSink(folder / "windows")})


def second(run: Run) -> None:
    """What is disturbed: a batch with two releases in it, and what other processes see."""
    take(run, 100, 200, position={"batch": 2})
    run.measure()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    with opened(folder) as run:
        for first in (0, 100, 200):
            take(run, first, first + 100)
    return tables(folder)


def check(run: Run, folder: Path, expected: dict[str, bytes]) -> int:
    """Where it is, whole or out; and what the run publishes in the end, nothing of it measured twice."""
    reached = run.t
    assert (reached, run.position("batch")) in ((100, 1), (200, 2))
    for first in range(reached, 300, 100):
        run.publish_if_due()
        take(run, first, first + 100)
    run.publish_if_due()
    run.close()
    assert tables(folder) == expected
    kept = [span for frame in frames(measured_beside(folder / "run.state")) for span in frame.kept]
    assert len(kept) == len(set(kept))
    return reached


@pytest.mark.filterwarnings("ignore:.*FileIO:pytest.PytestUnraisableExceptionWarning")  # closed late if not in `with`
def test_an_interrupt_at_any_line_leaves_a_batch_whole_or_out(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    """Every second time the run goes on in the same process, otherwise it is closed and opened again."""
    line, kept, fired = 1, set[int](), True
    while fired:
        folder = tmp_path / f"line{line}"
        run = opened(folder)
        take(run, 0, 100, position={"batch": 1})
        interrupter = Interrupter(line, kill=False)
        interrupter.call(second, run)
        fired = interrupter.fired
        if line % 2:
            run.close()
            run = opened(folder)
        kept.add(check(run, folder, undisturbed))
        line += STEP
    assert kept == {100, 200}
    assert line > 2000  # lines were there to be interrupted


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forking beside threads
def test_a_kill_at_any_line_leaves_a_batch_whole_or_out(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    line, kept, killed = 1, set[int](), True
    while killed:
        folder = tmp_path / f"line{line}"
        with opened(folder) as run:
            take(run, 0, 100, position={"batch": 1})
        child = os.fork()
        if child == 0:  # pragma: no cover - in the child
            run = opened(folder)
            Interrupter(line, kill=True).call(second, run)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        killed = os.waitstatus_to_exitcode(status) == -signal.SIGKILL
        kept.add(check(opened(folder), folder, undisturbed))
        line += STEP
    assert kept == {100, 200}
    assert line > 2000


def test_an_interrupt_amid_counting_counts_no_part_of_a_batch_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: dict[str, bytes]
) -> None:
    """With a state and without: the mechanism has taken the batch, or half of it, when the interrupt comes."""
    for state in (tmp_path / "kept" / "run.state", None):
        folder = tmp_path / ("kept" if state else "not kept")
        run = open_run(folder, "70", state=state, windows={50: FolderSink(folder / "windows")})
        take(run, 0, 100)
        synth, real = run.synth, run.synth.take

        def counted(batch: Any, real: Any = real) -> None:  # noqa: ANN401
            real(batch)
            raise KeyboardInterrupt

        monkeypatch.setattr(synth, "take", counted)
        with pytest.raises(KeyboardInterrupt):
            run.take({"x": VALUES[100:200]})
        monkeypatch.undo()
        assert run.t == 200  # it was kept, so it counts, and once
        run.publish_if_due()
        take(run, 200, 300)
        run.close()
        assert tables(folder) == undisturbed


@pytest.mark.parametrize("where", ["append", "snapshot"])
def test_a_disk_that_is_full_refuses_a_batch_whole_and_no_batch_for_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: dict[str, bytes], where: str
) -> None:
    """What is kept counts, and whoever heard that it was not would give it again."""
    run = opened(tmp_path)
    take(run, 0, 100)

    def full(*_: object) -> None:
        raise StoreError(tmp_path, "the disk is full", "make room")

    with monkeypatch.context() as patch:
        patch.setattr("headwater.run.state.LEAST_SNAPSHOT", -1)
        patch.setattr(State, where, full)
        if where == "append":
            with pytest.raises(StoreError):
                take(run, 100, 200)
        else:
            take(run, 100, 200)
    assert run.t == (100 if where == "append" else 200)
    for first in range(run.t, 300, 100):
        take(run, first, first + 100)
    run.close()
    assert tables(tmp_path) == undisturbed
