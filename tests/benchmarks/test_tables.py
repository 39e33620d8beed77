"""The benchmark of wide tables: its tables are fixed, cells are right, and what it keeps is found again."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import headwater as hw
from benchmarks.kept import Kept
from benchmarks.tables import offline, run
from benchmarks.tables.cases import PLAIN, Case, narrow, offline_cases, online
from benchmarks.tables.data import DEVELOPMENT, READERS, SEALED, Table, table
from benchmarks.tables.page import Numbers, figures, page
from headwater.evaluation import yardstick

SHAPES = {
    "flights": (327_346, 10),
    "diamonds": (53_940, 10),
    "births": (254_654, 8),
    "movies": (58_788, 23),
    "voters": (64_600, 20),
    "opinions": (64_814, 17),
    "health": (20_190, 44),
    "stops": (51_920, 15),
    "wages": (61_697, 11),
    "happiness": (17_137, 33),
    "weather": (26_115, 13),
    "hotels": (15_402, 26),
    "mothers": (31_857, 20),
    "partisans": (33_830, 18),
    "women": (28_534, 20),
    "pupils": (26_796, 16),
}


@pytest.mark.parametrize("name", READERS)
def test_a_schema_takes_every_record_of_its_table_and_cells_are_those_of_the_records_made_from_them(name: str) -> None:
    whole = table(name)
    assert whole.frame.shape == SHAPES[name]
    here = whole.first(3_000)
    for bins in (16, 64):
        codes = here.codes(bins)
        assert (codes < here.sizes(bins)).all()
        made = here.decode(codes, bins, np.random.default_rng(0))
        again = [yardstick.bin_of(c, values, bins) for c, values in zip(here.columns, made, strict=True)]
        gone = [size - column.axis.missing for size, column in zip(here.sizes(bins), here.columns, strict=True)]
        assert all(np.array_equal(np.where(a < 0, g, a), c) for a, g, c in zip(again, gone, codes.T, strict=True))


def test_sealed_tables_are_no_others_and_two_of_them_are_in_order_of_time() -> None:
    assert len(SEALED) >= 5
    assert not set(SEALED) & set(DEVELOPMENT)
    for name, column in (("weather", "month"), ("hotels", "arrival"), ("flights", "month")):
        assert (np.diff(table(name).frame[column].astype(int)) >= 0).all()


def test_cells_of_numbers_whole_numbers_gaps_and_categories() -> None:
    frame = pd.DataFrame({"a": [0.0, 1.0, 15.9, 16.0], "b": [1.0, 2.0, np.nan, 2.0], "c": ["x", "y", "x", "x"]})
    schema = hw.Schema(a=hw.Number(0, 16), b=hw.Integer(1, 3, missing=True), c=hw.Category("x", "y"))
    small = Table("small", frame, schema)
    assert small.sizes(16) == [16, 4, 2]
    assert small.codes(16).tolist() == [[0, 0, 0], [1, 1, 1], [15, 3, 0], [15, 1, 0]]


def test_names_of_columns_behind_a_colon_are_taken() -> None:
    assert table("flights:carrier,origin").schema.names == ("carrier", "origin")


def test_histograms_are_off_by_the_noise_that_they_have() -> None:
    """17 counts of Laplace noise of scale 2 · 8: total variation of about 17 · 16 / 2 / n in the widest column."""
    here = table("births").first(20_000)
    found = run.errors(here, offline.histograms(here, 1.0, 0))
    assert found["bins_50"] is not None
    assert 0.0005 < found["bins_50"] < 0.02
    assert (found["pairs_16"] or 0) > 2 * found["bins_50"]


def test_no_case_is_there_twice() -> None:
    for cases in (online(READERS, 2), narrow(2), offline_cases()):
        assert len(set(cases)) == len(cases)


CASE = Case("births:age,work", 2_000, "cascade", 0)


def test_a_second_run_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [CASE, replace(CASE, t=3_000), replace(CASE, method=offline.HISTOGRAMS)]
    first = run.measure(cases, Kept(tmp_path / "kept.jsonl"))
    monkeypatch.setattr(run, "releases", None)
    monkeypatch.setattr(run, "beside", None)
    assert run.measure(cases, Kept(tmp_path / "kept.jsonl")) == first
    assert [Case(**{name: row[name] for name in Case.__dataclass_fields__}) for row in first] == cases


def test_errors_of_a_run_are_those_of_the_release() -> None:
    ((_, found),) = run.releases([CASE])
    here, synthesizer = table(CASE.table).first(CASE.t), CASE.synthesizer()
    synthesizer.update(here.frame)
    made = yardstick.table_of(synthesizer.release().points(), here.columns)
    assert {name: found[name] for name in run.errors(here, made)} == run.errors(here, made)


def row(method: str, t: int, seed: int, error: float, *, name: str = "births") -> dict[str, object]:
    errors = dict.fromkeys((*yardstick.ONE_COLUMN, *yardstick.TWO_COLUMNS), error)
    return {"table": name, "t": t, "epsilon": 1.0, "method": method, "seed": seed} | errors


def test_ratios_are_of_means_over_seeds_to_the_better_of_two() -> None:
    rows = [row(PLAIN, 10, 0, 0.1), row(PLAIN, 10, 1, 0.3), row(PLAIN, 9, 0, 0.7), row("mst 16", 10, 0, 0.8)]
    assert Numbers(rows).ratio(PLAIN, "births", ("w1",)) is None
    numbers = Numbers([*rows, row("mst 64", 10, 0, 0.4)])
    assert numbers.ratio(PLAIN, "births", ("w1",)) == pytest.approx(0.5)
    assert numbers.ratio(PLAIN, "births", yardstick.TWO_COLUMNS) == pytest.approx(0.5)


def test_a_page_says_which_tables_missed_what_was_asked() -> None:
    rows = [row(method, 10, 0, error) for method, error in ((PLAIN, 0.9), ("mst 16", 0.9), ("mst 64", 1.8))]
    found = {"rows": rows, "auto": {}, "made": ""}
    missed = {figure.what: figure.missed for figure in figures(found) if figure.missed}
    assert missed["one column, other tables"] == {"births": pytest.approx(1)}
    assert "Spearman, other tables" not in missed
    text = page(found)
    assert "| births | 254,654 |  |  | 1.00 | 1.00 |" in text
    assert all(f"**{name}**" in text for name in SEALED)
