"""Derived columns: a pure function of the record, in every way of reading, against Python's own calendar."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.public.derived import WEEKDAYS
from headwater.public.schema import schema_from_dict
from headwater.report.report import write_report
from headwater.run import FolderSink, Run, RunConfig, feed
from headwater.secret.read.source import open_source

moments = st.datetimes(datetime(1900, 1, 1), datetime(2099, 12, 31))
days = st.dates(date(1900, 1, 1), date(2099, 12, 31))


def years(later: date, earlier: date) -> int:
    return later.year - earlier.year - ((later.month, later.day) < (earlier.month, earlier.day))


@given(st.lists(st.tuples(moments, days), min_size=1, max_size=8))
def test_parts_are_those_of_the_calendar(rows: list[tuple[datetime, date]]) -> None:
    schema = hw.Schema(
        weekday=hw.Derived("at", "weekday"),
        month=hw.Derived("at", "month"),
        hour=hw.Derived("at", "hour"),
        day=hw.Derived("at", "date", low="1900-01-01", high="2099-12-31"),
        age=hw.Derived("at", "years since", since="born", low=-300, high=300),
        old=hw.Derived("at", "days since", since="1950-06-01", low=-99999, high=99999),
    )
    table: dict[str, list[Any]] = {"at": [at.isoformat() for at, _ in rows], "born": [born for _, born in rows]}
    found = schema.decode(schema.encode(table), "records")
    for (at, born), row in zip(rows, found, strict=True):
        assert row == {
            "weekday": WEEKDAYS[at.weekday()],
            "month": at.month,
            "hour": at.hour,
            "day": datetime(at.year, at.month, at.day),
            "age": years(at.date(), born),
            "old": (at.date() - date(1950, 6, 1)).days,
        }
    one_by_one = [schema.encode({name: [column[i]] for name, column in table.items()}) for i in range(len(rows))]
    assert np.array_equal(schema.encode(table), np.concatenate(one_by_one))


@given(st.lists(st.datetimes(datetime(1975, 1, 1), datetime(2030, 1, 1)), min_size=1, max_size=8))
def test_parts_are_those_of_the_local_clock(times: list[datetime]) -> None:
    schema = hw.Schema(hour=hw.Derived("at", "hour", zone="Europe/Paris"))
    local = [at.replace(tzinfo=UTC).astimezone(ZoneInfo("Europe/Paris")).hour for at in times]
    given_ = {"at": [at.replace(tzinfo=UTC).isoformat() for at in times]}
    assert schema.decode(schema.encode(given_), "columns")["hour"].tolist() == local


TEXTS = ["2024-05-05T23:59:59", "", "2023-12-31T00:00:00", "2024-02-29T12:30:00"]
SCHEMA = hw.Schema(
    x=hw.Integer(0, 9),
    at=hw.Datetime("2024-01-01", "2024-12-31", missing=True),
    day=hw.Derived("at", "weekday", missing=True),
    date=hw.Derived("at", "date", missing=True),
)


def table_in(kind: str, folder: Path) -> Any:  # noqa: ANN401 - of any library, or a path
    x, at = [1, 2, 3, 4], [datetime.fromisoformat(text) if text else None for text in TEXTS]
    columns = {"x": x, "at": at}
    if kind == "csv":
        lines = [f"{n},{text}" for n, text in zip(x, TEXTS, strict=True)]
        (folder / "in.csv").write_text("\n".join(["x,at", *lines, ""]))
    elif kind == "jsonl":
        lines = [json.dumps({"x": n, "at": text or None}) for n, text in zip(x, TEXTS, strict=True)]
        (folder / "in.jsonl").write_text("\n".join([*lines, ""]))
    elif kind == "parquet":
        pq.write_table(pa.table(columns), folder / "in.parquet")
    made = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table, "columns": dict}
    if kind == "records":
        return [dict(zip(columns, row, strict=True)) for row in zip(x, at, strict=True)]
    return made[kind](columns) if kind in made else folder / f"in.{kind}"


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "pandas", "polars", "arrow", "columns", "records"])
def test_every_way_of_reading_gives_the_same(kind: str, tmp_path: Path) -> None:
    """A time beyond its bounds counts as the bound, and so do its parts; what is missing has none."""
    table = table_in(kind, tmp_path)
    if isinstance(table, Path):
        with open_source([str(table)], SCHEMA, None) as source:
            (batch,) = source
            assert batch is not None
            points = SCHEMA.encode(batch.table)
    else:
        points = SCHEMA.encode(table)
    rows = SCHEMA.decode(points, "records")
    assert [row["day"] for row in rows] == ["Sunday", None, "Monday", "Thursday"]
    assert [row["date"] for row in rows] == [
        *map(datetime.fromisoformat, ["2024-05-05"]),
        None,
        *map(datetime.fromisoformat, ["2024-01-01", "2024-02-29"]),
    ]


def test_a_bad_or_missing_source_makes_a_bad_row_that_names_it() -> None:
    schema = hw.Schema(x=hw.Integer(0, 1), day=hw.Derived("at", "weekday", format="%d.%m.%Y"))
    table = {"x": [0, 0, 1], "at": ["05.05.2024", "soon", None]}
    found = schema.encode_batch(table, bad_rows="null")
    assert [(bad.row, bad.error.column) for bad in found.bad] == [(1, "at"), (2, "day")]
    with pytest.raises(hw.TableError, match='row 1, column "at": text that is not a date and time'):
        schema.encode(table)


def test_files_keep_derived_columns_and_releases_have_plain_ones(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        'headwater = 1\n[columns.day]\nfrom = "at"\npart = "weekday"\nzone = "UTC"\n'
        '[columns.age]\nkind = "derived"\nfrom = "at"\npart = "years since"\nsince = "2000-01-01"\nlow = 0\nhigh = 99\n'
        'zone = "UTC"\n'
    )
    schema = hw.Schema.load(tmp_path / "s.toml")
    assert (schema.names, list(schema.inputs)) == (("day", "age"), ["at"])
    assert schema_from_dict(schema.to_dict()) == schema
    assert schema.for_releases().columns == schema.columns == schema.for_releases().inputs


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"a": hw.Derived("t", "hour"), "b": hw.Derived("t", "hour", zone="UTC")}, "read in two ways"),
        ({"a": hw.Derived("t", "hour"), "b": hw.Derived("a", "hour")}, "not from another derived one"),
        ({"t": hw.Number(0, 1), "a": hw.Derived("t", "hour")}, "the part hour of a column of kind number"),
        ({"a": hw.Derived("t", "date")}, "start and end of Datetime must be declared"),
    ],
)
def test_what_cannot_be_derived_is_refused(columns: dict[str, Any], match: str) -> None:
    with pytest.raises(hw.SchemaError, match=match):
        hw.Schema(columns)


def test_a_person_is_no_source() -> None:
    with pytest.raises(hw.SchemaError, match="names the person"):
        hw.Synthesizer(hw.Schema(a=hw.Derived("t", "hour")), epsilon=1.0, person=hw.Person("t", records=1))


def test_a_run_conditions_on_a_derived_column() -> None:
    schema = hw.Schema(x=hw.Number(0, 1), day=hw.Derived("at", "weekday"))
    synth = hw.Synthesizer(schema, epsilon=8.0)
    start = datetime(2024, 1, 1)
    at = [start + timedelta(days=n) for n in range(700)]
    synth.update({"x": [n % 10 / 10 for n in range(700)], "at": at})
    found = synth.release().sample(50, where={"day": "Sunday"}, kind="records")
    assert {row["day"] for row in found} == {"Sunday"}
    assert set(found[0]) == {"x", "day"}


def test_releases_with_derived_columns_are_compared_and_shown(tmp_path: Path) -> None:
    """Real records have what they are computed from, releases have them as columns."""
    lines = [f"{datetime(2024, 1, 1) + timedelta(hours=7 * n):%d.%m.%Y %H:%M}" for n in range(2000)]
    (tmp_path / "in.csv").write_text("\n".join(["at", *lines, ""]))
    how: dict[str, Any] = {"format": "%d.%m.%Y %H:%M"}
    schema = hw.Schema(day=hw.Derived("at", "weekday", **how), hour=hw.Derived("at", "hour", **how))
    with (
        Run.open(RunConfig(schema, epsilon=20.0), FolderSink(tmp_path / "out")) as run,
        open_source([str(tmp_path / "in.csv")], schema, None) as source,
    ):
        feed(run, source)
    (folder,) = (tmp_path / "out").glob("release-*")
    found = hw.evaluate(tmp_path / "in.csv", folder)
    assert found.rows == (2000, 2000)
    assert max(error for *_, error in found.pairs) < 0.1
    page = write_report(tmp_path / "out", tmp_path / "page.html", against=tmp_path / "in.csv").read_text()
    assert "Wednesday" in page
