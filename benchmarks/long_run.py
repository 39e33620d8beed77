"""A long run: how large the state and the process get while a hundred million points go by.

    python -m benchmarks.long_run [--points N]

Each case runs in a process of its own, so that its memory is its own. Sizes are taken at powers of ten, and where
cascade holds most for its age: just before the first slow bucket of a stage closes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import headwater as hw
from benchmarks.pages import Figure, failed, judged, publish, table
from benchmarks.streams import Points

BATCH = 100_000
BYTES_A_POINT = {"cascade": 2.0, "paper": 16.0}
"""What the state may hold: of cascade the promise, of the paper's mechanism the cell of every point and its count."""
TIMES, WORKING = 8, 64 << 20
"""What the process may add to an empty one: so many states, and this. Eight is no promise, only a bar for changes."""


def stops(mechanism: str, points: int) -> list[int]:
    """When to measure: powers of ten, the end, and just before the first slow bucket of a stage closes."""
    tens = [10**k for k in range(6, 12) if 10**k <= points]
    fullest = [5 * 2 ** (q - 2) - 1 for q in range(16, 40)] if mechanism == "cascade" else []
    return sorted({*tens, points, *(t for t in fullest if 10**6 < t < points)})


def stream(name: str) -> Iterator[Points]:
    """Batches without end: evenly spread, or half of them in twenty places."""
    rng = np.random.default_rng(0)
    places = rng.random((20, 2))
    while True:
        points = rng.random((BATCH, 2))
        if name == "blobs":
            half = (len(points) + 1) // 2
            points[::2] = places[rng.integers(0, 20, half)] + 0.03 * rng.normal(size=(half, 2))
            np.clip(points, 0, 1, out=points)
        yield points


def most_memory() -> int:
    """Bytes that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(mechanism: str, name: str, length: int) -> list[dict[str, Any]]:
    """One case: at each stop, bytes of the state, and of memory beyond those of an empty process."""
    synth = hw.Synthesizer(hw.unit_cube(2), epsilon=1.0, mechanism=mechanism)
    batches = stream(name)
    points, empty, taken, found = next(batches), most_memory(), 0.0, []
    for stop in stops(mechanism, length):
        while synth.t < stop:
            if not len(points):
                points = next(batches)
            part, points = points[: stop - synth.t], points[stop - synth.t :]
            start = time.perf_counter()
            synth.update(part)
            taken += time.perf_counter() - start
        sizes = {"state": len(synth.to_bytes()), "peak": most_memory() - empty, "seconds": taken}
        found.append({"mechanism": mechanism, "stream": name, "t": stop} | sizes)
    return found


def figures(found: list[dict[str, Any]]) -> list[Figure]:
    """What is asked."""
    asked = []
    for mechanism, most in BYTES_A_POINT.items():
        each, memory, largest = {}, {}, dict[str, int]()
        for one in (one for one in found if one["mechanism"] == mechanism):
            place, name = f"{one['stream']}, t = {one['t']:,}", one["stream"]
            largest[name] = max(one["state"], largest.get(name, 0))
            each[place] = one["state"] / one["t"]
            memory[place] = one["peak"] / (TIMES * largest[name] + WORKING)
        asked.append(Figure(f"{mechanism}: state, bytes a point", each, at_most=most))
        what = f"{mechanism}: most memory / ({TIMES} times the state and {WORKING >> 20} MB)"
        asked.append(Figure(what, memory, at_most=1))
    return asked


def page(found: list[dict[str, Any]]) -> str:
    """The page in Markdown."""
    ends = {(one["mechanism"], one["stream"]): one for one in found}  # the last one of each
    rows = [
        [f"{mechanism}, {name}", f"{one['t']:,}", f"{one['state'] / 1e6:,.0f}", f"{one['state'] / one['t']:.2f}",
         f"{one['peak'] / 1e6:,.0f}", f"{one['t'] / one['seconds'] / 1e6:.1f}"]
        for (mechanism, name), one in ends.items()
    ]  # fmt: skip
    head = ["at the end", "points", "state, MB", "bytes a point", "memory, MB", "million/s"]
    return f"""# A long run

{judged(figures(found))}
{table(head, rows, "lr")}
Points in the square, ε = 1, batches of {BATCH:,}; each run in a process of its own. *State* is what `to_bytes()` gives.
*Memory* is the most that the process ever had beyond an empty one, with the state and its saved copy both in memory.
Figures above are of {len(found)} moments: powers of ten, and those at which cascade holds most
for its age. Made by `make bench-long` (`long-run.json`).
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=10**8, help="through cascade; fewer write nothing")
    n = max(parser.parse_args().points, 10)
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as processes:
        cases = [("cascade", "uniform", n), ("cascade", "blobs", n), ("paper", "blobs", n // 10)]
        found = [one for case in cases for one in processes.apply(run, case)]
    if n >= 10**8:
        publish("long-run", found, page)
    if failed(figures(found)):
        raise SystemExit("\n".join(map(str, figures(found))))


if __name__ == "__main__":
    main()
