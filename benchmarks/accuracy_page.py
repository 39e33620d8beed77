"""The page of the accuracy benchmark, made from its numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from benchmarks.accuracy_cases import (
    CASCADE,
    CHECK,
    CHECKPOINTS,
    EXACT_BELOW,
    GRID,
    HEADLINE,
    MECHANISMS,
    PAPER,
    PMM,
    RATE,
    Size,
)
from benchmarks.accuracy_numbers import Foretold, Measured, Numbers
from benchmarks.accuracy_verdicts import Requirement
from benchmarks.streams import LENGTH, STREAMS
from headwater.markdown import table

COLUMNS = [*MECHANISMS, "cascade / PMM", "paper / cascade"]


def figure(value: float, digits: int = 3) -> str:
    """Never an exponent."""
    return f"{value:,.0f}" if value >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def mean(measured: Measured) -> str:
    return f"{figure(measured.mean)} ± {figure(measured.deviation, 1)}"


def compared(numbers: Numbers, group: str, stream: str, d: int, epsilon: float, length: int) -> list[str]:
    """One row: every mechanism, and the two ratios that matter."""
    here = {name: numbers(group, stream, d, name, epsilon=epsilon, length=length) for name in MECHANISMS}
    ratios = [here[CASCADE].mean / here[PMM].mean, here[PAPER].mean / here[CASCADE].mean]
    return [*(mean(here[name]) for name in MECHANISMS), f"{ratios[0]:.2f}", f"{ratios[1]:.1f}"]


def headline(numbers: Numbers, d: int) -> str:
    streams = [m.setting.stream for m in numbers.of(CASCADE, HEADLINE) if m.setting.d == d]
    rows = [[stream, *compared(numbers, HEADLINE, stream, d, 1.0, LENGTH)] for stream in streams]
    return table(["stream", *COLUMNS], rows)


def everywhere(numbers: Numbers) -> str:
    rows = []
    for m in numbers.of(CASCADE, GRID):
        s = m.setting
        label = [str(s.d), f"{s.length:,}", s.stream, f"{s.epsilon:g}"]
        rows.append([*label, *compared(numbers, GRID, s.stream, s.d, s.epsilon, s.length)])
    return table(["d", "t", "stream", "ε", *COLUMNS], rows)


def times(size: Size, d: int) -> str:
    return ", ".join(f"{t:,}" for t in size.headline[d])


def demands(asked: list[Requirement]) -> str:
    rows = [[r.what, r.limit, r.measured, r.verdict if r.verdict == "pass" else f"**{r.verdict}**"] for r in asked]
    return table(["what", "asked", "measured", ""], rows)


def misses(asked: list[Requirement]) -> str:
    lines = [f"- {r.what} (asked: {r.limit}): " + "; ".join(r.missed) + "." for r in asked if r.missed]
    return "\n".join(lines) if lines else "None."


def coverage(numbers: Numbers) -> str:
    found = list(numbers.foretold())
    groups: list[tuple[str, Callable[[Foretold], bool]]] = [("all", lambda _: True)]
    groups += [(f"d = {d}", _is("d", d)) for d in sorted({f.setting.d for f in found})]
    groups += [(f"ε = {e:g}", _is("epsilon", e)) for e in sorted({f.setting.epsilon for f in found})]
    groups += [(stream, _is("stream", stream)) for stream in STREAMS]
    pairs = sorted({(f.setting.d, f.setting.epsilon) for f in found})
    groups += [(f"d = {d}, ε = {e:g}", _both(_is("d", d), _is("epsilon", e))) for d, e in pairs]
    rows = []
    for name, chosen in groups:
        here = [f for f in found if chosen(f)]
        upper = np.array([f.upper / f.w1 for f in here])
        worth = np.array([f.w1 / f.spread for f in here])
        quantiles = [f"{q:.3f}" for q in np.quantile(worth, [0.1, 0.5, 0.9, 0.95])]
        rows.append([name, str(len(here)), f"{np.mean(upper >= 1):.0%}", f"{np.median(upper):.1f}", *quantiles])
    return table(["releases", "how many", "W1 ≤ upper", "median upper / W1", "10%", "50%", "90%", "95%"], rows)


def _is(field: str, value: object) -> Callable[[Foretold], bool]:
    return lambda f: bool(getattr(f.setting, field) == value)


def _both(a: Callable[[Foretold], bool], b: Callable[[Foretold], bool]) -> Callable[[Foretold], bool]:
    return lambda f: a(f) and b(f)


def grids(numbers: Numbers, size: Size) -> str:
    """What another grid says of the same releases at t = 100,000."""
    rows = []
    for m in numbers.of(CASCADE, CHECK):
        s = m.setting
        at = numbers(HEADLINE, s.stream, s.d, CASCADE).setting.times.index(100_000)
        changes = [
            numbers(CHECK, s.stream, s.d, name).w1[0][0] / numbers(HEADLINE, s.stream, s.d, name).w1[0][at] - 1
            for name in (CASCADE, PAPER, PMM)
        ]
        rows.append([str(s.d), s.stream, f"{s.side} against {size.side[s.d]}", *(f"{c:+.0%}" for c in changes)])
    return table(["d", "stream", "cells a side", CASCADE, PAPER, PMM], rows)


def rates(numbers: Numbers) -> str:
    rows = []
    for m in numbers.of(CASCADE, RATE):
        other = numbers.beside(m, PMM)
        s = m.setting
        rows.append([str(s.d), s.stream, f"{s.length:,}", str(s.side), mean(m), mean(other) if other else ""])
    return table(["d", "stream", "t", "cells a side", CASCADE, PMM], rows)


def listed(by: Iterable[tuple[int, object]]) -> str:
    return ", ".join(f"{value} (d = {d})" for d, value in by)


def page(numbers: Numbers, asked: list[Requirement], size: Size) -> str:
    cells = listed((d, f"{side}^{d} cells") for d, side in size.side.items() if side)
    sides = listed((d, f"{1 / side:.3f}") for d, side in size.side.items() if side)
    return f"""# How accurate are the releases?

