"""The benchmark of wide tables: its tables are fixed, its measures are right, and what it keeps is found again."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import headwater as hw
from benchmarks.tables import offline, online, run
from benchmarks.tables.cases import FULL, QUICK, Case, offline_cases
from benchmarks.tables.cost import held
from benchmarks.tables.data import BINS, NAMES, Table, table
from benchmarks.tables.dpmm_worker import budget
from benchmarks.tables.measures import Errors, accuracy, correlation_error, marginal_errors
from benchmarks.tables.online import Row
from benchmarks.tables.page import page
from benchmarks.tables.results import Numbers
from benchmarks.tables.run import Kept, measure_online
from benchmarks.tables.verdicts import compare, requirements

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
    return Table("small", frame, schema, ("a", 8.0))


@pytest.mark.parametrize("name", NAMES)
def test_a_table_has_the_records_that_figures_are_made_from(name: str) -> None:
    assert table(name).frame.shape == SHAPES[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_takes_every_record_of_its_table(name: str) -> None:
    whole = table(name)
    assert len(whole.schema.encode(whole.frame)) == len(whole)


@pytest.mark.parametrize("name", NAMES)
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
    assert marginal_errors(small.codes(), small.codes(), small.sizes) == Errors(0, 0, 0, 0)


def test_errors_of_a_table_with_one_of_four_values_moved(small: Table) -> None:
    """One value of column b changes: a quarter of that marginal, and of both pairs that it is in."""
    moved = small.frame.assign(b=[1.0, 2.0, 3.0, 2.0])
    found = marginal_errors(small.codes(), small.codes(moved), small.sizes)
    assert (found.one_way, found.two_way) == pytest.approx((0.25 / 3, 0.5 / 3))
    assert (found.one_way_worst, found.two_way_worst) == (0.25, 0.25)


def test_columns_that_change_places_are_seen_by_pairs_only(small: Table) -> None:
    turned = small.frame.assign(a=small.frame["a"].to_numpy()[::-1])
    found = marginal_errors(small.codes(), small.codes(turned), small.sizes)
    assert found.one_way == 0
    assert found.two_way > 0


def test_independent_marginals_of_the_flights_are_off_as_published() -> None:
    """At t = 16,384 and ε = 1 about .018 and .165; a fixed seed."""
    here = table("flights").first(16_384)
    found = marginal_errors(here.codes(), offline.independent(here, 1.0, 0), here.sizes)
    assert found.one_way == pytest.approx(0.018, rel=0.1)
    assert found.two_way == pytest.approx(0.165, rel=0.05)


def test_correlation_of_a_column_turned_round(small: Table) -> None:
    assert correlation_error(small, small.frame) == 0
    here = table("diamonds").first(2_000)
    turned = here.frame.assign(price=20_000 - here.frame["price"])
    change = np.abs(2 * here.frame.select_dtypes("number").corr()["price"].drop("price")).sum() / 21
    assert correlation_error(here, turned) == pytest.approx(change)


def test_a_classifier_learns_from_real_records_and_not_from_shuffled_ones() -> None:
    here = table("diamonds").first(4_000)
    rng = np.random.default_rng(0)
    shuffled = here.frame.apply(lambda column: rng.permutation(column.to_numpy()))
    assert accuracy(here, here.frame) > 0.95
    assert accuracy(here, shuffled) < 0.7


def test_runs_share_the_budget() -> None:
    assert budget(1.0, 1e-9, 1, "basic") == (1.0, 1e-9)
    assert budget(1.0, 1e-9, 128, "basic") == (1 / 128, 1e-9 / 128)


def test_full_measures_all_that_quick_does() -> None:
    assert set(QUICK.online()) <= set(FULL.online())
    assert len(set(offline_cases())) == len(offline_cases())


CASE = Case("births:4", 2_000, 1.0, "cascade", 0)


def row(case: Case, error: float = 0.5) -> Row:
    return Row(case, Errors(error, error, error, error), error, None)


def test_kept_figures_are_found_again_and_a_line_cut_off_is_not(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "kept.jsonl", code=True)
    kept.add(CASE, row(CASE).to_dict())
    with kept.path.open("a") as file:
        file.write('{"key": "cut o')
    again = Kept(kept.path, code=True)
    found = again.find(CASE)
    assert found is not None
    assert Row.from_dict(found) == row(CASE)
    assert again.find(replace(CASE, seed=1)) is None


def test_figures_of_other_code_are_measured_again_unless_kept(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    path.write_text(json.dumps({"key": "of other code"} | row(CASE).to_dict()) + "\n")
    assert Kept(path, code=True).find(CASE) is None
    assert Kept(path, code=False).find(CASE) is not None


def test_a_second_run_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [CASE, replace(CASE, t=3_000), replace(CASE, method="independent")]
    first = measure_online(cases, Kept(tmp_path / "kept.jsonl", code=True))
    monkeypatch.setattr(run, "online", None)
    monkeypatch.setattr(run, "beside", None)
    assert measure_online(cases, Kept(tmp_path / "kept.jsonl", code=True)) == first
    assert [one.case for one in first] == cases


def test_a_mechanism_that_does_not_exist_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert measure_online([replace(CASE, method="magic")], Kept(tmp_path / "kept.jsonl", code=True)) == []
    assert "no mechanism 'magic'" in capsys.readouterr().err


def test_releases_of_one_run_are_those_of_the_synthesizer() -> None:
    (found,) = online.online([CASE])
    here = table(CASE.table).first(CASE.t)
    synthesizer = online.synthesizer_of(CASE)
    synthesizer.update(here.frame)
    made = synthesizer.release().sample(kind="pandas")
    assert found.errors.two_way == pytest.approx(
        marginal_errors(here.codes(), here.codes(made), here.sizes).two_way, abs=1e-6
    )


def test_bytes_held_are_those_of_whole_arrays_counted_once() -> None:
    array = np.zeros(1_000)
    assert held({"a": array, "b": [array[:10], (array,)]}) == 8_000


def test_a_limit_is_met_missed_or_open() -> None:
    met = compare("x", [("here", 0.5), ("there", 1.0)], at_most=1)
    missed = compare("x", [("here", 0.5), ("there", 1.5)], at_most=1)
    assert (met.verdict, missed.verdict, missed.missed) == ("pass", "MISS", ("there: 1.5",))
    assert compare("x", [], at_most=1).verdict == "open"
    assert compare("x", [("there", 1.5)], at_most=1, goal=True).verdict == "short"


def test_the_page_says_what_was_missed(tmp_path: Path) -> None:
    places = [("flights", 131_072), ("movies", 58_788)]
    rows = [row(Case(name, t, 1.0, "marginals", 0), 0.05) for name, t in places]
    rows += [row(Case(name, t, 1.0, "mst", 0), 0.04) for name, t in places]
    numbers = Numbers("quick", "2026-01-01", rows, [], [Case("flights", 131_072, 1.0, "aim", 0)])
    numbers.write(tmp_path / "tables.json")
    again = Numbers.read(tmp_path / "tables.json")
    assert again == numbers
    verdicts = {one.what: one.verdict for one in requirements(again)}
    assert verdicts["flights 131,072: one-way / two-way"] == "MISS"
    assert verdicts["two-way error / offline MST, the other tables, t ≥ 50,000"] == "pass"
    assert verdicts["the same, goal"] == "short"
    text = page(again, requirements(again))
    assert "- flights 131,072: one-way / two-way (≤ 0.01 / 0.045): one-way; two-way" in text
    assert "minutes of the processor: AIM on flights 131,072." in text
