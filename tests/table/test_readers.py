"""Files in every format, read as the schema says."""

import bz2
import gzip
import json
import lzma
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from headwater.evaluate.report.releases import find
from numpy.typing import NDArray

from headwater import Boolean, Category, Datetime, Integer, Number, Schema, TableError, TimeOfDay, unit_cube
from headwater.public.columns import Column
from headwater.public.folder import publish
from headwater.secret.read import csv_text
from headwater.secret.read.source import open_source
from headwater.secret.read.tables import read
from headwater.synthesizer import Synthesizer

SCHEMA = Schema(
    distance=Number(0, 50, missing=True),
    count=Integer(0, 9),
    payment=Category("card", "cash", missing=True),
    paid=Boolean(),
    when=Datetime("2024-01-01", "2025-01-01"),
    clock=TimeOfDay(),
)
ROWS: list[dict[str, Any]] = [
    {
        "distance": 12.5 if i % 3 else None,
        "count": i % 10,
        "payment": ["card", "cash", None][i % 3],
        "paid": i % 2 == 0,
        "when": datetime(2024, 3, 1, i % 24, 30),
        "clock": datetime(2024, 1, 1, i % 24, 15).time(),
    }
    for i in range(50)
]
CSV = "distance,count,payment,paid,when,clock\n" + "".join(
    ",".join("" if value is None else str(value) for value in row.values()) + "\n" for row in ROWS
)
JSONL = "".join(json.dumps(row, default=lambda value: value.isoformat()) + "\n" for row in ROWS)


def rows_of(paths: Path | list[Path], schema: Schema = SCHEMA, **options: object) -> list[dict[str, Any]]:
    return [row for table in read(paths, schema, **options) for row in table.to_pylist()]


def points_of(path: Path) -> NDArray[np.float64]:
    return np.concatenate([SCHEMA.encode(table) for table in read(path, SCHEMA)])


def whole_table() -> pa.Table:
    return pa.Table.from_pylist(ROWS)


