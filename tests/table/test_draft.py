"""Drafts of schemas: from names and types alone, and of no use before a person has filled them in."""

from __future__ import annotations

import datetime as dt
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.table.columns import COLUMN_KINDS, Boolean, Integer, TimeOfDay
from headwater.table.draft import draft_schema
from headwater.table.errors import SchemaError
from headwater.table.schema import Schema
from tests.table.strategies import names

pa, pd, pl = (pytest.importorskip(library) for library in ("pyarrow", "pandas", "polars"))

ARROW = pa.table(
    {
        "integer": pa.array([1]),
        "number": pa.array([1.5]),
        "category": pa.array(["x"]),
        "datetime": pa.array([dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]),
        "boolean": pa.array([True]),
    }
)
TYPES: dict[str, dict[str, object]] = {
    "arrow": {field.name: field.type for field in ARROW.schema},
    "pandas": ARROW.to_pandas().dtypes.to_dict(),
    "pandas nullable": ARROW.to_pandas().convert_dtypes().dtypes.to_dict(),
    "polars": dict(pl.DataFrame(ARROW).schema),
    "python": {"integer": int, "number": float, "category": str, "datetime": dt.datetime, "boolean": bool},
    "words": dict(zip(COLUMN_KINDS, COLUMN_KINDS, strict=True)),
}


@pytest.mark.parametrize("library", TYPES)
def test_the_type_of_any_library_says_the_kind(library: str) -> None:
    types = TYPES[library]
    drafted = tomllib.loads(draft_schema(types))
    assert {name: column["kind"] for name, column in drafted["columns"].items()} == {name: name for name in types}


def test_other_types() -> None:
    types = {
        "a": pa.time64("us"),
        "b": pa.date32(),
        "c": pl.Time,
        "d": pa.duration("s"),
        "e": pa.dictionary(pa.int8(), pa.string()),
    }
    kinds = [column["kind"] for column in tomllib.loads(draft_schema(types))["columns"].values()]
    assert kinds == ["time-of-day", "datetime", "time-of-day", "number", "category"]
    assert 'step = "1d"' in draft_schema({"b": pa.date32()})
    assert "time span" in draft_schema({"d": pd.Timedelta})


@settings(deadline=None)
@given(st.dictionaries(names, st.sampled_from(["int", "float", "str", "bool", "date", "odd type"]), min_size=1))
def test_any_names_give_a_draft_in_their_order(types: dict[str, str]) -> None:
    drafted = tomllib.loads(draft_schema(types))
    assert list(drafted["columns"]) == list(types)


@pytest.mark.parametrize(
    ("type_", "line"),
    [("int64", "low = 0"), ("double", "low = 0.0"), ("string", "values = ["), ("timestamp[us]", 'start = "2024-01-01')],
)
def test_a_draft_is_not_used_as_it_is(tmp_path: Path, type_: str, line: str) -> None:
    """Loading it names the column and the line to write."""
    path = tmp_path / "draft.toml"
    path.write_text(draft_schema({"ok": "bool", "dep time": type_}))
    with pytest.raises(SchemaError) as caught:
        Schema.load(path)
    assert caught.value.column == "dep time"
    assert caught.value.file == str(path)
    assert line in str(caught.value)


def test_a_draft_that_is_filled_in_is_a_schema(tmp_path: Path) -> None:
    path = tmp_path / "draft.toml"
    text = draft_schema({"age": "int64", "ok": "bool", "at": "time"})
    path.write_text(text.replace("# low = 0 ", "low = 0 ").replace("# high = 100", "high = 120"))
    assert Schema.load(path) == Schema(age=Integer(0, 120), ok=Boolean(), at=TimeOfDay())


def test_every_open_line_is_valid_once_it_is_no_comment() -> None:
    text = draft_schema(dict.fromkeys(["a"], "int") | {"b": "float", "c": "timestamp[us, tz=UTC]"})
    filled = text.replace("\n# low", "\nlow").replace("\n# high", "\nhigh")
    filled = filled.replace("\n# start", "\nstart").replace("\n# end", "\nend")
    schema = Schema.from_dict(tomllib.loads(filled))
    assert schema.columns["c"].to_dict()["start"] == "2024-01-01T00:00:00+00:00"


def test_a_draft_says_why() -> None:
    assert "Never take them from the data" in draft_schema({"a": "int"})
    with pytest.raises(SchemaError, match="no columns to draft"):
        draft_schema({})
