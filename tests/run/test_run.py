"""A run, step by step, in one process."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headwater as hw
from headwater.public import protocol as registry
from headwater.run import FolderSink, Published, Run, feed
from headwater.run.lock import StateCopiedError, StoreError
from headwater.run.restore import read_state
from headwater.secret.batch import Batch
from headwater.secret.read.source import open_source
from tests.support.kept_runs import SCHEMA, VALUES, kill, one_file, open_run, tables, take


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text("x\n" + "\n".join(f"{value:.6f}" for value in VALUES[:1000]) + "\n")
    return path


def go(path: Path, every: str = "400", reading: dict[str, Any] | None = None, **more: Any) -> list[int]:  # noqa: ANN401
    """What `headwater run` does: the releases of one invocation."""
    seen: list[int] = []

    class Watched(FolderSink):
        def publish(self, release: hw.Release, run_id: str) -> Published:
            seen.append(release.t)
            return super().publish(release, run_id)

    sink = Watched(more.pop("out", path.parent / "out"), "csv")
    with (
        open_run(path.parent, every, sink=sink, **more) as run,
        open_source([str(path)], SCHEMA, run.position("input"), **(reading or {})) as source,
    ):
        feed(run, source)
    return seen


def test_a_run_publishes_what_the_library_gives_and_goes_on_from_its_state(numbers: Path, tmp_path: Path) -> None:
    assert go(numbers) == [400, 800, 1000]
    assert go(numbers) == []
    with numbers.open("a") as file:
        file.write("0.25\n" * 200)
    assert go(numbers) == [1200]
    synth = hw.Synthesizer(SCHEMA, epsilon=1.0, seed=1)
    for table in hw.read(numbers, SCHEMA):
        synth.update(table)
    last = hw.Release.load(tmp_path / "out" / "release-000000001200")
    assert last.sample(kind="columns")["x"].tolist() == synth.release().sample(kind="columns")["x"].tolist()
    assert read_state(tmp_path / "run.state")[0].t == 1200


def test_a_state_goes_on_under_its_own_configuration_unless_nothing_came_yet(numbers: Path, tmp_path: Path) -> None:
    open_run(tmp_path, epsilon=2.0).close()
    go(numbers)
    others: list[dict[str, Any]] = [{"epsilon": 2.0}, {"mechanism": "paper"}, {"seed": 2}]
    for other in others:
        with pytest.raises(StoreError, match=f"another {next(iter(other))}"):
            go(numbers, **other)
    with open_run(tmp_path, mechanism="auto") as run:
        assert run.synth.mechanism == "cascade"


def test_snapshots_replace_the_journal_when_it_outgrows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the run that continues from one is the run that was never stopped."""
    monkeypatch.setattr("headwater.run.state.LEAST_SNAPSHOT", 100)
    run = open_run(tmp_path, "37")
    for first in range(0, 1000, 50):
        take(run, first, first + 50)
    assert run._state is not None
    assert run._state.load()[0] > 500
    kill(run)
    plain = hw.Synthesizer(SCHEMA, epsilon=1.0, seed=1)
    plain.update({"x": VALUES[:1000]})
    assert np.array_equal(read_state(tmp_path / "run.state")[0].release().points(), plain.release().points())


def test_a_bad_record_is_refused_with_its_batch_and_can_be_corrected(numbers: Path, tmp_path: Path) -> None:
    """The run stops in the middle of a block of text; what comes after that place may still be changed."""
    good = numbers.read_text()
    lines = good.split("\n")
    lines[951] = "abc"
    numbers.write_text("\n".join(lines))
    with pytest.raises(hw.TableError) as caught:
        go(numbers, "100", {"batch_rows": 300})
    assert (caught.value.line, caught.value.column) == (952, "x")
    assert read_state(tmp_path / "run.state")[0].t == 900
    numbers.write_text(good)
    go(numbers, "100", {"batch_rows": 300})
    go(numbers, state=None, out=tmp_path / "calm")
    for name, table in tables(tmp_path / "calm").items():
        assert tables(tmp_path / "out")[name] == table


