"""How fast is exact noise? Headwater against OpenDP (exact) and numpy (not exact), side by side in one run.

    python -m benchmarks.noise

Gaussian noise has the variance that the Laplace noise has. OpenDP is asked for whole vectors, its fastest way. Its
draws are counted in thousands because they cost about the same each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import opendp.prelude as dp

from benchmarks.clock import in_turns
from benchmarks.pages import Figure, failed, judged, publish, table
from headwater.secret.noise import Noise

SCALE = 25.0
DRAWS = 1_000_000
OPENDP_DRAWS = 20_000
REPEATS = 9
CELLS = (64, 256, 1024, 4096, 65536)  # of tables
SCALES = (0.7, 2.0, 8.0, 25.0, 100.0, 300.0, 1000.0, 30000.0)  # of the Laplace noise in them
LAPLACE, GAUSSIAN = "headwater", "headwater, Gaussian"


def medians(sides: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Over repeats in turns, after one that is not counted."""
    return {name: median(times[1:]) for name, times in in_turns(sides, 1 + repeats).items()}


def nanoseconds() -> dict[str, float]:
    """For one draw, by who draws."""
    dp.enable_features("contrib")
    noise, addresses = Noise(), np.arange(DRAWS, dtype=np.uint64)
    laplace = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), SCALE)
    zeros, sigma = [0] * OPENDP_DRAWS, math.sqrt(2) * SCALE
    normal = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), sigma)
    rng, p = np.random.default_rng(), -math.expm1(-1 / SCALE)
    sides: dict[str, Callable[[], object]] = {
        LAPLACE: lambda: noise.laplace_at(SCALE, 0, addresses),
        GAUSSIAN: lambda: noise.gaussian_at(sigma, 0, addresses),
        "opendp": lambda: laplace(zeros),
        "opendp, Gaussian": lambda: normal(zeros),
        "numpy, not exact": lambda: rng.geometric(p, DRAWS) - rng.geometric(p, DRAWS),
    }
    draws = {name: OPENDP_DRAWS if name.startswith("opendp") else DRAWS for name in sides}
    return {name: 1e9 * time / draws[name] for name, time in medians(sides, REPEATS).items()}


def ratio(scale: float, cells: int) -> float:
    """The time of a table of Gaussian noise over that of a table of Laplace noise of the same variance."""
    noise, addresses = Noise(), np.arange(cells, dtype=np.uint64)
    often = range(max(1, 20_000 // (cells + 200)))
    times = medians(
        {
            LAPLACE: lambda: [noise.laplace_at(scale, 0, addresses) for _ in often],
            GAUSSIAN: lambda: [noise.gaussian_at(math.sqrt(2) * scale, 0, addresses) for _ in often],
        },
        3 * REPEATS,
    )
    return times[GAUSSIAN] / times[LAPLACE]


def figures(found: dict[str, Any]) -> list[Figure]:
    """What is asked."""
    draw = found["nanoseconds"]
    tables = {f"scale {one['scale']:g}, {one['cells']:,} cells": one["ratio"] for one in found["tables"]}
    return [
        Figure("time of OpenDP / of Headwater, Laplace", draw["opendp"] / draw[LAPLACE], "×", at_least=50),
        Figure("time of OpenDP / of Headwater, Gaussian", draw["opendp, Gaussian"] / draw[GAUSSIAN], "×", at_least=50),
        Figure("time of a table of Gaussian / of Laplace noise of its variance", tables, "×", at_most=3),
    ]


def page(found: dict[str, Any]) -> str:
    """The page in Markdown."""
    draws = found["nanoseconds"].items()
    rows = [(name, f"{each:.0f}", f"{each / found['nanoseconds'][LAPLACE]:.2f}") for name, each in draws]
    return f"""# What a draw of noise costs

{judged(figures(found))}
A million draws of standard deviation {math.sqrt(2) * SCALE:.0f} (OpenDP: {OPENDP_DRAWS:,}, as one vector):

{table(["", "ns a draw", "Headwater = 1"], rows, "lr")}
Seconds of the processor, medians of repeats in turns in one process.
Tables have {CELLS[0]} to {CELLS[-1]:,} cells and scales from {SCALES[0]:g} to {SCALES[-1]:,g}. Made by
`python -m benchmarks.noise`; the ratio for each of them is in `noise.json`.
"""


def main() -> None:
    tables = [{"scale": scale, "cells": cells, "ratio": ratio(scale, cells)} for scale in SCALES for cells in CELLS]
    found = {"nanoseconds": nanoseconds(), "tables": tables}
    publish("noise", found, page)
    if failed(figures(found)):
        raise SystemExit("a bound was missed")


if __name__ == "__main__":
    main()
