"""What a file is, is declared by its name or by options: its first record is a record like any other."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.public.errors import TableError
from headwater.public.numbers import Number
from headwater.public.schema import Schema
from headwater.secret.read import lines
from headwater.secret.read.source import open_source

SCHEMA = Schema(x=Number(0, 1))
GOOD = [b'{"x": 0.25}', b'{"x": 0.5}', b'{"x": 0.75}']
FIRST = [b"\xff\xfe", b"\xfe\xff{", b"\xff\xfe{\0}\0", b"[", b"[]", b'[{"x": 0.25}]', b'[{"x": 0.25},', b"]", b""]


def seen(path: Path | str, **options: Any) -> list[float | None]:  # noqa: ANN401 - fields of Options
    """The records; None for bad ones."""
    found: list[float | None] = []
    with open_source(path, SCHEMA, **options) as source:
        for batch in source:
            if batch is not None:
                records: list[float | None] = [None] * batch.records
                for place, point in zip(batch.places.tolist(), SCHEMA.encode(batch.table).tolist(), strict=True):
                    records[place] = point[0]
                found += records
    return found


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    """Puts bytes into standard input."""
    ends = list[io.FileIO]()

    def put(text: bytes) -> None:
        out, into = os.pipe()
        os.write(into, text)
        os.close(into)
        ends.append(io.FileIO(out, "rb"))
        monkeypatch.setattr(lines, "sys", SimpleNamespace(stdin=SimpleNamespace(buffer=ends[-1])))

    yield put
    for end in ends:
        end.close()


@pytest.mark.parametrize("policy", ["null", "quarantine"])
@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.json", "-"])
def test_a_first_line_that_is_no_record_is_a_bad_one(
    first: bytes, policy: str, name: str, tmp_path: Path, piped: Callable[[bytes], None]
) -> None:
    """Where a line may be anything, also the first one."""
    text, path = b"\n".join([first, *GOOD[1:], b""]), "-" if name == "-" else tmp_path / name
    if isinstance(path, Path):
        path.write_bytes(text)
    else:
        piped(text)
    assert seen(path, bad_rows=policy, format="jsonl") == [None, 0.5, 0.75]


def test_a_first_line_of_csv_on_a_pipe_that_continues_is_a_record(piped: Callable[[bytes], None]) -> None:
    position = None
    for text, bad, good in ((b"x\n0.25\n", 0, [[0.25]]), (b"\xff\xfe\n0.5\n", 1, [[0.5]])):
        piped(text)
        with open_source("-", SCHEMA, position, bad_rows="null", stdin_continues=True) as source:
            batch = next(batch for batch in source if batch is not None)
        position = batch.position
        assert [one.row for one in batch.bad] == [0] * bad
        assert SCHEMA.encode(batch.table).tolist() == good


@pytest.mark.parametrize("others", [0, 2])
def test_an_array_in_a_file_of_lines_is_refused_with_whatever_it_stands(others: int, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([b'[{"x": 0.25}]', *GOOD[:others], b""]))
    with pytest.raises(TableError, match="line 1: a line that is not a JSON object"):
        seen(tmp_path / "a.jsonl")


@pytest.mark.parametrize("policy", ["stop", "null"])
@pytest.mark.parametrize("first", [GOOD[0], b"x", b" ", b"\xff\xfe"])
def test_only_an_array_is_called_json(first: bytes, policy: str, tmp_path: Path) -> None:
    """Else a first line that begins with a bracket would say how the others are read."""
    path = tmp_path / "a.json"
    path.write_bytes(b"\n".join([first, *GOOD[1:], b""]))
    with pytest.raises(TableError, match=r'declare input_format = "jsonl"'):
        seen(path, bad_rows=policy)
    path.write_bytes(b"[" + b",".join(GOOD) + b"]")
    assert seen(path, bad_rows=policy) == [0.25, 0.5, 0.75]


@pytest.mark.parametrize("block_bytes", [1, 3, 1 << 20])
@pytest.mark.parametrize("policy", ["stop", "null"])
def test_utf_16_begins_with_a_mark_or_its_order_is_declared(block_bytes: int, policy: str, tmp_path: Path) -> None:
    """Without a mark, a first record that begins with one turned round would turn round all others."""
    path, text = tmp_path / "a.jsonl", b"\n".join([*GOOD, b""]).decode()
    options: dict[str, Any] = {"block_bytes": block_bytes, "bad_rows": policy}
    for order in ("le", "be"):
        path.write_bytes(("\ufeff" + text).encode(f"utf-16-{order}"))
        assert seen(path, encoding="utf-16", **options) == [0.25, 0.5, 0.75]
        assert seen(path, encoding=f"utf-16-{order}", **options) == [0.25, 0.5, 0.75]
        path.write_bytes(text.encode(f"utf-16-{order}"))
        assert seen(path, encoding=f"utf-16-{order}", **options) == [0.25, 0.5, 0.75]
        with pytest.raises(TableError, match="utf-16-le"):
            seen(path, encoding="utf-16", **options)


def test_a_mark_turned_round_is_part_of_its_record(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(("\ufffe" + b"\n".join([*GOOD, b""]).decode()).encode("utf-16-le"))
    assert seen(path, encoding="utf-16-le", bad_rows="null") == [None, 0.5, 0.75]


def test_elements_of_an_array_stay_with_their_array(tmp_path: Path) -> None:
    """The bracket of an array is not part of a record."""
    firsts: list[Any] = [[], {}, "[", None, [1, [2]]]
    for first in firsts:
        text = json.dumps([first, {"x": 0.5}, {"x": 0.75}])
        (tmp_path / "a.json").write_text(text)
        assert seen(tmp_path / "a.json", bad_rows="null") == [None, 0.5, 0.75]
