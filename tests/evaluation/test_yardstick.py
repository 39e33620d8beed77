"""The yardstick against literal versions: loops over rows, and pandas."""

from __future__ import annotations

import math
import tracemalloc
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest

import headwater as hw
from headwater.evaluation import yardstick
from headwater.evaluation.axes import column_axes

SCHEMA = hw.Schema(
    age=hw.Integer(0, 99),
    income=hw.Number(0, 10, missing=True),
    size=hw.Integer(0, 4),
    town=hw.Category("a", "b", "c", "rare", missing=True),
    member=hw.Boolean(),
)
COLUMNS = column_axes(SCHEMA)
NAMES = list(SCHEMA.columns)


def people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 60 + 10 * seed, n)
    income = np.where(rng.random(n) < 0.2, np.nan, np.minimum(age / 20 + rng.exponential(1, n), 10))
    towns = np.array(["a", "b", "c", "rare", None], dtype=object)
    town = towns[np.where(age > 40, rng.choice(5, n, p=[0.2, 0.3, 0.3, 0.1, 0.1]), rng.choice(5, n))]
    frame = {"age": age, "income": income, "size": rng.integers(0, 5, n), "town": town}
    return pd.DataFrame(frame | {"member": rng.random(n) < age / 200})


REAL, MADE = people(700, 1), people(500, 3)


def table(frame: pd.DataFrame) -> yardstick.Table:
    return yardstick.table_of(SCHEMA.encode(frame), COLUMNS)


@pytest.fixture(scope="module")
def found() -> dict[str, float | None]:
    return yardstick.yardstick(COLUMNS, table(REAL), table(MADE))


def test_a_table_and_itself_in_another_order_differ_by_nothing() -> None:
    same = yardstick.yardstick(COLUMNS, table(REAL), table(REAL[::-1].reset_index(drop=True)))
    assert max(error or 0 for error in same.values()) < 1e-12
    assert set(same) > {*yardstick.ONE_COLUMN, *yardstick.TWO_COLUMNS}


def test_ks_and_w1_are_those_of_the_integrals_over_values(found: dict[str, float | None]) -> None:
    ks, w1 = [], []
    for name in ("age", "income", "size"):
        x, y = REAL[name].dropna().to_numpy(float), MADE[name].dropna().to_numpy(float)
        grid = np.linspace(0, 100, 100_001)
        differences = np.abs([(x <= v).mean() - (y <= v).mean() for v in np.sort([*x, *y])])
        ks.append(differences.max())
        lines = [np.searchsorted(np.sort(side), grid, side="right") / len(side) for side in (x, y)]
        w1.append(np.abs(lines[0] - lines[1]).sum() * 0.001 / x.std())
    assert found["ks"] == pytest.approx(np.mean(ks))
    assert found["w1"] == pytest.approx(np.mean(w1), rel=1e-3)


def bin_of(name: str, value: Any, bins: int) -> Any:  # noqa: ANN401 - a value of any column
    if value is None or value != value:
        return "missing"
    if name in ("town", "member"):
        return value
    if name == "income":
        return min(math.floor(value / 10 * bins), bins - 1)
    values = 100 if name == "age" else 5
    return value if values <= bins else int(value) * bins // values


def total_variation(x: list[Any], y: list[Any]) -> float:
    return sum(abs(x.count(v) / len(x) - y.count(v) / len(y)) for v in {*x, *y}) / 2


@pytest.mark.parametrize("bins", yardstick.BINS)
def test_bins_are_values_or_equal_parts_of_the_range(bins: int, found: dict[str, float | None]) -> None:
    cells = [{name: [bin_of(name, v, bins) for v in frame[name]] for name in NAMES} for frame in (REAL, MADE)]
    assert found[f"bins_{bins}"] == pytest.approx(np.mean([total_variation(*(c[n] for c in cells)) for n in NAMES]))
    if bins == 16:
        pairs = [[list(zip(c[x], c[y], strict=True)) for c in cells] for x, y in combinations(NAMES, 2)]
        assert found["pairs_16"] == pytest.approx(np.mean([total_variation(*pair) for pair in pairs]))


def test_means_by_group_are_those_of_pandas(found: dict[str, float | None]) -> None:
    errors = []
    for name in ("age", "income", "size"):
        for by in ("size", "town", "member"):
            if by != name:
                for group in REAL[by].dropna().unique():
                    assert (REAL[by] == group).mean() >= yardstick.LEAST_GROUP
                    means = [frame[name][frame[by] == group].mean() for frame in (REAL, MADE)]
                    errors.append(abs(means[0] - means[1]) / REAL[name].std(ddof=0))
    assert found["group_means"] == pytest.approx(np.mean(errors))
    assert found["worst_group"] == pytest.approx(np.max(errors))


def test_a_small_group_is_not_asked_for_and_one_that_is_gone_has_the_mean_of_all_rows() -> None:
    schema = hw.Schema(x=hw.Number(0, 1), by=hw.Category("a", "b", "c"))
    real = {"x": [0.0] * 60 + [1.0] * 39 + [0.5], "by": ["a"] * 60 + ["b"] * 39 + ["c"]}
    columns, made = column_axes(schema), {"x": [0.25] * 10, "by": ["a"] * 10}
    both = [yardstick.table_of(schema.encode(one), columns) for one in (real, made)]
    asked = yardstick.group_means(columns, both[0])
    assert asked.about == [(0, 1, 0), (0, 1, 1)]
    changes = (asked.ask(both[1]) - asked.ask(both[0])) * np.array(real["x"]).std()
    assert changes == pytest.approx([0.25, -0.75])