Made by `benchmarks/accuracy.py --size {size.name}` in {numbers.seconds / 60:.0f} minutes of processor time; numbers in
`accuracy.json`. Seeds, each with a fresh stream and fresh noise: {listed(size.seeds.items())}.
The flights are recorded data: there only the noise is fresh. ± is the standard deviation between seeds.

| mechanism | what it is |
| --- | --- |
| cascade | `Synthesizer(…)`: can publish at every moment, for ever, all with one ε |
| paper | `Synthesizer(…, mechanism="paper")`: the same promise |
| PMM | `pmm`: one release of the complete data at t, with all of ε; nothing before, nothing after |
| PMM rerun | `pmm` at {CHECKPOINTS} moments with ε / {CHECKPOINTS} each, looked at at t |
| no data read | points drawn evenly |

## The headline: the plane at ε = 1

W1·√t, the mean over t = {", ".join(f"{t:,}" for t in size.headline[2])} of streams of {LENGTH:,} points.

{headline(numbers, 2)}
![W1·√t by stream and mechanism](accuracy-headline.png)

## What is asked

{demands(asked)}
"Worse beyond the spread of seeds": the mean difference, seed by seed, exceeds the standard deviation of that
difference. Between two mechanisms that are equally good, three seeds show this in one of nine settings, ten in one of
170; where there are few points or a small ε, cascade has said nothing yet and *is* points drawn evenly.

What was missed:

{misses(asked)}

## Other dimensions at ε = 1

W1·t^(1/d), the mean over t = {times(size, 3)} (d = 3), {times(size, 5)} (d = 5) or the times above (d = 1).

d = 1:

{headline(numbers, 1)}
d = 3:

{headline(numbers, 3)}
d = 5:

{headline(numbers, 5)}
## How the error falls

![W1 against t](accuracy-time.png)

![W1 against ε](accuracy-epsilon.png)

W1·(εt)^(1/d) would be constant if the error fell exactly as fast as the best possible rate. On one and the same grid
it seems to fall even faster, because the grid hides more and more of a small error; the pictures show that too. So here
(ε = 1) the grid is the finer the larger t, with as many points in a cell (23 in d = 2, 14 in d = 3):

{rates(numbers)}
## Does a release know its own error?

`release.expected_error().upper` ought to lie above W1 in nine cases of ten. The last four columns are quantiles of
W1 divided by the spread for each point, which is what the constants in `public/cells.py` scale.

{coverage(numbers)}
![True W1 against the foretold one](accuracy-expected.png)

## How W1 was measured

In d = 1 exactly, by sorting; up to {EXACT_BELOW:,} points exactly, over all pairs; otherwise as a flow on a grid of
{cells}, after moving every point to the centre of its cell, in the same way for every mechanism. Nothing is
subtracted. The guaranteed error is at most one cell side: {sides}. That is pessimistic, because both sets
move alike, but it is no small matter in d = 5, where no affordable method resolves the distances between
100,000 points: read those figures as a comparison of mechanisms at the scale of the grid. What another
grid changes (seed 0, t = 100,000):

{grids(numbers, size)}
Sides that are not powers of two see errors inside the halved cells that mechanisms work with.

## Every setting

W1·(εt)^(1/d) at the end of streams of t points.

{everywhere(numbers)}"""
