"""How fast files are read: records a second of seven columns, in turns with bare pyarrow reading the same file.

python -m benchmarks.read [--records N]
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv

import headwater as hw
from headwater.secret.read.source import open_source

SCHEMA = hw.Schema(
    distance=hw.Number(0, 50),
    price=hw.Number(0, 5000),
    riders=hw.Integer(1, 6),
    payment=hw.Category("card", "cash", "other"),
    city=hw.Category("Bonn", "Ulm", "Essen"),
    when=hw.Datetime("2024-01-01", "2024-12-31T23:59:59", step="1min"),
    shared=hw.Boolean(),
)
REPEATS = 3


def write(folder: Path, records: int) -> None:
    """A clean file of each format, one with quotes, and one in which every hundredth line is no record."""
    rng = random.Random(0)  # noqa: S311 - nothing is protected
    rows = [
        {
            "distance": round(rng.random() * 50, 3),
            "price": round(rng.random() * 5000, 2),
            "riders": rng.randrange(1, 7),
            "payment": rng.choice(["card", "cash", "other"]),
            "city": rng.choice(["Bonn", "Ulm", "Essen"]),
            "when": f"2024-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}T{rng.randrange(24):02}:00",
            "shared": rng.random() < 0.5,
        }
        for _ in range(records)
    ]
    lines = [
        ",".join(str(value).lower() if value in (True, False) else str(value) for value in row.values()) for row in rows
    ]
    objects = [json.dumps(row) for row in rows]
    quoted = [line.replace(",card,", ',"card",') for line in lines]
    bad = [line if number % 100 else line.replace(",", '"', 1) for number, line in enumerate(lines)]
    odd = [line if number % 100 else line[:-1] for number, line in enumerate(objects)]
    for name, text in (("clean", lines), ("quoted", quoted), ("bad", bad)):
        (folder / f"{name}.csv").write_text("\n".join([",".join(SCHEMA.names), *text, ""]))
    for name, text in (("clean", objects), ("bad", odd)):
        (folder / f"{name}.jsonl").write_text("\n".join([*text, ""]))


def bare(path: Path) -> None:
    """pyarrow, with types that it finds out itself."""
    pyarrow.csv.read_csv(path)


def lines_of(path: Path) -> None:
    """Records as columns."""
    with open_source(path, SCHEMA, bad_rows="null", batch_rows=1 << 17) as source:
        for _ in source:
            pass


def points_of(path: Path) -> None:
    """Records as points of the cube."""
    with open_source(path, SCHEMA, bad_rows="null", batch_rows=1 << 17) as source:
        for batch in source:
            if batch is not None:
                SCHEMA.encode_batch(batch.table, bad_rows="null")


def main() -> None:
    """Print rates and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=500_000)
    records = parser.parse_args().records
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, records)
        jobs: dict[str, tuple[Callable[[Path], None], str]] = {"pyarrow alone": (bare, "clean.csv")}
        for file in ("clean.csv", "quoted.csv", "bad.csv", "clean.jsonl", "bad.jsonl"):
            jobs |= {f"{file}, columns": (lines_of, file), f"{file}, points": (points_of, file)}
        best = dict.fromkeys(jobs, float("inf"))
        for _ in range(REPEATS):  # in turns, so that what else the machine does is shared
            for job, (read, file) in jobs.items():
                start = time.perf_counter()
                read(folder / file)
                best[job] = min(best[job], time.perf_counter() - start)
    for job, seconds in best.items():
        clean = best[job.replace("bad", "clean").replace("quoted", "clean")]
        print(f"{job:24} {records / seconds / 1e6:6.2f} M/s   {clean / seconds:5.2f} of the clean file")


if __name__ == "__main__":
    main()
