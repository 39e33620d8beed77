import json
import math

import numpy as np
import pytest

from headwater import unit_cube
from headwater.evaluation.axes import Floats
from headwater.evaluation.evaluation import NOT_PRIVATE, evaluate
from headwater.evaluation.measures import QUERIES
from headwater.evaluation.w1 import W1, w1
from headwater.public.categories import Boolean, Category
from headwater.public.numbers import Integer, Number
from headwater.public.schema import Schema

PEOPLE = Schema(age=Integer(0, 100), income=Number(0, 10, missing=True), town=Category("a", "b", "c"), member=Boolean())


def people(n: int, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    table = {
        "age": rng.integers(0, 101, n),
        "income": np.where(rng.random(n) < 0.2, np.nan, rng.random(n) * 10),
        "town": rng.choice(["a", "b", "c"], n),
        "member": rng.random(n) < 0.3,
    }
    return PEOPLE.encode(table)


def test_identical_tables_have_no_distance_of_any_kind() -> None:
    points = people(3_000)
    found = evaluate(points, points[::-1], PEOPLE)
    assert found.one_way == found.two_way == 0
    assert found.queries.mean == found.queries.largest == 0
    assert [column.distance for column in found.columns] == [0, 0, 0, 0]
    assert np.array_equal(*found.dependence)


def test_a_shifted_integer_column_is_as_far_as_it_was_shifted() -> None:
    schema = Schema(n=Integer(0, 10))
    low, high = ({"n": np.array(values)} for values in ([0, 1, 2, 3], [3, 4, 5, 6]))
    (column,) = evaluate(schema.encode(low), schema.encode(high), schema).columns
    assert column.measure == "W1"
    assert column.distance == pytest.approx(3 / 10)


def test_a_shift_of_a_column_with_missing_values_is_measured_on_its_own_scale() -> None:
    schema = Schema(x=Number(0, 10, missing=True))
    real = schema.encode({"x": [1.0, 2.0, None, None]})
    synthetic = schema.encode({"x": [2.0, 3.0, 2.0, None]})
    (column,) = evaluate(real, synthetic, schema).columns
    assert column.distance == pytest.approx((5 / 6 * 1) / 10, abs=1e-9)  # 1, 2 against 2, 2, 3
    assert (column.missing_real, column.missing_synthetic) == (0.5, 0.25)


def test_categories_differ_by_total_variation_wherever_they_stand_in_the_list() -> None:
    schema = Schema(town=Category("a", "b", "c", "d"))
    for other in "bcd":
        (column,) = evaluate(
            schema.encode({"town": ["a"] * 10}), schema.encode({"town": ["a"] * 6 + [other] * 4}), schema
        ).columns
        assert column.measure == "total variation"
        assert column.distance == pytest.approx(0.4)


def test_a_column_that_is_missing_throughout_has_no_distance() -> None:
    schema = Schema(x=Number(0, 1, missing=True))
    found = evaluate(schema.encode({"x": [None, None]}), schema.encode({"x": [0.5, None]}), schema)
    assert math.isnan(found.columns[0].distance)
    assert found.to_dict()["columns"][0]["distance"] is None


def test_the_distance_of_the_tables_is_that_of_a_shift() -> None:
    x = np.random.default_rng(0).random((20_000, 2)) * 0.5
    found = evaluate(x, x + np.array([0.25, 0.1]), unit_cube(2)).distance
    assert isinstance(found, W1)
    assert found.method == "grid"
    assert abs(found.value - 0.25) <= found.error + 1e-3 < 0.01


@pytest.mark.slow
def test_a_distance_on_a_grid_is_the_exact_one_within_its_small_error() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.beta(2, 5, (2_500, 2)), np.clip(rng.beta(2, 5, (2_501, 2)) + np.array([0.03, 0.0]), 0, 1)
    found = evaluate(x, y, unit_cube(2)).distance
    assert isinstance(found, W1)
    exact = w1(x, y[:-1], method="exact").value
    assert abs(found.value - exact) <= found.error + 1 / 2_500
    assert found.error <= found.value / 3


def test_a_distance_that_could_not_be_compared_is_left_out_with_a_reason() -> None:
    rng = np.random.default_rng(0)
    close = evaluate(rng.random((9_000, 3)), rng.random((9_001, 3)), unit_cube(3))
    wide = evaluate(rng.random((50, 5)), rng.random((60, 5)), unit_cube(5))
    for found, reason in ((close, "says too little"), (wide, "in 5 columns")):
        assert isinstance(found.distance, str)
        assert reason in str(found.distance)
        assert found.to_dict()["w1"]["value"] is None
        assert reason in str(found)


def test_dependence_tells_a_copy_from_an_independent_column() -> None:
    """Of 20,000 rows in 16 by 16 bins independent columns get 0.002; more than 0.01 is beyond 10 deviations."""
    rng = np.random.default_rng(0)
    x, y = rng.random(20_000), rng.random(20_000)
    found = evaluate(np.column_stack([x, x]), np.column_stack([x, y]), unit_cube(2))
    real, synthetic = found.dependence
    assert real[0, 1] == pytest.approx(1)
    assert 0 <= synthetic[0, 1] < 0.01
    assert found.difference[0, 1] == found.difference[1, 0] == pytest.approx(-1, abs=0.01)
    assert np.diag(real).tolist() == [1, 1]


def test_dependence_on_a_constant_column_is_zero() -> None:
    points = np.column_stack([np.random.default_rng(0).random(500), np.full(500, 0.25)])
    real, _ = evaluate(points, points, unit_cube(2)).dependence
    assert real.tolist() == [[1, 0], [0, 0]]


def test_dependence_sees_that_values_are_missing_together() -> None:
    gone = np.random.default_rng(0).random(4_000) < 0.5
    schema = Schema(x=Number(0, 1, missing=True), y=Number(0, 1, missing=True))
    column = np.where(gone, np.nan, 1.0)
    together = schema.encode({"x": column, "y": column})
    apart = schema.encode({"x": column, "y": np.random.default_rng(1).permutation(column)})
    real, synthetic = evaluate(together, apart, schema).dependence
    assert real[0, 1] == pytest.approx(1)
    assert synthetic[0, 1] < 0.01


def test_queries_about_disjoint_tables_err_and_stay_shares() -> None:
    real, synthetic = np.full((10, 1), 0.1), np.full((10, 1), 0.9)
    queries = evaluate(real, synthetic, unit_cube(1)).queries
    # A box from one uniform number to another holds exactly one of 0.1 and 0.9 in 32% of all cases.
    assert queries.count == QUERIES
    assert queries.mean == pytest.approx(0.32, abs=0.15)
    assert queries.largest == 1


def test_the_same_seed_asks_the_same_questions_and_another_one_others() -> None:
    real, synthetic = people(500), people(500, seed=1)
    first, again, other = (evaluate(real, synthetic, PEOPLE, seed=seed).queries for seed in (3, 3, 4))
    assert first == again != other


def test_tables_are_encoded_and_give_what_their_points_give() -> None:
    real, synthetic = {"n": [1, 2, 3]}, {"n": [2, 3, 4]}
    schema = Schema(n=Integer(0, 10))
    from_tables, from_points = (
        evaluate(real, synthetic, schema).to_dict(),
        evaluate(schema.encode(real), schema.encode(synthetic), schema).to_dict(),
    )
    assert from_tables == from_points


def test_every_output_begins_with_the_warning() -> None:
    found = evaluate(people(100), people(100, seed=1), PEOPLE)
    assert str(found).splitlines()[0] == NOT_PRIVATE
    assert next(iter(found.to_dict().values())) == NOT_PRIVATE
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["rows"] == {"real": 100, "synthetic": 100}


def test_what_has_no_distance_shows_none() -> None:
    names = ["stays_in_weekend_nights", "stays_in_weekend_nights_2"]
    schema = Schema({name: Number(0, 1, missing=True) for name in names})
    real = {names[0]: [0.25, 0.5], names[1]: [0.25, None]}
    found = evaluate(real, {names[0]: [0.25, 0.5], names[1]: [None, None]}, schema)
    assert "nan" not in str(found)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.empty((0, 2)), "no rows"),
        (np.array([[0.1, 1.5]]), "outside the unit cube"),
        (np.array([[0.1]]), "shape"),
        (np.array([[0.1, np.nan]]), "outside the unit cube"),
    ],
)
def test_points_that_cannot_be_compared_are_refused_without_naming_a_value(points: Floats, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        evaluate(np.full((3, 2), 0.5), points, unit_cube(2))
    assert "1.5" not in str(caught.value)
