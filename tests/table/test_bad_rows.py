"""Rows that are no records: found one by one, whatever else is in the table; and what was clipped is tallied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import headwater as hw
from headwater.public.cascade import counts as pool
from headwater.public.marginals.model import without_nulls
from headwater.public.protocol import null_records
from headwater.public.tally import BadRow, Tally, item_of, row_text, row_texts

SCHEMA = hw.Schema(
    age=hw.Integer(0, 100, outside="error"),
    size=hw.Number(0, 10, missing=True),
    kind=hw.Category("a", "b", "rest", other="rest"),
)
RECORDS: list[dict[str, Any]] = [
    {"age": 5, "size": 1.0, "kind": "a"},
    {"age": 500, "size": 1.0, "kind": "a"},  # bad
    {"age": 6, "size": 99.0, "kind": "zebra"},
    {"age": 7, "size": None, "kind": "b"},
    {"age": None, "size": 2.0, "kind": "b"},  # bad
    {"age": 8, "size": -3.0, "kind": "rest"},
]
COLUMNS = {name: [record[name] for record in RECORDS] for name in SCHEMA.names}
TABLES = {
    "records": RECORDS,
    "columns": COLUMNS,
    "pandas": pd.DataFrame(COLUMNS),
    "polars": pl.DataFrame(COLUMNS),
    "arrow": pa.table(COLUMNS),
}


@pytest.mark.parametrize("kind", TABLES)
def test_bad_rows_are_null_and_everything_else_is_as_it_was(kind: str) -> None:
    found = SCHEMA.encode_batch(TABLES[kind], bad_rows="null")
    assert [bad.row for bad in found.bad] == [1, 4]
    assert [bad.error.column for bad in found.bad] == ["age", "age"]
    good = [0, 2, 3, 5]
    assert np.array_equal(found.points[good], SCHEMA.encode([RECORDS[row] for row in good]))
    assert found.tally.bad == 2
    assert found.tally.columns["kind"] == {"unlisted": 1}
    assert found.tally.columns["size"] == {"missing": 1, "clipped": 2}
    with pytest.raises(hw.TableError):
        SCHEMA.encode_batch(TABLES[kind])


def test_a_record_is_bad_by_itself_or_not_at_all() -> None:
    rows: list[Any] = [
        *RECORDS,
        {"age": True, "size": 1.0, "kind": "a"},
        {"age": 1},
        {"age": "x", "size": 1, "kind": []},
    ]
    whole = SCHEMA.encode_batch(rows, bad_rows="null")
    alone = [SCHEMA.encode_batch([row], bad_rows="null") for row in rows]
    assert [bad.row for bad in whole.bad] == [i for i, one in enumerate(alone) if one.bad] == [1, 4, 6, 7, 8]
    good = [i for i, one in enumerate(alone) if not one.bad]
    assert np.array_equal(whole.points[good], np.concatenate([alone[i].points for i in good]))
    assert sum((one.tally for one in alone), Tally()).to_dict() == whole.tally.to_dict()


class _Unwritten:
    def __str__(self) -> str:
        raise RuntimeError


UNWRITTEN: list[Any] = [
    pa.table({"day": pa.array([2**31 - 1], pa.int32()).cast(pa.date32()), "age": [500]}),
    pa.table({"day": pa.array([2**62], pa.int64()).cast(pa.timestamp("us", "UTC")), "age": [500]}),
    pa.table({"day": pa.array([2**62], pa.int64()).cast(pa.duration("s")), "age": [500]}),
    pd.DataFrame({"day": pd.Series([2**62], dtype=pd.ArrowDtype(pa.timestamp("us"))), "age": [500]}),
    [{"day": 10**5000, "age": 500}],
    [{"day": _Unwritten(), "age": 500}],
    [{"day": None, ("age", 1): 500}],
]


@pytest.mark.parametrize("table", UNWRITTEN, ids=lambda table: type(table).__name__)
def test_a_bad_row_that_cannot_be_written_as_json_stops_nothing(table: Any) -> None:  # noqa: ANN401 - of any library
    (bad,) = row_texts(table, [BadRow(0, hw.TableError("wrong", "other"))])
    assert "500" in bad.text
    if isinstance(table, pa.Table):
        assert "500" in row_text({name: item_of(table[name], 0) for name in table.column_names})


@pytest.mark.parametrize("mechanism", ["cascade", "paper", "marginals"])
def test_a_synthesizer_counts_bad_rows_and_keeps_the_tally(mechanism: str) -> None:
    synth = hw.Synthesizer(SCHEMA, epsilon=1.0, mechanism=mechanism)
    synth.update(RECORDS, bad_rows="null")
    assert synth.t == 6
    batch = synth.encode(RECORDS, bad_rows="null")
    assert null_records(batch.rows).tolist() == [False, True, False, False, True, False]
    again = hw.Synthesizer.from_bytes(synth.to_bytes())
    assert again.tally.to_dict() == synth.tally.to_dict()
    assert again.tally.bad == 2
    again.release()
    with pytest.raises(ValueError, match="needs a run with a state"):
        synth.update(RECORDS, bad_rows="quarantine")
    with pytest.raises(ValueError, match="bad_rows must be one of stop, null, quarantine"):
        synth.update(RECORDS, bad_rows="skip")
    with pytest.raises(hw.TableError):
        synth.update(RECORDS)
    declared = hw.Synthesizer(SCHEMA.with_bad_rows("null"), epsilon=1.0, mechanism=mechanism)
    declared.update(RECORDS)
    assert declared.tally.to_dict() == synth.tally.to_dict()


def test_points_outside_of_the_cube_are_bad() -> None:
    synth = hw.Synthesizer(hw.unit_cube(2), epsilon=1.0)
    synth.update([[0.5, 0.5], [np.nan, 0.1], [0.2, 1.5]], bad_rows="null")
    assert (synth.t, synth.tally.bad) == (3, 2)


def test_two_cells_with_null_records_still_add_up_to_the_public_number() -> None:
    """Noise is drawn once for both cells, so their sum must not show how many records were bad."""
    schema = hw.Schema(yes=hw.Boolean(), n=hw.Integer(0, 1), x=hw.Number(0, 1), y=hw.Number(0, 1))
    synth = hw.Synthesizer(schema, epsilon=1.0, mechanism="marginals")
    record = {"yes": True, "n": 1, "x": 0.5, "y": 0.5}
    for start in range(0, 4000, 4):
        synth.update([record, record, {**record, "n": "bad"}, record], bad_rows="null")
        assert synth.t == start + 4
    tables = [table for table in synth.measured().tables if table.counts.shape == (2,)]  # type: ignore[attr-defined]
    assert tables
    assert all(int(table.counts.sum()) == table.end - table.start for table in tables)


def with_bad_rows(share: float, mechanism: str) -> tuple[hw.Synthesizer, dict[str, Any]]:
    """6,000 records, some of which are bad, and the good ones; both columns are far from even."""
    rng = np.random.default_rng(1)
    table = {"yes": rng.random(6000) < 0.8, "x": rng.beta(2, 8, 6000), "y": rng.random(6000), "z": rng.random(6000)}
    bad = rng.random(6000) < share
    schema = hw.Schema(yes=hw.Boolean(), x=hw.Number(0, 1), y=hw.Number(0, 1), z=hw.Number(0, 1))
    synth = hw.Synthesizer(schema, epsilon=2.0, mechanism=mechanism, seed=3)
    written = ["bad" if wrong else x for wrong, x in zip(bad, table["x"], strict=True)]
    synth.update(table | {"x": written}, bad_rows="null")
    return synth, {name: column[~bad] for name, column in table.items()}


@pytest.mark.parametrize("mechanism", ["cascade", "marginals"])
def test_a_release_has_the_shares_of_the_good_records(mechanism: str) -> None:
    """Of two values, of which the first would get all null records; and of many, which would get them evenly.

    Of 40 % null records that would be 0.3 and 0.1; noise is below 0.02 (fixed seed).
    """
    synth, good = with_bad_rows(0.4, mechanism)
    found = synth.release().sample(kind="columns")
    assert len(found["x"]) == 6000
    assert abs(np.mean(found["yes"]) - np.mean(good["yes"])) < 0.06
    assert abs(np.mean(found["x"]) - np.mean(good["x"])) < 0.03


def test_null_records_that_come_late_leave_the_shares_of_the_good_ones() -> None:
    """Of 24,000 records the last 18,000 are bad.

    Were their absence spread evenly over time, shares would move by more than 0.1; noise moves them by less than 0.03
    (fixed seed).
    """
    synth, good = with_bad_rows(0.0, "marginals")
    for _ in range(18):
        synth.update({"yes": [True] * 1000, "x": ["bad"] * 1000, "y": [0.5] * 1000, "z": [0.5] * 1000}, bad_rows="null")
    release = synth.release()
    found = release.sample(kind="columns")
    assert len(found["x"]) == 24_000
    assert abs(np.mean(found["yes"]) - np.mean(good["yes"])) < 0.06
    assert abs(np.mean(found["x"]) - np.mean(good["x"])) < 0.04


def test_without_null_records_nothing_is_scaled() -> None:
    synth, _ = with_bad_rows(0.0, "marginals")
    measured: Any = synth.measured()
    assert without_nulls(measured) is measured
    synth, _ = with_bad_rows(0.0, "cascade")
    pools, _ = synth.measured().pools()  # type: ignore[attr-defined]
    assert all(pool.without_nulls(one) is one for one in pools)


def test_the_policy_of_a_schema_file(tmp_path: Any) -> None:  # noqa: ANN401 - a path
    path = tmp_path / "s.toml"
    SCHEMA.with_bad_rows("null").save(path)
    loaded = hw.Schema.load(path)
    assert loaded.bad_rows == "null"
    assert loaded == SCHEMA
    path.write_text(path.read_text().replace('"null"', '"skip"', 1))
    with pytest.raises(hw.SchemaError, match="write one of stop, null, quarantine"):
        hw.Schema.load(path)


class _Incomparable:
    def __ne__(self, other: object) -> bool:
        raise RuntimeError("as tensors do, whose truth is ambiguous")


@pytest.mark.parametrize(
    "odd",
    [
        None,
        5,
        "age",
        [5, 1.0, "a"],
        {},
        dict([*RECORDS[0].items(), (None, ["more"])]),  # of csv.DictReader: too many fields
        {**RECORDS[0], "age": _Incomparable()},
    ],
)
@pytest.mark.parametrize("person", [None, "who"])
def test_whatever_is_in_a_list_of_records_takes_no_other_record_along(odd: object, person: str | None) -> None:
    more = {} if person is None else {"who": "somebody"}
    good = [{**record, **more} for record in (RECORDS[0], RECORDS[3])]
    table = [good[0], {**odd, **more} if isinstance(odd, dict) else odd, good[1]]
    found = SCHEMA.encode_batch(table, bad_rows="quarantine", beside=person)
    assert [bad.row for bad in found.bad] == [1]
    assert np.array_equal(found.points[[0, 2]], SCHEMA.encode([RECORDS[0], RECORDS[3]]))
    assert len(row_texts(table, found.bad)) == 1
    with pytest.raises(hw.TableError) as error:
        SCHEMA.encode_batch(table, beside=person)
    assert error.value.row == 1
