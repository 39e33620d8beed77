"""`hw.evaluate`: what it takes, what it measures and ranks, and what it says of bounds and steps."""

import json
import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import headwater as hw
from headwater.evaluation import pairs
from headwater.evaluation.axes import Floats, column_axes
from headwater.evaluation.evaluation import NOT_PRIVATE, Evaluation
from headwater.evaluation.yardstick import table_of
from headwater.public.folder import publish

TRIPS = hw.Schema(miles=hw.Number(0, 10, missing=True), riders=hw.Integer(1, 6), pay=hw.Category("card", "cash", "app"))


def trips(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    riders = rng.integers(1, 7, n)
    miles = np.where(rng.random(n) < 0.1, np.nan, np.clip(riders + rng.normal(0, 1, n), 0, 10))
    return pd.DataFrame({"miles": miles, "riders": riders, "pay": rng.choice(["card", "cash", "app"], n)})


def named(found: Evaluation) -> dict[str, Any]:
    return {column.name: column for column in found.columns}


def test_a_table_and_itself_differ_by_nothing() -> None:
    frame = trips(2_000)
    found = hw.evaluate(frame, frame[::-1].reset_index(drop=True), TRIPS)
    assert max(one.percentile_95 for one in found.questions) < 1e-9
    assert max(column.share for column in found.columns) < 1e-9
    assert max(error for _, _, error in found.pairs) < 1e-9
    assert np.allclose(*found.dependence)


def test_a_shift_is_measured_in_standard_deviations_and_missing_values_apart() -> None:
    schema = hw.Schema(x=hw.Number(0, 10, missing=True), town=hw.Category("a", "b", "c"))
    real = {"x": [1.0, 2.0, None, None], "town": ["a"] * 4}
    made = {"x": [2.0, 3.0, 2.0, None], "town": ["a", "a", "a", "c"]}
    columns = named(hw.evaluate(real, made, schema))
    x = columns["x"]
    assert x.w1 == pytest.approx(5 / 6 / 0.5)  # 1, 2 against 2, 2, 3; their deviation is a half
    assert x.share == 0.5  # half of the values are below 2, and none
    assert (x.missing_real, x.missing_synthetic) == (0.5, 0.25)
    assert (columns["town"].share, columns["town"].w1) == (0.25, None)


def test_a_column_that_is_missing_throughout_has_no_w1() -> None:
    schema = hw.Schema(x=hw.Number(0, 1, missing=True))
    found = hw.evaluate({"x": [None, None]}, {"x": [0.5, None]}, schema)
    assert found.columns[0].w1 is None
    assert json.loads(json.dumps(found.to_dict()))["columns"][0]["w1"] is None
    assert str(found).startswith(NOT_PRIVATE)


def test_the_largest_error_of_a_share_of_two_columns_is_that_over_all_corners() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 5, (2, 400))
    made = np.column_stack([x, np.where(rng.random(400) < 0.5, x, y)])
    columns = column_axes(hw.Schema(x=hw.Integer(0, 4), y=hw.Integer(0, 4)))
    tables = [[side / 4.0 for side in (x, y)], [side / 4.0 for side in made.T]]
    real, other = (pairs.bins_of(columns, table, tables[0]) for table in tables)
    ((_, _, error),) = pairs.share_errors(real, other)
    corners = [(a, b) for a in range(5) for b in range(5)]
    shares = [[((t[0] * 4 <= a) & (t[1] * 4 <= b)).mean() for a, b in corners] for t in tables]
    assert error == pytest.approx(max(abs(a - b) for a, b in zip(*shares, strict=True)))


def test_the_worst_pair_comes_first_though_its_columns_are_good() -> None:
    made = trips(4_000, seed=1)
    made["riders"] = np.random.default_rng(2).permutation(made["riders"])
    found = hw.evaluate(trips(4_000), made, TRIPS)
    assert max(column.share for column in found.columns) < 0.05
    (x, y, worst), (_, _, next_) = found.pairs[:2]
    assert (x, y) == ("miles", "riders")
    assert worst > 3 * next_
    assert found.dependence[0][0, 1] - found.dependence[1][0, 1] > 0.1
    assert "miles × riders" in str(found).split("pairs")[1].splitlines()[1]


def test_columns_are_ranked_by_their_largest_error_of_a_share() -> None:
    found = hw.evaluate(trips(4_000), trips(4_000, seed=1).assign(pay="card"), TRIPS)
    assert found.columns[0].name == "pay"
    assert found.columns[0].share == pytest.approx(2 / 3, abs=0.03)
    assert str(found).index("pay ") < str(found).index("riders ")


def test_bounds_and_steps_that_change_real_values_are_named_with_their_shares() -> None:
    """Both sides clipped and rounded, the tables are the same: only this says that much is lost."""
    schema = hw.Schema(x=hw.Number(0, 0.1), n=hw.Integer(2, 5), stars=hw.Number(0, 5, step=1))
    rng = np.random.default_rng(0)
    real = pd.DataFrame({"x": rng.random(1_000), "n": rng.integers(0, 10, 1_000)})
    real["stars"] = rng.integers(0, 11, 1_000) / 2
    found = hw.evaluate(real, schema.decode(schema.encode(real), "pandas"), schema)
    assert found.cut == {"x": (real.x > 0.1).mean(), "n": pytest.approx(((real.n < 2) | (real.n > 5)).mean())}
    assert found.stepped == {"stars": pytest.approx((real.stars % 1 > 0).mean())}
    assert str(found).count("BOUNDS CUT") == 2
    assert "STEPS CHANGE stars" in str(found)
    assert found.to_dict()["bounds_that_cut"] == found.cut
    stars = named(found)["stars"]  # compared as they are: every half star has moved
    assert stars.share > 0.05
    assert stars.w1 == pytest.approx(0.5 * (real.stars % 1 > 0).mean() / real.stars.std(ddof=0), rel=0.01)


