"""Every way a file can be wrong: the error names the place and the remedy, and never a value."""

import bz2
import gzip
import lzma
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from headwater import Category, Datetime, Number, Schema, TableError, unit_cube
from headwater.public.cube import UnitCube
from headwater.secret.read.source import open_source

SCHEMA = Schema(a=Number(0, 9), b=Category("p", "q", "r\n\nr"), d=Datetime("2024-01-01", "2025-01-01"))
SECRET = "5ecret"  # noqa: S105 - what stands in the wrong place; no error may show it
GOOD = "1,p,2024-01-02\n"
HEAD = "a,b,d\n"


def error_of(path: Path, schema: Schema | UnitCube = SCHEMA, **options: object) -> TableError:
    """The error that reading and encoding gives, checked for values."""
    with pytest.raises(TableError) as caught:
        read_and_encode(path, schema, **options)
    assert SECRET not in str(caught.value)
    chain: BaseException | None = caught.value
    while chain is not None:  # a log that shows causes shows no value either
        assert SECRET not in repr(chain)
        chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)
    return caught.value


def read_and_encode(path: Path, schema: Schema | UnitCube, **options: object) -> None:
    """What the run loop does with a file."""
    with open_source(path, schema, None, **options) as source:
        for batch in source:
            assert batch is not None
            try:
                schema.encode(batch.table)
            except TableError as error:
                raise batch.with_line(error) from None


CSV_ERRORS = {
    "text for a number": (HEAD + GOOD * 2 + f"{SECRET},p,2024-01-02\n" + GOOD, 4, "a", "not a number"),
    "value that is not listed": (HEAD + GOOD + f"1,{SECRET},2024-01-02\n", 3, "b", "none of the listed"),
    "text for a date": (HEAD + GOOD + f"1,p,{SECRET}\n", 3, "d", "not a date"),
    "missing": (HEAD + GOOD + ",p,2024-01-02\n", 3, "a", "missing"),
    "after quoted newlines": (HEAD + '1,"p",2024-01-02\n' * 2 + f'1,"{SECRET}\n\n",2024-01-02\n', 4, "b", "none of"),
    "behind quoted newlines": (HEAD + f'1,"r\n\nr",2024-01-02\n{SECRET},p,2024-01-02\n', 5, "a", "not a number"),
    "blank line": (HEAD + GOOD + "\n" + GOOD, 3, None, "blank line"),
    "blank line at the end": (HEAD + GOOD + "\r\n", 3, None, "blank line"),
    "too few fields": (HEAD + GOOD * 3 + f"{SECRET}\n" + GOOD, 5, None, r"1 field\(s\), but the header has 3"),
    "too many fields": (HEAD + GOOD + f'1,p,2024-01-02,"{SECRET},"\n', 3, None, r"4 field\(s\)"),
    "blank but for spaces": (HEAD + GOOD + "  \n", 3, None, r"1 field\(s\)"),
    "quote inside a field": (HEAD + GOOD + f'1,{SECRET}"p,2024-01-02\n' + GOOD * 9, 3, None, "quote in the middle"),
    "text behind a quote": (HEAD + GOOD + f'1,"p"{SECRET},2024-01-02\n', 3, None, "quote in the middle"),
    "quote never closed": (HEAD + GOOD + f'1,"{SECRET},2024-01-02\n' + GOOD * 3, 3, None, "never closed"),
    "NUL byte": (HEAD + GOOD + f"1,{SECRET}\0,2024-01-02\n", 3, None, "NUL"),
    "old line ends": (HEAD.replace("\n", "\r") + GOOD.replace("\n", "\r"), 1, None, "carriage return"),
    "one old line end": (HEAD + GOOD + f"1,{SECRET}\rp,2024-01-02\n", 3, None, "carriage return"),
    "missing column": ("a,b\n1,p\n", 1, None, 'missing column "d"'),
    "extra column": (f"a,b,note,d\n1,p,{SECRET},2024-01-02\n", 1, None, "1 .* that the schema does not name"),
    "same column twice": ("a,b,d,a\n1,p,2024-01-02,1\n", 1, None, r'same name \("a"\)'),
    "no header": (f"1,{SECRET},2024-01-02\n", 1, None, 'missing column "a", "b", "d".*first line must hold'),
    "quote in the header": ('a,b"x,d\n', 1, None, "quote in the middle"),
}