def test_csv_gives_the_rows_with_the_types_of_the_schema(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    assert rows_of(tmp_path / "a.csv") == ROWS


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson"])
def test_json_lines_encode_as_the_rows_do(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(JSONL)
    np.testing.assert_array_equal(points_of(tmp_path / name), SCHEMA.encode(whole_table()))


def test_parquet_gives_the_rows(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(whole_table(), tmp_path / "a.parquet", row_group_size=7)
    assert rows_of(tmp_path / "a.parquet", batch_rows=5) == ROWS


@pytest.mark.parametrize("stream", [False, True])
def test_arrow_files_and_streams_give_the_rows(tmp_path: Path, stream: bool) -> None:
    table, make = whole_table(), pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=9)
    assert rows_of(tmp_path / "a.arrow", batch_rows=4) == ROWS


@pytest.mark.parametrize("step", [1, 2, 3, 5, 8])
def test_no_line_is_lost_where_text_is_cut_for_threads(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that holds nothing but the second half of a line end was taken for the end of the text."""
    monkeypatch.setattr("headwater.secret.read.csv_text.STEP", step)
    (tmp_path / "a.csv").write_bytes(b"x\r\n0\r\n\n0.5\r\n\r\n1\r\n")
    with open_source(tmp_path / "a.csv", Schema(x=Number(0, 1, missing=True))) as source:
        assert [batch.table["x"].to_pylist() for batch in source if batch] == [[0.0, None, 0.5, None, 1.0]]


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zst", "lz4"])
@pytest.mark.parametrize("text", [("csv", CSV), ("jsonl", JSONL)], ids=["csv", "jsonl"])
def test_compressed_text_gives_the_same_points(tmp_path: Path, ending: str, text: tuple[str, str]) -> None:
    path = tmp_path / f"a.{text[0]}.{ending}"
    path.write_bytes(compress(text[1].encode(), ending))
    np.testing.assert_array_equal(points_of(path), SCHEMA.encode(whole_table()))


def compress(data: bytes, ending: str) -> bytes:
    match ending:
        case "gz":
            return gzip.compress(data[:100]) + gzip.compress(data[100:])  # two members, as log tools write them
        case "bz2":
            return bz2.compress(data)
        case "xz":
            return lzma.compress(data)
        case _:
            out = pa.BufferOutputStream()
            with pa.CompressedOutputStream(out, "zstd" if ending == "zst" else "lz4") as file:
                file.write(data)
            return bytes(out.getvalue().to_pybytes())


def test_a_tsv_file_is_split_at_tabs_and_any_delimiter_can_be_given(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("y\tx\n1\t0.5\n")
    (tmp_path / "a.csv").write_text("x;y\n0.5;1\n")
    schema = Schema(x=Number(0, 1), y=Integer(0, 1))
    assert rows_of(tmp_path / "a.tsv", schema) == rows_of(tmp_path / "a.csv", schema, delimiter=";")


def test_a_format_that_is_given_wins_over_the_name(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x\n0.5\n")
    assert rows_of(tmp_path / "a.log", Schema(x=Number(0, 1)), format="csv") == [{"x": 0.5}]


def test_several_files_come_in_the_given_order_and_a_folder_in_the_order_of_names(tmp_path: Path) -> None:
    schema = Schema(x=Integer(0, 9))
    for name, value in [("b.csv", 2), ("a.csv", 1), (".hidden.csv", 9), ("c.csv.tmp", 9)]:
        (tmp_path / name).write_text(f"x\n{value}\n")
    assert rows_of([tmp_path / "b.csv", tmp_path / "a.csv"], schema) == [{"x": 2}, {"x": 1}]
    assert rows_of(tmp_path, schema) == [{"x": 1}, {"x": 2}]


def test_columns_may_stand_in_another_order_in_every_file(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("x,y\n1,0.5\n")
    (tmp_path / "2.csv").write_text("y,x\n0.25,2\n")
    got = rows_of(tmp_path, Schema(x=Integer(0, 9), y=Number(0, 1)))
    assert got == [{"x": 1, "y": 0.5}, {"x": 2, "y": 0.25}]


def test_extra_columns_are_left_out_when_asked(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,x,name\nsomeone,0.5,else\n")
    (tmp_path / "a.jsonl").write_text('{"name": ["nested"], "x": 0.5}\n')
    pyarrow.parquet.write_table(pa.table({"name": ["someone"], "x": [0.5]}), tmp_path / "a.parquet")
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        assert rows_of(tmp_path / name, Schema(x=Number(0, 1)), ignore_extra=True) == [{"x": 0.5}]


def test_what_the_error_of_an_extra_column_says_to_do_works(tmp_path: Path) -> None:
    path, schema = tmp_path / "a.csv", Schema(x=Number(0, 1))
    path.write_text("name,x\nsomeone,0.5\n")
    synth = Synthesizer(schema, epsilon=1.0, seed=1)
    with pytest.raises(TableError, match=r"with_reading\(ignore_extra=True\)"):
        synth.update(path)
    synth.update(read(path, schema, ignore_extra=True))
    assert synth.t == 1


@pytest.mark.parametrize("text", ["a,b\r\n0.5,1\r\n", "\ufeffa,b\n0.5,1\n", "\n\na,b\n0.5,1\n", "a,b\n0.5,1"])
def test_line_ends_marks_and_blank_lines_before_the_header_do_not_matter(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_bytes(text.encode())
    assert rows_of(tmp_path / "a.csv", Schema(a=Number(0, 1), b=Integer(0, 9))) == [{"a": 0.5, "b": 1}]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_blank_line_of_one_column_is_a_record(tmp_path: Path, end: str) -> None:
    """Also the last line of a file. What is behind the last line end is a record only if something is there."""
    (tmp_path / "a.csv").write_text(end.join(["x", "0.5", "", "0.25", "", ""]), newline="")
    for block_bytes in (1, 5, 1 << 22):
        found = rows_of(tmp_path / "a.csv", Schema(x=Number(0, 1, missing=True)), block_bytes=block_bytes)
        assert [row["x"] for row in found] == [0.5, None, 0.25, None]
    (tmp_path / "b.csv").write_text(end.join(["x", "a", "", "b", ""]), newline="")
    assert [row["x"] for row in rows_of(tmp_path / "b.csv", Schema(x=Category("a", "", "b")))] == ["a", "", "b"]


@pytest.mark.parametrize("inner", ["", "\n", "\r\n"])
def test_quoted_text_that_is_shared_among_threads_is_read_as_in_one_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inner: str
) -> None:
    """Steps of 64 bytes: without line ends inside of quotes text may be cut at every line, with them nowhere."""
    texts = [f"a{inner}{i % 7}" for i in range(500)]
    schema = Schema(n=Integer(0, 500), text=Category(*sorted(set(texts))))
    (tmp_path / "a.csv").write_text("n,text\n" + "".join(f'{i},"{text}"\n' for i, text in enumerate(texts)), newline="")
    monkeypatch.setattr(csv_text, "STEP", 64)
    steps, usual = list[int](), pyarrow.csv.read_csv

    def seen(data: Any, options: pyarrow.csv.ReadOptions, *more: Any, **others: Any) -> Any:  # noqa: ANN401
        steps.append(options.block_size)
        return usual(data, options, *more, **others)

    monkeypatch.setattr(pyarrow.csv, "read_csv", seen)
    assert rows_of(tmp_path / "a.csv", schema) == [{"n": i, "text": text} for i, text in enumerate(texts)]
    assert [step == 64 for step in steps] == [not inner]  # read once, and not again because it could not be cut


def test_quoted_fields_may_hold_delimiters_quotes_and_line_ends(tmp_path: Path) -> None:
    values = ["a,b", 'say "so"', "two\nlines", "two\r\nlines", "", "é"]
    text = "".join('"' + value.replace('"', '""') + '",1\n' for value in values)
    (tmp_path / "a.csv").write_bytes(b"v,n\n" + text.encode())
    schema = Schema(v=Category(*values), n=Integer(0, 1))
    assert [row["v"] for row in rows_of(tmp_path / "a.csv", schema)] == values


def test_an_empty_field_is_missing_and_a_quoted_empty_one_is_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('v,n\n,1\n"",1\n')
    assert [r["v"] for r in rows_of(tmp_path / "a.csv", Schema(v=Category("a", missing=True), n=Integer(0, 1)))] == [
        None,
        "",
    ]
    assert [r["v"] for r in rows_of(tmp_path / "a.csv", Schema(v=Category("", "a"), n=Integer(0, 1)))] == ["", ""]


def test_other_texts_can_mean_missing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("v,n\nNA,1\n,2\n")
    schema = Schema(v=Number(0, 1, missing=True), n=Integer(0, 9))
    assert [row["v"] for row in rows_of(tmp_path / "a.csv", schema, null_values=("NA",))] == [None, None]


def test_values_that_only_the_codec_understands_reach_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("b,d,i\nyes,2024-01-02T00:00:00.000000500,3.0\nF,2024-01-03,99999999999999999999\n")
    (tmp_path / "a.jsonl").write_text(
        '{"b": "yes", "d": "2024-01-02T00:00:00.000000500", "i": 3.0}\n{"b": 0, "d": "2024-01-03", "i": "9"}\n'
    )
    schema = Schema(b=Boolean(), d=Datetime("2024-01-01", "2024-01-04", step="1d"), i=Integer(0, 9))
    for name in ("a.csv", "a.jsonl"):
        (table,) = read(tmp_path / name, schema)
        (first, second) = schema.decode(schema.encode(table), "records")
        assert (first["b"], first["i"], second["b"], second["i"]) == (True, 3, False, 9)


def test_a_code_that_looks_like_a_number_stays_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("code\n007\n")
    (table,) = read(tmp_path / "a.csv", Schema(code=Category("007", "7")))
    assert table["code"].to_pylist() == ["007"]


def test_the_unit_cube_takes_columns_by_place(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("east,north\n0.25,1\n0.5,0\n")
    (table,) = read(tmp_path / "a.csv", unit_cube(2))
    np.testing.assert_array_equal(unit_cube(2).encode(table), [[0.25, 1.0], [0.5, 0.0]])


def test_a_header_alone_is_a_file_without_records(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n")
    assert rows_of(tmp_path / "a.csv", Schema(x=Number(0, 1))) == []


def test_a_record_longer_than_a_block_and_than_pyarrows_step_is_read(tmp_path: Path) -> None:
    value = "v" * (3 << 20)
    (tmp_path / "a.csv").write_text(f"a,n\n{value},1\n")
    (table,) = read(tmp_path / "a.csv", Schema(a=Category(value), n=Integer(0, 1)), block_bytes=1 << 16)
    assert table.num_rows == 1


def test_batches_are_no_larger_than_asked(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n" + "0.5\n" * 1000)
    sizes = [table.num_rows for table in read(tmp_path / "a.csv", Schema(x=Number(0, 1)), batch_rows=300)]
    assert sum(sizes) == 1000
    assert max(sizes) <= 300


def test_memory_stays_bounded_on_a_large_file(tmp_path: Path) -> None:
    """A file of 60 MB, read in blocks of 1 MB, never has more than a fraction of it in Arrow's memory."""
    (tmp_path / "a.csv").write_text("x,y\n" + "0.123456,0.654321\n" * 3_000_000)
    most, before = 0, pa.total_allocated_bytes()
    for _ in read(tmp_path / "a.csv", Schema(x=Number(0, 1), y=Number(0, 1)), block_bytes=1 << 20):
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 8 << 20


def test_without_pyarrow_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'headwater\[cli\]'"):
        open_source("a.csv", SCHEMA)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"format": "xlsx"}, "format must be one of"),
        ({"delimiter": '"'}, "delimiter"),
        ({"delimiter": "ab"}, "delimiter"),
        ({"batch_rows": 0}, "batch_rows must be above 0"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        open_source("a.csv", SCHEMA, **options)


def test_standard_input_goes_with_nothing_else() -> None:
    with pytest.raises(ValueError, match="together"):
        open_source(["-", "a.csv"], SCHEMA)
    with pytest.raises(TableError, match="standard input"):
        next(open_source("-", SCHEMA, format="parquet"))


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (Number(0, 1, missing=True), [0.5, None]),
        (Category("", "a"), ["", "a"]),
        (Category("a", missing=True), ["a", None]),
    ],
)
def test_a_csv_release_of_one_column_can_be_read_back(tmp_path: Path, column: Column, values: list[object]) -> None:
    """By ``read`` and for the report, with its missing and its empty values."""
    schema = Schema(x=column)
    synth = Synthesizer(schema, epsilon=1000.0, seed=1)
    synth.update([{"x": value} for value in values * 20])
    release = synth.release()
    folder = publish(release, tmp_path, format="csv")
    expected = sorted(point for table in release.tables("arrow") for point in schema.encode(table).ravel().tolist())
    assert len(set(expected)) >= 2
    (found,) = find(tmp_path)
    assert sorted(found.points(schema).ravel().tolist()) == expected
    again = [
        point for table in read(folder / found.card["data"], schema) for point in schema.encode(table).ravel().tolist()
    ]
    assert sorted(again) == expected