@pytest.mark.parametrize("rows", [np.full((3, 1), 1 << 63, np.uint64), np.zeros((3, 2), np.uint64), np.array([[0.5]])])
def test_rows_that_are_none_of_the_schema_are_refused_before_they_are_kept(tmp_path: Path, rows: Any) -> None:  # noqa: ANN401
    with open_run(tmp_path) as run:
        take(run, 0, 2)
        with pytest.raises((TypeError, ValueError), match="rows"):
            run.take(Batch(rows))
        take(run, 2, 3)
        assert run.t == run.release().t == 3
    with open_run(tmp_path) as run:
        assert run.t == 3


def test_counted_records_give_what_records_in_order_give_and_none_over_a_release_that_is_due(tmp_path: Path) -> None:
    with open_run(tmp_path / "rows", "400") as run:
        take(run, 0, 1000)
    run = open_run(tmp_path / "counts", "400")
    worker = hw.Synthesizer(SCHEMA, epsilon=1.0)
    with pytest.raises(ValueError, match="a release is due inside records that were counted"):
        run.take(worker.encode({"x": VALUES[:1000]}, 0, until=1000))
    for first, end, until in ((0, 400, 400), (400, 700, None), (700, 1000, None)):
        run.take(worker.encode({"x": VALUES[first:end]}, first, until))
        kill(run)
        run = open_run(tmp_path / "counts", "400")
    run.publish_if_due()
    run.close()
    assert tables(tmp_path / "counts") == tables(tmp_path / "rows")


# ---- positions, receipts, threads


def test_positions_and_receipts_are_kept_with_the_records(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        assert run.take({"x": [0.1, 0.2]}, position={"topic/0": 17, "key:a": "sha"}, receipts=b"one") == 2
        assert run.take([{"x": 0.3}], position={"topic/1": 3}) == 3
        kill(run)
    with open_run(tmp_path) as run:
        assert (run.t, run.position("topic/0"), run.position("topic/1"), run.position("key:a")) == (3, 17, 3, "sha")
        run.take({"x": [0.4]}, position={"topic/0": 18, "key:a": None}, receipts=b"two")
        with pytest.raises(hw.TableError):
            run.take({"x": [None]}, position={"topic/0": 19}, receipts=b"not kept")
    with open_run(tmp_path) as run:
        assert (run.position("topic/0"), run.position("key:a"), b"".join(run.receipts())) == (18, None, b"onetwo")


def test_writers_in_many_threads_get_one_order_and_nothing_is_lost(tmp_path: Path) -> None:
    run, ends = open_run(tmp_path, "64"), list[int]()

    def write(number: int) -> None:
        for i in range(10):
            ends.append(run.take({"x": np.full(3, 0.5)}, position={f"writer {number}": i}))
            run.publish_if_due()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ends) == list(range(3, 241, 3))
    run.close()
    assert [name[:20] for name in tables(tmp_path / "out")] == [f"release-{t:012d}" for t in (64, 128, 192)]
    with open_run(tmp_path, "64") as again:
        assert again.t == 240
        assert [again.position(f"writer {number}") for number in range(8)] == [9] * 8


def test_records_are_taken_while_a_release_is_made_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def taken() -> None:
        other = threading.Thread(target=run.take, args=({"x": [0.3]},))
        other.start()
        other.join(30)
        assert not other.is_alive()

    class Slow(FolderSink):
        def publish(self, release: hw.Release, run_id: str) -> Published:
            taken()
            return super().publish(release, run_id)

    model = registry.model

    def slow(mechanism: str) -> Any:  # noqa: ANN401 - as there
        taken()
        return model(mechanism)

    with open_run(tmp_path, "4", sink=Slow(tmp_path / "out")) as run:
        run.take({"x": [0.1, 0.2, 0.3]})
        with monkeypatch.context() as patch:
            patch.setattr(registry, "model", slow)
            assert run.release().t == 3
        assert run.t == 4
        assert [published.t for published in run.publish_if_due()] == [4]
        assert run.t == 5


# ---- releases that are due, whoever publishes in between


