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

ROOT, RECORDED = Path(__file__).parents[2], Path(__file__).with_name("recorded.json")
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


def found(beginning: str = "") -> Recorded:
    """What the runs give now whose names begin like this."""
    words = [sys.executable, "-m", "tests.golden.record", "--print", beginning]
    done = subprocess.run(words, env=os.environ | FIXED, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"a golden run failed:\n{done.stderr}")
    every: Recorded = json.loads(done.stdout)
    return every


def main(words: Sequence[str]) -> None:
    """Record what all runs give; or print what some give, in this process."""
    if words:
        warnings.simplefilter("ignore")  # of seeds and of odd budgets
        some: Recorded = {}
        for name in (name for name in RUNS if name.startswith(words[-1])):
            with tempfile.TemporaryDirectory() as folder:
                some[name] = RUNS[name](Path(folder))
        print(json.dumps(some))
        return
    every = {name: digests for name, digests in found().items() if name not in SAME}
    RECORDED.write_text(json.dumps(every, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
