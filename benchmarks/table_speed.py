"""A million rows of CSV, from the file to releases, against pyarrow reading the file and NumPy counting its cells.

Both sides run in their own process, from the start of Python to the end. The baseline reads the whole file with the
same column types and bins all five columns.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pages import Figure, judged, publish, table

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


def timed(command: list[str], folder: Path) -> tuple[float, float, float]:
    """Seconds by the clock and of all processors together, and the most memory that the process ever had, in MB."""
    began = time.perf_counter()
    # Compiled modules are kept, as they are for anybody who runs a command twice.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{command} failed")
    memory = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, memory


def measure(rows: int) -> list[dict[str, Any]]:
    """The best of a few times of each side, in turns, so that a busy machine slows all of them: a result for each."""
    found: dict[str, list[tuple[float, float, float]]] = {side: [] for side in ("baseline", *MECHANISMS)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_csv(folder / "in.csv", rows)
        (folder / "s.toml").write_text(SCHEMA)
        (folder / "baseline.py").write_text(BASELINE)
        run = ["-m", "headwater.cli", "run", "in.csv", "--schema", "s.toml", "--epsilon", "1", "--every", str(rows)]
        for turn in range(REPEATS):
            for side, times in found.items():
                ours = [*run, "--again", "--mechanism", side, "--out", f"{side}{turn}"]
                program = ["baseline.py", "in.csv"] if side == "baseline" else ours
                times.append(timed([sys.executable, *program], folder))
    best = {}
    for side, times in found.items():
        clock, work, memory = zip(*times, strict=True)
        best[side] = min(clock), min(work), max(memory)
    bare, work, memory = best.pop("baseline")
    same = {"rows": rows, "baseline": [bare, memory], "load": os.getloadavg()[0]}
    return [same | {"mechanism": m, "run": [t[0], t[2]], "processor_ratio": t[1] / work} for m, t in best.items()]


def page(found: list[dict[str, Any]]) -> str:
    """The page in Markdown."""
    ratios = {one["mechanism"]: one["run"][0] / one["baseline"][0] for one in found if one["rows"] == ROWS}
    asked = Figure(f"seconds of `headwater run` / of the baseline, {ROWS:,} rows", ratios, "×", at_most=3)
    rows = []
    for one in found:
        bare, ours = one["baseline"], one["run"]
        cells = [f"{bare[0]:.2f} s", f"{ours[0]:.2f} s", f"{ours[0] / bare[0]:.2f}", f"{one['processor_ratio']:.2f}"]
        rows.append([f"{one['rows']:,}", one["mechanism"], *cells, f"{bare[1]:.0f} MB", f"{ours[1]:.0f} MB"])
    head = ["rows", "mechanism", "baseline", "Headwater", "ratio", "of processor time", "memory, baseline", "Headwater"]
    return f"""# From a CSV file to a release

{judged([asked])}
{table(head, rows, "lr")}
Both sides are whole processes. The baseline reads the file with pyarrow and counts the cells of its five columns with
NumPy. `headwater run` also keeps its state on the disk, and writes one release of as many rows, a million at most. The
best of {REPEATS} runs of each, in turns; the machine had a load of {max(one["load"] for one in found):.1f}. The file is
never held whole: what grows is the release. Made by `make bench-speed`.
"""


if __name__ == "__main__":
    publish("table-speed", [one for rows in (ROWS, 4 * ROWS) for one in measure(rows)], page)
