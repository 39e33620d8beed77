"""Files that are rotated, compressed, moved and deleted once they were read: every record counts once."""

import gzip
import hashlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater import Integer, Schema
from headwater.secret.read.batch import Position
from headwater.secret.read.options import InputChangedError
from headwater.secret.read.source import open_source

SCHEMA = Schema(n=Integer(0, 10**6))
POLL = 0.01


def write(path: Path, *numbers: int) -> None:
    path.write_text("n\n" + "".join(f"{n}\n" for n in numbers))


def append(path: Path, *numbers: int) -> None:
    with open(path, "a") as file:
        file.write("".join(f"{n}\n" for n in numbers))


def compress(path: Path) -> None:
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


def read_all(
    path: Path | list[Path],
    position: Position | None = None,
    **options: Any,  # noqa: ANN401 - fields of Options
) -> tuple[list[int], Position | None]:
    """All numbers that come, and the position at the end."""
    found = list[int]()
    with open_source(path, SCHEMA, position, **options) as source:
        for batch in source:
            if batch is not None:
                found += batch.table["n"].to_pylist()
                position = batch.position
        return found, source.pending or position


GONE: dict[str, Callable[[Path], object]] = {
    "deleted": lambda path: path.unlink(),
    "compressed": compress,
    "moved away": lambda path: shutil.move(path, path.parent.parent / "archive.csv"),
    "still there": lambda path: None,
}


@pytest.mark.parametrize("how", GONE)
def test_a_file_that_was_read_to_its_end_may_go(tmp_path: Path, how: str) -> None:
    (tmp_path / "in").mkdir()
    position = None
    for day in range(4):
        today = tmp_path / "in" / f"day{day}.csv"
        write(today, *range(10 * day, 10 * day + 5))
        found, position = read_all(today, position)  # only today's file
        assert found == list(range(10 * day, 10 * day + 5))
        GONE[how](today)
    found, _ = read_all(tmp_path / "in", position) if any((tmp_path / "in").iterdir()) else ([], None)
    assert found == []


@pytest.mark.parametrize("how", GONE)
def test_files_of_a_folder_come_and_go(tmp_path: Path, how: str) -> None:
    folder, position, everything = tmp_path / "in", None, list[int]()
    folder.mkdir()
    for day in range(5):
        write(folder / f"day{day}.csv", *range(10 * day, 10 * day + 3))
        found, position = read_all(folder, position)
        everything += found
        if day:
            GONE[how](folder / f"day{day - 1}.csv")
    assert everything == [10 * day + n for day in range(5) for n in range(3)]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("by_folder", [False, True])
@pytest.mark.parametrize("how", ["rename", "copy and truncate"])
def test_a_log_that_was_rotated_while_nobody_looked(
    tmp_path: Path, compressed: bool, by_folder: bool, how: str
) -> None:
    """Also several times: what was not yet read is in rotated files, and so are files that nobody has seen."""
    log, given = tmp_path / "a.csv", tmp_path if by_folder else tmp_path / "a.csv"
    write(log, 1, 2, 3)
    with open_source(given, SCHEMA, batch_rows=2) as source:
        first = next(source)
    assert first is not None
    append(log, 4)
    for number in (3, 5, 7):
        for old in (2, 1):
            for ending in ("", ".gz"):
                if (tmp_path / f"a.csv.{old}{ending}").exists():
                    os.rename(tmp_path / f"a.csv.{old}{ending}", tmp_path / f"a.csv.{old + 1}{ending}")
        if how == "rename":
            os.rename(log, tmp_path / "a.csv.1")
        else:
            shutil.copy(log, tmp_path / "a.csv.1")
        if compressed:
            compress(tmp_path / "a.csv.1")
        write(log, 10 * number, 10 * number + 1)
    found, position = read_all(given, first.position)
    assert found == [3, 4, 30, 31, 50, 51, 70, 71]
    append(log, 80)
    assert read_all(given, position)[0] == [80]