@pytest.mark.parametrize("longer", [1, 5, 20, 25, 30])
def test_returns_inside_quotes_do_not_cut_records_where_others_are_longer(longer: int, tmp_path: Path) -> None:
    """Text is shared among threads in steps of a megabyte: where one ends must not decide what a record is."""

    def record(number: int, length: int) -> bytes:
        head, tail = b'%06d,"\r99,' % number, b',5\r98,y",2\n'
        return head + b"x" * (length - len(head) - len(tail)) + tail

    schema, count, found = Schema(a=Number(0, 1e6), b=Number(0, 100)), 1 << 15, []
    for extra in (0, longer):
        path = tmp_path / f"{extra}.csv"
        path.write_bytes(b"a,note,b\n" + record(0, 64 + extra) + b"".join(record(i, 64) for i in range(1, count)))
        with open_source(path, schema, ignore_extra=True) as source:
            found.append(np.concatenate([np.array(batch.table["a"]) for batch in source if batch]))
    assert found[0].tolist() == found[1].tolist() == list(range(count))


@pytest.mark.parametrize("blank", [b"", b" ", b"\t"])
def test_a_time_that_ends_in_a_point_is_bad_whatever_other_times_are(blank: bytes, tmp_path: Path) -> None:
    schema, good = Schema(a=TimeOfDay(), b=Number(0, 1)), []
    for first in (b"03:04:05", b"03:04:05.1234567"):
        path = tmp_path / f"{len(first)}.csv"
        path.write_bytes(b"a,b\n" + first + b",0.5\n" + (b"03:04:05." + blank + b",0.5\n") * 2_000)
        with open_source(path, schema, bad_rows="null") as source:
            good.append(sum(batch.table.num_rows for batch in source if batch))
    assert good[0] == good[1]


