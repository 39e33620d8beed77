"""Drafts of schemas: from names and types alone, and of no use before a person has filled them in."""

from __future__ import annotations

import datetime as dt
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater import SchemaError
from tests.support.reading import rows
from tests.table.strategies import names

pa, pd, pl = (pytest.importorskip(library) for library in ("pyarrow", "pandas", "polars"))

pq = pytest.importorskip("pyarrow.parquet")

ARROW = pa.table(
    {
        "integer": pa.array([1, None]),
        "number": pa.array([1.5, None]),
        "category": pa.array(["x", None]),
        "datetime": pa.array([dt.datetime(2020, 1, 1, tzinfo=dt.UTC), None]),
        "boolean": pa.array([True, None]),
    }
)
FRAMES: dict[str, Any] = {
    "arrow": ARROW,
    "arrow without rows": ARROW[:0],
    "pandas": ARROW[:1].to_pandas(),
    "pandas nullable": ARROW.to_pandas().convert_dtypes(),
    "polars": pl.DataFrame(ARROW),
    "columns": ARROW.to_pydict(),
    "records": ARROW.to_pylist(),
}


@pytest.mark.parametrize("library", FRAMES)
def test_the_type_of_any_library_says_the_kind(library: str) -> None:
    found = tomllib.loads(hw.draft(FRAMES[library]))["columns"]
    assert {name: column["kind"] for name, column in found.items()} == {name: name for name in ARROW.column_names}


def test_other_types() -> None:
    types = [pa.time64("us"), pa.date32(), pa.duration("s"), pa.dictionary(pa.int8(), pa.string())]
    text = hw.draft(pa.table([pa.array([None], type_) for type_ in types], names=list("abcd")))
    kinds = [column["kind"] for column in tomllib.loads(text)["columns"].values()]
    assert kinds == ["time-of-day", "datetime", "number", "category"]
    assert 'step = "1d"' in text
    assert "time span" in text


@given(st.dictionaries(names, st.sampled_from([1, 1.5, "a", True, dt.date(2024, 1, 1), b"odd"]), min_size=1))
def test_any_names_give_a_draft_in_their_order(record: dict[str, Any]) -> None:
    assert list(tomllib.loads(hw.draft([record]))["columns"]) == list(record)


@pytest.mark.parametrize(
    ("value", "line"), [(1, "low = 0"), (1.5, "low = 0.0"), ("a", "values = ["), (dt.date(2024, 1, 1), 'start = "2024')]
)
def test_a_draft_is_not_used_as_it_is(tmp_path: Path, value: object, line: str) -> None:
    """Loading it names the column and the line to write."""
    path = tmp_path / "draft.toml"
    path.write_text(hw.draft({"ok": [True], "dep time": [value]}))
    with pytest.raises(SchemaError) as caught:
        hw.Schema.load(path)
    assert caught.value.column == "dep time"
    assert caught.value.file == str(path)
    assert line in str(caught.value)


def test_every_open_line_is_valid_once_it_is_no_comment() -> None:
    moment = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    text = hw.draft({"a": [1], "b": [1.5], "c": [moment], "d": [True], "e": [dt.time(1)]})
    filled = text.replace("\n# low", "\nlow").replace("\n# high", "\nhigh")
    filled = filled.replace("\n# start", "\nstart").replace("\n# end", "\nend")
    schema = hw.Schema.from_dict(tomllib.loads(filled))
    assert schema.columns["c"].to_dict()["start"] == "2024-01-01T00:00:00+00:00"
    assert "Never take them from the data" in text
    with pytest.raises(SchemaError, match="no columns to draft"):
        hw.draft({})


def drafted(data: object, **options: Any) -> tuple[dict[str, Any], str]:  # noqa: ANN401 - options of a reader
    text = hw.draft(data, **options)
    columns: dict[str, Any] = tomllib.loads(text)["columns"]
    return columns, text


def column_of(values: list[str], name: str = "x") -> tuple[dict[str, Any], str]:
    columns, text = drafted({name: values})
    return columns[name], text


