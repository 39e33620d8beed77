"""The benchmark of wide tables: its tables are fixed, its measures are right, and what it keeps is found again."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import headwater as hw
from benchmarks.kept import Kept
from benchmarks.tables import offline, run
from benchmarks.tables.cases import FULL, MARGINALS, QUICK, Case, offline_cases
from benchmarks.tables.data import BINS, DEVELOPMENT, Table, table
from benchmarks.tables.measures import correlation_error, errors, marginal_errors
from benchmarks.tables.page import Numbers

SHAPES = {
    "flights": (327_346, 10),
    "diamonds": (53_940, 10),
    "births": (254_654, 8),
    "movies": (58_788, 23),
    "voters": (64_600, 20),
    "opinions": (64_814, 17),
    "health": (20_190, 44),
}


@pytest.fixture
def small() -> Table:
    """Four records: a number, a whole number with a gap, a category."""
    frame = pd.DataFrame({"a": [0.0, 1.0, 15.9, 16.0], "b": [1.0, 2.0, np.nan, 2.0], "c": ["x", "y", "x", "x"]})
    schema = hw.Schema(a=hw.Number(0, 16), b=hw.Integer(1, 3, missing=True), c=hw.Category("x", "y"))
    return Table("small", frame, schema)


@pytest.mark.parametrize("name", DEVELOPMENT)
def test_a_table_has_the_records_that_figures_are_made_from(name: str) -> None:
    assert table(name).frame.shape == SHAPES[name]


@pytest.mark.parametrize("name", DEVELOPMENT)
def test_a_schema_takes_every_record_of_its_table(name: str) -> None:
    whole = table(name)
    assert len(whole.schema.encode(whole.frame)) == len(whole)


@pytest.mark.parametrize("name", DEVELOPMENT)
def test_records_made_from_cells_lie_in_these_cells(name: str) -> None:
    here = table(name).first(3_000)
    codes = here.codes()
    made = here.decode(codes, np.random.default_rng(0))
    assert np.array_equal(here.codes(made), codes)
    here.schema.encode(made)  # and the schema takes them


def test_flights_are_in_order_of_time() -> None:
    months = table("flights").frame["month"].astype(int).to_numpy()
    assert np.all(np.diff(months) >= 0)


def test_a_colon_takes_the_first_columns() -> None:
    assert table("flights:4").schema.names == table("flights").schema.names[:4]


def test_cells_of_numbers_whole_numbers_gaps_and_categories(small: Table) -> None:
    assert small.sizes == (BINS + 1, 4, 3)
    assert small.codes().tolist() == [[0, 0, 0], [1, 1, 1], [15, 3, 0], [15, 1, 0]]


def test_a_value_that_is_not_declared_is_refused(small: Table) -> None:
    with pytest.raises(ValueError, match="c: a value that is not declared"):
        small.codes(small.frame.assign(c="z"))


def test_the_error_of_a_table_with_itself_is_nothing(small: Table) -> None:
    assert set(marginal_errors(small.codes(), small.codes(), small.sizes).values()) == {0}


def test_errors_of_a_table_with_one_of_four_values_moved(small: Table) -> None:
    """One value of column b changes: a quarter of that marginal, and of both pairs that it is in."""
    moved = small.frame.assign(b=[1.0, 2.0, 3.0, 2.0])
    found = marginal_errors(small.codes(), small.codes(moved), small.sizes)
    assert (found["one_way"], found["two_way"]) == pytest.approx((0.25 / 3, 0.5 / 3))
    assert (found["one_way_worst"], found["two_way_worst"]) == (0.25, 0.25)


def test_columns_that_change_places_are_seen_by_pairs_only(small: Table) -> None:
    turned = small.frame.assign(a=small.frame["a"].to_numpy()[::-1])
    found = marginal_errors(small.codes(), small.codes(turned), small.sizes)
    assert found["one_way"] == 0
    assert found["two_way"] > 0


def test_independent_marginals_of_the_flights_are_off_as_published() -> None:
    """At t = 16,384 and ε = 1 about .018 and .165; a fixed seed."""
    here = table("flights").first(16_384)
    found = marginal_errors(here.codes(), offline.independent(here, 1.0, 0), here.sizes)
    assert found["one_way"] == pytest.approx(0.018, rel=0.1)
    assert found["two_way"] == pytest.approx(0.165, rel=0.05)


def test_correlation_of_a_column_turned_round(small: Table) -> None:
    assert correlation_error(small, small.frame) == 0
    here = table("diamonds").first(2_000)
    turned = here.frame.assign(price=20_000 - here.frame["price"])
    change = np.abs(2 * here.frame.select_dtypes("number").corr()["price"].drop("price")).sum() / 21
    assert correlation_error(here, turned) == pytest.approx(change)


def test_full_measures_all_that_quick_does() -> None:
    assert set(QUICK.online()) <= set(FULL.online())
    assert len(set(offline_cases())) == len(offline_cases())


CASE = Case("births:4", 2_000, 1.0, "cascade", 0)


def test_a_second_run_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [CASE, replace(CASE, t=3_000), replace(CASE, method="independent")]
    first = run.measure(cases, Kept(tmp_path / "kept.jsonl"))
    monkeypatch.setattr(run, "releases", None)
    monkeypatch.setattr(run, "beside", None)
    assert run.measure(cases, Kept(tmp_path / "kept.jsonl")) == first
    assert [Case(**{name: row[name] for name in Case.__dataclass_fields__}) for row in first] == cases


def test_releases_of_one_run_are_those_of_the_synthesizer() -> None:
    ((_, found),) = run.releases([CASE])
    here, synthesizer = table(CASE.table).first(CASE.t), CASE.synthesizer()
    synthesizer.update(here.frame)
    assert found["two_way"] == errors(here, synthesizer.release().sample(kind="pandas"))["two_way"]


def test_ratios_are_of_means_over_seeds_where_both_were_measured() -> None:
    def row(method: str, t: int, seed: int, error: float) -> dict[str, object]:
        return {"table": "a", "t": t, "epsilon": 1.0, "method": method, "seed": seed, "two_way": error}

    rows = [row(MARGINALS, 10, 0, 0.1), row(MARGINALS, 10, 1, 0.3), row(MARGINALS, 99, 0, 0.1), row("mst", 10, 0, 0.4)]
    numbers = Numbers({"rows": rows})
    assert numbers.ratios(MARGINALS, "mst") == {"a 10": pytest.approx(0.5)}
    assert numbers.ratios(MARGINALS, "mst", least=11) == {}
