"""What is foretold of marginals follows the laws of the noise that a run draws."""

from __future__ import annotations

import math

import numpy as np
import pytest

import headwater as hw
from headwater.public.budget import Budget
from headwater.public.marginals.codes import codings
from headwater.public.marginals.errors import NO_TABLE, TWO_WAY_BLIND, expected_errors, stage_errors
from headwater.public.marginals.plan import plan
from headwater.secret.marginals import MarginalsMechanism
from headwater.secret.noise import Noise
from tests.support.runs import feed

SIZES = (2, 2, 3, 4, 5, 7, 9, 12, 20, 40)
SCHEMA = hw.Schema({f"c{i}": hw.Category([f"v{j}" for j in range(size)]) for i, size in enumerate(SIZES)})


@pytest.mark.parametrize("budget", [Budget(1.0), Budget(0.25), Budget(1.0, 1e-6)], ids=str)
def test_the_noise_of_one_way_tables_is_that_of_the_run(budget: Budget) -> None:
    """In stages before any pair was measured nothing hangs on data: variances agree exactly, joint ones too."""
    stages = [stage for stage in plan(len(SIZES), budget, 1 << 12).stages if not stage.pairs and stage.end <= 1 << 14]
    run = MarginalsMechanism(SCHEMA, budget, Noise(1))
    codes = np.random.default_rng(0).random((stages[-1].end, len(SIZES)))
    run = feed(run, codes)
    shared, asked = False, []
    for stage in stages:
        tables = [table for table in run.tables if (table.start, table.end) == (stage.start, stage.end)]
        assert [table.columns for table in tables] == [(i,) for i in range(len(tables))]  # not of the longest lists
        drawn = [math.sqrt(t.variance / 2) * t.counts.size / 2 / stage.size for t in tables]
        drawn += [NO_TABLE] * (len(SIZES) - len(drawn))
        assert stage_errors(codings(SCHEMA), stage).columns == pytest.approx(drawn, rel=1e-12)
        shared |= any(table.joint for table in tables)
        asked.append(len(tables))
    assert shared == (not stages[0].accounting.gaussian)
    assert asked == sorted(asked)
    assert asked[0] < asked[-1] == len(SIZES)


def test_pairs_are_foretold_only_where_there_is_time_for_them() -> None:
    wide = hw.Schema({f"c{i}": hw.Category(list("abcdef")) for i in range(8)})
    few, many = (expected_errors(wide, Budget(1.0), records)[1] for records in (4096, 1 << 20))
    assert few > TWO_WAY_BLIND > 3 * many
    assert expected_errors(wide, Budget(1e-6), 10) == (1.0, 1.0)
    one = hw.Schema(c=hw.Category(list("abcdef")))
    assert expected_errors(one, Budget(1.0), 1 << 20)[0] < 0.01
