"""Digests of all golden runs, always from a process of its own whose arithmetic is the same on every machine.

    python -m tests.golden.record

writes them anew. That is right only where what is measured or released was meant to change, and the commit says why.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

from tests.golden.runs import RUNS, SAME

ROOT = Path(__file__).parents[2]
RECORDED = Path(__file__).parent / "recorded.json"
GROUPS = ("cascade", "marginals", "paper", "pmm", "form")
"""How the names of runs begin."""
FIXED = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OPENBLAS_CORETYPE": "Haswell",  # other kernels add up in another order
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL",
}
"""Every x86-64 processor with AVX2 computes the same under these."""

Recorded = dict[str, dict[str, str]]


def recorded() -> Recorded:
    """What every run must give, by name."""
    found: Recorded = json.loads(RECORDED.read_text())
    return found | {name: found[same] for name, same in SAME.items()}


def found(groups: Sequence[str] = GROUPS) -> Recorded:
    """What the runs of some groups give now."""
    words = [sys.executable, "-m", "tests.golden.record", *groups]
    done = subprocess.run(words, env=os.environ | FIXED, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"a golden run failed:\n{done.stderr}")
    every: Recorded = json.loads(done.stdout)
    return every


def _run(groups: Sequence[str]) -> Recorded:
    warnings.simplefilter("ignore")  # of seeds and of odd budgets
    every: Recorded = {}
    for name, digests in RUNS.items():
        if name.startswith(tuple(groups)):
            with tempfile.TemporaryDirectory() as folder:
                every[name] = digests(Path(folder))
    return every


def main(groups: Sequence[str]) -> None:
    """Print what some groups give, or record what all of them give."""
    if groups:
        print(json.dumps(_run(groups)))
        return
    every = {name: digests for name, digests in found().items() if name not in SAME}
    RECORDED.write_text(json.dumps(every, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    print(f"{RECORDED}: {len(every)} runs")


if __name__ == "__main__":
    main(sys.argv[1:])
