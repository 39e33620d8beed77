"""Every way in which a table can be wrong: the place and the remedy are named, the value is not."""

from __future__ import annotations

import pickle
import traceback
from datetime import UTC, datetime, time, timedelta
from typing import Any

import numpy as np
import pytest

from headwater import Boolean, Category, Datetime, Integer, Number, Schema, SchemaError, TableError, TimeOfDay
from headwater.public.errors import listed, quoted

pa, pd, pl = (pytest.importorskip(library) for library in ("pyarrow", "pandas", "polars"))

SCHEMA = Schema(
    age=Integer(0, 120),
    height=Number(0, 3, outside="error"),
    pay=Category("card", "cash"),
    ok=Boolean(),
    at=Datetime("2024-01-01", "2024-12-31", outside="error"),
    clock=TimeOfDay(),
)
GOOD: dict[str, Any] = {"age": 31, "height": 1.5, "pay": "card", "ok": True, "at": "2024-05-05", "clock": "12:00"}
PRIVATE = "4711"
"""Part of every wrong value below, and of nothing else."""

WRONG: list[tuple[str, object, str]] = [
    ("age", None, "the value is missing"),
    ("age", float("nan"), "the value is missing"),
    ("age", "", "the value is missing"),
    ("age", "nan", "the value is missing"),
    ("age", "x4711", "text that is not a number"),
    ("age", 4711.5, "a number with a fraction"),
    ("age", "4711.5", "a number with a fraction"),
    ("age", True, "a boolean, not a whole number"),
    ("age", b"4711", "bytes, not a whole number"),
    ("age", [4711], "a list, not a whole number"),
    ("age", {"a": 4711}, "a record, not a whole number"),
    ("height", "47_11", "text that is not a number"),
    ("height", 4711j, "a complex number, not a number"),
    ("height", "4,711", "text that is not a number"),
    ("height", 4711, "above the upper bound"),
    ("height", -4711.0, "below the lower bound"),
    ("height", float("inf"), "above the upper bound"),
    ("height", "4711", "above the upper bound"),
    ("height", datetime(4711, 1, 1), "a date and time, not a number"),
    ("pay", "card 4711", "text that is none of the listed values"),
    ("pay", 4711, "a number that is none of the listed values"),
    ("pay", None, "the value is missing"),
    ("pay", "", "the value is missing"),
    ("ok", 4711, "a number that is neither yes nor no"),
    ("ok", object(), "an object of type object that is neither"),
    ("ok", "4711", "text that is neither yes nor no"),
    ("at", "4711", "text that is not a date and time"),
    ("at", 4711, "a number, not a date and time"),
    ("at", time(4, 7, 11), "a time of day, not a date and time"),
    ("at", "4711-01-01", "above the upper bound"),
    ("at", datetime(471, 1, 1), "below the lower bound"),
    ("at", "2024-05-05T00:47:11+00:00", "mixed time zones"),
    ("clock", "47:11", "text that is not a time of day"),
    ("clock", 4711, "a number, not a time of day"),
    ("clock", datetime(4711, 1, 1), "a date and time, not a time of day"),
    ("clock", time(4, 7, 11, tzinfo=UTC), "a time of day with a time zone"),
    ("clock", timedelta(days=4711), "a time span outside of one day"),
]


def refused(table: object, schema: Schema = SCHEMA) -> TableError:
    """The error, after checks that hold for all of them."""
    with pytest.raises(TableError) as caught:
        schema.encode(table)
    error = caught.value
    shown = "".join(traceback.format_exception(error))
    assert PRIVATE not in str(error)
    assert PRIVATE not in shown.replace(__file__, "").partition("TableError")[2]
    assert error.remedy
    assert error.remedy in str(error)
    assert "Traceback" not in shown.partition("Traceback")[2]  # no error below this one that may hold the value
    return error


@pytest.mark.parametrize(("column", "value", "kind"), WRONG)
def test_a_wrong_value(column: str, value: object, kind: str) -> None:
    error = refused([GOOD, GOOD, GOOD | {column: value}, GOOD])
    assert (error.row, error.column) == (2, column)
    assert kind in error.problem
    assert f'row 2, column "{column}": ' in str(error)


@pytest.mark.parametrize(("column", "value", "kind"), WRONG)
def test_the_same_in_columns_of_every_library(column: str, value: object, kind: str) -> None:
    if isinstance(value, str):
        lists = {name: [str(GOOD[name]).lower()] * 3 for name in GOOD}
        lists[column][1] = value
        for table in (lists, pa.table(lists), pd.DataFrame(lists), pl.DataFrame(lists)):
            error = refused(table)
            assert (error.row, error.column) == (1, column)
            assert kind in error.problem


