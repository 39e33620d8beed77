"""Going on from a position gives exactly the records that one go would have given, or an error if the input changed."""

import csv
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater import Category, Integer, Schema, TableError
from headwater.secret.read.batch import Batch
from headwater.secret.read.lines import InputChangedError
from headwater.secret.read.source import open_source
from tests.support.reading import batches_of, values, write

TEXTS = ["plain", "a,b", 'say "so"', "two\nlines", "two\r\nlines", "é€", "", " ", '"', "\n"]
SCHEMA = Schema(text=Category(*TEXTS), number=Integer(0, 9999))
LINES = Schema(n=Integer(0, 10**6))
KINDS = ["csv", "csv.gz", "jsonl", "parquet", "arrow", "arrows"]


def numbers_of(batches: list[Batch]) -> list[int]:
    return [row["n"] for batch in batches for row in values(batch.table, LINES)]


def through_json(batch: Batch) -> Any:  # noqa: ANN401 - a position
    return json.loads(json.dumps(batch.position))


def write_numbers(path: Path, count: int, first: int = 0) -> None:
    write(path, [{"n": n} for n in range(first, first + count)])


@st.composite
def csv_files(draw: st.DrawFn) -> tuple[list[dict[str, Any]], bytes]:
    """Records, and a CSV text of them as some program might write it."""
    texts = draw(st.lists(st.sampled_from(TEXTS), max_size=25))
    rows = [{"text": text, "number": number} for number, text in enumerate(texts)]
    end = draw(st.sampled_from(["\n", "\r\n"]))
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator=end, quoting=csv.QUOTE_ALL if draw(st.booleans()) else csv.QUOTE_NONNUMERIC)
    writer.writerow(["text", "number"])
    for row in rows:
        writer.writerow(row.values())
    text = out.getvalue()
    if draw(st.booleans()):
        text = text.removesuffix(end)
    return rows, draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()


@settings(max_examples=150)
@given(csv_files(), st.integers(1, 60), st.integers(1, 4))
def test_every_cut_of_a_csv_file_gives_the_same_records(
    made: tuple[list[dict[str, Any]], bytes], block_bytes: int, batch_rows: int
) -> None:
    """Whatever the block size: all batches together are the file, and so are those before and after any boundary."""
    rows, data = made
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_bytes(data)
        options: dict[str, Any] = {"block_bytes": block_bytes, "batch_rows": batch_rows, "multiline": True}
        batches = batches_of(path, SCHEMA, **options)
        assert [row for batch in batches for row in values(batch.table, SCHEMA)] == rows
        assert [batch.table.num_rows for batch in batches[:-1]] == [batch_rows] * (len(batches) - 1)
        taken = 0
        for batch in batches:
            taken += batch.table.num_rows
            position = through_json(batch)
            assert position["records"] == taken
            rest = batches_of(path, SCHEMA, position, **options)
            assert [row for batch in rest for row in values(batch.table, SCHEMA)] == rows[taken:]


@pytest.mark.parametrize("batch_rows", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_every_format_goes_on_behind_every_batch_and_over_the_borders_of_files(
    tmp_path: Path, kind: str, batch_rows: int
) -> None:
    paths, taken = [tmp_path / str(number) / f"a.{kind}" for number in range(3)], 0
    for number, path in enumerate(paths):
        path.parent.mkdir()
        write_numbers(path, 10 + number, 100 * number)
    whole = [*range(10), *range(100, 111), *range(200, 212)]
    for batch in batches_of(paths, LINES, block_bytes=23, batch_rows=batch_rows):
        taken += batch.records
        rest = batches_of(paths, LINES, through_json(batch), block_bytes=23, batch_rows=4)
        assert numbers_of(rest) == whole[taken:]
    assert taken == len(whole)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_changed_where_it_was_read_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    for count, first in ((8, 0), (30, 1)):
        write_numbers(path, 30)
        position = batches_of(path, LINES, batch_rows=5)[2].position
        write_numbers(path, count, first)
        with pytest.raises(InputChangedError, match="since it was read") as caught:
            batches_of(path, LINES, position)
        assert caught.value.file == str(path)


def test_lines_are_counted_on_after_resumption(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,number\n" + '"two\nlines",1\n' * 10 + "plain,\nplain,x\n")
    with open_source(path, SCHEMA, block_bytes=40, batch_rows=1, multiline=True) as source:
        positions = [batch.position for _, batch in zip(range(11), source, strict=False) if batch is not None]
    for taken, position in enumerate(positions[:-1], start=1):
        with open_source(path, SCHEMA, position, block_bytes=40, batch_rows=11 - taken, multiline=True) as source:
            for line in (22, 23):
                last = next(source)
                assert last is not None
                with pytest.raises(TableError) as caught:
                    SCHEMA.encode(last.table)
                assert last.with_line(caught.value).line == line


def test_a_last_line_that_went_on_after_it_was_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("n\n1\n2")
    position = batches_of(path, LINES)[-1].position
    path.write_text("n\n1\n2\n3\n")
    assert numbers_of(batches_of(path, LINES, position)) == [3]
    path.write_text("n\n1\n27\n3\n")
    with pytest.raises(InputChangedError, match="last line"):
        batches_of(path, LINES, position)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("how", ["shorter", "removed", "other content"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, kind: str, how: str) -> None:
    path = tmp_path / f"a.{kind}"
    write_numbers(path, 100)
    with open_source(path, LINES, block_bytes=64, batch_rows=5) as source:
        next(source)
        match how:
            case "shorter":
                os.truncate(path, 50)
            case "removed":
                path.unlink()
            case "other content":
                with open(path, "r+b") as file:
                    file.seek(4)
                    file.write(b"77")
        with pytest.raises(InputChangedError, match=r"since it was read") as caught:
            list(source)
    assert caught.value.file == str(path)


def test_positions_stay_small(tmp_path: Path) -> None:
    """With a hundred files behind it a position is still smaller than one batch."""
    for number in range(100):
        write_numbers(tmp_path / f"{number:03}.csv", 2)
    assert len(json.dumps(batches_of(tmp_path, LINES)[-1].position)) < 5000
