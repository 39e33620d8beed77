"""A message is one record, whichever messages are read together with it: a poll cuts a topic anywhere."""

from __future__ import annotations

from typing import Any

import pytest

from headwater import Category, Number, Schema, TableError
from headwater.kafka import TopicBatch
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
