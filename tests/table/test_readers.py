"""Files in every format, read as the schema says."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import headwater as hw
from headwater.public.errors import TableError
from headwater.public.folder import publish, read_rows
from headwater.report.releases import find
from headwater.secret.read.source import open_source, read_bytes
from tests.support.reading import rows, write

SCHEMA = hw.Schema(
    distance=hw.Number(0, 50, missing=True),
    count=hw.Integer(0, 9),
    payment=hw.Category("card", "cash", missing=True),
    paid=hw.Boolean(),
    when=hw.Datetime("2024-01-01", "2025-01-01"),
    clock=hw.TimeOfDay(),
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
NAMES = [f"a.{kind}{ending}" for kind in ("csv", "jsonl") for ending in ("", ".gz", ".bz2", ".xz", ".zst", ".lz4")]


@pytest.mark.parametrize("name", [*NAMES, "a.parquet", "a.arrow", "a.arrows"])
def test_every_format_gives_the_rows_from_files_and_from_memory(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, ROWS)
    for options in ({}, {"batch_rows": 5, "block_bytes": 64}):
        points = np.concatenate([SCHEMA.encode(table) for table in hw.read(tmp_path / name, SCHEMA, **options)])
        np.testing.assert_array_equal(points, SCHEMA.encode(ROWS))
    if name.count(".") == 1:
        batches = read_bytes((tmp_path / name).read_bytes(), SCHEMA, name[2:].removesuffix("s"))
        np.testing.assert_array_equal(np.concatenate([SCHEMA.encode(batch.table) for batch in batches]), points)


def test_a_tsv_file_is_split_at_tabs_any_delimiter_can_be_given_and_columns_may_stand_anywhere(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("y\tx\n1\t0.5\n")
    (tmp_path / "a.log").write_text("x;y\n0.5;1\n")
    schema = hw.Schema(x=hw.Number(0, 1), y=hw.Integer(0, 1))
    assert rows(tmp_path / "a.tsv", schema) == [{"x": 0.5, "y": 1}]
    assert rows(tmp_path / "a.log", schema, delimiter=";", format="csv") == [{"x": 0.5, "y": 1}]


def test_several_files_come_in_the_given_order_and_a_folder_in_the_order_of_names(tmp_path: Path) -> None:
    schema = hw.Schema(x=hw.Integer(0, 9))
    for name, value in [("b.csv", 2), ("a.csv", 1), (".hidden.csv", 9), ("c.csv.tmp", 9)]:
        (tmp_path / name).write_text(f"x\n{value}\n")
    assert rows([tmp_path / "b.csv", tmp_path / "a.csv"], schema) == [{"x": 2}, {"x": 1}]
    assert rows(tmp_path, schema) == [{"x": 1}, {"x": 2}]


def test_extra_columns_are_left_out_when_asked(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,x,name\nsomeone,0.5,else\n")
    (tmp_path / "a.jsonl").write_text('{"name": ["nested"], "x": 0.5}\n')
    pyarrow.parquet.write_table(pa.table({"name": ["someone"], "x": [0.5]}), tmp_path / "a.parquet")
    schema = hw.Schema(x=hw.Number(0, 1))
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        assert rows(tmp_path / name, schema, ignore_extra=True) == [{"x": 0.5}]
        with pytest.raises(
            TableError, match=r"\d (column|key)\(s\) that the schema does not name.*ignore_extra = true"
        ):
            rows(tmp_path / name, schema)
        assert rows(tmp_path / name, schema.with_reading(ignore_extra=True)) == [{"x": 0.5}]


@pytest.mark.parametrize("text", ["a,b\r\n0.5,1\r\n", "\ufeffa,b\n0.5,1\n", "\n\na,b\n0.5,1\n", "\ufeff\na,b\n0.5,1"])
def test_line_ends_marks_and_blank_lines_before_the_header_do_not_matter(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_bytes(text.encode())
    assert rows(tmp_path / "a.csv", hw.Schema(a=hw.Number(0, 1), b=hw.Integer(0, 9))) == [{"a": 0.5, "b": 1}]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_blank_line_of_one_column_is_a_record(tmp_path: Path, end: str) -> None:
    """Also the last line of a file. What is behind the last line end is a record only if something is there."""
    (tmp_path / "a.csv").write_text(end.join(["x", "0.5", "", "0.25", "", ""]), newline="")
    for block_bytes in (1, 5, 1 << 22):
        found = rows(tmp_path / "a.csv", hw.Schema(x=hw.Number(0, 1, missing=True)), block_bytes=block_bytes)
        assert [row["x"] for row in found] == [0.5, None, 0.25, None]
    (tmp_path / "b.csv").write_text(end.join(["x", "a", "", "b", ""]), newline="")
    assert [row["x"] for row in rows(tmp_path / "b.csv", hw.Schema(x=hw.Category("a", "", "b")))] == ["a", "", "b"]


@pytest.mark.parametrize("block_bytes", [1, 40, 1 << 22])
def test_quoted_fields_may_hold_delimiters_and_quotes_and_line_ends_if_it_is_declared(
    tmp_path: Path, block_bytes: int
) -> None:
    values = ["a,b", 'say "so"', "a\rb", "", "é", *["two\nlines", "two\r\nlines"]]
    schema, path = hw.Schema(v=hw.Category(*values), n=hw.Integer(0, 1)), tmp_path / "a.csv"
    for count, how in ((5, schema), (7, schema.with_reading(multiline=True))):
        text = "".join('"' + value.replace('"', '""') + '",1\n' for value in values[:count])
        path.write_bytes(b"v,n\n" + text.encode())
        assert [row["v"] for row in rows(path, how, block_bytes=block_bytes)] == values[:count]
    with pytest.raises(TableError, match=r"line 7.*a quote that is never closed.*multiline = true"):
        rows(path, schema, block_bytes=block_bytes)
    with open_source(path, schema, block_bytes=block_bytes, bad_rows="null") as source:
        batches = [batch for batch in source if batch]
    assert [sum(len(batch.table) for batch in batches), sum(len(batch.bad) for batch in batches)] == [5, 4]


@pytest.mark.parametrize("policy", ["stop", "null", "quarantine"])
@pytest.mark.parametrize("odd", ['a"b,1', '"a,1', '"a"b,1'])
def test_where_fields_may_hold_line_ends_a_wrong_quote_stops_the_run_under_every_policy(
    tmp_path: Path, odd: str, policy: str
) -> None:
    schema = hw.Schema(v=hw.Category("a"), n=hw.Integer(0, 1))
    (tmp_path / "a.csv").write_text("v,n\na,1\na,0\n" + odd + "\na,1\n")
    options: Any = {"multiline": True, "bad_rows": policy, "batch_rows": 1}
    with open_source(tmp_path / "a.csv", schema, **options) as source:
        assert [len(next(source).table) for _ in range(2)] == [1, 1]  # type: ignore[union-attr]
        with pytest.raises(TableError, match=r"line 4.*a quote"):
            next(source)


def test_an_empty_field_is_missing_and_a_quoted_empty_one_is_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('v,n\n,1\n"",1\n')
    (table,) = hw.read(tmp_path / "a.csv", hw.Schema(v=hw.Category("a", missing=True), n=hw.Integer(0, 1)))
    assert table["v"].to_pylist() == [None, ""]
    assert [r["v"] for r in rows(tmp_path / "a.csv", hw.Schema(v=hw.Category("", "a"), n=hw.Integer(0, 1)))] == ["", ""]


def test_values_that_arrow_would_read_otherwise_are_read_by_the_grammar_of_their_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("b,d,i\nyes,2024-01-02T00:00:00.000000500,3.0\nF,2024-01-03,99999999999999999999\n")
    (tmp_path / "a.jsonl").write_text(
        '{"b": "yes", "d": "2024-01-02T00:00:00.000000500", "i": 3.0}\n{"b": 0, "d": "2024-01-03", "i": "9"}\n'
    )
    schema = hw.Schema(b=hw.Boolean(), d=hw.Datetime("2024-01-01", "2024-01-04", step="1d"), i=hw.Integer(0, 9))
    for name in ("a.csv", "a.jsonl"):
        first, second = rows(tmp_path / name, schema)
        assert (first["b"], first["i"], second["b"], second["i"]) == (True, 3, False, 9)
    (tmp_path / "b.csv").write_text("code\n007\n")
    (tmp_path / "b.jsonl").write_text('{"code": "007"}\n{"code": 7}\n{"code": 7.0}\n{"code": -0}\n{"code": 0}\n')
    codes = hw.Schema(code=hw.Category("007", "7", "7.0", "0", "-0"))
    assert [row["code"] for name in ("b.csv", "b.jsonl") for row in rows(tmp_path / name, codes)] == [
        "007",
        "007",
        "7",
        "7.0",
        "-0",
        "0",
    ]


LINES = [
    b'{"x": 1.5, "n": 2, "kind": "a"}',
    b'{"x": 1.5, "n": 2, "kind": "a"}\r',
    b'{"kind": "\xc3\xbc", "n": null, "x": 1e0}',
    b'{"x": "1.5", "n": "2", "kind": "7"}',
    b'{"x": 1, "n": 2.0, "kind": 7}',
    b'{"x": 1.5, "kind": "\\u00fc"}',
    b'{"x": NaN, "n": 2, "kind": "a"}',
    b'{"x": Inf, "n": 2, "kind": "a"}',
    b'{"x": -NaN, "n": 2, "kind": "a"}',
    b'{"x": -0.0, "n": -0, "kind": "a"}',
    b'{"x": 1e999, "n": 99999999999999999999, "kind": "a"}',
    b'{"x": [1.5], "n": 2, "kind": "a"}',
    b'{"x": 1.5, "n": 2, "kind": "a\xff"}',
    b'{"x": 1.5, "n": true, "kind": true}',
    b'{"x": 1.5, "n": 2, "kind": "a"} {"x": 1}',
    b'{"x": 1.5, "kind": "a", "x": 1.5}',
    b'{"x": 1.5, "kind": "a", "\\u0078": 1.5}',
    b'{"x": 1.5, "n": 2, "kind": "a"},',
    b'{"x": 1.5, "n": 2, "kind": "a", "more": [{"x": 1}]}',
    b'[{"x": 1.5}]',
    b"\xef\xbb\xbf{}",
    b"",
    b"{",
    b"{}",
    b"\xff",
    b"\0",
    b'{"x": 1.5, "n": 2, "kind": "\\ud800"}',
    b'{"x": 1.5, "n": 2, "kind": ' + b"9" * 5000 + b"}",
    *(b'{"x": 1.5, "n": 2, "kind": ' + b"[" * deep + b"]" * deep + b"}" for deep in (100, 400, 100_000)),
]


@pytest.mark.parametrize("ignore_extra", [False, True])
def test_lines_of_json_that_are_read_together_are_what_they_are_alone(ignore_extra: bool) -> None:
    """Whichever parser reads them: the usual one, or Python's."""
    schema = hw.Schema(
        x=hw.Number(0, 10, missing=True), n=hw.Integer(0, 9, missing=True), kind=hw.Category("a", "ü", "7")
    )

    def read(lines: list[bytes]) -> list[Any]:
        (batch,) = read_bytes(b"\n".join([*lines, b""]), schema, "jsonl", "null", ignore_extra=ignore_extra)
        encoded = schema.encode_batch(batch.table, bad_rows="null")
        found: list[Any] = [None] * batch.records
        for place, point in zip(batch.places.tolist(), encoded.points.tolist(), strict=True):
            found[place] = point
        for bad in batch.all_bad(encoded.bad):
            found[bad.row] = bad.error.problem
        return found

    first = b'{"x": 1.5, "n": 2, "kind": "a"}'
    alone = [read([first, line])[1] for line in LINES]
    assert sum(not isinstance(one, str) for one in alone) == 9 + ignore_extra
    for start in range(len(LINES)):
        some = LINES[start:] + LINES[:start]
        assert read([first, *some])[1:] == alone[start:] + alone[:start]


