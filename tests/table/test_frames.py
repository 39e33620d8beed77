"""Tables of every kind: the same points from all of them, and what comes in is the kind that comes out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from headwater import Boolean, Category, Datetime, Integer, Number, Schema, TableError, TimeOfDay
from headwater.public.tables import TABLE_KINDS, kind_of
from tests.table.strategies import same, tables

pa, pd, pl = (pytest.importorskip(library) for library in ("pyarrow", "pandas", "polars"))

RECORDS: list[dict[str, Any]] = [
    {
        "x": 0.5 * row,
        "i": row,
        "c": "cash" if row % 2 else "card",
        "n": 30 * (row % 2) + 7,
        "b": row == 1,
        "d": datetime(2024, 5, 5, 1, row),
        "z": datetime(2024, 5, 5, 1, row, tzinfo=UTC),
        "t": time(12, row, 30),
    }
    for row in range(4)
]


def schema(*, missing: bool) -> Schema:
    return Schema(
        x=Number(0, 2, missing=missing),
        i=Integer(-1, 9, missing=missing),
        c=Category("card", "cash", "none", missing=missing),
        n=Category(7, 37, missing=missing),
        b=Boolean(missing=missing),
        d=Datetime("2024-01-01", "2024-12-31", missing=missing),
        z=Datetime("2024-01-01T00:00Z", "2024-12-31T00:00Z", zone="Europe/Paris", missing=missing),
        t=TimeOfDay(missing=missing),
    )


def records(*, missing: bool) -> list[dict[str, Any]]:
    """Every third row is missing, if any may be."""
    return [dict.fromkeys(record) if missing and row % 3 == 1 else record for row, record in enumerate(RECORDS)]


def columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


MAKERS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "pandas": lambda rows: pd.DataFrame(columns(rows)),
    "polars": lambda rows: pl.DataFrame(rows, infer_schema_length=None),
    "arrow": lambda rows: pa.Table.from_pylist(rows),
    "arrow-batch": lambda rows: pa.RecordBatch.from_pylist(rows),
    "columns": columns,
    "records": list,
    "numpy": lambda rows: np.array([list(row.values()) for row in rows], dtype=object),
}
OTHERS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "pandas nullable": lambda rows: pd.DataFrame(columns(rows)).convert_dtypes(),
    "pandas arrow": lambda rows: pa.Table.from_pylist(rows).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas objects": lambda rows: pd.DataFrame(columns(rows), dtype=object),
    "pandas category": lambda rows: pd.DataFrame(columns(rows)).astype({"c": "category"}),
    "pandas unused category": lambda rows: pd.DataFrame(columns(rows)).assign(
        c=lambda frame: frame["c"].astype(pd.CategoricalDtype(["unlisted", "cash", "card"]))
    ),
    "polars category": lambda rows: pl.DataFrame(rows).with_columns(pl.col("c").cast(pl.Categorical)),
    "polars enum": lambda rows: pl.DataFrame(rows).with_columns(pl.col("c").cast(pl.Enum(["odd", "card", "cash"]))),
    "polars nanoseconds": lambda rows: pl.DataFrame(rows).with_columns(pl.col("d", "z").dt.cast_time_unit("ns")),
    "polars chunks": lambda rows: pl.concat([pl.DataFrame(rows[:2]), pl.DataFrame(rows[2:])], how="vertical_relaxed"),
    "arrow chunks": lambda rows: pa.concat_tables([pa.Table.from_pylist(rows[:3]), pa.Table.from_pylist(rows[3:])]),
    "arrow slice": lambda rows: pa.Table.from_pylist([*rows, *rows])[len(rows) :],
    "arrow dictionary": lambda rows: pa.table(
        pa.Table.from_pylist(rows).to_pydict() | {"c": pa.array([row["c"] for row in rows]).dictionary_encode()}
    ),
    "arrow large text": lambda rows: pa.Table.from_pylist(rows).set_column(
        2, "c", pa.array([row["c"] for row in rows], type=pa.large_string())
    ),
    "arrays": lambda rows: {name: np.array(values, dtype=object) for name, values in columns(rows).items()},
    "series": lambda rows: {name: pd.Series(values) for name, values in columns(rows).items()},
    "arrow arrays": lambda rows: {name: pa.array(values) for name, values in columns(rows).items()},
    "tuples": lambda rows: {name: tuple(values) for name, values in columns(rows).items()},
}


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("maker", [*MAKERS, *OTHERS])
def test_every_kind_of_table_gives_the_same_points(maker: str, missing: bool) -> None:
    rows = records(missing=missing)
    found = schema(missing=missing).encode((MAKERS | OTHERS)[maker](rows))
    assert np.array_equal(found, schema(missing=missing).encode(rows))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("kind", TABLE_KINDS)
def test_what_comes_in_is_the_kind_that_comes_out(kind: str, missing: bool) -> None:
    """And it goes in again, to the same points."""
    rows = records(missing=missing)
    table = MAKERS[kind](rows)
    assert kind_of(table) == kind
    points = schema(missing=missing).encode(table)
    found = schema(missing=missing).decode(points, kind)
    assert type(found) is type(table)
    assert kind_of(found) == kind
    assert np.allclose(schema(missing=missing).encode(found), points, rtol=0, atol=1e-15)


@given(tables())
def test_all_kinds_agree(table: tuple[Schema, list[dict[str, Any]]]) -> None:
    """Whatever the schema and the records: every kind that comes out goes in again, with the values it had."""
    drawn, rows = table
    points = drawn.encode(rows)
    for kind in TABLE_KINDS:
        again = drawn.decode(drawn.encode(drawn.decode(points, kind)), "records")
        for row, record in zip(rows, again, strict=True):
            assert list(record) == list(drawn.names)
            assert all(same(column, row[name], record[name]) for name, column in drawn.columns.items())


@pytest.mark.parametrize("maker", [maker for maker in MAKERS if maker != "numpy"])
def test_columns_are_left_out_of_every_kind_of_table_if_the_schema_says_so(maker: str) -> None:
    """As they are of files; the same points come out, under every policy."""
    rows = records(missing=True)
    strict, wider = schema(missing=True), MAKERS[maker]([row | {"rownames": 7} for row in rows])
    loose = strict.with_reading(ignore_extra=True)
    with pytest.raises(TableError, match=r'"rownames".*ignore_extra = true .*with_reading\(ignore_extra=True\)'):
        strict.encode(wider)
    assert np.array_equal(loose.encode(wider), strict.encode(rows))
    found = loose.encode_batch(wider, bad_rows="null", beside="rownames")
    assert np.array_equal(found.points, strict.encode(rows))
    assert not loose.encode_batch(wider, bad_rows="null").bad
    with pytest.raises(TableError, match="the column is missing"):  # an extra column stands for none
        loose.encode(MAKERS[maker]([{"rownames": 7} | {name: row[name] for name in list(row)[1:]} for row in rows]))


def test_one_record_is_a_list_of_one() -> None:
    assert kind_of(RECORDS[0]) == "records"
    assert np.array_equal(schema(missing=False).encode(RECORDS[0]), schema(missing=False).encode(RECORDS[:1]))


def test_columns_are_matched_by_name() -> None:
    table = pa.Table.from_pylist(RECORDS)
    backwards = table.select(table.column_names[::-1])
    for turned in (
        backwards,
        backwards.to_pandas(),
        pl.from_arrow(backwards),
        [dict(reversed(row.items())) for row in RECORDS],
    ):
        assert np.array_equal(schema(missing=False).encode(turned), schema(missing=False).encode(table))


def test_types_are_those_of_the_schema() -> None:
    """Of a frame with nothing missing, of one where something may be, and of one without rows: all the same."""
    for missing in (False, True):
        declared = schema(missing=missing)
        for rows in ([], RECORDS, records(missing=missing)):
            points = declared.encode(rows)
            arrow = declared.decode(points, "arrow").schema
            naive, paris = pa.timestamp("us"), pa.timestamp("us", "Europe/Paris")
            assert arrow.types == [
                pa.float64(), pa.int64(), pa.string(), pa.int64(), pa.bool_(), naive, paris, pa.time64("us")
            ]  # fmt: skip
            assert declared.decode(points, "arrow-batch").schema == arrow
            polars = declared.decode(points, "polars").dtypes
            zoned = pl.Datetime("us", "Europe/Paris")
            assert polars == [
                pl.Float64, pl.Int64, pl.String, pl.Int64, pl.Boolean, pl.Datetime("us"), zoned, pl.Time
            ]  # fmt: skip
            pandas = [str(dtype) for dtype in declared.decode(points, "pandas").dtypes]
            whole, flag = ("Int64", "boolean") if missing else ("int64", "bool")
            text = str(pd.Series(["a"]).dtype)
            assert pandas == [
                "float64", whole, text, whole, flag, "datetime64[us]", "datetime64[us, Europe/Paris]", "object"
            ]  # fmt: skip
            plain = [array.dtype.kind for array in declared.decode(points, "columns").values()]
            assert plain == (list("fOOOOMOO") if missing else list("fiOibMOO"))


def test_missing_values_come_out_as_each_library_has_them() -> None:
    declared = schema(missing=True)
    points = declared.encode([dict.fromkeys(declared.names)])
    assert [column.null_count for column in declared.decode(points, "arrow").columns] == [1] * 8
    assert declared.decode(points, "polars").null_count().row(0) == (1,) * 8
    assert declared.decode(points, "pandas").isna().all().all()
    record = declared.decode(points, "records")[0]
    assert np.isnan(record.pop("x"))
    assert set(record.values()) == {None}


def test_a_zone_that_polars_does_not_know_is_utc_there() -> None:
    declared = Schema(d=Datetime("2024-01-01T00:00+01:30", "2024-12-31T00:00+01:30"))
    points = declared.encode([{"d": "2024-05-05T12:00+01:30"}])
    moment = datetime(2024, 5, 5, 10, 30, tzinfo=UTC)
    for kind in ("polars", "pandas", "arrow"):
        frame = declared.decode(points, kind)
        assert next(iter(frame["d"].to_pylist() if kind == "arrow" else frame["d"])) == moment


@pytest.mark.parametrize(
    ("declared", "dtype"),
    [
        (Schema(a=Number(0, 1), b=Number(0, 1, missing=True)), np.float64),
        (Schema(a=Number(0, 1), b=Integer(0, 1)), np.float64),
        (Schema(a=Integer(0, 1), b=Integer(0, 1)), np.int64),
        (Schema(a=Integer(0, 1), b=Integer(0, 1, missing=True)), object),
        (Schema(a=Number(0, 1), b=Integer(2**60, 2**60 + 1)), object),
        (Schema(a=Number(0, 1), b=Boolean()), object),
    ],
)
def test_an_array_has_the_type_that_holds_all_columns(declared: Schema, dtype: Any) -> None:  # noqa: ANN401 - a dtype
    assert declared.decode(np.array([[0.5, 0.5]]), "numpy").dtype == dtype
    assert declared.decode(np.empty((0, 2)), "numpy").dtype == dtype


def test_tables_of_text_are_read_as_what_they_say() -> None:
    """As files of text give them."""
    texts = {name: [str(value) for value in values] for name, values in columns(RECORDS).items()}
    for table in (texts, pa.table(texts), pd.DataFrame(texts), pl.DataFrame(texts)):
        assert np.array_equal(schema(missing=False).encode(table), schema(missing=False).encode(RECORDS))


def test_dates_without_times() -> None:
    days = [date(2024, 2, 29), None]
    declared = Schema(d=Datetime("2024-01-01", "2024-12-31", "1d", missing=True))
    expected = declared.encode({"d": days})
    for table in (pa.table({"d": days}), pl.DataFrame({"d": days}), pd.DataFrame({"d": days})):
        assert np.array_equal(declared.encode(table), expected)


@pytest.mark.parametrize("maker", MAKERS)
def test_tables_are_not_changed(maker: str) -> None:
    table, twin = MAKERS[maker](records(missing=True)), MAKERS[maker](records(missing=True))
    schema(missing=True).encode(table)
    equal = table.equals(twin) if hasattr(table, "equals") else repr(table) == repr(twin)
    assert equal


def test_arrays_may_be_read_only() -> None:
    values = np.array([0.25, 3.0, np.nan])
    values.flags.writeable = False
    assert Schema(x=Number(0, 1, missing=True)).encode({"x": values}).tolist() == [
        [0.125],
        [np.nextafter(0.5, 0)],
        [0.5],
    ]


@pytest.mark.parametrize("table", [3, "text", None, object(), {1, 2}, iter([])])
def test_other_things_are_no_tables(table: object) -> None:
    with pytest.raises(TableError, match="a table cannot be of type") as caught:
        kind_of(table)
    assert "data frame" in caught.value.remedy


def test_a_plan_is_no_table() -> None:
    with pytest.raises(TableError, match="a plan of a table") as caught:
        kind_of(pl.LazyFrame({"x": [1]}))
    assert "collect" in caught.value.remedy


def test_no_library_of_tables_is_imported_with_the_package() -> None:
    """Nor to read and write plain Python tables."""
    code = (
        "import sys, headwater\n"
        "from headwater.public.schema import Schema\n"
        "from headwater import Number\n"
        "schema = Schema(x=Number(0, 1))\n"
        "schema.decode(schema.encode({'x': [0.5]}), 'records')\n"
        "print([name for name in ('pandas', 'polars', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("gap", [pd.NA, pd.NaT, np.nan, None])
def test_all_that_stands_for_nothing_is_missing(gap: object) -> None:
    declared = schema(missing=True)
    assert (declared.encode([dict.fromkeys(declared.names, gap)]) == 0.5).all()


@pytest.mark.parametrize(
    "type_", ["int8", "uint8", "int16", "uint32", "uint64", "float16", "float32", "decimal128(25, 2)", "string", "null"]
)
def test_numbers_of_every_type_of_arrow(type_: str) -> None:
    declared = Schema(n=Integer(0, 100, missing=True))
    kinds = {"decimal128(25, 2)": pa.decimal128(25, 2), "string": pa.string()}
    values = [None, None] if type_ == "null" else [7, None]
    column = (
        pa.array(values).cast(kinds.get(type_, type_)) if type_ != "float16" else pa.array([7.0, None], pa.float16())
    )
    found = declared.decode(declared.encode(pa.table({"n": column})), "records")
    assert found == [{"n": value} for value in values]
    assert found == declared.decode(declared.encode(pl.DataFrame({"n": values})), "records")
