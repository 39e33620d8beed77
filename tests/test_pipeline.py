"""A run, step by step, in one process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import headwater as hw
from headwater.pipeline import Every, Progress, Run, opened, run
from headwater.store import StoreError

SCHEMA = hw.Schema(x=hw.Number(0, 1))


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    values = np.random.default_rng(0).random(1000)
    path.write_text("x\n" + "\n".join(f"{value:.6f}" for value in values) + "\n")
    return path


def go(path: Path, every: str = "400", **more: object) -> list[Progress]:
    options: dict[str, object] = {"epsilon": 1.0, "out": path.parent / "out", "seed": 1, **more}
    return list(run([str(path)], SCHEMA, every=Every.parse(every), **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1", Every(records=1)),
        (" 10,000 ", Every(records=10_000)),
        ("1_000", Every(records=1000)),
        ("30s", Every(seconds=30)),
        ("1.5h", Every(seconds=5400)),
        ("15MIN", Every(seconds=900)),
        ("2d", Every(seconds=172_800)),
    ],
)
def test_when_to_publish_can_be_said_in_records_or_in_time(text: str, found: Every) -> None:
    assert Every.parse(text) == found


@pytest.mark.parametrize("text", ["", "0", "-5", "1.5", "soon", "0s", "-1h", "infs", "nand", "1week", "1e3"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="says neither how many records nor how long"):
        Every.parse(text)


def test_releases_come_after_so_many_records_and_at_the_end(numbers: Path) -> None:
    seen = [step for step in go(numbers) if step.published]
    assert [step.t for step in seen] == [400, 800, 1000]
    assert all(step.published and step.published.is_dir() for step in seen)


def test_a_run_gives_what_the_library_gives(numbers: Path) -> None:
    last = go(numbers)[-1]
    synth = hw.Synthesizer(SCHEMA, epsilon=1.0, seed=1)
    for table in hw.read(numbers, SCHEMA):
        synth.update(table)
    assert last.release is not None
    assert np.array_equal(last.release.points(), synth.release().points())


def test_by_the_clock_a_release_comes_when_time_is_up_and_something_new_has_come(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(np.arange(0, 10_000, 10.0))
    monkeypatch.setattr("headwater.pipeline.time.monotonic", lambda: next(clock))
    current = Run.begin(SCHEMA, epsilon=1.0, out=numbers.parent / "out", every=Every.parse("5s"), seed=1)
    idle: Iterator[None] = iter([None, None])
    assert list(current.feed(idle)) == []  # nothing has come, so there is nothing to publish
    current.synth.update({"x": [0.5]})
    assert [step.t for step in current.feed(iter([None, None]))] == [1]


def test_a_run_goes_on_from_its_state_and_the_state_can_be_looked_at(numbers: Path, tmp_path: Path) -> None:
    state = tmp_path / "run.state"
    assert len([step for step in go(numbers, state=state) if step.published]) == 3
    with opened(state) as synth:
        assert synth.t == 1000
    assert [step for step in go(numbers, state=state) if step.published] == []
    with numbers.open("a") as file:
        file.write("0.25\n" * 200)
    assert [step.t for step in go(numbers, state=state) if step.published] == [1200]


@pytest.mark.parametrize(("name", "value"), [("epsilon", 2.0), ("mechanism", "paper"), ("seed", 2)])
def test_a_state_is_not_continued_under_other_terms(numbers: Path, tmp_path: Path, name: str, value: object) -> None:
    go(numbers, state=tmp_path / "run.state")
    with pytest.raises(StoreError, match=f"another {name}"):
        go(numbers, "400", **{"state": tmp_path / "run.state", name: value})


def test_snapshots_replace_the_journal_when_it_outgrows_them(
    numbers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the run that goes on from one is the run that was never stopped."""
    monkeypatch.setattr("headwater.pipeline._LEAST_SNAPSHOT", 100)
    go(numbers, "37", state=tmp_path / "run.state")
    plain = hw.Synthesizer(SCHEMA, epsilon=1.0, seed=1)
    for table in hw.read(numbers, SCHEMA):
        plain.update(table)
    with opened(tmp_path / "run.state") as synth:
        assert np.array_equal(synth.release().points(), plain.release().points())


def test_a_bad_record_is_refused_with_its_batch_and_nothing_of_it_is_kept(numbers: Path, tmp_path: Path) -> None:
    state = tmp_path / "run.state"
    go(numbers, state=state)
    with numbers.open("a") as file:
        file.write("0.5\nabc\n")
    with pytest.raises(hw.TableError) as caught:
        go(numbers, state=state)
    assert (caught.value.line, caught.value.column) == (1003, "x")
    with opened(state) as synth:
        assert synth.t == 1000


