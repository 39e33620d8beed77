"""Files as people have them: null strings, dates and numbers of other countries, encodings, archives, JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.public.errors import SchemaError, TableError
from headwater.secret.read.source import open_source
from tests.support.reading import rows


@pytest.mark.parametrize(
    ("format_", "text"),
    [
        ("%Y/%m/%d %H:%M:%S", "2024/01/02 00:00:00"),
        ("%d/%m/%Y", "02/01/2024"),
        ("%m/%d/%Y", "01/02/2024"),
        ("%d.%m.%Y", "02.01.2024"),
        ("epoch-s", "1704153600"),
        ("epoch-ms", "1704153600000"),
        ("epoch-us", "1704153600000000"),
        ("epoch-ns", "1704153600000000000"),
    ],
)
def test_dates_in_declared_formats(tmp_path: Path, format_: str, text: str) -> None:
    day = hw.Datetime("2024-01-01", "2024-12-31", "1d", format=format_)
    (tmp_path / "a.csv").write_text(f"day\n{text}\n")
    (tmp_path / "a.jsonl").write_text(json.dumps({"day": text}) + "\n")
    for name in ("a.csv", "a.jsonl"):
        (row,) = rows(tmp_path / name, hw.Schema(day=day))
        assert row["day"].isoformat() == "2024-01-02T00:00:00"
    with pytest.raises(TableError, match=r"declared format|no count of time") as caught:
        day.encode(["2024-W01-5ecret"])
    assert "5ecret" not in str(caught.value)
    assert format_.startswith("epoch") or f"in the declared format {format_}" in str(caught.value)


def test_dates_with_a_zone_in_a_declared_format(tmp_path: Path) -> None:
    """As servers log them."""
    bounds = "2000-01-01T00:00:00+00:00", "2000-12-31T00:00:00+00:00"
    schema = hw.Schema(at=hw.Datetime(*bounds, format="%d/%b/%Y:%H:%M:%S %z"))
    (tmp_path / "a.csv").write_text("at\n10/Oct/2000:13:55:36 -0700\n")
    (row,) = rows(tmp_path / "a.csv", schema)
    assert row["at"].isoformat() == "2000-10-10T20:55:36+00:00"
    assert hw.Schema.from_dict(schema.to_dict()) == schema


def test_a_time_of_day_can_be_read_from_a_whole_date(tmp_path: Path) -> None:
    clock = hw.TimeOfDay("15min", format="%d.%m.%Y %H:%M")
    (tmp_path / "a.csv").write_text("clock\n02.01.2024 13:50\n")
    (row,) = rows(tmp_path / "a.csv", hw.Schema(clock=clock))
    assert row["clock"].isoformat() == "13:45:00"
    assert clock.encode(["02.01.2024 13:50"]) == clock.encode(["31.12.1999 13:45"])


@pytest.mark.parametrize("format_", ["%d.%m.", "day", "%Q", "%Y %Z", 7, "%H:%M", "%Y%Y", ["%Y"]])
def test_a_format_that_tells_no_date_is_refused(format_: Any) -> None:  # noqa: ANN401 - anything
    with pytest.raises(SchemaError, match="format must be one"):
        hw.Datetime("2024-01-01", "2024-12-31", format=format_)


@pytest.mark.parametrize(
    "declared",
    [{"step": 10**400}, {"step": -(10**400)}, {"thousands": "\ud800"}, {"null_values": ["\ud800"]}],
    ids=range(4),
)
def test_what_no_number_and_no_file_can_hold_is_refused(declared: Any) -> None:  # noqa: ANN401 - anything
    with pytest.raises(SchemaError, match="must be"):
        hw.Number(0, 1, **declared)


def test_null_values_for_the_file_and_for_a_column(tmp_path: Path) -> None:
    """A column's own list counts for it; a category keeps the values that it lists."""
    (tmp_path / "s.toml").write_text(
        'headwater = 1\nnull_values = ["NA", "?"]\n'
        '[columns.age]\nkind = "integer"\nlow = 0\nhigh = 120\nmissing = true\n'
        '[columns.land]\nkind = "category"\nvalues = ["NA", "BW"]\nmissing = true\n'
        '[columns.x]\nkind = "number"\nlow = 0.0\nhigh = 1.0\nmissing = true\nnull_values = ["-9"]\n'
    )
    schema = hw.Schema.load(tmp_path / "s.toml")
    (tmp_path / "a.csv").write_text("age,land,x\nNA,NA,-9\n31,?,0.5\n?,BW,\n")
    expected = [(None, "NA", None), (31, None, 0.5), (None, "BW", None)]
    assert [tuple(row.values()) for row in rows(tmp_path / "a.csv", schema)] == expected
    (tmp_path / "b.csv").write_text("age,land,x\n1,BW,NA\n")
    with pytest.raises(TableError, match='column "x": text that is not a number'):
        rows(tmp_path / "b.csv", schema)
    assert hw.Schema.from_dict(schema.to_dict()) == schema


