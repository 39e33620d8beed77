"""The page of the accuracy benchmark, made from its numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.accuracy_cases import CHECKPOINTS, GRID, HEADLINE, MECHANISMS, RATE, SIDE, TIMES, Setting
from benchmarks.pages import Figure, judged, number, picture, table
from benchmarks.streams import LENGTH, STREAMS

CASCADE, PAPER, PMM, RERUN, BLIND = MECHANISMS
LOOK = {CASCADE: ("C0", "o-"), PAPER: ("C3", "s-"), PMM: ("C2", "^-"), RERUN: ("C1", "v-"), BLIND: ("0.55", ":")}


@dataclass(frozen=True, eq=False)
class Measured:
    """All seeds (rows) of one setting at all its times (columns)."""

    setting: Setting
    w1: np.ndarray
    upper: np.ndarray  # what the releases of cascade expected W1 to stay below

    @property
    def scaled(self) -> np.ndarray:
        """For each seed W1·(εt)^(1/d), the mean over the times."""
        s = self.setting
        values: np.ndarray = (self.w1 * (s.epsilon * np.array(s.times)) ** (1 / s.d)).mean(axis=1)
        return values

    @property
    def mean(self) -> float:
        """Of `scaled`, over the seeds."""
        return float(self.scaled.mean())

    @property
    def deviation(self) -> float:
        """Standard deviation of `scaled` over the seeds."""
        return float(self.scaled.std(ddof=1)) if len(self.scaled) > 1 else 0.0

    def __str__(self) -> str:
        s = self.setting
        return f"{s.stream}, d = {s.d}, ε = {s.epsilon:g}, t = {s.times[0]:,}" + (" …" if len(s.times) > 1 else "")


class Numbers:
    """Everything that was measured, found by setting."""

    def __init__(self, found: dict[str, Any]) -> None:
        self._index: dict[tuple[str, str, int, float, int, str], Measured] = {}
        for one in found["measured"]:
            values = {name: value for name, value in one.items() if name not in ("w1", "upper")}
            setting = Setting(**values | {"times": tuple(values["times"])})
            measured = Measured(setting, np.array(one["w1"]), np.array(one.get("upper", [])))
            self._index[self._key(setting, setting.mechanism)] = measured

    @staticmethod
    def _key(s: Setting, mechanism: str) -> tuple[str, str, int, float, int, str]:
        return s.group, s.stream, s.d, s.epsilon, s.length, mechanism

    def of(self, group: str, *, mechanism: str = CASCADE) -> list[Measured]:
        """All that was measured of a mechanism."""
        return [m for m in self._index.values() if (m.setting.group, m.setting.mechanism) == (group, mechanism)]

    def beside(self, measured: Measured, mechanism: str) -> Measured:
        """Another mechanism in the same setting."""
        return self._index[self._key(measured.setting, mechanism)]

    def ratio(self, measured: Measured, mechanism: str) -> float:
        """Of mean errors."""
        return measured.mean / self.beside(measured, mechanism).mean


def by_place(measured: Iterable[Measured], value: Callable[[Measured], float]) -> dict[str, float]:
    return {str(m): value(m) for m in measured}


def figures(numbers: Numbers) -> list[Figure]:
    """What is asked of cascade."""
    headline, grid = numbers.of(HEADLINE), numbers.of(GRID)
    clustered = [m for m in headline if m.setting.stream != "uniform"]
    asked = []
    for d, limit in ((1, 2.5), (2, 1.4), (3, 1.1), (5, 1.1)):
        places = by_place([m for m in headline if m.setting.d == d], lambda m: numbers.ratio(m, PMM))
        asked.append(Figure(f"W1 of cascade / of PMM, d = {d}", places, at_most=limit))
    for goal, what in ((False, "d = 2"), (True, "d = 1, 3, 5")):
        here = [m for m in clustered if (m.setting.d != 2) is goal]
        places = by_place(here, lambda m: 1 / numbers.ratio(m, PAPER))
        asked.append(Figure(f"paper / cascade, {what}, all but uniform", places, at_least=5, goal=goal))
    for mechanism in (PAPER, BLIND):
        difference = {m: m.scaled - numbers.beside(m, mechanism).scaled for m in (*headline, *grid)}
        worse = sum(float(x.mean()) > float(x.std(ddof=1)) for x in difference.values())
        what = f"settings of {len(difference)} in which cascade is worse than {mechanism}, beyond the spread of seeds"
        asked.append(Figure(what, worse, at_most=0))
    early = [m for m in grid if (m.setting.length, m.setting.epsilon) == (1_000, 1) and m.setting.stream != "uniform"]
    places = by_place(early, lambda m: numbers.ratio(m, BLIND))
    asked.append(Figure("cascade / no data read at t = 1,000, ε = 1, all but uniform", places, at_most=1))
    rates = numbers.of(RATE)
    first = {(m.setting.d, m.setting.stream): m.mean for m in rates if m.setting.length == 10_000}
    late = [m for m in rates if m.setting.length == 1_000_000]
    places = by_place(late, lambda m: m.mean / first[m.setting.d, m.setting.stream])
    asked.append(Figure("W1·(εt)^(1/d) of cascade at t = 10⁶ / at t = 10⁴", places, at_most=1.5))
    below = np.concatenate([(m.w1 <= m.upper).ravel() for m in (*headline, *grid)])
    asked.append(Figure("share of releases with W1 below `expected_error().upper`", float(below.mean()), at_least=0.85))
    return asked


def _mean(measured: Measured) -> str:
    return f"{number(measured.mean)} ± {number(measured.deviation, 1)}"


def page(found: dict[str, Any]) -> str:
    """The page in Markdown."""
    numbers = Numbers(found)
    plane = [m for m in numbers.of(HEADLINE) if m.setting.d == 2]
    rows = []
    for m in plane:
        means = [_mean(numbers.beside(m, name)) for name in (CASCADE, PAPER, PMM)]
        ratios = [numbers.ratio(m, PMM), 1 / numbers.ratio(m, PAPER), 1 / numbers.ratio(m, BLIND)]
        rows.append([m.setting.stream, *means, *map(number, ratios)])
    head = ["stream", *(CASCADE, PAPER, PMM), "cascade / PMM", "paper / cascade", "no data read / cascade"]
    seeds = ", ".join(f"{len(m.w1)} (d = {m.setting.d})" for m in numbers.of(HEADLINE) if m.setting.stream == "uniform")
    times = ", ".join(f"{t:,}" for t in TIMES[2])
    cells = ", ".join(f"{n}^{d}" for d, n in SIDE.items() if n)
    return f"""# How accurate are the releases?

