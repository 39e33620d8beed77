"""How fast cascade is: ratios against bare NumPy doing the least that could be done, in the same run.

python -m benchmarks.speed            # writes docs/benchmarks/speed.md and speed.json
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
from rich.progress import track

import headwater as hw
from benchmarks.figures import Row, figures
from benchmarks.streams import STREAMS
from headwater.public.partition import Partition

OUT = Path(__file__).parent.parent / "docs" / "benchmarks"
BATCH = 100_000
SINGLES = 20_000
BINS = 20  # the baseline counts cells of this depth


def timed(work: Callable[[], object]) -> float:
    """Seconds of this process on a processor: others who share the machine count as little as can be."""
    start = time.process_time()
    work()
    return time.process_time() - start


def ingest(points: np.ndarray) -> hw.Synthesizer:
    synth = hw.Synthesizer(hw.unit_cube(2), epsilon=1.0)
    for start in range(0, len(points), BATCH):
        synth.update(points[start : start + BATCH])
    return synth


def bincount(points: np.ndarray) -> np.ndarray:
    """The least that could be done: find the cells, count them."""
    total = np.zeros(1 << BINS, dtype=np.int64)
    partition = Partition(2)
    for start in range(0, len(points), BATCH):
        cells = partition.cells(points[start : start + BATCH], BINS).view(np.int64)
        total += np.bincount(cells, minlength=1 << BINS)
    return total


def singles(synth: hw.Synthesizer, points: np.ndarray) -> float:
    """Microseconds for one update of one point, the work at bucket ends counted in."""

    def work() -> None:
        for point in points:
            synth.update(point)

    return timed(work) / len(points) * 1e6


def state_bytes(synth: hw.Synthesizer) -> int:
    with tempfile.TemporaryDirectory() as folder:
        synth.save(Path(folder) / "state")
        return (Path(folder) / "state").stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    n = options.points
    rows = list[Row]()
    for name in ("uniform", "blobs", "drift"):
        points = STREAMS[name](n, 2)
        ours, bare = [], []
        for _ in track(range(options.repeats), f"ingest, {name}"):
            bare.append(timed(lambda: bincount(points)))  # noqa: B023 - called at once
            ours.append(timed(lambda: ingest(points)))  # noqa: B023
        what = f"ingest {n:,} {name} points / find and bincount their cells"
        rows.append(Row(what, ratio(ours, bare), "×", at_most=3.0))
        synth = ingest(points)
        release = synth.release()
        drawn, bare = [], []
        for _ in track(range(options.repeats), f"draw, {name}"):
            rng = np.random.default_rng()
            bare.append(timed(lambda: rng.random((n, 2))))  # noqa: B023
            drawn.append(timed(release.points))
        what = f"draw a release of {n:,} {name} points / Generator.random"
        rows.append(Row(what, ratio(drawn, bare), "×", at_most=3.0))
        rows.append(Row(f"state at {n:,} {name} points", state_bytes(synth) / n, "bytes a point", at_most=2.0))
        rows.append(Row(f"release at {n:,} {name} points, before drawing", timed(synth.release), "s"))
    points = STREAMS["blobs"](n, 2)
    ends = [10_240, 114_688, 917_504, 7_340_032]  # where slow buckets end: half of the updates before, half after
    for end in track([end for end in ends if end + SINGLES // 2 <= n], "single points"):
        t = max(end - SINGLES // 2, 0)
        synth = ingest(points[:t])
        cost = singles(synth, points[t : t + SINGLES])
        what = f"one point by itself, {SINGLES:,} of them from t = {t:,} on"
        rows.append(Row(what, cost, "µs", at_most=50.0))
    write(rows, n)


def ratio(ours: list[float], bare: list[float]) -> float:
    return min(ours) / min(bare)


def write(rows: list[Row], n: int) -> None:
    lines = [
        "# How fast cascade is",
        "",
        f"Made by `benchmarks/speed.py`: {n:,} points in the square, ε = 1, batches of {BATCH:,}. Time is that of the",
        "process on a processor; a ratio is that of the best of some runs that took turns. The baseline of ingestion",
        f"finds the cells of depth {BINS} and counts them with `numpy.bincount`, batch by batch; ours also checks the",
        "points, keeps, measures and summarises every bucket.",
        "",
        "",
    ]
    text = "\n".join(lines) + figures(rows)
    print(text)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "speed.md").write_text(text)
    (OUT / "speed.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
