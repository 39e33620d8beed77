"""A record that is none uses up the cap of the person whom it names, whatever is wrong with its values."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import headwater as hw
from headwater.state import State
from tests.support.runs import nulls

KINDS: dict[str, tuple[Any, Any, list[Any]]] = {  # the column, a good value, bad ones
    "number": (hw.Number(0, 1), 0.5, ["junk", "", "0.5.1"]),
    "number outside": (hw.Number(0, 1, outside="error"), 0.5, [7, "junk"]),
    "integer": (hw.Integer(0, 9), 3, [1.5, "junk", ""]),
    "category": (hw.Category("a", "b"), "a", ["zzz", ""]),
    "boolean": (hw.Boolean(), True, ["junk", 2, ""]),
    "datetime": (hw.Datetime("2020-01-01", "2021-01-01"), "2020-05-05", ["hello", "2020-13-01", ""]),
    "time of day": (hw.TimeOfDay(), "13:45", ["25:99", "noon", ""]),
}
CASES = [(name, bad) for name, (_, _, bads) in KINDS.items() for bad in bads]


def written(path: Path, records: list[tuple[str, Any]]) -> Any:  # noqa: ANN401 - a file, or records
    if path.suffix == ".records":
        return [{"who": who, "x": value} for who, value in records]
    if path.suffix == ".csv":
        text = [str(value).lower() if isinstance(value, bool) else value for _, value in records]
        lines = [f"{who},{value}" for (who, _), value in zip(records, text, strict=True)]
        path.write_text("\n".join(["who,x", *lines]) + "\n")
    else:
        path.write_text("".join(json.dumps({"who": who, "x": value}) + "\n" for who, value in records))
    return path


def started(column: Any, person: str = "who") -> hw.Synthesizer:  # noqa: ANN401
    return hw.Synthesizer(
        hw.Schema(x=column), epsilon=1.0, mechanism="marginals", person=hw.Person(person, records=1), seed=1
    )


@pytest.mark.parametrize("kind", ["csv", "jsonl", "records"])
@pytest.mark.parametrize(("name", "bad"), CASES)
def test_the_second_record_never_counts(name: str, bad: Any, kind: str, tmp_path: Path) -> None:  # noqa: ANN401
    column, good, _ = KINDS[name]
    for first in (good, bad):
        synth = started(column)
        given = written(tmp_path / f"in.{kind}", [("ann", first), ("bob", good), ("ann", good)])
        assert nulls(synth, given) == [first is bad, False, True]
        assert (synth.t, synth.capped, synth.tally.bad) == (3, 1, int(first is bad))


@pytest.mark.parametrize("mechanism", ["cascade", "marginals", "paper"])
@pytest.mark.parametrize("per", [None, "1d"])
@pytest.mark.parametrize("null", ["refuse", "own", "nowhere"])
def test_a_line_is_kept_as_a_record_in_memory_is(mechanism: str, per: str | None, null: str, tmp_path: Path) -> None:
    """Bit for bit, person and period included; under either policy that lets bad records pass."""
    person, schema = hw.Person("who", records=2, per=per, null=null), hw.Schema(x=hw.Number(0, 1), y=hw.Number(0, 1))
    records = [("ann", "?"), ("bob", 0.5), ("ann", 0.1), (" ", "?"), ("7", "?"), ("ann", 0.2), ("bob", "?")]
    path = tmp_path / "in.csv"
    path.write_text("x,who,y\n" + "".join(f"{value},{who},0.5\n" for who, value in records))
    synth, seen = hw.Synthesizer(schema, epsilon=1.0, mechanism=mechanism, seed=1, person=person), list[hw.Batch]()

    def stamped(_: State, batch: hw.Batch) -> hw.Batch:
        seen.append(batch)
        return batch

    with patch.object(State, "stamped", stamped), patch.object(State, "after", lambda self, *_: self):
        synth.update(path, bad_rows="null")
    table = [{"x": value, "who": who, "y": 0.5} for who, value in records]
    for policy in ("null", "quarantine"):
        found = synth.encode(table, bad_rows=policy)
        assert np.array_equal(np.concatenate([batch.rows for batch in seen]), found.rows)


NAMED = {
    "csv": ['ann,5" disk', 'ann,5" or 6"', 'ann,"junk', '"ann",5" disk', "ann,\0", "ann,a\rb", "ann,\udcff"],
    "jsonl": [
        '{"who": "ann", "x": "a", "z": 1}',
        '{"who": "ann"}',
        '{"who": "ann", "x": "a", "x": "b"}',
        '{"who": "ann", "x": ["a"]}',
        '{"who": "ann", "x": "\\ud800"}',
        '{"who": "ann", "x": "\udcff"}',
    ],
}
NAMELESS = {
    "csv": ["ann", "ann,a,", "ann,a,b", '"ann,a', "\udcff,a", 'a"nn",a', ",zzz"],
    "jsonl": ["ann", '["ann"]', '{"x": "a"}', '{"who": "ann", "who": "ann", "x": "a"}', '{"who": ["ann"], "x": "a"}'],
}
LINES = [
    (kind, line, named) for named, all_ in ((True, NAMED), (False, NAMELESS)) for kind in all_ for line in all_[kind]
]


@pytest.mark.parametrize(("kind", "line", "named"), LINES)
def test_names_in_lines_that_are_no_records(kind: str, line: str, named: bool, tmp_path: Path) -> None:
    """Lines in which no name can be found are nobody's."""
    path = tmp_path / f"in.{kind}"
    rest = ["bob,a", "ann,a"] if kind == "csv" else [json.dumps({"who": who, "x": "a"}) for who in ("bob", "ann")]
    lines = [*(["who,x"] if kind == "csv" else []), line, *rest, ""]
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    assert nulls(started(hw.Category("a", "b")), path) == [True, False, named]


@pytest.mark.parametrize("record", [{"who": "ann"}, {"who": "ann", "x": "a", "z": 1}])
def test_names_in_records_with_other_keys(record: dict[str, Any]) -> None:
    synth = started(hw.Category("a", "b"))
    assert nulls(synth, [record, {"who": "bob", "x": "a"}, {"who": "ann", "x": "a"}]) == [True, False, True]
    assert nulls(synth, record) == nulls(synth, {"x": "a"}) == [True]
    assert (synth.capped, synth.tally.bad) == (2, 3)


@pytest.mark.parametrize(
    ("person", "kind", "lines"),
    [
        ("who", "jsonl", ['{"who": 7, "x": "?"}', '{"who": "7", "x": 0.5}']),
        ("user.id", "jsonl", ['{"user": {"id": "ann"}, "x": "?"}', '{"user": {"id": "ann"}, "x": 0.5}']),
        ("who", "csv", ["x,who", '?,"a,""b"""', '0.5,"a,""b"""']),
    ],
)
def test_names_are_read_as_in_good_lines(person: str, kind: str, lines: list[str], tmp_path: Path) -> None:
    """Numbers name whom their text names; names may be inside of objects, or in quotes."""
    path = tmp_path / f"in.{kind}"
    path.write_text("\n".join([*lines, ""]))
    assert nulls(started(hw.Number(0, 1), person), path) == [True, True]