JSON_GOOD = '{"a": 1, "b": "p", "d": "2024-01-02"}\n'
JSON_ERRORS = {
    "not JSON": (JSON_GOOD * 2 + f'{{"a": {SECRET}}}\n', 3, None, "not JSON"),
    "cut short": (JSON_GOOD + '{"a": 1, "b', 2, None, "not JSON"),
    "not an object": (JSON_GOOD + f'["{SECRET}"]\n', 2, None, "not a JSON object"),
    "two objects in a line": (JSON_GOOD[:-1] + JSON_GOOD, 1, None, "not JSON"),
    "an object over two lines": (JSON_GOOD + JSON_GOOD.replace(', "b"', ',\n"b"'), 2, None, "not JSON"),
    "missing key": (JSON_GOOD + f'{{"a": 1, "b": "{SECRET}"}}\n', 2, None, 'missing key "d"'),
    "extra key": (
        JSON_GOOD + f'{{"a": 1, "b": "p", "d": "2024-01-02", "note": "{SECRET}"}}\n',
        2,
        None,
        "1 .* that the schema does not name",
    ),
    "key twice": (JSON_GOOD + '{"a": 1, "a": 1, "b": "p", "d": "2024-01-02"}\n', 2, None, "twice"),
    "nested": (JSON_GOOD + f'{{"a": ["{SECRET}"], "b": "p", "d": "2024-01-02"}}\n', 2, "a", "nested"),
    "text for a number": (JSON_GOOD + JSON_GOOD.replace("1,", f'"{SECRET}",'), 2, "a", "not a number"),
    "truth for a number": (JSON_GOOD + JSON_GOOD.replace("1,", "true,"), 2, "a", "not a number"),
    "not listed": (JSON_GOOD + JSON_GOOD.replace('"p"', f'"{SECRET}"'), 2, "b", "none of the listed"),
    "null for a record": ("null\n" + JSON_GOOD, 1, None, "not a JSON object"),
    "null for a later record": (JSON_GOOD + "null\n" + JSON_GOOD, 2, None, "not a JSON object"),
    "blank line": (JSON_GOOD + "\n" + JSON_GOOD, 2, None, "not JSON"),
    "two objects and a blank line": (JSON_GOOD[:-1] + JSON_GOOD + "\n" + JSON_GOOD, 1, None, "not JSON"),
    "empty object": (JSON_GOOD + "{}\n", 2, None, "missing key"),
    "null": (JSON_GOOD + JSON_GOOD.replace("1,", "null,"), 2, "a", "missing"),
}


ERRORS = [("csv", name, *said) for name, said in CSV_ERRORS.items()]
ERRORS += [("jsonl", name, *said) for name, said in JSON_ERRORS.items()]


@pytest.mark.parametrize(("form", "name", "text", "line", "column", "match"), ERRORS)
@pytest.mark.parametrize("block_bytes", [32, 1 << 22])
def test_errors_name_line_and_column(
    tmp_path: Path, form: str, name: str, text: str, line: int, column: str | None, match: str, block_bytes: int
) -> None:
    path = tmp_path / f"people.{form}"
    path.write_bytes(text.encode())
    error = error_of(path, block_bytes=block_bytes, multiline="quoted newlines" in name)
    assert (error.file, error.line, error.column) == (str(path), line, column)
    assert error.remedy
    with pytest.raises(TableError, match=match):
        raise error


