"""A line of text that is no record uses up the cap of the person whom it names, whatever is wrong with its values."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import headwater as hw
from headwater.cli.app import app
from headwater.kafka import TopicBatch, encode
from headwater.run import FolderSink, Run, RunConfig
from headwater.run.restore import read_state
from headwater.secret.read.source import open_source

PERSON = hw.Person("who", records=1)
NULL = 65535
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


def written(path: Path, records: list[tuple[str, Any]]) -> Path:
    if path.suffix == ".csv":
        text = [str(value).lower() if isinstance(value, bool) else value for _, value in records]
        lines = [f"{who},{value}" for (who, _), value in zip(records, text, strict=True)]
        path.write_text("\n".join(["who,x", *lines]) + "\n")
    elif path.suffix == ".json":
        path.write_text(json.dumps([{"who": who, "x": value} for who, value in records]))
    else:
        path.write_text("".join(json.dumps({"who": who, "x": value}) + "\n" for who, value in records))
    return path


def started(column: Any) -> hw.Synthesizer:  # noqa: ANN401
    return hw.Synthesizer(hw.Schema(x=column), epsilon=1.0, mechanism="marginals", person=PERSON, seed=1)


def nulls(synth: Any) -> list[bool]:  # noqa: ANN401
    """Which records are nowhere."""
    return [code == NULL for code in synth._mechanism._codes[0, : synth.t].tolist()]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
@pytest.mark.parametrize(("name", "bad"), CASES)
def test_the_second_record_never_counts(name: str, bad: Any, kind: str, tmp_path: Path) -> None:  # noqa: ANN401
    column, good, _ = KINDS[name]
    for first in (good, bad):
        synth = started(column)
        path = written(tmp_path / f"in.{kind}", [("ann", first), ("bob", good), ("ann", good)])
        synth.update(path, bad_rows="null")
        assert nulls(synth) == [first is bad, False, True]
        assert (synth.t, synth.capped, synth.tally.bad) == (3, 1, int(first is bad))


@pytest.mark.parametrize("policy", ["null", "quarantine"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize(("name", "bad"), [(name, bads[0]) for name, (_, _, bads) in KINDS.items()])
def test_nor_in_a_run(name: str, bad: Any, kind: str, policy: str, tmp_path: Path) -> None:  # noqa: ANN401
    column, good, _ = KINDS[name]
    hw.Schema(x=column).save(tmp_path / "schema.toml")
    for number, first in enumerate((good, bad)):
        path = written(tmp_path / f"in.{kind}", [("ann", first), ("bob", good), ("ann", good)])
        state = tmp_path / f"{number}.state"
        words = f"run {path} --schema {tmp_path / 'schema.toml'} --epsilon 1 --mechanism marginals --person who"
        words += f" --records-per-person 1 --bad-rows {policy} --out {tmp_path / str(number)} --state {state}"
        done = CliRunner().invoke(app, words.split())
        assert done.exit_code == 0, done.output
        synth = read_state(state)
        assert nulls(synth) == [first is bad, False, True]
        assert (synth.t, synth.capped) == (3, 1)


@pytest.mark.parametrize("mechanism", ["cascade", "marginals", "paper"])
@pytest.mark.parametrize("per", [None, "1d"])
@pytest.mark.parametrize("null", ["refuse", "own", "nowhere"])
def test_a_line_is_kept_as_a_record_in_memory_is(mechanism: str, per: str | None, null: str, tmp_path: Path) -> None:
    """Bit for bit, person and period included."""
    person = hw.Person("who", records=2, per=per, null=null)
    schema = hw.Schema(x=hw.Number(0, 1), y=hw.Number(0, 1))
    records = [("ann", "?"), ("bob", 0.5), ("ann", 0.1), (" ", "?"), ("7", "?"), ("ann", 0.2), ("bob", "?")]
    path = tmp_path / "in.csv"
    path.write_text("x,who,y\n" + "".join(f"{value},{who},0.5\n" for who, value in records))
    config = RunConfig(schema, 1.0, mechanism=mechanism, seed=1, person=person)
    with Run.open(config, FolderSink(tmp_path / "out")) as run:
        (batch,) = (one for one in open_source(path, run.synth.input_schema, bad_rows="null") if one)
        rows, _, _ = run.encode_batch(batch, bad_rows="null")
        table = [{"x": value, "who": who, "y": 0.5} for who, value in records]
        assert np.array_equal(rows, run.synth.encode(table, bad_rows="null"))


ODD_LINES = {
    "a quote in a value": 'ann,5" disk',
    "two quotes in a value": 'ann,5" or 6"',
    "an open quote": 'ann,"junk',
    "a quoted name": '"ann",5" disk',
    "a NUL byte": "ann,\0",
    "a lone carriage return": "ann,a\rb",
    "bytes that are no text": "ann,\udcff",
}


@pytest.mark.parametrize("line", ODD_LINES.values(), ids=ODD_LINES)
def test_names_in_lines_of_csv_against_the_rules(line: str, tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(f"who,x\n{line}\nbob,a\nann,a\n".encode("utf-8", "surrogateescape"))
    synth = started(hw.Category("a", "b"))
    synth.update(path, bad_rows="null")
    assert nulls(synth) == [True, False, True]


ODD_OBJECTS = {
    "a further key": '{"who": "ann", "x": "a", "z": 1}',
    "a missing key": '{"who": "ann"}',
    "a key twice": '{"who": "ann", "x": "a", "x": "b"}',
    "a nested value": '{"who": "ann", "x": ["a"]}',
    "half a character": '{"who": "ann", "x": "\\ud800"}',
    "bytes that are no text": '{"who": "ann", "x": "\udcff"}',
}


@pytest.mark.parametrize("line", ODD_OBJECTS.values(), ids=ODD_OBJECTS)
def test_names_in_objects_that_are_no_records(line: str, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    lines = [line, '{"who": "bob", "x": "a"}', '{"who": "ann", "x": "a"}', ""]
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    synth = started(hw.Category("a", "b"))
    synth.update(path, bad_rows="null")
    assert nulls(synth) == [True, False, True]


@pytest.mark.parametrize("record", [{"who": "ann"}, {"who": "ann", "x": "a", "z": 1}])
def test_names_in_records_with_other_keys(record: dict[str, Any]) -> None:
    synth = started(hw.Category("a", "b"))
    synth.update([record, {"who": "bob", "x": "a"}, {"who": "ann", "x": "a"}], bad_rows="null")
    assert nulls(synth) == [True, False, True]
    synth.update(record, bad_rows="null")
    synth.update({"x": "a"}, bad_rows="null")
    assert (synth.capped, synth.tally.bad) == (2, 3)


NAMELESS = {
    "csv": ["ann", "ann,a,", "ann,a,b", '"ann,a', "\udcff,a", 'a"nn",a', ",zzz"],
    "jsonl": ["ann", '["ann"]', '{"x": "a"}', '{"who": "ann", "who": "ann", "x": "a"}', '{"who": ["ann"], "x": "a"}'],
}


@pytest.mark.parametrize(("kind", "line"), [(kind, line) for kind, lines in NAMELESS.items() for line in lines])
def test_lines_in_which_no_name_can_be_found_are_nobodys(kind: str, line: str, tmp_path: Path) -> None:
    path = tmp_path / f"in.{kind}"
    rest = ["bob,a", "ann,a"] if kind == "csv" else [json.dumps({"who": who, "x": "a"}) for who in ("bob", "ann")]
    lines = [*(["who,x"] if kind == "csv" else []), line, *rest, ""]
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    synth = started(hw.Category("a", "b"))
    synth.update(path, bad_rows="null")
    assert nulls(synth) == [True, False, False]


def test_names_are_read_as_in_good_lines(tmp_path: Path) -> None:
    """What means a missing value names nobody; numbers name whom their text names; names may be inside of objects."""
    schema = hw.Schema(x=hw.Number(0, 1))
    for person, lines in {
        "who": ['{"who": 7, "x": "?"}', '{"who": "7", "x": 0.5}'],
        "user.id": ['{"user": {"id": "ann"}, "x": "?"}', '{"user": {"id": "ann"}, "x": 0.5}'],
    }.items():
        path = tmp_path / "in.jsonl"
        path.write_text("\n".join([*lines, ""]))
        synth = hw.Synthesizer(schema, epsilon=1.0, mechanism="marginals", person=hw.Person(person, records=1), seed=1)
        synth.update(path, bad_rows="null")
        assert nulls(synth) == [True, True]
    path = tmp_path / "in.csv"
    path.write_text('x,who\n?,NA\n?,"a,""b"""\n0.5,"a,""b"""')
    schema = hw.Schema(x=hw.Number(0, 1, null_values=["NA"]))
    config = RunConfig(schema, 1.0, mechanism="marginals", seed=1, person=PERSON)
    with Run.open(config, FolderSink(tmp_path / "out")) as run:
        (batch,) = (one for one in open_source(path, run.synth.input_schema, bad_rows="null") if one)
        rows, tally, _ = run.encode_batch(batch, bad_rows="null")
        run.take_rows(rows, tally)
        assert run.tally.capped == 1


@pytest.mark.parametrize(("form", "bad", "good"), [("json", '{"who":"a","x":"?"}', '{"who":"a","x":1}'),
                                                  ("csv", "?,a", "1,a")])  # fmt: skip
def test_messages_of_a_topic(form: str, bad: str, good: str, tmp_path: Path) -> None:
    batch = TopicBatch([bad.encode(), good.encode()], [(0, 0), (0, 1)], {})
    config = RunConfig(hw.Schema(x=hw.Number(0, 1)), 1.0, mechanism="marginals", seed=1, person=PERSON)
    with Run.open(config, FolderSink(tmp_path / "out")) as run:
        rows, tally, _ = encode(run, batch, form, "null")
        run.take_rows(rows, tally)
        assert (run.t, run.tally.capped, run.tally.bad) == (2, 1, 1)
