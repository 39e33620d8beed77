"""The person is read at every input, is a function of its record alone, and is in no release."""

import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import headwater as hw
from headwater.public import files
from headwater.public.errors import SchemaError, TableError
from headwater.public.tables import values_of
from headwater.secret.people import Hashes, hash_each
from headwater.state import _BANNER
from tests.support.runs import nulls

SCHEMA = hw.Schema(x=hw.Number(0, 1), y=hw.Number(0, 1))
PERSON = hw.Person("who", records=3)
N = 400


def hash_people(people: object, key: bytes) -> Hashes:
    hashes, wrong = hash_each(values_of(people), key)
    for row, error in wrong.items():
        raise error.at(row=row)
    return hashes


def table() -> dict[str, list[Any]]:
    rng = np.random.default_rng(3)
    return {
        "x": rng.random(N).round(6).tolist(),
        "who": [f"p{i}" for i in rng.integers(0, 60, N)],
        "y": rng.random(N).round(6).tolist(),
    }


def started(**more: Any) -> hw.Synthesizer:  # noqa: ANN401
    return hw.Synthesizer(SCHEMA, epsilon=1.0, seed=1, **({"person": PERSON} | more))


def records() -> list[dict[str, Any]]:
    found = table()
    return [{name: found[name][i] for name in found} for i in range(N)]


def as_file(folder: Path, kind: str) -> Path:
    path = folder / f"in.{kind}"
    if kind == "csv":
        path.write_text("x,who,y\n" + "".join(f"{r['x']},{r['who']},{r['y']}\n" for r in records()))
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(r) + "\n" for r in records()))
    elif kind == "json":
        path.write_text(json.dumps(records()))
    elif kind == "arrow":
        found = pa.table(table())
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, found.schema) as writer:
            writer.write_table(found)
    else:
        pyarrow.parquet.write_table(pa.table(table()), path)
    return path


@pytest.fixture(scope="module")
def wanted() -> bytes:
    synth = started()
    synth.update(table())
    assert synth.capped == N - sum(min(3, n) for n in pd.Series(table()["who"]).value_counts())
    return synth.to_bytes()


def content(synth: hw.Synthesizer) -> list[Any]:
    """All of a state but the kind of table that came last."""
    header, arrays = files.unpack(synth.to_bytes(), _BANNER, "")
    header.pop("kind")
    return [header, {name: array.tolist() for name, array in arrays.items()}]


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow table", "records", "category", "large"])
def test_frames_name_people(kind: str, wanted: bytes) -> None:
    columns = table()
    makers: dict[str, Callable[[], Any]] = {
        "pandas": lambda: pd.DataFrame(columns),
        "polars": lambda: pl.DataFrame(columns),
        "arrow table": lambda: pa.table(columns),
        "records": records,
        "category": lambda: pd.DataFrame(columns).astype({"who": "category"}),
        "large": lambda: pa.table({**columns, "who": pa.array(columns["who"], pa.large_string())}),
    }
    synth = started()
    synth.update(makers[kind]())
    assert content(synth) == content(hw.Synthesizer.from_bytes(wanted))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json", "parquet", "arrow"])
def test_files_name_people(kind: str, tmp_path: Path, wanted: bytes) -> None:
    synth = started()
    synth.update(as_file(tmp_path, kind))
    assert content(synth) == content(hw.Synthesizer.from_bytes(wanted))


def test_no_release_and_no_row_has_the_person(tmp_path: Path) -> None:
    synth = started()
    synth.update(pd.DataFrame(table()))
    assert list(synth.release().sample(5).columns) == ["x", "y"]
    synth.save(tmp_path / "state")
    assert b"p17" not in (tmp_path / "state").read_bytes()
    assert b"who" in (tmp_path / "state").read_bytes()  # the name of the column is public


