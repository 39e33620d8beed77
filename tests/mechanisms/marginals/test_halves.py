"""Halves of doublings: however records come, the same is measured, and a state can be kept at any moment of one."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from headwater.public.marginals import plan as plan_module
from headwater.public.marginals.codes import NoisyTable
from headwater.public.marginals.plan import plan
from headwater.public.schema import Schema
from headwater.secret.marginals import MarginalsMechanism
from headwater.secret.noise import Noise
from tests.support.marginals_watch import a_schema, a_stream

EPSILON = 64.0
"""The first stage with pairs ends at 128 then, and the doubling from 256 on is halved at 384."""
RECORDS = 1100


@pytest.fixture(autouse=True)
def halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doublings are halved, however large ε is."""
    monkeypatch.setattr(plan_module, "NOISY", 10**9)


def start(schema: Schema, expect: int | None = None) -> MarginalsMechanism:
    return MarginalsMechanism(schema, EPSILON, Noise(seed=5), expect)


def reloaded(mechanism: MarginalsMechanism, schema: Schema) -> MarginalsMechanism:
    again = start(schema, mechanism.expect)
    again.restore(*mechanism.state())
    return again


def described(tables: Sequence[NoisyTable]) -> list[tuple[object, ...]]:
    return [
        (t.columns, t.start, t.end, [e.tolist() for e in t.edges], t.counts.tolist(), t.scale, t.present)
        for t in tables
    ]


@pytest.mark.parametrize(("columns", "expect"), [(1, None), (2, None), (3, 700), (5, None), (5, 900), (8, None)])
def test_one_by_one_and_reloaded_at_every_border_the_same_is_measured(columns: int, expect: int | None) -> None:
    schema = a_schema(columns)
    points = a_stream(schema, RECORDS, 3)
    whole = start(schema, expect)
    rows = whole.encode(points)
    whole.update(rows)
    borders = {stage.end for stage in plan(columns, EPSILON, RECORDS, expect).stages}
    cuts = sorted({t + more for t in borders for more in (-1, 0, 1) if 0 < t + more <= RECORDS})
    parts = start(schema, expect)
    for first, last in zip([0, *cuts], [*cuts, RECORDS], strict=True):
        parts.update(rows[first:last])
        parts = reloaded(parts, schema)
    single = start(schema, expect)
    for row in rows:
        single.update(row[None])
    assert described(whole.tables) == described(parts.tables) == described(single.tables)
    assert whole.outlook == parts.outlook == single.outlook


@pytest.mark.parametrize("columns", [1, 3, 5, 8])
def test_records_that_are_counted_elsewhere_give_the_same_across_the_borders_of_halves(columns: int) -> None:
    schema = a_schema(columns)
    points = a_stream(schema, RECORDS, 3)
    plain, counted = start(schema), start(schema)
    rows = plain.encode(points)
    plain.update(rows)
    at, rng = 0, np.random.default_rng(1)
    while at < RECORDS:
        _, end = counted.bucket(at)
        end = min(end, RECORDS)
        if rng.random() < 0.3:  # some of them come as records
            middle = at + (end - at) // 2
            counted.update(rows[at:middle])
            at = middle
        different, numbers = np.unique(rows[at:end], axis=0, return_counts=True)
        counted.update_counts(different, numbers.astype(np.int64))
        counted, at = reloaded(counted, schema), end
        assert counted.t == at
    assert described(plain.tables) == described(counted.tables)


def test_every_stage_of_long_plans_spends_epsilon_and_halves_share_their_fast_buckets() -> None:
    for columns in (1, 2, 8, 10, 23, 100):
        for epsilon in (0.01, 1.0, 7.5, 64.0):
            for expect in (None, 999, 60_000):
                for stage in plan(columns, epsilon, 1 << 30, expect).stages:
                    spent = stage.slow_budget + stage.fast_budget
                    assert float(spent) == epsilon
                    assert stage.ledger().total <= spent
                    if stage.fast:
                        assert (stage.start - stage.opened) % stage.fast == 0


def test_a_rule_that_measures_other_tables_has_another_number() -> None:
    """If this fails, the same run now asks for other tables: raise the version, and write what it asks for."""
    lines = []
    for columns, epsilon in ((3, 8.0), (5, 64.0), (8, 200.0)):
        schema = a_schema(columns)
        mechanism = MarginalsMechanism(schema, epsilon, Noise(seed=5))
        mechanism.update(mechanism.encode(a_stream(schema, RECORDS, 3)))
        for table in mechanism.tables:
            bins = zlib.crc32(b"".join(edges.tobytes() for edges in table.edges))
            names = ",".join(map(str, table.columns))
            lines.append(
                f"{columns} columns, {table.start}-{table.end}: {names} in {table.counts.size} bins {bins:08x}"
            )
    page = Path(__file__).with_name(f"tables-{MarginalsMechanism.version}.txt")
    assert lines == page.read_text(encoding="utf-8").splitlines()
