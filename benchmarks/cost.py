"""What a point costs: the fast engine against the literal algorithm, late points against early ones, and memory.

    python -m benchmarks.cost [--literal-seconds S]

Two-dimensional uniform data at ε = 1. Times are processor time of one thread, medians of repeats that take turns.
Writes cost.json and cost.md into docs/benchmarks and fails if a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np
from rich.console import Console
from rich.progress import Progress

import headwater as hw
from benchmarks.figures import Row, figures
from benchmarks.streams import Points, uniform
from headwater.secret.counters import level_at
from headwater.secret.noise import Noise
from tests.support.literal_paper import LiteralPaper

EPSILON, DIMENSION = 1.0, 2
FIRST = 20_000  # the literal algorithm is compared over this many points
EARLY, LATE = 10_000, 1_000_000
BATCH = 1_000
PIECE = 256  # points of the literal algorithm that are timed together
RESULTS = Path(__file__).parents[1] / "docs" / "benchmarks"

# Runs by itself: what the operating system says a process has used at most can only rise.
MEMORY = """
import resource, sys
import numpy as np
import headwater as hw
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
imported = peak()
rng = np.random.default_rng(0)
synth = hw.Synthesizer(hw.unit_cube(2), epsilon=1.0, mechanism="paper")
for _ in range(1000):
    synth.update(rng.random((1000, 2)))
ingested = peak()
release = synth.release()
points = release.points()
assert len(points) == synth.t == 1_000_000
print(imported, ingested, peak())
"""


def synthesizer() -> hw.Synthesizer:
    return hw.Synthesizer(hw.unit_cube(DIMENSION), epsilon=EPSILON, mechanism="paper")


def seconds(work: Callable[[], object]) -> float:
    start = process_time()
    work()
    return process_time() - start


def one_by_one(points: Points) -> None:
    """Every point by itself, and a release at every power of two."""
    synth = synthesizer()
    for point in points:
        synth.update(point)
        if synth.t & (synth.t - 1) == 0:
            synth.release()


def batches(points: Points) -> None:
    """Batches, and a release after each."""
    synth = synthesizer()
    for start in range(0, len(points), BATCH):
        synth.update(points[start : start + BATCH])
        synth.release()


def doublings(points: Points) -> None:
    """Batches, a release whenever the number of points has doubled, and one at the end."""
    synth, due = synthesizer(), BATCH
    for start in range(0, len(points), BATCH):
        synth.update(points[start : start + BATCH])
        if synth.t >= due or synth.t == len(points):
            synth.release()
            due *= 2


def feed(synth: hw.Synthesizer, points: Points, size: int) -> None:
    """Batches of this size, without any release."""
    for start in range(0, len(points), size):
        synth.update(points[start : start + size])


def marginal(points: Points) -> tuple[float, float]:
    """Seconds a point for the last points, and for some more one by one; no release."""
    synth, single = synthesizer(), points[:2_000]
    feed(synth, points[:-EARLY], BATCH)
    in_batches = seconds(lambda: feed(synth, points[-EARLY:], BATCH))
    return in_batches / EARLY, seconds(lambda: feed(synth, single, 1)) / len(single)


def cell_steps(start: int, end: int) -> int:
    """How many counters the literal algorithm steps for the points ``start + 1 … end``: all live cells, each time."""
    return sum(2 ** (level_at(t, EPSILON) + 1) - 2 for t in range(start + 1, end + 1))


@dataclass(frozen=True)
class Literal:
    """The literal algorithm: what was timed, and what follows for `FIRST` points."""

    points: int  # that were run
    measured: float  # seconds for them
    a_point: float  # seconds: finding a point's cell at every depth
    a_cell_step: float  # seconds: one live counter, one step
    extrapolated: float  # seconds for FIRST points
    foretold: float  # the last third of the pieces, predicted from the others, over what it took


def literal(points: Points, limit: float, tell: Callable[[float], None]) -> Literal:
    """Run the literal algorithm until ``limit`` seconds are used, and tell how many are."""
    mechanism = LiteralPaper(hw.unit_cube(DIMENSION), EPSILON, Noise(seed=0))
    work: list[tuple[int, int]] = []
    times: list[float] = []
    while sum(times) < limit and mechanism.t + PIECE <= FIRST:
        piece = points[mechanism.t : mechanism.t + PIECE]
        times.append(seconds(partial(mechanism.update, hw.Batch(mechanism.encode(piece)))))
        work.append((PIECE, cell_steps(mechanism.t - PIECE, mechanism.t)))
        tell(sum(times))
    x, y, known = np.array(work, dtype=np.float64), np.array(times), 2 * len(times) // 3
    a_point, a_cell_step = fit(x, y)
    total = a_point * FIRST + a_cell_step * cell_steps(0, FIRST)
    foretold = float((x[known:] @ fit(x[:known], y[:known])).sum() / y[known:].sum())
    return Literal(mechanism.t, sum(times), a_point, a_cell_step, total, foretold)


def fit(work: Points, times: Points) -> tuple[float, float]:
    """Seconds a point and seconds a cell step, by least squares; neither is negative."""
    a_point, a_cell_step = map(float, np.linalg.lstsq(work, times, rcond=None)[0])
    if a_point >= 0:
        return a_point, a_cell_step
    steps = work[:, 1]
    return 0.0, float(steps @ times / (steps @ steps))


def memory() -> tuple[float, float, float]:
    """MB at most: after the imports, after a million points, and after a release of as many."""
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    imported, ingested, released = map(float, done.stdout.split())
    return imported, ingested, released


def measure(limit: float, repeats: int) -> tuple[list[Row], Literal]:
    # Memory first: a child process starts with the peak of its parent.
    imported, ingested, released = memory()
    points = uniform(LATE, DIMENSION)
    pieces: dict[str, Callable[[], float]] = {
        "single": lambda: seconds(lambda: one_by_one(points[:FIRST])),
        "batches": lambda: seconds(lambda: batches(points[:FIRST])),
        "early": lambda: seconds(lambda: doublings(points[:EARLY])) / EARLY,
        "late": lambda: seconds(lambda: doublings(points)) / LATE,
    }
    times: dict[str, list[float]] = {name: [] for name in (*pieces, "tail early", "tail late", "one early", "one late")}
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("fast engine", total=repeats)
        slow_bar = progress.add_task("literal algorithm", total=limit)
        for turn in range(repeats):
            if turn == repeats // 2:
                result = literal(points, limit, lambda used: progress.update(slow_bar, completed=used))
            for name, piece in pieces.items():
                times[name].append(piece())
            for when, t in (("early", EARLY), ("late", LATE)):
                in_batches, by_one = marginal(points[:t])
                times[f"tail {when}"].append(in_batches)
                times[f"one {when}"].append(by_one)
            progress.advance(bar)
    fast = {name: statistics.median(values) for name, values in times.items()}
    ask = {"at_least": 1_000.0}
    rows = [
        Row(f"literal / fast, {FIRST:,} points one by one", result.extrapolated / fast["single"], "×", **ask),
        Row(f"literal / fast, {FIRST:,} points in batches", result.extrapolated / fast["batches"], "×", **ask),
        Row(f"cost per point, t = {LATE:,} / {EARLY:,}", fast["late"] / fast["early"], "×", at_most=3.0),
        Row(f"peak memory, {LATE:,} points and a release", released, "MB", at_most=500.0),
        Row("literal, extrapolated", result.extrapolated, "s"),
        Row("fast, one by one, a release at powers of two", fast["single"], "s"),
        Row(f"fast, batches of {BATCH:,}, a release after each", fast["batches"], "s"),
        Row(f"cost per point up to t = {EARLY:,}", 1e6 * fast["early"], "µs"),
        Row(f"cost per point up to t = {LATE:,}", 1e6 * fast["late"], "µs"),
        Row(f"ingest only, the {EARLY:,} points before t = {EARLY:,}", 1e6 * fast["tail early"], "µs a point"),
        Row(f"ingest only, the {EARLY:,} points before t = {LATE:,}", 1e6 * fast["tail late"], "µs a point"),
        Row(f"one point by itself at t = {EARLY:,}", 1e6 * fast["one early"], "µs"),
        Row(f"one point by itself at t = {LATE:,}", 1e6 * fast["one late"], "µs"),
        Row("peak memory, imports only", imported, "MB"),
        Row(f"peak memory, {LATE:,} points, no release", ingested, "MB"),
    ]
    return rows, result


def page(rows: list[Row], run: Literal, repeats: int) -> str:
    """The markdown page, made from the numbers alone."""
    return f"""# What a point costs

