"""What an audit found, and the report of it as Markdown and JSON.

Formal guarantees
-----------------
An experiment's runs are split in two. One half chooses an event and the stream on which it should be likelier; the
other half only counts it. So one event is tested in one direction, and ``Finding.lower``, made of two Clopper–Pearson
bounds at ``alpha/2`` each (`lower` and `upper`: each is wrong with a probability of at most its ``alpha``, whatever the
true one is and however many runs there are), exceeds the true ε of the pair with a probability of at most ``alpha``:
0.1% at 99.9%. With a δ it is about the ε at the claimed δ, and ``delta_lower`` about the δ at the claimed ε.
An audit of ``m`` experiments raises an *alarm* only by ``certain``, the same bound at ``alpha/m``: whatever the
experiments have in common, a sound mechanism is accused by the whole audit with a probability of at most ``alpha``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from headwater.audit.events import Columns, Value, best_event
from headwater.audit.experiments import Draws, Experiment
from headwater.markdown import table

try:
    from scipy.special import betainccinv, betaincinv
except ImportError as error:  # when the audit is imported, not after an hour of it
    raise ImportError("the audit needs SciPy, which is not installed: pip install 'headwater[audit]'") from error

ALPHA = 0.001
"""One minus the confidence, 99.9%."""
LEAST = 8
"""Runs on each stream: half of them choose an event, the others count it."""


@dataclass(frozen=True)
class Finding:
    """One experiment's result: ``lower`` for it alone, ``certain`` for all experiments of the audit at once."""

    name: str
    mechanism: str
    claimed: float
    delta: float
    lower: float
    delta_lower: float
    certain: float
    runs: int
    hits: tuple[int, int]
    event: str

    @property
    def alarm(self) -> bool:
        return self.certain > self.claimed


@dataclass(frozen=True)
class ExactFinding:
    """A loss that was computed, not sampled; ``None`` where a check raised an alarm, and ``how`` is what that says."""

    name: str
    claimed: float
    loss: float | None
    how: str

    @property
    def alarm(self) -> bool:
        """Whether the claim is refuted. The slack is for the auditor's own floating point."""
        return self.loss is None or self.loss > self.claimed * (1 + 1e-9)


def judge(experiment: Experiment | Draws, columns: Sequence[Columns], *, experiments: int = 1) -> Finding:
    """Pick the strongest event on half of the runs of two streams, and measure it on the other half."""
    runs = min((len(values) for side in columns for values in side.values()), default=0)
    if runs < LEAST:
        raise ValueError(f"{runs} runs are too few to choose an event and to measure it")
    quarter, half = runs // 4, runs // 2
    claim = experiment.claim
    event = best_event(_rows(columns, 0, quarter), _rows(columns, quarter, half), claim)
    held = [int(event.holds(side).sum()) for side in _rows(columns, half, runs)]
    hits, counted = (held[event.likelier], held[1 - event.likelier]), (runs - half, runs - half)
    return Finding(
        name=experiment.name,
        mechanism=experiment.mechanism,
        claimed=claim.epsilon,
        delta=claim.delta,
        lower=epsilon_lower(hits, counted, ALPHA, claim.delta),
        delta_lower=delta_lower(hits, counted, ALPHA, claim.epsilon),
        certain=epsilon_lower(hits, counted, ALPHA / experiments, claim.delta),
        runs=runs,
        hits=hits,
        event=f"{event} [likelier on stream {'AB'[event.likelier]}]",
    )


def _rows(columns: Sequence[Columns], start: int, end: int) -> list[Mapping[str, Sequence[Value]]]:
    return [{name: values[start:end] for name, values in side.items()} for side in columns]


_SAMPLED = ["experiment", "claimed ε, δ", "lower bound", "runs a stream", "", "event that gave it"]
_EXACT = ["exact check", "claimed ε", "loss", "", "how"]