def test_real_tables_may_have_columns_that_the_schema_leaves_out() -> None:
    schema = hw.Schema(x=hw.Number(0, 1)).with_reading(ignore_extra=True)
    real = pd.DataFrame({"rownames": [1, 2], "x": [0.25, 2.0]})
    found = hw.evaluate(real, {"x": [0.25, 1.0]}, schema)
    assert [column.name for column in found.columns] == ["x"]
    assert found.cut == {"x": 0.5}


def test_a_release_is_compared_with_the_records_that_it_is_about(tmp_path: Path) -> None:
    synth = hw.Synthesizer(TRIPS, epsilon=1.0, mechanism="cascade", seed=1)
    frame = trips(500)
    synth.update(frame[:400])
    release = synth.release()
    synth.update(frame[400:])
    folder = publish(release, tmp_path / "releases")
    frame.to_csv(tmp_path / "trips.csv", index=False)
    direct = hw.evaluate(frame, release)
    assert direct.rows == (400, 400)
    for real in (str(tmp_path / "trips.csv"), [tmp_path / "trips.csv"], iter([frame[:300], frame[300:]])):
        found = hw.evaluate(real, folder)
        assert found.rows == (400, 400)
        assert [c.share for c in found.columns] == pytest.approx([c.share for c in direct.columns])


def test_error_bars_of_a_release_hold_most_of_the_real_answers() -> None:
    """Nominally nine in ten; a fixed seed."""
    synth = hw.Synthesizer(TRIPS, epsilon=2.0, mechanism="marginals", seed=1)
    frame = trips(6_000)
    synth.update(frame)
    found = hw.evaluate(frame, synth.release())
    held = {one.kind: one.held for one in found.questions}
    assert held["ranges and categories"] is not None
    assert 0.8 < held["ranges and categories"] <= 1
    assert "bars held" in str(found)
    assert all(one.held is None for one in hw.evaluate(frame, frame, TRIPS).questions)


def test_tables_without_a_schema_are_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match="name the schema"):
        hw.evaluate(trips(10), trips(10))


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.empty((0, 2)), "synthetic has no rows"),
        (np.full((3, 2), 1.5), "outside the unit cube"),
        (np.full((3, 2), math.nan), "outside the unit cube"),
        (np.zeros((3, 1)), r"shape \(n, 2\)"),
    ],
)
def test_points_that_cannot_be_compared_are_refused_without_naming_a_value(points: Floats, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        hw.evaluate(np.zeros((3, 2)), points, hw.unit_cube(2))
    assert "1.5" not in str(refused.value)


def test_too_few_real_records_are_said_unless_they_are_those_of_the_window() -> None:
    schema = hw.unit_cube(1)
    synth = hw.Synthesizer(schema, epsilon=1.0, mechanism="cascade", seed=1)
    points = np.random.default_rng(0).random((256, 1))
    synth.update(points)
    assert "records 1 to 256, and only 255 were given" in str(hw.evaluate(points[:255], synth.release()))
    window = synth.release(last=64)
    start, end = window.span
    assert hw.evaluate(points[start:end], window).shortage is None
    assert hw.evaluate(points[: end - start - 1], window).shortage is not None


def test_bad_rows_are_nowhere_and_shift_nothing(tmp_path: Path) -> None:
    """The release is about the first four rows, the second of which is bad."""
    path = tmp_path / "in.csv"
    path.write_text("n\n1\noops\n2\n3\n9\n9\n")
    schema = hw.Schema(n=hw.Integer(0, 9))
    synth = hw.Synthesizer(schema, epsilon=1.0, seed=1)
    synth.update({"n": [1, 2, 2, 3]})
    release = synth.release()
    found = hw.evaluate(path, release, reading={"bad_rows": "null"})
    assert found.rows == (3, 4)
    same = hw.evaluate({"n": [1, 2, 3]}, {"n": release.sample(kind="columns")["n"]}, schema)
    assert found.columns[0].share == pytest.approx(same.columns[0].share)
    with pytest.raises(hw.TableError, match=r"in\.csv.*line 3"):
        hw.evaluate(path, release)


def test_dependence_is_one_for_a_copy_and_nothing_for_what_is_constant_or_independent() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 20_000))
    points = np.column_stack([x, x, y, np.full(20_000, 0.25)])
    columns = column_axes(hw.unit_cube(4))
    table = table_of(points, columns)
    found = pairs.dependence(pairs.bins_of(columns, table, table))
    assert found[0, 1] == pytest.approx(1)
    assert found[0, 2] < 0.01
    assert found[3].tolist() == [0, 0, 0, 0]
    assert all(found[i, j] == found[j, i] for i, j in combinations(range(4), 2))


def test_w1_of_the_whole_tables_is_that_of_a_shift() -> None:
    x = np.random.default_rng(0).random((20_000, 2)) * 0.5
    found = hw.evaluate(x, x + np.array([0.25, 0.1]), hw.unit_cube(2)).distance
    assert found is not None
    assert abs(found.value - 0.25) <= found.error + 1e-3 < 0.02
    assert hw.evaluate(np.zeros((9, 4)), np.zeros((9, 4)), hw.unit_cube(4)).distance is None
