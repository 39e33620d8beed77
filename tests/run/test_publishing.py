"""When a run publishes, of which moment, and how much of it stays; windows beside the whole."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headwater as hw
from headwater.public import protocol as registry
from headwater.public.folder import folders, has_table, read_card
from headwater.run import FolderSink, Published, Run, Schedule, feed
from headwater.run.lock import StateCopiedError
from tests.support.kept_runs import SCHEMA, VALUES, kill, one_file, open_run, take


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (" 10,000 ", Schedule(records=10_000)),
        ("1_000", Schedule(records=1000)),
        ("1.5h", Schedule(seconds=5400)),
        ("15MIN", Schedule(seconds=900)),
        ("2d", Schedule(seconds=172_800)),
        ("500ms", Schedule(seconds=0.5)),
        *((text, None) for text in ("", "0", "-5", "1.5", "soon", "0s", "-1h", "infs", "1week", "1e3", "9" * 30)),
    ],
)
def test_a_schedule_is_a_number_of_records_or_a_length_of_time(text: str, found: Schedule | None) -> None:
    if found is not None:
        assert Schedule.parse(text) == found
        return
    with pytest.raises(ValueError, match="neither a number of records nor a length of time"):
        Schedule.parse(text)


def there(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("release-")) for path in folder.glob("release-*"))


def rows(out: Path) -> dict[int, int]:
    """How many rows each table that is there has."""
    return {read_card(one)["t"]: read_card(one)["rows"] for one in folders(out) if has_table(one)}


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_releases_appear_at_every_multiple_however_the_batches_are_cut(tmp_path: Path) -> None:
    found = []
    for cuts in ([1000], [1, 399, 400, 700, 1000]):
        run, releases = open_run(tmp_path / str(len(cuts)), "200", state=None), []
        for first, last in zip([0, *cuts], cuts, strict=False):
            assert run.take({"x": VALUES[first:last]}) == last
            releases += run.publish_if_due()
        assert [published.t for published in releases] == [200, 400, 600, 800, 1000]
        found.append([published.release.points() for published in releases])
    assert all(np.array_equal(one, other) for one, other in zip(*found, strict=True))


def test_by_the_clock_a_release_appears_when_time_is_up_and_something_new_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What failed is tried again at once."""
    with open_run(tmp_path, "1h") as run:
        assert run.publish_if_due(0.0) == run.publish_if_due(9000.0) == []  # nothing has come
        run.take({"x": VALUES[:100]})
        assert run.publish_if_due(12599.0) == []
        with monkeypatch.context() as patch:
            patch.setattr(FolderSink, "publish", full)
            with pytest.raises(OSError, match="No space"):
                run.publish_if_due(12600.0)
        assert [published.t for published in run.publish_if_due(12605.0)] == [100]
        assert run.publish_if_due(20000.0) == []  # nothing new has come
        run.take({"x": VALUES[100:200]})
        assert [published.t for published in run.publish_if_due(23600.0)] == [200]


def test_the_clock_is_read_between_batches_and_never_inside_one(tmp_path: Path) -> None:
    """Every reading of the clock advances it by an hour, so each is a chance to publish."""
    run, readings = open_run(tmp_path, "30min", state=None), list[int]()

    def clock() -> float:
        readings.append(run.t)
        return 3600.0 * len(readings)

    class Arrived(dict[str, Any]):
        position = None

    batches: Any = [Arrived(x=np.full(n, 0.5)) if n else None for n in (70_000, 0, 1, 300)]
    feed(run, batches, clock=clock)
    assert sorted(set(readings)) == [0, 70_000, 70_001, 70_301]
    assert there(tmp_path / "out") == [70_000, 70_001, 70_301]


# ---- of which moment


