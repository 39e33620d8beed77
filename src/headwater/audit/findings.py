"""What an audit found: for each experiment a lower bound on ε, and the event that gave it.

Formal guarantees
-----------------
An experiment's runs are split in two. One half chooses an event and the stream on which it should be likelier; the
other half only counts it. So one event is tested in one direction, and ``lower``, made of two Clopper–Pearson bounds at
``alpha/2`` each, exceeds the true ε of the pair with a probability of at most ``alpha``: 0.1% at 99.9%. With a δ it is
about the ε at the claimed δ, and ``delta_lower`` about the δ at the claimed ε.
An audit of ``m`` experiments raises an *alarm* only by ``certain``, the same bound at ``alpha/m``: whatever the
experiments have in common, a sound mechanism is accused by the whole audit with a probability of at most ``alpha``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from headwater.audit.bounds import cannot_exceed, delta_lower, epsilon_lower
from headwater.audit.events import Columns, Value, best_event
from headwater.audit.experiments import Experiment

ALPHA = 0.001
"""One minus the confidence, 99.9%."""


@dataclass(frozen=True)
class Finding:
    """One experiment's result.

    ``lower`` is for this experiment alone, ``certain`` for all experiments of the audit at once. ``visible`` is the
    largest bound that so many runs could have given: a claim above it cannot be refuted by them.
    """

    name: str
    mechanism: str
    claimed: float
    delta: float
    lower: float
    delta_lower: float
    certain: float
    estimate: float
    visible: float
    runs: int
    hits: tuple[int, int]
    event: str

    @property
    def alarm(self) -> bool:
        """Whether the claim is refuted."""
        return self.certain > self.claimed

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self) | {"alarm": self.alarm}


def judge(experiment: Experiment, columns: Sequence[Columns], *, experiments: int = 1) -> Finding:
    """Pick the strongest event on half of the runs and measure it on the other half."""
    runs = min((len(values) for side in columns for values in side.values()), default=0)
    if runs < 8:
        raise ValueError(f"{runs} runs are too few to choose an event and to measure it")
    quarter, half = runs // 4, runs // 2
    claim = experiment.claim
    event = best_event(_rows(columns, 0, quarter), _rows(columns, quarter, half), claim)
    held = [int(event.holds(side).sum()) for side in _rows(columns, half, runs)]
    counted = runs - half, runs - half
    hits = held[event.likelier], held[1 - event.likelier]
    estimate = math.log(max(hits[0], 0.5) / max(hits[1], 0.5))
    return Finding(
        experiment.name,
        experiment.mechanism,
        claim.epsilon,
        claim.delta,
        epsilon_lower(hits, counted, ALPHA, claim.delta),
        delta_lower(hits, counted, ALPHA, claim.epsilon),
        epsilon_lower(hits, counted, ALPHA / experiments, claim.delta),
        estimate,
        cannot_exceed(counted[0], ALPHA),
        runs,
        hits,
        f"{event} [likelier on stream {'AB'[event.likelier]}]",
    )


def _rows(columns: Sequence[Columns], start: int, end: int) -> list[Mapping[str, Sequence[Value]]]:
    return [{name: values[start:end] for name, values in side.items()} for side in columns]