def test_a_value_cannot_be_missing_too() -> None:
    with pytest.raises(SchemaError, match="also one of null_values"):
        hw.Category("a", "NA", null_values=["NA"])
    with pytest.raises(SchemaError, match="list of texts"):
        hw.Number(0, 1, null_values=[-999])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("top", "column", "text", "number"),
    [
        ('decimal = ","', 'thousands = "."', "1.234,5", 1234.5),
        ('thousands = "."', 'decimal = ","', "1.234,5", 1234.5),
        ('decimal = ","\nthousands = "."', 'decimal = "."', "1234.5", 1234.5),
        ('decimal = ","\nthousands = "."', 'thousands = ","', "1,234.5", 1234.5),
        ('decimal = ","\nthousands = "."', 'thousands = " "', "1 234,5", 1234.5),
        ('decimal = ","\nthousands = "."', "", "1.234,5", 1234.5),
    ],
)
def test_numbers_are_written_as_the_file_says_and_the_column_does_not(
    tmp_path: Path, top: str, column: str, text: str, number: float
) -> None:
    (tmp_path / "s.toml").write_text(
        f'headwater = 1\n{top}\n[columns.x]\nkind = "number"\nlow = 0\nhigh = 9999\n{column}\n'
    )
    schema = hw.Schema.load(tmp_path / "s.toml")
    (tmp_path / "a.csv").write_text(f'x\n"{text}"\n')
    assert rows(tmp_path / "a.csv", schema) == [{"x": number}]
    assert hw.Schema.from_dict(schema.to_dict()) == schema


def test_no_thousands_begin_with_zero() -> None:
    """A decimal comma that is declared to stand between thousands would make 125 of 0,125."""
    column = hw.Number(0, 1000, thousands=",")
    assert column.encode(["0", "12", "1,000"]).tolist() == [0.0, 0.012, 1.0]
    for text in ("0,125", "-0,125", "00,125", "012,500"):
        with pytest.raises(TableError, match="not a number"):
            column.encode([text])


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be"])
def test_other_encodings(tmp_path: Path, encoding: str) -> None:
    schema = hw.Schema(city=hw.Category("Köln", "Zürich"), n=hw.Integer(0, 10**6))
    text = "city,n\n" + "".join(f"Köln,{n}\nZürich,{n}\n" for n in range(5000))
    (tmp_path / "a.csv").write_bytes(text.encode(encoding))
    found = rows(tmp_path / "a.csv", schema, encoding=encoding, block_bytes=999)
    assert [(row["city"], row["n"]) for row in found] == [(c, n) for n in range(5000) for c in ("Köln", "Zürich")]
    with pytest.raises(TableError, match="encoding = "):
        rows(tmp_path / "a.csv", schema)


def test_an_encoded_file_is_continued(tmp_path: Path) -> None:
    schema, path = hw.Schema(city=hw.Category("Köln", "Bonn")), tmp_path / "a.csv"
    path.write_bytes("city\nKöln\nBonn\nKöln\n".encode("utf-16-le"))
    with open_source(path, schema, None, batch_rows=2, encoding="utf-16-le") as source:
        first = next(source)
        assert first is not None
        position = json.loads(json.dumps(first.position))
    with path.open("ab") as file:
        file.write("Bonn\n".encode("utf-16-le"))
    with open_source(path, schema, position, encoding="utf-16-le") as source:
        assert [row["city"] for batch in source if batch for row in batch.table.to_pylist()] == ["Köln", "Bonn"]


