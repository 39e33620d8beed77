"""Halves of doublings: what they spend, and which tables are asked for."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from headwater.public.marginals import plan as plan_module
from headwater.public.marginals.plan import plan
from headwater.secret.marginals import MarginalsMechanism
from headwater.secret.noise import Noise
from tests.support.marginals_watch import a_schema, a_stream
from tests.support.runs import feed


@pytest.fixture(autouse=True)
def halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doublings are halved, however large ε is: at ε = 64 the one from 256 on at 384."""
    monkeypatch.setattr(plan_module, "NOISY", 10**9)


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
        mechanism = feed(MarginalsMechanism(schema, epsilon, Noise(seed=5)), a_stream(schema, 1100, 3))
        for table in mechanism.tables:
            bins = zlib.crc32(b"".join(edges.tobytes() for edges in table.edges))
            names = ",".join(map(str, table.columns))
            lines.append(
                f"{columns} columns, {table.start}-{table.end}: {names} in {table.counts.size} bins {bins:08x}"
            )
    page = Path(__file__).with_name(f"tables-{MarginalsMechanism.version}.txt")
    assert lines == page.read_text(encoding="utf-8").splitlines()