Made by `benchmarks/cost.py`; the numbers are in `cost.json`. Two-dimensional uniform data, ε = {EPSILON:g}, the paper's
mechanism. Times are processor time of one thread, medians of {repeats} repeats that took turns; the literal
algorithm ran in their midst.

{figures(rows)}
**The literal algorithm is extrapolated.** It was run on {run.points:,} points, which took {run.measured:.0f} s.
Its cost, in pieces of {PIECE} points, was fitted by least squares as {1e3 * run.a_point:.2f} ms a point and
{1e6 * run.a_cell_step:.2f} µs a cell step: one live cell's counter taking one step.
The first {FIRST:,} points make {cell_steps(0, FIRST):,} cell steps. The same fit on the first two thirds of the
pieces foretold {run.foretold:.2f} times what the last third took (below 1: the extrapolation is on the low side).
Reading the literal algorithm's counts is not included; reading the fast engine's is: its times hold the releases,
which is where it does its work.

**Cost per point** is the time from an empty synthesizer to t in batches of {BATCH:,}, with a release whenever the
number of points has doubled and one at the end, divided by t. **Memory** is the peak of a process of its own that
takes the points in batches, makes a release and draws its {LATE:,} points.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--literal-seconds", type=float, default=80.0, help="time to spend on the literal algorithm")
    parser.add_argument("--repeats", type=int, default=5, help="of everything else")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", hw.SeededRunWarning)
    rows, run = measure(arguments.literal_seconds, arguments.repeats)
    print(figures(rows))
    arguments.out.mkdir(parents=True, exist_ok=True)
    record = {"rows": [asdict(row) | {"verdict": row.verdict} for row in rows], "literal": asdict(run)}
    (arguments.out / "cost.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    (arguments.out / "cost.md").write_text(page(rows, run, arguments.repeats))
    if any(row.verdict == "**miss**" for row in rows):
        raise SystemExit("a bound was missed")


if __name__ == "__main__":
    main()
