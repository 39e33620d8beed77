"""The judge that samples: which event distinguishes two streams best is found on some runs, and measured on others.

Formal guarantees
-----------------
A case's runs are split in two. One half chooses an event and the stream on which it should be likelier; the other half
only counts it. So one event is tested in one direction, and ``Finding.lower``, made of two Clopper–Pearson bounds at
``alpha/2`` each (`lower` and `upper`: each is wrong with a probability of at most its ``alpha``, whatever the true one
is and however many runs there are), exceeds the true ε of the pair with a probability of at most ``alpha``: 0.1% at
99.9%. With a δ it is about the ε at the claimed δ, and ``delta_lower`` about the δ at the claimed ε. An audit of ``m``
cases raises an *alarm* only by ``certain``, the same bound at ``alpha/m``: whatever the cases have in common, a sound
mechanism is accused by the whole audit with a probability of at most ``alpha``.

An event says that a score of a run is at least a threshold. Scores are a feature of what was seen, upwards or
downwards, or the log likelihood ratios of several features, taken as if they were independent (naive Bayes): the
strongest attack that needs no knowledge of the mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.audit.cases import Case, Draws
from headwater.audit.view import Value
from headwater.public.budget import Guarantee

try:
    from scipy.special import betainccinv, betaincinv
except ImportError as error:  # when the audit is imported, not after an hour of it
    raise ImportError("the audit needs SciPy, which is not installed: pip install 'headwater[audit]'") from error

ALPHA = 0.001  # one minus the confidence, 99.9%
LEAST = 8  # runs on each stream: half of them choose an event, the others count it
Columns = Mapping[str, Sequence[Value]]  # feature → its value in every run
Floats = NDArray[np.float64]
BINS = 48  # about so many a feature
TOGETHER = (2, 4, 8, 16, 1 << 30)  # so many features are scored together, the best ones first
_Z = 3.0  # standard deviations that an event must be sure by while events are compared


@dataclass(frozen=True)
class Finding:
    """What is known of a claim: a lower bound by sampling, or without runs a loss that was computed."""

    name: str
    claimed: float
    lower: float | None  # None where a check raised an alarm, which is `how`
    certain: float | None  # the same for all cases of the audit at once
    how: str  # the event, or the check
    delta: float = 0.0
    delta_lower: float = 0.0
    runs: int = 0
    hits: tuple[int, int] = (0, 0)

    @property
    def alarm(self) -> bool:
        """Whether the claim is refuted. The slack is for the auditor's own floating point."""
        return self.certain is None or self.certain > self.claimed * (1 + 1e-9)


@dataclass(frozen=True)
class Event:
    """A score is at least a threshold: more often on the stream ``likelier``, 0 or 1."""

    name: str
    score: Callable[[Columns], Floats]
    threshold: float
    likelier: int

    def holds(self, columns: Columns) -> NDArray[np.bool_]:
        return self.score(columns) >= self.threshold - 1e-12

    def __str__(self) -> str:
        return f"{self.name} ≥ {self.threshold:.6g} [likelier on stream {'AB'[self.likelier]}]"


def sample(case: Case | Draws, runs: int, seed: int | None = None, *, among: int = 1) -> Finding:
    return judge(case, [case.columns(side, runs, seed) for side in (0, 1)], among=among)


def judge(case: Case | Draws, columns: Sequence[Columns], *, among: int = 1) -> Finding:
    runs = min((len(values) for side in columns for values in side.values()), default=0)
    if runs < LEAST:
        raise ValueError(f"{runs} runs are too few to choose an event and to measure it")
    quarter, half, claim = runs // 4, runs // 2, case.claim
    event = best_event(_rows(columns, 0, quarter), _rows(columns, quarter, half), claim)
    held = [int(event.holds(side).sum()) for side in _rows(columns, half, runs)]
    hits, counted = (held[event.likelier], held[1 - event.likelier]), (runs - half, runs - half)
    return Finding(
        name=case.name,
        claimed=claim.epsilon,
        lower=epsilon_lower(hits, counted, ALPHA, claim.delta),
        certain=epsilon_lower(hits, counted, ALPHA / among, claim.delta),
        how=str(event),
        delta=claim.delta,
        delta_lower=delta_lower(hits, counted, ALPHA, claim.epsilon) if claim.delta else 0.0,
        runs=runs,
        hits=hits,
    )


def _rows(columns: Sequence[Columns], start: int, end: int) -> list[Columns]:
    return [{name: values[start:end] for name, values in side.items()} for side in columns]


