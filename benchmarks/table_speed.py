"""A million rows of CSV, from the file to releases, against pyarrow reading the file and NumPy counting its cells.

Both sides run in their own process, from the start of Python to the end. The baseline reads the whole file with the
same column types and bins all five columns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from headwater.markdown import table

ROWS = 1_000_000
REPEATS = 5
MECHANISMS = ("auto", "cascade")

SCHEMA = """headwater = 1
[columns.amount]
kind = "number"
low = 0
high = 1000
[columns.score]
kind = "number"
low = -5
high = 5
[columns.age]
kind = "integer"
low = 0
high = 110
[columns.region]
kind = "category"
values = ["north", "south", "east", "west", "centre", "abroad"]
[columns.at]
kind = "datetime"
start = "2024-01-01T00:00:00"
end = "2024-12-31T23:59:59"
"""

BASELINE = """
import sys, numpy as np, pyarrow as pa, pyarrow.csv as csv, pyarrow.compute as pc
types = {"amount": "float64", "score": "float64", "age": "int64", "region": "string", "at": pa.timestamp("s")}
table = csv.read_csv(sys.argv[1], convert_options=csv.ConvertOptions(column_types=types))
regions = pa.array(["north", "south", "east", "west", "centre", "abroad"])
start = np.datetime64("2024-01-01T00:00:00", "s").astype(np.int64)
columns = [
    (table["amount"].to_numpy() / 1000, 16),
    ((table["score"].to_numpy() + 5) / 10, 16),
    (table["age"].to_numpy() / 111, 16),
    (pc.index_in(table["region"], value_set=regions).to_numpy() / 6, 6),
    ((table["at"].cast(pa.int64()).to_numpy() - start) / (366 * 86400), 16),
]
cells = np.zeros(table.num_rows, dtype=np.int64)
for values, bins in columns:
    cells = cells * bins + np.clip((values * bins).astype(np.int64), 0, bins - 1)
counts = np.bincount(cells, minlength=16**4 * 6)
assert counts.sum() == table.num_rows
"""


def write_csv(path: Path, rows: int) -> None:
    import pyarrow as pa
    from pyarrow import csv

    rng = np.random.default_rng(0)
    start = np.datetime64("2024-01-01T00:00:00", "s")
    regions = np.array(["north", "south", "east", "west", "centre", "abroad"])
    table = pa.table(
        {
            "amount": np.round(rng.gamma(2, 60, rows), 2),
            "score": np.round(rng.normal(0, 1.2, rows), 3),
            "age": rng.binomial(110, 0.4, rows),
            "region": regions[rng.choice(6, rows, p=[0.3, 0.25, 0.2, 0.15, 0.08, 0.02])],
            "at": start + np.sort(rng.integers(0, 366 * 86400, rows)).astype("timedelta64[s]"),
        }
    )
    csv.write_csv(table, path)


def timed(command: list[str], folder: Path) -> tuple[float, float, int]:
    """Seconds by the clock and of all processors together, and the most memory that the process ever had, in bytes."""
    began = time.perf_counter()
    # Compiled modules are kept, as they are for anybody who runs a command twice.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{command} failed")
    memory = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, memory


def measure(rows: int = ROWS, releases: int = 1, repeats: int = REPEATS) -> list[dict[str, Any]]:
    """The best of a few times of each side, in turns, so that a busy machine slows all of them: a result for each."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_csv(folder / "in.csv", rows)
        (folder / "s.toml").write_text(SCHEMA)
        (folder / "baseline.py").write_text(BASELINE)
        options = ["in.csv", "--schema", "s.toml", "--epsilon", "1", "--every", str(-(-rows // releases))]
        sides = ("baseline", *MECHANISMS)
        best = dict.fromkeys(sides, float("inf"))
        work, memory, called = dict(best), dict.fromkeys(sides, 0), dict[str, str]()
        for turn in range(repeats):
            for side in sides:
                out = f"{side}{turn}"
                run = ["-m", "headwater.cli", "run", *options, "--mechanism", side, "--out", out]
                program = ["baseline.py", "in.csv"] if side == "baseline" else run
                seconds, used, peak = timed([sys.executable, *program], folder)
                best[side], work[side] = min(best[side], seconds), min(work[side], used)
                memory[side] = max(memory[side], peak)
                if side != "baseline":
                    card = json.loads(next((folder / out).glob("*/card.json")).read_text())
                    called[side] = card["mechanism"] + (" (auto)" if side == "auto" else "")
        size = (folder / "in.csv").stat().st_size
    return [
        {
            "rows": rows,
            "releases": releases,
            "mechanism": called[side],
            "file_mb": size / 1e6,
            "baseline_seconds": best["baseline"],
            "run_seconds": best[side],
            "ratio": best[side] / best["baseline"],
            "processor_ratio": work[side] / work["baseline"],
            "baseline_memory_mb": memory["baseline"] / 1e6,
            "run_memory_mb": memory[side] / 1e6,
            "load": os.getloadavg()[0],
        }
        for side in MECHANISMS
    ]


PAGE = """# From a CSV file to a release

`make bench-speed` (`benchmarks/table_speed.py`). Both sides are whole processes, from the start of Python to the end.
The baseline reads the file with pyarrow, with the same column types, and counts the cells of its five columns with
NumPy. `headwater run` reads, checks and hashes the file, encodes it, counts, keeps its state on the disk, and writes
one release of as many rows as the file has, a million at most: with the mechanism that `auto` chooses for these
columns, and with cascade. The best of {repeats} runs of each, in turns, on {processors} processors that {load:.0f}
processes wanted to have: if these are many more, seconds and ratios by the clock say little.

{table}
Wanted: at most 3 by the clock for a million rows, of either mechanism. The file is read block by block and never held
whole: one batch is counted while the next ones are read. What grows with the stream is the release: its points are in
memory while it is written.
"""


def page(found: list[dict[str, Any]]) -> str:
    head = ["rows", "file", "mechanism", "baseline", "headwater", "ratio by the clock", "of processor time",
            "memory, baseline", "headwater"]  # fmt: skip
    rows = [
        [f"{one['rows']:,}", f"{one['file_mb']:.0f} MB", one["mechanism"], f"{one['baseline_seconds']:.2f} s",
         f"{one['run_seconds']:.2f} s", f"{one['ratio']:.2f}", f"{one['processor_ratio']:.2f}",
         f"{one['baseline_memory_mb']:.0f} MB", f"{one['run_memory_mb']:.0f} MB"]
        for one in found
    ]  # fmt: skip
    load = max(one["load"] for one in found)
    return PAGE.format(repeats=REPEATS, table=table(head, rows), processors=os.cpu_count(), load=load)


if __name__ == "__main__":
    found = []
    for rows in (ROWS, 4 * ROWS):
        found += measure(rows)
        print(json.dumps(found[-len(MECHANISMS) :], indent=2))
    folder = Path(__file__).parent.parent / "docs" / "benchmarks"
    (folder / "table-speed.json").write_text(json.dumps(found, indent=2) + "\n")
    (folder / "table-speed.md").write_text(page(found))
