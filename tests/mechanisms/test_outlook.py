"""What to expect before there is a release: near to what comes, and in plain words where nothing can be good."""

from __future__ import annotations

import math

import numpy as np
import pytest

import headwater as hw


def table(columns: int, values: int) -> hw.Schema:
    return hw.Schema({f"c{i}": hw.Category(*map(str, range(values))) for i in range(columns)})


@pytest.mark.parametrize(("columns", "values", "epsilon"), [(5, 5, 0.1), (10, 16, 1.0), (10, 100, 1.0)])
def test_marginals_come_out_as_foretold_up_to_a_factor(columns: int, values: int, epsilon: float) -> None:
    """With a fixed seed; the factor of three covers all cases that were tried, see the module."""
    schema, rng, n = table(columns, values), np.random.default_rng(0), 8192
    data = {name: rng.choice(values, n, p=rng.dirichlet(np.full(values, 0.5))) for name in schema.names}
    synth = hw.Synthesizer(schema, epsilon=epsilon, mechanism="marginals", seed=1)
    synth.update({name: column.astype(str) for name, column in data.items()})
    made = synth.release().sample(kind="columns")
    counts = [
        (np.bincount(data[c], minlength=values), np.bincount(made[c].astype(int), minlength=values)) for c in data
    ]
    found = float(np.mean([np.abs(a - b).sum() / 2 / n for a, b in counts]))
    foretold = hw.outlook(schema, epsilon=epsilon, records=n).typical
    assert foretold / 3 < found < foretold * 3


def test_a_delta_is_counted_and_the_promise_is_stated_as_it_was_given() -> None:
    """A δ never foretells more noise for one record; for people it is worth most with a cap for buckets."""
    for columns in (2, 20):
        pure = hw.outlook(table(columns, 8), epsilon=1.0, records=50_000, records_per_person=10)
        loose = hw.outlook(
            table(columns, 8), epsilon=1.0, delta=1e-9, records=50_000, records_per_person=10, records_per_bucket=1
        )
        assert loose.typical < pure.typical
        assert "at ε = 1 for 10 records of a person (" in str(pure)
        assert "at ε = 1, δ = 1e-09 for 10 records of a person (" in str(loose)
        each = hw.outlook(table(columns, 8), epsilon=0.1, records=50_000)
        assert pure.epsilon == 1.0
        assert pure.typical == pytest.approx(each.typical)
        assert "person" not in str(each)
    with pytest.raises(ValueError, match="delta"):
        hw.outlook(table(2, 2), epsilon=1.0, delta=0.9, records=100)


def test_what_cannot_be_good_is_said_with_numbers() -> None:
    poor = hw.outlook(table(20, 50), epsilon=0.1, records=2000)
    assert poor.poor
    assert poor.needed is not None
    assert not hw.outlook(table(20, 50), epsilon=0.1, records=poor.needed).poor
    assert f"from about {poor.needed:,} records on" in str(poor)
    assert "says little" in str(poor)
    good = hw.outlook(table(5, 4), epsilon=1.0, records=100_000)
    assert not good.poor
    assert "says little" not in str(good)
    unknown = hw.outlook(table(2, 4), epsilon=1.0, records=100, mechanism="paper")
    assert math.isnan(unknown.typical)
    assert not unknown.poor


def test_a_run_that_knows_how_many_records_come_is_foretold_less_noise() -> None:
    """Without it the last stage that has ended holds a part of the records only."""
    for records in (20_000, 100_000):
        unknown, known = (hw.outlook(table(10, 8), epsilon=1.0, records=records, expect=e) for e in (None, records))
        assert known.typical < 0.9 * unknown.typical
    same = (hw.outlook(table(10, 8), epsilon=1.0, records=1 << 16, expect=e).typical for e in (None, 1 << 16))
    assert len(set(same)) == 1