def test_a_long_silence_costs_nothing(numbers: Path) -> None:
    """Following a file that does not grow neither ends nor spins."""
    options = {"epsilon": 1.0, "out": numbers.parent / "out", "seed": 1, "follow": True, "poll_seconds": 0.01}
    steps = run([str(numbers)], SCHEMA, every=Every.parse("0.05s"), **options)  # type: ignore[arg-type]
    began = time.monotonic()
    assert any(step.published for step in steps)
    assert time.monotonic() - began < 20
    steps.close()  # type: ignore[attr-defined]


def test_a_record_can_be_put_right_after_others_of_its_block_were_counted(numbers: Path, tmp_path: Path) -> None:
    """The run stops in the middle of a block of text; what comes after that place may still be changed."""
    state, good = tmp_path / "run.state", numbers.read_text()
    lines = good.split("\n")
    lines[951] = "abc"
    numbers.write_text("\n".join(lines))
    with pytest.raises(hw.TableError):
        go(numbers, "100", state=state, batch_rows=300)
    with opened(state) as synth:
        assert 0 < synth.t < 951
    numbers.write_text(good)
    last = go(numbers, "100", state=state, batch_rows=300)[-1]
    assert last.release is not None
    assert np.array_equal(last.release.points(), go(numbers, out=tmp_path / "other")[-1].release.points())  # type: ignore[union-attr]


def test_a_bad_record_in_a_followed_file_is_named(numbers: Path) -> None:
    with numbers.open("a") as file:
        file.write("abc\n")
    with pytest.raises(hw.TableError, match="line 1002"):
        go(numbers, follow=True, poll_seconds=0.05)


def test_an_old_state_that_goes_on_with_other_records_is_found_out_at_the_first_release(
    numbers: Path, tmp_path: Path
) -> None:
    """The same noise on different data: the release that is there says otherwise, so nothing new is published."""
    state, good = tmp_path / "run.state", numbers.read_text()
    lines = good.split("\n")
    numbers.write_text("\n".join(lines[:401]) + "\n")
    go(numbers, state=state)
    old = state.read_bytes()
    numbers.write_text(good)
    go(numbers, state=state)
    state.write_bytes(old)
    numbers.write_text("\n".join(lines[:401] + ["0.123456"] * 600) + "\n")
    before = sorted((tmp_path / "out").iterdir())
    with pytest.raises(hw.FileRefusedError, match="other content"):
        go(numbers, state=state, allow_copy=True)
    assert sorted((tmp_path / "out").iterdir()) == before


def test_a_journal_of_another_version_is_not_replayed(
    numbers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other code might grow other trees under the same noise. A run that ended cleanly has no journal."""
    state = tmp_path / "run.state"
    monkeypatch.setattr("headwater.pipeline.Run.close", lambda run: run.store.close())  # as if killed
    go(numbers, state=state)
    monkeypatch.setattr("headwater.pipeline._BY", "headwater 99")
    with pytest.raises(StoreError, match="headwater 99"):
        go(numbers, state=state)
    monkeypatch.undo()
    go(numbers, state=state)
    monkeypatch.setattr("headwater.pipeline._BY", "headwater 99")
    go(numbers, state=state)


def test_looking_at_a_copy_leaves_it_a_copy(numbers: Path, tmp_path: Path) -> None:
    go(numbers, state=tmp_path / "run.state")
    copy = tmp_path / "copy.state"
    copy.write_bytes((tmp_path / "run.state").read_bytes())
    copy.chmod(0o600)
    before = copy.read_bytes()
    with opened(copy) as synth:
        assert synth.t == 1000
    assert copy.read_bytes() == before
    with pytest.raises(StoreError, match="copy"):
        go(numbers, state=copy)


def test_a_followed_file_that_was_written_anew_and_longer_is_refused(numbers: Path) -> None:
    steps = run(
        [str(numbers)], SCHEMA, every=Every.parse("1000"), epsilon=1.0, out=numbers.parent / "out", seed=1,
        follow=True, poll_seconds=0.02,
    )  # fmt: skip
    assert any(step.published for step in steps)
    numbers.write_text("x\n" + "0.5\n" * 5000)
    with pytest.raises(hw.TableError, match="changed"):
        list(steps)
