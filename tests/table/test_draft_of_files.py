"""Drafts of files as they are downloaded: what comes late in them, columns without names, codes for missing values."""

import gzip
import json
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import headwater as hw
from headwater.cli.app import app

MANY = 60_000  # records: far more than are looked at for how they are written


def call(line: str) -> Result:
    return CliRunner().invoke(app, line.split())


def columns_of(text: str) -> dict[str, Any]:
    columns: dict[str, Any] = tomllib.loads(text)["columns"]
    return columns


@pytest.mark.parametrize("kind", ["plain", "gzip", "utf-16"])
def test_gaps_that_come_late_are_in_the_draft(tmp_path: Path, kind: str) -> None:
    """So a run is not refused once for each of them."""
    rows = [f"{i % 90},{'ab'[i % 2]},{i},{i % 7}\n" for i in range(MANY)]
    rows[-3:] = ["NA,late,,\n", ",a,1,2\n", "odd line\n"]
    text = "x,town,n,full\n" + "".join(rows)
    path = tmp_path / ("in.csv.gz" if kind == "gzip" else "in.csv")
    data = text.encode("utf-16" if kind == "utf-16" else "utf-8")
    path.write_bytes(gzip.compress(data) if kind == "gzip" else data)
    encoding = "utf-16" if kind == "utf-16" else None
    columns = columns_of(hw.draft(path, encoding=encoding))
    assert {name for name, column in columns.items() if column.get("missing")} == {"x", "n", "full"}
    assert columns["x"]["null_values"] == ["NA"]


@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_keys_and_gaps_of_json_that_come_late_are_in_the_draft(tmp_path: Path, kind: str) -> None:
    rows: list[dict[str, Any]] = [{"a": {"b": i}, "town": "xy"[i % 2], "full": i % 7, "n": i % 9} for i in range(MANY)]
    rows[-1] = {"a": None, "town": "late", "full": 1, "n": "NA", "new": True}
    path = tmp_path / f"in.{kind}"
    path.write_text(json.dumps(rows) if kind == "json" else "\n".join(map(json.dumps, rows)) + "\n")
    columns = columns_of(hw.draft(path))
    assert {name for name, column in columns.items() if column.get("missing")} == {"a.b", "n", "new"}
    assert (columns["new"]["kind"], columns["n"]["null_values"]) == ("boolean", ["NA"])


def test_parquet_says_where_values_are_missing(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [0.5] * MANY + [None], "y": [1] * (MANY + 1)}), tmp_path / "in.parquet")
    columns = columns_of(hw.draft(tmp_path / "in.parquet"))
    assert (columns["x"].get("missing"), columns["y"].get("missing")) == (True, None)


@pytest.mark.parametrize(
    ("header", "kept", "extra"),
    [("a;b;;", ["a", "b"], 2), ("a;b; ", ["a", "b"], 1), ("a;b;a", ["b"], 2), (";a;b", ["a", "b"], 1)],
)
def test_columns_without_a_name_of_their_own_are_left_out_and_the_run_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: str, kept: list[str], extra: int
) -> None:
    """As a delimiter at the end of every line makes one."""
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text(f"{header}\n" + f"{';'.join('1' for _ in header.split(';'))}\n" * 30)
    drafted = call("schema in.csv --delimiter ; --out s.toml")
    assert drafted.exit_code == 0, drafted.output
    text = Path("s.toml").read_text()
    assert list(columns_of(text)) == kept
    assert f"{extra} in the file" in text
    Path("s.toml").write_text(text.replace("# low", "low").replace("# high", "high"))
    done = call("run in.csv --schema s.toml --epsilon 1")
    assert done.exit_code == 0, done.output


def test_a_run_says_that_columns_have_no_name_and_how_to_leave_them_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("a;b;;\n1;1;;\n")
    schema = hw.Schema(a=hw.Integer(0, 9), b=hw.Integer(0, 9)).with_reading(delimiter=";")
    schema.save("s.toml")
    refused = call("run in.csv --schema s.toml --epsilon 1")
    assert "column(s) that the schema does not name" in refused.output
    assert "ignore_extra" in refused.output
    schema.with_reading(delimiter=";", ignore_extra=True).save("s.toml")
    assert call("run in.csv --schema s.toml --epsilon 1").exit_code == 0


@pytest.mark.parametrize(
    ("codes", "others", "side"),
    [
        (["-200"] * 5, [str(600 + 13 * i) for i in range(50)], "lowest"),  # the only one of its sign
        (["-999"] * 5, [str(i - 25) for i in range(50)], "lowest"),
        (["9999,0"] * 5, [f"{i},5" for i in range(50)], "highest"),
        (["0"] * 5, [str(1990 + i % 30) for i in range(50)], None),
        (["-999"], [str(i) for i in range(50)], None),  # one record is no code
        ([], [str(i) for i in range(50)], None),
        (["1"] * 5, ["0"] * 50, None),  # no and yes
        (["2"] * 50, ["1"] * 50, None),
        (["-1"] * 5, ["1"] * 50, None),
        (["-1"] * 5, ["0", "1"] * 25, "lowest"),
    ],
)
def test_codes_for_missing_values_are_named_without_the_value(
    codes: list[str], others: list[str], side: str | None
) -> None:
    mixed = others[::2] + codes + others[1::2]
    text = hw.draft({"x": mixed})
    assert (f"Its {side} value comes often" in text) == (side is not None)
    assert ("value comes often" in text) == (side is not None)
    assert not any(code in text for code in codes if code != "-999" and len(code) > 2)


@pytest.mark.parametrize(
    ("values", "kind", "declared"),
    [
        (["$5,000", "$12,500", "$300", "$1,000,000"], "integer", {"unit": "$", "thousands": ","}),
        (["150,000km", "5,000km", "1,000,000km"], "integer", {"unit": "km", "thousands": ","}),
        (["1.234,50 €", "12,05 €"], "number", {"unit": "€", "decimal": ",", "thousands": ".", "decimals": 2}),
        (["12 %", "3.5 %", "-4 %"], "number", {"unit": "%", "decimals": 1}),
        (["-$3", "$4"], "integer", {"unit": "$"}),
        (["18.00.00", "19.30.00"], "time-of-day", {"format": "%H.%M.%S"}),
        (["6:30 PM", "11:00 AM"], "time-of-day", {"format": "%I:%M %p"}),
        (["9h05", "17h30"], "time-of-day", {"format": "%Hh%M"}),
    ],
)
def test_units_and_clocks_are_drafted_and_read(values: list[str], kind: str, declared: dict[str, Any]) -> None:
    column = columns_of(hw.draft({"x": values}))["x"]
    assert column["kind"] == kind
    assert {key: column[key] for key in declared} == declared
    bounds = {} if kind == "time-of-day" else {"low": -10, "high": 10**7}
    hw.Schema.from_dict({"headwater": 1, "columns": {"x": column | bounds}}).encode({"x": values})


def test_the_unit_of_one_value_is_a_part_of_a_value() -> None:
    """It may be a name; a unit is what several numbers share."""
    text = hw.draft({"x": ["5 BOB"] * 3 + ["NA"]})
    assert "BOB" not in text
    assert "Looks like numbers with signs or units" in text


@pytest.mark.parametrize("far", ["1e999999999", "-1e999999999", "1e-999999999", "1e400"])
def test_numbers_beyond_all_others_are_drafted(far: str) -> None:
    assert columns_of(hw.draft({"x": [far, "5", "6.5"]}))["x"]["kind"] == "number"
