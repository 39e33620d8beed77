"""Files that are renamed, cut, copied, compressed and deleted under a run: what is counted is exact, or it is refused.

Rotations are simulated step by step, as programs do them, while a run reads and while it is stopped, also halfway.
``HEADWATER_NIGHTLY=1`` tries thousands of them.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headwater.public.errors import TableError
from headwater.public.numbers import Integer
from headwater.public.schema import Schema
from headwater.secret.read.batch import Position
from headwater.secret.read.lines import InputChangedError
from headwater.secret.read.source import open_source
from tests.support.nightly import NIGHTLY
from tests.support.reading import batches_of

SCHEMA = Schema(n=Integer(0, 10**6))
ROUNDS = 250 if NIGHTLY else 6

NAMES: dict[str, Callable[[int, int], str]] = {  # of the log that was rotated as number ``age`` from the newest, of all
    "behind, newest first": lambda age, count: f"log.csv.{age + 1}",
    "before, newest first": lambda age, count: f"log.{age + 1}.csv",
    "behind, newest last": lambda age, count: f"log.csv.{count - age}",
    "before, newest last": lambda age, count: f"log-{count - age}.csv",
    "behind, dated": lambda age, count: f"log.csv-202601{count - age:02}",
    "before, dated": lambda age, count: f"log-202601{count - age:02}.csv",
}
Step = Callable[[], object]


class Log:
    """A log and the files that became of it: each record is a number of its own."""

    def __init__(self, folder: Path, rng: random.Random, names: str, how: str) -> None:
        self.folder, self.rng, self.how = folder, rng, how
        self.path, self._name = folder / "log.csv", NAMES[names]
        self.written = list[int]()  # into what is to be read
        self._old = list[Path]()  # newest first
        self._rotated, self._next = 0, 0
        self._keep, self._compress = rng.choice([1, 3, 9]), rng.random() < 0.3
        self.append(1 + rng.randrange(3))

    def append(self, records: int) -> None:
        numbers = range(self._next, self._next + records)
        self._next += records
        text = "".join(f"{number:06}\n" for number in numbers)
        with open(self.path, "a") as file:
            file.write(text if file.tell() else "n\n" + text)
        self.written += numbers

    def rotation(self) -> Iterator[Step]:
        """The steps of one rotation."""
        self._rotated += 1
        count = self._rotated
        moves = [
            (old, self.folder / (self._name(age + 1, count) + (".gz" if old.suffix == ".gz" else "")))
            for age, old in enumerate(self._old)
        ]
        yield from (partial(old.unlink, missing_ok=True) for old, _ in moves[self._keep - 1 :])
        for old, new in reversed(moves[: self._keep - 1]):
            if old != new:
                yield partial(old.rename, new)
        newest = self.folder / self._name(0, count)
        self._old = [newest, *(new for _, new in moves[: self._keep - 1])]
        if self.how == "copied":
            yield lambda: shutil.copy(self.path, newest)
            if self.rng.random() < 0.3:
                yield lambda: self.append(1)  # which is lost, as copies lose it: so it is refused
            yield lambda: self.path.write_text("n\n" if self.rng.random() < 0.5 else "")
        else:
            yield lambda: self.path.rename(newest)
            if self.how == "created":
                yield lambda: self.path.write_text("" if self.rng.random() < 0.5 else "n\n")
        if self._compress:
            self._old[0] = newest.with_name(f"{newest.name}.gz")
            yield lambda: self._old[0].write_bytes(gzip.compress(newest.read_bytes()))
            yield newest.unlink


class Reading:
    """A run that is stopped and continued, and what it has counted."""

    def __init__(self, path: Path, *, follow: bool) -> None:
        self.path, self.follow = path, follow
        self.counted, self.position = list[int](), None
        self._source: Any = None

    def go(self) -> None:
        """Read until nothing more comes."""
        if self._source is None:
            options: dict[str, Any] = {"follow": self.follow, "poll_seconds": 0.0005, "batch_rows": 2}
            self._source = open_source(self.path, SCHEMA, self.position, **options)
        nothing = 0
        while nothing < 3:
            batch = next(self._source, None)
            nothing = nothing + 1 if batch is None else 0
            if batch is not None:
                self.counted += [int(text) for text in batch.table["n"].to_pylist()]
                self.position = batch.position
            self.position = json.loads(json.dumps(self._source.pending or self.position))
        if not self.follow:
            self.stop()

    def stop(self) -> None:
        if self._source is not None:
            self._source.close()
        self._source = None


@pytest.mark.parametrize("reads", ["file", "folder"])
@pytest.mark.parametrize("how", ["created", "nocreate", "copied"])
@pytest.mark.parametrize("names", NAMES)
def test_rotated_logs_are_counted_exactly_or_refused(names: str, how: str, reads: str, tmp_path: Path) -> None:
    refused = 0
    for seed in range(ROUNDS):
        rng, folder = random.Random(f"{names} {how} {reads} {seed}"), tmp_path / str(seed)  # noqa: S311
        folder.mkdir()
        log = Log(folder, rng, names, how)
        for _ in range(rng.randrange(4)):  # rotated before anybody reads
            for step in log.rotation():
                step()
            log.append(1 + rng.randrange(3))
        there = {int(n) for n in log.path.read_text().split()[1:]}
        before = set(log.written) - there if reads == "file" else _gone(folder, log)
        run = Reading(log.path if reads == "file" else folder, follow=rng.random() < 0.5)
        try:
            run.go()
            for _ in range(rng.randrange(3)):
                log.append(rng.randrange(3))
                run.go()
            assert sorted(run.counted) == sorted(set(log.written) - before)
            down = rng.random() < 0.5
            if down:
                run.stop()
            for number in range(rng.choice([1, 1, 2, 3])):
                log.append(rng.randrange(3))
                steps = [*log.rotation()]
                half = rng.randrange(len(steps) + 1)
                for step in steps[:half]:
                    step()
                if not down or (number == 0 and rng.random() < 0.3):
                    run.go()
                for step in steps[half:]:
                    step()
                if how != "nocreate" or rng.random() < 0.5:
                    log.append(rng.randrange(4))
            run.go()
            run.stop()
            run.go()
        except (InputChangedError, TableError):
            refused += 1
            assert len(run.counted) == len(set(run.counted))
            assert set(run.counted) <= set(log.written) - before
        else:
            assert sorted(run.counted) == sorted(set(log.written) - before)
        finally:
            run.stop()
    assert refused


def _gone(folder: Path, log: Log) -> set[int]:
    """The records that are in no file any more."""
    kept = set[int]()
    for path in folder.iterdir():
        data = path.read_bytes()
        kept |= {int(n) for n in (gzip.decompress(data) if path.suffix == ".gz" else data).split()[1:]}
    return set(log.written) - kept


@pytest.mark.parametrize("follow", [False, True])
def test_files_with_dated_names_are_counted_exactly_whatever_becomes_of_finished_ones(
    follow: bool, tmp_path: Path
) -> None:
    """They may be compressed and deleted, also while the run is stopped, and none of it is refused."""
    for seed in range(10 * ROUNDS):
        rng, folder = random.Random(seed), tmp_path / str(seed)  # noqa: S311 - nothing is protected
        folder.mkdir()
        written, run = list[int](), Reading(folder, follow=follow)
        (folder / "log-202601000.csv").write_text("n\n0\n")
        written.append(0)
        for day in range(1, 5):
            run.go()
            read = sorted(folder.glob("*.csv"))[:-1]
            for path in [path for path in read if rng.random() < 0.5]:
                if rng.random() < 0.5:
                    (folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
                    if rng.random() < 0.5:
                        run.go()
                path.unlink()
            name = f"log-202601{day:03}.csv" if rng.random() < 0.8 else sorted(folder.glob("*.csv"))[-1].name
            with open(folder / name, "a") as file:
                numbers = [len(written) + i for i in range(rng.randrange(1, 4))]
                file.write(("" if file.tell() else "n\n") + "".join(f"{number}\n" for number in numbers))
            written += numbers
            if rng.random() < 0.5:
                run.stop()
        run.go()
        run.stop()
        assert sorted(run.counted) == written


def begun(path: Path, **options: Any) -> Position:  # noqa: ANN401 - fields of Options
    with open_source(path, SCHEMA, **options) as source:
        for _ in source:
            pass
        assert source.pending
        return dict(source.pending)


def write(path: Path, *numbers: int) -> None:
    path.write_text("n\n" + "".join(f"{number}\n" for number in numbers))


@pytest.mark.parametrize(
    "name", ["log.csv.1", "log.1.csv", "log-20260111.csv", "log.csv.2026-01-11.gz", "log2.csv", "log.csv.old", "log.1"]
)
@pytest.mark.parametrize("reads", ["file", "folder"])
def test_what_may_be_the_log_under_another_name_is_refused_with_the_ways_out(
    tmp_path: Path, name: str, reads: str
) -> None:
    write(tmp_path / "log.csv", 1, 2)
    given = tmp_path / "log.csv" if reads == "file" else tmp_path
    position = begun(given, format="csv")
    write(tmp_path / name, 3)
    with pytest.raises(InputChangedError) as caught:
        open_source(given, SCHEMA, position, format="csv")
    assert name in str(caught.value)
    for way in ("tail -F", "headwater run -", "dated names", "Vector", "Fluent Bit", "Kafka"):
        assert way in str(caught.value)


def test_what_lay_beside_a_log_before_and_what_has_another_name_is_not_refused(tmp_path: Path) -> None:
    write(tmp_path / "log.csv", 1, 2)
    write(tmp_path / "log.csv.1", 0)
    position = begun(tmp_path / "log.csv")
    for name in ("logs.csv", "blog.csv", "log.state", "log.toml", ".log.csv.swp", "log.csv.tmp"):
        write(tmp_path / name, 9)
    (tmp_path / "log-releases.csv").mkdir()
    write(tmp_path / "log.csv", 1, 2, 3)
    assert [batch.table["n"].to_pylist() for batch in batches_of(tmp_path / "log.csv", SCHEMA, position)] == [["3"]]


@pytest.mark.parametrize(
    ("name", "numbers", "match"),
    [
        ("1.csv", (1, 2, 3), "1.csv.*was read to its end, and holds other records"),
        ("1.csv", (1,), "1.csv.*was read to its end, and holds other records"),
        ("1.csv.gz", (1, 2, 3), r"1\.csv\.gz.*has the name of a file that was read to its end"),
        ("2.csv", (3,), r"2\.csv.*became shorter"),
        ("2.csv", (5, 6, 7), r"2\.csv.*changed"),
    ],
)
def test_other_records_under_a_name_that_was_read_are_refused(
    tmp_path: Path, name: str, numbers: tuple[int, ...], match: str
) -> None:
    write(tmp_path / "1.csv", 1, 2)
    write(tmp_path / "2.csv", 3, 4)
    position = begun(tmp_path)
    write(tmp_path / name.removesuffix(".gz"), *numbers)
    if name.endswith(".gz"):
        plain = tmp_path / name.removesuffix(".gz")
        (tmp_path / name).write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    with pytest.raises(InputChangedError, match=match):
        list(open_source(tmp_path, SCHEMA, position))


@pytest.mark.parametrize("compressed", [False, True])
def test_a_file_that_is_gone_while_it_is_read_is_refused_unless_it_was_compressed(
    tmp_path: Path, compressed: bool
) -> None:
    write(tmp_path / "1.csv", 1, 2, 3)
    position = batches_of(tmp_path, SCHEMA, batch_rows=1)[0].position
    if compressed:
        (tmp_path / "1.csv.gz").write_bytes(gzip.compress((tmp_path / "1.csv").read_bytes()))
    (tmp_path / "1.csv").unlink()
    write(tmp_path / "2.csv", 4)
    if compressed:
        rest = batches_of(tmp_path, SCHEMA, position)
        assert [n for batch in rest for n in batch.table["n"].to_pylist()] == ["2", "3", "4"]
    else:
        with pytest.raises(InputChangedError, match=r"1\.csv is gone, which was being read; put it back"):
            open_source(tmp_path, SCHEMA, position)


def test_half_of_a_compressed_file_is_waited_for_and_then_known(tmp_path: Path) -> None:
    numbers = random.Random(1).sample(range(10**6), 2000)  # noqa: S311 - nothing is protected
    write(tmp_path / "1.csv", *numbers)
    write(tmp_path / "2.csv", 4)
    run = Reading(tmp_path, follow=True)
    run.go()
    data = gzip.compress((tmp_path / "1.csv").read_bytes())
    (tmp_path / "1.csv.gz").write_bytes(data[: len(data) // 2])
    run.go()
    (tmp_path / "1.csv.gz").write_bytes(data)
    run.go()
    (tmp_path / "1.csv").unlink()
    run.go()
    run.stop()
    assert run.counted == [*numbers, 4]
    (tmp_path / "1.csv.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(TableError, match=r"1\.csv\.gz"):
        open_source(tmp_path, SCHEMA, run.position)


def test_files_of_one_name_in_several_folders_are_several_files(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "abc"]
    for number, folder in enumerate(folders):
        folder.mkdir()
        write(folder / "in.csv", number, number)
    batches = batches_of(folders, SCHEMA, batch_rows=1)
    assert [batch.table["n"].to_pylist() for batch in batches] == [["0"], ["0"], ["1"], ["1"], ["2"], ["2"]]
    for taken, batch in enumerate(batches, 1):
        assert len(batches_of(folders, SCHEMA, batch.position, batch_rows=1)) == 6 - taken


def test_a_link_to_a_file_of_the_folder_is_no_other_file(tmp_path: Path) -> None:
    write(tmp_path / "2026.csv", 1)
    (tmp_path / "current.csv").symlink_to("2026.csv")
    assert sum(batch.records for batch in batches_of(tmp_path, SCHEMA)) == 1
