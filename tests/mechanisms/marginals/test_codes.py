"""Values become codes and come back: finite columns exactly, continua to within a code, missing values as such."""

from __future__ import annotations

import numpy as np
import pytest

from headwater import Boolean, Category, Datetime, Integer, Number, Schema, TimeOfDay
from headwater.public.columns import Column
from headwater.public.cube import UnitCube
from headwater.public.marginals.codes import FINEST, MOST_LABELS, Codes, coders, codings, encode

SIZES = [1, 2, 3, 16, 17, 1000, FINEST, FINEST + 1, 10**6 + 7, 2**40 + 3, 2**53]


def places(codes: Codes, inside: np.ndarray, schema: Schema | UnitCube) -> np.ndarray:
    """`encode` backwards: points at given positions inside the cells of codes."""
    return np.array([c.places(codes[:, i], inside[:, i]) for i, c in enumerate(coders(schema))]).T


def inside(rows: int, columns: int = 1, seed: int = 0) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    found = np.random.default_rng(seed).random((rows, columns))
    found[: rows // 4] = 0.0
    found[rows // 4 : rows // 2] = np.nextafter(1.0, 0.0)
    return found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("missing", [False, True])
def test_finite_columns_keep_their_values_as_far_as_codes_go(size: int, missing: bool) -> None:
    schema = Schema(x=Integer(0, size - 1, missing=missing))
    coding = codings(schema)[0]
    assert coding.size <= FINEST + 1
    assert coding.values == size or size > FINEST
    assert coding.values > FINEST // 2 or size <= FINEST
    rng = np.random.default_rng(size)
    values = np.unique(np.r_[0, size - 1, rng.integers(0, size, 200)])
    points = schema.encode({"x": values})
    codes = encode(points, schema)
    assert (np.diff(codes[:, 0].astype(int)) >= 0).all(), "codes are in order"
    again = places(codes, inside(len(codes)), schema)
    assert np.array_equal(encode(again, schema), codes)
    found = schema.decode(again)["x"]
    if size <= FINEST:
        assert np.array_equal(np.asarray(found), values)
    else:
        width = coders(schema)[0].step
        assert (np.abs(np.asarray(found) - values) < width).all()
        assert (np.asarray(found) <= size - 1).all()


@pytest.mark.parametrize("column", [Number(-2.0, 5.0), Number(-2.0, 5.0, missing=True)])
def test_a_continuum_comes_back_within_its_code_and_its_rounding(column: Column) -> None:
    schema = Schema(x=column)
    values = np.r_[np.linspace(-2.0, 5.0, 999), -2.0, 5.0]
    codes = encode(schema.encode({"x": values}), schema)
    assert (codes.min(), codes.max()) == (0, FINEST - 1)
    again = places(codes, inside(len(codes)), schema)
    assert np.array_equal(encode(again, schema), codes)
    assert np.abs(np.asarray(schema.decode(again)["x"]) - values).max() <= 7.0 / FINEST + 0.5e-6 + 1e-12  # a millionth


@pytest.mark.parametrize(
    "column",
    [
        Number(0.0, 1.0, missing=True),
        Integer(0, 10, missing=True),
        Integer(0, 10**7, missing=True),
        Category("a", "b", missing=True),
        Boolean(missing=True),
        Category("only", missing=True),
    ],
)
def test_a_missing_value_has_the_last_code_and_comes_back_missing(column: Column) -> None:
    schema = Schema(x=column)
    codes = encode(schema.encode({"x": [None]}), schema)
    coding = codings(schema)[0]
    assert codes.tolist() == [[coding.values]] == [[coding.size - 1]]
    assert column.decode(places(codes, inside(1), schema)[:, 0])[1] == [True]


def test_which_columns_are_ordered() -> None:
    many = Category(*(f"label {i}" for i in range(MOST_LABELS + 1)))
    few = Category(*(f"label {i}" for i in range(MOST_LABELS)))
    schema = Schema(
        a=Number(0, 1),
        b=Integer(0, 9),
        c=few,
        d=Boolean(),
        e=TimeOfDay(),
        f=Datetime("2024-01-01", "2025-01-01"),
        g=many,
    )
    assert [coding.ordered for coding in codings(schema)] == [True, True, False, False, True, True, True]
    assert all(coding.ordered and coding.values == FINEST for coding in codings(UnitCube(3)))