@pytest.mark.parametrize(
    ("values", "declared"),
    [
        (["1", "2", ""], {"kind": "integer", "missing": True}),
        (["1.0", "NA", "3.0"], {"kind": "integer", "missing": True, "null_values": ["NA"]}),
        (["1.25", "3.5"], {"kind": "number", "decimals": 2}),
        (["1,5", "2,25"], {"kind": "number", "decimal": ",", "decimals": 2}),
        (["1.234,5", "2,5"], {"kind": "number", "decimal": ",", "thousands": ".", "decimals": 1}),
        (["1,234", "12,345,678"], {"kind": "integer", "thousands": ","}),
        (["0,125", "1,250"], {"kind": "number", "decimal": ",", "decimals": 3}),
        (["-0,125", "1,250"], {"kind": "number", "decimal": ",", "decimals": 3}),
        (["1,234", "1500"], {"kind": "number", "decimal": ",", "decimals": 3}),
        (["1,234", "0"], {"kind": "integer", "thousands": ","}),
        (["1\u202f234,5", "12"], {"kind": "number", "decimal": ",", "thousands": "\u202f", "decimals": 1}),
        (["yes", "no", "N/A"], {"kind": "boolean", "missing": True, "null_values": ["N/A"]}),
        (["2016,50", "2017,25"], {"kind": "number", "decimal": ",", "decimals": 2}),  # and no time of day
        (["2024-01-02", "2024-01-03"], {"kind": "datetime"}),
        (["Jan 5, 2024", "Dec 31, 2023"], {"kind": "datetime", "format": "%b %d, %Y"}),
        (["29-Feb-2024 01:45 PM", "01-Mar-2024 11:00 AM"], {"kind": "datetime", "format": "%d-%b-%Y %I:%M %p"}),
        (["10/Oct/2000:13:55:36 -0700"], {"kind": "datetime", "format": "%d/%b/%Y:%H:%M:%S %z"}),
        (["Sat Feb 29 13:45:10 2020"], {"kind": "datetime", "format": "%a %b %d %H:%M:%S %Y"}),
        (["2010/01/01 00:00:00"], {"kind": "datetime", "format": "%Y/%m/%d %H:%M:%S"}),
        (["31.01.2024", "?"], {"kind": "datetime", "format": "%d.%m.%Y", "missing": True, "null_values": ["?"]}),
        (["13:45", "01:00"], {"kind": "time-of-day"}),
        (["1,5", "k.A."], {"kind": "number", "decimal": ",", "decimals": 1, "missing": True, "null_values": ["k.A."]}),
        (["5", "s/d", "n.v.", "#NV"], {"kind": "integer", "missing": True, "null_values": ["n.v.", "#NV", "s/d"]}),
        (["ja", "keine Angabe"], {"kind": "category", "missing": True, "null_values": ["keine Angabe"]}),
        (["ND", "SD"], {"kind": "category"}),  # states of the USA
        (["red", "green"], {"kind": "category"}),
        (["007", "042"], {"kind": "category"}),
    ],
)
def test_a_draft_finds_how_values_are_written(values: list[str], declared: dict[str, Any]) -> None:
    found, _ = column_of(values)
    assert {key: value for key, value in found.items() if key not in ("step", "values")} == declared


@pytest.mark.parametrize(
    ("values", "decimals"),
    [
        (["10.357020001", "8.055460002"], 4),
        (["0.3570200011", "0.8055460002"], 6),
        (["-1035702.0000001", "8.5"], 0),
        (["0.0000000000357020011", "0.00000000008"], None),  # so few digits would be left that nothing is said
    ],
)
def test_numbers_with_all_digits_of_a_float_are_drafted_with_about_six(values: list[str], decimals: int | None) -> None:
    found, text = column_of(values)
    assert found.get("decimals") == decimals
    assert ("more were seen" in text) == (decimals is not None)


