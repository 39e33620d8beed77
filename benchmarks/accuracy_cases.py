"""What the accuracy benchmark measures, and how one case of it is run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import headwater as hw
from benchmarks.streams import LENGTH, STREAMS, Points
from headwater.evaluation import w1

CASCADE, PAPER, PMM, RERUN, BLIND = "cascade", "paper", "PMM", "PMM rerun", "no data read"
MECHANISMS = (CASCADE, PAPER, PMM, RERUN, BLIND)
CHECKPOINTS = 128  # releases among which a rerun PMM must divide ε
EXACT_BELOW = 1_100  # compare all pairs of points up to here
EPSILONS = (0.1, 1.0, 4.0)
HEADLINE, GRID, RATE = "headline", "grid", "rate"
# A grid hides errors smaller than its cells, so where t is to be compared with t the points in a cell must be as many.
RATE_SIDE = {(2, 10_000): 21, (2, 1_000_000): 210, (3, 10_000): 9, (3, 1_000_000): 42}
SIDE = {1: 0, 2: 64, 3: 24, 5: 6}
"""Cells along an axis of the grid on which W1 is measured, by dimension; 0 where it is exact."""
THREE, FIVE = (70_000, 100_000, 130_000), (70_000, 85_000, 100_000, 115_000, 130_000)
TIMES = {1: FIVE, 2: FIVE, 3: THREE, 5: FIVE}


SEEDS = {"quick": {1: 5, 2: 3, 3: 3, 5: 3}, "full": {1: 10, 2: 8, 3: 3, 5: 3}}
LENGTHS = {"quick": (1_000, 10_000, 100_000), "full": (1_000, 10_000, 100_000, 1_000_000)}
"""Seeds by dimension, and lengths of streams that are looked at at their end, by how much is measured."""


@dataclass(frozen=True)
class Setting:
    """A mechanism on a stream of some length, looked at at some times; all seeds of it together."""

    group: str
    stream: str
    d: int
    epsilon: float
    length: int
    times: tuple[int, ...]
    mechanism: str
    side: int

    @property
    def weight(self) -> float:
        """How many seconds one seed takes, roughly."""
        return sum(0.1 if t <= EXACT_BELOW else 0.02 + t * 2e-6 + 3e-6 * (self.side**self.d) ** 1.3 for t in self.times)

    def key(self, seed: int) -> str:
        """What a result is kept by."""
        values = [value for name, value in asdict(self).items() if name != "group"]
        return "/".join(map(str, [*values, seed]))


def settings(size: str) -> list[Setting]:
    """The headline first."""
    found: list[Setting] = []

    def add(
        group: str, d: int, stream: str, epsilon: float, length: int, times: tuple[int, ...], names: tuple[str, ...]
    ) -> None:
        side = RATE_SIDE[d, length] if group == RATE else SIDE[d]
        if stream != "flights" or (d <= 3 and length <= 336_776):
            found.extend(Setting(group, stream, d, epsilon, length, times, name, side) for name in names)

    for d in (2, 1, 3, 5):
        for stream in STREAMS:
            add(HEADLINE, d, stream, 1.0, LENGTH, TIMES[d], MECHANISMS)
    for stream in ("uniform", "blobs"):
        for d, length in RATE_SIDE:
            add(RATE, d, stream, 1.0, length, (length,), (CASCADE, PMM))
    for d in SIDE:
        for length in LENGTHS[size]:
            for stream in STREAMS:
                for epsilon in EPSILONS:
                    add(GRID, d, stream, epsilon, length, (length,), MECHANISMS)
    return found


@lru_cache(maxsize=8)
def _stream(name: str, length: int, d: int, seed: int) -> Points:
    return STREAMS[name](length, d, seed)


def run(setting: Setting, seed: int) -> dict[str, Any]:
    """W1 at each time, and what releases of cascade expected it to stay below; all follows from the seed."""
    stream, schema = _stream(setting.stream, setting.length, setting.d, seed), hw.unit_cube(setting.d)
    found: dict[str, Any] = {"w1": [], "upper": []}
    synth = None
    if setting.mechanism in (CASCADE, PAPER):
        synth = hw.Synthesizer(schema, epsilon=setting.epsilon, mechanism=setting.mechanism, seed=seed)
    for t in setting.times:
        if setting.mechanism == BLIND:
            points = np.random.default_rng([seed, t]).random((t, setting.d))
        elif synth is None:
            share = setting.epsilon / (CHECKPOINTS if setting.mechanism == RERUN else 1)
            points = hw.pmm(stream[:t], schema, epsilon=share, seed=seed).points()
        else:
            synth.update(stream[synth.t : t])
            release = synth.release()
            points = release.points()
            if setting.mechanism == CASCADE:
                found["upper"].append(float(f"{release.expected_error().upper:.5g}"))
        found["w1"].append(float(f"{distance(stream[:t], points, setting.side):.5g}"))
    return found


def distance(a: Points, b: Points, side: int) -> float:
    """W1, exact where there are few points and in one dimension, else on a grid."""
    if not side or len(a) <= EXACT_BELOW:
        return w1(a, b).value
    return w1(a, b, method="grid", side=side).value
