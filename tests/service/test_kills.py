"""The service is killed with −9 while it takes records: nothing lost, nothing twice, every release stays."""

from pathlib import Path

import pytest

from benchmarks.serve_kills import attack

pytestmark = pytest.mark.slow  # processes, browsers and brokers


def test_nothing_is_lost_or_counted_twice_when_the_service_is_killed(tmp_path: Path) -> None:
    """`make bench-serve` does the same with sixteen writers and fifty kills."""
    outcome = attack(tmp_path, kills=3, writers=4, most=30, seed=1, pause=0.8)
    assert outcome.problems == []
    assert outcome.kills == 3
    assert outcome.posts > 20
    assert outcome.served > 3
