"""What a state keeps, and that it keeps it whole."""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.run import state as state_module
from headwater.run.frames import framed, read_frames
from headwater.run.lock import StateCopiedError, StoreError
from headwater.run.state import BANNER, State
from headwater.secret.batch import Batch

CONFIG = {"epsilon": 1.0, "schema": {"columns": {"x": {"kind": "number"}}}}


def rows(n: int, seed: int = 0) -> Batch:
    return Batch(np.random.default_rng(seed).integers(0, 1 << 60, (n, 3), dtype=np.uint64))


def all_rows(journal: list[tuple[int, Batch]]) -> Any:  # noqa: ANN401
    return np.concatenate([rows(0).rows, *(batch.rows for _, batch in journal)])


def load(path: Path) -> Any:  # noqa: ANN401
    with State.open(path) as state:
        return state.load()


@pytest.mark.parametrize(
    "array",
    [
        np.array([[1, 2], [3, 4]], dtype=">u4"),
        np.arange(12, dtype=np.uint16).reshape(3, 4)[:, ::2],
        np.arange(123, dtype=np.uint8).reshape(3, 41),
    ],
)
@pytest.mark.parametrize("counts", [None, np.array([1, 300, 2**40])])
def test_rows_of_any_type_and_counts_come_back_as_they_were(tmp_path: Path, array: Any, counts: Any) -> None:  # noqa: ANN401
    counts = None if counts is None else counts[: len(array)]
    with State.create(tmp_path / "s", CONFIG) as state:
        state.append(rows(2), {"row": 2})
        state.append(Batch(array, counts, until=None if counts is None else 2 + int(counts.sum())), {"row": 9})
    with State.open(tmp_path / "s") as state:
        assert (state.config, state.position("row")) == (CONFIG, 9)
        state.config["schema"]["columns"].clear()
        assert state.config == CONFIG
        t, data, ((_, first), (number, back)) = state.load()
        assert (t, data, number, first.records, state.t) == (0, b"", 2, 2, 2 + back.records)
    np.testing.assert_array_equal(back.rows, array)
    assert back.rows.dtype == array.dtype.newbyteorder("=")
    assert (back.counts is None) == (counts is None)
    if back.counts is not None:
        assert (back.counts.tolist(), back.until) == (counts.tolist(), 2 + back.records)


@settings(max_examples=20)
@given(st.lists(st.tuples(st.sampled_from(["append", "snapshot", "reopen"]), st.integers(0, 5)), max_size=12))
def test_any_sequence_of_calls_keeps_what_a_plain_list_keeps(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[str, int]]
) -> None:
    path = tmp_path_factory.mktemp("states") / "s"
    state, stream, covered, position = State.create(path, {}), rows(0).rows, 0, None
    for call, n in calls:
        if call == "append":
            stream = np.concatenate([stream, rows(n, len(stream)).rows])
            position = {"t": len(stream)}
            state.append(Batch(stream[len(stream) - n :]), {"at": position})
        elif call == "snapshot":
            covered = len(stream)
            state.snapshot(covered, bytes(covered + 1))
        else:
            state.close()
            state = State.open(path)
        t, data, journal = state.load()
        assert (t, state.t, state.position("at")) == (covered, len(stream), position)
        assert data in (b"", bytes(covered + 1))
        assert np.array_equal(all_rows(journal), stream[covered:])
    state.close()


def test_a_published_release_never_changes(tmp_path: Path) -> None:
    with State.create(tmp_path / "s", {}) as state:
        for t, digest in ((20, "bb"), (10, "aa"), (10, "aa")):  # saying it twice is fine
            state.published(t, digest)
        with pytest.raises(StoreError, match="t = 10 was published before with other content"):
            state.published(10, "cc")
    with State.open(tmp_path / "s") as state:
        assert list(state.releases().items()) == [(10, "aa"), (20, "bb")]


# ---- receipts