@pytest.mark.parametrize("by_folder", [False, True])
@pytest.mark.parametrize("how", ["rename", "copy and truncate"])
def test_a_followed_log_is_rotated(tmp_path: Path, how: str, by_folder: bool) -> None:
    """While it is being read: what was written last before the rotation is read, and then the new log."""
    log, found = tmp_path / "a.csv", list[int]()
    write(log, 0)
    given = tmp_path if by_folder else log
    with open_source(given, SCHEMA, follow=True, poll_seconds=POLL) as source:
        for turn in range(1, 40):
            batch = next(source)
            found += batch.table["n"].to_pylist() if batch is not None else []
            append(log, 10 * turn)
            if turn % 7 == 0:
                append(log, 10 * turn + 1)
                for old in (2, 1):
                    if (tmp_path / f"a.csv.{old}").exists():
                        os.replace(tmp_path / f"a.csv.{old}", tmp_path / f"a.csv.{old + 1}")
                if how == "rename":
                    os.rename(log, tmp_path / "a.csv.1")
                else:
                    shutil.copy(log, tmp_path / "a.csv.1")
                write(log, 10 * turn + 2)
        for _ in range(20):
            batch = next(source)
            found += batch.table["n"].to_pylist() if batch is not None else []
    expected = [0] + [n for t in range(1, 40) for n in ([10 * t, 10 * t + 1, 10 * t + 2] if t % 7 == 0 else [10 * t])]
    assert found == expected


@pytest.mark.parametrize("by_folder", [False, True])
@pytest.mark.parametrize("records", [5, 2_000])
def test_a_log_that_is_cut_and_longer_again_while_the_reader_waits_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int, by_folder: bool
) -> None:
    """The reader looked at the file before it waited, and what it then reads is longer than what it remembers."""
    log, found = tmp_path / "a.csv", list[int]()
    old, new = range(1_000_000 - records, 1_000_000), range(500_000, 500_000 + 2 * records)
    write(log, *old)

    def rotate(seconds: float) -> None:
        monkeypatch.setattr("headwater.secret.read.stream.time", time)
        append(log, 7)
        shutil.copy(log, tmp_path / "a.csv.1")
        write(log, *new)

    monkeypatch.setattr("headwater.secret.read.stream.time", SimpleNamespace(sleep=rotate))
    with open_source(tmp_path if by_folder else log, SCHEMA, follow=True, poll_seconds=POLL) as source:
        for _ in range(20):
            batch = next(source)
            found += batch.table["n"].to_pylist() if batch is not None else []
    assert found == [*old, 7, *new]


@pytest.mark.parametrize("by_folder", [False, True])
def test_a_log_that_was_rotated_empty_does_not_hold_up_the_next(tmp_path: Path, by_folder: bool) -> None:
    """The next log begins as the empty one does: with the header. It is no copy of it."""
    log, given = tmp_path / "a.csv", tmp_path if by_folder else tmp_path / "a.csv"
    write(log, 1, 2)
    _, position = read_all(given)
    for numbers in ([], [3, 4]):
        if (tmp_path / "a.csv.1").exists():
            os.rename(tmp_path / "a.csv.1", tmp_path / "a.csv.2")
        os.rename(log, tmp_path / "a.csv.1")
        write(log, *numbers)
    found = list[int]()
    with open_source(given, SCHEMA, position, follow=True, poll_seconds=POLL) as source:
        for _ in range(10):
            batch = next(source)
            found += batch.table["n"].to_pylist() if batch is not None else []
    assert found == [3, 4]


def shift(log: Path, *, compressed: bool = False) -> None:
    """Rotate by renaming: each older log gets the next number."""
    for number in range(8, 0, -1):
        for ending in ("", ".gz"):
            if (old := log.with_name(f"{log.name}.{number}{ending}")).exists():
                old.rename(log.with_name(f"{log.name}.{number + 1}{ending}"))
    log.rename(log.with_name(f"{log.name}.1"))
    if compressed:
        compress(log.with_name(f"{log.name}.1"))


