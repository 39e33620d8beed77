"""What the accuracy benchmark measures: cases, each a mechanism on a stream, and how one is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import headwater as hw
from headwater.evaluate import w1

if TYPE_CHECKING:
    from benchmarks.streams import STREAMS, Points
else:
    from streams import STREAMS, Points

CASCADE, PAPER, PMM, RERUN, BLIND = "cascade", "paper", "pmm", "pmm rerun", "no data read"
MECHANISMS = (CASCADE, PAPER, PMM, RERUN, BLIND)
CHECKPOINTS = 128  # releases among which a rerun PMM must divide ε
EXACT_BELOW = 1_100  # compare all pairs of points up to here
SIDE = {2: 64, 3: 16, 5: 5}  # cells a side of the grid on which larger sets are compared


@dataclass(frozen=True)
class Case:
    """A mechanism on a stream of some length, looked at at some times."""

    stream: str
    d: int
    epsilon: float
    length: int
    times: tuple[int, ...]
    mechanism: str
    seed: int


@dataclass(frozen=True)
class Result:
    """For each time of a case: W1, and what the release said of its own error for each point (NaN: nothing)."""

    w1: list[float]
    spread: list[float]


def run(case: Case) -> Result:
    """Stream and noise both depend on the seed."""
    stream = STREAMS[case.stream](case.length, case.d, case.seed)
    schema = hw.unit_cube(case.d)
    found = Result([], [])
    synth = None
    if case.mechanism in (CASCADE, PAPER):
        synth = hw.Synthesizer(schema, epsilon=case.epsilon, mechanism=case.mechanism, seed=case.seed)
    for t in case.times:
        spread = None
        if case.mechanism == BLIND:
            points = np.random.default_rng([case.seed, t]).random((t, case.d))
        else:
            if synth:
                synth.update(stream[synth.t : t])
                release = synth.release()
            else:
                share = case.epsilon / (CHECKPOINTS if case.mechanism == RERUN else 1)
                release = hw.pmm(stream[:t], schema, epsilon=share, seed=case.seed)
            points, spread = release.points(), release.spread
        found.w1.append(distance(stream[:t], points))
        found.spread.append(float("nan") if spread is None else spread / t)
    return found


def distance(a: Points, b: Points) -> float:
    """W1, measured in the same way for every mechanism."""
    if a.shape[1] == 1 or len(a) <= EXACT_BELOW:
        return w1(a, b).value
    return w1(a, b, method="grid", side=SIDE[a.shape[1]]).value
