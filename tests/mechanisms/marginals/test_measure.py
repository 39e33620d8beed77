"""The mechanism as a whole: windows, going on, null records, and the smallest and largest of everything."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import headwater as hw
from headwater.public import laws
from headwater.public.marginals import plan as plan_module
from headwater.public.marginals.codes import NULL, codings
from headwater.public.marginals.measured import Outlook
from headwater.public.marginals.plan import plan
from headwater.public.protocol import AnySchema
from headwater.secret.bucket import SLOW, Bucket, SlowBucket
from headwater.secret.marginals import MarginalsMechanism
from headwater.secret.noise import Noise
from tests.support.marginals_watch import a_schema, a_stream
from tests.support.runs import feed, plain

BITS = {name: hw.Boolean() for name in "abcde"}


def start(
    records: int, schema: hw.Schema | None = None, epsilon: float = 64.0, expect: int | None = None
) -> MarginalsMechanism:
    schema = schema or a_schema(5)
    return feed(MarginalsMechanism(schema, epsilon, Noise(seed=1), expect), a_stream(schema, records))


def reloaded(mechanism: MarginalsMechanism) -> MarginalsMechanism:
    made = mechanism.schema, mechanism.budget, mechanism.noise
    return MarginalsMechanism.restore(*made, mechanism.state(), mechanism.expect)


@pytest.mark.parametrize(("columns", "pairs"), [(2, 1), (10, 9), (44, 11)])
def test_the_first_bucket_with_pairs_keeps_no_budget_for_more_pairs_than_it_can_choose(
    columns: int, pairs: int
) -> None:
    """A tree of 44 columns has 43 pairs; at ε = 1 a bucket of 8,192 records has nine choices."""
    stage = next(stage for stage in plan(columns, 1.0, 1 << 20).stages if stage.pairs)
    of_columns = codings(hw.unit_cube(columns))
    bucket = Bucket(np.zeros((columns, 0), np.uint16), of_columns, Noise(seed=1), SLOW, stage.start, stage.end)
    slow = SlowBucket(bucket, stage, (), Outlook((), (), (1.0,) * columns), 1.0)
    assert slow.expected(columns - 1) == pairs
    slow.questions = slow.candidates()
    assert pairs == min(slow.turns(stage.tree_choice) + 2, columns - 1)


@pytest.mark.parametrize(("columns", "expect"), [(1, None), (3, 700), (5, 900), (8, None)])
def test_one_by_one_and_reloaded_at_every_border_of_halves_the_same_is_measured(
    columns: int, expect: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Doublings are halved here, however large ε is; some of the records come counted."""
    monkeypatch.setattr(plan_module, "NOISY", 10**9)
    schema, made = a_schema(columns), (64.0, Noise(seed=5), expect)
    whole, parts, single = (MarginalsMechanism(schema, *made) for _ in range(3))
    batch = hw.Batch(whole.encode(a_stream(schema, 1100, 3)))
    whole = whole.update(batch)
    borders = {stage.end for stage in plan(columns, 64.0, 1100, expect).stages}
    cuts = sorted({t + more for t in borders for more in (-1, 0, 1) if 0 < t + more < 1100})
    for number, (first, last) in enumerate(zip([0, *cuts], [*cuts, 1100], strict=True)):
        rows = batch.rows[first:last]
        # Rows that are alike stand for several records where these are in one bucket; else each for one.
        one_bucket = number % 2 and parts.spans(first)[-1].end >= last
        found = np.unique(rows, axis=0, return_counts=True) if one_bucket else (rows, np.ones(len(rows), np.int64))
        parts = reloaded(parts.update(hw.Batch(*found)))
    for row in batch.rows:
        single = single.update(hw.Batch(row[None]))
    assert plain(whole.closings) == plain(parts.closings) == plain(single.closings)


