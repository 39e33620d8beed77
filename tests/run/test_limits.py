"""Releases that fit on a disk: samples, old tables removed, windows beside the whole; and all of it after a kill."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import headwater as hw
from headwater.public.card import has_table, read_card
from headwater.public.folder import folders
from headwater.run import FolderSink, Published, Run, RunConfig, Schedule
from headwater.run.lock import StateCopiedError, StoreError

SCHEMA = hw.Schema(x=hw.Number(0, 1))
VALUES = np.random.default_rng(0).random(1000)


def open_run(folder: Path, sink: FolderSink | None = None, windows: tuple[int, ...] = (), **config: object) -> Run:
    return Run.open(
        RunConfig(SCHEMA, 1.0, seed=1, **config),  # type: ignore[arg-type]
        sink or FolderSink(folder / "out", rows=150, keep=2),
        state=folder / "run.state",
        schedule=Schedule(records=100),
        windows={last: FolderSink(folder / "out" / f"last-{last}", keep=1) for last in windows},
    )


def take(run: Run, start: int, end: int) -> None:
    run.take({"x": VALUES[start:end]})
    run.publish_if_due()


def kill(run: Run) -> None:
    assert run.store is not None
    run.store.close()


def tables(out: Path) -> dict[str, int]:
    """How many rows each table that is there has."""
    return {folder.name: read_card(folder)["rows"] for folder in folders(out) if has_table(folder)}


def test_old_tables_go_and_their_cards_stay_and_a_restart_does_not_bring_them_back(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        take(run, 0, 500)
    assert tables(tmp_path / "out") == {"release-000000000400": 150, "release-000000000500": 150}
    cards = {folder.name: (folder / "card.json").read_bytes() for folder in folders(tmp_path / "out")}
    assert len(cards) == 5
    with open_run(tmp_path) as run:
        assert run.publish_if_due() == []
        assert run.publish() is None
    assert tables(tmp_path / "out") == {"release-000000000400": 150, "release-000000000500": 150}
    assert {folder.name: (folder / "card.json").read_bytes() for folder in folders(tmp_path / "out")} == cards


def test_a_link_in_place_of_an_old_release_takes_no_table_along(tmp_path: Path) -> None:
    """Whoever may write to the folder of releases plants a link to another folder of the owner: it is left alone."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "data.csv").write_text("x\n0.5\n")
    with open_run(tmp_path) as run:
        take(run, 0, 100)
        (tmp_path / "out" / "release-000000000001").symlink_to(other)
        for start in range(100, 500, 100):
            take(run, start, start + 100)
    assert (other / "data.csv").exists()
    assert sum(map(has_table, folders(tmp_path / "out"))) == 2 + 1  # those that are kept, and the one that it leads to


def test_a_kill_before_or_amid_pruning_leaves_what_the_next_release_prunes(tmp_path: Path) -> None:
    class Killed(FolderSink):
        def publish(self, release: hw.Release, run_id: str) -> Published:
            FolderSink(self.out, rows=self.rows).publish(release, run_id)  # it is there; nothing was removed
            raise KeyboardInterrupt

    with open_run(tmp_path) as run:
        take(run, 0, 300)
    run = open_run(tmp_path, Killed(tmp_path / "out", rows=150, keep=2))
    with pytest.raises(KeyboardInterrupt):
        take(run, 300, 400)
    kill(run)
    assert len(tables(tmp_path / "out")) == 3
    with open_run(tmp_path, FolderSink(tmp_path / "out", keep=2)) as run:  # and another --rows
        run.publish_if_due()
        assert tables(tmp_path / "out") == {"release-000000000300": 150, "release-000000000400": 150}
        take(run, 400, 500)
    assert tables(tmp_path / "out") == {"release-000000000400": 150, "release-000000000500": 500}


def test_an_older_state_is_refused_by_the_cards_of_releases_whose_tables_are_gone(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        take(run, 0, 150)
    old = [(path, path.read_bytes()) for path in (tmp_path / "run.state", tmp_path / "run.state.lock")]
    with open_run(tmp_path) as run:
        take(run, 150, 800)
    for folder in folders(tmp_path / "out"):
        (folder / "data.parquet").unlink(missing_ok=True)
    for path, data in old:
        path.write_bytes(data)
    with pytest.raises(StateCopiedError, match="800 records"):
        open_run(tmp_path)


def test_windows_are_published_beside_the_whole_and_are_what_the_library_gives(tmp_path: Path) -> None:
    with open_run(tmp_path, windows=(64, 200)) as run:
        take(run, 0, 1000)
    synth = hw.Synthesizer(SCHEMA, epsilon=1.0, seed=1)
    synth.update({"x": VALUES})
    for last in (64, 200):
        place = tmp_path / "out" / f"last-{last}"
        assert len(folders(place)) == 10
        assert list(tables(place)) == [folders(place)[-1].name]
        found, expected = hw.Release.load(folders(place)[-1]), synth.release(last=last)
        assert found.span == expected.span
        assert found.sample(kind="columns")["x"].tolist() == expected.sample(kind="columns")["x"].tolist()
    assert len(folders(tmp_path / "out")) == 10


def test_a_kill_between_the_window_and_the_whole_is_made_good(tmp_path: Path) -> None:
    class Killed(FolderSink):
        def publish(self, release: hw.Release, run_id: str) -> Published:
            raise KeyboardInterrupt

    run = open_run(tmp_path, Killed(tmp_path / "out"), windows=(64,))
    with pytest.raises(KeyboardInterrupt):
        take(run, 0, 100)
    kill(run)
    window = folders(tmp_path / "out" / "last-64")
    assert (len(window), len(folders(tmp_path / "out"))) == (1, 0)
    before = (window[0] / "card.json").stat().st_mtime_ns
    with open_run(tmp_path, windows=(64,)) as run:
        run.publish_if_due()
    assert len(folders(tmp_path / "out")) == 1
    assert (window[0] / "card.json").stat().st_mtime_ns == before


def test_limits_that_make_no_sense_are_refused_before_there_is_a_state(tmp_path: Path) -> None:
    for limits in ({"rows": 0}, {"keep": 0}):
        with pytest.raises(ValueError, match="at least 1"):
            FolderSink(tmp_path / "out", **limits)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1 record"):
        open_run(tmp_path, windows=(0,))
    with pytest.raises(ValueError, match="has no windows"):
        open_run(tmp_path, windows=(100,), mechanism="paper")
    assert not (tmp_path / "run.state").exists()


def test_auto_continues_with_the_mechanism_that_the_state_has(tmp_path: Path) -> None:
    with open_run(tmp_path, mechanism="paper") as run:
        take(run, 0, 50)
    with open_run(tmp_path) as run:
        assert run.synth.mechanism == "paper"
    with pytest.raises(StoreError, match="another mechanism"):
        open_run(tmp_path, mechanism="cascade")


@pytest.mark.parametrize(("columns", "expected"), [(3, "cascade"), (4, "marginals")])
def test_a_new_run_chooses_its_mechanism_by_the_schema_and_keeps_it(
    tmp_path: Path, columns: int, expected: str
) -> None:
    schema = hw.Schema({f"c{i}": hw.Integer(0, 3) for i in range(columns)})
    for _ in range(2):
        with Run.open(RunConfig(schema, 1.0), FolderSink(tmp_path / "out"), state=tmp_path / "s") as run:
            assert run.synth.mechanism == expected
            run.take({name: [1, 2] for name in schema.names})
            run.publish()
    (place,) = folders(tmp_path / "out")[:1]
    card = read_card(place)
    assert card["mechanism"] == expected
    assert f"{columns} column" in card["mechanism_reason"]
