"""A run, step by step, in one process."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headwater as hw
from headwater.run import FolderSink, Published, Run, RunConfig, Schedule, feed
from headwater.run.lock import StateCopiedError, StoreError
from headwater.run.restore import read_state
from headwater.secret.read.source import open_source

SCHEMA = hw.Schema(x=hw.Number(0, 1))
FIXTURES = Path(__file__).parent / "fixtures"


class Watched(FolderSink):
    """A folder that remembers what was published into it."""

    def __init__(self, out: Path) -> None:
        super().__init__(out)
        self.seen: list[Published] = []

    def publish(self, release: hw.Release, run_id: str) -> Published:
        self.seen.append(super().publish(release, run_id))
        return self.seen[-1]


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    values = np.random.default_rng(0).random(1000)
    path.write_text("x\n" + "\n".join(f"{value:.6f}" for value in values) + "\n")
    return path


def open_run(out: Path, every: str = "400", **more: Any) -> Run:  # noqa: ANN401
    options: dict[str, Any] = {"schedule": Schedule.parse(every)}
    options |= {name: more.pop(name) for name in ("state", "allow_copy") if name in more}
    return Run.open(RunConfig(SCHEMA, **({"epsilon": 1.0, "seed": 1} | more)), Watched(out), **options)


def go(path: Path, every: str = "400", reading: dict[str, Any] | None = None, **more: Any) -> list[Published]:  # noqa: ANN401
    """What `headwater run` does: the releases of one invocation."""
    with open_run(more.pop("out", path.parent / "out"), every, **more) as run:
        assert isinstance(run.sink, Watched)
        with open_source([str(path)], SCHEMA, run.position("input"), **(reading or {})) as source:
            feed(run, source)
        return run.sink.seen


def kill(run: Run) -> None:
    """What a killed process leaves: no snapshot, and a lock that nobody holds."""
    assert run.store is not None
    run.store.close()


def test_releases_come_after_so_many_records_and_at_the_end(numbers: Path) -> None:
    seen = go(numbers)
    assert [published.t for published in seen] == [400, 800, 1000]
    assert all(Path(published.place).is_dir() for published in seen)


def test_a_run_gives_what_the_library_gives(numbers: Path) -> None:
    synth = hw.Synthesizer(SCHEMA, epsilon=1.0, seed=1)
    for table in hw.read(numbers, SCHEMA):
        synth.update(table)
    assert np.array_equal(go(numbers)[-1].release.points(), synth.release().points())


def test_a_run_continues_from_its_state_and_the_state_can_be_looked_at(numbers: Path, tmp_path: Path) -> None:
    state = tmp_path / "run.state"
    assert len(go(numbers, state=state)) == 3
    assert read_state(state).t == 1000
    assert go(numbers, state=state) == []
    with numbers.open("a") as file:
        file.write("0.25\n" * 200)
    assert [published.t for published in go(numbers, state=state)] == [1200]


@pytest.mark.parametrize(("name", "value"), [("epsilon", 2.0), ("mechanism", "paper"), ("seed", 2)])
def test_a_state_is_not_continued_under_another_configuration(
    numbers: Path,
    tmp_path: Path,
    name: str,
    value: Any,  # noqa: ANN401
) -> None:
    go(numbers, state=tmp_path / "run.state")
    with pytest.raises(StoreError, match=f"another {name}"):
        go(numbers, **{"state": tmp_path / "run.state", name: value})


def test_snapshots_replace_the_journal_when_it_outgrows_them(
    numbers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the run that continues from one is the run that was never stopped."""
    monkeypatch.setattr("headwater.run.durable.LEAST_SNAPSHOT", 100)
    run = open_run(tmp_path / "out", "37", state=tmp_path / "run.state")
    values = np.array([float(line) for line in numbers.read_text().split()[1:]])
    for first in range(0, 1000, 50):
        run.take({"x": values[first : first + 50]})
        run.publish_if_due()
    assert run.store is not None
    assert run.store.load().snapshot.t > 500  # type: ignore[union-attr]
    kill(run)
    plain = hw.Synthesizer(SCHEMA, epsilon=1.0, seed=1)
    plain.update({"x": values})
    assert np.array_equal(read_state(tmp_path / "run.state").release().points(), plain.release().points())