def test_receipts_are_kept_with_their_records_and_the_oldest_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_module, "RECEIPTS", 100)
    every = [bytes([number]) * 40 for number in range(10)]
    for number, receipt in enumerate(every):
        with State.open(tmp_path / "s") if number else State.create(tmp_path / "s", {}) as state:
            state.append(rows(1), {}, receipt)
            state.snapshot(number + 1, b"snapshot")  # receipts outlive it
    with State.open(tmp_path / "s") as state:
        assert state.receipts() == every[-3:]
        with pytest.raises(TypeError):
            state.append(rows(1), {"at": object()}, b"of a batch that is not kept")
        assert state.receipts() == every[-3:]


# ---- files and permissions


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_nobody_else_can_read_the_state_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with State.create(tmp_path / "new" / "inner" / "s", {}) as state:
            state.append(rows(1), {})
            state.snapshot(1, b"data")
            found = modes(tmp_path / "new" / "inner")
    finally:
        os.umask(before)
    assert found == {"s": 0o600, "s.lock": 0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new", tmp_path / "new" / "inner")} == {0o700}


def test_a_state_that_others_may_read_is_refused_and_a_folder_keeps_its_permissions(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    State.create(tmp_path / "s", {}).close()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    (tmp_path / "s").chmod(0o640)
    with pytest.raises(StoreError, match=r"other users may read.*chmod 600"):
        State.open(tmp_path / "s")


def test_at_rest_the_state_is_one_file_that_says_what_it_is(tmp_path: Path) -> None:
    with State.create(tmp_path / "s", {}) as state:
        state.append(rows(4), {})
    state.close()
    with pytest.raises(StoreError, match="closed"):
        state.append(rows(1), {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s", "s.lock"]
    assert state_module.is_state(tmp_path / "s")
    assert b"as secret as the data" in (tmp_path / "s").read_bytes()


def test_a_new_state_never_overwrites_an_old_one_and_can_follow_one_that_is_gone(tmp_path: Path) -> None:
    with State.create(tmp_path / "s", {"run": 1}) as state:
        for _ in range(8):
            state.append(rows(1), {})
    with pytest.raises(StoreError, match="there is a state here already"):
        State.create(tmp_path / "s", {"run": 2})
    with State.open(tmp_path / "s") as state:
        assert (state.config, state.t) == ({"run": 1}, 8)
    (tmp_path / "s").unlink()
    State.create(tmp_path / "s", {"run": 2}).close()
    with State.open(tmp_path / "s") as state:
        assert (state.config, state.t) == ({"run": 2}, 0)


# ---- copies


def test_a_copy_is_refused_unless_allowed_and_a_moved_state_goes_on(tmp_path: Path) -> None:
    with State.create(tmp_path / "s", {}) as state:
        state.append(rows(4), {})
    copy = tmp_path / "copy"
    copy.write_bytes((tmp_path / "s").read_bytes())
    copy.chmod(0o600)
    with pytest.raises(StateCopiedError, match=r"copy of a state.*allow_copy.*same noise on different data"):
        State.open(copy)
    with State.open(copy, allow_copy=True) as state:
        assert state.t == 4
    State.open(copy).close()  # said once, it is the state from now on
    (tmp_path / "s").rename(tmp_path / "other")
    State.open(tmp_path / "other").close()


@pytest.mark.parametrize("lock", ["there", "removed", "behind"])
def test_an_older_version_put_back_is_refused_unless_allowed(tmp_path: Path, lock: str) -> None:
    """The number of commits never falls: a lock file that was lost or is old resets nothing."""
    path, noted = tmp_path / "s", tmp_path / "s.lock"
    with State.create(path, {}) as state:
        early = noted.read_bytes()
        for _ in range(10):
            state.append(rows(1), {})
    backup = path.read_bytes()
    if lock == "removed":
        noted.unlink()
    elif lock == "behind":
        noted.write_bytes(early)
    with State.open(path) as state:
        state.append(rows(1, 1), {})
    path.write_bytes(backup)  # the same inode
    with pytest.raises(StateCopiedError, match="older version of this state"):
        State.open(path)
    with State.open(path, allow_copy=True) as state:
        assert state.t == 10
        state.append(rows(1), {})
    State.open(path).close()


# ---- damage


def test_files_that_are_no_states_are_refused_and_stay_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no state here"):
        State.open(tmp_path / "none")
    for content in (b"something else, and long enough to be looked at" * 9, b"", framed("other: SECRET", {})):
        path = tmp_path / "file"
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(StoreError, match=r"not the state of a Headwater run"):
            State.open(path)
        assert path.read_bytes() == content


def without(number: int) -> Callable[[list[bytes]], list[bytes]]:
    return lambda parts: [*parts[:number], *parts[number + 1 :]]


@pytest.mark.parametrize(
    "how",
    [
        *map(without, range(4)),
        lambda parts: [parts[0], parts[2], parts[1], parts[3]],
        lambda parts: [parts[0], parts[0], *parts[1:]],
        lambda parts: [*parts[:-1], parts[-1][:-40] + bytes(8) + parts[-1][-32:]],
        lambda parts: [*parts[:-1], parts[-1][:-1]],
        lambda parts: [parts[0][:-1], *parts[1:]],
    ],
)
def test_frames_that_are_missing_torn_altered_or_in_another_order_are_noticed(
    tmp_path: Path, how: Callable[[list[bytes]], list[bytes]]
) -> None:
    with State.create(tmp_path / "s", {"epsilon": 1}, b"state") as state:
        for number in (1, 2, 3):
            state.append(rows(number), {"row": number})
    data = (tmp_path / "s").read_bytes()
    ends = [0, *(frame.end for frame in read_frames(tmp_path / "s", data, BANNER))]
    (tmp_path / "s").write_bytes(b"".join(how([data[i:j] for i, j in pairwise(ends)])))
    with pytest.raises(StoreError) as caught:
        load(tmp_path / "s")
    assert caught.value.remedy


def test_half_a_step_that_a_kill_has_left_is_none_and_is_written_over(tmp_path: Path) -> None:
    length = (12).to_bytes(8, "little")
    for tail in (b"\x07", (400).to_bytes(8, "little") + b"half", length + bytes(12), bytes(300)):
        with State.create(tmp_path / "s", {}) as state:
            state.append(rows(2), {"row": 2})
        with (tmp_path / "s").open("ab") as file:
            file.write(tail)
        with State.open(tmp_path / "s") as state:
            assert (state.t, state.position("row")) == (2, 2)
            state.append(rows(3), {"row": 5})
        with State.open(tmp_path / "s") as state:
            assert (state.t, state.position("row")) == (5, 5)
        (tmp_path / "s").unlink()


def test_random_damage_never_goes_unnoticed(tmp_path: Path) -> None:
    """Bytes of the file set at random: the state is what it was, or refused with a plain error."""
    with State.create(tmp_path / "s", {"epsilon": 1}) as state:
        state.append(rows(2), {"row": 2})
        state.snapshot(2, b"state" * 20000)
        state.append(rows(60000), {})
        good = state.load()
    data, chance, refused = (tmp_path / "s").read_bytes(), random.Random(1), 0  # noqa: S311 - a test
    for _ in range(60):
        broken = bytearray(data)
        for _ in range(20):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        if chance.random() < 0.2:
            del broken[chance.randrange(len(broken)) :]
        (tmp_path / "s").write_bytes(broken)
        if chance.random() < 0.5:
            (tmp_path / "s.lock").unlink(missing_ok=True)
        try:
            found = load(tmp_path / "s")
        except StoreError:
            refused += 1
            continue
        assert found[:2] == good[:2]
        assert np.array_equal(all_rows(found[2]), all_rows(good[2]))
    assert refused > 30
