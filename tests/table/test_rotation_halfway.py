"""A followed folder, looked at in the middle of a rotation: every record counts once, or the run is refused."""

import gzip
import os
from itertools import islice
from pathlib import Path

import pytest

from headwater import Integer, Schema, TableError
from headwater.secret.read.batch import Batch
from headwater.secret.read.options import InputChangedError
from headwater.secret.read.source import Source, open_source

SCHEMA = Schema(n=Integer(0, 10**6))
POLL = 0.01
FEW, MANY = range(3), range(2000)


def followed(path: Path, position: object = None) -> Source:
    return open_source(path, SCHEMA, position, follow=True, poll_seconds=POLL)  # type: ignore[arg-type]


def text(numbers: range | list[int]) -> str:
    return "n\n" + "".join(f"{n}\n" for n in numbers)


def until_idle(source: Source, times: int = 4) -> list[int]:
    """All numbers that come until nothing was found so many times in a row."""
    found, idle = list[int](), 0
    while idle < times:
        batch = next(source)
        idle = idle + 1 if batch is None else 0
        found += [] if batch is None else batch.table["n"].to_pylist()
    return found


@pytest.mark.parametrize("records", [1, 500, 1500])
def test_a_log_that_is_cut_in_the_pause_between_two_looks_is_read_from_its_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    """The new log is longer than the old one, so more comes at once than what is compared before the next look."""
    log, copy, later = tmp_path / "a.csv", tmp_path / "a.csv.1", range(500_000, 500_000 + records)
    log.write_text(text(range(100_000, 100_500)))

    def sleep(seconds: float) -> None:
        if not copy.exists() and len(found) == 500:
            copy.write_bytes(log.read_bytes())
            log.write_text(text(later))

    monkeypatch.setattr("headwater.secret.read.stream.time.sleep", sleep)
    found = list[int]()
    with followed(log) as source:
        for _ in range(60):
            batch = next(source)
            found += [] if batch is None else batch.table["n"].to_pylist()
    assert copy.exists()
    assert found == [*range(100_000, 100_500), *later]


@pytest.mark.parametrize("part", [0.0, 0.001, 0.5, 1.0])
def test_a_copy_that_is_being_made_of_the_log_is_no_other_file(tmp_path: Path, part: float) -> None:
    """Copy and truncate: the copy of a large log takes a while, and is seen before it is complete."""
    log, copy = tmp_path / "a.csv", tmp_path / "a.csv.1"
    log.write_text(text(MANY))
    with followed(tmp_path) as source:
        assert until_idle(source) == list(MANY)
        copy.write_text(text(MANY)[: int(part * len(text(MANY)))])
        assert until_idle(source) == []
        copy.write_text(text(MANY))
        log.write_text(text([7]))
        assert until_idle(source) == [7]


