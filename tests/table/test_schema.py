"""The schema: columns in order, whole batches in and out, and a description that gives the same schema back."""

from __future__ import annotations

import copy
import json
import pickle
import tomllib
from typing import Any

import numpy as np
import pytest
import tomli_w
from hypothesis import given

from headwater import (
    Boolean,
    Category,
    Datetime,
    Integer,
    Number,
    Schema,
    SchemaError,
    TimeOfDay,
    unit_cube,
)
from headwater.public.cube import UnitCube
from headwater.public.partition import Partition
from headwater.public.schema import schema_from_dict
from headwater.synthesizer import Synthesizer
from tests.table.strategies import same, schemas, tables

Table = tuple[Schema, list[dict[str, Any]]]

TRIPS = Schema(
    distance=Number(0, 50),
    riders=Integer(1, 4),
    payment=Category("card", "cash", missing=True),
    pooled=Boolean(),
    start=Datetime("2024-01-01", "2024-12-31T23:59:59"),
    clock=TimeOfDay("1min"),
)


@given(tables())
def test_records_come_back(table: Table) -> None:
    schema, records = table
    points = schema.encode(records)
    assert points.shape == (len(records), schema.dimension)
    assert ((points >= 0) & (points <= 1)).all()
    found = schema.decode(points, "records")
    assert len(found) == len(records)
    for given_record, record in zip(records, found, strict=True):
        assert list(record) == list(schema.names)
        for name, column in schema.columns.items():
            assert same(column, given_record[name], record[name])


@given(tables())
def test_nothing_is_remembered_and_nothing_is_changed(table: Table) -> None:
    """The same batch gives the same points, whatever came before; the batch itself stays as it was."""
    schema, records = table
    before = copy.deepcopy(records)
    first = schema.encode(records)
    schema.encode(records[:1])
    schema.decode(np.clip(first, 0, 0.25), "columns")
    assert np.array_equal(schema.encode(records), first)
    assert repr(records) == repr(before)
    assert schema == Schema(dict(schema.columns))


@given(schemas)
def test_a_schema_is_a_value(schema: Schema) -> None:
    for kept in (json.loads(json.dumps(schema.to_dict())), tomllib.loads(tomli_w.dumps(schema.to_dict()))):
        assert schema_from_dict(kept) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema  # noqa: S301 - what we wrote ourselves
    assert copy.deepcopy(schema) == schema
    assert hash(copy.copy(schema)) == hash(schema)
    assert schema.partition == Partition([column.axis for column in schema.columns.values()])
    assert schema.dimension == len(schema.names) == schema.partition.dimension


def test_the_order_of_columns_matters() -> None:
    a, b = Number(0, 1), Number(0, 2)
    assert Schema(a=a, b=b) != Schema(b=b, a=a)
    assert Schema({"a": a}, b=b) == Schema(a=a, b=b)


def test_a_schema_cannot_be_changed() -> None:
    for change in (
        lambda: setattr(TRIPS, "names", ()),
        lambda: setattr(TRIPS, "anything", 1),
        lambda: delattr(TRIPS, "_items"),
        lambda: TRIPS.columns.update({}),  # type: ignore[attr-defined]
    ):
        with pytest.raises(AttributeError):
            change()
    assert TRIPS.partition is TRIPS.partition


def test_any_name_will_do() -> None:
    schema = Schema({"dep time": Number(0, 1), "self": Number(0, 1), "columns": Number(0, 1), "é\n": Boolean()})
    assert schema.names == ("dep time", "self", "columns", "é\n")
    assert Schema(self=Number(0, 1)).names == ("self",)
    assert eval(repr(schema), {"Schema": Schema, "Number": Number, "Boolean": Boolean}) == schema  # noqa: S307 - ours


