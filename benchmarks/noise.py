"""How fast is exact noise? Headwater against OpenDP (exact) and numpy (not exact), side by side in one run.

    python -m benchmarks.noise

Time is that of the processor; repeats are interleaved and medians compared, so what else the machine does hits all of
them alike. Only the ratios mean something elsewhere. Gaussian noise has the variance that the Laplace noise has. OpenDP
is asked for whole vectors, its fastest way: asked for one number at a time it mostly spends its time on crossing from
Python. Its draws are counted in thousands because they cost about the same each.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import opendp.prelude as dp

from headwater.noise import Noise

SCALE = 25.0
DRAWS = 1_000_000
OPENDP_DRAWS = 20_000
REPEATS = 9
FEW = 256  # draws of a small table, many times over
WANTED = 50  # times faster than OpenDP
GAUSSIAN = 3  # times the time of Laplace noise, at most


def samplers() -> dict[str, tuple[int, Callable[[], object]]]:
    """How many draws, and what makes them, by name."""
    dp.enable_features("contrib")
    noise, addresses = Noise(), np.arange(DRAWS, dtype=np.uint64)
    vector = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), SCALE)
    zeros, sigma = [0] * OPENDP_DRAWS, math.sqrt(2) * SCALE
    normal = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), sigma)
    parts = np.array_split(addresses[: DRAWS // 10], DRAWS // 10 // FEW)
    rng, p = np.random.default_rng(), -math.expm1(-1 / SCALE)
    return {
        "headwater": (DRAWS, lambda: noise.laplace_at(SCALE, 0, addresses)),
        "headwater, Gaussian": (DRAWS, lambda: noise.gaussian_at(sigma, 0, addresses)),
        "headwater, by 256": (DRAWS // 10, lambda: [noise.laplace_at(SCALE, 0, part) for part in parts]),
        "the same, Gaussian": (DRAWS // 10, lambda: [noise.gaussian_at(sigma, 0, part) for part in parts]),
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


def main() -> None:
    cost = seconds_per_draw()
    print(f"integer Laplace noise of scale {SCALE:g}, median of {REPEATS} interleaved repeats\n")
    print(f"{'':20}{'ns a draw':>12}{'million/s':>12}{'time / headwater':>18}")
    for name, each in cost.items():
        print(f"{name:20}{each * 1e9:12.0f}{1e-6 / each:12.2f}{each / cost['headwater']:18.2f}")
    ratio = cost["opendp"] / cost["headwater"]
    print(f"\nheadwater is {ratio:.0f} times as fast as opendp (wanted: at least {WANTED})")
    slower = cost["headwater, Gaussian"] / cost["headwater"], cost["the same, Gaussian"] / cost["headwater, by 256"]
    print(f"Gaussian noise takes {slower[0]:.2f} times as long as Laplace noise (wanted: at most {GAUSSIAN}),", end=" ")
    print(f"{slower[1]:.2f} times in tables of {FEW} cells")
    if ratio < WANTED or slower[0] > GAUSSIAN:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