def test_the_unit_cube_takes_columns_by_place(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("east,north\n0.25,1\n0.5,0\n")
    cube = hw.unit_cube(2)
    (table,) = hw.read(tmp_path / "a.csv", cube)
    np.testing.assert_array_equal(cube.encode(table), [[0.25, 1.0], [0.5, 0.0]])


def test_a_header_alone_is_no_record_and_one_longer_than_a_block_is_read(tmp_path: Path) -> None:
    value = "v" * (3 << 20)
    (tmp_path / "a.csv").write_text("a,n\n")
    (tmp_path / "b.csv").write_text(f"a,n\n{value},1\n")
    schema = hw.Schema(a=hw.Category(value), n=hw.Integer(0, 1))
    assert rows(tmp_path / "a.csv", schema) == []
    assert len(rows(tmp_path / "b.csv", schema, block_bytes=1 << 16)) == 1


def test_batches_are_no_larger_than_asked_and_memory_stays_bounded(tmp_path: Path) -> None:
    """A file of 20 MB, read in blocks of 1 MB, never has more than a fraction of it in Arrow's memory."""
    (tmp_path / "a.csv").write_text("x,y\n" + "0.123456,0.654321\n" * 1_000_000)
    most, before, sizes = 0, pa.total_allocated_bytes(), list[int]()
    for table in hw.read(tmp_path / "a.csv", hw.Schema(x=hw.Number(0, 1), y=hw.Number(0, 1)), block_bytes=1 << 20):
        most = max(most, pa.total_allocated_bytes() - before)
        sizes.append(table.num_rows)
    assert most < 10 << 20
    assert max(sizes) == 65536
    assert sum(sizes) == 1_000_000


def test_pyarrow_is_imported_for_the_first_file_and_its_absence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = "import sys, headwater; print('pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
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
        ({"encoding": "unicode_escape"}, "encoding must be"),
        ({"encoding": "raw_unicode_escape"}, "encoding must be"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        open_source("a.csv", SCHEMA, **options)
    with pytest.raises(ValueError, match="together"):
        open_source(["-", "a.csv"], SCHEMA)
    with pytest.raises(TableError, match="standard input"):
        next(open_source("-", SCHEMA, format="parquet"))


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (hw.Number(0, 1, missing=True), [0.5, None]),
        (hw.Category("", "a"), ["", "a"]),
        (hw.Category("a", missing=True), ["a", None]),
    ],
)
def test_a_csv_release_of_one_column_can_be_read_back(tmp_path: Path, column: Any, values: list[object]) -> None:  # noqa: ANN401
    """By ``read`` and for the report, with its missing and its empty values."""
    schema = hw.Schema(x=column)
    synth = hw.Synthesizer(schema, epsilon=1000.0, seed=1)
    synth.update([{"x": value} for value in values * 20])
    release = synth.release()
    folder = publish(release, tmp_path, format="csv")
    expected = sorted(point for table in release.tables("arrow") for point in schema.encode(table).ravel().tolist())
    assert len(set(expected)) >= 2
    (found,) = find(tmp_path)
    assert sorted(read_rows(found.folder, found.card, schema).ravel().tolist()) == expected
    again = [schema.encode(table) for table in hw.read(folder / found.card["data"], schema)]
    assert sorted(np.concatenate(again).ravel().tolist()) == expected


