"""How fast is exact noise? Headwater against OpenDP (exact) and numpy (not exact), side by side in one run.

    python -m benchmarks.noise

Writes `docs/benchmarks/noise.md`. Time is that of the processor; repeats are interleaved and medians compared, so what
else the machine does hits all of them alike. Only the ratios mean something elsewhere. Gaussian noise has the variance
that the Laplace noise has. OpenDP is asked for whole vectors, its fastest way: asked for one number at a time it mostly
spends its time on crossing from Python. Its draws are counted in thousands because they cost about the same each.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import opendp.prelude as dp

from headwater.markdown import table
from headwater.secret.noise import Noise

SCALE = 25.0
DRAWS = 1_000_000
OPENDP_DRAWS = 20_000
REPEATS = 9
CELLS = (64, 256, 1024, 4096, 65536)  # of tables
SCALES = (0.7, 2.0, 8.0, 25.0, 100.0, 300.0, 1000.0, 30000.0)  # of the Laplace noise in them
PAGE = Path("docs/benchmarks/noise.md")
WANTED = 50  # times faster than OpenDP
GAUSSIAN = 3  # times the time of Laplace noise, at most


def samplers() -> dict[str, tuple[int, Callable[[], object]]]:
    """How many draws, and what makes them, by name."""
    dp.enable_features("contrib")
    noise, addresses = Noise(), np.arange(DRAWS, dtype=np.uint64)
    vector = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), SCALE)
    zeros, sigma = [0] * OPENDP_DRAWS, math.sqrt(2) * SCALE
    normal = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), sigma)
    rng, p = np.random.default_rng(), -math.expm1(-1 / SCALE)
    return {
        "headwater": (DRAWS, lambda: noise.laplace_at(SCALE, 0, addresses)),
        "headwater, Gaussian": (DRAWS, lambda: noise.gaussian_at(sigma, 0, addresses)),
        "opendp": (OPENDP_DRAWS, lambda: vector(zeros)),
        "opendp, Gaussian": (OPENDP_DRAWS, lambda: normal(zeros)),
        "numpy, not exact": (DRAWS, lambda: rng.geometric(p, DRAWS) - rng.geometric(p, DRAWS)),
    }


def seconds_per_draw() -> dict[str, float]:
    """Median over interleaved repeats, after one that is not counted."""
    contenders = samplers()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(1 + REPEATS):
        for name, (draws, make) in contenders.items():
            start = time.process_time()
            make()
            times[name].append((time.process_time() - start) / draws)
    return {name: median(taken[1:]) for name, taken in times.items()}


def ratios(scale: float) -> list[float]:
    """The time of a table of Gaussian noise over that of a table of Laplace noise of the same variance, by cells."""
    noise, found = Noise(), []
    for cells in CELLS:
        addresses = np.arange(cells, dtype=np.uint64)
        times: tuple[list[float], list[float]] = [], []
        for _ in range(1 + 3 * REPEATS):
            for draw, width, taken in (
                (noise.laplace_at, scale, times[0]),
                (noise.gaussian_at, math.sqrt(2) * scale, times[1]),
            ):
                start = time.process_time()
                for _ in range(max(1, 20_000 // (cells + 200))):
                    draw(width, 0, addresses)
                taken.append(time.process_time() - start)
        found.append(median(times[1][1:]) / median(times[0][1:]))
    return found


def page(cost: dict[str, float], by_scale: dict[float, list[float]]) -> str:
    """The markdown page, made from the numbers alone."""
    draws = [(name, f"{each * 1e9:.0f}", f"{each / cost['headwater']:.2f}") for name, each in cost.items()]
    sizes = [(f"{scale:g}", *(f"{x:.2f}" for x in found)) for scale, found in by_scale.items()]
    worst = max(max(found) for found in by_scale.values())
    return f"""# What a draw of noise costs

Made by `benchmarks/noise.py`: processor time, medians of interleaved repeats in one process. Only ratios mean something
elsewhere.

A million draws of standard deviation {math.sqrt(2) * SCALE:.0f} (OpenDP: {OPENDP_DRAWS:,}, asked for as one vector):

{table(["", "ns a draw", "time, Laplace noise of Headwater = 1"], draws, "lr")}
**Gaussian noise beside Laplace noise.** The time of a table of Gaussian noise, divided by that of a table of Laplace
noise with as many cells and the same variance; wanted: at most {GAUSSIAN}. The largest is {worst:.2f}.

{table(["scale of the Laplace noise", *(f"{cells:,} cells" for cells in CELLS)], sizes, "r")}"""


def main() -> None:
    cost, by_scale = seconds_per_draw(), {scale: ratios(scale) for scale in SCALES}
    text = page(cost, by_scale)
    print(text)
    PAGE.write_text(text)
    ratio = cost["opendp"] / cost["headwater"]
    print(f"headwater is {ratio:.0f} times as fast as opendp (wanted: at least {WANTED})")
    slower = max(max(found) for found in by_scale.values())
    print(f"Gaussian noise takes at most {slower:.2f} times as long as Laplace noise (wanted: at most {GAUSSIAN})")
    if ratio < WANTED or slower > GAUSSIAN:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
