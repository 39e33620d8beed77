"""A file that was read is refused under any other name: no record counts twice without a word."""

import bz2
import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headwater as hw
from headwater import Integer, Schema
from headwater.secret.read.options import InputChangedError
from headwater.secret.read.source import open_source
from tests.table.test_rotation import read_all, write

MANY = tuple(range(5000))  # longer than what of beginning and end is compared


def compressed(pack: Callable[[bytes], bytes]) -> Callable[[Path, Path], object]:
    return lambda old, new: new.write_bytes(pack(old.read_bytes()))


COPIES: dict[str, tuple[str, Callable[[Path, Path], object]]] = {
    "copied": ("renamed.csv", shutil.copy),
    "renamed": ("renamed.csv", shutil.move),
    "gzip": ("renamed.csv.gz", compressed(gzip.compress)),
    "bzip2": ("renamed.csv.bz2", compressed(bz2.compress)),
}


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_under_another_name_is_refused_before_it_counts(tmp_path: Path, how: str) -> None:
    first, second = tmp_path / "orders.csv", tmp_path / "orders2.csv"
    write(first, *MANY)
    write(second, *range(9000, 9100))
    _, position = read_all(first)
    _, position = read_all(second, position)
    name, make = COPIES[how]
    make(first, tmp_path / name)
    with pytest.raises(InputChangedError, match=rf"{name}: .*read as orders\.csv.*leave it out.*--same-again"):
        read_all(tmp_path / name, position)
    found, _ = read_all(tmp_path / name, position, same_again=True)
    assert found == list(MANY)


def test_the_file_that_was_read_last_is_known_as_well(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", *MANY)
    _, position = read_all(tmp_path / "a.csv")
    (tmp_path / "a.csv").rename(tmp_path / "b.csv")
    with pytest.raises(InputChangedError, match=r"b\.csv: .*read as a\.csv"):
        read_all(tmp_path / "b.csv", position)


def test_a_file_of_a_folder_that_gets_another_name(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", *range(100))
    write(tmp_path / "b.csv", *range(100, 300))
    _, position = read_all(tmp_path)
    (tmp_path / "b.csv").rename(tmp_path / "c.csv")
    write(tmp_path / "d.csv", *range(300, 400))
    with pytest.raises(InputChangedError, match=r"c\.csv: .*read as b\.csv"):
        read_all(tmp_path, position)
    (tmp_path / "c.csv").unlink()
    assert read_all(tmp_path, position)[0] == list(range(300, 400))


def test_the_same_file_twice_in_one_command(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", *MANY)
    shutil.copy(tmp_path / "a.csv", tmp_path / "b.csv")
    with pytest.raises(InputChangedError, match=r"b\.csv: .*read as a\.csv"):
        read_all([tmp_path / "a.csv", tmp_path / "b.csv"])


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet", "csv.gz", "latin-1"])
def test_of_every_format(tmp_path: Path, ending: str) -> None:
    a, b = (tmp_path / f"{name}.{ending if ending != 'latin-1' else 'csv'}" for name in "ab")
    rows = [{"n": n, "é": n} for n in range(2000)]
    text = "n,é\n" + "".join(f"{row['n']},{row['é']}\n" for row in rows)
    match ending:
        case "jsonl":
            a.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case "json":
            a.write_text(json.dumps(rows))
        case "parquet":
            pq.write_table(pa.Table.from_pylist(rows), a)
        case "csv.gz":
            a.write_bytes(gzip.compress(text.encode()))
        case _:
            a.write_bytes(text.encode("latin-1"))
    shutil.copy(a, b)
    options: dict[str, Any] = {"encoding": "latin-1"} if ending == "latin-1" else {}
    schema = Schema({"n": Integer(0, 10**6), "é": Integer(0, 10**6)})
    with open_source([a, b], schema, **options) as source, pytest.raises(InputChangedError, match=r"read as a\."):
        list(source)


@pytest.mark.parametrize("text", ["n\n1\n2\n", "n" * 100 + "\n"])
def test_small_files_and_files_without_records_may_be_equal(tmp_path: Path, text: str) -> None:
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text(text)
    schema = Schema({text.partition("\n")[0]: Integer(0, 10)})
    rows = sum(table.num_rows for table in hw.read([tmp_path / "a.csv", tmp_path / "b.csv"], schema))
    assert rows == 2 * (text.count("\n") - 1)


def test_other_records_of_the_same_length_count(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", *range(10000, 15000))
    write(tmp_path / "b.csv", *range(20000, 25000))
    assert len(read_all([tmp_path / "a.csv", tmp_path / "b.csv"])[0]) == 10000


def test_what_is_compared_may_hold_a_file_twice(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", *MANY)
    shutil.copy(tmp_path / "a.csv", tmp_path / "b.csv")
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    assert hw.evaluate(paths, paths, Schema(n=Integer(0, 10**6))).rows == (10000, 10000)


def test_a_compressed_copy_beside_the_file_is_the_same_file(tmp_path: Path) -> None:
    """As it is for a moment when a log is being compressed, and with ``gzip --keep``."""
    write(tmp_path / "a.csv", *MANY)
    _, position = read_all(tmp_path)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    write(tmp_path / "b.csv", 1, 2, 3)
    assert read_all(tmp_path, position)[0] == [1, 2, 3]
    assert read_all(tmp_path)[0] == [*MANY, 1, 2, 3]