def test_bytes_that_are_no_text_refuse_their_record_alone(tmp_path: Path) -> None:
    schema = hw.Schema(c=hw.Category("a", other="a"))
    (tmp_path / "a.csv").write_bytes(b"c\na\na\n\x81\na\n")  # cp1252 has no character 81
    with open_source(tmp_path / "a.csv", schema, batch_rows=1, encoding="cp1252") as source:
        assert [next(source) is not None for _ in range(2)] == [True, True]
        with pytest.raises(TableError, match="line 4"):
            next(source)


def test_unknown_encodings_are_refused() -> None:
    for name in ("utf-99", "utf-7", "iso2022_jp", "zip", 8):
        with pytest.raises(ValueError, match="encoding must be"):
            hw.read("a.csv", hw.Schema(x=hw.Number(0, 1)), encoding=name).__next__()


ARRAYS = {
    "[]": [],
    " [ ] ": [],
    '[{"x": 1}]': [1],
    '[{"x": 1}, {"x": 2}]\n': [1, 2],
    '\ufeff[\n  {\n    "x": 1\n  },\r\n  {\n    "x": 2\n  }\n]\n': [1, 2],
    '[{"x": 1}': None,
    '[{"x": 1},': None,
    '[{"x": 1},]': None,
    '[{"x": 1}{"x": 2}]': None,
    '[{"x": 1},,{"x": 2}]': None,
    '[{"x": 1}] {"x": 2}': None,
    '[{"x": 1 2}]': None,
    "[1, 2]": None,
    '[{"x": "1\n"}]': None,
    '[{"x": 1]}': None,
}


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("block_bytes", [1, 7, 1 << 22])
@pytest.mark.parametrize("text", ARRAYS)
def test_a_json_file_is_one_array(tmp_path: Path, text: str, block_bytes: int) -> None:
    (tmp_path / "a.json").write_bytes(text.encode())
    schema, expected = hw.Schema(x=hw.Integer(0, 9)), ARRAYS[text]
    if expected is None:
        with pytest.raises(TableError, match="JSON"):
            rows(tmp_path / "a.json", schema, block_bytes=block_bytes)
    else:
        assert [row["x"] for row in rows(tmp_path / "a.json", schema, block_bytes=block_bytes)] == expected


@pytest.mark.parametrize("block_bytes", [1, 1 << 22])
def test_an_element_of_an_array_that_is_no_record_can_be_left_out(tmp_path: Path, block_bytes: int) -> None:
    """Whatever JSON it is; its text is that of the element."""
    elements = ['{"x": 1}', "7", "null", '{"y": [1, {"x": 2}]}', '{"x": "]},"}', '{"x": 2}', "[]"]
    (tmp_path / "a.json").write_text("[" + ",\n".join(elements) + "]")
    options: Any = {"bad_rows": "quarantine", "block_bytes": block_bytes, "batch_rows": 100}
    schema = hw.Schema(x=hw.Integer(0, 9))
    with open_source(tmp_path / "a.json", schema, **options) as source:
        batches = [batch for batch in source if batch]
    found = [(batch, schema.encode_batch(batch.table, bad_rows="quarantine")) for batch in batches]
    bad = [one for batch, encoded in found for one in batch.all_bad(encoded.bad)]
    assert sum(batch.records for batch in batches) == len(elements)
    assert [one.text for one in bad] == [elements[i] for i in (1, 2, 3, 4, 6)]
    assert [one.error.line for one in bad] == [2, 3, 4, 5, 7]


@pytest.mark.parametrize("text", [text for text in ARRAYS if ARRAYS[text] is None and not is_json(text)])
def test_an_array_that_is_not_json_stops_the_run_under_every_policy(tmp_path: Path, text: str) -> None:
    """Its elements cannot be distinguished from each other."""
    (tmp_path / "a.json").write_text(text)
    for policy in ("stop", "null", "quarantine"):
        with pytest.raises(TableError, match=r"element that is not JSON.*one object a line") as caught:
            rows(tmp_path / "a.json", hw.Schema(x=hw.Integer(0, 9)), bad_rows=policy)
        assert "--bad-rows" not in str(caught.value)


def test_strings_in_an_array_may_hold_anything(tmp_path: Path) -> None:
    values = ['a,"]}', "\\", '\\"', "é\n", "[{", '\\\\"']
    (tmp_path / "a.json").write_text(json.dumps([{"c": value} for value in values], indent=1))
    for block_bytes in range(1, 12):
        found = rows(tmp_path / "a.json", hw.Schema(c=hw.Category(values)), block_bytes=block_bytes)
        assert [row["c"] for row in found] == values


