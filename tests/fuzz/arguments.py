"""Targets that are called from Python with odd arguments: columns, arrays, and the synthesizer itself."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import headwater as hw
from headwater.public.errors import SchemaError, TableError
from headwater.secret.batch import Batch
from tests.fuzz import seeds
from tests.fuzz.mutate import ODD
from tests.fuzz.target import FoundError, Target

ODDER = [
    *ODD, b"x", 1j, object(), np.float32(1.5), np.int8(3), np.nan, np.bool_(True), np.datetime64("NaT"), range(3), {1},
    np.datetime64("2024-01-01"), np.timedelta64(5, "s"), datetime.date(2024, 1, 1), datetime.time(1, 2), "2024-01-01",
    datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), datetime.datetime.max, datetime.timedelta(1), "1s",
    "15min", "clip",
    decimal.Decimal("1.5"), decimal.Decimal("sNaN"), decimal.Decimal("1E+999999"), float, np.zeros((2, 2)), np.zeros(0),
    np.array("x"), "9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00+14:00", "Europe/Paris", "+01:00", "error",
    "1h", 100,
]  # fmt: skip
KINDS: dict[str, tuple[type[Any], list[str]]] = {
    "Number": (hw.Number, ["low", "high", "missing", "outside", "weight"]),
    "Integer": (hw.Integer, ["low", "high", "missing", "outside", "weight"]),
    "Boolean": (hw.Boolean, ["missing", "weight"]),
    "Datetime": (hw.Datetime, ["start", "end", "step", "zone", "missing", "outside", "weight"]),
    "TimeOfDay": (hw.TimeOfDay, ["step", "missing", "weight"]),
}
USUAL: dict[str, list[Any]] = {
    "low": [0, -3, 0.5], "high": [10, 120, 1], "missing": [True, False], "outside": ["clip", "error"],
    "weight": [1.0, 2],
    "start": ["2024-01-01", "2024-01-01T00:00:00+00:00"], "end": ["2025-01-01", "2025-01-01T00:00:00+00:00"],
    "step": ["1s", "1d"], "zone": [None, "Europe/Paris"],
}  # fmt: skip


def make_column(rng: Random) -> tuple[str, list[Any], dict[str, Any], list[Any]]:
    values = [rng.choice(ODDER) for _ in range(rng.randrange(4))]
    if rng.random() < 0.2:
        listed = [rng.choice(ODDER if rng.random() < 0.5 else ["a", "b", 1, 2, True]) for _ in range(rng.randrange(4))]
        return "Category", listed, {"other": rng.choice([None, *listed, *ODDER])} if rng.random() < 0.5 else {}, values
    kind = rng.choice(list(KINDS))
    given = {}
    for name in KINDS[kind][1]:
        if rng.random() < 0.7:
            given[name] = rng.choice(ODDER if rng.random() < 0.3 else USUAL[name])
    return kind, [], given, values


def use_column(case: tuple[str, list[Any], dict[str, Any], list[Any]], folder: Path) -> None:
    kind, listed, given, values = case
    column = hw.Category(*listed, **given) if kind == "Category" else KINDS[kind][0](**given)
    schema = hw.Schema(x=column)
    if hw.Schema.from_dict(schema.to_dict()) != schema:
        raise FoundError("a column changes when it is written and read")
    repr(column)
    points = schema.encode({"x": values})
    if not ((points >= 0) & (points <= 1)).all():
        raise FoundError("points outside of the cube")
    if len(schema.decode(points)["x"]) != len(values):
        raise FoundError("a column of another length comes out")


def make_points(rng: Random) -> tuple[str, list[Any]]:
    what = rng.choice(["update", "update", "take", "take counts", "release", "new", "encode"])
    arrays = [
        [[0.5, 0.5]], [0.5, 0.5], [], [[]], [[0.5]], [[0.5, 2]], [[0.5, -1]], [[0.5, float("nan")]], [[0.5], [0.5, 1]],
        np.zeros((3, 2)), np.zeros((3, 2), dtype="f2"), np.zeros((3, 2), dtype="O"), np.ones((0, 2)),
        np.zeros((1, 1, 2)),
        np.ma.masked_array([0.1, 0.2], [True, False]), np.array([5, 7], dtype=np.uint64), np.array([-1]),
        [2**64], [1, 2],
        np.array([2**63], dtype=np.uint64), [True], ["0.5", "0.5"], [[1, 1j]], [10**30], (0.5, 0.5), [[2**70, 0]],
    ]  # fmt: skip
    return what, [rng.choice(arrays if rng.random() < 0.7 else ODDER) for _ in range(2)]


def use_points(case: tuple[str, list[Any]], folder: Path) -> None:
    what, (one, other) = case
    if what == "new":
        hw.Synthesizer(one if isinstance(one, hw.Schema) else hw.unit_cube(2), epsilon=other, mechanism="cascade")
        hw.Synthesizer(hw.unit_cube(2), epsilon=1.0, mechanism=other)
        return
    synth = hw.Synthesizer(hw.unit_cube(2), epsilon=1.0)
    synth.update([[0.25, 0.75]] * 3)
    before = synth.to_bytes()
    try:
        match what:
            case "update":
                synth.update(one)
            case "take":
                synth.take(Batch(one))
            case "take counts":
                synth.take(Batch(one, other, np.zeros(1, dtype=np.int64)))
            case "encode":
                synth.encode(one, other)
            case _:
                synth.release(last=one, since=other if not isinstance(other, np.ndarray) else None)
    except Exception:
        if synth.to_bytes() != before:
            raise FoundError("a refused batch changed the state") from None
        raise


ARGUMENTS = [
    Target("columns", use_column, (SchemaError, TableError), make_column, arguments=True, secrets=(seeds.MARK,)),
    Target("arrays", use_points, make=make_points, arguments=True),
]
