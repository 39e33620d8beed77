"""E W1 against t: does the error of the paper's mechanism fall as its theorem says?

    python -m benchmarks.theorem [--quick | --full] [--seeds N] [--redraw]

Writes the numbers (theorem.json), a picture (theorem.png) and a page made from the numbers (theorem.md) into
docs/benchmarks. The curves are the mechanism just before and just after a level ends, offline PMM with the whole of ε
on one release, and points drawn evenly without reading any data.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import headwater as hw
from benchmarks.streams import STREAMS, Points
from headwater.evaluation import W1, w1
from headwater.markdown import table
from headwater.public import protocol as registry
from headwater.public.budget import Guarantee
from headwater.public.paper import cell_budget
from headwater.public.protocol import ErrorBound, Facts
from headwater.public.unit_cube import UnitCube
from headwater.secret.counters import level_start, segment_threshold

EPSILON = 1.0
KINDS = ("uniform", "blobs")
BEFORE, AFTER, PMM, BLIND = "paper, level's last step", "paper, level's first step", "offline PMM", "no data read"
CURVES = {BEFORE: ("C3", "o-"), AFTER: ("C0", "s-"), PMM: ("C2", "^-"), BLIND: ("0.6", ":")}
EXACT_BELOW = 1_100  # compare all pairs of points up to here
FIT_FROM = 2**12
RESULTS = Path(__file__).parents[1] / "docs" / "benchmarks"


@dataclass(frozen=True)
class Size:
    """How much is measured, by dimension: the largest exponent of t, runs with fresh noise, cells a side for W1."""

    last: dict[int, int]
    seeds: dict[int, int]
    side: dict[int, int]


FULL = Size(last={1: 20, 2: 17, 3: 17}, seeds={1: 10, 2: 3, 3: 2}, side={2: 128, 3: 32})
QUICK = Size(last={1: 17, 2: 15, 3: 15}, seeds={1: 3, 2: 2, 3: 2}, side={2: 64, 3: 16})


@dataclass(frozen=True)
class Curve:
    """One line of the picture: W1 at each t (rows) for each run (columns)."""

    d: int
    stream: str
    name: str
    t: list[int]
    w1: list[list[float]]
    coarser: float  # mean W1 at the last t on a grid of half the side; the same in d = 1

    @property
    def mean(self) -> list[float]:
        """Over the runs, at each t."""
        return [float(np.mean(row)) for row in self.w1]

    @property
    def spread(self) -> list[float]:
        """Standard deviation over the runs, at each t."""
        return [float(np.std(row, ddof=1)) if len(row) > 1 else 0.0 for row in self.w1]

    @property
    def rate(self) -> list[float]:
        """What the theorem behind this curve says, without its unknown constant."""
        mechanism = "pmm" if self.name == PMM else "paper"
        return [bound(mechanism, t, self.d).rate for t in self.t]


def bound(mechanism: str, t: int, d: int) -> ErrorBound:
    """What the theorem behind a mechanism says."""
    return registry.model(mechanism).error_bound(Facts(t, Guarantee(EPSILON), UnitCube(d), mechanism), 0)


def distance(a: Points, b: Points, side: int | None) -> W1:
    if side is None or len(a) <= EXACT_BELOW:
        return w1(a, b)
    return w1(a, b, method="grid", side=side)


def releases(stream: Points, times: list[int], name: str, seed: int) -> Iterator[tuple[Points, Points]]:
    """At each time what had arrived and what would be published."""
    schema = hw.unit_cube(stream.shape[1])
    synth, rng = (
        hw.Synthesizer(schema, epsilon=EPSILON, mechanism="paper", seed=seed),
        np.random.default_rng(seed + 1),
    )
    for t in times:
        if name == PMM:
            synthetic = hw.pmm(stream[:t], schema, epsilon=EPSILON, seed=seed).points()
        elif name == BLIND:
            synthetic = rng.random((t, stream.shape[1]))
        else:
            synth.update(stream[synth.t : t])
            synthetic = synth.release().points()
        yield stream[:t], synthetic


def measure(size: Size) -> list[Curve]:
    plan = [(d, kind, name) for d in size.last for kind in KINDS for name in CURVES]
    runs = {name: {d: 1 if name == BLIND else n for d, n in size.seeds.items()} for name in CURVES}
    columns = (
        TextColumn("{task.description:42}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    curves = []
    with Progress(*columns, console=Console(stderr=True)) as progress:
        weight = {d: 1 if d == 1 else 10 * d for d in size.last}  # how long one distance takes, roughly
        bar = progress.add_task("", total=sum(weight[d] * runs[name][d] * (size.last[d] - 7) for d, _, name in plan))
        for d, kind, name in plan:
            progress.update(bar, description=f"d = {d}, {kind}: {name}")
            stream = STREAMS[kind](2 ** size.last[d], d)
            times = [2**k - (name == BEFORE) for k in range(8, size.last[d] + 1)]
            found: list[list[float]] = [[] for _ in times]
            coarser, side = [], size.side.get(d)
            for seed in range(runs[name][d]):
                for row, (arrived, synthetic) in zip(found, releases(stream, times, name, seed), strict=True):
                    row.append(distance(arrived, synthetic, side).value)
                    progress.advance(bar, weight[d])
                coarser.append(distance(arrived, synthetic, side and side // 2).value)
            curves.append(Curve(d, kind, name, times, found, float(np.mean(coarser))))
    return curves


def slope(t: list[int], y: list[float]) -> tuple[float, float]:
    """Of the least-squares line through log y against log t, with its standard error, over the larger t."""
    keep = [i for i, time in enumerate(t) if time >= FIT_FROM - 1]
    u, v = np.log([t[i] for i in keep]), np.log([y[i] for i in keep])
    u -= u.mean()
    b = float(u @ v / (u @ u))
    residual = v - v.mean() - b * u
    return b, float(np.sqrt(residual @ residual / (len(u) - 2) / (u @ u)))


def draw(curves: list[Curve], path: Path) -> None:
    mpl.use("Agg")
    dimensions = sorted({c.d for c in curves})
    figure, axes = plt.subplots(2, len(dimensions), figsize=(4.6 * len(dimensions), 8.4), squeeze=False)
    for curve in curves:
        panel = axes[KINDS.index(curve.stream)][dimensions.index(curve.d)]
        colour, style = CURVES[curve.name]
        spread = 0.0 if curve.name == BLIND else np.array(curve.spread)
        panel.errorbar(curve.t, curve.mean, spread, fmt=style, color=colour, ms=4, capsize=2, label=curve.name)
        if curve.name == BEFORE:
            at = next(i for i, t in enumerate(curve.t) if t >= FIT_FROM - 1)
            scaled = np.array(curve.rate) * curve.mean[at] / curve.rate[at]
            panel.plot(
                curve.t, scaled, "k--", lw=1, label=f"the theorem's rate, through the red point at t = {curve.t[at]:,}"
            )
            formula = bound("paper", curve.t[-1], curve.d).formula
            panel.set_title(f"d = {curve.d}, {curve.stream}; rate {formula}", fontsize=10)
        panel.set(xscale="log", yscale="log", xlabel="t", ylabel="W1")
        panel.grid(alpha=0.3)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels))
    figure.suptitle(f"Error against time, ε = {EPSILON:g}: mean and standard deviation over runs")
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    figure.savefig(path, dpi=110)


def page(curves: list[Curve], size: Size, seconds: float) -> str:
    """The markdown page, made from the numbers alone."""
    fits, points, resolution, verdicts = [], [], [], []
    for d in size.last:
        for kind in KINDS:
            here = {c.name: c for c in curves if c.d == d and c.stream == kind}
            label = [str(d), kind]
            for name in (BEFORE, AFTER, PMM):
                (b, error), (theory, _) = slope(here[name].t, here[name].mean), slope(here[name].t, here[name].rate)
                steeper = "yes" if b <= theory else "within 2 s.e." if b <= theory + 2 * error else "**no**"
                fits.append([*label, name, f"{b:.2f} ± {error:.2f}", f"{theory:.2f}", steeper])
            for i, t in enumerate(here[AFTER].t):
                values = [f"{here[n].mean[i]:.2g} ± {here[n].spread[i]:.1g}" for n in (BEFORE, AFTER, PMM)]
                points.append([*label, f"{t:,}", *values, f"{here[BLIND].mean[i]:.2g}"])
            before, after, offline, blind = (here[name].mean[-1] for name in CURVES)
            verdicts.append(
                [
                    *label,
                    *(f"{x:.1f}" for x in (before / offline, after / offline, before / after)),
                    f"{before / blind:.2g}",
                ]
            )
            if d > 1:
                changes = [here[n].coarser / here[n].mean[-1] - 1 for n in (BEFORE, AFTER, PMM)]
                resolution.append(
                    [*label, f"{size.side[d] // 2} against {size.side[d]}", *(f"{c:+.0%}" for c in changes)]
                )
    largest = ", ".join(f"2^{k} (d = {d})" for d, k in size.last.items())
    runs = ", ".join(f"{n} (d = {d})" for d, n in size.seeds.items())
    fits_head = ["d", "stream", "curve", "slope of W1", "slope of the rate", "as steep"]
    verdicts_head = [
        "d",
        "stream",
        "last step / PMM",
        "first step / PMM",
        "last / first step",
        "last step / no data read",
    ]
    points_head = ["d", "stream", "t", "paper, last step (t − 1)", "paper, first step (t)", PMM, BLIND]
    return f"""# Does the error fall as the theorem says?