def test_nested_fields_by_dotted_names(tmp_path: Path) -> None:
    schema = hw.Schema({"a.b": hw.Integer(0, 9), "a.c.d": hw.Category("x", "y", missing=True), "e": hw.Boolean()})
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": {"b": 1, "c": {"d": "x"}}, "e": true}\n{"a.b": 2, "e": false}\n')
    assert [tuple(row.values()) for row in rows(path, schema)] == [(1, "x", True), (2, None, False)]
    path.write_text('{"a": {"b": 1, "c": null}, "e": true}\n{"a": null, "a.b": 3, "e": true}\n')
    assert [tuple(row.values()) for row in rows(path, schema)] == [(1, None, True), (3, None, True)]
    for text, problem in (
        ('{"a": null, "e": true}', 'missing key "a.b"'),
        ('{"a": {"b": 1, "z": 2}, "e": true}', "1 key"),
        ('{"a": {"b": 1}, "a.b": 1, "e": true}', "a key twice"),
        ('{"a": {"b": [1]}, "e": true}', "nested value"),
        ('{"a": 1, "e": true}', 'missing key "a.b"'),
    ):
        path.write_text(text + "\n")
        with pytest.raises(TableError, match=problem):
            rows(path, schema)


def test_null_in_place_of_an_object_is_a_missing_value_of_what_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": {"b": 1}}\n{"a": null}\n{}\n{"a": {"b": null}}\n{"a": {}}\n')
    gap = hw.Integer(0, 9, missing=True)
    assert rows(path, hw.Schema({"a.b": gap})) == [{"a.b": 1}, *[{"a.b": None}] * 4]
    both = hw.Schema({"a": hw.Category("x", missing=True), "a.b": gap})  # then null is a value of that column
    assert rows(path, both) == [{"a": None, "a.b": 1}, *[{"a": None, "a.b": None}] * 4]
    draft = hw.draft(path)
    assert "[columns.a]" not in draft
    assert '[columns."a.b"]' in draft


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("Age,city,shop", 'missing column "age"; the first line must hold the column names, as the schema writes them'),
        ("age;city;shop", 'its fields are divided by a semicolon: declare delimiter = ";" in the schema file'),
        ('"age";"city";"shop"', 'its fields are divided by a semicolon: declare delimiter = ";" in the schema file'),
        ("age\tcity\tshop", 'divided by a tab: declare delimiter = "\\t"'),
        (
            "age,city,shop,5ecret,fax",
            "2 column(s) that the schema does not name; add them to the schema, or leave them",
        ),
        ("31,5ecret,north", 'missing column "age", "city", "shop"; the first line must hold'),
        ('"age"x,"city"', "a quote in the middle of a field"),
    ],
)
def test_a_wrong_header_is_named_without_what_stands_in_it(tmp_path: Path, header: str, message: str) -> None:
    schema = hw.Schema(age=hw.Integer(0, 120), city=hw.Category("a"), shop=hw.Category("a"))
    (tmp_path / "a.csv").write_text(header + "\n")
    with pytest.raises(TableError) as caught:
        rows(tmp_path / "a.csv", schema)
    assert message in str(caught.value)
    assert "5ecret" not in str(caught.value)


def test_a_number_of_json_has_a_point_whatever_text_has(tmp_path: Path) -> None:
    """``decimal`` and ``thousands`` are about text: 1.234 in JSON is never 1234."""
    schema = hw.Schema(
        x=hw.Number(0, 2000, decimal=",", thousands="."), n=hw.Integer(0, 2000, decimal=",", thousands=".")
    )
    lines = [
        '{"x": 1.234, "n": 7.0}',
        '{"x": "1.234,5", "n": "1.234"}',
        '{"x": 1.5e2, "n": 12}',
        '{"x": "0,5", "n": "7"}',
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    found = rows(tmp_path / "a.jsonl", schema)
    assert [row["x"] for row in found] == [1.234, 1234.5, 150.0, 0.5]
    assert [row["n"] for row in found] == [7, 1234, 12, 7]
    (tmp_path / "b.jsonl").write_text('{"x": "1.5", "n": 1}\n')
    with pytest.raises(TableError, match="text that is not a number"):
        rows(tmp_path / "b.jsonl", schema)
