"""What the accuracy benchmark measures, and how one case of it is run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

import headwater as hw
from benchmarks.code import fingerprint_of
from benchmarks.streams import LENGTH, STREAMS, Points
from headwater.evaluation import w1

CASCADE, PAPER, PMM, RERUN, BLIND = "cascade", "paper", "PMM", "PMM rerun", "no data read"
MECHANISMS = (CASCADE, PAPER, PMM, RERUN, BLIND)
CHECKPOINTS = 128  # releases among which a rerun PMM must divide ε
EXACT_BELOW = 1_100  # compare all pairs of points up to here
EPSILONS = (0.1, 1.0, 4.0)
HEADLINE, GRID, RATE, CHECK = "headline", "grid", "rate", "check"
RATE_STREAMS = ("uniform", "blobs")
# A grid hides errors smaller than its cells, so where t is to be compared with t the points in a cell must be as many.
RATE_SIDE = {(2, 10_000): 21, (2, 1_000_000): 210, (3, 10_000): 9, (3, 1_000_000): 42}


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
    side: int  # cells along an axis of the grid on which W1 is measured; 0 in d = 1, where it is exact

    @property
    def weight(self) -> float:
        """How many seconds one seed takes, roughly."""
        return sum(0.1 if t <= EXACT_BELOW else 0.02 + t * 2e-6 + 3e-6 * (self.side**self.d) ** 1.3 for t in self.times)


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    name: str
    seeds: dict[int, int]  # by dimension
    side: dict[int, int]  # of the grid
    check: dict[int, int]  # side of another grid, to see what the grid does
    headline: dict[int, tuple[int, ...]]  # times
    lengths: dict[int, tuple[int, ...]]  # of the streams that are looked at at their end


_FIVE, _THREE = (70_000, 85_000, 100_000, 115_000, 130_000), (70_000, 100_000, 130_000)
_SHORT, _LONG = (1_000, 10_000, 100_000), (1_000, 10_000, 100_000, 1_000_000)
QUICK = Size(
    name="quick",
    seeds={1: 5, 2: 3, 3: 3, 5: 3},
    side={1: 0, 2: 64, 3: 24, 5: 5},
    check={2: 128, 3: 32, 5: 6},
    headline={1: _FIVE, 2: _FIVE, 3: _THREE, 5: _THREE},
    lengths={1: _SHORT, 2: _SHORT, 3: _SHORT, 5: _SHORT},
)
FULL = Size(
    name="full",
    seeds={1: 10, 2: 8, 3: 3, 5: 3},
    side={1: 0, 2: 64, 3: 24, 5: 6},
    check={2: 128, 3: 32, 5: 5},
    headline={1: _FIVE, 2: _FIVE, 3: _THREE, 5: _FIVE},
    lengths={1: _LONG, 2: _LONG, 3: _LONG, 5: _LONG},
)


def settings(size: Size) -> list[Setting]:
    """The headline first."""
    found: list[Setting] = []

    def add(
        group: str, stream: str, d: int, epsilon: float, length: int, times: tuple[int, ...], names: tuple[str, ...]
    ) -> None:
        side = RATE_SIDE[d, length] if group == RATE else size.check[d] if group == CHECK else size.side[d]
        if stream != "flights" or (d <= 3 and length <= 336_776):
            found.extend(Setting(group, stream, d, epsilon, length, times, name, side) for name in names)

    for d in sorted(size.seeds, key=lambda d: d != 2):
        for stream in STREAMS:
            add(HEADLINE, stream, d, 1.0, LENGTH, size.headline[d], MECHANISMS)
            if d > 1:
                add(CHECK, stream, d, 1.0, LENGTH, (100_000,), (CASCADE, PAPER, PMM))
    for stream in RATE_STREAMS:
        for d, length in RATE_SIDE:
            add(RATE, stream, d, 1.0, length, (length,), (CASCADE, PMM))
    for d, lengths in size.lengths.items():
        for length in lengths:
            for stream in STREAMS:
                for epsilon in EPSILONS:
                    add(GRID, stream, d, epsilon, length, (length,), MECHANISMS)
    return found


def seeds(size: Size, setting: Setting) -> int:
    """How many streams, each with fresh noise."""
    return 1 if setting.group == CHECK else size.seeds[setting.d]


@dataclass(frozen=True)
class Result:
    """For each time: W1, and what the release said of its own error, for each point (0 if nothing)."""

    w1: list[float]
    spread: list[float]


@lru_cache(maxsize=8)
def _stream(name: str, length: int, d: int, seed: int) -> Points:
    return STREAMS[name](length, d, seed)


def run(setting: Setting, seed: int) -> Result:
    """Stream and noise both follow from the seed."""
    stream, schema = _stream(setting.stream, setting.length, setting.d, seed), hw.unit_cube(setting.d)
    found, synth = Result([], []), None
    if setting.mechanism in (CASCADE, PAPER):
        synth = hw.Synthesizer(schema, epsilon=setting.epsilon, mechanism=setting.mechanism, seed=seed)
    for t in setting.times:
        spread = None
        if setting.mechanism == BLIND:
            points = np.random.default_rng([seed, t]).random((t, setting.d))
        else:
            if synth is None:
                share = setting.epsilon / (CHECKPOINTS if setting.mechanism == RERUN else 1)
                release = hw.pmm(stream[:t], schema, epsilon=share, seed=seed)
            else:
                synth.update(stream[synth.t : t])
                release = synth.release()
            points, spread = release.points(), release.model.state()[0]["spread"]
        found.w1.append(float(f"{_distance(stream[:t], points, setting.side):.5g}"))
        found.spread.append(float(f"{(spread or 0.0) / t:.5g}"))
    return found


def _distance(a: Points, b: Points, side: int) -> float:
    if not side or len(a) <= EXACT_BELOW:
        return w1(a, b).value
    return w1(a, b, method="grid", side=side).value


def key(setting: Setting, seed: int, *, code: bool) -> str:
    """What a remembered result is found by; with the code, it is forgotten when its mechanism changes."""
    epsilon = 0.0 if setting.mechanism == BLIND else setting.epsilon
    parts = [setting.stream, setting.d, epsilon, setting.length, setting.times, setting.mechanism, setting.side, seed]
    return "/".join(map(str, parts)) + ("/" + fingerprint_of(setting.mechanism) if code else "")
