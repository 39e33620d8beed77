"""A crowd moves through a square for a day; its synthetic twin is published again and again under one ε.

Run with ``make demo``. The stream is invented here, so nobody is in it and nothing has to be downloaded.
The page that comes out compares the synthetic data with the real data, and is therefore NOT private.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

import headwater as hw
from headwater.evaluate.w1 import w1

if TYPE_CHECKING:
    from examples.crowd_page import Day, Moment, write
else:
    from crowd_page import Day, Moment, write  # a script finds its neighbours under their bare names

Floats = NDArray[np.float64]

RELEASES = 22
LEAST_RECORDS = 1_000
BATCH = 2_000
BACKGROUND = 0.05  # the share of the records that lie anywhere at all
SIDE = 64  # cells along one axis, for W1 and for the pictures
FINE_SIDE = 128  # to learn at one moment what the coarser grid is worth
PAGE = Path("out/moving-crowd.html")
CUBE = hw.unit_cube(2)


@dataclass(frozen=True)
class Group:
    """People who walk together along a curve, from ``begin`` to ``end``, both as shares of the day.

    ``path`` holds the start, the point that bends the curve, and the goal. ``size`` and ``spread`` go from their
    first value to their second on the way: a group can grow, thin out, gather or scatter.
    """

    begin: float
    end: float
    path: tuple[tuple[float, float], tuple[float, float], tuple[float, float]]
    size: tuple[float, float]
    spread: tuple[float, float]

    def progress(self, when: Floats) -> Floats:
        """How much of its way the group has behind it."""
        return np.clip((when - self.begin) / (self.end - self.begin), 0.0, 1.0)

    def weight(self, when: Floats) -> Floats:
        """The size of the group; zero before it begins and after it ends."""
        there = (self.begin <= when) & (when < self.end)
        return np.where(there, np.interp(self.progress(when), (0.0, 1.0), self.size), 0.0)

    def place(self, when: Floats, rng: np.random.Generator) -> Floats:
        """One position for each time: a point of the quadratic Bézier curve, and a normal step away from it."""
        s = self.progress(when)[:, np.newaxis]
        start, bend, goal = (np.array(point) for point in self.path)
        centre = (1 - s) ** 2 * start + 2 * s * (1 - s) * bend + s**2 * goal
        spread = np.interp(s, (0.0, 1.0), self.spread)
        positions: Floats = centre + spread * rng.standard_normal(centre.shape)
        return positions


GROUPS = (
    # From the west and from the south to the square in the middle, where the two become one crowd.
    Group(0.00, 0.45, ((0.08, 0.80), (0.15, 0.30), (0.48, 0.52)), (0.6, 2.0), (0.020, 0.035)),
    Group(0.10, 0.45, ((0.60, 0.06), (0.20, 0.10), (0.48, 0.52)), (0.4, 1.6), (0.018, 0.035)),
    Group(0.45, 0.70, ((0.48, 0.52), (0.52, 0.56), (0.50, 0.62)), (3.6, 3.0), (0.035, 0.045)),
    # In the evening it leaves along a wide curve to the north-east.
    Group(0.70, 1.00, ((0.50, 0.62), (0.60, 0.98), (0.92, 0.90)), (3.0, 0.8), (0.045, 0.020)),
    # A few people go up the eastern side all day.
    Group(0.00, 1.00, ((0.95, 0.35), (0.68, 0.60), (0.80, 0.72)), (0.5, 0.7), (0.015, 0.015)),
    # Half-way through the day something happens in the south-east.
    Group(0.50, 0.62, ((0.80, 0.18), (0.80, 0.18), (0.82, 0.20)), (7.0, 2.0), (0.012, 0.030)),
)


def crowd(n: int) -> Floats:
    """The positions of the day in order of arrival, shape ``(n, 2)``, in ``[0,1]²``; the same for the same ``n``.

    >>> crowd(1000).shape
    (1000, 2)
    """
    rng = np.random.default_rng(20_240_621)
    when = (np.arange(n) + 0.5) / n
    weights = np.stack([group.weight(when) for group in GROUPS])
    upto = np.cumsum(weights / weights.sum(axis=0), axis=0) * (1 - BACKGROUND)
    member = (rng.random(n) >= upto).sum(axis=0)  # the first group whose share reaches the draw; else background
    positions = rng.random((n, 2))
    for number, group in enumerate(GROUPS):
        mine = member == number
        positions[mine] = group.place(when[mine], rng)
    inside: Floats = 1 - np.abs(1 - np.abs(positions))  # who steps over an edge is folded back
    return inside


def release_times(n: int) -> list[int]:
    """Times from ``n/128`` to ``n``, three to each doubling: evenly spaced on a logarithmic axis."""
    return [round(n * 2 ** (-k / 3)) for k in reversed(range(RELEASES))]


def run(n: int, epsilon: float, mechanism: str | None, console: Console) -> Day:
    """Feed the day to a synthesizer without a seed, and look at what it publishes on the way."""
    positions = crowd(n)
    synth = _synthesizer(epsilon, mechanism)
    moments: list[Moment] = []
    with _bar(console) as bar:
        task = bar.add_task("", total=n, rate="–", w1="–")
        busy = 0.0
        for t in release_times(n):
            for batch in _batches(positions[synth.t : t]):
                start = time.perf_counter()
                synth.update(batch)
                busy += time.perf_counter() - start
                bar.update(task, completed=synth.t, rate=f"{synth.t / busy:,.0f}")
            start = time.perf_counter()
            release = synth.release()
            busy += time.perf_counter() - start
            moments.append(look(positions[:t], release, n))
            bar.update(task, rate=f"{synth.t / busy:,.0f}", w1=f"{moments[-1].w1:.4f}")
    fine = _distance(positions, release.points(), FINE_SIDE)
    return Day(n, release.epsilon, release.mechanism, tuple(moments), n / busy, FINE_SIDE, fine)


def look(real: Floats, release: hw.Release, n: int) -> Moment:
    """Compare a release of ``t`` of the day's ``n`` records with the real ones, and with two references. NOT PRIVATE.

    The references are offline PMM, which spends the whole ε on this one moment, and points that know no data.
    """
    synthetic = release.points()
    offline = hw.pmm(real, CUBE, epsilon=release.epsilon).points()
    blind = np.random.default_rng(release.t).random(real.shape)
    return Moment(
        t=release.t,
        share_of_day=release.t / n,
        w1=_distance(real, synthetic, SIDE),
        w1_offline=_distance(real, offline, SIDE),
        w1_uniform=_distance(real, blind, SIDE),
        real=_density(real),
        synthetic=_density(synthetic),
        offline=_density(offline),
    )


def show(day: Day, page: Path, console: Console) -> None:
    """Print the table of distances, and where the page is."""
    table = Table("t", "W1", "offline PMM", "uniform", title=f"{day.mechanism}, ε = {day.epsilon:g}. NOT PRIVATE")
    for column in table.columns:
        column.justify = "right"
    for moment in day.moments:
        distances = (moment.w1, moment.w1_offline, moment.w1_uniform)
        table.add_row(f"{moment.t:,}", *(f"{distance:.4f}" for distance in distances))
    console.print(table)
    console.print("The page, to open in a browser:", style="bold")
    console.print(page.resolve().as_uri(), soft_wrap=True, highlight=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the day, write the page, say where it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000, help="positions in the day (default: 200000)")
    parser.add_argument("--epsilon", type=float, default=1.0, help="privacy budget of the whole day (default: 1)")
    parser.add_argument("--mechanism", help="name of the mechanism (default: that of hw.Synthesizer)")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    if chosen.records < LEAST_RECORDS:
        parser.error(f"--records must be at least {LEAST_RECORDS}")
    try:
        _synthesizer(chosen.epsilon, chosen.mechanism)
    except ValueError as error:
        parser.error(str(error))
    console = Console()
    day = run(chosen.records, chosen.epsilon, chosen.mechanism, console)
    write(day, chosen.out)
    show(day, chosen.out, console)


def _synthesizer(epsilon: float, mechanism: str | None) -> hw.Synthesizer:
    if mechanism is None:
        return hw.Synthesizer(CUBE, epsilon=epsilon)
    return hw.Synthesizer(CUBE, epsilon=epsilon, mechanism=mechanism)


def _batches(positions: Floats) -> Iterator[Floats]:
    for first in range(0, len(positions), BATCH):
        yield positions[first : first + BATCH]


def _distance(a: Floats, b: Floats, side: int) -> float:
    return w1(a, b, method="grid", side=side).value


def _density(positions: Floats) -> Floats:
    """Records in each cell, as a multiple of what evenly spread records would give; axes as in the positions."""
    x, y = positions.T
    counts: Floats = np.histogram2d(x, y, bins=SIDE, range=((0, 1), (0, 1)))[0]
    return counts * (SIDE**2 / len(positions))


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.completed:>9,.0f} of {task.total:,.0f} records"),
        BarColumn(),
        TextColumn("{task.fields[rate]} records/s"),
        TextColumn("W1 {task.fields[w1]}"),
        console=console,
    )


if __name__ == "__main__":
    main()