def test_a_release_after_an_interrupt_is_of_all_that_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_run(tmp_path) as run:
        take(run, 0, 100)
        with monkeypatch.context() as patch:
            patch.setattr(Run, "_count", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                take(run, 100, 200)
        assert run.release().t == 200


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_release_that_is_due_stays_of_its_moment_when_a_step_of_another_thread_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other step begins when the release was found to be due, and would end before it is made."""
    with open_run(tmp_path, "100") as run:
        run.take({"x": VALUES[:130]})
        count, is_due = Run._count, Run._is_due

        def fails(self: Run) -> None:
            if threading.current_thread() is other:
                raise KeyboardInterrupt
            count(self)

        def step() -> None:
            with pytest.raises(KeyboardInterrupt):
                run.take({"x": VALUES[130:140]})

        def begins(self: Run, t: int) -> bool:
            if (found := is_due(self, t)) and other.ident is None:
                other.start()
                other.join(0.3)  # in vain while it is not its turn
            return found

        other = threading.Thread(target=step)
        with monkeypatch.context() as patch:
            patch.setattr(Run, "_count", fails)
            patch.setattr(Run, "_is_due", begins)
            assert [published.t for published in run.publish_if_due()] == [100]
            other.join(60)
        assert there(tmp_path / "out") == [100]
        assert run.release().t == run.t == run.synth.t == 140


def test_windows_beside_a_release_are_of_its_moment_and_what_the_library_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread takes records while the first of them is made."""
    with open_run(tmp_path, "10s", windows={last: FolderSink(tmp_path / str(last)) for last in (64, 200)}) as run:
        run.publish_if_due(0.0)
        run.take({"x": VALUES[:900]})
        model = registry.model

        def slow(mechanism: str) -> Any:  # noqa: ANN401 - as there
            if run.t == 900:
                thread = threading.Thread(target=run.take, args=({"x": VALUES[900:]},))
                thread.start()
                thread.join(60)
            return model(mechanism)

        monkeypatch.setattr(registry, "model", slow)
        assert [published.t for published in run.publish_if_due(10.0)] == [900]
        assert run.t == 1250
    synth = hw.Synthesizer(SCHEMA, epsilon=1.0, seed=1)
    synth.update({"x": VALUES[:900]})
    for last in (64, 200):
        (place,) = folders(tmp_path / str(last))
        found, expected = hw.Release.load(place), synth.release(last=last)
        assert found.span == expected.span
        assert found.sample(kind="columns")["x"].tolist() == expected.sample(kind="columns")["x"].tolist()


def test_a_release_that_was_published_before_an_error_is_reported_by_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_run(tmp_path, "100") as run:
        run.take({"x": VALUES[:250]})
        show = Run._show
        with monkeypatch.context() as patch:
            patch.setattr(Run, "_show", lambda self, *what: full() if self._published else show(self, *what))
            with pytest.raises(OSError, match="No space"):
                run.publish_if_due()
        assert [published.t for published in run.publish_if_due()] == [100, 200]
        assert run.publish_if_due() == []


# ---- how much stays


def limited(folder: Path, **limits: int) -> FolderSink:
    return FolderSink(folder / "out", **({"rows": 150, "keep": 2} | limits))  # type: ignore[arg-type]


def test_old_tables_go_their_cards_stay_and_neither_a_restart_nor_a_link_changes_that(tmp_path: Path) -> None:
    """Whoever may write to the folder plants a link to another folder of the owner: it is left alone."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "data.csv").write_text("x\n0.5\n")
    with open_run(tmp_path, "100", sink=limited(tmp_path)) as run:
        take(run, 0, 500)
    assert rows(tmp_path / "out") == {400: 150, 500: 150}
    cards = {folder.name: (folder / "card.json").read_bytes() for folder in folders(tmp_path / "out")}
    assert len(cards) == 5
    with open_run(tmp_path, "100", sink=limited(tmp_path)) as run:
        assert run.publish_if_due() == []
        assert run.publish() is None
    assert {folder.name: (folder / "card.json").read_bytes() for folder in folders(tmp_path / "out")} == cards
    assert rows(tmp_path / "out") == {400: 150, 500: 150}
    with open_run(tmp_path, "100", sink=limited(tmp_path)) as run:
        (tmp_path / "out" / "release-000000000001").symlink_to(tmp_path / "other")
        take(run, 500, 600)
    assert (tmp_path / "other" / "data.csv").exists()


def test_a_kill_before_or_amid_pruning_leaves_what_the_next_release_prunes(tmp_path: Path) -> None:
    class Killed(FolderSink):
        def publish(self, release: hw.Release, run_id: str) -> Published:
            FolderSink(self.out, rows=self.rows).publish(release, run_id)  # it is there; nothing was removed
            raise KeyboardInterrupt

    with open_run(tmp_path, "100", sink=limited(tmp_path)) as run:
        take(run, 0, 300)
    run = open_run(tmp_path, "100", sink=Killed(tmp_path / "out", rows=150, keep=2))
    with pytest.raises(KeyboardInterrupt):
        take(run, 300, 400)
    kill(run)
    assert len(rows(tmp_path / "out")) == 3
    with open_run(tmp_path, "100", sink=FolderSink(tmp_path / "out", keep=2)) as run:  # and another --rows
        take(run, 400, 500)
        assert rows(tmp_path / "out") == {400: 150, 500: 500}


def test_an_older_state_is_refused_by_the_cards_of_releases_whose_tables_are_gone(tmp_path: Path) -> None:
    with one_file(), open_run(tmp_path, "100", sink=limited(tmp_path)) as run:
        take(run, 0, 150)
    old = [(path, path.read_bytes()) for path in tmp_path.glob("run.state*")]
    with one_file(), open_run(tmp_path, "100", sink=limited(tmp_path)) as run:
        take(run, 150, 800)
    for folder in folders(tmp_path / "out"):
        (folder / "data.parquet").unlink(missing_ok=True)
    for path, data in old:
        path.write_bytes(data)
    with pytest.raises(StateCopiedError, match="of 800 records"):
        open_run(tmp_path, "100")


def test_a_kill_between_the_window_and_the_whole_is_made_good(tmp_path: Path) -> None:
    class Killed(FolderSink):
        def publish(self, release: hw.Release, run_id: str) -> Published:
            raise KeyboardInterrupt

    windows = {64: FolderSink(tmp_path / "last-64")}
    run = open_run(tmp_path, "100", sink=Killed(tmp_path / "out"), windows=windows)
    with pytest.raises(KeyboardInterrupt):
        take(run, 0, 100)
    kill(run)
    (window,) = folders(tmp_path / "last-64")
    before = (window / "card.json").stat().st_mtime_ns
    with open_run(tmp_path, "100", windows=windows) as run:
        run.publish_if_due()
    assert there(tmp_path / "out") == [100]
    assert (window / "card.json").stat().st_mtime_ns == before


def test_limits_that_make_no_sense_are_refused_before_there_is_a_state(tmp_path: Path) -> None:
    for limits in ({"rows": 0}, {"keep": 0}):
        with pytest.raises(ValueError, match="at least 1"):
            limited(tmp_path, **limits)
    windows = {last: FolderSink(tmp_path / "out") for last in (0, 100)}
    for last, mechanism, match in ((0, "cascade", "at least 1 record"), (100, "paper", "has no windows")):
        with pytest.raises(ValueError, match=match):
            open_run(tmp_path, windows={last: windows[last]}, mechanism=mechanism)
    assert not (tmp_path / "run.state").exists()
