"""Pages are made from the numbers that are kept, and what a bound says of a number is right."""

import importlib
import json
from pathlib import Path

import pytest

from benchmarks.__main__ import MODULES
from benchmarks.kept import Kept
from benchmarks.pages import FOLDER, Figure, as_json, failed, judged, kept


@pytest.mark.parametrize("name", MODULES)
def test_a_page_is_what_its_numbers_say(name: str) -> None:
    """Numbers, page and the code that makes it belong together: `python -m benchmarks` makes the page anew."""
    page = importlib.import_module(f"benchmarks.{MODULES[name]}").page(kept(name))
    assert (FOLDER / f"{name}.md").read_text(encoding="utf-8") == page


def test_a_bound_is_met_missed_or_not_measured() -> None:
    met = Figure("x", {"here": 0.5, "there": 1.0}, at_most=1)
    missed = Figure("x", {"here": 0.5, "there": 1.5}, at_most=1)
    assert (met.verdict, missed.verdict, missed.missed) == ("pass", "**miss**", {"there": 1.5})
    assert Figure("x", {}, at_most=1).verdict == "not measured"
    assert Figure("x", float("nan"), at_least=1).verdict == "**miss**"
    assert Figure("x", 3.0).verdict == ""
    goal = Figure("x", {"there": 1.5}, at_most=1, goal=True)
    assert goal.verdict == "short"
    assert (failed([met, goal]), failed([met, missed])) == (False, True)


def test_a_table_of_figures_lists_the_places_beyond_their_bound() -> None:
    text = judged([Figure("x", {"here": 1.25, "there": 1.5}, "×", at_most=1), Figure("y", 12_345.0, at_least=1)])
    assert "| x | 1.25 to 1.5 × (2) | at most 1 | **miss** |\n" in text
    assert "| y | 12,345 | at least 1 | pass |\n" in text
    assert "- x: there 1.5; here 1.25.\n" in text


def test_json_of_numbers_has_a_line_for_each_row() -> None:
    found = {"size": "full", "rows": [{"a": 1}, {"a": [1, 2]}], "limits": [1, 2]}
    assert json.loads(as_json(found)) == found
    assert as_json(found).count("\n") == 8
    assert json.loads(as_json([{"ε": 1}])) == [{"ε": 1}]


def test_results_are_found_again_and_a_line_cut_off_is_not(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    Kept(path).add("case", "code", {"error": 0.5})
    with path.open("a") as file:
        file.write('{"key": "cut o')
    again = Kept(path)
    assert again.find("case", "code") == {"error": 0.5}
    assert again.find("other case", "code") is None
    assert again.find("case", "other code") is None
    assert Kept(path, any_code=True).find("case", "other code") == {"error": 0.5}
