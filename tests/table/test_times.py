"""Columns of dates and of times of day: in any guise, in any zone, never guessed."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from time import process_time
from typing import Any

import numpy as np
import pytest

from headwater import Datetime, TableError, TimeOfDay


def back(column: Datetime | TimeOfDay, series: object) -> list[Any]:
    values, _ = column.decode(column.encode(series))
    return list(values.tolist())


def test_dates_beyond_the_bounds_are_refused_if_declared_so() -> None:
    column = Datetime("2020-01-01T12:00", "2020-12-31", outside="error")
    for early in ("2020-01-01T11:59:59.999999", datetime(1, 1, 1)):
        with pytest.raises(TableError, match="row 0: the value is below the lower bound"):
            column.encode([early])
    for unit in ("D", "h", "s", "ms", "us", "ns", "M", "W"):
        with pytest.raises(TableError, match="row 1: the value is above the upper bound"):
            column.encode(np.array(["2020-05-01", "2022-01-01"], dtype=f"M8[{unit}]"))


def test_dates_in_any_guise() -> None:
    column = Datetime("2020-01-01", "2020-12-31T23:59:59")
    moment = datetime(2020, 2, 29, 13, 45, 10)
    for value in ("2020-02-29T13:45:10", "2020-02-29 13:45:10.999", moment, np.datetime64(moment)):
        assert back(column, [value]) == [moment]
    for unit in ("s", "ms", "us", "ns"):
        assert back(column, np.array([moment], dtype=f"M8[{unit}]")) == [moment]
    assert back(column, [date(2020, 2, 29), "2020-02-29"]) == [datetime(2020, 2, 29)] * 2
    assert back(column, np.array(["2020-02-29"], dtype="M8[D]")) == [datetime(2020, 2, 29)]


def test_dates_before_the_epoch_are_rounded_down() -> None:
    column = Datetime("1900-01-01", "1999-12-31", "1us")
    assert back(column, np.array(["1950-01-01T00:00:00.000000999"], dtype="M8[ns]")) == [datetime(1950, 1, 1)]
    hourly = Datetime("1900-01-01T00:30", "1999-12-31", "1h")
    assert back(hourly, ["1950-01-01T01:29:59"]) == [datetime(1950, 1, 1, 0, 30)]


def test_differing_offsets_are_one_time() -> None:
    column = Datetime("2020-01-01T00:00:00+01:00", "2020-12-31T00:00:00+01:00")
    values = ["2020-06-01T12:00:00Z", datetime(2020, 6, 1, 5, tzinfo=timezone(timedelta(hours=-7)))]
    found = back(column, values)
    assert found == [datetime(2020, 6, 1, 12, tzinfo=UTC)] * 2
    assert [value.utcoffset() for value in found] == [timedelta(hours=1)] * 2


def test_the_zone_of_a_place_follows_its_clock() -> None:
    column = Datetime("2020-01-01T00:00:00Z", "2020-12-31T00:00:00Z", zone="Europe/Paris")
    winter, summer = back(column, ["2020-01-15T12:00Z", "2020-07-15T12:00Z"])
    assert (winter.hour, summer.hour) == (13, 14)


@pytest.mark.parametrize("zoned", [True, False])
def test_time_zones_are_not_guessed(zoned: bool) -> None:
    end = "+00:00" if zoned else ""
    column = Datetime("2020-01-01T00:00" + end, "2020-12-31T00:00" + end)
    good, bad = "2020-05-05T00:00" + end, "2020-05-05T00:00" + ("" if zoned else "+00:00")
    for values in ([good, bad], [datetime.fromisoformat(good), datetime.fromisoformat(bad)]):
        with pytest.raises(TableError, match="row 1: mixed time zones"):
            column.encode(values)
    if zoned:
        with pytest.raises(TableError, match="row 0: mixed time zones"):
            column.encode(np.array(["2020-05-05"], dtype="M8[s]"))


@pytest.mark.parametrize(
    "value", ["13:45", "13:45:00.0", time(13, 45), timedelta(hours=13, minutes=45), "13:45:00.999999"]
)
def test_times_of_day_in_any_guise(value: object) -> None:
    assert back(TimeOfDay(), [value]) == [time(13, 45)]
    assert back(TimeOfDay("7h"), [value]) == [time(7)]


@pytest.mark.parametrize("text", ["1e-999999999", "-1e-999999999", "0e-999999999", "1e999999999", "0e999999999"])
def test_counts_of_time_that_are_written_quickly_are_read_quickly(text: str) -> None:
    """Exact arithmetic with such exponents would take for ever, and one record could stop a run."""
    column = Datetime("1969-12-31", "1970-01-02", "1us", format="epoch-s")
    expected = {"-1e-999999999": "-0.000001", "1e999999999": "1e9"}.get(text, "0")
    assert column.encode([text]).tolist() == column.encode([expected]).tolist()


@pytest.mark.parametrize("text", ["sNaN", "-sNaN", "NaN7"])
def test_what_is_no_number_is_no_count_of_time(text: str) -> None:
    with pytest.raises(TableError, match="no count of time"):
        Datetime("1970-01-01", "1970-01-02", "1us", format="epoch-s").encode([text])


@pytest.mark.parametrize(("format_", "expected"), [("epoch-s", 1_999_999), ("epoch-ns", 0)])
def test_counts_of_time_of_very_many_digits_are_read_in_linear_time(format_: str, expected: int) -> None:
    """One line of a file may have so many: as a fraction they would take minutes, and 60 million of them days."""
    column = Datetime("1970-01-01", "2020-01-01", "1us", format=format_)
    start = process_time()
    assert column.text("1." + "9" * 2_000_000) == expected
    assert process_time() - start < 10