def test_who_is_who() -> None:
    """The number 7 and the texts "7", "7.0" and "7e0" are one person, as bytes too; "007" and a UUID are others."""
    one = uuid.UUID(int=7)
    names = [7, "7", "7.0", "7.", "7.000", 7.0, Decimal(7), np.int16(7), b"7", b"7.0", "7e0", "70E-1", "0.07e+2"]
    hashes = [tuple(hash_people([name], bytes(32))[0].tolist()) for name in names]
    assert len({*hashes}) == 1
    hashes += [tuple(hash_people([name], bytes(32))[0].tolist()) for name in ("007", one, str(one), b"\xff7", 8)]
    assert len({*hashes}) == 5
    assert hashes[-4] == hashes[-3]
    others = ["7.10", "7.0.0", "v7.0", "7.0 ", "1e1.0", ".0", ".", "71e-1", "7e", "e7", "7e0e0", "7e9999"]
    assert len({tuple(one) for one in hash_people([*others, "7"], bytes(32)).tolist()}) == len(others) + 1
    assert hash_people(pd.array([7, None], dtype="Int64"), bytes(32))[0].tolist() == list(hashes[0])
    assert hash_people(["7"], bytes(31) + b"\1")[0].tolist() != list(hashes[0])


def test_a_state_that_told_people_apart_by_another_rule_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else somebody with a name of either kind would have a second cap."""
    state = started().to_bytes()
    monkeypatch.setattr("headwater.secret.people.NAMES_VERSION", 99)
    with pytest.raises(hw.FileRefusedError, match="people by another rule"):
        hw.Synthesizer.from_bytes(state)


def test_whole_numbers_are_one_person_however_libraries_write_them() -> None:
    """Java and Spark write the double 12345678 as 1.2345678E7; zero has a sign in some of them."""
    for names in ([12345678, 12345678.0, "1.2345678E7", "12345678.0", "1.2345678e+07"], [0, -0.0, "0", "-0", "-0.0"]):
        assert len({tuple(one) for name in names for one in hash_people([name], bytes(32)).tolist()}) == 1


def test_a_float_that_several_whole_numbers_round_to_names_nobody() -> None:
    """2^53 + 1 is 2^53 as a float, and would be somebody else."""
    assert hash_people([2.0**53 - 1], bytes(32)).tolist() == hash_people([2**53 - 1], bytes(32)).tolist()
    with pytest.raises(TableError, match="not whole"):
        hash_people([float(2**53 + 1)], bytes(32))


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_a_moment_names_nobody_whatever_its_unit(unit: str) -> None:
    for kind in "Mm":
        with pytest.raises(TableError, match=r"row 0.*where a person is named"):
            hash_people(np.array([7, 8], dtype=f"{kind}8[{unit}]"), bytes(32))


def test_who_a_record_belongs_to_is_decided_by_it_alone() -> None:
    """In a mixed column too, of which pandas takes True, 1 and 1.0 for one value, and with a missing category."""

    def read(*items: object) -> list[list[int]]:
        found = pd.DataFrame({"x": 0.5, "y": 0.5, "who": pd.Series(["a"] * 200 + [*items], dtype=object)})
        synth = started(person=hw.Person("who", records=3, null="nowhere"))
        rows: list[list[int]] = synth.encode(found, bad_rows="null").rows[200:].tolist()
        return rows

    for last in (1, True, 1.0, "1", None, b"1"):
        alone = read(last)
        for before in (1, True, 1.0, "1", None):
            assert read(before, last)[1:] == alone
    plain = hash_people([7, None, 8], bytes(32)).tolist()
    for dtype in ("Int64", "object"):
        categories = pd.Series(pd.Categorical(pd.array([7, None, 8], dtype=dtype)))
        assert hash_people(categories, bytes(32)).tolist() == plain
    assert hash_people(pl.Series([7, None, 8], dtype=pl.Int128), bytes(32)).tolist() == plain


@pytest.mark.parametrize("wrong", [True, 7.5, 2.0**60, [1], pd.Timestamp("2024-01-01"), {"a": 1}])
def test_what_names_nobody_is_refused_without_the_value(wrong: object) -> None:
    with pytest.raises(TableError, match=r"row 2.*person|person.*row 2") as caught:
        started().update([{"x": 0.1, "y": 0.1, "who": "a"}] * 2 + [{"x": 0.1, "y": 0.1, "who": wrong}])
    assert "7.5" not in str(caught.value)
    assert "2024" not in str(caught.value)


def test_a_person_in_the_schema_and_a_person_of_a_cube_are_refused() -> None:
    with pytest.raises(SchemaError, match="take it out of the schema"):
        hw.Synthesizer(SCHEMA, epsilon=1.0, person=hw.Person("x", records=3))
    with pytest.raises(SchemaError, match="declare a schema"):
        hw.Synthesizer(hw.unit_cube(2), epsilon=1.0, person=PERSON)
    with pytest.raises(TypeError, match="Person"):
        hw.Synthesizer(SCHEMA, epsilon=1.0, person="who")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "declared", [{"records": 0}, {"records": True}, {"records": 3, "per": "soon"}, {"records": 3, "per": 0},
                 {"records": 3, "null": "skip"}, {"records": 3, "per_bucket": 4}]
)  # fmt: skip
def test_a_declaration_that_says_nothing_is_refused(declared: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        hw.Person("who", **declared)


NULLS = {"x": [0.1, 0.2, 0.3, 0.4], "y": [0.5] * 4, "who": ["a", None, "", "a"]}


def test_nobody_is_refused_unless_declared() -> None:
    with pytest.raises(TableError, match=r'null=, --null-person.*"own"'):
        started().update(NULLS)
    synth = started()
    synth.update(NULLS, bad_rows="null")
    assert (synth.t, synth.tally.bad, synth.capped) == (4, 2, 0)


@pytest.mark.parametrize(("null", "limit", "left_out"), [("own", 1, [3]), ("nowhere", 2, [1, 2])])
def test_nobody_is_a_person_of_its_own_or_nowhere(null: str, limit: int, left_out: list[int]) -> None:
    """The first is always counted: nobody else has that record."""
    synth = started(person=hw.Person("who", records=limit, null=null))
    assert np.flatnonzero(nulls(synth, NULLS, "stop")).tolist() == left_out
    assert (synth.t, synth.tally.bad, synth.capped) == (4, 0, int(null == "own"))
    assert "who: 2 missing (50%)" in list(synth.tally.lines())


def test_bad_records_use_up_the_cap_of_their_person() -> None:
    """Otherwise what is in one record would decide whether another one counts."""
    rows = [{"x": "?", "y": 0.5, "who": "a"}, *[{"x": 0.1, "y": 0.5, "who": "a"}] * 3]
    synth = started(person=hw.Person("who", records=2))
    assert nulls(synth, rows) == [True, False, True, True]
    assert (synth.tally.bad, synth.capped) == (1, 2)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "arrow", "records", "bytes"])
def test_a_text_that_means_missing_in_every_column_names_nobody(tmp_path: Path, kind: str) -> None:
    """As one person all of them would share a cap; of a text that only some columns declare nothing is known."""
    schema = hw.Schema(x=hw.Number(0, 1, null_values=["NA", "-"]), y=hw.Number(0, 1, null_values=["NA"]))
    names = ["NA"] * 10 + [" NA"] * 10 + ["-"] * 20
    given: Any = tmp_path / f"in.{kind}"
    columns = pa.table({"x": [0.5] * 40, "y": [0.5] * 40, "who": names})
    match kind:
        case "csv":
            given.write_text("x,y,who\n" + "".join(f"0.5,0.5,{name}\n" for name in names))
        case "jsonl":
            given.write_text("".join(f'{{"x": 0.5, "y": 0.5, "who": "{name}"}}\n' for name in names))
        case "parquet":
            pyarrow.parquet.write_table(columns, given)
        case "arrow":
            given = columns
        case "bytes":
            given = columns.set_column(2, "who", columns["who"].cast("binary"))
        case _:
            given = columns.to_pylist()
    synth = hw.Synthesizer(schema, epsilon=1.0, seed=1, person=hw.Person("who", records=3, null="own"))
    synth.update(given)
    assert synth.capped == 17  # of "-", who is one person
