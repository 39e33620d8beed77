"""Columns, values that fit them and whole tables, drawn at random."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

from headwater import Boolean, Category, Datetime, Integer, Number, Schema, TimeOfDay
from headwater.public.columns import Column
from headwater.public.moments import microseconds

steps = st.sampled_from(["1us", "1ms", "1s", "7s", "1min", "15min", "1h", "5h", "1d"])
zones: st.SearchStrategy[Any] = st.sampled_from([None, UTC, timezone(timedelta(hours=-3, minutes=-30))])
options: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"missing": st.booleans(), "weight": st.sampled_from([1.0, 0.5, 3.0])}
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@st.composite
def numbers(draw: st.DrawFn) -> Number:
    reals = st.floats(-1e150, 1e150)
    low, high = sorted(draw(st.tuples(reals, reals).filter(lambda pair: pair[0] != pair[1])))
    return Number(low, high, outside=draw(st.sampled_from(["clip", "error"])), **draw(options))


@st.composite
def integers(draw: st.DrawFn) -> Integer:
    low = draw(st.integers(-(2**61), 2**61))
    return Integer(low, low + draw(st.sampled_from([0, 1, 2, 9, 1000, 2**53 - 1])), **draw(options))


@st.composite
def categories(draw: st.DrawFn) -> Category:
    kinds: list[st.SearchStrategy[Any]] = [texts, st.integers(-(2**62), 2**62), st.booleans()]
    values = draw(st.sampled_from(kinds).flatmap(lambda kind: st.lists(kind, min_size=1, max_size=9, unique=True)))
    return Category(*values, other=draw(st.sampled_from([None, *values])), **draw(options))


@st.composite
def datetimes(draw: st.DrawFn) -> Datetime:
    moments = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(draw(zones)))
    start, end = sorted(draw(st.tuples(moments, moments)))
    return Datetime(start, end, draw(steps), **draw(options))


columns: st.SearchStrategy[Column] = st.one_of(
    numbers(),
    integers(),
    categories(),
    datetimes(),
    st.builds(lambda step, given: TimeOfDay(step, **given), steps, options),
    st.builds(lambda given: Boolean(**given), options),
)

schemas = st.dictionaries(names, columns, min_size=1, max_size=5).map(Schema)


def values_of(column: Column) -> st.SearchStrategy[Any]:
    """Values that the column has, missing ones among them if it may miss some; of steps, the moment they begin."""
    found: st.SearchStrategy[Any]
    if isinstance(column, Number):
        found = st.floats(*column.limits)
    elif isinstance(column, Integer):
        found = st.integers(*column.limits)
    elif isinstance(column, Category):
        found = st.sampled_from(column.values)
    elif isinstance(column, Boolean):
        found = st.booleans()
    else:
        assert isinstance(column, Datetime | TimeOfDay)
        places = st.integers(0, column.size - 1).map(
            lambda place: timedelta(microseconds=place * microseconds(column.step))
        )
        start = column.start if isinstance(column, Datetime) else datetime(2000, 1, 1)
        assert isinstance(start, datetime)
        # Time is added in UTC: on a clock that is put forward an hour is missing.
        moments = places.map(
            lambda place: (start.astimezone(UTC) + place).astimezone(start.tzinfo) if start.tzinfo else start + place
        )
        found = moments if isinstance(column, Datetime) else moments.map(datetime.time)
    return st.none() | found if column.missing else found


@st.composite
def tables(draw: st.DrawFn, fewest: int = 0) -> tuple[Schema, list[dict[str, Any]]]:
    """A schema and records that fit it."""
    schema = draw(schemas)
    record = st.fixed_dictionaries({name: values_of(column) for name, column in schema.columns.items()})
    return schema, draw(st.lists(record, min_size=fewest, max_size=6))


def same(column: Column, given: object, found: object) -> bool:
    """Whether a value came back: exactly, except that real numbers are rounded on their way."""
    if given is None:
        return found is None or found != found
    if isinstance(column, Number):
        assert isinstance(given, float)
        assert isinstance(found, float)
        low, high = column.limits
        lost = 4 * 2.0**-53 * max(abs(low), abs(high), high - low)
        if column.grid is None:
            lost += 0.500001 * column.rounding.unit(given)
        return bool(low <= found <= high and abs(found - given) <= lost)
    return type(given) is type(found) and given == found
