"""What wide tables cost: ingestion, releases, drawing and the state, beside bare NumPy in the same run."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from benchmarks.clock import in_turns, seconds
from benchmarks.tables.cases import CASCADE, PLAIN, Case
from benchmarks.tables.data import Codes, table

RUNS = (("flights", PLAIN), ("health", PLAIN), ("flights", CASCADE))
BATCH, REPEATS, BINS = 8_192, 2, 16


def measure_costs() -> list[dict[str, Any]]:
    """Seconds of the processor, one thread, at the end of each table; the least of some runs."""
    return [cost(*run) for run in RUNS]


def cost(name: str, method: str) -> dict[str, Any]:
    """Taking all records from data frames, a release after new records, drawing from it; and their baselines."""
    whole = table(name)
    case, codes, rng = Case(name, len(whole), method, 0), whole.codes(BINS), np.random.default_rng(0)
    frames = [whole.frame.iloc[i : i + BATCH] for i in range(0, len(whole), BATCH)]
    synthesizer = case.synthesizer()

    def update() -> None:
        nonlocal synthesizer
        synthesizer = case.synthesizer()
        for frame in frames:
            synthesizer.update(frame)

    def release() -> None:
        synthesizer.release()

    bare = {
        "count_all": lambda: count(codes, whole.sizes(BINS)),
        "random": lambda: rng.random(codes.shape),
    }
    best = {side: min(times) for side, times in in_turns({"update": update, **bare}, REPEATS).items()}
    releases, draws = [], []
    for at in range(REPEATS):
        synthesizer.update(whole.frame.iloc[at : at + 1])
        releases.append(seconds(release))
        draws.append(seconds(synthesizer.release().points))
    found = {"table": name, "method": method, "state": len(synthesizer.to_bytes()) / codes.size}
    return found | best | {"release": min(releases), "draw": min(draws)}


def count(codes: Codes, sizes: list[int]) -> None:
    """One-way marginals and those of all pairs, batch by batch, from codes."""
    small = codes.astype(np.uint16)
    for at in range(0, len(small), BATCH):
        columns = list(np.ascontiguousarray(small[at : at + BATCH].T).astype(np.int64))
        for column, size in zip(columns, sizes, strict=True):
            np.bincount(column, minlength=size)
        for i, j in combinations(range(len(sizes)), 2):
            np.bincount(columns[i] * sizes[j] + columns[j], minlength=sizes[i] * sizes[j])