@pytest.mark.parametrize("policy", ["stop", "null"])
def test_a_mark_before_a_record_is_a_part_of_it_wherever_a_block_begins(policy: str, tmp_path: Path) -> None:
    schema, found = Schema(a=Category("x", "y", other="y"), b=Number(0, 1)), []
    for first in (b"x,0.25", b"x,0.250000000000000", *([b"x,bad"] if policy == "null" else [])):
        path = tmp_path / f"{first.decode()}.csv"
        path.write_bytes(b"a,b\n" + first + b"\n\xef\xbb\xbfx,0.5\n")
        for block in (12, 1 << 20):
            with open_source(path, schema, bad_rows=policy, block_bytes=block) as source:
                tables = [batch.table for batch in source if batch and batch.table.num_rows]
            found.append(tables[-1].to_pylist()[-1])
    assert all(record == found[0] for record in found)


def test_what_only_one_parser_takes_for_a_number_is_refused_whatever_other_records_are(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    for first in (b'{"a":0.25,"n":1}\n', b'{"a":"0.25","n":1}\n'):
        path.write_bytes(first + b'{"a":0.5,"n":-NaN}\n')
        with open_source(path, Schema(a=Number(0, 1)), ignore_extra=True) as source, pytest.raises(TableError):
            list(source)


@pytest.mark.parametrize("encoding", ["unicode_escape", "raw_unicode_escape"])
def test_an_encoding_in_which_several_bytes_are_one_character_is_refused(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_bytes(b"a\n0.25\n")
    with pytest.raises((TableError, ValueError)):
        open_source(tmp_path / "f.csv", Schema(a=Number(0, 1)), encoding=encoding)