def test_correlations_are_those_of_pandas_where_nothing_is_missing_and_skip_rows_with_gaps() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 6, 300).astype(float)
    y, z = x + rng.normal(0, 3, 300), rng.random(300) < 0.3
    frame = pd.DataFrame({"x": x, "y": y, "z": z.astype(float)})
    assert yardstick.pearson([*frame.to_numpy().T]) == pytest.approx(frame.corr().to_numpy())
    ranks = [yardstick._ranks(column) for column in frame.to_numpy().T]
    assert yardstick.pearson(ranks) == pytest.approx(frame.corr(method="spearman").to_numpy())
    frame.loc[:99, "y"] = np.nan
    assert yardstick.pearson([*frame.to_numpy().T]) == pytest.approx(frame.corr().to_numpy())


def test_dependence_is_compared_for_columns_with_an_order_and_of_two_values(found: dict[str, float | None]) -> None:
    frames = [frame[["age", "income", "size", "member"]].astype(float) for frame in (REAL, MADE)]
    upper = np.triu_indices(4, 1)
    assert found["pearson"] == pytest.approx(np.abs(frames[0].corr() - frames[1].corr()).to_numpy()[upper].mean())
    ranked = [frame.rank().corr() for frame in frames]
    assert found["spearman"] == pytest.approx(np.abs(ranked[0] - ranked[1]).to_numpy()[upper].mean())


def test_a_box_holds_the_rows_that_lie_in_it(found: dict[str, float | None]) -> None:
    columns = column_axes(hw.Schema(x=hw.Integer(0, 9), y=hw.Integer(0, 9)))
    x = np.repeat(np.arange(10), 10) / 9
    y = np.tile(np.arange(10), 10) / 9
    asked = yardstick.boxes(columns, [x, y], seed=0)
    real, made = asked.ask([x, y]), asked.ask([x[:50], y[:50]])
    sides = np.arange(11)
    assert {round(share * 100) for share in real} <= {int(a * b) for a in sides for b in sides}
    assert 0.1 < real.mean() < 0.25  # (0.4)² of two random values of ten, both included: (1/3 + a tenth)²
    assert not np.allclose(real, made)
    assert (yardstick.boxes(columns, [x, y], seed=0).ask([x, y]) == real).all()
    assert 0 < (found["boxes"] or 0) < (found["boxes_95"] or 0) < 1


def test_boxes_of_moments_need_no_memory_for_each_second() -> None:
    columns = column_axes(hw.Schema(when=hw.Datetime("2024-01-01", "2024-01-31"), x=hw.Number(0, 1)))
    tracemalloc.start()
    yardstick.boxes(columns, [np.arange(4) / 4, np.arange(4) / 4], seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


def test_risk_ratios_are_those_of_counted_rows(found: dict[str, float | None]) -> None:
    def flags(frame: pd.DataFrame, least: float, most: float, percentile: float) -> list[tuple[str, pd.Series[bool]]]:
        marked = [(by, by, group) for by in ("size", "town", "member") for group in REAL[by].dropna().unique()]
        rows = [(name, frame[by] == group, (REAL[by] == group).mean()) for name, by, group in marked]
        for name in ("age", "income"):
            cut = np.percentile(REAL[name].dropna(), percentile)
            rows.append((name, frame[name] > cut, (REAL[name] > cut).mean()))
        return [(name, row) for name, row, share in rows if least <= share <= most]

    def ratio(frame: pd.DataFrame, i: int, j: int) -> float:
        outcome, exposed = flags(frame, 0.01, 0.1, 95)[i][1], flags(frame, 0.1, 0.9, 50)[j][1]
        risks = [((outcome & rows).sum() + 0.5) / (rows.sum() + 1) for rows in (exposed, ~exposed)]
        return float(np.log(risks[0] / risks[1]))

    outcomes, exposed = ([name for name, _ in flags(REAL, *how)] for how in ((0.01, 0.1, 95), (0.1, 0.9, 50)))
    places = [(i, j) for i, a in enumerate(outcomes) for j, b in enumerate(exposed) if a != b]
    errors = [abs(ratio(REAL, i, j) - ratio(MADE, i, j)) for i, j in places]
    assert len(errors) > 15
    assert found["risk_ratios"] == pytest.approx(np.mean(errors), rel=1e-6)


def test_what_cannot_be_asked_has_no_error_and_no_part_in_ratios() -> None:
    schema = hw.Schema(x=hw.Category("a", "b"))
    columns = column_axes(schema)
    one, other = (yardstick.table_of(schema.encode({"x": list(text)}), columns) for text in ("aabb", "abbb"))
    found = yardstick.yardstick(columns, one, other)
    assert {name for name, error in found.items() if error is None} == {
        "ks", "w1", "pairs_16", "group_means", "worst_group", "pearson", "spearman", "risk_ratios",
    }  # fmt: skip
    assert found["bins_24"] == 0.25
    assert yardstick.mean_ratio(found, found | {"bins_24": 0.125}, of=("ks", "bins_24", "bins_50")) == pytest.approx(
        math.sqrt(2)
    )
    assert yardstick.mean_ratio(found, found, of=("ks", "w1")) is None
    better = yardstick.error_ratio({"ks": 0.25}, {"ks": 0.5}, {"ks": 0.125}, of="ks")
    assert better == 2