@pytest.mark.parametrize(
    ("column", "values", "row", "kind"),
    [
        ("age", [1.0, 2.0, 4711.5], 2, "a number with a fraction"),
        ("age", [1.0, float("nan"), 4711.5], 1, "the value is missing"),
        ("age", [True, False, True], 0, "a boolean"),
        ("height", [1.0, 4711.0, 1.0], 1, "above the upper bound"),
        ("height", [1.0, 1.0, -4711.0], 2, "below the lower bound"),
        ("height", [None, 1.0, 1.0], 0, "the value is missing"),
        ("pay", ["cash", None, "card"], 1, "the value is missing"),
        ("pay", ["cash", "card", "4711"], 2, "text that is none of the listed values"),
        ("pay", [4711, 1, 1], 0, "a number that is none of the listed values"),
        ("ok", [1, 0, 4711], 2, "a number that is neither 0 nor 1"),
        ("ok", [True, None, True], 1, "the value is missing"),
        ("at", [datetime(2024, 5, 5), datetime(2024, 5, 5), datetime(2047, 1, 1)], 2, "above the upper bound"),
        ("at", [datetime(2024, 5, 5), None, datetime(2024, 5, 5)], 1, "the value is missing"),
        ("at", [4711, 4711, 4711], 0, "a number, not a date and time"),
        ("clock", [1.5, 1.5, 4711.0], 0, "a number, not a time of day"),
    ],
)
def test_a_wrong_value_in_a_typed_column(column: str, values: list[Any], row: int, kind: str) -> None:
    lists = {name: [GOOD[name]] * 3 for name in GOOD} | {column: values}
    for table in (lists, pa.table(lists), pd.DataFrame(lists), pl.DataFrame(lists)):
        error = refused(table)
        assert (error.row, error.column) == (row, column)
        assert kind in error.problem


def test_zones_of_typed_columns_must_be_those_of_the_schema() -> None:
    moments = pd.Series(pd.to_datetime(["2024-05-05", "2024-05-06"])).dt.tz_localize("Europe/Paris")
    lists = {name: [GOOD[name]] * 2 for name in GOOD} | {"at": moments}
    table = pd.DataFrame(lists)
    for frame in (table, pa.Table.from_pandas(table), pl.from_pandas(table)):
        error = refused(frame)
        assert (error.row, error.column) == (0, "at")
        assert "mixed time zones" in error.problem


@pytest.mark.parametrize("kind", ["records", "record", "columns", "arrow", "pandas", "polars"])
def test_wrong_names_of_columns(kind: str) -> None:
    make: dict[str, Any] = {
        "records": lambda row: [row],
        "record": lambda row: row,
        "columns": lambda row: {name: [value] for name, value in row.items()},
        "arrow": lambda row: pa.Table.from_pylist([row]),
        "pandas": lambda row: pd.DataFrame([row]),
        "polars": lambda row: pl.DataFrame([row]),
    }
    absent = refused(make[kind]({name: value for name, value in GOOD.items() if name != "pay"}))
    assert absent.column == "pay"
    assert "the column is missing" in absent.problem
    extra = refused(make[kind](GOOD | {"shoe size": 47}))
    assert extra.column == "shoe size"
    assert 'no column "shoe size"' in extra.problem


def test_what_may_be_data_is_not_shown_as_a_name() -> None:
    """A file without a line of names has a record in its place."""
    error = refused({"4711": [1], "47112": [2]})
    assert error.column == "age"
    assert "5 others" in error.problem


def test_two_columns_of_one_name() -> None:
    frame = pd.DataFrame([[1, 2]], columns=["age", "age"])
    table = pa.table([pa.array([1]), pa.array([2])], names=["age", "age"])
    for double in (frame, table, table.to_batches()[0]):
        error = refused(double, Schema(age=Integer(0, 120)))
        assert error.column == "age"
        assert "two columns of this name" in error.problem


def test_columns_of_differing_lengths() -> None:
    lists: dict[str, Any] = {name: [value, value] for name, value in GOOD.items()}
    error = refused(lists | {"pay": ["card"]})
    assert error.column == "pay"
    assert "has 1 values, but the first has 2" in error.problem
    error = refused(lists | {"ok": True})
    assert error.column == "ok"
    assert "one value where other columns have many" in error.problem


def test_records_that_are_not_alike() -> None:
    ragged = refused([GOOD, {"age": 31}])
    assert (ragged.row, ragged.column) == (1, "height")
    assert "list of dictionaries" in refused([GOOD, "4711"]).remedy
    assert "list of dictionaries" in refused([[31, 1.5]]).remedy


def test_arrays_of_another_shape() -> None:
    for shape in ((6,), (2, 5), (2, 6, 1), ()):
        error = refused(np.zeros(shape))
        assert "(n, 6)" in error.problem


def test_columns_that_are_tables() -> None:
    error = refused({"age": np.zeros((2, 2))}, Schema(age=Integer(0, 1)))
    assert "one dimension, not 2" in error.problem
    assert error.column == "age"


def test_an_error_gets_its_place_from_whoever_knows_it() -> None:
    error = TableError("a problem", "a remedy", row=3)
    there = error.at(file="people.csv", line=5).at(column='a "b"\n')
    assert str(error) == "row 3: a problem; a remedy"
    assert str(there) == 'people.csv, line 5, column "a \\"b\\"\\n": a problem; a remedy'
    assert (there.file, there.line, there.row, there.column) == ("people.csv", 5, 3, 'a "b"\n')
    assert isinstance(there, ValueError)
    assert str(pickle.loads(pickle.dumps(there))) == str(there)  # noqa: S301 - what we wrote ourselves
    assert str(TableError("a problem", "a remedy")) == "a problem; a remedy"
    assert str(SchemaError("a problem", "a remedy").at(column="x")) == 'column "x": a problem; a remedy'


def test_names_are_listed_up_to_a_point() -> None:
    assert listed(["a", "b"]) == '"a", "b"'
    assert listed([str(i) for i in range(20)]).endswith('"7" and 12 more')
    assert quoted("é") == '"é"'
