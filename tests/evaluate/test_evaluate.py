"""`hw.evaluate`: what it takes, ranks, and says of bounds that cut."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import headwater as hw
from headwater.evaluate.axes import Floats
from headwater.evaluate.meaning import grade
from headwater.evaluate.training import Training
from headwater.public.errors import TableError
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
    answers = {answer.question: answer for answer in found.answers()}
    assert "unreliable: pay" in answers["One column: shares, means, quantiles"].detail
    assert found.to_dict()["answers"][0]["grade"] == "unreliable"


def test_a_column_of_which_most_values_are_alike_is_not_called_reliable_by_wide_bounds() -> None:
    """Nine tenths are 0; smeared over 1 to 99 of 100,000 they stay in the first sixteenth of the range."""
    schema = hw.Schema(debt=hw.Integer(0, 100_000), age=hw.Integer(0, 99))
    rng = np.random.default_rng(0)
    debt = np.where(rng.random(5_000) < 0.9, 0, rng.integers(1, 50_000, 5_000))
    real = pd.DataFrame({"debt": debt, "age": rng.integers(0, 100, 5_000)})
    made = real.assign(debt=np.where(debt == 0, rng.integers(1, 100, 5_000), debt))
    found = hw.evaluate(real, made, schema)
    column = found.columns[0]
    assert column.error < 0.001
    assert column.finer_error == pytest.approx((debt == 0).mean(), abs=0.02)
    assert found.ranked_columns[0] is column
    assert found.answers()[0].detail.startswith("unreliable: debt †")
    assert "Narrower bounds" in str(found)
    assert found.one_way == pytest.approx(column.error / 2)  # as benchmarks and cards have it: in sixteenths
    assert f"{column.finer_error:.4f} worst" in str(found)  # the first of the columns below it, and so in JSON
    assert found.to_dict()["one_way"]["worst"] == column.finer_error
    assert found.ranked_pairs[0][2] < 0.2
    assert found.judged_pairs == [("debt", "age", column.finer_error)]  # no pair is better than its columns
    assert found.answers()[1].grade == "unreliable"
    assert f"debt × age {column.finer_error:.4f} † unreliable" in " ".join(str(found).split())
    same = hw.evaluate(real, real, schema)
    assert [column.finer_error for column in same.columns] == [0.0, None]
    assert grade(same.columns[0].judged) == "reliable"


def test_bounds_that_cut_real_values_are_named_and_not_taken_for_a_good_score() -> None:
    """Both sides clipped, the tables would be the same."""
    schema = hw.Schema(x=hw.Number(0, 0.1), n=hw.Integer(2, 5), t=hw.Datetime("2024-01-01", "2024-01-10"))
    rng = np.random.default_rng(0)
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 20, 1_000), "D")
    real = pd.DataFrame({"x": rng.random(1_000), "n": rng.integers(0, 10, 1_000), "t": when})
    clipped = schema.decode(schema.encode(real), "pandas")
    found = hw.evaluate(real, clipped, schema)
    assert [column.name for column in found.cut] == ["x", "n", "t"]
    x, n, t = found.columns
    assert (x.below, x.above) == pytest.approx((0, (real.x > 0.1).mean()))
    assert (n.below, n.above) == pytest.approx(((real.n < 2).mean(), (real.n > 5).mean()))
    assert t.above == pytest.approx((real.t > pd.Timestamp("2024-01-10")).mean())
    assert [column.error for column in (x, n, t)] == [pytest.approx(column.cut) for column in (x, n, t)]
    assert x.distance == pytest.approx(np.maximum(real.x - 0.1, 0).mean() / 0.1)  # in units of the range, not clipped
    assert found.distance.w1 is None
    assert "BOUNDS CUT" in str(found)
    assert set(found.to_dict()["bounds_that_cut"]) == {"x", "n", "t"}


def test_a_w1_that_holds_values_beyond_the_bounds_says_so() -> None:
    """One value far out of a thousand is most of it; a column within its bounds has no mark."""
    schema = hw.Schema(hours=hw.Integer(0, 48), age=hw.Integer(0, 48))
    made = {"hours": [24] * 1_000, "age": [24] * 1_000}
    found = hw.evaluate(made | {"hours": [24] * 999 + [61_370]}, made, schema)
    hours, age = found.columns
    assert hours.distance > 1 > age.distance
    lines = str(found).splitlines()
    assert [line.split()[0] for line in lines if f"{hours.distance:.4f} ‡" in line] == ["hours"]
    assert sum("‡" in line for line in lines) == 2
    assert lines[-1].startswith("‡: real values beyond the bounds are in this W1")
    assert "‡" not in str(hw.evaluate(made, made, schema))


def test_real_tables_may_have_columns_that_the_schema_leaves_out() -> None:
    schema = hw.Schema(x=hw.Number(0, 1)).with_reading(ignore_extra=True)
    real = pd.DataFrame({"rownames": [1, 2], "x": [0.25, 2.0]})
    found = hw.evaluate(real, {"x": [0.25, 1.0]}, schema)
    assert [column.name for column in found.columns] == ["x"]
    assert found.cut[0].above == 0.5


def test_values_at_the_bounds_and_missing_ones_are_not_beyond_them() -> None:
    schema = hw.Schema(
        x=hw.Number(0.1, 0.3, missing=True), n=hw.Integer(-3, 3), t=hw.Datetime("2024-01-01", "2024-02-01")
    )
    table = {"x": [0.1, 0.3, None], "n": [-3, 3, 0], "t": ["2024-01-01", "2024-02-01", "2024-01-05"]}
    assert hw.evaluate(table, table, schema).cut == []


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


def test_tables_without_a_schema_are_compared_by_what_they_hold() -> None:
    rng = np.random.default_rng(0)
    when = pd.date_range("2024-01-01", periods=300, freq="h")
    real = pd.DataFrame({"x": rng.random(300), "n": rng.integers(0, 3, 300), "c": rng.choice(["a", "b"], 300)})
    real = real.assign(b=rng.random(300) < 0.5, t=when)
    real.loc[::10, "x"] = np.nan
    same = hw.evaluate(real, real.sample(frac=1, random_state=0))
    assert same.one_way == same.two_way == 0
    assert [column.kind for column in same.columns] == ["number", "number", "category", "boolean", "datetime"]
    assert hw.evaluate(real, real.assign(c="a")).ranked_columns[0].name == "c"
    with pytest.raises(ValueError, match="different columns: x"):
        hw.evaluate(real, real.drop(columns="x"))
    with pytest.raises(ValueError, match="name the schema"):
        hw.evaluate(np.zeros((3, 2)), np.zeros((3, 2)))
    with pytest.raises(TypeError, match="no columns to compare"):
        hw.evaluate(5, real)


def planted(n: int, seed: int, *, noise: float) -> Floats:
    """Two columns in the cube; the second is above a half if the first is, but for some noise."""
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    flip = rng.random(n) < noise
    return np.column_stack([x, np.where((x > 0.5) != flip, 0.9, 0.1)])


def test_a_classifier_trained_on_a_faithful_table_is_as_good_and_on_another_it_is_not() -> None:
    """Accuracy of 1,000 test rows varies by 0.01."""
    real = planted(3_000, 0, noise=0.05)
    good, bad = planted(2_000, 1, noise=0.05), planted(2_000, 2, noise=0.5)
    for made, low, high in ((good, 0.9, 1.0), (bad, 0.35, 0.7)):
        training = hw.evaluate(real, made, hw.unit_cube(2), target="x1 > 0.5").training
        assert training is not None
        assert training.real == pytest.approx(0.95, abs=0.04)
        assert low < training.synthetic < high
        assert training.guess == pytest.approx(0.5, abs=0.06)
    with pytest.raises(ValueError, match="the columns are x0, x1"):
        hw.evaluate(real, good, hw.unit_cube(2), target="y")


@pytest.mark.parametrize(
    ("synthetic", "real", "guess", "called"),
    [
        (0.94, 0.95, 0.5, "reliable"),
        (0.88, 0.95, 0.5, "rough"),
        (0.7, 0.95, 0.5, "unreliable"),
        (0.65, 0.68, 0.65, "unreliable"),  # hardly anything is lost, but all of what could be learned
        (0.65, 0.655, 0.65, "unknown"),
        (0.66, 0.65, 0.65, "unknown"),
    ],
)
def test_a_prediction_that_is_no_better_than_guessing_is_not_called_good(
    synthetic: float, real: float, guess: float, called: str
) -> None:
    training = Training("x", synthetic, real, guess, (100, 100, 50))
    assert training.grade == called
    assert ("says little" in str(training)) == (called == "unknown")
    assert ("was lost" in str(training)) == (synthetic == guess and called == "unreliable")


def test_without_scikit_learn_a_target_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    points = planted(100, 0, noise=0.1)
    with pytest.raises(ImportError, match=r"headwater\[train\]"):
        hw.evaluate(points, points, hw.unit_cube(2), target="x1 > 0.5")
    assert hw.evaluate(points, points, hw.unit_cube(2)).training is None


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


def test_steps_and_logarithmic_scales_are_compared_on_their_own_axis() -> None:
    schema = hw.Schema(price=hw.Number(0, 10, step=0.5), size=hw.Number(0.01, 100, scale="log"))
    real = pd.DataFrame({"price": [0.2, 10.2, 10.3, 5.0], "size": [0.001, 1, 100, 10_000]})
    found = hw.evaluate(real, schema.decode(schema.encode(real), "pandas"), schema)
    price, size = found.columns
    assert (price.below, price.above) == (0, 0.25)  # 10.2 is rounded to the bound, 10.3 would be to 10.5
    assert (size.below, size.above) == (0.25, 0.25)
    assert size.distance == pytest.approx((1 + 2) / 4 / 4)  # one and two of the four decades beyond, in units of all


def test_zero_counts_as_the_lower_bound_of_a_logarithmic_scale() -> None:
    """So it is declared: zeros are neither clipped nor cut, and one that comes out as that bound is no error.

    A negative value has no place on the scale. It is cut, which is said; how far away it is counts for nothing.
    """
    schema = hw.Schema(height=hw.Number(1, 1000, scale="log"))
    real = {"height": np.array([0.0] * 80 + [10.0] * 15 + [-7.0] * 5)}
    found = hw.evaluate(real, {"height": np.array([1.0] * 80 + [10.0] * 15 + [1.0] * 5)}, schema=schema)
    (column,) = found.columns
    assert (column.below, column.above) == (0.05, 0.0)
    assert column.error == pytest.approx(0.05)
    assert column.distance < 1e-6
    assert "negative values have no place on a log scale" in str(found).replace("\n", " ")
    assert schema.encode_batch(real).tally.columns == {"height": {"clipped": 5}}
    strict = hw.Schema(height=hw.Number(1, 1000, scale="log", outside="error"))
    assert strict.encode({"height": [0.0, 1.0]}).tolist() == [[0.0], [0.0]]
    with pytest.raises(TableError, match="below the lower bound"):
        strict.encode({"height": [0.0, -1.0]})


def test_zeros_of_a_logarithmic_scale_may_come_out_near_its_lower_bound() -> None:
    """Without decimals, numbers are spread over the smallest cell: within a percent they are the same on that scale."""
    schema = hw.Schema(height=hw.Number(0.01, 1e5, scale="log"))
    rest = np.geomspace(1, 1e4, 200)
    real = {"height": np.concatenate([np.zeros(800), rest])}
    near = {"height": np.concatenate([np.linspace(0.01, 0.010005, 800), rest])}
    (column,) = hw.evaluate(real, near, schema=schema).columns
    assert column.finer_error == 0
    far = {"height": np.concatenate([np.linspace(0.011, 0.012, 800), rest])}
    (column,) = hw.evaluate(real, far, schema=schema).columns
    assert column.finer_error == pytest.approx(0.8)
