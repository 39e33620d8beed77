"""The encoding of a batch is the concatenation of the encodings of its records, for every way in and kind of column.

So a record never changes what another record means. A batch is refused exactly if one of its records is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater import Boolean, Category, Datetime, Integer, Number, Schema, TableError, TimeOfDay, unit_cube
from headwater.public.columns import Column
from headwater.secret.read.source import read

BIG = 2**53 + 1
GAPS: list[Any] = [None, float("nan"), np.nan, pd.NA, pd.NaT, Decimal("nan"), np.datetime64("NaT"), ""]
NUMBERS: list[Any] = [0, 1, 2, -1, BIG, 2**70, 0.0, -0.0, 1.0, 2.0, 1.5, 0.1, 1e300, float("inf"), "1", "1.0", " 2 "]
NUMBERS += [
    "x",
    "0x10",
    Decimal("1.0"),
    Decimal("0.1"),
    Fraction(1, 3),
    np.int8(1),
    np.float32(0.1),
    np.uint64(2**64 - 1),
]
OTHERS: list[Any] = [True, False, np.True_, "true", "No", "a", "b", "-0.0", "0.0", b"a", [1], 1j, str(BIG)]
TIMES: list[Any] = ["2020-02-03", "2020-02-03T04:05:06.7", "0000-01-01", "20200203", date(2020, 2, 3), time(4, 5)]
TIMES += [datetime(2020, 2, 3, 4), datetime(2020, 2, 3, tzinfo=UTC), np.datetime64("2020-02-03T04", "h"), "13:45"]
TIMES += ["13:45:10.", timedelta(hours=5), np.timedelta64(5, "h"), datetime(2020, 2, 3, 4).replace(microsecond=7)]
VALUES = [*GAPS, *NUMBERS, *OTHERS, *TIMES]

COLUMNS: list[Column] = [
    Number(-5, 5, missing=True),
    Number(0, 1, outside="error"),
    Integer(2**53 - 5, 2**53 + 5, missing=True),
    Integer(-1, 10),
    Category("1", "1.0", "0.0", "-0.0", "True", "true", str(BIG), str(2**53), "", "a", missing=True),
    Category("1", "1.0", "a", other="a"),
    Category(1, 2, BIG, 2**53, other=2),
    Category(True, False, missing=True),
    Boolean(missing=True),
    Datetime("2020-01-01", "2020-12-31", "1us", missing=True),
    Datetime("2020-01-01T00:00+00:00", "2020-12-31T00:00+00:00", "1h"),
    TimeOfDay("1us", missing=True),
    Number(0.5, 50, scale="log", missing=True),
    Number(-5, 5, step=0.25, null_values=["2", "x"], missing=True),
    Number(0, 5000, decimals=1, decimal=",", thousands="."),
    Integer(-1, 10, missing=True, null_values=["NA", "x"]),
    Integer(-1, 10, missing=True, null_values=["1"], thousands=" "),
    Number(0, 5000, decimals=1, unit="$", thousands=",", missing=True, null_values=["-1"]),
    Integer(-1, 10, unit="km"),
    Category("1", "a", other="a", missing=True, null_values=["x", "NA"]),
    Boolean(missing=True, null_values=["x", "NA"]),
    Datetime("2020-01-01", "2020-12-31", "1h", format="%Y%m%d", missing=True, null_values=["NA"]),
    Datetime("1970-01-01", "2020-12-31", "1us", format="epoch-ms", missing=True),
    TimeOfDay("1min", format="%H%M", missing=True, null_values=["x"]),
]


def encoded(schema: Schema, table: object) -> list[list[float]] | None:
    """The points of a table, or None if it is refused."""
    try:
        points: list[list[float]] = schema.encode(table).tolist()
    except TableError:
        return None
    return points


def one_by_one(schema: Schema, rows: list[Any]) -> list[list[float]] | None:
    """What the rows give by themselves, each a table of its own."""
    found = [encoded(schema, row) for row in rows]
    return None if None in found else [point for points in found if points is not None for point in points]


@cache
def accepted(column: Column, kind: str) -> list[Any]:
    """Those of some values that a column takes, each by itself."""
    values = {"values": VALUES, "texts": TEXTS, "numerals": NUMERALS}[kind]
    return [value for value in values if encoded(Schema(x=column), [{"x": value}]) is not None]


def some(data: st.DataObject, values: st.SearchStrategy[Any], good: list[Any]) -> list[Any]:
    """One value of any kind among some that are accepted, one of them twice."""
    others = data.draw(st.lists(st.sampled_from(good), max_size=6)) if good else []
    return data.draw(st.permutations([data.draw(values), *others, *others[:1]]))


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: repr(column)[:60])
@settings(max_examples=25)
@given(st.data())
def test_python_values(column: Column, data: st.DataObject) -> None:
    """Values of any types, in a list of records, a dictionary of lists and arrays of objects."""
    schema = Schema(x=column)
    values = some(data, st.sampled_from(VALUES), accepted(column, "values"))
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    alone = one_by_one(schema, [[{"x": value}] for value in values])
    assert encoded(schema, [{"x": value} for value in values]) == alone
    assert encoded(schema, {"x": values}) == alone
    assert encoded(schema, {"x": objects}) == alone
    assert encoded(schema, objects.reshape(-1, 1)) == alone


EQUAL: list[Any] = [1, 1.0, True, np.int8(1), Decimal(1), 1 + 0j, 0, -0.0, False, [1], b"a", Decimal("sNaN"), None, "1"]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: repr(column)[:60])
@settings(max_examples=25)
@given(st.lists(st.sampled_from(EQUAL), min_size=1, max_size=6))
def test_pandas_objects_behind_many_texts(column: Column, values: list[Any]) -> None:
    """A library may call a column text by its first values; what is behind them stays what it is."""
    schema, texts = Schema(x=column), ["1"] * 100
    objects = np.empty(100 + len(values), dtype=object)
    objects[:100], objects[100:] = texts, values
    found = schema.encode_batch(pd.DataFrame({"x": pd.Series(objects, dtype=object)}), bad_rows="null")
    bad = {row.row for row in found.bad}
    for row, value in enumerate(values, 100):
        alone = schema.encode_batch([{"x": value}], bad_rows="null")
        assert (row in bad) == bool(alone.bad)
        assert row in bad or found.points[row].tolist() == alone.points[0].tolist()


@pytest.mark.parametrize("dtype", [object, "string[python]"])
@pytest.mark.parametrize("others", [["cat\0", "cat\0x"], ["\ud800", "\udfff"], [None, "cat\0"]], ids=ascii)
def test_pandas_text_that_its_own_tables_take_for_other_text(dtype: str | type, others: list[Any]) -> None:
    """Some tables of texts end a text at NUL, or take half a character for the way in which Python writes it."""
    texts = [*others, "cat", "'\\ud800'", *others]
    column = Category(*(text for text in dict.fromkeys(texts) if text and "\ud800" != text != "\udfff"), missing=True)
    found = Schema(x=column).encode_batch({"x": pd.Series(texts, dtype=dtype)}, bad_rows="null")
    alone = [Schema(x=column).encode_batch({"x": [text]}, bad_rows="null") for text in texts]
    assert [bad.row for bad in found.bad] == [row for row, one in enumerate(alone) if one.bad]
    assert found.points.tolist() == [one.points.tolist()[0] for one in alone]


FAR = [
    pa.array([18300 * 86_400_000, 2**62, None], pa.int64()).cast(pa.date64()),
    pa.array([18300, 2**31 - 1, None], pa.int32()).cast(pa.date32()),
    pa.array([18300 * 86_400, 2**62, None], pa.int64()).cast(pa.timestamp("s")).dictionary_encode(),
]


@pytest.mark.parametrize("far", FAR, ids=lambda far: str(far.type))
@pytest.mark.parametrize("of_pandas", [False, True])
def test_a_date_that_python_has_not_is_clipped_and_refuses_no_other(far: Any, of_pandas: bool) -> None:  # noqa: ANN401
    series = pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([far]))) if of_pandas else far
    column = Datetime("2020-01-01", "2020-12-31", "1d", missing=True)
    assert column.encode(series).tolist() == column.encode(["2020-02-08", "2020-12-31", None]).tolist()


def test_categories_of_any_type_may_have_gaps() -> None:
    whole = pd.Series(pd.Categorical([2, None, 1, BIG], categories=[7, BIG, 1, 2]))
    assert (
        Integer(1, 2, missing=True).encode(whole[:3]).tolist()
        == Integer(1, 2, missing=True).encode([2, None, 1]).tolist()
    )
    assert Category(1, BIG, 2, missing=True).encode(whole).tolist() == [0.25, 0.5, 0.0, 0.125]


def test_whole_numbers_of_128_bits() -> None:
    values = [0, 2**70, None, BIG]
    column = Integer(2**53 - 5, 2**53 + 5, missing=True)
    assert column.encode(pl.Series(values, dtype=pl.Int128)).tolist() == column.encode(values).tolist()


def test_spans_of_years_are_bad_rows_one_by_one() -> None:
    """What a library cannot compare is wrong by itself, not for the whole column."""
    spans = np.array([0, "NaT", 1], dtype="m8[Y]")
    found = Schema(x=TimeOfDay(missing=True)).encode_batch({"x": spans}, bad_rows="null")
    assert [row.row for row in found.bad] == [0, 2]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: repr(column)[:60])
@settings(max_examples=25)
@given(st.lists(st.sampled_from([0, 1, 2, BIG, 0.0, -0.0, 1.0, 1.5, 2.0**53]), min_size=1, max_size=8))
def test_whole_numbers_and_fractions_do_not_mix(column: Column, values: list[Any]) -> None:
    """Vectorised or one by one: a list of whole numbers with one float among them keeps its whole numbers."""
    alone = one_by_one(Schema(x=column), [[{"x": value}] for value in values])
    assert encoded(Schema(x=column), {"x": values}) == alone


def arrays() -> dict[str, Any]:
    """Columns as libraries hold them: of one type, which was decided before Headwater sees them."""
    floats = [0.0, -0.0, 1.0, 1.5, float("nan"), float("inf"), 2.0**53, 0.1]
    whole = [0, 1, 2, BIG, 2**53, -1]
    texts = ["1", "1.0", "true", "", " ", "a", "x", "2020-02-03", "0000-01-01", "13:45", str(BIG)]
    dates = np.array(["2020-02-03T04:05:06.789", "NaT", "1700-01-01", "2020-12-31"], dtype="M8[ns]")
    spans = np.array([0, 3600 * 10**6, 86399 * 10**6], dtype="m8[us]")
    made: dict[str, Any] = {
        "numpy floats": np.array(floats),
        "numpy float32": np.array(floats, dtype=np.float32),
        "numpy int64": np.array(whole),
        "numpy uint64": np.array([0, 1, 2**63, BIG], dtype=np.uint64),
        "numpy bool": np.array([True, False]),
        "numpy text": np.array(texts),
        "numpy dates": dates,
        "numpy spans": spans,
        "masked": np.ma.MaskedArray([1, 2, BIG], mask=[False, True, False]),
        "pandas floats": pd.Series(floats),
        "pandas Int64": pd.Series([1, None, BIG], dtype="Int64"),
        "pandas boolean": pd.Series([True, None, False], dtype="boolean"),
        "pandas text": pd.Series([*texts, None]),
        "pandas category": pd.Series([*texts, None]).astype("category"),
        "pandas mixed": pd.Series([1, "1", 1.0, None, True, "a", -0.0, 0.0, BIG], dtype=object),
        "pandas dates": pd.Series(dates),
        "pandas zoned": pd.Series(dates).dt.tz_localize("UTC"),
        "polars floats": pl.Series([*floats, None]),
        "polars whole": pl.Series([*whole, None]),
        "polars text": pl.Series([*texts, None]),
        "polars category": pl.Series([*texts, None], dtype=pl.Categorical),
        "polars bool": pl.Series([True, None, False]),
        "polars dates": pl.Series([datetime(2020, 2, 3), None, datetime(1700, 1, 1)]),
        "polars time": pl.Series([time(4, 5), None]),
        "arrow floats": pa.chunked_array([floats[:3], [*floats[3:], None]]),
        "arrow whole": pa.chunked_array([whole[:2], [*whole[2:], None]]),
        "arrow text": pa.chunked_array([texts[:4], [*texts[4:], None]]),
        "arrow dictionary": pa.chunked_array([pa.array([*texts, None]).dictionary_encode()]),
        "arrow bool": pa.chunked_array([[True, None], [False]]),
        "arrow dates": pa.chunked_array([pa.array([0, 1580702400, None], pa.timestamp("s"))]),
        "arrow zoned": pa.chunked_array([pa.array([0, 1580702400, None], pa.timestamp("us", "UTC"))]),
        "arrow time": pa.chunked_array([pa.array([0, 14700, None], pa.time32("s"))]),
        "arrow decimal": pa.chunked_array([pa.array([Decimal("1.0"), Decimal("1.5"), None])]),
    }
    return made


ARRAYS = arrays()


@pytest.mark.parametrize("name", ARRAYS)
@settings(max_examples=25)
@given(st.data())
def test_columns_of_libraries(name: str, data: st.DataObject) -> None:
    """A part of a column means what its rows mean by themselves, whichever rows are with them."""
    column, array = data.draw(st.sampled_from(COLUMNS)), ARRAYS[name]
    chosen = data.draw(st.lists(st.integers(0, len(array) - 1), min_size=1, max_size=8))
    taken: Callable[[list[int]], Any] = lambda rows: {  # noqa: E731 - three libraries, three words
        "pandas": lambda: array.iloc[rows],
        "polars": lambda: array[rows],
        "arrow": lambda: array.take(rows),
    }.get(name.split()[0], lambda: array[rows])()
    schema = Schema(x=column)
    alone = one_by_one(schema, [{"x": taken([row])} for row in chosen])
    assert encoded(schema, {"x": taken(chosen)}) == alone
    frames: dict[str, Callable[[Any], Any]] = {
        "pandas": lambda part: pd.DataFrame({"x": part}),
        "polars": lambda part: pl.DataFrame({"x": part}),
        "arrow": lambda part: pa.table({"x": part}),
    }
    frame = frames.get(name.split()[0])
    if frame is not None:
        assert encoded(schema, frame(taken(chosen))) == alone


_TEXTS = (
    "1| 1|1.0|01|+1|0x10|0X1|1e0|nan|NaN(1)|-nan|inf|1e999|99999999999999999999|1_0|١|1.|.5|1d|infinity|true|"
    "TRUE|True|yes|t|tRuE|| |a|A|NA| NA |x|1.234|1 234|sNaN|-sNaN1|NaN1|1e99999999|2020-02-03|2020-02-03T04|"
    "2020-02-03 04:05|2020-02-03T04:05:06.1|0000-01-01|0001-01-01|9999-12-31|2020-02-03T04:05:06.1234567|"
    "2020-02-03T24:00|20200203|2020-2-3|2020-02-03T04:05:06Z|2020-W05-1|0001-01-01T00:00+05:00|"
    "2020-02-03T04:05:06+0100|2020-02-03T04:05+24:00|2020-02-03T04:05+01|2020-02-03T04:05-00:00|"
    "2020-02-03T04:05+23:59|2020-02-30|13:45|13|13:45:10|13:45:10.|13:45:10.5|13:45:60|24:00|T13:45|1345|13:45Z|"
    "-1e999999999999999999999|0e99999999999999999999"
)
TEXTS = _TEXTS.split("|")
TEXTS += [str(BIG), "9" * 5000]


def points_of(path: Path, schema: Schema) -> list[list[float]] | None:
    try:
        return [point for table in read(path, schema) for point in schema.encode(table).tolist()]
    except TableError:
        return None


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: repr(column)[:60])
@settings(max_examples=25)
@given(st.data())
def test_one_grammar_for_each_kind_of_column(column: Column, data: st.DataObject) -> None:
    """A text in a file is what the column itself reads in it, with whichever other texts it stands in the file.

    Alone in a file it is read by the fast parser if that can read it; beside others, perhaps by the slow one.
    """
    alphabet = st.text("0123456789+-.:eExXTZW nafi()", max_size=12)
    texts = some(data, st.sampled_from(TEXTS) | alphabet, accepted(column, "texts"))
    schema = Schema(x=column, number=Integer(0, 99))
    rows = [{"x": text, "number": number} for number, text in enumerate(texts)]
    alone = one_by_one(schema, [[row] for row in rows])
    with tempfile.TemporaryDirectory() as folder:
        plain, quoted, lines = (Path(folder) / name for name in ("a.csv", "b.csv", "a.jsonl"))
        plain.write_text("x,number\n" + "".join(f"{text},{number}\n" for number, text in enumerate(texts)))
        quoted.write_text("x,number\n" + "".join(f'"{text}",{number}\n' for number, text in enumerate(texts)))
        lines.write_text("".join(f'{{"x": "{text}", "number": {number}}}\n' for number, text in enumerate(texts)))
        assert points_of(quoted, schema) == alone
        assert points_of(lines, schema) == alone
        if isinstance(column, Category) and column.missing and "" in texts:
            return  # without quotes an empty field is missing, and the value "" is another
        assert points_of(plain, schema) == alone


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: repr(column)[:60])
def test_a_text_alone_in_a_file_is_what_the_column_reads(column: Column, tmp_path: Path) -> None:
    for text in TEXTS:
        if text or not isinstance(column, Category):
            (tmp_path / "a.csv").write_text(f"x\n{text}\n")
            assert points_of(tmp_path / "a.csv", Schema(x=column)) == encoded(Schema(x=column), [{"x": text}]), text


_NUMERALS = "1|1.0|-0|1e0|1E400|-1e400|0.1|2|true|false|null|NaN|Infinity|-Infinity|Inf|-Inf|nan|01|1.|.5|+1"
NUMERALS = _NUMERALS.split("|")
NUMERALS += ["0x10", "[]", "{}", '"a"', '"\\u0061"', '"\\ud800"', str(BIG), "1" * 5000]
EXTRA = ['"z": 1', '"z": {"q": [1, {"q": 2}]}', '"z": 1, "z": 2', '"z": Inf', '"z": "\\ud800"']
EXTRA += ['"z": ' + "[" * 3000 + "]" * 3000]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: repr(column)[:60])
@settings(max_examples=25)
@given(st.data())
def test_json_lines_one_by_one(column: Column, data: st.DataObject) -> None:
    """Whichever of two parsers reads a line, it is the same record, or refused."""
    values = some(data, st.sampled_from(NUMERALS), accepted(column, "numerals"))
    extra = [data.draw(st.sampled_from([*EXTRA, '"x": 1', *[""] * 20])) for _ in values]
    texts = [f'{{"x": {value}{", " if more else ""}{more}}}' for value, more in zip(values, extra, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"

        def points(lines: list[str]) -> list[list[float]] | None:
            path.write_text("".join(line + "\n" for line in lines))
            try:
                schema = Schema(x=column)
                found = [schema.encode(table).tolist() for table in read(path, schema, ignore_extra=True)]
                return [point for points in found for point in points]
            except TableError:
                return None

        alone = [points([text]) for text in texts]
        whole = points(texts)
        assert whole == (None if None in alone else [point for found in alone if found is not None for point in found])


@pytest.mark.parametrize("beside", [0, 1, 0.5, np.float32(0.25)])
def test_a_boolean_among_points_is_refused_whatever_stands_beside_it(beside: float) -> None:
    for batch in ([[True]], [[beside], [True]], [[np.bool_(False)], [beside]], [[beside], np.array([True])]):
        with pytest.raises(TypeError, match="not booleans"):
            unit_cube(1).encode(batch)


WRITTEN: list[Column] = [
    Number(-5000, 5000, decimal=",", thousands=".", unit="€", missing=True, null_values=["-999", "NA"]),
    Number(-5000, 5000, thousands=" ", unit="a b", missing=True),
    Number(-5000, 5000, decimal=",", thousands="$", unit="$", missing=True),
    Number(-5000, 5000, unit="inf", missing=True),
    Integer(-5000, 5000, thousands=",", unit="e", missing=True, null_values=["-999", "9223372036854775807"]),
    *(
        Datetime("1950-01-01", "2049-12-31", "1us", format=form, missing=True)
        for form in (
            "%d.%m.%Y",
            "%m/%d/%Y %H:%M",
            "%Y%m%d",
            "%H:%M:%S.%f %d.%m.%Y",
            "%d.%m.%Y %H",
            "%d.%m.%y",
            "epoch-ns",
        )
    ),
]
_DIGITS = "5|12|0|007|1.234|12.34|1 234,5|1$234|0.125|1,5|5,|,5|1e3|inf|nan(1)|0x10|0.1e-400|99999999999999.5"
DIGITS = _DIGITS.split("|")
DIGITS += ["1" + "0" * 17, "9" * 19, "1.0" + "0" * 18, "9223372036854775807"]
_DATES = (
    "29.02.2024|30.02.2024|1.2.2024|01.02.0999|2/30/2024 05:06|2/3/2024 5:6|20240131|2024111|01.02.2024 24|"
    "01.02.2024 3|03:04:05.5 01.02.2024|03:04:05.05 1.2.2024|01.02.24|31.12.1949|01.02.2024x|-5|12345678"
)
DATES = _DATES.split("|")


@pytest.mark.parametrize("column", [*COLUMNS, *WRITTEN], ids=lambda column: repr(column)[:60])
@settings(max_examples=25)
@given(st.data())
def test_text_of_arrow_is_read_as_its_texts_one_by_one(column: Column, data: st.DataObject) -> None:
    """Which part of the grammar is read at once, and in which block, changes no value and no error."""
    unit, alphabet = getattr(column, "unit", None) or "$", st.text("0123456789+-.:eE,$ \x1c\u00a0", max_size=10)
    numbers = st.tuples(
        st.sampled_from(["", "-", "+"]), st.sampled_from(DIGITS), st.sampled_from(["", unit, " " + unit])
    )
    either = st.builds(lambda parts, turned: "".join(parts[::-1] if turned else parts), numbers, st.booleans())
    texts = data.draw(st.lists(st.sampled_from([*TEXTS, *DATES]) | either | alphabet, min_size=1, max_size=70))
    alone = [column.placed(column.read([text])) for text in texts]
    for array in (pa.array(texts), pa.array(texts, pa.large_string()), pa.array(texts).dictionary_encode()):
        points, counts, errors = column.placed(column.read(array))
        good = [row for row in range(len(texts)) if row not in errors]
        assert good == [row for row, (_, _, wrong) in enumerate(alone) if not wrong]
        assert points[good].tolist() == [alone[row][0][0] for row in good]
        assert {row: str(error) for row, error in errors.items()} == {
            row: str(wrong[0]) for row, (_, _, wrong) in enumerate(alone) if wrong
        }
        assert counts == {kind: n for kind in counts if (n := sum(found.get(kind, 0) for _, found, _ in alone))}


def test_numbered_texts_are_read_as_texts_are() -> None:
    """Some of no row, one twice, missing ones; and numbers that name no text are a matter of their rows."""
    column = Category("a", "b", "é", missing=True)
    texts, numbers = pa.array(["b", "unused", "a", "é", None, "a"]), np.array([3, 0, 3, 2, 4, 5, 0], dtype=np.int8)
    coded = pa.DictionaryArray.from_arrays(pa.array(numbers, mask=numbers == 2), texts)
    for part in (coded, coded.slice(2, 3), coded.slice(1, 0)):
        assert column.encode(part).tolist() == column.encode(part.cast("string")).tolist()
    wrong = pa.DictionaryArray.from_arrays(np.array([0, 9, 2], dtype=np.int8), texts, safe=False)
    _, _, errors = column.placed(column.read(wrong))
    assert list(errors) == [1]
