"""What can be had offline: one release of the complete data at time t, with all of ε; nothing before, nothing after.

MST and AIM are those of dpmm, which pins older libraries, so they run in an environment of their own. They take
minutes, so what they gave is kept twice: figures in docs/benchmarks, records in .cache.
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

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "tables"
ENVIRONMENT = ROOT / ".cache" / "dpmm-venv"
WORKER = Path(__file__).with_name("dpmm_worker.py")
DPMM = "0.1.9"
DELTA = 1e-9
TIME_LIMIT = 1800
"""Seconds of the processor after which a release is given up."""
METHODS = ("mst", "aim")
INDEPENDENT, NOTHING = "independent", "nothing"
BESIDE = (INDEPENDENT, NOTHING)


def release(table: Table, epsilon: float, method: str, seed: int) -> tuple[Codes | None, float | None]:
    """Records of one release, None if they took too long, and the seconds that another process took for them."""
    if method == INDEPENDENT:
        return independent(table, epsilon, seed), None
    if method == NOTHING:  # records even over the cells that errors are measured by: all that a schema says
        rng = np.random.default_rng(seed)
        return np.column_stack([rng.integers(0, size, len(table)) for size in domain(table)]), None
    return dpmm(table, epsilon, method, seed)


def independent(table: Table, epsilon: float, seed: int) -> Codes:
    """Records drawn from noisy histograms of each column by itself, with an equal share of pure ε each."""
    rng, made = np.random.default_rng(seed), []
    sizes = domain(table)
    for codes, size in zip(table.codes().T, sizes, strict=True):
        counts = np.bincount(codes, minlength=size)
        noisy = np.clip(counts + rng.laplace(0, 2 * len(sizes) / epsilon, size), 0, None)
        share = noisy / noisy.sum() if noisy.any() else np.full(size, 1 / size)
        made.append(rng.choice(size, len(table), p=share))
    return np.column_stack(made)


def domain(table: Table) -> list[int]:
    """Cells of each column, without that for missing values where none is declared."""
    columns = table.schema.columns.values()
    return [size - (not column.missing) for size, column in zip(table.sizes, columns, strict=True)]


def dpmm(table: Table, epsilon: float, method: str, seed: int) -> tuple[Codes | None, float | None]:
    """A release of MST or AIM."""
    parts = (table.name, len(table), f"{epsilon:g}", method, seed, f"dpmm {DPMM}", f"delta {DELTA:g}")
    CACHE.mkdir(parents=True, exist_ok=True)
    made = CACHE / (hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:20] + ".npz")
    if not made.exists():
        given, partial = made.with_suffix(".in.npz"), made.with_suffix(".part.npz")
        how: dict[str, Any] = {"method": method, "epsilon": epsilon, "delta": DELTA, "seed": seed, "limit": TIME_LIMIT}
        np.savez(given, codes=table.codes().astype(np.uint16), sizes=domain(table), **how)
        command = [str(_python()), "-W", "ignore", str(WORKER), str(given), str(partial)]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        try:
            subprocess.run(command, check=True, env=environment | {"OMP_NUM_THREADS": "1"})
        except subprocess.CalledProcessError as error:
            if error.returncode == -signal.SIGXCPU:
                return None, None
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
