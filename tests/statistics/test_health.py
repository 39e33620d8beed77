"""A billion draws, every p-value of which is written to docs/benchmarks/statistics.md. `make test-statistics`."""

from __future__ import annotations

import os

import pytest

from tests.statistics import page
from tests.statistics.suite import LEVEL_OF_JUDGEMENT, Health, examine

SEED = int(os.environ.get("HEADWATER_STATISTICS_SEED", "1"))
SHARE = float(os.environ.get("HEADWATER_STATISTICS_SHARE", "1"))


@pytest.fixture(scope="module")
def health(pytestconfig: pytest.Config) -> Health:
    """All draws, made once. The report is written before anything is judged: a failure must leave its evidence."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled(), _bar() as show:
        found = examine(SHARE, SEED, show.at)
    if SHARE >= 1:
        page.write(found, SEED)
    return found


class _bar:  # noqa: N801 - used like a function
    """How far it is, on a terminal and in a log."""

    def __enter__(self) -> _bar:
        self._said = -1
        return self

    def at(self, done: int, total: int) -> None:
        if 20 * done // total > self._said:
            self._said = 20 * done // total
            print(f"\rdrawing: {100 * done // total:3d} %", end="", flush=True)

    def __exit__(self, *_: object) -> None:
        print()


def test_there_are_a_billion_draws(health: Health) -> None:
    assert health.draws >= 1_000_000_000 * min(SHARE, 1)


def test_no_check_rejects_the_sampler(health: Health) -> None:
    """Fails for a random seed with probability about 1e-6 (Holm over all p-values)."""
    bad = [
        (family, row, check, p)
        for family, rows in health.families.items()
        for row, checks in rows.items()
        for check, p in checks.items()
        if p * len(health.values) < LEVEL_OF_JUDGEMENT
    ]
    assert bad == []
    assert health.corrected >= LEVEL_OF_JUDGEMENT


def test_independent_p_values_are_uniform(health: Health) -> None:
    """Fails for a random seed with probability 1e-6."""
    assert len(health.independent) >= 20
    assert health.uniformity >= LEVEL_OF_JUDGEMENT


def test_every_p_value_is_a_probability(health: Health) -> None:
    assert all(0 <= p <= 1 for p in health.values)
