"""What a point costs: the fast engine against the literal algorithm, late points against early ones, and memory.

    python -m benchmarks.cost [--literal-seconds S]

Two-dimensional uniform data at ε = 1. It fails if a bound is missed.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import headwater as hw
from benchmarks.clock import in_turns, seconds
from benchmarks.pages import Figure, failed, judged, number, publish
from benchmarks.streams import Points, uniform
from headwater.secret.counters import level_at
from headwater.secret.noise import Noise
from tests.support.literal_paper import LiteralPaper

EPSILON, DIMENSION = 1.0, 2
FIRST = 20_000  # the literal algorithm is compared over this many points
EARLY, LATE = 10_000, 1_000_000
BATCH = 1_000
PIECE = 256  # points of the literal algorithm that are timed together
REPEATS = 5

# Runs by itself: what the operating system says a process has used at most can only rise.
MEMORY = """
import resource, sys
import numpy as np
import headwater as hw
rng = np.random.default_rng(0)
synth = hw.Synthesizer(hw.unit_cube(2), epsilon=1.0, mechanism="paper")
for _ in range(1000):
    synth.update(rng.random((1000, 2)))
assert len(synth.release().points()) == 1_000_000
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10))
"""


def run(points: Points, size: int, due: Callable[[int], bool]) -> None:
    """Points in batches, and a release whenever one is due."""
    synth = hw.Synthesizer(hw.unit_cube(DIMENSION), epsilon=EPSILON, mechanism="paper")
    for start in range(0, len(points), size):
        synth.update(points[start : start + size])
        if due(synth.t):
            synth.release()


def doubled(t: int, last: int) -> bool:
    """Whether the number of batches is a power of two, or the stream ends."""
    return t == last or (t // BATCH) & (t // BATCH - 1) == 0


def cell_steps(start: int, end: int) -> int:
    """How many counters the literal algorithm steps for the points ``start + 1 … end``: all live cells, each time."""
    return sum(2 ** (level_at(t, EPSILON) + 1) - 2 for t in range(start + 1, end + 1))


def literal(points: Points, limit: float) -> dict[str, float]:
    """Seconds of the literal algorithm for `FIRST` points, from a run that ends when ``limit`` seconds are used.

    All else that it does for a point was not measurable beside the steps of its counters.
    """
    mechanism, used = LiteralPaper(hw.unit_cube(DIMENSION), EPSILON, Noise(seed=0)), 0.0
    while used < limit and mechanism.t + PIECE <= FIRST:
        piece = points[mechanism.t : mechanism.t + PIECE]
        used += seconds(partial(mechanism.update, hw.Batch(mechanism.encode(piece))))
    a_cell_step = used / cell_steps(0, mechanism.t)
    extrapolated = a_cell_step * cell_steps(0, FIRST)
    return {"points": mechanism.t, "measured": used, "a_cell_step": a_cell_step, "extrapolated": extrapolated}


def measure(limit: float) -> dict[str, Any]:
    """All of it. Memory first: a child process starts with the peak of its parent."""
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    points = uniform(LATE, DIMENSION)
    sides = {
        "single": lambda: run(points[:FIRST], 1, lambda t: t & (t - 1) == 0),
        "batches": lambda: run(points[:FIRST], BATCH, lambda t: True),
        "early": lambda: run(points[:EARLY], BATCH, lambda t: doubled(t, EARLY)),
        "late": lambda: run(points, BATCH, lambda t: doubled(t, LATE)),
    }
    found = {name: statistics.median(times) for name, times in in_turns(sides, REPEATS).items()}
    return found | {"peak_mb": float(done.stdout), "literal": literal(points, limit)}


def figures(found: dict[str, Any]) -> list[Figure]:
    """What is asked."""
    slow = found["literal"]["extrapolated"]
    early, late = 1e6 * found["early"] / EARLY, 1e6 * found["late"] / LATE
    return [
        Figure(f"literal / fast, {FIRST:,} points one by one", slow / found["single"], "×", at_least=1_000),
        Figure(f"literal / fast, {FIRST:,} points in batches", slow / found["batches"], "×", at_least=1_000),
        Figure(f"time per point, t = {LATE:,} / {EARLY:,}", late / early, "×", at_most=3),
        Figure(f"most memory, {LATE:,} points and a release", found["peak_mb"], "MB", at_most=500),
        Figure(f"fast, {FIRST:,} points one by one, a release at powers of two", found["single"], "s"),
        Figure(f"fast, {FIRST:,} points in batches of {BATCH:,}, a release after each", found["batches"], "s"),
        Figure(f"time per point up to t = {LATE:,}, a release at every doubling", late, "µs"),
    ]


def page(found: dict[str, Any]) -> str:
    """The page in Markdown."""
    one = found["literal"]
    return f"""# What a point costs in the paper's mechanism

Time of the fast engine and of the literal algorithm of the paper. Uniform points in
the square, ε = {EPSILON:g}, seconds of the processor, medians of {REPEATS} repeats in turns.

{judged(figures(found))}
**The literal algorithm is extrapolated.** It ran on {one["points"]:,} points in {one["measured"]:.0f} s. Nearly all of
that are steps of counters, one for every live cell at every point: {1e6 * one["a_cell_step"]:.2f} µs each, and
{cell_steps(0, FIRST):,} of them for {FIRST:,} points, {number(one["extrapolated"])} s. Its releases are not counted in;
those of the fast engine are. `python -m benchmarks.cost` writes `cost.json`.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--literal-seconds", type=float, default=80.0, help="time to spend on the literal algorithm")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", hw.SeededRunWarning)
    found = measure(arguments.literal_seconds)
    publish("cost", found, page)
    if failed(figures(found)):
        raise SystemExit("a bound was missed")


if __name__ == "__main__":
    main()