@pytest.mark.parametrize("by_folder", [False, True])
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("name", ["a.csv.1", "a-20240101.csv"])
@pytest.mark.parametrize("first", [7, 8])
def test_a_log_that_begins_like_the_one_before_it_is_another_one(
    tmp_path: Path, name: str, first: int, compressed: bool, by_folder: bool
) -> None:
    """One record was read. What it was decides at most that the run is refused, and no number of records."""
    log, given = tmp_path / "a.csv", tmp_path if by_folder else tmp_path / "a.csv"
    write(log, 7)
    _, position = read_all(given)
    append(log, *range(1, 100))
    log.rename(tmp_path / name)
    if compressed:
        compress(tmp_path / name)
    write(log, first, *range(200, 249))
    if compressed and first == 7 and not by_folder:  # the inode is gone
        with pytest.raises(InputChangedError, match=r"both hold what was read of a\.csv.*elsewhere for one run"):
            read_all(given, position)
        log.rename(tmp_path / "away")
        found, position = read_all(given, position)
        (tmp_path / "away").rename(log)
        found += read_all(given, position)[0]
    else:
        found, _ = read_all(given, position)
    assert found == [*range(1, 100), first, *range(200, 249)]


@pytest.mark.parametrize("by_folder", [False, True])
@pytest.mark.parametrize("followed", [False, True])
@pytest.mark.parametrize("rotations", [1, 2])
def test_a_log_of_which_only_the_header_was_read_is_rotated(
    tmp_path: Path, rotations: int, followed: bool, by_folder: bool
) -> None:
    log, given = tmp_path / "a.csv", tmp_path if by_folder else tmp_path / "a.csv"
    write(log)
    with open_source(given, SCHEMA, follow=followed, poll_seconds=POLL) as source:
        assert next(source, None) is None
        position = source.pending
    expected = list[int]()
    for turn in range(rotations):
        append(log, *range(10 * turn, 10 * turn + 5))
        expected += range(10 * turn, 10 * turn + 5)
        shift(log)
        write(log)
    append(log, 100)
    assert read_all(given, position)[0] == [*expected, 100]


def test_a_log_of_which_only_the_header_was_read_and_that_is_gone_may_have_been_any(tmp_path: Path) -> None:
    """The rotated file may be it, or one from before the run: nothing says which, so it is not left out silently."""
    log = tmp_path / "a.csv"
    write(log)
    _, position = read_all(log)
    append(log, 1, 2)
    shift(log, compressed=True)
    write(log, 3)
    with pytest.raises(InputChangedError, match=r"a\.csv\.1\.gz: what was read of a\.csv is gone"):
        read_all(log, position)
    assert read_all([tmp_path / "a.csv.1.gz", log], position)[0] == [1, 2, 3]
    assert read_all(log, position, gone_is_done=True)[0] == [3]


