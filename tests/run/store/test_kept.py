"""What a store keeps, and that it keeps it whole."""

import os
import random
import sqlite3
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from headwater.run.store import Store, entries
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.run.lock import StateCopiedError, StateDamagedError, StoreError

CONFIG = {"epsilon": 1.0, "schema": {"columns": {"x": {"kind": "number"}}}}


def rows(n: int, seed: int = 0) -> Any:  # noqa: ANN401
    return np.random.default_rng(seed).integers(0, 1 << 60, (n, 3), dtype=np.uint64)


def test_what_was_appended_comes_back(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", CONFIG) as store:
        assert store.append(rows(4), {"row": 4}) == 4
        assert store.append(rows(5, 1), {"row": 9}) == 9
        assert store.t == 9
    with Store.open(tmp_path / "s") as store:
        kept = store.load()
        assert (kept.snapshot, kept.position, kept.t, store.t) == (None, {"row": 9}, 9, 9)
        assert [(part.start, part.rows.shape) for part in kept.journal] == [(0, (4, 3)), (4, (5, 3))]
        np.testing.assert_array_equal(kept.journal[1].rows, rows(5, 1))
        assert store.config == CONFIG


@pytest.mark.parametrize(
    "array",
    [
        np.arange(5, dtype=np.uint64).reshape(5, 1),
        np.array([[1, 2], [3, 4]], dtype=">u4"),
        np.arange(12, dtype=np.uint16).reshape(3, 4)[:, ::2],
        np.array([[255, 0, 7]], dtype=np.uint8),
        np.arange(123, dtype=np.uint8).reshape(3, 41),
    ],
)
def test_rows_of_any_unsigned_type_and_width_are_kept_as_they_are(tmp_path: Path, array: Any) -> None:  # noqa: ANN401
    with Store.create(tmp_path / "s", {}) as store:
        store.append(array)
        (entry,) = store.load().journal
        back = entry.rows
    np.testing.assert_array_equal(back, array)
    assert (back.shape, back.dtype) == (array.shape, array.dtype.newbyteorder("<"))


@pytest.mark.parametrize("array", [np.array([["secret"]]), np.zeros((1, 1)), np.zeros(1, np.uint8), np.array([[1]])])
def test_what_is_no_row_of_unsigned_integers_is_refused(tmp_path: Path, array: Any) -> None:  # noqa: ANN401
    with Store.create(tmp_path / "s", {}) as store:
        with pytest.raises(TypeError, match="two-dimensional array of unsigned integers"):
            store.append(array)
        assert store.load().t == 0


def test_a_snapshot_takes_the_place_of_the_journal(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        store.append(rows(4), {"row": 4})
        assert 4 * 3 * 8 < store.journal_bytes < 4 * 3 * 8 + 200  # with its head
        store.snapshot(4, b"state")
        assert (store.journal_bytes, store.snapshot_bytes) == (0, 5)
        store.append(rows(2))
    with Store.open(tmp_path / "s") as store:
        kept = store.load()
        assert (kept.snapshot, kept.position, kept.t) == ((4, b"state", {"row": 4}), {"row": 4}, 6)
        assert len(kept.journal) == 1
        assert 48 < store.journal_bytes < 48 + 200
        assert store.snapshot_bytes == 5


def test_a_snapshot_in_the_middle_of_an_entry_leaves_the_rest_of_it(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        store.append(rows(4), {"row": 4})
        store.append(rows(5, 1), {"row": 9})
        store.append(rows(2, 2), {"row": 11})
        store.snapshot(6, b"state")
        kept = store.load()
        assert (kept.t, kept.position, store.t) == (11, {"row": 11}, 11)
        assert [(part.start, len(part.rows)) for part in kept.journal] == [(6, 3), (9, 2)]
        np.testing.assert_array_equal(kept.journal[0].rows, rows(5, 1)[2:])


def test_a_snapshot_can_neither_be_ahead_of_the_state_nor_go_back(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        store.append(rows(5))
        with pytest.raises(ValueError, match="ahead of the state"):
            store.snapshot(6, b"")
        store.snapshot(5, b"five")
        with pytest.raises(ValueError, match="went back from 5 to 4"):
            store.snapshot(4, b"")
        store.append(rows(5))
        with pytest.raises(ValueError, match="went back"):
            store.snapshot(4, b"")
        assert store.load().t == 10


def test_positions_are_merged_by_name_in_journal_and_snapshot(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        store.append(rows(1), {"trips/0": 17, "key:a": {"sha256": "aa"}})
        store.append(rows(1), {"trips/1": 4})
        store.snapshot(1, b"a")
        store.append(rows(0), {"key:a": None, "trips/0": 18})
        expected = {"trips/0": 18, "trips/1": 4}
        assert store.load().position == expected
        assert (store.position("trips/0"), store.position("key:a")) == (18, None)
        store.snapshot(2, b"b")
        assert store.load().position == expected
    with Store.open(tmp_path / "s") as store:
        assert (store.position("trips/1"), store.position("nothing")) == (4, None)


def test_a_position_that_is_not_json_is_refused_with_its_rows(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        with pytest.raises(TypeError):
            store.append(rows(1), {"when": object()})
        assert store.load().t == store.t == 0


def test_notes_last_until_they_are_replaced_and_a_snapshot_clears_who_measured(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        assert store.noted("measured_by") is None
        store.note(measured_by="version 1", sinks=["/a"])
    with Store.open(tmp_path / "s") as store:
        assert (store.noted("measured_by"), store.noted("sinks")) == ("version 1", ["/a"])
        store.snapshot(0, b"")
        assert (store.noted("measured_by"), store.noted("sinks")) == (None, ["/a"])


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 25])
def test_a_snapshot_of_many_parts_is_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(entries, "PART", 10)
    data = bytes(range(size))
    with Store.create(tmp_path / "s", {}) as store:
        store.snapshot(0, b"x" * 99)
        store.snapshot(0, data)
        assert store.load().snapshot == (0, data, {})


@settings(max_examples=20)
@given(st.lists(st.tuples(st.sampled_from(["append", "snapshot", "reopen"]), st.integers(0, 5)), max_size=12))
def test_any_sequence_of_calls_keeps_what_a_plain_list_keeps(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[str, int]]
) -> None:
    """Snapshots are taken at any time between the last one and now."""
    path = tmp_path_factory.mktemp("states") / "s"
    store = Store.create(path, {})
    stream, covered, position = rows(0), 0, dict[str, int]()
    for call, n in calls:
        if call == "append":
            stream = np.concatenate([stream, rows(n, len(stream))])
            position = {"t": len(stream)}
            assert store.append(stream[len(stream) - n :], position) == len(stream)
        elif call == "snapshot":
            covered = max(covered, len(stream) - n)
            store.snapshot(covered, bytes(covered))
        else:
            store.close()
            store = Store.open(path)
        kept = store.load()
        assert (kept.position, kept.t, store.t) == (position, len(stream), len(stream))
        assert kept.snapshot is None or kept.snapshot[:2] == (covered, bytes(covered))
        after = np.concatenate([rows(0), *(part.rows for part in kept.journal)])
        assert np.array_equal(after, stream[covered:])
    store.close()


def test_a_published_release_never_changes(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        store.published(20, "bb")
        store.published(10, "aa")
        store.published(10, "aa")  # saying it twice is fine
        with pytest.raises(StoreError, match="t = 10 was published before with other content"):
            store.published(10, "cc")
    with Store.open(tmp_path / "s") as store:
        assert list(store.releases().items()) == [(10, "aa"), (20, "bb")]


def test_changing_what_config_returns_changes_nothing(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", CONFIG) as store:
        store.config["schema"]["columns"].clear()
        assert store.config == CONFIG


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_nobody_else_can_read_the_state_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = Store.create(tmp_path / "new" / "inner" / "s", {})
        with store.transaction():  # in the middle of a commit all side files are there
            store.connection.execute("INSERT INTO release VALUES (1, 'aa')")
            store.connection.execute("PRAGMA cache_spill = 1")
            found = modes(store.path.parent)
        store.close()
    finally:
        os.umask(before)
    assert any(name.endswith("-journal") for name in found)
    assert set(found.values()) == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new", tmp_path / "new" / "inner")} == {0o700}


def test_a_folder_that_was_there_keeps_its_permissions(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    Store.create(tmp_path / "s", {}).close()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_state_that_others_may_read_is_refused(tmp_path: Path) -> None:
    Store.create(tmp_path / "s", {}).close()
    (tmp_path / "s").chmod(0o640)
    with pytest.raises(StoreError, match=r"other users may read.*chmod 600"):
        Store.open(tmp_path / "s")


def test_at_rest_the_state_is_one_file_that_says_what_it_is(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        store.append(rows(4))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s", "s.lock"]
    with sqlite3.connect(tmp_path / "s") as connection:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (readme,) = connection.execute("SELECT value FROM meta WHERE key = 'readme'").fetchone()
    connection.close()
    assert application == int.from_bytes(b"HWAT", "big")
    assert "as secret as the data" in readme


def test_a_new_state_never_overwrites_an_old_one(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {"run": 1}) as store:
        store.append(rows(4))
    with pytest.raises(StoreError, match="there is a state here already"):
        Store.create(tmp_path / "s", {"run": 2})
    with Store.open(tmp_path / "s") as store:
        assert (store.config, store.t) == ({"run": 1}, 4)


def test_a_state_can_be_made_where_another_one_was_deleted(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        for _ in range(8):
            store.append(rows(1))
    (tmp_path / "s").unlink()
    Store.create(tmp_path / "s", {"run": 2}).close()
    with Store.open(tmp_path / "s") as store:
        assert (store.config, store.t) == ({"run": 2}, 0)


def test_openings_are_counted(tmp_path: Path) -> None:
    Store.create(tmp_path / "s", {}).close()
    for time in (2, 3):
        with Store.open(tmp_path / "s") as store:
            assert store.opened == time


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "s", {})
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.append(rows(1))


# ---- copies


def test_a_copy_is_refused_unless_allowed(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        store.append(rows(4))
    copy = tmp_path / "copy"
    copy.write_bytes((tmp_path / "s").read_bytes())
    copy.chmod(0o600)
    with pytest.raises(StateCopiedError, match=r"copy of a state.*allow_copy.*same noise on different data"):
        Store.open(copy)
    with Store.open(copy, allow_copy=True) as store:
        assert store.t == 4
    Store.open(copy).close()  # said once, it is the state from now on
    Store.open(tmp_path / "s").close()  # the first one never stopped to be one


def test_a_state_that_was_moved_goes_on(tmp_path: Path) -> None:
    Store.create(tmp_path / "s", {}).close()
    (tmp_path / "s").rename(tmp_path / "other")
    Store.open(tmp_path / "other").close()


def test_an_older_version_put_back_in_place_is_refused_unless_allowed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with Store.create(path, {}) as store:
        store.append(rows(4))
    old = path.read_bytes()
    with Store.open(path) as store:
        store.append(rows(4))
    path.write_bytes(old)  # the same inode
    with pytest.raises(StateCopiedError, match="older version of this state"):
        Store.open(path)
    with Store.open(path, allow_copy=True) as store:
        assert store.t == 4
        store.append(rows(1))
    Store.open(path).close()


@pytest.mark.parametrize("lock", ["removed", "behind"])
def test_an_older_version_is_refused_also_if_the_lock_file_was_lost_before(tmp_path: Path, lock: str) -> None:
    """The number of commits never falls: a lock file that is gone or old, as after a loss of power, resets nothing."""
    path, noted = tmp_path / "s", tmp_path / "s.lock"
    with Store.create(path, {}) as store:
        early = noted.read_bytes()
        for _ in range(10):
            store.append(np.zeros((1, 1), np.uint8))
    backup = path.read_bytes()
    if lock == "removed":
        noted.unlink()
    else:
        noted.write_bytes(early)
    with Store.open(path) as store:
        store.append(np.ones((1, 1), np.uint8))
    path.write_bytes(backup)
    with pytest.raises(StateCopiedError, match="older version of this state"):
        Store.open(path)


# ---- damage


def test_files_that_are_no_states_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no state here"):
        Store.open(tmp_path / "none")
    (tmp_path / "text").write_text("something else, and long enough to be looked at" * 9)
    connection = sqlite3.connect(tmp_path / "foreign")
    connection.execute("CREATE TABLE t (x)")
    connection.commit()
    connection.close()
    (tmp_path / "empty").touch()
    for name in ("text", "foreign", "empty"):
        (tmp_path / name).chmod(0o600)
        before = (tmp_path / name).read_bytes()
        with pytest.raises(StoreError, match=r"not the state of a Headwater run|damaged"):
            Store.open(tmp_path / name)
        assert (tmp_path / name).read_bytes() == before


def change(path: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement, values)
    connection.commit()
    connection.close()


def test_a_newer_state_is_refused(tmp_path: Path) -> None:
    Store.create(tmp_path / "s", {}).close()
    change(tmp_path / "s", "PRAGMA user_version = 7")
    with pytest.raises(StoreError, match=r"newer Headwater \(format 7, this one knows 2\)"):
        Store.open(tmp_path / "s")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE journal SET data = zeroblob(length(data)) WHERE seq = 1",
        "UPDATE journal SET head = replace(head, '8', '9') WHERE seq = 2",
        "DELETE FROM journal WHERE seq = 1",
        "UPDATE journal SET sha256 = x'00'",
        "UPDATE snapshot SET data = x'00' WHERE part = 1",
        "UPDATE snapshot SET data = x'00' WHERE part = 0",
        "DELETE FROM snapshot WHERE part = 1",
        "DELETE FROM snapshot",
        "UPDATE meta SET value = '{\"epsilon\": 9}' WHERE key = 'config'",
        "DELETE FROM meta",
        "DROP TABLE journal",
    ],
)
def test_altered_content_is_noticed(tmp_path: Path, statement: str) -> None:
    with Store.create(tmp_path / "s", {"epsilon": 1}) as store:
        store.append(rows(2), {"row": 2})
        store.snapshot(2, b"state")
        store.append(rows(2))
        store.append(rows(4))
    change(tmp_path / "s", statement)
    with pytest.raises(StoreError) as caught:
        open_and_load(tmp_path / "s")
    assert caught.value.remedy


def open_and_load(path: Path) -> Any:  # noqa: ANN401
    with Store.open(path) as store:
        return store.load()


def test_random_damage_never_goes_unnoticed_and_never_shows_a_database_error(tmp_path: Path) -> None:
    """Bytes of the file set at random: the state is what it was, or refused with a plain error."""
    with Store.create(tmp_path / "s", {"epsilon": 1}) as store:
        store.append(rows(2), {"row": 2})
        store.snapshot(2, b"state" * 20000)
        store.append(rows(60000))
        good = store.load()
    data, chance, refused = (tmp_path / "s").read_bytes(), random.Random(1), 0  # noqa: S311 - a test
    for _ in range(60):
        broken = bytearray(data)
        for _ in range(20):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        if chance.random() < 0.2:
            del broken[chance.randrange(len(broken)) :]
        (tmp_path / "s").write_bytes(broken)
        (tmp_path / "s.lock").unlink(missing_ok=True)
        try:
            kept = open_and_load(tmp_path / "s")
        except StoreError:
            refused += 1
            continue
        assert (kept.snapshot, kept.position, kept.t) == good[0:1] + good[2:]
        assert np.array_equal(kept.journal[0].rows, good.journal[0].rows)
    assert refused > 30


def test_a_damaged_snapshot_is_called_damaged(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        store.snapshot(0, b"state")
    change(tmp_path / "s", "UPDATE snapshot SET data = x'00' WHERE part = 1")
    with pytest.raises(StateDamagedError, match=r"checksum.*put back a backup"):
        open_and_load(tmp_path / "s")
