"""Records in memory mean what they mean in a file."""

import itertools

import pytest

from headwater import Category, Datetime, Integer, Number, Schema, TableError
from headwater.secret.read.batch import Batch
from headwater.secret.read.memory import JsonLines, read_bytes

SCHEMA = Schema(
    x=Number(0, 10),
    n=Integer(0, 9, missing=True),
    kind=Category("a", "ü", "7"),
    when=Datetime("2020-01-01", "2030-01-01", missing=True),
)
GOOD = b'{"x": 1.5, "n": 2, "kind": "a", "when": "2025-06-01T12:00:00"}'
LINES = [
    GOOD,
    GOOD + b"\r",
    b'{"when": null, "kind": "\xc3\xbc", "n": null, "x": 1e0}',
    b'{"x": "1.5", "n": "2", "kind": "7", "when": null}',
    b'{"x": 1, "n": 2.0, "kind": 7, "when": null}',
    b'{"x": 1.5, "n": 2, "kind": "\\u00fc", "when": "2025-06-01"}',
    b'{"x": 1.5, "n": 2, "kind": "a"}',
    b'{"x": 1.5, "n": 2, "kind": "a", "when": null, "more": 1}',
    b'{"x": 1.5, "x": 1.5, "n": 2, "kind": "a", "when": null}',
    b'{"x": NaN, "n": 2, "kind": "a", "when": null}',
    b'{"x": Inf, "n": 2, "kind": "a", "when": null}',
    b'{"x": -0.0, "n": -0, "kind": "a", "when": null}',
    b'{"x": 1.5, "n": 99999999999999999999, "kind": "a", "when": null}',
    b'{"x": [1.5], "n": 2, "kind": "a", "when": null}',
    b'{"x": 1.5, "n": 2, "kind": "a\xff", "when": null}',
    b'{"x": 1.5, "n": 2, "kind": "b", "when": null}',
    b'{"x": 1.5, "n": true, "kind": "a", "when": null}',
    b'{"x": 1.5, "n": 2, "kind": "a", "when": null} {"x": 1}',
    b'{"x": 1.5, "n": 2, "kind": "a", "when": null},',
    b'[{"x": 1.5}]',
    b" " + GOOD,
    b"\xef\xbb\xbf" + GOOD,
    b"\xff\xfe{",
    b"",
    b"{",
    b"}",
    b"{}",
]


def by_file(data: bytes) -> list[Batch] | None:
    try:
        return list(read_bytes(data, SCHEMA, "jsonl"))
    except TableError:
        return None


@pytest.mark.parametrize("line", LINES)
def test_a_line_that_is_read_at_once_is_what_a_file_of_it_holds(line: bytes) -> None:
    at_once, whole = JsonLines(SCHEMA).read([line]), by_file(line)
    if at_once is not None:
        assert whole is not None
        assert at_once.records == whole[0].records == 1
        assert at_once.table.equals(whole[0].table)


def test_most_good_lines_are_read_at_once() -> None:
    read = JsonLines(SCHEMA).read
    assert [read([line]) is not None for line in LINES[:6]] == [True] * 6


def test_lines_that_are_read_together_are_what_they_are_alone() -> None:
    read = JsonLines(SCHEMA).read
    good = [line for line in LINES if read([line]) is not None]
    assert len(good) >= 6
    for pair in itertools.product(LINES, repeat=2):
        found = read(pair)
        if set(pair) <= set(good):
            assert found is not None
            alone = [read([line]) for line in pair]
            assert [found.table.slice(row, 1).equals(one.table) for row, one in enumerate(alone) if one] == [True] * 2
        else:
            assert found is None