@pytest.mark.parametrize(
    ("name", "data", "match"),
    [
        ("a.csv", HEAD.encode() + b"1,\xff\xfe,2024-01-02\n", "line 2.*not UTF-8"),
        ("a.csv", "ä,b\n".encode("latin-1"), "line 1.*not UTF-8"),
        ("a.csv", (HEAD + GOOD).encode("utf-16"), "line 1.*UTF-16"),
        ("a.jsonl", b'{"a": "\xff"}\n', "line 1.*not UTF-8"),
        ("a.jsonl", JSON_GOOD.encode("utf-16"), "line 1.*UTF-16"),
        ("a.csv", b"", "empty"),
        ("a.csv", b"\n\r\n", "empty"),
        ("a.csv.gz", gzip.compress((HEAD + GOOD * 100).encode(), mtime=0)[:-20], "damaged or cut short"),
        ("a.csv.gz", (HEAD + GOOD).encode(), "damaged or cut short"),
        ("a.csv.bz2", (HEAD + GOOD).encode(), "damaged or cut short"),
        ("a.csv.xz", (HEAD + GOOD).encode(), "damaged or cut short"),
        ("a.csv.bz2", bz2.compress(HEAD.encode()) + b"?" + bz2.compress(GOOD.encode()), "damaged or cut short"),
        ("a.csv.xz", lzma.compress(HEAD.encode()) + b"?" + lzma.compress(GOOD.encode()), "damaged or cut short"),
        ("a.csv.zst", (HEAD + GOOD).encode(), "damaged or cut short"),
        ("a.parquet", (HEAD + GOOD).encode(), "cannot be read as Parquet"),
        ("a.arrow", (HEAD + GOOD).encode(), "cannot be read as Arrow"),
        ("a.arrow", b"ARROW1" + GOOD.encode(), "cannot be read as Arrow"),
        ("a.parquet", b"", "cannot be read as Parquet"),
        ("a.parquet.gz", b"", "compressed Parquet"),
        ("a.xlsx", b"", "does not say what is in the file"),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path: Path, name: str, data: bytes, match: str) -> None:
    (tmp_path / name).write_bytes(data)
    error = error_of(tmp_path / name)
    assert error.file == str(tmp_path / name)
    with pytest.raises(TableError, match=match):
        raise error


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEAD + GOOD + "1" * 5000)
    error = error_of(tmp_path / "a.csv", block_bytes=256, line_bytes=1024)
    assert error.line == 3
    assert "a line of more than" in error.problem


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"a": [1.0], "b": ["p"]}, 'missing column "d"'),
        ({"a": [1.0], "b": ["p"], "d": ["2024-01-02"], "note": [SECRET]}, "1 .* that the schema does not name"),
        ({"a": [[1.0]], "b": ["p"], "d": ["2024-01-02"]}, 'column "a": a column of nested values'),
        ({"a": [1.0, 2.0], "b": ["p", SECRET], "d": ["2024-01-02"] * 2}, 'row 1, column "b"'),
    ],
)
def test_parquet_and_arrow_files_must_fit_the_schema(tmp_path: Path, columns: dict[str, Any], match: str) -> None:
    table = pa.table(columns)
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    with pa.ipc.new_file(tmp_path / "x.arrow", table.schema) as writer:
        writer.write_table(table)
    for name in ("x.parquet", "x.arrow"):
        error = error_of(tmp_path / name)
        assert error.file == str(tmp_path / name)
        with pytest.raises(TableError, match=match):
            raise error


def test_the_unit_cube_names_the_wrong_line_and_the_wrong_width(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"x,y\n0.5,0.5\n0.5,{SECRET}\n")
    error = error_of(tmp_path / "a.csv", unit_cube(2))
    assert (error.line, error.column) == (3, "x1")
    assert "3 column(s)" not in str(error)
    assert "2 column(s), but the schema has 3" in str(error_of(tmp_path / "a.csv", unit_cube(3)))


def test_paths_that_lead_nowhere_are_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.csv").write_text("x\n")
    for path, match in [
        (tmp_path / "none.csv", "no such file"),
        (tmp_path / "folder", "folder inside a folder"),
        (tmp_path / "empty", "no files in this folder"),
        (tmp_path / "file.csv" / "a.csv", "mixed up"),
    ]:
        with pytest.raises(TableError, match=match):
            open_source(path, SCHEMA)
    with pytest.raises(ValueError, match="at least one"):
        open_source([], SCHEMA)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody without permission")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    for name in ("a.csv", "a.parquet"):
        (tmp_path / name).write_text(HEAD)
        (tmp_path / name).chmod(0o600)
    code = """if True:
        import os, sys
        from headwater.public.numbers import Number
        from headwater.public.errors import TableError
        from headwater.secret.read.source import read
        from headwater.public.schema import Schema
        import pyarrow.csv, pyarrow.parquet
        os.chdir(sys.argv[1])
        os.setuid(65534)
        for name in ("a.csv", "a.parquet"):
            try:
                list(read(name, Schema(a=Number(0, 1))))
            except TableError as error:
                print(error)
    """
    run = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert [line.split(";")[0] for line in done.stdout.splitlines()] == [
        "a.csv: no permission to read this",
        "a.parquet: no permission to read this",
    ]
