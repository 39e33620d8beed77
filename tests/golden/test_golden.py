"""Seeded runs measure and release the numbers that were recorded, bit for bit, however their records come."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tests.golden import record
from tests.golden.runs import RUNS

_CPU = Path("/proc/cpuinfo")
_FLAGS = set(_CPU.read_text().split()) if _CPU.exists() else set()
_SAME_ARITHMETIC = platform.machine() == "x86_64" and {"avx2", "fma"} <= _FLAGS


@pytest.mark.skipif(
    not _SAME_ARITHMETIC, reason="recorded by Linux on x86-64 with AVX2: other machines round otherwise"
)
@pytest.mark.parametrize("group", sorted({name.split()[0].strip(",:") for name in RUNS}))
def test_runs_give_what_was_recorded(group: str) -> None:
    expected = {name: digests for name, digests in record.recorded().items() if name.startswith(group)}
    found = record.found(group)
    assert found.keys() == expected.keys(), "runs came or went: `python -m tests.golden.record` records anew"
    changed = {
        name: [part for part in digests if digests[part] != expected[name].get(part)]
        for name, digests in found.items()
        if digests != expected[name]
    }
    assert not changed, "if it was meant, `python -m tests.golden.record` records anew, and the commit says why"