Made by `benchmarks/theorem.py` in {seconds / 60:.0f} minutes; the numbers are in `theorem.json`.
ε = {EPSILON:g}. Runs with fresh noise on one fixed stream: {runs}.
Largest t: {largest}.

![W1 against t, with the rate of the theorem](theorem.png)

The theorem bounds E W1 by a constant nobody has worked out times a rate: `log(t)·(εt)^(-1/d)` for d ≥ 2 and
`log³(εt)·log^1.5(t)/(εt)` for d = 1. Only the slope can therefore be compared. The dashed line is the rate scaled to
pass through one measured point; its height means nothing.

**When one looks matters.** A level ends at t = 2^k − 1, and at t = 2^k its noisy total replaces what Algorithm 2 had
said about it. The two moments are one record apart and can differ several times in W1. At the last step of a level
most cells have said nothing of that level, so its half of the stream is published spread evenly: wrong for clusters,
and by luck right for the uniform stream. Looking at powers of two alone would show the first steps only. The theorem
speaks of every t, so both are here.

## Slopes

Least squares through log W1 against log t for t ≥ {FIT_FROM:,}, with its standard error, beside the slope of the rate
itself over the same t (logarithms make it flatter than −1/d).

{table(fits_head, fits)}
A "no" does not contradict the theorem, whose constant may be large: it means that at these t the asymptotic slope has
not been reached. The thresholds below are the likely reason. A slope steeper than the rate is no proof of a better
rate: the range is short, and so are two or three runs for a standard deviation.

