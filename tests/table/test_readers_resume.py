"""Going on from a position gives exactly the records that one go would have given, or an error if the input changed."""

import csv
import io
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.public.categories import Category
from headwater.public.errors import TableError
from headwater.public.numbers import Integer
from headwater.public.schema import Schema
from headwater.secret.read.batch import Batch, Position
from headwater.secret.read.lines import InputChangedError
from headwater.secret.read.source import open_source
from tests.support.reading import values

TEXTS = ["plain", "a,b", 'say "so"', "two\nlines", "two\r\nlines", "é€", "", " ", '"', "\n"]
SCHEMA = Schema(text=Category(*TEXTS), number=Integer(0, 9999))
LINES = Schema(n=Integer(0, 10**6))


def batches_of(
    path: Path | list[Path], schema: Schema = SCHEMA, position: Position | None = None, **options: object
) -> list[Batch]:
    with open_source(path, schema, position, **options) as source:
        return [batch for batch in source if batch is not None]


def rows_of(batches: list[Batch], schema: Schema = SCHEMA) -> list[dict[str, Any]]:
    return [
        row for batch in batches for row in values(batch.table, schema if "text" in batch.table.column_names else LINES)
    ]


def through_json(position: Position) -> Position:
    copy: Position = json.loads(json.dumps(position))
    return copy


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
        batches = batches_of(path, **options)
        assert rows_of(batches) == rows
        assert [batch.table.num_rows for batch in batches[:-1]] == [batch_rows] * (len(batches) - 1)
        taken = 0
        for batch in batches:
            taken += batch.table.num_rows
            position = through_json(batch.position)
            assert position["records"] == taken
            assert rows_of(batches_of(path, position=position, **options)) == rows[taken:]


def write_csv(path: Path, rows: int) -> None:
    path.write_text("n\n" + "".join(f"{n}\n" for n in range(rows)))


def write_jsonl(path: Path, rows: int) -> None:
    path.write_text("".join(f'{{"n": {n}}}\n' for n in range(rows)))


def write_parquet(path: Path, rows: int) -> None:
    pyarrow.parquet.write_table(pa.table({"n": range(rows)}), path, row_group_size=7)


def write_arrow(path: Path, rows: int) -> None:
    table = pa.table({"n": range(rows)})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


def write_stream(path: Path, rows: int) -> None:
    table = pa.table({"n": range(rows)})
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


def write_gz(path: Path, rows: int) -> None:
    import gzip

    path.write_bytes(gzip.compress(("n\n" + "".join(f"{n}\n" for n in range(rows))).encode()))


WRITERS: dict[str, tuple[str, Callable[[Path, int], None]]] = {
    "csv": ("a.csv", write_csv),
    "gz": ("a.csv.gz", write_gz),
    "jsonl": ("a.jsonl", write_jsonl),
    "parquet": ("a.parquet", write_parquet),
    "arrow": ("a.arrow", write_arrow),
    "stream": ("a.arrows", write_stream),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_goes_on_after_every_record(tmp_path: Path, kind: str) -> None:
    name, write = WRITERS[kind]
    write(tmp_path / name, 30)
    batches = batches_of(tmp_path / name, LINES, block_bytes=23, batch_rows=1)
    for taken, batch in enumerate(batches, 1):
        rest = batches_of(tmp_path / name, LINES, through_json(batch.position), block_bytes=23, batch_rows=4)
        assert [row["n"] for row in rows_of(rest)] == list(range(taken, 30))


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_goes_on_over_the_borders_of_files(tmp_path: Path, kind: str) -> None:
    name, write = WRITERS[kind]
    paths = []
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        paths.append(tmp_path / str(number) / name)
        write(paths[-1], 10 + number)
    whole = rows_of(batches_of(paths, LINES, batch_rows=4))
    taken = 0
    for batch in batches_of(paths, LINES, batch_rows=4):
        taken += batch.table.num_rows
        assert batch.position["records"] == taken
        assert rows_of(batches_of(paths, LINES, through_json(batch.position), batch_rows=4)) == whole[taken:]


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_that_changed_where_it_was_read_is_refused(tmp_path: Path, kind: str) -> None:
    name, write = WRITERS[kind]
    path = tmp_path / name
    write(path, 30)
    position = batches_of(path, LINES, batch_rows=5)[2].position
    write(path, 8)
    with pytest.raises(InputChangedError, match="since it was read") as caught:
        batches_of(path, LINES, position)
    assert caught.value.file == str(path)


@pytest.mark.parametrize("records", [3, 30])
def test_one_other_digit_is_noticed(tmp_path: Path, records: int) -> None:
    path = tmp_path / "a.csv"
    write_csv(path, 30)
    position = batches_of(path, LINES, batch_rows=records)[0].position
    path.write_text(path.read_text().replace("\n2\n", "\n4\n"))
    with pytest.raises(InputChangedError, match="changed"):
        batches_of(path, LINES, position)


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
    assert rows_of(batches_of(path, LINES, position)) == [{"n": 3}]
    path.write_text("n\n1\n27\n3\n")
    with pytest.raises(InputChangedError, match="last line"):
        batches_of(path, LINES, position)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("how", ["shorter", "removed", "other content"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, kind: str, how: str) -> None:
    name, write = WRITERS[kind]
    path = tmp_path / name
    write(path, 100)
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
        write_csv(tmp_path / f"{number:03}.csv", 2)
    assert len(json.dumps(batches_of(tmp_path, LINES)[-1].position)) < 5000
