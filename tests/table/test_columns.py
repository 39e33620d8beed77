"""Every kind of column: what it takes, where that lies, and what comes back."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import Boolean, Category, Datetime, Integer, Number, SchemaError, TableError, TimeOfDay
from headwater.public.columns import Column
from tests.table.strategies import columns, same


def back(column: Column, series: object) -> list[Any]:
    """Values after a round trip; missing ones are None."""
    values, missing = column.decode(column.encode(series))
    gone = np.zeros(len(values), dtype=bool) if missing is None else missing
    return [None if lost else value for value, lost in zip(values.tolist(), gone, strict=True)]


@given(st.data())
def test_any_coordinate_is_a_value_of_the_column(data: st.DataObject) -> None:
    """Whatever is sampled in a cell that holds values decodes to one of them, and encodes again."""
    column = data.draw(columns)
    axis = column.axis
    inside = st.floats(0, 1) if axis.values is None else st.integers(0, axis.values - 1).map(lambda v: v * axis.unit)
    coordinates = np.array(data.draw(st.lists(inside, max_size=8)))
    values, missing = column.decode(coordinates)
    assert (missing is not None) == column.missing
    again = column.encode([None if missing is not None and missing[i] else v for i, v in enumerate(values.tolist())])
    assert np.allclose(again, coordinates, rtol=0, atol=1e-15) or axis.values is None
    for value, gone in zip(values.tolist(), missing if missing is not None else [False] * len(values), strict=True):
        assert gone or same(column, value, value)


@given(low=st.floats(-1e300, 1e300), width=st.floats(1e-300, 1e300), share=st.floats(0, 1))
def test_numbers_stay_within_their_bounds(low: float, width: float, share: float) -> None:
    high = low + width
    if not low < high < float("inf"):
        return
    column = Number(low, high)
    found = column.decode(column.encode([low, high, low + share * (high - low)]))[0]
    assert found[0] == low
    assert found[1] == high
    assert low <= found[2] <= high


def test_numbers_beyond_the_bounds_are_clipped() -> None:
    values = [-1e300, float("-inf"), 10**400, float("inf"), "1e999", Decimal("-5"), Fraction(1, 2)]
    assert back(Number(0, 1), values) == [0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.5]
    assert back(Integer(0, 10), [-1, 10**400, -(10**400), "1e999999999", 12.0]) == [0, 10, 0, 10, 10]
    assert back(Integer(0, 10), np.array([-np.inf, np.inf, 1e300])) == [0, 10, 10]
    assert back(Integer(0, 10), np.array([2**64 - 1, 3], dtype=np.uint64)) == [10, 3]
    days = Datetime("2020-01-01", "2020-12-31", "1d")
    assert back(days, ["1066-10-14", "9999-01-01"]) == [datetime(2020, 1, 1), datetime(2020, 12, 31)]


@pytest.mark.parametrize("value", [11, 10.5, float("inf"), "11", 10**400, np.float64(12)])
def test_numbers_beyond_the_bounds_are_refused_if_declared_so(value: object) -> None:
    with pytest.raises(TableError, match="row 1: the value is above the upper bound") as caught:
        Number(0, 10, outside="error").encode([1, value])
    assert 'outside="clip"' in caught.value.remedy


@pytest.mark.parametrize("gap", [None, float("nan"), np.nan, np.float32("nan"), np.datetime64("NaT"), Decimal("sNaN")])
@pytest.mark.parametrize(
    "column", [Number(0, 1), Integer(0, 1), Category("a"), Boolean(), Datetime("2020-01-01", "2020-01-02"), TimeOfDay()]
)
def test_what_is_missing_is_missing_for_every_kind(column: Column, gap: object) -> None:
    with pytest.raises(TableError, match="row 0: the value is missing"):
        column.encode([gap])


@pytest.mark.parametrize("gap", [None, float("nan"), np.datetime64("NaT"), Decimal("NaN"), ""])
def test_missing_values_lie_apart(gap: object) -> None:
    for column in (
        Number(0, 1, missing=True),
        Integer(0, 1, missing=True),
        Category("a", missing=True),
        Boolean(missing=True),
        Datetime("2020-01-01", "2020-01-02", missing=True),
        TimeOfDay(missing=True),
    ):
        assert column.encode([gap]).tolist() == [0.5]
        assert back(column, [gap]) == [None]


def test_whole_numbers_are_exact_beyond_floating_point() -> None:
    low = 2**60
    column = Integer(low, low + 10)
    assert back(column, [low + 3, str(low + 7), Decimal(low + 1)]) == [low + 3, low + 7, low + 1]
    assert back(column, [low + 3, 5.0]) == [low + 3, low]


@pytest.mark.parametrize(
    "value", [3, 3.0, "3", " 3 ", "3.0", "3e0", Decimal("3"), np.int8(3), np.float32(3), Fraction(3)]
)
def test_whole_numbers_in_any_guise(value: object) -> None:
    assert back(Integer(0, 10), [value]) == [3]
    assert back(Number(0, 10), [value]) == [pytest.approx(3.0)]


@pytest.mark.parametrize("value", [3.5, "3.5", np.float64(3.5), Decimal("3.5"), Fraction(7, 2)])
def test_fractions_are_not_rounded(value: object) -> None:
    with pytest.raises(TableError, match="row 1: a number with a fraction, not a whole number"):
        Integer(0, 10).encode([3, value])
    with pytest.raises(TableError, match="row 1: a number with a fraction"):
        Integer(0, 10).encode(np.array([3, 3.5]))


@pytest.mark.parametrize("yes", [True, 1, 1.0, "true", "YES", "t", "1", np.True_, " True "])
@pytest.mark.parametrize("no", [False, 0, 0.0, "False", "no", "F", "0", np.False_])
def test_yes_and_no_in_any_guise(yes: object, no: object) -> None:
    assert back(Boolean(), [yes, no]) == [True, False]
    assert back(Category(False, True), [yes, no]) == [True, False]


def test_arrays_of_numbers_can_be_booleans() -> None:
    assert back(Boolean(), np.array([0, 1, 1])) == [False, True, True]
    assert back(Boolean(missing=True), np.array([0.0, np.nan])) == [False, None]


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        (Category("1", "2"), [1, 2.0, "2"], ["1", "2", "2"]),
        (Category("1", "2"), np.array([2, 1]), ["2", "1"]),
        (Category("1", "2", missing=True), np.array([2.0, np.nan]), ["2", None]),
        (Category("1.5"), [1.5], ["1.5"]),
        (Category("True", "false"), [True, False], ["True", "false"]),
        (Category(1, 2), ["1", 2.0, 2], [1, 2, 2]),
        (Category(-7, 2), np.array([2, -7], dtype=np.int8), [2, -7]),
        (Category(3, 1, 2), np.array([1, 2, 3], dtype=np.uint64), [1, 2, 3]),
        (Category(3, 1, 2), np.array([1, 2, 3], dtype=np.uint8), [1, 2, 3]),
        (Category(True, False), np.array([0, 1]), [False, True]),
        (Category("", "a", missing=True), ["", "a", None], ["", "a", None]),
        (Category("a", "b", other="b"), ["zzz", 4, True, "a"], ["b", "b", "b", "a"]),
        (Category(1, 9, other=9), np.array([1, 2, 3]), [1, 9, 9]),
        (Category(1, 9, other=9), ["01", True, "1"], [9, 9, 1]),
    ],
)
def test_values_match_exactly_whatever_they_are_written_in(
    column: Category, values: object, expected: list[object]
) -> None:
    found = back(column, values)
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (Category("a"), "A"),
        (Category("a"), "a "),
        (Category("1"), "01"),
        (Category(1), "01"),
        (Category(1), "+1"),
        (Category(1), True),
        (Category(1), 1.5),
        (Category("1"), True),
        (Category(True), 2),
        (Category("a"), b"a"),
        (Category("a"), ["a"]),
    ],
)
def test_other_values_are_refused(column: Category, value: object) -> None:
    with pytest.raises(TableError, match=r"row 1: .* that is none of the listed values") as caught:
        column.encode([column.values[0], value])
    assert "other=" in caught.value.remedy


def test_how_many_values_there_are() -> None:
    assert Integer(-2, 2).size == 5
    assert Datetime("2020-01-01", "2020-01-02", "7h").size == 4
    assert TimeOfDay("7h").size == 4
    assert TimeOfDay("1d").size == 1
    assert Number(0, 1).size is None
    assert Datetime(date(2020, 1, 1), datetime(2020, 1, 1)).size == 1


def test_the_type_of_nothing_says_nothing() -> None:
    """Libraries give empty and all-missing columns whatever type they like."""
    for column in (
        Number(0, 1, missing=True),
        Category("a", missing=True),
        Datetime("2020-01-01", "2020-01-02", missing=True),
    ):
        assert column.encode([]).shape == (0,)
        assert column.encode(np.array([], dtype=bool)).shape == (0,)
        assert column.encode(np.array([np.nan, np.nan])).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns", "D"])
def test_masked_moments_are_moments_whatever_their_unit(unit: str) -> None:
    """Python has none of nanoseconds: as Python's values they would be whole numbers since 1970."""
    moments = np.array(["2024-01-01", "2024-01-03", "2024-01-02"], f"M8[{unit}]")
    masked = np.ma.MaskedArray(moments, mask=[False, True, False])
    day = Datetime("2024-01-01", "2024-01-05", "1d", missing=True)
    assert back(day, masked) == [datetime(2024, 1, 1), None, datetime(2024, 1, 2)]
    spans = np.ma.MaskedArray((moments - moments[0]).astype("m8[ns]"), mask=[False, True, True])
    assert back(TimeOfDay(missing=True), spans) == [time(0), None, None]
    for column in (Number(0, 2e18), Integer(0, 10), Category(0, 1, other=0)):
        with pytest.raises(TableError, match="a date"):
            column.encode(masked)
        with pytest.raises(TableError, match="a time span"):
            column.encode(spans)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Number(1, 1), "low must be below high"),
        (lambda: Number(2, 1), "low must be below high"),
        (lambda: Number(float("nan"), 1), "low must be a finite number"),
        (lambda: Number(0, float("inf")), "high must be a finite number"),
        (lambda: Number(-1.7e308, 1.7e308), "too far apart"),
        (lambda: Number("0", 1), "low must be a finite number"),  # type: ignore[arg-type]
        (lambda: Number(True, 2), "low must be a finite number"),
        (lambda: Number(0, 1, outside="drop"), 'outside must be "clip" or "error"'),
        (lambda: Number(0, 1, missing="yes"), "missing must be true or false"),  # type: ignore[arg-type]
        (lambda: Number(0, 1, weight=0), "weight must be a positive number"),
        (lambda: Number(0, 1, weight=float("inf")), "weight must be a positive number"),
        (lambda: Integer(0.0, 1), "low must be a whole number"),  # type: ignore[arg-type]
        (lambda: Integer(1, 0), "low must not be above high"),
        (lambda: Integer(0, 2**53), "more than 2\\^53 values"),
        (lambda: Integer(2**63, 2**63), "must lie between"),
        (lambda: Category("a", "a"), "listed twice"),
        (lambda: Category("a", 1), "of one type"),
        (lambda: Category(1, True), "of one type"),
        (lambda: Category(1.5), "must be texts"),  # type: ignore[arg-type]
        (lambda: Category("a", other="b"), "other must be one of"),
        (lambda: Category(1, other=True), "other must be one of"),
        (lambda: Datetime("soon", "2020-01-01"), "start must be a date"),
        (lambda: Datetime("2020-01-02", "2020-01-01"), "start must not be after end"),
        (lambda: Datetime("2020-01-01", "2020-01-02T00:00Z"), "mixed time zones"),
        (lambda: Datetime("2020-01-01", "2020-01-02", "1 week"), "step must be such as"),
        (lambda: Datetime("2020-01-01", "2020-01-02", "0s"), "step must be such as"),
        (lambda: Datetime("0001-01-01", "9999-01-01", "1us"), "more than 2\\^53 steps"),
        (lambda: Datetime("2020-01-01", "2020-01-02", zone="UTC"), "bounds have no time zone"),
        (lambda: Datetime("2020-01-01T00:00Z", "2020-01-02T00:00Z", zone="Mars"), "zone must be the name"),
        (lambda: TimeOfDay("2d"), "longer than a day"),
    ],
)
def test_wrong_declarations_are_refused(make: Any, problem: str) -> None:  # noqa: ANN401 - a function of nothing
    with pytest.raises(SchemaError, match=problem) as caught:
        make()
    assert caught.value.remedy


@given(columns)
def test_columns_are_values(column: Column) -> None:
    """Equal if declared alike, hashable, not to be changed, and shown as they are written."""
    twin = eval(  # noqa: S307 - what we wrote ourselves
        repr(column), {kind.__name__: kind for kind in (Number, Integer, Category, Boolean, Datetime, TimeOfDay)}
    )
    assert twin == column
    assert hash(twin) == hash(column)
    with pytest.raises(AttributeError):
        column.missing = True  # type: ignore[misc]


def test_one_is_not_true() -> None:
    assert Category(1) != Category(True)
    assert Category("1") != Category(1)


def test_values_of_a_category_have_a_name_as_in_a_schema_file() -> None:
    assert Category(values=["a", "b"], missing=True) == Category("a", "b", missing=True)
    with pytest.raises(SchemaError, match="given twice"):
        Category("a", values=["b"])
