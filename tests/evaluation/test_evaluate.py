"""`hw.evaluate`: what it takes, ranks, and says of bounds that cut."""

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import headwater as hw
from headwater.public.folder import publish

TRIPS = hw.Schema(miles=hw.Number(0, 10, missing=True), riders=hw.Integer(1, 6), pay=hw.Category("card", "cash", "app"))


def trips(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    riders = rng.integers(1, 7, n)
    miles = np.where(rng.random(n) < 0.1, np.nan, np.clip(riders + rng.normal(0, 1, n), 0, 10))
    return pd.DataFrame({"miles": miles, "riders": riders, "pay": rng.choice(["card", "cash", "app"], n)})


def definition(real: pd.DataFrame, made: pd.DataFrame, ways: int) -> float:
    """The mean total variation over all sets of columns, by the definition of the benchmarks."""

    def codes(frame: pd.DataFrame) -> pd.DataFrame:
        miles = np.where(frame.miles.isna(), 16, np.clip(np.nan_to_num(frame.miles / 10 * 16), 0, 15).astype(int))
        riders = np.clip((frame.riders - 1) / 5 * 16, 0, 15).astype(int)
        return pd.DataFrame({"miles": miles, "riders": riders, "pay": frame.pay})

    a, b = codes(real), codes(made)
    errors = []
    for names in itertools.combinations(a.columns, ways):
        p, q = (frame.value_counts(list(names), normalize=True) for frame in (a, b))
        errors.append(p.subtract(q, fill_value=0).abs().sum() / 2)
    return float(np.mean(errors))


def test_errors_of_columns_and_pairs_are_those_of_the_benchmarks() -> None:
    real, made = trips(4_000), trips(3_000, seed=1)
    found = hw.evaluate(real, made, TRIPS)
    assert found.one_way == pytest.approx(definition(real, made, 1))
    assert found.two_way == pytest.approx(definition(real, made, 2))


def test_the_worst_pair_comes_first_though_its_columns_are_good() -> None:
    made = trips(4_000, seed=1)
    made["riders"] = np.random.default_rng(2).permutation(made["riders"])
    found = hw.evaluate(trips(4_000), made, TRIPS)
    assert max(column.error for column in found.columns) < 0.05
    (x, y, worst), (_, _, next_) = found.ranked_pairs[:2]
    assert (x, y) == ("miles", "riders")
    assert worst > 4 * next_
    assert found.difference[0, 1] < -0.1
    assert "miles × riders" in str(found).split("pairs")[1].splitlines()[1]


def test_the_worst_column_comes_first_and_is_called_unreliable() -> None:
    found = hw.evaluate(trips(4_000), trips(4_000, seed=1).assign(pay="card"), TRIPS)
    assert found.ranked_columns[0].name == "pay"
    printed = str(found)
    assert printed.index("pay ") < printed.index("riders ")
    answers = {answer["question"]: answer for answer in found.answers()}
    assert "unreliable: pay" in answers["One column: shares, means, quantiles"]["detail"]
    assert found.to_dict()["answers"][0]["grade"] == "unreliable"


def test_bounds_that_cut_real_values_are_named_with_their_shares() -> None:
    """Both sides clipped, the tables are the same: only this says that much is lost."""
    schema = hw.Schema(x=hw.Number(0, 0.1), n=hw.Integer(2, 5), y=hw.Number(0, 1))
    rng = np.random.default_rng(0)
    real = pd.DataFrame({"x": rng.random(1_000), "n": rng.integers(0, 10, 1_000), "y": rng.random(1_000)})
    found = hw.evaluate(real, schema.decode(schema.encode(real), "pandas"), schema)
    assert found.cut == {"x": (real.x > 0.1).mean(), "n": pytest.approx(((real.n < 2) | (real.n > 5)).mean())}
    assert str(found).count("BOUNDS CUT") == 2
    assert "declare wider bounds" in str(found)
    assert found.to_dict()["bounds_that_cut"] == found.cut


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
        assert found.one_way == pytest.approx(direct.one_way)


def test_tables_without_a_schema_are_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match="name the schema"):
        hw.evaluate(trips(10), trips(10))


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


def test_the_largest_change_of_dependence_is_of_two_columns() -> None:
    """Of a column that is constant in one table only, the dependence on itself changes by 1."""
    rng = np.random.default_rng(0)
    schema = hw.Schema(a=hw.Boolean(), b=hw.Boolean(), c=hw.Boolean())
    b = rng.random(1000) < 0.5
    real = {"a": np.zeros(1000, bool), "b": b, "c": b}
    made = {"a": rng.random(1000) < 0.5, "b": b, "c": rng.random(1000) < 0.5}
    found = hw.evaluate(pd.DataFrame(real), pd.DataFrame(made), schema)
    assert found.difference[0, 0] == 1
    line = next(line for line in str(found).splitlines() if line.startswith("largest change of dependence"))
    assert line.endswith("(b and c)")


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
    assert found.columns[0].error == pytest.approx(same.columns[0].error)
    with pytest.raises(hw.TableError, match=r"in\.csv.*line 3"):
        hw.evaluate(path, release)
