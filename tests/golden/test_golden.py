"""Seeded runs measure and release the numbers that were recorded, bit for bit, however their records come."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pytest

from tests.golden import record
from tests.golden.digest import digest

_CPU = Path("/proc/cpuinfo")
_FLAGS = set(_CPU.read_text().split()) if _CPU.exists() else set()
recorded_here = pytest.mark.skipif(
    platform.machine() != "x86_64" or not {"avx2", "fma"} <= _FLAGS,
    reason="digests are of Linux on x86-64 with AVX2: other processors round otherwise",
)


@recorded_here
@pytest.mark.parametrize("group", record.GROUPS)
def test_runs_give_what_was_recorded(group: str) -> None:
    expected = {name: digests for name, digests in record.recorded().items() if name.startswith(group)}
    found = record.found([group])
    assert found.keys() == expected.keys(), "runs came or went: `python -m tests.golden.record` records anew"
    changed = {
        name: [part for part in digests if digests[part] != expected[name].get(part)]
        for name, digests in found.items()
        if digests != expected[name]
    }
    assert not changed, "if it was meant, `python -m tests.golden.record` records anew, and the commit says why"


def test_every_run_is_of_a_group() -> None:
    assert all(name.startswith(record.GROUPS) for name in record.recorded())


def test_digests_are_of_numbers_and_not_of_how_they_are_held() -> None:
    one = digest({"b": np.array([1, 2], np.int32), "a": [np.zeros(2), None]})
    assert one == digest({"a": (-np.zeros(2), None), "b": np.array([1, 2], np.uint64)})
    assert one != digest({"a": (np.zeros(2), None), "b": np.array([2, 1])})