W1·√t in the plane at ε = 1, the mean over t = {times} of streams of {LENGTH:,} points; ± is the standard deviation
between seeds. Lower is better.

{table(head, rows, "lr")}
![W1·√t by stream and mechanism](accuracy-headline.png)

{judged(figures(numbers))}
*Beyond the spread of seeds*: the mean difference, seed by seed, exceeds its standard deviation.

![W1 against t](accuracy-time.png)

## What was compared

- **PMM**, `pmm`: one release of the complete data at t with all of ε.
- **PMM rerun**: `pmm` at {CHECKPOINTS} moments with ε / {CHECKPOINTS} each, looked at at t.
- **no data read**: points drawn evenly.

Streams are in `benchmarks/streams.py`. Seeds, each with a fresh stream and fresh noise:
{seeds}. The other settings are ε = 0.1, 1 and 4 at t = 1,000 to 1,000,000. All numbers are in `accuracy.json`, by
`make bench-accuracy SIZE={found["size"]}` in {found["seconds"] / 60:.0f} minutes of the processor.

## How W1 was measured

Exactly in d = 1 and for few points; otherwise as a flow on a grid of {cells} cells, which hides errors smaller than its
cells. Where t = 10⁶ is compared with 10⁴, the grid is finer for the larger t.
"""


def draw(found: dict[str, Any]) -> None:
    """The picture of the headline, and of the error against t."""
    numbers = Numbers(found)
    plane = [m for m in numbers.of(HEADLINE) if m.setting.d == 2]
    with picture("accuracy-headline", 1, 1, (11, 5)) as axes:
        panel, width = axes[0][0], 0.16
        for i, mechanism in enumerate(MECHANISMS):
            here = [numbers.beside(m, mechanism) for m in plane]
            at, errors = np.arange(len(here)) + (i - 2) * width, [m.deviation for m in here]
            how: dict[str, Any] = {"color": LOOK[mechanism][0], "label": mechanism, "capsize": 2}
            panel.bar(at, [m.mean for m in here], width * 0.92, yerr=errors, **how)
        panel.set_xticks(range(len(plane)), [m.setting.stream for m in plane])
        panel.set(yscale="log", ylim=(0.2, 400), ylabel="W1·√t, mean over t = 70,000 … 130,000")
        panel.set_title("Error in the plane at ε = 1 (lower is better; bars start at 0.2; whiskers: seeds)")
    size = (2.5 * len(STREAMS), 2.7 * len(SIDE))
    with picture("accuracy-time", len(SIDE), len(STREAMS), size, sharex=True, sharey="row") as axes:
        for mechanism in MECHANISMS:
            lines: dict[tuple[int, str], list[tuple[int, np.ndarray]]] = {}
            for m in numbers.of(GRID, mechanism=mechanism):
                if m.setting.epsilon == 1:
                    lines.setdefault((m.setting.d, m.setting.stream), []).append((m.setting.length, m.w1[:, -1]))
            for (d, stream), line in lines.items():
                panel = axes[list(SIDE).index(d)][list(STREAMS).index(stream)]
                mean, spread = (np.array([f(values) for _, values in line]) for f in (np.mean, np.std))
                low = np.minimum(spread, 0.9 * mean)  # a logarithmic axis has no zero
                colour, style = LOOK[mechanism]
                panel.errorbar(
                    [t for t, _ in line], mean, (low, spread), fmt=style, color=colour, ms=4, lw=1.2, label=mechanism
                )
                panel.set(xscale="log", yscale="log", title=f"{stream}, d = {d}", xlabel="t", ylabel="W1")
        for panel in axes.flat:
            panel.set_visible(panel.has_data())