def test_a_bad_record_is_refused_with_its_batch_and_nothing_of_it_is_kept(numbers: Path, tmp_path: Path) -> None:
    state = tmp_path / "run.state"
    go(numbers, state=state)
    with numbers.open("a") as file:
        file.write("0.5\nabc\n")
    with pytest.raises(hw.TableError) as caught:
        go(numbers, state=state)
    assert (caught.value.line, caught.value.column) == (1003, "x")
    assert read_state(state).t == 1000


def test_a_record_can_be_corrected_after_others_of_its_block_were_counted(numbers: Path, tmp_path: Path) -> None:
    """The run stops in the middle of a block of text; what comes after that place may still be changed."""
    state, good = tmp_path / "run.state", numbers.read_text()
    lines = good.split("\n")
    lines[951] = "abc"
    numbers.write_text("\n".join(lines))
    with pytest.raises(hw.TableError):
        go(numbers, "100", {"batch_rows": 300}, state=state)
    assert 0 < read_state(state).t < 951
    numbers.write_text(good)
    last = go(numbers, "100", {"batch_rows": 300}, state=state)[-1]
    assert np.array_equal(last.release.points(), go(numbers, out=tmp_path / "other")[-1].release.points())


# ---- following a file


class StoppedError(Exception):
    """Ends a run that follows a file."""


class Once(Watched):
    """A folder that ends the run after its first release."""

    def publish(self, release: hw.Release, run_id: str) -> Published:
        super().publish(release, run_id)
        raise StoppedError


def test_a_long_silence_costs_nothing(numbers: Path) -> None:
    """Following a file that does not grow neither ends nor spins."""
    run = Run.open(RunConfig(SCHEMA, 1.0, seed=1), Once(numbers.parent / "out"), schedule=Schedule.parse("0.05s"))
    began = time.monotonic()
    with open_source([str(numbers)], SCHEMA, follow=True, poll_seconds=0.01) as source, pytest.raises(StoppedError):
        feed(run, source)
    assert time.monotonic() - began < 20


def test_a_bad_record_in_a_followed_file_is_named(numbers: Path) -> None:
    with numbers.open("a") as file:
        file.write("abc\n")
    with pytest.raises(hw.TableError, match="line 1002"):
        go(numbers, reading={"follow": True, "poll_seconds": 0.05})


def test_a_followed_file_that_was_written_anew_and_longer_is_refused(numbers: Path) -> None:
    run = open_run(numbers.parent / "out", "1000")

    def rewrite() -> None:
        if run.t == 1000:
            numbers.write_text("x\n" + "0.5\n" * 5000)

    source = open_source([str(numbers)], SCHEMA, follow=True, poll_seconds=0.02)
    with source, pytest.raises(hw.TableError, match="files may only grow"):
        feed(run, source, progress=rewrite)


# ---- one call for every source


def test_positions_are_kept_with_the_records_and_merged_by_name(tmp_path: Path) -> None:
    state = tmp_path / "run.state"
    with open_run(tmp_path / "out", state=state) as run:
        assert run.take({"x": [0.1, 0.2]}, position={"topic/0": 17, "key:a": "sha"}) == 2
        assert run.take([{"x": 0.3}], position={"topic/1": 3}) == 3
        kill(run)
    with open_run(tmp_path / "out", state=state) as run:
        assert (run.t, run.position("topic/0"), run.position("topic/1"), run.position("key:a")) == (3, 17, 3, "sha")
        run.take({"x": [0.4]}, position={"topic/0": 18, "key:a": None})
    with open_run(tmp_path / "out", state=state) as run:
        assert (run.position("topic/0"), run.position("key:a")) == (18, None)


def test_writers_in_many_threads_get_one_order_and_nothing_is_lost(tmp_path: Path) -> None:
    run, ends = open_run(tmp_path / "out", "64", state=tmp_path / "run.state"), list[int]()

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
    assert isinstance(run.sink, Watched)
    assert [published.t for published in run.sink.seen] == [64, 128, 192]
    run.close()
    with open_run(tmp_path / "out", "64", state=tmp_path / "run.state") as again:
        assert again.t == 240
        assert [again.position(f"writer {number}") for number in range(8)] == [9] * 8


