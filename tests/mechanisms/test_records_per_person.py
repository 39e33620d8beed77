"""The suggested cap follows from public numbers, and is nearly the best one where that was measured."""

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest

import headwater as hw
from benchmarks import people_page
from headwater.public.outlook import left_out

PLANE = hw.Schema(x=hw.Number(0, 1), y=hw.Number(0, 1))
WIDE = hw.Schema({f"c{i}": hw.Category(list("abcdef")) for i in range(6)})
KNOWN = {1: 0.6, 4: 0.25, 30: 0.13, 500: 0.02}


def test_the_part_that_counts_is_that_of_people_counted_one_by_one() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.choice(list(KNOWN), 20_000, p=list(KNOWN.values()))
    for cap in (1, 3, 20, 500):
        counted, apart = left_out(np.array([*KNOWN], dtype=float), np.array([*KNOWN.values()]), cap)
        assert counted == pytest.approx(np.minimum(sizes, cap).sum() / sizes.sum(), rel=0.1)
        assert 0 <= apart <= 1 - counted + 1e-12
    assert (counted, apart) == (1.0, 0.0)


@pytest.mark.parametrize("schema", [PLANE, WIDE])
def test_more_records_and_more_difference_ask_for_a_larger_cap(schema: hw.Schema) -> None:
    def suggested(records: int, **more: Any) -> int:  # noqa: ANN401
        return hw.suggest_records_per_person(KNOWN, schema, epsilon=1.0, records=records, **more).records

    by_records = [suggested(1 << q) for q in range(14, 31, 4)]
    assert by_records == sorted(by_records)
    assert by_records[-1] > by_records[0]
    by_difference = [suggested(1 << 20, differ=differ) for differ in (0.0, 0.1, 0.3, 1.0)]
    assert by_difference == sorted(by_difference)


def test_the_noise_is_that_of_the_plan() -> None:
    """With a cap of k the mechanism's noise has k times the scale, at every time at which its buckets are the same."""
    caps = hw.suggest_records_per_person(KNOWN, PLANE, epsilon=1.0, records=10**6).caps
    assert caps[0].records == 1
    errors = [cap.errors["W1"] for cap in caps]
    assert all(a[0] < b[0] and a[1] >= b[1] for a, b in pairwise(errors))  # of noise, and of what is left out
    for k in (1, 20):
        synth = hw.Synthesizer(PLANE, epsilon=1.0, person=hw.Person("who", records=k))
        scale = max(spend.scale for spend in synth.ledger(0))
        assert scale == pytest.approx(2.0 * k)


@pytest.mark.parametrize(
    ("people", "more", "said"),
    [
        ({}, {}, "shares of people"),
        ([1, 2], {}, "shares of people"),
        ({0: 1.0}, {}, "whole number of records"),
        ({1: -1.0}, {}, "0 or more"),
        ({1: 0.0}, {}, "above 0"),
        ({1: 1.0}, {"records": 0}, "records"),
        ({1: 1.0}, {"differ": 2.0}, "differ"),
        ({1: 1.0}, {"mechanism": "paper"}, "cascade or marginals"),
        ({1: 1.0}, {"measure": "two-way total variation"}, "measure must be one of W1"),
    ],
)
def test_what_says_nothing_is_refused(people: Any, more: dict[str, Any], said: str) -> None:  # noqa: ANN401
    with pytest.raises((TypeError, ValueError), match=said):
        hw.suggest_records_per_person(people, PLANE, **({"epsilon": 1.0, "records": 1000} | more))


def kept() -> Any:  # noqa: ANN401 - what the benchmark wrote
    return json.loads((Path(__file__).parents[2] / "docs" / "benchmarks" / "people.json").read_text())


def test_the_suggestion_is_within_a_fifth_of_the_best_cap_of_the_benchmark() -> None:
    """By measured errors, for whatever a cap is suggested for, also of tables and tails that took no part."""
    runs, suggested = kept()["runs"], kept()["suggested"]
    errors: dict[tuple[int, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        for measure, error in people_page.errors_of(run).items() if not run.get("delta") else ():
            errors[run["records"], f"{run['table']} {run['tail']} {measure}"][run["cap"]].append(error)
    assert len(errors) == 2 * 3 * 4 + 2 * 2 * 3  # numbers of records, tails, measures; tables, tails, measures
    for (records, what), by_cap in errors.items():
        means = {cap: mean(values) for cap, values in by_cap.items()}
        assert means[suggested[str(records)][what]] <= 1.2 * min(means.values()), (records, what)
