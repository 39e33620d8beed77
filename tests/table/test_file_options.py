"""How files are read can be declared in the schema file: once, for every command that reads them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.evaluation.evaluation import evaluate
from headwater.public.errors import SchemaError, TableError
from headwater.public.schema import Schema, schema_from_dict
from headwater.run import FolderSink, Moment, Run, feed, measured_beside
from headwater.run.config import RunConfig
from headwater.secret.read.draft import draft
from headwater.secret.read.source import open_source, read_bytes

TOP = 'headwater = 1\nencoding = "latin-1"\ndelimiter = ";"\ninput_format = "csv"\nignore_extra = true\n'
COLUMNS = '[columns.city]\nkind = "category"\nvalues = ["Köln", "Bonn"]\n'
TEXT = "city;more\nKöln;1\nBonn;2\n"


def declared(tmp_path: Path, top: str = TOP) -> Schema:
    path = tmp_path / "schema.toml"
    path.write_text(top + COLUMNS, encoding="utf-8")
    return Schema.load(path)


def cities(path: Path, schema: Schema, **options: Any) -> list[str]:  # noqa: ANN401 - fields of Options
    with open_source(path, schema, **options) as source:
        return [city for batch in source if batch for city in batch.table["city"].to_pylist()]


def test_a_file_is_read_as_its_schema_declares(tmp_path: Path) -> None:
    (tmp_path / "cities.txt").write_bytes(TEXT.encode("latin-1"))
    schema = declared(tmp_path)
    assert cities(tmp_path / "cities.txt", schema) == ["Köln", "Bonn"]
    synth = hw.Synthesizer(schema, epsilon=1.0)
    synth.update(tmp_path / "cities.txt")
    assert synth.t == 2


def test_options_win_over_the_schema(tmp_path: Path) -> None:
    (tmp_path / "cities.csv").write_bytes(TEXT.replace(";", "\t").encode("utf-16"))
    schema = declared(tmp_path)
    assert cities(tmp_path / "cities.csv", schema, encoding="utf-16", delimiter="\t") == ["Köln", "Bonn"]


def test_it_is_kept_and_is_not_part_of_what_a_record_is(tmp_path: Path) -> None:
    schema, plain = declared(tmp_path), declared(tmp_path, "headwater = 1\n")
    schema.save(tmp_path / "again.json")
    again = Schema.load(tmp_path / "again.json")
    copied = pickle.loads(pickle.dumps(schema))  # noqa: S301 - our own
    expected = {"encoding": "latin-1", "delimiter": ";", "input_format": "csv", "ignore_extra": True}
    for same in (again, copied, schema.with_bad_rows("null")):
        assert dict(same.reading) == dict(schema.reading) == expected
    assert schema.with_reading() == schema == plain
    assert RunConfig(schema, 1.0).to_dict() == RunConfig(plain, 1.0).to_dict()
    assert not schema.for_releases().reading


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('encoding = "utf-7"', ["encoding must be utf-8", "leave it out"]),
        ("encoding = 8", ["encoding must be utf-8"]),
        ('delimiter = "::"', ["delimiter must be one plain character"]),
        ("delimiter = 1", ["delimiter must be one plain character"]),
        ('input_format = "xlsx"', ["format must be one of csv"]),
        ('ignore_extra = "no"', ["ignore_extra must be true or false"]),
        ("multiline = 1", ["multiline must be true or false"]),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, line: str, words: list[str]) -> None:
    with pytest.raises(SchemaError) as caught:
        declared(tmp_path, f"headwater = 1\n{line}\n")
    for word in [*words, "schema.toml"]:
        assert word in str(caught.value)
    with pytest.raises(SchemaError, match="known keys are delimiter, encoding"):
        declared(tmp_path, "headwater = 1\n").with_reading(charset="latin-1")


def test_bytes_that_are_no_file_are_read_as_they_say_themselves(tmp_path: Path) -> None:
    """Of posts and messages the schema decides only what is left out."""
    schema = declared(tmp_path)
    (batch,) = read_bytes("city,more\nKöln,1\n".encode(), schema, "csv")
    assert batch.table["city"].to_pylist() == ["Köln"]
    line = '{"city": "Köln", "more": 1}'.encode()
    (batch,) = read_bytes(line + b"\n", schema, "jsonl")
    assert batch.table["city"].to_pylist() == ["Köln"]


def test_a_draft_declares_how_its_file_was_read(tmp_path: Path) -> None:
    (tmp_path / "cities.csv").write_bytes(TEXT.encode("latin-1"))
    text = draft(tmp_path / "cities.csv", encoding="latin-1", delimiter=";")
    (tmp_path / "draft.toml").write_text(
        text.replace("# low = 0 ", "low = 0 ")
        .replace("# high", "high")
        .replace("values = []", 'values = ["Köln", "Bonn"]')
    )
    assert cities(tmp_path / "cities.csv", Schema.load(tmp_path / "draft.toml")) == ["Köln", "Bonn"]


@pytest.mark.parametrize("late", ["declared", "option"])
def test_what_was_in_force_is_on_the_card(late: str, tmp_path: Path) -> None:
    """Also where it came after a run that failed without it, or as an option: releases are compared as it was read."""
    (tmp_path / "in.csv").write_text("a;b\n" + "1;x\n" * 20)
    bare = Schema(a=hw.Integer(0, 9))
    as_read = bare.with_reading(delimiter=";", ignore_extra=True)
    sink, state = FolderSink(tmp_path / "out"), tmp_path / "run.state"
    with Run.open(RunConfig(bare, epsilon=1.0), sink, state=state) as run, pytest.raises(TableError):
        feed(run, open_source([str(tmp_path / "in.csv")], bare, None))
    options: dict[str, Any] = {"delimiter": ";", "ignore_extra": True} if late == "option" else {}
    schema = bare if options else as_read
    with (
        Run.open(RunConfig(schema, epsilon=1.0), sink, state=state) as run,
        open_source([str(tmp_path / "in.csv")], schema, None, **options) as source,
    ):
        feed(run, source)
    (folder,) = (tmp_path / "out").glob("release-*")
    card = json.loads((folder / "card.json").read_text())
    assert getattr(schema_from_dict(card["schema"]), "reading", None) == as_read.reading
    assert getattr(Moment.read(measured_beside(state)).release().schema, "reading", None) == as_read.reading
    assert evaluate(tmp_path / "in.csv", folder).cut == {}
