"""How fast cascade is: ratios against bare NumPy doing the least that could be done, in the same run.

python -m benchmarks.speed [--points N]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from rich.progress import track

import headwater as hw
from benchmarks.clock import in_turns, seconds
from benchmarks.pages import Figure, judged, publish
from benchmarks.streams import STREAMS, Points
from headwater.public.partition import Partition

BATCH = 100_000
SINGLES = 20_000
REPEATS = 3
BINS = 20  # the baseline counts cells of this depth
ENDS = (10_240, 114_688, 917_504, 7_340_032)  # where slow buckets end: half of the single updates before, half after


def ingest(points: Points) -> hw.Synthesizer:
    synth = hw.Synthesizer(hw.unit_cube(2), epsilon=1.0)
    for start in range(0, len(points), BATCH):
        synth.update(points[start : start + BATCH])
    return synth


def bincount(points: Points) -> np.ndarray:
    """The least that could be done: find the cells, count them."""
    total = np.zeros(1 << BINS, dtype=np.int64)
    partition = Partition(2)
    for start in range(0, len(points), BATCH):
        cells = partition.cells(points[start : start + BATCH], BINS).view(np.int64)
        total += np.bincount(cells, minlength=1 << BINS)
    return total


def singles(synth: hw.Synthesizer, points: Points) -> None:
    for point in points:
        synth.update(point)


def of_stream(name: str, n: int) -> dict[str, Any]:
    """Ingesting and drawing a stream, beside their baselines: the best of some runs that take turns."""
    points = STREAMS[name](n, 2)
    synth = ingest(points)
    release, rng = synth.release(), np.random.default_rng()
    sides: dict[str, Callable[[], object]] = {
        "ingest": partial(ingest, points),
        "bincount": partial(bincount, points),
        "draw": release.points,
        "random": partial(rng.random, (n, 2)),
    }
    best = {side: min(times) for side, times in in_turns(sides, REPEATS).items()}
    return {
        "stream": name,
        "ingest": best["ingest"] / best["bincount"],
        "draw": best["draw"] / best["random"],
        "state": len(synth.to_bytes()) / n,
        "release": seconds(synth.release),
    }


def figures(found: dict[str, Any]) -> list[Figure]:
    """What is asked."""

    def by_stream(what: str) -> dict[str, float]:
        return {one["stream"]: one[what] for one in found["streams"]}

    single = {f"from t = {one['t']:,} on": one["µs"] for one in found["singles"]}
    return [
        Figure("ingesting points / finding and counting their cells", by_stream("ingest"), "×", at_most=3),
        Figure("drawing a release / `Generator.random`", by_stream("draw"), "×", at_most=3),
        Figure("state, bytes a point", by_stream("state"), at_most=2),
        Figure(f"one point by itself, mean of {SINGLES:,}", single, "µs", at_most=50),
        Figure("release before drawing", by_stream("release"), "s"),
    ]


def page(found: dict[str, Any]) -> str:
    """The page in Markdown."""
    streams = ", ".join(one["stream"] for one in found["streams"])
    return f"""# How fast cascade is

{judged(figures(found))}
{found["points"]:,} points in the square of each stream ({streams}; how many numbers a row has is in brackets), ε = 1,
batches of {BATCH:,}. Seconds of the processor; a ratio is that of the best runs of both sides, which take turns. The
baseline of ingestion finds the cells of depth {BINS} and counts them with `numpy.bincount`. Single points are taken
around the ends of slow buckets, where most is done at once. Made by `make bench-speed` (`speed.json`).
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=10_000_000)
    n, single = parser.parse_args().points, []
    streams = [of_stream(name, n) for name in track(("uniform", "blobs", "drift"), "streams")]
    points = STREAMS["blobs"](n, 2)
    for end in ENDS:
        t = max(end - SINGLES // 2, 0)
        if t + SINGLES <= n:
            took = seconds(partial(singles, ingest(points[:t]), points[t : t + SINGLES]))
            single.append({"t": t, "µs": 1e6 * took / SINGLES})
    publish("speed", {"points": n, "streams": streams, "singles": single}, page)


if __name__ == "__main__":
    main()
