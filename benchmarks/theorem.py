"""E W1 against t: does the error of the paper's mechanism fall as its theorem says?

    python -m benchmarks.theorem

The curves are the mechanism just before and just after a level ends, offline PMM with the whole of ε on one release,
and points drawn evenly without reading any data.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.progress import track

import headwater as hw
from benchmarks.accuracy_cases import EXACT_BELOW, distance
from benchmarks.pages import number, picture, publish, table
from benchmarks.streams import STREAMS, Points

EPSILON = 1.0
KINDS = ("uniform", "blobs")
BEFORE, AFTER, PMM, BLIND = "paper, level's last step", "paper, level's first step", "offline PMM", "no data read"
CURVES = {BEFORE: ("C3", "o-"), AFTER: ("C0", "s-"), PMM: ("C2", "^-"), BLIND: ("0.6", ":")}
FIT_FROM = 2**12


LAST = {1: 20, 2: 17, 3: 17}
"""The largest exponent of t, by dimension."""
SEEDS = {1: 10, 2: 3, 3: 2}  # runs with fresh noise
SIDE = {1: 0, 2: 128, 3: 32}  # cells a side for W1


def releases(stream: Points, times: list[int], name: str, seed: int) -> Iterator[tuple[Points, Points, float]]:
    """At each time the data until then, what would be published, and the rate of the theorem behind it."""
    schema, rng = hw.unit_cube(stream.shape[1]), np.random.default_rng(seed + 1)
    synth = hw.Synthesizer(schema, epsilon=EPSILON, mechanism="paper", seed=seed)
    for t in times:
        if name == BLIND:
            yield stream[:t], rng.random((t, stream.shape[1])), 1.0
            continue
        if name == PMM:
            release = hw.pmm(stream[:t], schema, epsilon=EPSILON, seed=seed)
        else:
            synth.update(stream[synth.t : t])
            release = synth.release()
        yield stream[:t], release.points(), release.error_bound.rate


def curve(d: int, kind: str, name: str) -> dict[str, Any]:
    """One line of the picture: W1 at each t (rows) for each run (columns)."""
    times = [2**k - (name == BEFORE) for k in range(8, LAST[d] + 1)]
    stream = STREAMS[kind](2 ** LAST[d], d)
    found: list[list[float]] = [[] for _ in times]
    rates = list[float]()
    for seed in range(1 if name == BLIND else SEEDS[d]):
        rates = []
        for row, (real, made, rate) in zip(found, releases(stream, times, name, seed), strict=True):
            row.append(distance(real, made, SIDE[d]))
            rates.append(rate)
    return {"d": d, "stream": kind, "name": name, "t": times, "w1": found, "rate": rates}


def slope(t: list[int], y: list[float]) -> tuple[float, float]:
    """Of the least-squares line through log y against log t, with its standard error, over the larger t."""
    keep = [i for i, time in enumerate(t) if time >= FIT_FROM - 1]
    u, v = np.log([t[i] for i in keep]), np.log([y[i] for i in keep])
    u -= u.mean()
    b = float(u @ v / (u @ u))
    residual = v - v.mean() - b * u
    return b, float(np.sqrt(residual @ residual / (len(u) - 2) / (u @ u)))


def means(line: dict[str, Any]) -> list[float]:
    return [float(np.mean(row)) for row in line["w1"]]


def draw(found: dict[str, Any]) -> None:
    """W1 against t by dimension and stream."""
    dimensions = sorted({one["d"] for one in found["curves"]})
    with picture("theorem", len(KINDS), len(dimensions), (4.6 * len(dimensions), 8.4)) as axes:
        for one in found["curves"]:
            panel = axes[KINDS.index(one["stream"])][dimensions.index(one["d"])]
            colour, style = CURVES[one["name"]]
            mean, spread = means(one), [np.std(row) for row in one["w1"]]
            panel.errorbar(one["t"], mean, spread, fmt=style, color=colour, ms=4, capsize=2, label=one["name"])
            if one["name"] == BEFORE:
                at = next(i for i, t in enumerate(one["t"]) if t >= FIT_FROM - 1)
                scaled = np.array(one["rate"]) * mean[at] / one["rate"][at]
                panel.plot(one["t"], scaled, "k--", lw=1, label="the rate of the theorem, through one red point")
            panel.set(xscale="log", yscale="log", xlabel="t", ylabel="W1", title=f"d = {one['d']}, {one['stream']}")


def page(found: dict[str, Any]) -> str:
    """The page in Markdown."""
    size, slopes, ends, verdicts = found["size"], [], [], {}
    for d in map(int, size["last"]):
        for kind in KINDS:
            here = {one["name"]: one for one in found["curves"] if (one["d"], one["stream"]) == (d, kind)}
            row = [str(d), kind]
            for name in (BEFORE, AFTER, PMM):
                (b, error), (theory, _) = (slope(here[name]["t"], y) for y in (means(here[name]), here[name]["rate"]))
                row += [f"{b:.2f} ± {error:.2f}", f"{theory:.2f}"]
                verdicts[f"{name}, {kind}, d = {d}"] = b <= theory + 2 * error
            slopes.append(row)
            before, after, offline, blind = (means(here[name])[-1] for name in CURVES)
            ratios = [before / offline, after / offline, before / blind]
            ends.append([str(d), kind, *map(number, ratios)])
    runs, largest = (", ".join(f"{n} (d = {d})" for d, n in size[of].items()) for of in ("seeds", "last"))
    flatter = [place for place, steep in verdicts.items() if not steep]
    head = ["d", "stream", "last step", "rate", "first step", "rate", "offline PMM", "rate"]
    at_end = ["d", "stream", "last step / PMM", "first step / PMM", "last step / no data read"]
    return f"""# Does the error fall as the theorem says?

In {len(verdicts) - len(flatter)} of {len(verdicts)} cases W1 falls as steeply as the rate of the theorem, or within two
standard errors of it; not in: {"; ".join(flatter) or "none"}.

![W1 against t, with the rate of the theorem](theorem.png)

Slopes of log W1 against log t for t ≥ {FIT_FROM:,}, with the standard error of the fit, and the slope of the rate:

{table(head, slopes, "lr")}
The theorem bounds E W1 by an unknown constant times a rate, `log(t)·(εt)^(-1/d)` for d ≥ 2 and
`log³(εt)·log^1.5(t)/(εt)` for d = 1, so only slopes can be compared, over a short range.

**The moment matters.** At t = 2^k the noisy total of a level replaces what Algorithm 2 had counted of it. Before, most
cells have not reached its threshold, and this half of the stream is published spread evenly.

## At the largest t

{table(at_end, ends, "lr")}
## How it was measured

ε = {EPSILON:g}. Runs with fresh noise on one fixed stream: {runs}. Largest exponent of t: {largest}. W1 is
exact in d = 1 and up to t = {EXACT_BELOW:,}, otherwise on a grid of {size["side"]["2"]}² or {size["side"]["3"]}³ cells.
Made by `python -m benchmarks.theorem` in {found["seconds"] / 60:.0f} minutes; every point is in `theorem.json`.
"""


def main() -> None:
    warnings.simplefilter("ignore", hw.SeededRunWarning)
    start = time.perf_counter()
    plan = [(d, kind, name) for d in LAST for kind in KINDS for name in CURVES]
    curves = [curve(*one) for one in track(plan, "curves")]
    size = {"last": LAST, "seeds": SEEDS, "side": SIDE}
    publish("theorem", {"seconds": round(time.perf_counter() - start), "size": size, "curves": curves}, page, draw)


if __name__ == "__main__":
    main()
