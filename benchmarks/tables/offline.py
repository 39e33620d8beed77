"""What can be had offline: one release of the complete data at time t, with all of ε; nothing before, nothing after.

MST and AIM are those of dpmm, which pins older libraries, so they run in an environment of their own. They get the
declared range of a column cut into 16 or 64 bins, and values are spread evenly over theirs. They take minutes, so what
they gave is kept twice: errors in docs/benchmarks, records in .cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables.data import Codes, Table
from headwater.evaluation import yardstick

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "tables"
ENVIRONMENT = ROOT / ".cache" / "dpmm-venv"
WORKER = Path(__file__).with_name("dpmm_worker.py")
DPMM = "0.1.9"
DELTA = 1e-9
TIME_LIMIT = 3600
"""Seconds of the processor after which a release is given up."""
METHODS = {"mst 16": 16, "mst 64": 64, "aim 16": 16}
"""Methods of dpmm with their bins of a column."""
HISTOGRAMS, HISTOGRAM_BINS = "histograms 64", 64


def release(table: Table, epsilon: float, method: str, seed: int) -> tuple[yardstick.Table, float] | None:
    """Records of one release and the seconds that they took; None if they took too long."""
    if method == HISTOGRAMS:
        return histograms(table, epsilon, seed), 0.0
    codes, seconds = dpmm(table, epsilon, method.split()[0], METHODS[method], seed)
    return None if codes is None else (table.decode(codes, METHODS[method], np.random.default_rng(seed)), seconds)


def histograms(table: Table, epsilon: float, seed: int) -> yardstick.Table:
    """Records drawn from noisy histograms of each column by itself, with an equal share of pure ε each."""
    rng, made = np.random.default_rng(seed), []
    sizes = table.sizes(HISTOGRAM_BINS)
    for codes, size in zip(table.codes(HISTOGRAM_BINS).T, sizes, strict=True):
        counts = np.bincount(codes, minlength=size)
        noisy = np.clip(counts + rng.laplace(0, 2 * len(sizes) / epsilon, size), 0, None)
        share = noisy / noisy.sum() if noisy.any() else np.full(size, 1 / size)
        made.append(rng.choice(size, len(table), p=share))
    return table.decode(np.column_stack(made), HISTOGRAM_BINS, rng)


def dpmm(table: Table, epsilon: float, method: str, bins: int, seed: int) -> tuple[Codes | None, float]:
    """The cells of the records of a release of MST or AIM."""
    parts = (table.name, table.fingerprint, len(table), f"{epsilon:g}", method, bins, seed, f"dpmm {DPMM}", DELTA)
    CACHE.mkdir(parents=True, exist_ok=True)
    made = CACHE / (hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:20] + ".npz")
    if not made.exists():
        given, partial = made.with_suffix(".in.npz"), made.with_suffix(".part.npz")
        how: dict[str, Any] = {"method": method, "epsilon": epsilon, "delta": DELTA, "seed": seed, "limit": TIME_LIMIT}
        np.savez(given, codes=table.codes(bins).astype(np.uint16), sizes=table.sizes(bins), **how)
        command = [str(_python()), "-W", "ignore", str(WORKER), str(given), str(partial)]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        try:
            subprocess.run(command, check=True, env=environment | {"OMP_NUM_THREADS": "1"})
        except subprocess.CalledProcessError as error:
            if error.returncode == -signal.SIGXCPU:
                return None, 0.0
            raise
        finally:
            given.unlink()
        partial.rename(made)
    found = np.load(made)
    return found["codes"].astype(np.int64), float(found["seconds"])


def _python() -> Path:
    """The interpreter of dpmm's environment, which is made when it is first needed."""
    python = ENVIRONMENT / "bin" / "python"
    if not (ENVIRONMENT / ".done").exists():
        older = shutil.which("python3.11") or shutil.which("python3.10")
        found = sys.executable if sys.version_info < (3, 12) else older
        if found is None:
            raise RuntimeError(f"dpmm {DPMM} needs Python 3.10 or 3.11: install one of them")
        print(f"Setting up dpmm in {ENVIRONMENT.relative_to(ROOT)} (once, a minute, 500 MB) ...", file=sys.stderr)
        subprocess.run([found, "-m", "venv", "--clear", str(ENVIRONMENT)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", f"dpmm=={DPMM}"], check=True)
        (ENVIRONMENT / ".done").touch()
    return python