@pytest.mark.parametrize(
    ("values", "step"),
    [
        (["9/30/1990 0:00:00", "11/29/1993 0:00:00"], "1d"),
        (["2013-01-01T06:00:00Z", "2013-01-01T07:00:00Z"], "1h"),
        (["2013-01-01 06:00", "2013-01-01 07:30"], "1min"),
        (["2013-01-01 06:00:01", "NA"], "1s"),
        (["2013-01-01 06:00:01.123"], "1ms"),
        (["13:45", "01:00"], "1min"),
    ],
)
def test_a_draft_proposes_steps_as_fine_as_times_are(values: list[str], step: str) -> None:
    assert column_of(values, "when")[0]["step"] == step


def test_decimals_and_steps_agree_with_all_that_was_read() -> None:
    numbers, days = ["1"] * 9000 + ["1.25"], ["2024-01-01"] * 9000 + ["2024-01-01T05:30"]
    columns, text = drafted({"x": numbers, "day": days})
    assert (columns["x"]["decimals"], columns["day"]["step"]) == (2, "1min")
    assert text.count("to be confirmed") == 2
    assert "all 9,001 values that were read" in text


DIFFERENT, AGES = [f"u{number}" for number in range(30)], [str(20 + i * 37 % 60) for i in range(300)]
REMARKS = [f"the pilot reported {number // 2} birds near the runway" for number in range(400)]
ODD = [str(number % 7 + 0.5) for number in range(97)] + ["5ecret", "5ecret", "n/k"]
AT = [dt.datetime(2024, 1, 1) + dt.timedelta(minutes=number * number) for number in range(100)]
NOTES: list[tuple[str, list[Any], str, bool]] = [
    *(("x", values, "three digits follow every comma", True) for values in (["1,234", "2,500"], ["1,234", "12"])),
    *(("x", values, "three digits follow every point", True) for values in (["1.234", "2.500"], ["1.000", "2.000"])),
    *(
        ("x", values, "Not sure", False)
        for values in (["1,234", "1,234,567"], ["1,234", "2,500.5"], ["0,125", "1,250"])
    ),
    *(("x", values, "Not sure", False) for values in (["1,5", "1,250"], ["0.125", "1.250"], ["1.234", "1500"])),
    ("x", DIFFERENT, "an identifier or free text", True),
    ("x", DIFFERENT * 2, "an identifier or free text", False),
    ("x", list(map(str, range(30))), "perhaps an identifier", True),
    ("remarks", REMARKS, "free text", True),
    ("paid", ["0", "1"] * 20, 'declare kind = "boolean"', True),
    ("children", ["0", "1", "2"] * 20, "boolean", False),
    *((name, ["a", "a"], "sounds like a person's", True) for name in ("id", "user_id", "customerId", "E-Mail")),
    *((name, ["a", "a"], "by --person in the run", True) for name in ("first_name", "Passport No", "user.id")),
    *((name, ["a", "a"], "sounds like a person's", False) for name in ("idle", "width", "paid", "user.city")),
    ("x", ["01/02/2024"], 'can also be read as "%m/%d/%Y"', True),
    *(("x", [one, "6 Mai 2020"], "Looks like dates", True) for one in ("5. Mai 2020", "May 5th, 2020", "3/4/2024")),
    *(("x", [one, "7.00 EUR"], "Looks like numbers with signs or units", True) for one in ("$1,234.50", "5.5 km")),
    *(("x", [one, "A1"], "Looks like", False) for one in ("north", "3rd floor", "2-4", "10:30-11")),
    ("x", ODD, "3 of 100 values that were read keep it from being numbers or times", True),
    ("at", AT, "Grows with the file", True),
    ("at", [at - dt.timedelta(days=2) * (number % 10 == 9) for number, at in enumerate(AT)], "Grows with", True),
    ("at", [AT[number * 37 % 100] for number in range(100)], "Grows with", False),
    ("at", AT[::-1], "Grows with", False),
    ("at", AT[:10], "Grows with", False),
    ("at", AT[:1] * 100, "Grows with", False),
    ("day", [str(i // 7) for i in range(300)], "Grows with", True),  # of a study
    ("age", AGES, "Grows with", False),
]


@pytest.mark.parametrize(("name", "values", "note", "said"), NOTES)
def test_a_draft_says_what_is_not_sure_and_what_is_best_left_out(
    name: str, values: list[Any], note: str, said: bool
) -> None:
    for column in (values, list(map(str, values))):
        assert (note in hw.draft({name: column})) == said


def test_no_value_is_in_a_draft() -> None:
    """Bounds and values stay open, whatever is in the data."""
    values = {"secret": ["5ecret", "5ecret", None], "pay": [41378.25, 92811.5, None], "born": ["17.03.1961", "", "NA"]}
    for table in (values, pd.DataFrame(values), pl.DataFrame(values), pa.table(values)):
        text = hw.draft(table)
        assert not any(part in text for part in ("5ecret", "41378", "92811", "1961", "17.03"))
        with pytest.raises(SchemaError, match="must be declared"):
            hw.Schema.from_dict(tomllib.loads(text))
        assert all(column["missing"] for column in tomllib.loads(text)["columns"].values())
    assert "5ecret" not in hw.draft({"x": ODD}, values=True)  # which are no categories


@pytest.mark.parametrize(
    ("name", "value", "format_"),
    [
        ("created_at", "1704153600", "epoch-s"),
        ("timestamp", "1704153600000", "epoch-ms"),
        ("date", "20240131", "%Y%m%d"),
        ("price", "1704153600", None),
    ],
)
def test_whole_numbers_that_count_time(name: str, value: str, format_: str | None) -> None:
    assert column_of([value], name)[0].get("format") == format_


@pytest.mark.parametrize(
    ("header", "mark"),
    [("a;b", ";"), ('"a";"b"', ";"), ("a\tb", "\t"), ("a|b", "|"), ("a,b", None), ("a,b;c", None), ("a", None)],
)
def test_a_draft_finds_what_divides_the_fields_and_declares_it(tmp_path: Path, header: str, mark: str | None) -> None:
    (tmp_path / "in.csv").write_text(f"{header}\n{header.replace('a', '1').replace('b', '2').replace('c', '3')}\n")
    drafted = tomllib.loads(hw.draft(tmp_path / "in.csv"))
    assert drafted.get("delimiter") == mark
    assert next(iter(drafted["columns"])) == "a"


def test_drafts_of_files(tmp_path: Path) -> None:
    """Of nested JSON no field is dropped; text may have its own encoding and delimiter."""
    (tmp_path / "a.json").write_text('[{"a": {"b": 1, "c": {"d": "x"}}, "l": [1]}, {"a": {"b": null}}]')
    columns, text = drafted(tmp_path / "a.json")
    assert set(columns) == {"a.b", "a.c.d", "l"}
    assert columns["a.b"] == {"kind": "integer", "missing": True}
    assert "Holds lists" in text
    (tmp_path / "a.csv").write_bytes("größe;ort\n1,5;Köln\n".encode("latin-1"))
    columns, _ = drafted(tmp_path / "a.csv", encoding="latin-1", delimiter=";")
    assert columns["größe"]["decimal"] == ","
    (tmp_path / "wide.csv").write_bytes("a\n1\n".encode("utf-16"))
    text = hw.draft(tmp_path / "wide.csv")  # which begins with the mark of its encoding
    assert (tomllib.loads(text)["encoding"], list(tomllib.loads(text)["columns"])) == ("utf-16", ["a"])
    with pytest.raises(
        hw.TableError, match=r'not UTF-8; declare its encoding in the schema file \(encoding = "cp1252"\)'
    ):
        hw.draft(tmp_path / "a.csv")
    with pytest.raises(hw.TableError, match="holds a semicolon; give it as the delimiter"):
        hw.draft(tmp_path / "a.csv", encoding="latin-1", delimiter="|")
    table = pa.table({"x": [1.5, None], "when": [dt.date(2024, 1, 2), None]})
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    columns, _ = drafted(tmp_path / "a.parquet")
    assert columns["x"] == {"kind": "number", "missing": True, "decimals": 1}
    assert columns["when"] == {"kind": "datetime", "step": "1d", "missing": True}


def test_a_filled_in_draft_reads_the_file_it_was_made_from(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('day;pay;kind\n31.01.2024;"1.234,5";a\nNA;7;b\n01.02.2024;?;a\n')
    text = hw.draft(path, delimiter=";")
    filled = text.replace("# low = 0.0", "low = 0.0").replace("# high = 1.0", "high = 9999.0")
    filled = filled.replace("# start", "start").replace("# end", "end").replace("values = []", 'values = ["a", "b"]')
    schema = hw.Schema.from_dict(tomllib.loads(filled))
    found = rows(path, schema, delimiter=";")
    assert [row["pay"] for row in found] == [1234.5, 7.0, None]
    assert [row["day"] is None for row in found] == [False, True, False]


def test_a_line_that_is_no_record_does_not_keep_a_draft_from_being_made(tmp_path: Path) -> None:
    """It is named in the draft, with the way out; a file of such lines is refused."""
    path = tmp_path / "a.csv"
    lines = ["x,text"] + ["1.5,good"] * 30
    for odd in ("1.5,two\rlines", "1.5", '1.5,"a"quote', '1.5,"open'):
        path.write_text("\n".join([*lines, odd, ""]), newline="")
        columns, text = drafted(path)
        assert columns["x"] == {"kind": "number", "decimals": 1}, odd
        assert "line 32" in text, odd
        filled = text.replace("# bad_rows", "bad_rows").replace("# low", "low").replace("# high = 1.0", "high = 9.0")
        schema = hw.Schema.from_dict(tomllib.loads(filled.replace("values = []", 'values = ["good"]')))
        synth = hw.Synthesizer(schema, epsilon=1.0)
        synth.update(path)
        assert (synth.t, synth.tally.bad) == (31, 1)
    path.write_text("\n".join([lines[0], *["1.5"] * 5]))
    with pytest.raises(hw.TableError, match=r"line 2.*1 field"):
        hw.draft(path)


def test_values_are_in_a_draft_only_if_they_are_asked_for_and_never_as_what_is_declared() -> None:
    table = {"town": ["Bonn", "Köln", 'the "old" one', "NA"], "age": ["18", "20", "35", "97"]}
    assert not any(word in hw.draft(table) for word in ("Bonn", "Köln", "the \\", "18", "97"))
    text = hw.draft(table, values=True)
    assert '# values = ["Bonn", "Köln", "the \\"old\\" one"]' in text
    assert "SEEN IN THE DATA, to be replaced by what is known without them" in text
    assert "as secret as the data" in text
    assert not any(number in text for number in ("18", "35", "97"))
    filled = text.replace("\n# values", "\nvalues").replace("# low", "low").replace("# high", "high")
    assert hw.Schema.from_dict(tomllib.loads(filled)).names == ("town", "age")
    many = {"town": [f"place {i}" for i in range(150)] * 2}
    assert "place" not in hw.draft(many, values=True)
    assert "Bonn" not in hw.draft({"surname": ["Bonn", "Bonn"]}, values=True)  # best left out


@pytest.mark.parametrize("scale", [1, 1000, 1_000_000])
@pytest.mark.parametrize("kind", ["columns", "parquet", "jsonl"])
def test_counts_of_seconds_are_times_in_every_format(scale: int, kind: str, tmp_path: Path) -> None:
    """Numbers in a column that is called a time; a draft that is filled in reads them."""
    counts = [(1_714_900_000 + 3700 * n) * scale for n in range(30)]
    path = tmp_path / f"in.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"created_at": counts}), path)
    elif kind == "jsonl":
        path.write_text("".join(f'{{"created_at": {count}}}\n' for count in counts))
    text = hw.draft({"created_at": counts} if kind == "columns" else path)
    name = {1: "epoch-s", 1000: "epoch-ms", 1_000_000: "epoch-us"}[scale]
    assert 'kind = "datetime"' in text
    assert f'format = "{name}"' in text
    filled = text.replace("# start =", "start =").replace("# end =", "end =")
    schema = hw.Schema.from_dict(tomllib.loads(filled))
    assert schema.decode(schema.encode({"created_at": counts}), "columns")["created_at"][0] == np.datetime64(
        "2024-05-05T09:06:40"
    )