@pytest.mark.parametrize("last", [None, 100])
def test_a_release_that_was_due_when_the_run_was_killed_stays_due(tmp_path: Path, last: int | None) -> None:
    """The run is killed after 950 records were kept and before those of 400 and 800 were published."""
    with open_run(tmp_path / "alone", "400") as run:
        take(run, 0, 1250)
    run = open_run(tmp_path, "400")
    run.take({"x": VALUES[:950]})
    kill(run)
    sink = FolderSink(tmp_path / "asked")
    with Run.resume(tmp_path / "run.state", sink) as asked:
        assert asked.publish_to(sink, last=last).t == 950
    with open_run(tmp_path, "400") as run:
        run.publish_if_due()
        take(run, 950, 1250)
    assert tables(tmp_path / "out") == tables(tmp_path / "alone" / "out")


# ---- copies, and old states put back


def put_back(numbers: Path, *, measured: bool) -> None:
    """A state and its lock file as they were at t = 401, after the run has come to t = 1000 in the same file."""
    with one_file():
        good, state = numbers.read_text(), numbers.parent / "run.state"
        numbers.write_text("\n".join(good.split("\n")[:402]) + "\n")
        go(numbers)
        files = [state.with_name(state.name + end) for end in ("", ".lock", *([".measured"] if measured else []))]
        old = [file.read_bytes() for file in files]
        numbers.write_text(good)
        go(numbers)
        for file, content in zip(files, old, strict=True):
            file.write_bytes(content)  # the same inode


def test_looking_at_a_copy_leaves_it_a_copy(numbers: Path, tmp_path: Path) -> None:
    go(numbers)
    copy = tmp_path / "copy.state"
    shutil.copy(tmp_path / "run.state", copy)
    before = copy.read_bytes()
    assert read_state(copy)[0].t == 1000
    assert copy.read_bytes() == before
    for attempt in (lambda: go(numbers, state=copy), lambda: Run.resume(copy, FolderSink(tmp_path / "out"))):
        with pytest.raises(StateCopiedError, match="copy"):
            attempt()


@pytest.mark.parametrize("where", ["out", "elsewhere"])
@pytest.mark.parametrize("measured", [True, False])
def test_an_old_state_put_back_is_noticed_by_what_it_has_measured_and_published(
    numbers: Path, tmp_path: Path, where: str, measured: bool
) -> None:
    put_back(numbers, measured=measured)
    if not measured:
        shutil.rmtree(tmp_path / "out")
    with pytest.raises(StateCopiedError, match=r"older version of this state.*made of 1,000 .* has taken 401"):
        go(numbers, out=tmp_path / where)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("measured", [True, False])
def test_an_old_state_that_is_allowed_to_continue_publishes_the_same_again(
    numbers: Path, tmp_path: Path, measured: bool
) -> None:
    put_back(numbers, measured=measured)
    before = tables(tmp_path)
    assert go(numbers, allow_copy=True) == ([800, 1000] if measured else [])
    assert tables(tmp_path) == before


def test_an_old_state_that_continues_with_other_records_shows_nothing_new_of_them(
    numbers: Path, tmp_path: Path
) -> None:
    """With what was measured put back too, the release that is there says otherwise; else none of it is measured."""
    put_back(numbers, measured=True)
    numbers.write_text("\n".join(numbers.read_text().split("\n")[:402] + ["0.123456"] * 600) + "\n")
    before = tables(tmp_path)
    with pytest.raises(hw.FileRefusedError, match="other content"):
        go(numbers, allow_copy=True)
    assert tables(tmp_path) == before


# ---- following a file


def test_a_long_silence_costs_nothing_and_a_bad_record_is_named(numbers: Path) -> None:
    """Following a file that does not grow neither ends nor spins."""
    began, looks = time.monotonic(), list[int]()

    def append() -> None:
        looks.append(run.t)
        if len(looks) == 60:
            with numbers.open("a") as file:
                file.write("abc\n")

    how: dict[str, Any] = {"follow": True, "poll_seconds": 0.01}
    with open_run(numbers.parent) as run, open_source([str(numbers)], SCHEMA, **how) as source:
        with pytest.raises(hw.TableError, match="line 1002"):
            feed(run, source, progress=append)
        assert run.t == 1000
    assert 0.1 < time.monotonic() - began < 60
