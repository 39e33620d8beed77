"""Of which moment releases are, and that each is reported: threads, errors and clocks between the steps."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from headwater.run.durable import DurableSynthesizer
from headwater.run.taking import TakingRun

import headwater as hw
from headwater.public import protocol as registry
from headwater.run import FolderSink, Run, RunConfig, Schedule

CONFIG = RunConfig(hw.Schema(x=hw.Number(0, 1)), epsilon=1.0, seed=1)
VALUES = np.random.default_rng(0).random(1000)


def open_run(folder: Path, schedule: Schedule, windows: tuple[int, ...] = ()) -> Run:
    sinks = {last: FolderSink(folder / "windows") for last in windows}
    return Run.open(CONFIG, FolderSink(folder / "out"), state=folder / "s", schedule=schedule, windows=sinks)


def take(run: Run, start: int, end: int) -> None:
    run.take({"x": VALUES[start:end]})


def in_thread(work: Any) -> None:  # noqa: ANN401 - a function
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def interrupted(run: Run, start: int, end: int) -> None:
    """Take records in a step that is interrupted when they are kept and not counted."""
    count, thread = DurableSynthesizer.count, threading.current_thread()

    def interrupt(self: DurableSynthesizer, until: int) -> None:
        if threading.current_thread() is thread:
            raise KeyboardInterrupt
        count(self, until)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DurableSynthesizer, "count", interrupt)
        with pytest.raises(KeyboardInterrupt):
            take(run, start, end)


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def there(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("release-")) for path in folder.glob("release-*"))


def test_a_release_after_an_interrupt_is_of_all_that_was_kept(tmp_path: Path) -> None:
    with open_run(tmp_path, Schedule()) as run:
        take(run, 0, 100)
        assert run.release().t == 100
        interrupted(run, 100, 200)
        assert run.release().t == 200


def test_a_release_that_is_due_stays_of_its_moment_when_a_step_of_another_thread_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other step begins when the release was found to be due, and ends before the next use of the synthesizer."""
    with open_run(tmp_path, Schedule(records=100)) as run:
        take(run, 0, 130)
        other = threading.Thread(target=lambda: interrupted(run, 130, 140))
        by_records = run._due.by_records

        def begins(t: int) -> bool:
            if (found := by_records(t)) and other.ident is None:
                other.start()
            return found

        def ends(self: TakingRun) -> hw.Synthesizer:
            if threading.current_thread() is not other and other.is_alive():
                other.join(0.5)  # in vain while it is not its turn
            return self._durable.synth

        with monkeypatch.context() as patch:
            patch.setattr(run._due, "by_records", begins)
            patch.setattr(TakingRun, "synth", property(ends))
            assert [published.t for published in run.publish_if_due()] == [100]
        other.join(60)
        assert there(tmp_path / "out") == [100]
        run.release()
        assert run.t == run.synth.t == 140


def test_windows_beside_a_release_by_the_clock_are_of_its_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread takes records while the first of them is made."""
    with open_run(tmp_path, Schedule(seconds=10.0), windows=(50,)) as run:
        run.publish_if_due(0.0)
        take(run, 0, 100)
        model = registry.model

        def slow(mechanism: str) -> Any:  # noqa: ANN401 - as there
            if run.t == 100:
                in_thread(lambda: take(run, 100, 150))
            return model(mechanism)

        monkeypatch.setattr(registry, "model", slow)
        assert [published.t for published in run.publish_if_due(10.0)] == [100]
        assert there(tmp_path / "windows") == there(tmp_path / "out") == [100]
        assert run.t == 150


def test_a_release_by_the_clock_that_failed_is_tried_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_run(tmp_path, Schedule(seconds=3600.0)) as run:
        assert run.publish_if_due(0.0) == []
        take(run, 0, 100)
        with monkeypatch.context() as patch:
            patch.setattr(FolderSink, "publish", full)
            with pytest.raises(OSError, match="No space"):
                run.publish_if_due(3600.0)
        assert [published.t for published in run.publish_if_due(3605.0)] == [100]
        take(run, 100, 200)
        assert run.publish_if_due(7200.0) == []
        assert [published.t for published in run.publish_if_due(7205.0)] == [200]


def test_a_release_that_was_published_before_an_error_is_reported_by_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_run(tmp_path, Schedule(records=100)) as run:
        take(run, 0, 250)
        publish = Run._publish

        def second_fails(self: Run, begun: Any) -> Any:  # noqa: ANN401 - as there
            return full() if 100 in self._due.published else publish(self, begun)

        with monkeypatch.context() as patch:
            patch.setattr(Run, "_publish", second_fails)
            with pytest.raises(OSError, match="No space"):
                run.publish_if_due()
        assert [published.t for published in run.publish_if_due()] == [100, 200]
        assert run.publish_if_due() == []