def test_records_are_taken_while_a_release_is_being_written(tmp_path: Path) -> None:
    writing, finish = threading.Event(), threading.Event()

    class Slow(FolderSink):
        def publish(self, release: hw.Release, run_id: str) -> Published:
            writing.set()
            assert finish.wait(30)
            return super().publish(release, run_id)

    config = RunConfig(SCHEMA, 1.0, seed=1)
    run = Run.open(config, Slow(tmp_path / "out"), state=tmp_path / "s", schedule=Schedule(records=2))
    run.take({"x": [0.1, 0.2]})
    thread = threading.Thread(target=run.publish_if_due)
    thread.start()
    assert writing.wait(30)
    assert run.take({"x": [0.3, 0.4, 0.5]}) == 5
    finish.set()
    thread.join()
    run.publish()
    run.close()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [f"release-{t:012d}" for t in (2, 4, 5)]


# ---- upgrades


def other_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.run.restore.measured_by", lambda synth: "headwater 99")
    monkeypatch.setattr("headwater.run.durable.measured_by", lambda synth: "headwater 99")


def test_after_a_release_since_the_snapshot_only_the_same_version_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if no record came between the snapshot and the release: other code might measure other trees."""
    state = tmp_path / "run.state"
    with open_run(tmp_path / "out", "1000", state=state) as run:
        run.take({"x": np.random.default_rng(0).random(900)})
    with open_run(tmp_path / "out", "1000", state=state) as run:
        assert run.publish() is not None
        kill(run)
    other_version(monkeypatch)
    with pytest.raises(StoreError, match=r"interrupted under headwater .* this is headwater 99"):
        open_run(tmp_path / "out", "1000", state=state)
    monkeypatch.undo()
    open_run(tmp_path / "out", "1000", state=state).close()  # ended cleanly, it is a snapshot
    other_version(monkeypatch)
    open_run(tmp_path / "out", "1000", state=state).close()


def test_records_that_nothing_was_published_from_may_be_replayed_by_any_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(tmp_path / "out", "1000", state=tmp_path / "run.state")
    run.take({"x": np.random.default_rng(0).random(900)})
    kill(run)
    other_version(monkeypatch)
    with open_run(tmp_path / "out", "1000", state=tmp_path / "run.state") as run:
        assert run.t == 900


def test_what_a_release_needs_to_be_measured_again_is_kept_before_it_is_seen(tmp_path: Path) -> None:
    state = tmp_path / "run.state"
    with open_run(tmp_path / "unused", state=state) as run:
        run.take({"x": np.random.default_rng(0).random(1000)})

    class Look(FolderSink):
        def publish(self, release: hw.Release, run_id: str) -> Published:
            assert run.store is not None
            assert run.store.noted("measured_by") is not None
            return super().publish(release, run_id)

    sink = Look(tmp_path / "out")
    with Run.resume(state, sink) as run:
        run.publish_to(sink, last=100)
    synth = read_state(state)
    before = synth.to_bytes()
    synth.release(last=100)
    assert synth.to_bytes() == before


@pytest.mark.parametrize("last", [None, 100])
def test_a_release_that_was_due_when_the_run_was_killed_stays_due_whoever_publishes_in_between(
    tmp_path: Path, last: int | None
) -> None:
    """The run is killed after 950 records were kept and before those of 400 and 800 were published."""
    values = {"x": np.random.default_rng(0).random(1250)}
    with open_run(tmp_path / "alone", state=tmp_path / "alone.state") as run:
        run.take(values)
        run.publish_if_due()
    state = tmp_path / "run.state"
    run = open_run(tmp_path / "out", state=state)
    run.take({"x": values["x"][:950]})
    kill(run)
    sink = FolderSink(tmp_path / "asked")
    with Run.resume(state, sink) as asked:
        assert asked.publish_to(sink, last=last).t == 950
    with open_run(tmp_path / "out", state=state) as run:
        run.publish_if_due()
        run.take({"x": values["x"][950:]})
        run.publish_if_due()
    for t in (400, 800, 1200):
        name = f"release-{t:012}/data.parquet"
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


# ---- states of an earlier format, written by the version before


def fixture(folder: Path, name: str) -> Path:
    state = folder / f"{name}.state"
    state.write_bytes(gzip.decompress((FIXTURES / f"format1-{name}.state.gz").read_bytes()))
    state.chmod(0o600)
    return state


def old_config() -> RunConfig:
    return RunConfig(hw.Schema(x=hw.Number(0, 1), kind=hw.Category("a", "b", missing=True)), 1.0, seed=3)


def test_an_interrupted_state_of_the_format_before_is_refused_unchanged_with_the_way_out(tmp_path: Path) -> None:
    state = fixture(tmp_path, "killed")
    before = state.read_bytes()
    for attempt in (
        lambda: Run.open(old_config(), FolderSink(tmp_path / "out"), state=state, allow_copy=True),
        lambda: read_state(state),
    ):
        with pytest.raises(StoreError, match=r"older Headwater.*same command once under the version"):
            attempt()
    assert state.read_bytes() == before


# ---- copies, and old states put back


def test_looking_at_a_copy_leaves_it_a_copy(numbers: Path, tmp_path: Path) -> None:
    go(numbers, state=tmp_path / "run.state")
    copy = tmp_path / "copy.state"
    copy.write_bytes((tmp_path / "run.state").read_bytes())
    copy.chmod(0o600)
    before = copy.read_bytes()
    assert read_state(copy).t == 1000
    assert copy.read_bytes() == before
    with pytest.raises(StateCopiedError, match="copy"):
        go(numbers, state=copy)
    with pytest.raises(StateCopiedError, match="copy"):
        Run.resume(copy, FolderSink(tmp_path / "out"))


def put_back(numbers: Path, state: Path, out: Path) -> None:
    """A state and its lock file as they were at t = 401, after the run has come to t = 1000."""
    good = numbers.read_text()
    numbers.write_text("\n".join(good.split("\n")[:402]) + "\n")
    go(numbers, state=state, out=out)
    files = [state, state.with_name(state.name + ".lock")]
    old = [file.read_bytes() for file in files]
    numbers.write_text(good)
    go(numbers, state=state, out=out)
    for file, content in zip(files, old, strict=True):
        file.write_bytes(content)  # the same inode


@pytest.mark.parametrize("where", ["out", "elsewhere"])
def test_an_old_state_put_back_with_its_lock_file_is_noticed_by_what_it_has_published(
    numbers: Path, tmp_path: Path, where: str
) -> None:
    put_back(numbers, tmp_path / "run.state", tmp_path / "out")
    with pytest.raises(StateCopiedError, match=r"older version of this state.*release of 1,000 .* has taken 401"):
        go(numbers, state=tmp_path / "run.state", out=tmp_path / where)
    assert not (tmp_path / "elsewhere").exists()


def test_an_old_state_that_is_allowed_to_continue_publishes_the_same_again(numbers: Path, tmp_path: Path) -> None:
    put_back(numbers, tmp_path / "run.state", tmp_path / "out")
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("data.*")}
    go(numbers, state=tmp_path / "run.state", allow_copy=True)
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("data.*")} == before


def test_an_old_state_that_continues_with_other_records_is_refused_at_the_first_release(
    numbers: Path, tmp_path: Path
) -> None:
    """The same noise on different data: the release that is there says otherwise, so nothing new is published."""
    put_back(numbers, tmp_path / "run.state", tmp_path / "out")
    numbers.write_text("\n".join(numbers.read_text().split("\n")[:402] + ["0.123456"] * 600) + "\n")
    before = sorted((tmp_path / "out").iterdir())
    with pytest.raises(hw.FileRefusedError, match="other content"):
        go(numbers, state=tmp_path / "run.state", allow_copy=True)
    assert sorted((tmp_path / "out").iterdir()) == before


def test_a_first_attempt_that_took_nothing_gives_way_to_another_configuration(numbers: Path, tmp_path: Path) -> None:
    open_run(tmp_path / "out", state=tmp_path / "run.state", epsilon=2.0).close()
    assert [published.t for published in go(numbers, state=tmp_path / "run.state")] == [400, 800, 1000]
    never: Callable[[], object] = lambda: open_run(tmp_path / "out", state=tmp_path / "run.state", epsilon=2.0)  # noqa: E731
    with pytest.raises(StoreError, match="another epsilon"):
        never()


@pytest.mark.parametrize("rows", [np.full((3, 1), 1 << 63, np.uint64), np.zeros((3, 2), np.uint64), [[0.5]]])
def test_rows_that_are_none_of_the_schema_are_refused_before_they_are_kept(tmp_path: Path, rows: Any) -> None:  # noqa: ANN401
    state = tmp_path / "state"
    with open_run(tmp_path / "out", state=state) as run:
        run.take({"x": [0.1, 0.2]})
        with pytest.raises((TypeError, ValueError), match="rows"):
            run.take_rows(rows)
        run.take({"x": [0.3]})
        assert run.t == run.release().t == 3
    with open_run(tmp_path / "out", state=state) as run:
        assert run.t == 3