@pytest.mark.parametrize("longer", [1, 5, 20, 25, 30])
def test_returns_inside_of_quotes_divide_nothing_wherever_text_is_cut(longer: int, tmp_path: Path) -> None:
    def record(number: int, length: int) -> bytes:
        head, tail = b'%06d,"\r99,' % number, b',5\r98,y",2\n'
        return head + b"x" * (length - len(head) - len(tail)) + tail

    schema, count, found = hw.Schema(a=hw.Number(0, 1e6), b=hw.Number(0, 100)), 1 << 15, []
    for extra in (0, longer):
        path = tmp_path / f"{extra}.csv"
        path.write_bytes(b"a,note,b\n" + record(0, 64 + extra) + b"".join(record(i, 64) for i in range(1, count)))
        tables = list(hw.read(path, schema, ignore_extra=True))
        found.append([int(text) for table in tables for text in table["a"].to_pylist()])
    assert found[0] == found[1] == list(range(count))


@pytest.mark.parametrize("policy", ["stop", "null"])
def test_a_mark_before_a_record_is_a_part_of_it_wherever_a_block_begins(policy: str, tmp_path: Path) -> None:
    schema, found = hw.Schema(a=hw.Category("x", "y", other="y"), b=hw.Number(0, 1)), []
    for first in (b"x,0.25", b"x,0.250000000000000", *([b"x"] if policy == "null" else [])):
        path = tmp_path / f"{first.decode()}.csv"
        path.write_bytes(b"a,b\n" + first + b"\n\xef\xbb\xbfx,0.5\n")
        found += [rows(path, schema, bad_rows=policy, block_bytes=block)[-1] for block in (12, 1 << 20)]
    assert all(record == {"a": "y", "b": 0.5} for record in found)
