"""A message is one record, whichever messages are read together with it: a poll cuts a topic anywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwater import Category, Number, Person, Schema, TableError
from headwater.kafka import TopicBatch, encode, take
from headwater.run import FolderSink, Run, RunConfig
from tests.support.batch_points import points_in_places

ONE = Schema(x=Number(0, 1, missing=True))
TWO = Schema(x=Number(0, 1, missing=True), kind=Category("a", "b", "two\nlines", other="a"))
ODD = [b"", b"\n", b"\r", b" ", b"\0", b"\xff", b"\xff\xfe", b"\xef\xbb\xbf", b'"', b'""', b"0.5,\r,b", b"0.5\n0.25"]
JSON = [
    *ODD,
    b"[",
    b"]",
    b"[]",
    b'[{"x": 0.5, "kind": "b"}]',
    b'[{"x": 0.5, "kind": "b"}, {"x": 0.25, "kind": "a"}]',
    b'\xef\xbb\xbf{"x": 0.5, "kind": "b"}',
    b'{"x": 0.5,\n"kind": "b"}\n',
    b'{"x": 0.5, "kind": "b"}\n{"x": 0.5, "kind": "b"}',
    b"null",
]
CSV = [*ODD, b"0.5,b", b'0.5,"two\nlines"', b"\n0.5,b", b"\xef\xbb\xbf0.5,b", b"0.5,a\n0.25,b", b'0.5,"a\n', b"0.5,b,"]


def points(values: list[bytes], schema: Schema, form: str, policy: str) -> list[Any]:
    """The encoding of each message: None for a bad one."""
    found: list[Any] = []
    batch = TopicBatch(values, [(0, number) for number in range(len(values))], {})
    for part in batch.read(schema, form, policy):
        found += points_in_places(part, schema, policy)
    return found


CASES = [("json", message, b'{"x": 0.25, "kind": "a"}') for message in JSON]
CASES += [("csv", message, b"0.25,a") for message in CSV]


@pytest.mark.parametrize("policy", ["null", "quarantine"])
@pytest.mark.parametrize(("form", "message", "good"), CASES)
def test_a_message_means_the_same_wherever_it_stands(form: str, message: bytes, good: bytes, policy: str) -> None:
    for schema in (ONE, TWO) if form == "csv" else (TWO,):
        fine = good.partition(b",")[0] if schema is ONE else good
        (alone,), (first,) = (points([one], schema, form, policy) for one in (message, fine))
        assert first is not None
        assert points([message, fine, message, fine], schema, form, policy) == [alone, first, alone, first]


@pytest.mark.parametrize(("form", "message", "good"), CASES)
def test_a_message_is_refused_alone_if_it_is_refused_beside_others(form: str, message: bytes, good: bytes) -> None:
    def refused(values: list[bytes]) -> bool:
        try:
            points(values, TWO, form, "stop")
        except TableError:
            return True
        return False

    expected = points([message], TWO, form, "null") == [None]
    assert refused([message]) == refused([message, good]) == refused([good, message]) == expected


def messages(lines: list[str]) -> TopicBatch:
    return TopicBatch([line.encode() for line in lines], [(n % 2, 100 + n) for n in range(len(lines))], {})


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_topic_may_name_people(form: str, tmp_path: Path) -> None:
    """In CSV the person is the last column. A bad message uses up the cap of the person whom it names."""
    records = [{"x": number / 10, "kind": "ab"[number % 2], "who": f"p{number % 3}"} for number in range(10)]
    records.append({"x": 0.5, "kind": "b", "who": "new"})

    def line(record: dict[str, Any]) -> str:
        return json.dumps(record) if form == "json" else "{x},{kind},{who}".format(**record)

    config = RunConfig(TWO, 1.0, seed=1, person=Person("who", records=1))
    with Run.open(config, FolderSink(tmp_path / "out")) as run:
        found = encode(run, messages(list(map(line, records))), form)
        assert np.array_equal(found.rows, run.synth.encode(records).rows)
        take(run, messages(list(map(line, records))), form)
        assert (run.t, run.tally.capped) == (11, 7)
        assert run.release().schema == TWO
    bad = {"x": "?", "kind": "a", "who": "a"}
    with Run.open(config, FolderSink(tmp_path / "other")) as run:
        take(run, messages([line(bad), line(bad | {"x": 0.5})]), form, "null")
        assert (run.t, run.tally.capped, run.tally.bad) == (2, 1, 1)
        nobody = line(bad | {"x": 0.5, "who": ""})
        with pytest.raises(TableError, match='partition 0, offset 100, column "who"'):
            encode(run, messages([nobody]), form)


@pytest.mark.parametrize("form", ["json", "csv"])
@pytest.mark.parametrize("place", [0, 3000, 7999])
def test_a_bad_message_is_named_in_every_part_of_a_batch(form: str, place: int, tmp_path: Path) -> None:
    """So many columns are read a few thousand records at a time."""
    wide, values = Schema({f"c{i}": Number(0, 1) for i in range(700)}), ["0.5"] * 700

    def line(values: list[str]) -> str:
        return ",".join(values) if form == "csv" else json.dumps(dict(zip(wide.names, values, strict=False)))

    with Run.open(RunConfig(wide, 1.0), FolderSink(tmp_path / "out"), state=tmp_path / "state") as run:
        for bad in (line(["SECRET", *values[1:]]), line(values[1:])):
            lines = [line(values)] * 8000
            lines[place] = bad
            with pytest.raises(TableError, match=f"^partition {place % 2}, offset {100 + place}[:,]") as caught:
                encode(run, messages(lines), form)
            assert "SECRET" not in str(caught.value)
            found = encode(run, messages(lines), form, "quarantine")
            assert [row.row for row in found.bad] == [place]
            assert str(found.bad[0].error).startswith(f"partition {place % 2}, offset {100 + place}")
            assert found.tally.first_bad.startswith(f"partition {place % 2}, offset {100 + place}")