@pytest.mark.parametrize("name", ["age", "dep time"])
def test_missing_bounds_name_the_column_and_the_line_to_write(name: str) -> None:
    for column, lines in (
        (Number(), ["low = 0.0", "high = 1.0", "Number(low=…, high=…)"]),
        (Integer(low=0), ["high = 100", "Integer("]),
        (Category(), ['values = ["one", "another"]', "Category(*values)"]),
        (Datetime(end="2024-01-01"), ['start = "2024-01-01T00:00:00"']),
    ):
        with pytest.raises(SchemaError) as caught:
            Schema({name: column})
        assert caught.value.column == name
        assert f'column "{name}"' in str(caught.value)
        for line in lines:
            assert line in caught.value.remedy


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Schema(), "must have a column"),
        (lambda: Schema({f"c{i}": Boolean() for i in range(1001)}), "at most 1000 columns, not 1001"),
        (lambda: Schema({"": Boolean()}), "must be text, and not empty"),
        (lambda: Schema({3: Boolean()}), "must be text, and not empty"),  # type: ignore[dict-item]
        (lambda: Schema(age=Number), 'column "age": a column must be one of'),  # type: ignore[arg-type]
        (lambda: Schema(age=(0, 1)), 'column "age": a column must be one of'),  # type: ignore[arg-type]
        (lambda: Schema({"age": Boolean()}, age=Boolean()), 'column "age": the column is declared twice'),
    ],
)
def test_wrong_schemas_are_refused(make: Any, problem: str) -> None:  # noqa: ANN401 - a function of nothing
    with pytest.raises(SchemaError, match=problem) as caught:
        make()
    assert caught.value.remedy


def test_a_hundred_columns_are_not_too_many() -> None:
    """The first sixty get a cut each; all of them are encoded and decoded."""
    schema = Schema({f"c{i}": Integer(0, 3) if i % 2 else Boolean() for i in range(100)})
    record = {name: column.kind == "boolean" or 2 for name, column in schema.columns.items()}
    points = schema.encode([record] * 3)
    assert points.shape == (3, 100)
    assert schema.decode(points, "records") == [record] * 3
    partition = schema.partition
    assert partition.deepest == 60
    assert partition.order == tuple(range(60))
    assert [partition.diameter(depth) for depth in (0, 60)] == [1.0, 1.0]
    cells = partition.cells(points, 60)
    assert partition.possible(cells, 60).all()
    low, high = partition.boxes(cells, 60)
    assert ((low <= points) & (points <= high)).all()
    synth = Synthesizer(schema, epsilon=1.0, seed=1)
    synth.update([record] * 300)
    assert len(synth.release().sample(kind="records")) == 300


def test_an_empty_batch_has_no_rows() -> None:
    nothings: list[object] = [[], {name: [] for name in TRIPS.names}, np.empty((0, 6))]
    for nothing in nothings:
        assert TRIPS.encode(nothing).shape == (0, 6)
    assert TRIPS.decode(np.empty((0, 6)), "records") == []


def test_points_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"points must have shape \(n, 6\), not \(2, 5\)"):
        TRIPS.decode(np.zeros((2, 5)))
    with pytest.raises(ValueError, match="kind must be one of pandas"):
        TRIPS.decode(np.zeros((2, 6)), "excel")


def test_the_unit_cube_has_the_same_face() -> None:
    cube = unit_cube(2)
    assert schema_from_dict(cube.to_dict()) == cube
    assert cube.partition == Partition(2)
    points = cube.encode([[0.25, 0.5]])
    assert np.array_equal(cube.decode(points), points)


@pytest.mark.parametrize("dimension", [0, -1, True, 1.5, "2", None])
def test_wrong_cubes_are_refused(dimension: object) -> None:
    with pytest.raises(SchemaError, match="unit_cube must be a whole number"):
        schema_from_dict({"headwater": 1, "unit_cube": dimension})
    assert isinstance(schema_from_dict({"headwater": 1, "unit_cube": 1}), UnitCube)


def test_all_columns_that_are_left_open_are_named_at_once() -> None:
    """Each with what it leaves open: categories have no bounds."""
    also = 'values of "c", "f" must be declared too; high of "d" must be declared too'
    with pytest.raises(SchemaError, match=f'column "a": low and high .*[^;]; {also}$'):
        Schema(a=Integer(), b=Boolean(), c=Category(), d=Number(0), e=Number(0, 1), f=Category())