def test_an_inode_that_went_to_a_new_log_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a log was compressed, its inode is free; the next log may get it, and begin alike."""
    log = tmp_path / "a.csv"
    write(log, 7)
    _, position = read_all(log)
    append(log, 8)
    shift(log, compressed=True)
    write(log, 7, 9)
    inode = (log.stat().st_dev, log.stat().st_ino)
    with pytest.raises(InputChangedError, match="both hold what was read"):
        read_all(log, {**position, "inode": list(inode)})  # type: ignore[dict-item]


def test_logs_from_before_the_run_are_left_out_whatever_they_hold(tmp_path: Path) -> None:
    """Also one that is equal to a log of this run, which is still there under its inode."""
    log = tmp_path / "a.csv"
    write(log, 7)
    shift(log)
    write(log, 8)
    _, position = read_all(log)
    shift(log)
    write(log, 9)
    found, position = read_all(log, position)
    shift(log)
    write(log, 10)
    assert found + read_all(log, position)[0] == [9, 10]


def test_numbers_of_rotated_logs_go_to_other_logs(tmp_path: Path) -> None:
    """A log that was read as number 1 has number 2 now, where nobody named it: what is number 1 now is new."""
    log, position, found = tmp_path / "a.csv", None, list[int]()
    for turn in range(6):
        write(log, 2 * turn)
        if turn % 2 == 0:
            some, position = read_all(log, position)
            found += some
        append(log, 2 * turn + 1)
        shift(log)
    write(log, 12)
    assert found + read_all(log, position)[0] == list(range(13))


@pytest.mark.parametrize("by_folder", [False, True])
def test_a_followed_log_is_rotated_twice_between_two_looks(tmp_path: Path, by_folder: bool) -> None:
    """Also an empty one, of which nothing but its inode is known."""
    log = tmp_path / "a.jsonl"
    given, found = tmp_path if by_folder else log, list[int]()
    log.write_text('{"n": 1}\n')
    with open_source(given, SCHEMA, follow=True, poll_seconds=POLL) as source:

        def look() -> None:
            for _ in range(12):
                batch = next(source)
                found.extend([] if batch is None else batch.table["n"].to_pylist())

        look()
        shift(log)
        log.write_text("")
        look()
        log.write_text('{"n": 2}\n')
        shift(log)
        log.write_text('{"n": 3}\n')
        shift(log)
        log.write_text('{"n": 4}\n')
        look()
    assert found == [1, 2, 3, 4]


@pytest.mark.parametrize("first", [7, 8])
@pytest.mark.parametrize("size", [1, 20])
def test_small_logs_that_are_equal_count_once_each(tmp_path: Path, size: int, first: int) -> None:
    """A followed folder: the older log gets the next number, the younger one is compressed under the old number."""
    log, old = tmp_path / "a.csv", tmp_path / "a.csv.1"
    write(old, first, *[7] * (size - 1))
    write(log, *[7] * size)
    found = list[int]()
    with open_source(tmp_path, SCHEMA, follow=True, poll_seconds=POLL) as source:
        for turn in range(2):
            for _ in range(10):
                batch = next(source)
                found += [] if batch is None else batch.table["n"].to_pylist()
            if not turn:
                shift(log, compressed=True)
                write(log)
    assert len(found) == 2 * size


def test_equal_files_in_different_folders_are_different_files(tmp_path: Path) -> None:
    paths = [tmp_path / name / "a.csv" for name in "xyz"]
    for path in paths:
        path.parent.mkdir()
        write(path, 1, 2)
    found, position = read_all(paths)
    assert found == [1, 2] * 3
    assert read_all(paths, position)[0] == []


def test_equal_files_of_other_names_are_different_files(tmp_path: Path) -> None:
    write(tmp_path / "a-1.csv", 1, 2)
    _, position = read_all(tmp_path)
    os.rename(tmp_path / "a-1.csv", tmp_path / "a-2.csv")
    assert read_all(tmp_path, position)[0] == [1, 2]


def test_positions_of_the_version_before_are_taken(tmp_path: Path) -> None:
    """They have marks of whole files, which must be there once more."""
    for number in range(3):
        write(tmp_path / f"{number}.csv", number, number)
    digests = [hashlib.sha256((tmp_path / f"{n}.csv").read_bytes()).hexdigest() for n in range(3)]
    marks = [hashlib.sha256(f"{n}.csv\n{digests[n]}".encode()).hexdigest()[:16] for n in range(2)]
    place = {"header": 2, "end": 4, "line": 3, "sha256": hashlib.sha256(b"n\n2\n").hexdigest()}
    old: Position = {"records": 5, "name": "2.csv", "finished": marks, "place": place}
    found, position = read_all(tmp_path, old)
    assert found == [2]
    (tmp_path / "0.csv").unlink()
    write(tmp_path / "3.csv", 3)
    assert read_all(tmp_path, position)[0] == [3]


def test_a_name_that_rotation_gives_again_and_again_holds_another_file_each_time(tmp_path: Path) -> None:
    """Also if one was read under that name, and is gone: what was read later lies under an older name by now."""
    log, names = tmp_path / "a.csv", [tmp_path / f"a.csv.{number}" for number in (1, 2)]

    def rotate() -> None:
        for old, new in zip([names[0], log], [names[1], names[0]], strict=True):
            if old.exists():
                os.replace(old, new)  # the oldest is gone

    write(log, *range(1000, 1100))
    _, position = read_all(log)
    for start in (2000, 3000):  # nobody looks in between
        rotate()
        write(log, *range(start, start + 100))
    with open_source(log, SCHEMA, position, batch_rows=50) as source:
        batches = [next(source) for _ in range(3)]
    assert [batch.table["n"][0].as_py() for batch in batches if batch] == [2000, 2050, 3000]
    assert batches[-1] is not None
    position = batches[-1].position
    for start in (4000, 5000):
        rotate()
        write(log, *range(start, start + 100))
    found, position = read_all(log, position)
    assert found == [*range(3050, 3100), *range(4000, 4100), *range(5000, 5100)]
    append(names[0], 7)  # but one that is changed under its name is no other file
    with pytest.raises(InputChangedError, match=r"a\.csv\.1"):
        read_all([names[0], log], position)
