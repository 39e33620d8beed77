"""When a run publishes: by number of records, or by a clock that is read between batches only."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import headwater as hw
from headwater.run import FolderSink, Run, RunConfig, Schedule, feed

SCHEMA = hw.Schema(x=hw.Number(0, 1))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1", Schedule(records=1)),
        (" 10,000 ", Schedule(records=10_000)),
        ("1_000", Schedule(records=1000)),
        ("30s", Schedule(seconds=30)),
        ("1.5h", Schedule(seconds=5400)),
        ("15MIN", Schedule(seconds=900)),
        ("2d", Schedule(seconds=172_800)),
        ("500ms", Schedule(seconds=0.5)),
    ],
)
def test_a_schedule_is_a_number_of_records_or_a_length_of_time(text: str, found: Schedule) -> None:
    assert Schedule.parse(text) == found


@pytest.mark.parametrize("text", ["", "0", "-5", "1.5", "soon", "0s", "-1h", "infs", "nand", "1week", "1e3", "9" * 30])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="neither a number of records nor a length of time"):
        Schedule.parse(text)


def new_run(folder: Path, schedule: str) -> Run:
    config = RunConfig(SCHEMA, epsilon=1.0, seed=1)
    return Run.open(config, FolderSink(folder / "out"), schedule=Schedule.parse(schedule))


def test_releases_appear_at_every_multiple_however_the_batches_are_cut(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random(1000)
    found = []
    for name, cuts in (("one", [1000]), ("many", [1, 399, 400, 700, 1000])):
        run, releases = new_run(tmp_path / name, "200"), []
        for first, last in zip([0, *cuts], cuts, strict=False):
            assert run.take({"x": values[first:last]}) == last
            releases += run.publish_if_due()
        assert [published.t for published in releases] == [200, 400, 600, 800, 1000]
        found.append([published.release.points() for published in releases])
    assert all(np.array_equal(one, other) for one, other in zip(*found, strict=True))


def test_by_the_clock_a_release_appears_when_time_is_up_and_something_new_has_come(tmp_path: Path) -> None:
    run = new_run(tmp_path, "5s")
    assert run.publish_if_due(0) == run.publish_if_due(100) == []  # nothing has come
    run.take({"x": [0.5]})
    assert run.publish_if_due(104) == []
    assert [published.t for published in run.publish_if_due(105)] == [1]
    assert run.publish_if_due(200) == []  # nothing new has come


def test_the_clock_is_read_between_batches_and_never_inside_one(tmp_path: Path) -> None:
    """Every reading of the clock advances it by an hour, so each is a chance to publish."""
    run, readings = new_run(tmp_path, "30min"), list[int]()

    def clock() -> float:
        readings.append(run.t)
        return 3600.0 * len(readings)

    def batch(n: int) -> Any:  # noqa: ANN401 - the part of a batch that the loop uses
        return SimpleNamespace(table={"x": np.full(n, 0.5)}, position=None, bad=(), place=lambda error: error)

    feed(run, [batch(70_000), None, batch(1), batch(300)], clock=clock)
    assert readings == [0, 70_000, 70_000, 70_001, 70_301]
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [f"release-{t:012d}" for t in (70_000, 70_001, 70_301)]