@dataclass(frozen=True)
class AuditReport:
    """All that an audit found. Print it, or take `to_json`."""

    version: str
    sampled: tuple[Finding, ...]
    exact: tuple[ExactFinding, ...]

    @property
    def alarms(self) -> list[str]:
        """The experiments and checks that refute a claim."""
        found: list[Finding | ExactFinding] = [*self.sampled, *self.exact]
        return [one.name for one in found if one.alarm]

    @property
    def passed(self) -> bool:
        """Whether no claim was refuted."""
        return not self.alarms

    def to_json(self) -> str:
        """One JSON document."""
        found = {
            "headwater": self.version,
            "passed": self.passed,
            "confidence": 1 - ALPHA,
            "note": self._note(),
            "sampled": [asdict(one) | {"alarm": one.alarm} for one in self.sampled],
            "exact": [asdict(one) | {"alarm": one.alarm} for one in self.exact],
        }
        return json.dumps(found, indent=2, ensure_ascii=False)

    def _note(self) -> str:
        m = len(self.sampled)
        return (
            f"Each lower bound holds with {1 - ALPHA:.1%}, for its experiment alone. A claim is refuted only by a "
            f"bound at {1 - ALPHA / max(m, 1):.4%} ({m} experiments): the whole audit accuses a sound mechanism with a "
            f"probability of at most {ALPHA:.2%}."
        )

    def __str__(self) -> str:
        """Tables in Markdown, and a note on what they prove."""
        said = {True: "ALARM", False: "ok"}
        sampled = [[f.name, *_claim(f), f"{f.runs:,}", said[f.alarm], f.event] for f in self.sampled]
        exact = [
            [f.name, f"{f.claimed:g}", "—" if f.loss is None else f"{f.loss:.6f}", said[f.alarm], f.how]
            for f in self.exact
        ]
        last = f"passed: no claim is refuted by {len(sampled)} experiments and {len(exact)} exact checks"
        last = last if self.passed else "ALARM: " + "; ".join(self.alarms)
        tables = [table(head, rows).rstrip() for head, rows in ((_SAMPLED, sampled), (_EXACT, exact)) if rows]
        return "\n\n".join([*tables, *([self._note()] if sampled else []), last])


def _claim(found: Finding) -> tuple[str, str]:
    if not found.delta:
        return f"{found.claimed:g}", f"{found.lower:.3f}"
    return f"{found.claimed:g}, {found.delta:g}", f"{found.lower:.3f}, {found.delta_lower:.3f}"


def lower(hits: int, runs: int, alpha: float) -> float:
    _check(hits, runs, alpha)
    return float(betaincinv(hits, runs - hits + 1, alpha)) if hits else 0.0


def upper(hits: int, runs: int, alpha: float) -> float:
    _check(hits, runs, alpha)
    return float(betainccinv(hits + 1, runs - hits, alpha)) if hits < runs else 1.0


def epsilon_lower(hits: tuple[int, int], runs: tuple[int, int], alpha: float, delta: float = 0.0) -> float:
    p, q = lower(hits[0], runs[0], alpha / 2), upper(hits[1], runs[1], alpha / 2)
    return max(math.log((p - delta) / q), 0.0) if p > delta else 0.0


def delta_lower(hits: tuple[int, int], runs: tuple[int, int], alpha: float, epsilon: float) -> float:
    """A bound on δ by an event, whose hits and runs are those of `epsilon_lower`: it is at least ``p − exp(ε)·q``."""
    p, q = lower(hits[0], runs[0], alpha / 2), upper(hits[1], runs[1], alpha / 2)
    return max(p - math.exp(min(epsilon, 700.0)) * q, 0.0)


def _check(hits: int, runs: int, alpha: float) -> None:
    if not (0 <= hits <= runs and runs > 0 and 0 < alpha < 1):
        raise ValueError(f"no bound for {hits} hits in {runs} runs at alpha = {alpha!r}")