## At the largest t

How many times worse than offline PMM, what the last step of a level costs against the first of the next, and W1 as a
share of what points drawn evenly without reading any data get. On the clustered stream a share of 0.5 is what blindness
to the running level alone gives, since that level is half of the stream. On the uniform stream even points are the
right answer, and a share above 1 is the price of the noise.

{table(verdicts_head, verdicts)}
A cell says nothing of the running level before it has gathered a threshold of `9·log(T)` over half its budget. During
the last level measured, of T points, that is:

{table(["d", "T", "points needed at depth 1", "at the deepest cells"], thresholds(size))}
## Every point

W1, mean ± standard deviation over runs.

{table(points_head, points)}
## How W1 was measured

In d = 1 exactly, by sorting; for t ≤ {EXACT_BELOW:,} exactly, over all pairs; otherwise on a grid of
{size.side[2]}² or {size.side[3]}³ cells, after moving every point to the centre of its cell. Nothing is subtracted. The
guaranteed error of the grid (two thirds of a cell side in d = 2, three quarters in d = 3) is pessimistic, because both
sets move alike. What the grid really changes can be seen by halving its side, at the largest t (change of the mean W1
on the coarser grid):

{table(["d", "stream", "cells a side", "paper, last step", "paper, first step", PMM], resolution)}
Where the coarser grid sees much less, the finer one still hides part of the distance: those W1 are too small and
their slopes too steep. The clusters, of standard deviation 0.03, are not much wider than a cell of the grid in d = 3.
"""


def thresholds(size: Size) -> list[list[str]]:
    """How many points a cell must gather during the last level before Algorithm 2 says anything."""
    rows = []
    for d, last in size.last.items():
        level = last - 1
        horizon = level_start(level + 1, EPSILON) - level_start(level, EPSILON)
        needed = [segment_threshold(horizon, cell_budget(j, level, d, EPSILON) / 2) for j in (1, level)]
        rows.append([str(d), f"{horizon:,}", *(f"{points:,}" for points in needed)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", action="store_true", help="smaller t and fewer runs; below two minutes")
    sizes.add_argument("--full", action="store_true", help="the default; about ten minutes")
    parser.add_argument("--seeds", type=int, help="runs with fresh noise, in every dimension")
    parser.add_argument("--redraw", action="store_true", help="measure nothing: make page and picture from the numbers")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    arguments = parser.parse_args()
    size = QUICK if arguments.quick else FULL
    if arguments.seeds:
        size = replace(size, seeds=dict.fromkeys(size.last, arguments.seeds))
    warnings.simplefilter("ignore", hw.SeededRunWarning)
    numbers = arguments.out / "theorem.json"
    if arguments.redraw:
        size, seconds, curves = read(numbers)
    else:
        start = time.perf_counter()
        curves = measure(size)
        seconds = time.perf_counter() - start
        arguments.out.mkdir(parents=True, exist_ok=True)
        write(numbers, size, seconds, curves)
    text = page(curves, size, seconds)
    (arguments.out / "theorem.md").write_text(text)
    draw(curves, arguments.out / "theorem.png")
    print(text)


def write(path: Path, size: Size, seconds: float, curves: list[Curve]) -> None:
    record = {"epsilon": EPSILON, "fit_from": FIT_FROM, "seconds": round(seconds), "size": asdict(size)}
    fits = [{"rate": c.rate, "slope": slope(c.t, c.mean), "rate_slope": slope(c.t, c.rate)[0]} for c in curves]
    entries = [asdict(curve) | fit for curve, fit in zip(curves, fits, strict=True)]
    path.write_text(json.dumps(record | {"curves": entries}, indent=1) + "\n")


def read(path: Path) -> tuple[Size, float, list[Curve]]:
    record = json.loads(path.read_text())
    size = Size(**{name: {int(d): n for d, n in by.items()} for name, by in record["size"].items()})
    names = [field.name for field in fields(Curve)]
    return size, record["seconds"], [Curve(**{name: entry[name] for name in names}) for entry in record["curves"]]


if __name__ == "__main__":
    main()
