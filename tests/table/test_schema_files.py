"""Schema files: what is saved is loaded again, and what is wrong with a file is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater import Boolean, Category, Datetime, Integer, Number, Schema, SchemaError, TimeOfDay

SCHEMA = Schema(
    {
        "age": Integer(0, 120, missing=True, weight=2),
        "dep time": TimeOfDay("1min"),
        "pay": Category("card", 'say "cash"', other="card"),
        "x": Number(-1.5, 1e300, outside="error"),
        "ok": Boolean(),
        "when": Datetime("2024-01-01T00:00:00+01:00", "2024-12-31T00:00:00+01:00", "15min", zone="Europe/Paris"),
        "price": Number(0, 20, decimals=2, decimal=",", thousands=".", missing=True, null_values=["NA", "-"]),
        "size": Number(1, 1000, scale="log", step=0.5),
        "day": Datetime("2024-01-01", "2024-12-31", "1d", format="%d.%m.%Y"),
        "clock": TimeOfDay(format="%H%M"),
        "kind": Category(["a", "b"], null_values=["?"], missing=True),
    }
)


@pytest.mark.parametrize("suffix", [".toml", ".json", ".TOML"])
def test_saved_and_loaded(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"schema{suffix}"
    SCHEMA.save(path)
    assert Schema.load(path) == SCHEMA
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # the mark of some editors
    assert Schema.load(str(path)) == SCHEMA


def test_toml_is_for_people(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    Schema({"age": Integer(0, 120), "dep time": Category("a", "b", missing=True)}).save(path)
    assert path.read_text(encoding="utf-8") == (
        'headwater = 1\n\n[columns.age]\nkind = "integer"\nlow = 0\nhigh = 120\n\n'
        '[columns."dep time"]\nkind = "category"\nvalues = [\n    "a",\n    "b",\n]\nmissing = true\n'
    )


def test_dates_of_toml_itself_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text('headwater = 1\n[columns.d]\nkind = "datetime"\nstart = 2024-01-01\nend = 2024-12-31T12:00:00\n')
    assert Schema.load(path) == Schema(d=Datetime("2024-01-01", "2024-12-31T12:00"))


HEAD = "headwater = 1\n[columns.age]\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[columns.age]\nkind = "boolean"', ["version of the format is missing", "headwater = 1"]),
        ('headwater = "1"\n[columns.age]\nkind = "boolean"', ["version of the format is missing"]),
        ('headwater = 2\n[columns.age]\nkind = "boolean"', ["format 2", "up to 1", "newer version"]),
        ("headwater = 1", ["there are no columns", "[columns.age]"]),
        ("headwater = 1\ncolumns = 3", ["there are no columns"]),
        ("headwater = 1\ncolumns.age = 3", ['column "age"', "must be a table"]),
        ('headwater = 1\nversion = 2\n[columns.age]\nkind = "boolean"', ['unknown key "version"', "headwater"]),
        (HEAD, ['column "age"', "kind is missing", "number, integer, category, boolean, datetime, time-of-day"]),
        (HEAD + 'kind = "float"', ['column "age"', 'unknown kind "float"', "number, integer"]),
        (HEAD + 'kind = "number"\nlo = 1', ['column "age"', 'unknown key "lo"', "low, high"]),
        (HEAD + 'kind = "boolean"\noutside = "clip"', ['unknown key "outside"']),
        (HEAD + 'kind = "number"\nhigh = 1', ['column "age"', "`low = 0.0`"]),
        (HEAD + 'kind = "integer"', ["`low = 0` and `high = 100`"]),
        (HEAD + 'kind = "category"\nvalues = []', ['column "age"', '`values = ["one", "another"]`']),
        (HEAD + 'kind = "category"\nvalues = "a"', ["values must be a list"]),
        (HEAD + 'kind = "number"\nlow = "0"\nhigh = 1', ['column "age"', "low must be a finite number"]),
        (HEAD + 'kind = "boolean"\nkind = "boolean"\n', ["not valid TOML", "line 4"]),
        (HEAD + 'kind = "boolean"\n[columns.age]\nkind = "boolean"', ["not valid TOML", "line 4"]),
        (HEAD + "low = # ???", ["not valid TOML", "line 3"]),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(text)
    with pytest.raises(SchemaError) as caught:
        Schema.load(path)
    assert str(caught.value).startswith(str(path))
    for word in words:
        assert word in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", ["does not hold an object"]),
        ("{", ["not valid JSON", "line 1"]),
        (
            '{"headwater": 1, "columns": {"a": {"kind": "boolean"}, "a": {"kind": "boolean"}}}',
            ['"a" is declared twice'],
        ),
        ("[" * 100_000, ["nested too deeply"]),
    ],
)
def test_what_is_wrong_with_json_is_said(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "schema.json"
    path.write_text(text)
    with pytest.raises(SchemaError) as caught:
        Schema.load(path)
    for word in [str(path), *words]:
        assert word in str(caught.value)


def test_other_files_are_not_read(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"must end in \.toml or \.json"):
        Schema.load(tmp_path / "schema.yaml")
    with pytest.raises(SchemaError, match=r"must end in \.toml or \.json"):
        SCHEMA.save(tmp_path / "schema")
    with pytest.raises(FileNotFoundError):
        Schema.load(tmp_path / "none.toml")
    path = tmp_path / "schema.json"
    path.write_bytes(json.dumps(SCHEMA.to_dict()).encode("utf-16"))
    with pytest.raises(SchemaError, match="not text in UTF-8"):
        Schema.load(path)
