"""One hostile record among ordinary ones changes nothing of the others, for every way in and kind of column.

The same records with an ordinary one in its place are the oracle: all others are encoded as there, and there are as
many. Under ``stop`` the batch is refused by an error that names this record, or taken. No message holds the value.

``HEADWATER_NIGHTLY=1`` tries every value in many places.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from headwater.client import _encoded
from headwater.public.categories import Boolean, Category
from headwater.public.columns import Column
from headwater.public.errors import TableError
from headwater.public.moments import Datetime, TimeOfDay
from headwater.public.numbers import Integer, Number
from headwater.public.person import Person
from headwater.public.schema import Schema
from headwater.public.tally import BadRow, row_texts
from headwater.secret.read.source import read_bytes
from headwater.secret.read.text import DEEPEST
from headwater.service.write import lines_of
from headwater.synthesizer import Synthesizer
from tests.support.nightly import NIGHTLY

ROUNDS = 40 if NIGHTLY else 1


class Raises:
    """Every method that a library may call raises."""

    def _raise(self, *_: object) -> NoReturn:
        raise RuntimeError("SECRET")

    __str__ = __repr__ = __hash__ = __eq__ = __ne__ = __float__ = __int__ = __index__ = __len__ = _raise
    __array__ = __bool__ = __iter__ = __lt__ = __le__ = __gt__ = __ge__ = __format__ = _raise


class NoClass:
    """Does not even say what it is."""

    @property  # type: ignore[misc]
    def __class__(self) -> NoReturn:  # type: ignore[override]
        raise RuntimeError("SECRET")


class Liar(int):
    """A whole number that says it is within all bounds."""

    def __le__(self, other: object) -> bool:
        return True

    __ge__ = __le__


class Text(str):
    """Text that cannot be compared."""

    __slots__ = ()

    def __hash__(self) -> int:
        raise RuntimeError("SECRET")


class LikeArrow:
    """Says that it is a value of Arrow, and cannot be read as one."""

    def as_py(self) -> NoReturn:
        raise RuntimeError("SECRET")

    @property
    def value(self) -> NoReturn:
        raise RuntimeError("SECRET")


class Key:
    """A key that cannot be compared with the name of a column."""

    def __hash__(self) -> int:
        return hash("x")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("SECRET")


def deep(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


PLAIN: list[Any] = [10**400, -(2**63) - 1, "9" * 5000, float("nan"), float("inf"), -0.0, "", "  ", "\0", "\ufeff1"]
PLAIN += ["a\r\nb", 'say "SECRET", twice', "SECRET" * 200_000, "١٢", True, 1.5, None, [1], {"x": {"y": 1}}, deep(300)]
OBJECTS: list[Any] = [
    Raises(),
    NoClass(),
    LikeArrow(),
    Liar(2**70),
    Text("SECRET"),
    b"SECRET\xff",
    "\ud800",
    Decimal("sNaN"),
]
OBJECTS += [Decimal("1e999999"), pd.NA, pd.NaT, np.datetime64("NaT"), np.float32("nan"), np.uint64(2**64 - 1)]
OBJECTS += [pa.scalar("SECRET"), date.min, datetime.max, datetime(1, 1, 1, tzinfo=UTC), timedelta.max, time.max, 1j]
OBJECTS += [deep(5000), np.array([1, 2]), np.array([np.nan]), pd.Series([1, 2]), {1, 2}, object(), int, len, (1,)]

KINDS: dict[str, tuple[Column, list[Any]]] = {
    "number": (Number(-5, 5), [0.5, 1, -2.25]),
    "integer": (Integer(2**53 - 5, 2**53 + 5, missing=True), [2**53 + 1, 2**53 - 1]),
    "category": (Category("a", "1", "1.0"), ["a", "1", "1.0"]),
    "other": (Category(1, 2**53 + 1, 2, other=2), [1, 2**53 + 1]),
    "boolean": (Boolean(), [True, False]),
    "datetime": (Datetime("2020-01-01", "2020-12-31", "1h"), ["2020-02-03T04:05", "2020-03-04"]),
    "time": (TimeOfDay("1min", missing=True), ["13:45", "01:02:03"]),
}
NAMES = ["ann", "bob", "7"]


def of_objects(values: list[Any]) -> Any:  # noqa: ANN401 - an array
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array


def columns(records: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [record[name] for record in records] for name in records[0]}


WAYS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "records": lambda records: records,
    "columns": columns,
    "numpy": lambda records: np.column_stack([of_objects(values) for values in columns(records).values()]),
    "pandas": lambda records: pd.DataFrame({n: pd.Series(of_objects(v)) for n, v in columns(records).items()}),
    "polars": lambda records: pl.DataFrame({n: pl.Series(n, v, dtype=pl.Object) for n, v in columns(records).items()}),
}


def cases(values: list[Any]) -> Iterator[tuple[Random, Any]]:
    for seed in range(ROUNDS):
        for number, value in enumerate(values):
            yield Random(1000 * seed + number), value  # noqa: S311 - nothing is protected


def made(way: str, random: Random, kind: str, hostile: Any, field: str) -> tuple[int, Any, Any]:  # noqa: ANN401
    """The place, and two tables: ordinary, and the same with one hostile value."""
    size = random.randint(1, 9)
    records = [{"x": random.choice(KINDS[kind][1]), "who": random.choice(NAMES)} for _ in range(size)]
    place = random.randrange(size)
    other = [{**record} for record in records]
    other[place][field] = hostile
    return place, WAYS[way](records), WAYS[way](other)


def synthesizer(kind: str) -> Synthesizer:
    schema, person = Schema(x=KINDS[kind][0]), Person("who", records=2)
    return Synthesizer(schema, epsilon=1.0, person=person, mechanism="cascade", seed=1)


def rows_of(synth: Synthesizer, table: object) -> list[list[int]]:
    rows: list[list[int]] = synth.encode(table, bad_rows="null").rows.tolist()
    return rows


@pytest.mark.parametrize("field", ["x", "who"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_tables(kind: str, way: str, field: str) -> None:
    synth = synthesizer(kind)
    for random, hostile in cases([*PLAIN, *OBJECTS]):
        try:
            place, ordinary, other = made(way, random, kind, hostile, field)
        except Exception:  # noqa: S112 - the library itself makes no such table
            continue
        one, two = rows_of(synth, ordinary), rows_of(synth, other)
        assert len(row_texts(other, [BadRow(place, TableError("", ""))])) == 1
        assert len(one) == len(two)
        assert one[:place] + one[place + 1 :] == two[:place] + two[place + 1 :]
        before = synth.t
        try:
            synth.update(other, bad_rows="stop")
        except TableError as error:
            assert error.row == place  # noqa: PT017 - it may be taken as well
            assert "SECRET" not in str(error)  # noqa: PT017
            assert synth.t == before
        else:
            assert synth.t == before + len(one)


@pytest.mark.parametrize(
    "record", [5, None, {}, {"x": 1, "y": 2}, {Key(): 1}, {Raises: 1}, [1], "SECRET"], ids=range(8)
)
@pytest.mark.parametrize("place", [0, 2, 4])
def test_records_that_are_none(record: Any, place: int) -> None:  # noqa: ANN401
    schema = Schema(x=Number(0, 1))
    records: list[Any] = [{"x": 0.25}] * 5
    records[place] = record
    found = schema.encode_batch(records, bad_rows="null")
    assert [bad.row for bad in found.bad] == [place]
    assert len(found.points) == 5
    with pytest.raises(TableError) as caught:
        schema.encode(records)
    assert caught.value.row == place
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("kind", ["category", "datetime", "number"])
def test_text_that_is_not_utf_8_is_a_matter_of_its_row(kind: str, coded: bool, form: str, tmp_path: Path) -> None:
    column, values = KINDS[kind]
    texts = [str(value).encode() for value in values]
    hostile = pa.array([*texts, b"SECRET\xff", *texts]).view(pa.string())
    table = pa.table({"x": hostile.dictionary_encode() if coded else hostile})
    path = tmp_path / f"a.{form}"
    if form == "parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    schema, size = Schema(x=column), len(texts)
    (batch,) = read_bytes(path.read_bytes(), schema, form, "quarantine")
    found = schema.encode_batch(batch.table, bad_rows="quarantine")
    assert [bad.row for bad in found.bad] == [size]
    good = schema.encode([{"x": str(value)} for value in values]).tolist()
    assert found.points[:size].tolist() == found.points[size + 1 :].tolist() == good
    assert len(batch.all_bad(found.bad)) == 1
    with pytest.raises(TableError) as caught:
        schema.encode(batch.table)
    assert caught.value.row == size
    assert "SECRET" not in str(caught.value)


def as_views(texts: list[bytes]) -> Any:  # noqa: ANN401 - a pyarrow.Array
    return pa.array(texts, pa.binary_view()).view(pa.string_view())


def as_extension(texts: list[bytes]) -> Any:  # noqa: ANN401 - a pyarrow.Array
    return pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(texts).view(pa.string()))


@pytest.mark.parametrize("made_of", [as_views, as_extension])
def test_views_and_extensions_of_text_that_is_not_utf_8(made_of: Callable[[list[bytes]], Any]) -> None:
    table, sink = pa.table({"x": made_of([b"a", b"SECRET\xff", b"1"])}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    schema = Schema(x=Category("a", "1"))
    (batch,) = read_bytes(sink.getvalue().to_pybytes(), schema, "arrow", "null")
    found = schema.encode_batch(batch.table, bad_rows="null")
    assert [bad.row for bad in found.bad] == [1]
    assert found.points[[0, 2]].tolist() == [[0.0], [0.5]]


def nested(levels: int, value: bytes = b"1") -> bytes:
    """A record with one more value, so that all of it is nested so many levels deep."""
    return b'{"x": 0.5, "y": ' + b"[" * (levels - 1) + value + b"]" * (levels - 1) + b"}"


def below(calls: int, read: Callable[..., Any], *given: Any) -> Any:  # noqa: ANN401 - whatever is read
    """What is read below so many calls."""
    return read(*given) if calls == 0 else below(calls - 1, read, *given)


def is_good(schema: Schema, text: bytes, form: str) -> list[bool]:
    (batch,) = read_bytes(text, schema, form, "null", ignore_extra=True)
    return [row in set(batch.places.tolist()) for row in range(batch.records)]


@pytest.mark.parametrize("levels", [DEEPEST, DEEPEST + 1, 500, 900, 990, 2000, 100_000])
@pytest.mark.parametrize("value", [b"1", b'"[{[{"', b'"\\"["'])
def test_how_deeply_a_record_may_be_nested_does_not_follow_from_calls(levels: int, value: bytes) -> None:
    """Nor from the records beside it: of lines and of elements of an array, one is bad, and no other."""
    schema, line = Schema(x=Number(0, 1)), nested(levels, value)
    expected = [True, levels <= DEEPEST, True]
    for other in (b'{"x": 0.25}', b'{"x": "0.25"}'):  # which Arrow's parser reads, and which it does not
        lines = b"\n".join([other, line, other, b""])
        assert (
            below(300, lambda text=lines: is_good(schema, text, "jsonl")) == is_good(schema, lines, "jsonl") == expected
        )
        array = b"[" + b",".join([other, line, other]) + b"]"
        assert is_good(schema, array, "json") == is_good(schema, lines_of(array), "jsonl") == expected
        assert below(300, lines_of, array).split(b"\n") == [other, line, other]


@pytest.mark.parametrize("levels", [1, 2000])
def test_an_element_that_is_not_utf_8_is_a_matter_of_its_row(levels: int) -> None:
    array = b'[{"x": 0.25}, ' + nested(levels, b'"SECRET\xff"') + b', {"x": 1}]'
    schema = Schema(x=Number(0, 1))
    assert is_good(schema, array, "json") == is_good(schema, lines_of(array), "jsonl") == [True, False, True]


@pytest.mark.parametrize("broken", [nested(2000)[:-1], nested(2000)[:-2] + b"}", nested(2000, b"x"), b'{"x": "\xff}'])
def test_an_element_that_is_not_json_may_be_several_and_is_refused(broken: bytes) -> None:
    array, schema = b'[{"x": 0.25}, ' + broken + b', {"x": 1}]', Schema(x=Number(0, 1))
    with pytest.raises(TableError):
        is_good(schema, array, "json")
    with pytest.raises(TableError):
        lines_of(array)


def test_the_client_sends_each_value_as_it_is() -> None:
    """A list has no type: one fraction, or one odd value, changes nothing of the others and stops nothing."""
    whole = 2**53 + 1
    for hostile in (0.5, "SECRET", 10**5000, Raises(), deep(5000), None, b"\xff"):
        for table in ({"x": [whole, hostile, whole]}, [{"x": whole}, {"x": hostile}, {"x": whole}]):
            content, media_type = _encoded(table)
            lines = content.split(b"\n")
            assert media_type == "application/x-ndjson"
            assert len(lines) == 3
            assert json.loads(lines[0]) == json.loads(lines[2]) == {"x": whole}


FAR = {
    "date": pl.Series([18_300, 2**31 - 1, None], dtype=pl.Int32).cast(pl.Date),
    "datetime": pl.Series([0, 2**62, None]).cast(pl.Datetime("ms", "UTC")),
    "list": pl.Series([[0], [2**62], None], dtype=pl.List(pl.Int64)).cast(pl.List(pl.Datetime("ms"))),
    "struct": pl.DataFrame({"a": pl.Series([0, 2**31 - 1, 0], dtype=pl.Int32).cast(pl.Date)}).to_struct(),
}


@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("column", [Category("a", missing=True), Datetime("2020-01-01", "2020-12-31", outside="error")])
def test_a_panic_of_polars_is_a_matter_of_its_row(name: str, column: Column) -> None:
    """It is no `Exception` of Python, and comes when a value is read, named or written down."""
    series = FAR[name]
    whole = Schema(x=column).encode_batch(pl.DataFrame({"x": series}), bad_rows="null")
    bad = {row.row for row in whole.bad}
    for row in range(3):
        alone = Schema(x=column).encode_batch(pl.DataFrame({"x": series[row : row + 1]}), bad_rows="null")
        assert (row in bad) == bool(alone.bad)
        assert row in bad or whole.points[row].tolist() == alone.points[0].tolist()
    assert 1 in bad
    assert len(row_texts(pl.DataFrame({"x": series}), whole.bad)) == len(bad)
    people = Synthesizer(Schema(y=Boolean()), epsilon=1.0, person=Person("x", records=2), seed=1)
    assert people.encode(pl.DataFrame({"x": series, "y": [True] * 3}), bad_rows="null").records == 3


UNTYPED: list[Any] = [0.5, "SECRET", True, None, b"\xff", "\ud800", 10**5000, Raises(), [1], pd.NA, 1e300]


@pytest.mark.parametrize("hostile", UNTYPED, ids=range(len(UNTYPED)))
@pytest.mark.parametrize("dtype", ["object", "string[python]", "category", "polars"])
def test_the_client_sends_frames_without_a_type_as_it_sends_lists(dtype: str, hostile: Any) -> None:  # noqa: ANN401
    """Arrow would find one type for all values of such a column, or none."""
    good = ["a", "b", "1"] if dtype == "string[python]" else [2**53 + 1, "a", 1]
    if dtype == "string[python]" and not (hostile is None or isinstance(hostile, str)):
        return
    if dtype == "category" and isinstance(hostile, list | Raises | bool):  # pandas takes True for 1
        return
    schema = Schema(x=Category("a", "b", "1", str(2**53 + 1)), y=Number(0, 1))
    values = [*good, hostile, *good]
    if dtype == "polars":
        frame: Any = pl.DataFrame({"x": pl.Series(values, dtype=pl.Object), "y": [0.5] * 7})
    else:
        series = pd.Series(of_objects(values), dtype="object")
        frame = pd.DataFrame({"x": series if dtype == "object" else series.astype(dtype), "y": [0.5] * 7})
    content, media_type = _encoded(frame)
    assert media_type == "application/vnd.apache.arrow.stream"
    (batch,) = read_bytes(content, schema, "arrow", "null")
    found = schema.encode_batch(batch.table, bad_rows="null")
    alone = schema.encode([{"x": value, "y": 0.5} for value in good]).tolist()
    assert found.points[:3].tolist() == found.points[4:].tolist() == alone
    assert [bad.row for bad in found.bad] == [3]


@pytest.mark.parametrize("values", [[], [None], [None, pd.NA]], ids=str)
def test_the_client_sends_columns_without_a_value_as_text(values: list[Any]) -> None:
    content, _ = _encoded(pd.DataFrame({"x": pd.Series(of_objects(values), dtype="object")}))
    table = pa.ipc.open_stream(content).read_all()
    assert table.schema.field("x").type == pa.string()
    assert table["x"].to_pylist() == [None] * len(values)
