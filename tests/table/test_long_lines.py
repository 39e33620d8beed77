"""A line of text that is longer than any record may be is one bad record, whatever is read together with it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from headwater import Category, Schema, TableError
from headwater.public.person import Person
from headwater.run import FolderSink, Run, RunConfig, feed
from headwater.secret.read.source import open_source
from tests.support.batch_points import points_in_places

LONGEST = 100
SCHEMA = Schema(x=Category("a", "b"))


def text_of(form: str, values: list[str]) -> bytes:
    if form == "csv":
        return "\n".join(["x", *values, ""]).encode()
    return "\n".join([*(f'{{"x": "{value}"}}' for value in values), ""]).encode()


def read(path: Path, position: Any = None, **options: Any) -> list[tuple[list[Any], Any]]:  # noqa: ANN401
    """What each batch holds, None for a bad record, and the position behind it."""
    found = []
    with open_source(path, SCHEMA, position, bad_rows="null", line_bytes=LONGEST, **options) as source:
        for batch in source:
            if batch is None:
                break
            assert all(bad.text == "" and bad.person is None for bad in batch.bad)
            found.append((points_in_places(batch, SCHEMA, "null"), batch.position))
    return found


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("length", [LONGEST + 1, LONGEST + 30, 3 * LONGEST, 50 * LONGEST])
def test_a_line_that_is_too_long_is_one_bad_record(form: str, length: int, tmp_path: Path) -> None:
    """For every size of blocks and batches, and wherever an earlier run stopped."""
    path = tmp_path / f"a.{form}"
    for place, block, rows in itertools.product((0, 2, 4), (1, 7, 64, 10_000), (1, 2, 100)):
        values = ["a", "b", "a", "b", "a"]
        expected: list[Any] = [[0.0], [0.5], [0.0], [0.5], [0.0]]
        values[place], expected[place] = "b" * length, None
        path.write_bytes(text_of(form, values))
        whole = read(path, block_bytes=block, batch_rows=rows)
        assert [len(batch) for batch, _ in whole] == [len(expected[i : i + rows]) for i in range(0, 5, rows)]
        assert [row for batch, _ in whole for row in batch] == expected
        taken = 0
        for batch, position in whole:
            taken += len(batch)
            rest = read(path, position, block_bytes=64, batch_rows=rows)
            assert [row for later, _ in rest for row in later] == expected[taken:]


def test_a_long_line_that_has_not_ended_is_read_again_by_a_later_run(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(text_of("csv", ["a", "b"]) + b"b" * 1000)
    follow: dict[str, Any] = {"follow": True, "poll_seconds": 0.01, "block_bytes": 64}
    first = read(path, **follow)
    assert [row for batch, _ in first for row in batch] == [[0.0], [0.5]]
    with path.open("ab") as file:
        file.write(b"b" * 1000 + b"\nb\n")
    assert [row for batch, _ in read(path, first[-1][1], **follow) for row in batch] == [None, [0.5]]


def test_it_stops_the_run_if_bad_rows_do_and_is_in_quarantine_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"x,who\na,ann\n" + b"b" * 1000 + b",bob\nb,bob\n")
    for policy in ("stop", "quarantine"):
        config = RunConfig(SCHEMA, epsilon=1.0, seed=1, person=Person("who", records=2))
        with Run.open(config, FolderSink(tmp_path / policy), state=tmp_path / f"{policy}.state") as run:
            with open_source(path, run.synth.input_schema, bad_rows=policy, line_bytes=LONGEST) as source:
                if policy == "stop":
                    with pytest.raises(TableError, match="line 3: a line of more than 0 MB"):
                        feed(run, source, bad_rows=policy)
                else:
                    feed(run, source, bad_rows=policy)
            assert run.t == (0 if policy == "stop" else 3)
            assert run.quarantine is not None
            assert run.quarantine.exists() == (policy == "quarantine")


def test_an_element_of_an_array_that_is_too_long_is_refused(tmp_path: Path) -> None:
    """It may be several: whether it is JSON is not looked at."""
    path = tmp_path / "a.json"
    path.write_bytes(b'[{"x": "a"}, {"x": "' + b"b" * 1000 + b'"}]')
    with pytest.raises(TableError, match="a line of more than"):
        read(path)