def test_windows_start_where_buckets_do_and_tables_cover_the_past_in_order() -> None:
    mechanism = start(300)
    starts = sorted({table.start for table in mechanism.tables})
    for since in (0, 1, 5, 64, 65, 200, 299, 300):
        assert mechanism.measured(0).after(since).start == max(s for s in starts if s <= since)
    ends = [table.end for table in mechanism.tables]
    assert ends == sorted(ends)
    for column in range(5):
        covered = {i for t in mechanism.tables if column in t.columns for i in range(t.start, t.end)}
        assert covered.issuperset(range(256))


@pytest.mark.parametrize("records", [0, 1, 2, 63, 64, 65])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0])
def test_few_records(records: int, epsilon: float) -> None:
    mechanism = start(records, epsilon=epsilon)
    measured = mechanism.measured(0)
    assert (measured.t, measured.start) == (records, 0)
    assert all(table.end <= records for table in measured.tables)
    assert mechanism.ledger().total <= Fraction(epsilon)


@pytest.mark.parametrize(
    "schema",
    [
        hw.Schema(x=hw.Number(0, 1)),
        hw.Schema(x=hw.Category("only")),
        hw.Schema(x=hw.Boolean()),
        hw.Schema(x=hw.Category("only"), y=hw.Category("one"), z=hw.Boolean()),
        hw.Schema(x=hw.Number(0, 1), y=hw.Boolean()),
    ],
)
@pytest.mark.parametrize("epsilon", [50.0, 1e7])
def test_small_schemas_and_next_to_no_noise(schema: hw.Schema, epsilon: float) -> None:
    """Rounded to a float, the variance of shared noise would be 0 at such a budget."""
    mechanism = start(400, schema, epsilon)
    assert {table.columns for table in mechanism.tables} <= {(i,) for i in range(schema.dimension)} | {(0, 1), (0, 2)}
    assert all(table.variance > 0 for table in mechanism.tables)
    assert plain(reloaded(mechanism).measured(0)) == plain(mechanism.measured(0))


@pytest.mark.slow
def test_many_columns() -> None:
    """Sixty of them, of two values, all alike: pairs are found, though not all can be candidates at once."""
    schema: AnySchema = hw.Schema({f"c{i}": hw.Boolean() for i in range(60)})
    alike = np.random.default_rng(0).integers(0, 2, (300, 1)) / 2 * np.ones(60)
    mechanism = feed(MarginalsMechanism(schema, 200.0, Noise(seed=1)), alike)
    assert len({table.columns for table in mechanism.tables if len(table.columns) == 2}) >= 30


def test_a_table_of_two_bins_adds_up_to_its_records() -> None:
    """It has one draw of noise, since the number of records is public."""
    tables = start(300).tables
    small = [table for table in tables if table.counts.shape == (2,)]
    assert len(small) > 3
    assert all(table.counts.sum() == table.end - table.start for table in small)
    assert any(table.counts.sum() != table.end - table.start for table in tables if table.counts.size > 2)


def test_noise_that_is_too_wide_to_be_shared_is_drawn_for_each_table(monkeypatch: pytest.MonkeyPatch) -> None:
    assert any(table.joint for table in start(200).tables)
    monkeypatch.setattr(laws, "WIDEST", 1)
    tables = start(200).tables
    assert tables
    assert not any(table.joint for table in tables)


def test_one_table_of_two_cells_says_how_many_records_are_null() -> None:
    """In every bucket: without it, null records would be taken for those with the first value."""
    schema = hw.Schema(BITS)
    mechanism = MarginalsMechanism(schema, 400.0, Noise(seed=1))
    rows = mechanism.encode(a_stream(schema, 600))
    rows[100::3] = NULL
    mechanism = mechanism.update(hw.Batch(rows))
    good = np.concatenate([[0], np.cumsum((rows != NULL).any(axis=1))])
    spans = {(table.start, table.end) for table in mechanism.tables if len(table.columns) == 1}
    told = {(table.start, table.end): table for table in mechanism.tables if table.present is not None}
    assert told.keys() == spans
    for (first, end), table in told.items():
        assert table.present is not None
        assert abs(table.present - (good[end] - good[first])) <= 8 * math.sqrt(table.variance) + 1
        assert table.counts.sum() == end - first
