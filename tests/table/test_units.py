"""Numbers with a sign or a unit beside them, and numbers that stand for missing, however they are written."""

from pathlib import Path

import pytest

import headwater as hw
from headwater.public.errors import SchemaError, TableError
from headwater.secret.read.source import read
from tests.support.reading import rows


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [
        ("$", "$5", 5),
        ("$", "$ 5.25", 5.25),
        ("$", "-$5", -5),
        ("$", "$-5", -5),
        ("$", "$1,234.5", 1234.5),
        ("$", " 5 $ ", 5),
        ("$", "5", 5),
        ("km", "150,000km", 150_000),
        ("%", "12.5 %", 12.5),
        ("€", "", None),
        ("e", "1e3", 1000),
    ],
)
def test_a_unit_on_either_side_is_left_out(unit: str, text: str, value: float | None) -> None:
    assert hw.Number(-10, 10**6, unit=unit, thousands=",", missing=True).read_text(text) == value


@pytest.mark.parametrize("text", ["$", "$$5", "5 km", "5$km", "--$5", "+-5", "-", "$ $"])
def test_what_is_no_number_with_the_unit_is_refused_without_the_value(text: str) -> None:
    for column in (hw.Number(0, 9, unit="$"), hw.Integer(0, 9, unit="$")):
        with pytest.raises(TableError, match="not a number") as caught:
            column.read_text(text)
        assert text not in str(caught.value)


@pytest.mark.parametrize("unit", ["", " ", "1", "a1", ".", "-", "a,b", 7, "x" * 99, "\ud800", "a\nb"])
def test_what_cannot_be_told_from_a_number_is_no_unit(unit: object) -> None:
    with pytest.raises(SchemaError, match="unit must be text"):
        hw.Number(0, 1, unit=unit)  # type: ignore[arg-type]


def test_files_are_read_with_units_and_releases_are_written_without(tmp_path: Path) -> None:
    schema = hw.Schema.from_dict(
        {
            "headwater": 1,
            "columns": {"price": {"kind": "integer", "low": 0, "high": 9999, "unit": "$", "thousands": ","}},
        }
    )
    (tmp_path / "in.csv").write_text('price\n"$1,250"\n$7\n12\n')
    assert [row["price"] for row in rows(tmp_path / "in.csv", schema)] == [1250, 7, 12]
    release = hw.pmm({"price": ["$1,250", "$7"] * 50}, schema, epsilon=1.0)
    release.to_csv(tmp_path / "out.csv")
    assert "$" not in (tmp_path / "out.csv").read_text()
    assert hw.Schema.from_dict(schema.to_dict()) == schema
    assert [table.num_rows for table in read(tmp_path / "out.csv", schema.for_releases())] == [100]


@pytest.mark.parametrize("text", ["-200", "-200.0", " -200.00 ", "-2e2"])
def test_a_number_that_means_missing_does_so_however_it_is_written(tmp_path: Path, text: str) -> None:
    schema = hw.Schema(x=hw.Number(0, 1, missing=True, null_values=["-200"]), n=hw.Boolean())
    (tmp_path / "in.csv").write_text(f"x,n\n{text},yes\n0.5,no\n")
    assert [row["x"] for row in rows(tmp_path / "in.csv", schema)] == [None, 0.5]
    assert hw.Integer(0, 9, missing=True, null_values=["-200"]).read_text(text) is None
    assert hw.Number(0, 9, missing=True, null_values=["-200"], decimal=",").read_text("-200,0") is None