def best_event(fit: Sequence[Columns], choose: Sequence[Columns], claim: Guarantee | None = None) -> Event:
    """The event, made from some runs and picked by others, that gives the largest bound on ε, or on a claimed δ."""
    epsilon = claim.epsilon if claim and claim.delta else None
    names = sorted(set(fit[0]) & set(fit[1]) & set(choose[0]) & set(choose[1]))
    if not names:
        raise ValueError("the runs have no feature in common: there is nothing to look at")

    def best(title: str, score: Callable[[Columns], Floats]) -> tuple[float, Event]:
        sums = [score(side) for side in choose]
        one, other = (_threshold(sums[side], sums[1 - side], epsilon) for side in (0, 1))
        (value, threshold), likelier = (one, 0) if one[0] >= other[0] else (other, 1)
        return value, Event(title, score, threshold, likelier)

    def both(title: str, score: Callable[[Columns], Floats]) -> Iterator[tuple[float, Event]]:
        yield best(title, score)
        yield best(f"−({title})", lambda columns: -score(columns))

    def first(one: tuple[float, Event]) -> float:
        return one[0]

    ratios = {name: _log_ratio([side[name] for side in fit]) for name in names}
    single = {}
    for name in names:
        found = [*both(name, lambda columns, n=name: _numbers(columns[n]))]  # type: ignore[misc]
        found += both(f"log ratio of {name}", lambda columns, n=name: ratios[n](columns[n]))  # type: ignore[misc]
        single[name] = max(found, key=first)
    ranked = sorted(names, key=lambda name: -single[name][0])
    found = [single[ranked[0]]]
    for some in (ranked[:count] for count in TOGETHER if count <= len(ranked) or count == TOGETHER[-1]):
        title = f"log ratio of ({', '.join(some[:3])}{f' and {len(some) - 3} more' if len(some) > 3 else ''})"
        found += both(title, lambda columns, s=some: np.sum([ratios[n](columns[n]) for n in s], axis=0))  # type: ignore[misc]
    return max(found, key=first)[1]


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and not math.isnan(value)


def _numbers(values: Sequence[Value]) -> Floats:
    """Of words, which are below and above all numbers, nothing is known but that."""
    return np.array([float(value) if _is_number(value) else -math.inf for value in values])  # type: ignore[arg-type]


def _bins(values: Sequence[Value]) -> Callable[[Sequence[Value]], NDArray[np.int64]]:
    """A bin at and between each two quantiles, one for each frequent word, and the first for everything else."""
    numbers = [float(v) for v in values if _is_number(v)]  # type: ignore[arg-type]
    edges = np.unique(numbers)
    if len(edges) > BINS:
        edges = np.unique(np.quantile(numbers, np.linspace(0, 1, BINS), method="nearest"))
    words, counts = np.unique([str(v) for v in values if not _is_number(v)] or [""], return_counts=True)
    names = {word: -2 - i for i, word in enumerate(words[np.argsort(-counts, kind="stable")[:BINS]].tolist())}

    def of(values: Sequence[Value]) -> NDArray[np.int64]:
        numbers = _numbers(values)
        found = np.searchsorted(edges, numbers, side="left") + np.searchsorted(edges, numbers, side="right")
        other = [0 if _is_number(v) else names.get(str(v), -1) for v in values]
        return np.where(other, other, found) + len(names) + 1

    return of


def _log_ratio(fit: Sequence[Sequence[Value]]) -> Callable[[Sequence[Value]], Floats]:
    """The log likelihood ratio of every bin, with half a run more in each so that none is infinite."""
    bins = _bins([*fit[0], *fit[1]])
    sides = [bins(side) for side in fit]
    used = np.bincount(np.concatenate(sides)) > 0
    one, other = (np.bincount(side, minlength=len(used)) + 0.5 for side in sides)
    ratio = np.where(used, np.log(one / one[used].sum()) - np.log(other / other[used].sum()), 0.0)
    padded = np.append(ratio, 0.0)  # beyond all that were seen
    return lambda values: padded[np.minimum(bins(values), len(ratio))]


def _threshold(own: Floats, alien: Floats, epsilon: float | None) -> tuple[float, float]:
    """The best "at least" for a score: how sure it is that ``own`` reaches it more often, and the threshold."""
    own, alien = np.sort(own), np.sort(alien)
    levels = np.unique(own)
    if len(levels) > 256:
        levels = levels[np.linspace(0, len(levels) - 1, 256).astype(int)]
    hits = [len(scores) - np.searchsorted(scores, levels - 1e-12) for scores in (own, alien)]
    low, high = _wilson(hits[0], len(own), -1), _wilson(hits[1], len(alien), 1)
    # About the bound that such counts will give, on ε, or on δ at this ε: quick, and only for comparing events.
    if epsilon is None:
        sure = np.log(np.maximum(low, 1e-12)) - np.log(np.maximum(high, 1e-12))
    else:
        sure = low - math.exp(min(epsilon, 700.0)) * high
    best = int(sure.argmax())
    return float(sure[best]), float(levels[best])


def _wilson(hits: NDArray[np.generic], runs: int, sign: int) -> Floats:
    share = np.asarray(hits, dtype=float) / runs
    spread = _Z * np.sqrt(share * (1 - share) / runs + (_Z / (2 * runs)) ** 2)
    value: Floats = (share + _Z * _Z / (2 * runs) + sign * spread) / (1 + _Z * _Z / runs)
    return value


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