def test_a_compressed_file_that_is_being_made_of_a_log_is_no_other_file(tmp_path: Path) -> None:
    log, old, new = (tmp_path / name for name in ("a.csv", "a.csv.1", "a.csv.1.gz"))
    log.write_text(text(MANY))
    with followed(tmp_path) as source:
        assert until_idle(source) == list(MANY)
        os.rename(log, old)
        log.write_text(text([7]))
        assert until_idle(source) == [7]
        data = gzip.compress(old.read_bytes())
        for size in (0, 5, len(data) // 2, len(data) - 1, len(data)):
            new.write_bytes(data[:size])
            assert until_idle(source) == [], size
        old.unlink()
        with open(log, "a") as file:
            file.write("8\n")
        assert until_idle(source) == [8]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("lines", [0, 1, 3, 1000])
def test_a_file_that_is_compressed_in_whole_pieces_is_no_other_file_halfway(
    tmp_path: Path, lines: int, again: bool
) -> None:
    """Compression on many processors writes pieces that are whole by themselves: half of the file is no cut one."""
    old, new = tmp_path / "a.csv.1", tmp_path / "a.csv.1.gz"
    old.write_text(text(MANY))
    (tmp_path / "a.csv").write_text(text([7]))
    half = "".join(text(MANY).splitlines(keepends=True)[:lines]).encode()
    with followed(tmp_path) as source:
        batches = [batch for batch in (next(source) for _ in range(12)) if batch is not None]
        assert sum(batch.records for batch in batches) == len(MANY) + 1
        new.write_bytes(gzip.compress(half))
        if not again:
            assert until_idle(source) == []
            new.write_bytes(gzip.compress(half) + gzip.compress(text(MANY).encode()[len(half) :]))
            assert until_idle(source) == []
            old.unlink()
            assert until_idle(source) == []
            return
    with open_source(tmp_path, SCHEMA, batches[-1].position) as source:
        assert [batch for batch in source if batch is not None] == []


def test_a_log_that_is_compressed_away_while_it_is_followed_counts_once(tmp_path: Path) -> None:
    """What is compressed is seen before it is complete: it is refused before any record of it counts twice."""
    log, numbers = tmp_path / "a.csv", range(900_000)
    log.write_text(text(numbers))
    data = gzip.compress(log.read_bytes(), 1)
    with followed(tmp_path) as source:
        assert until_idle(source) == list(numbers)
        (tmp_path / "a.csv.1.gz").write_bytes(data[: len(data) * 3 // 4])
        taken = list[Batch]()
        with pytest.raises(TableError, match="cut short"):
            taken.extend(batch for batch in islice(source, 50) if batch is not None)
        assert not taken


@pytest.mark.parametrize(("numbers", "again"), [(FEW, False), (MANY, False), (MANY, True)])
def test_a_log_that_is_written_to_after_it_was_renamed_and_read_is_refused(
    tmp_path: Path, numbers: range, again: bool
) -> None:
    """Nothing says where its new records begin: read as a new file, all others would count twice."""
    log, old = tmp_path / "a.csv", tmp_path / "a.csv.1"
    log.write_text(text(numbers))
    with followed(tmp_path) as source:
        assert until_idle(source) == list(numbers)
        os.rename(log, old)
        assert until_idle(source) == []
        position = source.pending
        with open(old, "a") as file:
            file.write("8\n9\n")
        if not again:
            with pytest.raises(InputChangedError, match=r"begins with what was read to its end as a\.csv"):
                until_idle(source)
            return
    with pytest.raises(InputChangedError, match="begins with what was read"):
        followed(tmp_path, position)


@pytest.mark.parametrize("by_folder", [False, True])
@pytest.mark.parametrize("half", ["", "99"])
def test_lines_that_are_written_to_a_log_after_the_next_one_has_begun_are_not_lost_silently(
    tmp_path: Path, half: str, by_folder: bool
) -> None:
    """As by a writer that is told to open the new log only later; also the rest of a line."""
    log, old = tmp_path / "a.csv", tmp_path / "a.csv.1"
    given = tmp_path if by_folder else log
    log.write_text(text(FEW) + half)
    with followed(given) as source:
        assert until_idle(source) == list(FEW)
        os.rename(log, old)
        log.write_text(text([7]))
        assert until_idle(source) == [*([99] if half else []), 7]
        with open(old, "a") as file:
            file.write("8\n9\n")
        with pytest.raises(InputChangedError, match=r"read to its end as a\.csv: more was written .*cut off the rec"):
            until_idle(source)


@pytest.mark.parametrize("by_folder", [False, True])
def test_lines_that_came_late_are_refused_until_they_are_dealt_with(tmp_path: Path, by_folder: bool) -> None:
    log, old = tmp_path / "a.csv", tmp_path / "a.csv.1"
    given = tmp_path if by_folder else log
    log.write_text(text(FEW))
    with followed(given) as source:
        until_idle(source)
        os.rename(log, old)
        log.write_text(text([7]))
        batch = None
        while batch is None:
            batch = next(source)
    with open(old, "a") as file:
        file.write("8\n9\n")
    with pytest.raises(InputChangedError, match=r"a\.csv\.1: .*read to its end as a\.csv"):
        followed(given, batch.position)
    old.write_text(text([8, 9]))
    with open_source([old, log], SCHEMA, batch.position) as source:
        assert [n for one in source if one for n in one.table["n"].to_pylist()] == [8, 9]
    old.unlink()
    with followed(given, batch.position) as source:
        assert until_idle(source) == []


def test_a_log_that_is_written_to_a_little_later_is_read_on(tmp_path: Path) -> None:
    """For one more poll: the next log is there already, and the writer has not gone over to it."""
    log, old = tmp_path / "a.csv", tmp_path / "a.csv.1"
    log.write_text(text(FEW) + "9")
    with followed(tmp_path) as source:
        assert until_idle(source) == list(FEW)
        os.rename(log, old)
        log.write_text(text([7]))
        assert next(source) is None
        with open(old, "a") as file:
            file.write("8\n")
        assert until_idle(source) == [98, 7]


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_logs_that_hold_the_same_count_once_each(tmp_path: Path, kept: int) -> None:
    """Logs of a quiet day are equal; each is known by its inode when it gets another name."""
    log = tmp_path / "a.csv"
    log.write_text(text([1, 2]))
    with followed(tmp_path) as source:
        found = until_idle(source)
        for _ in range(5):
            for number in range(kept, 0, -1):
                older = tmp_path / f"a.csv.{number - 1}" if number > 1 else log
                if older.exists():
                    os.replace(older, tmp_path / f"a.csv.{number}")
            log.write_text(text([1, 2]))
            found += until_idle(source)
    assert found == [1, 2] * 6


def test_a_log_that_begins_like_an_older_one_that_is_still_there_counts(tmp_path: Path) -> None:
    """Where records are alike, a log begins with all of a shorter one; as that lies there as it was, this is new."""
    (tmp_path / "a.csv.20240101").write_text(text([0] * 100))
    (tmp_path / "a.csv.20240102").write_text(text([0] * 150))
    (tmp_path / "a.csv").write_text(text([0] * 200))
    with followed(tmp_path) as source:
        assert until_idle(source) == [0] * 450
        os.rename(tmp_path / "a.csv", tmp_path / "a.csv.20240103")
        (tmp_path / "a.csv").write_text(text([0] * 250))
        assert until_idle(source) == [0] * 250


@pytest.mark.parametrize("rotation", ["renamed", "copied and cut", "compressed", "read again"])
def test_half_of_a_copy_that_stays_is_refused_when_its_log_is_done(tmp_path: Path, rotation: str) -> None:
    """Whatever copied the log was killed. While the log is read, the half is no file; afterwards it looks like one."""
    log, last, half = (tmp_path / name for name in ("a.csv", "a.csv.1", "a.csv.2"))
    log.write_text(text(MANY))
    with followed(tmp_path) as source:
        assert until_idle(source) == list(MANY)
        half.write_text(text(MANY)[:5000])
        assert until_idle(source) == []
        if rotation == "copied and cut":
            last.write_text(text(MANY))
        else:
            os.rename(log, last)
        log.write_text(text([7]))
        if rotation == "compressed":
            (tmp_path / "a.csv.1.gz").write_bytes(gzip.compress(last.read_bytes()))
            last.unlink()
        with pytest.raises(InputChangedError, match=r"holds the beginning of .*half of a copy"):
            until_idle(source)
        position = source.pending
    if rotation == "read again":
        with followed(tmp_path, position) as source, pytest.raises(InputChangedError, match="half of a copy"):
            until_idle(source)
    half.unlink()
    with followed(tmp_path, position) as source:
        assert until_idle(source) == [7]


def test_a_log_that_is_the_beginning_of_an_older_one_counts(tmp_path: Path) -> None:
    (tmp_path / "a.csv.20240101").write_text(text([0] * 150))
    (tmp_path / "a.csv.20240102").write_text(text([0] * 100))
    (tmp_path / "a.csv").write_text(text([0] * 50))
    with followed(tmp_path) as source:
        assert until_idle(source) == [0] * 300


@pytest.mark.parametrize("read", [0, 3])
def test_a_log_of_which_nothing_was_read_is_copied_and_cut_in_a_folder(tmp_path: Path, read: int) -> None:
    """With nothing read every older file begins with what was read, and was taken for a copy of the empty log."""
    log = tmp_path / "a.csv"
    log.write_text(text(range(read)))
    with followed(tmp_path) as source:
        found = until_idle(source)
        with log.open("a") as file:
            file.write("100\n101\n")
        (tmp_path / "a.csv.1").write_bytes(log.read_bytes())
        log.write_text("n\n")
        found += until_idle(source)
        with log.open("a") as file:
            file.write("500\n")
        found += until_idle(source)
    assert found == [*range(read), 100, 101, 500]


@pytest.mark.parametrize("compressed", [True, False])
def test_a_log_after_an_empty_one_that_was_compressed_is_not_left_out_silently(
    tmp_path: Path, compressed: bool
) -> None:
    """It was written and rotated between two looks, and nothing that was read says where it comes."""
    log = tmp_path / "a.csv"

    def rotate(number: int, compressed: bool) -> None:
        packed = gzip.compress(log.read_bytes()) if compressed else log.read_bytes()
        (tmp_path / f"a.csv.{number}{'.gz' if compressed else ''}").write_bytes(packed)
        log.unlink()
        log.write_text("n\n")

    log.write_text("n\n")
    with followed(log) as source:
        assert until_idle(source) == []
        rotate(2, compressed=True)
        assert until_idle(source) == []
        log.write_text(text(range(92)))
        rotate(1, compressed)
        log.write_text(text([1000]))
        with pytest.raises(InputChangedError, match=r"a\.csv\.1(\.gz)?: what was read of a\.csv is gone"):
            until_idle(source)
