"""Which event distinguishes two streams best: found on some runs, to be measured on others.

A run is seen as a row of *features*: numbers or words that somebody could publish. Each feature is cut into bins. An
event says that the scores of a run's bins add up to at least a threshold. That covers "this count is at least 7",
"this count is exactly 3", and the likelihood ratio of many features at once, taken as if they were independent (naive
Bayes): the strongest attack that needs no knowledge of the mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.public.budget import Guarantee

Value = float | int | str | bool | None
Columns = Mapping[str, Sequence[Value]]  # feature → its value in every run
Floats = NDArray[np.float64]
Bins = NDArray[np.int64]

BINS = 48  # at most so many a feature
TOGETHER = (2, 4, 8, 16, 1 << 30)  # so many features are scored together, the best ones first
_Z = 3.0  # standard deviations that an event must be sure by while events are compared


@dataclass(frozen=True)
class Cut:
    """How one feature is cut into bins: at and between edges, then words by name. The last bin is everything else."""

    edges: tuple[float, ...] = ()
    words: tuple[str, ...] = ()

    @staticmethod
    def of(values: Sequence[Value]) -> Cut:
        numbers = [float(v) for v in values if _is_number(v)]  # type: ignore[arg-type]
        words, counts = np.unique([_word(v) for v in values if not _is_number(v)] or [""], return_counts=True)
        frequent = tuple(sorted(words[np.argsort(-counts, kind="stable")[:BINS]].tolist()))
        found = np.unique(numbers)
        if len(found) > BINS:
            found = np.unique(np.quantile(numbers, np.linspace(0, 1, BINS), method="nearest"))
        return Cut(tuple(found.tolist()), frequent)

    @property
    def size(self) -> int:
        return 2 * len(self.edges) + 1 + len(self.words) + 1

    def bins(self, values: Sequence[Value]) -> Bins:
        names = {word: 2 * len(self.edges) + 1 + i for i, word in enumerate(self.words)}
        found = np.array([-1 if _is_number(v) else names.get(_word(v), self.size - 1) for v in values], dtype=np.int64)
        numeric = found < 0
        if numeric.any():
            numbers = np.array([float(v) for v, is_number in zip(values, numeric, strict=True) if is_number])  # type: ignore[arg-type]
            below, upto = (np.searchsorted(self.edges, numbers, side=side) for side in ("left", "right"))
            found[numeric] = below + upto  # even between two edges, odd on one
        return found

    def named(self, chosen: NDArray[np.bool_]) -> str:
        """The values among the chosen bins that have one of their own; of many numbers, the first and the last."""
        numbers = [f"{edge:.6g}" for edge, is_in in zip(self.edges, chosen[1::2], strict=False) if is_in]
        texts = zip(self.words, chosen[2 * len(self.edges) + 1 :], strict=False)
        numbers = [*numbers[:1], "…", *numbers[-1:]] if len(numbers) > 2 else numbers
        return ", ".join([*numbers, *(word or "absent" for word, is_in in texts if is_in)]) or "anything else"


@dataclass(frozen=True)
class Event:
    """The scores of a run's features add up to at least a threshold: more often on the stream ``likelier``, 0 or 1."""

    features: tuple[str, ...]
    cuts: tuple[Cut, ...]
    scores: tuple[Floats, ...]
    threshold: float
    likelier: int

    def holds(self, columns: Columns) -> NDArray[np.bool_]:
        total = sum(s[c.bins(columns[f])] for f, c, s in zip(self.features, self.cuts, self.scores, strict=True))
        return np.asarray(total >= self.threshold - 1e-12)

    def __str__(self) -> str:
        if len(self.features) == 1:
            return f"{self.features[0]} is {self.cuts[0].named(self.scores[0] >= self.threshold - 1e-12)}"
        names = ", ".join(self.features[:3]) + (f" and {len(self.features) - 3} more" if len(self.features) > 3 else "")
        return f"log ratio of ({names}) ≥ {self.threshold:.3g}"


def best_event(fit: Sequence[Columns], choose: Sequence[Columns], claim: Guarantee | None = None) -> Event:
    """The event, made from some runs and picked by others, that gives the largest bound on ε, or on a claimed δ."""
    epsilon = claim.epsilon if claim and claim.delta else None
    names = sorted(set(fit[0]) & set(fit[1]) & set(choose[0]) & set(choose[1]))
    if not names:
        raise ValueError("the runs have no feature in common: there is nothing to look at")
    cuts = {name: Cut.of([*fit[0][name], *fit[1][name]]) for name in names}
    bins = {name: [cuts[name].bins(side[name]) for side in choose] for name in names}
    ratio = {name: _log_ratio([cuts[name].bins(side[name]) for side in fit], cuts[name].size) for name in names}

    def event(some: Sequence[str], scores: Sequence[Floats]) -> Iterator[tuple[float, Event]]:
        sums = [np.sum([s[bins[name][side]] for name, s in zip(some, scores, strict=True)], axis=0) for side in (0, 1)]
        for side, sign in ((0, 1.0), (1, -1.0)):
            value, threshold = _threshold(sign * sums[side], sign * sums[1 - side], epsilon)
            signed = tuple(sign * s for s in scores)
            yield value, Event(tuple(some), tuple(cuts[name] for name in some), signed, threshold, side)

    def alone(name: str) -> tuple[float, Event]:
        """At least, at most, or the likelihood ratio."""
        upwards = np.arange(cuts[name].size, dtype=float)
        upwards[2 * len(cuts[name].edges) + 1 :] = -1.0  # words are no numbers
        downwards = np.where(upwards < 0, -1.0, len(upwards) - upwards)
        found = [one for scores in (ratio[name], upwards, downwards) for one in event([name], [scores])]
        return max(found, key=lambda one: one[0])

    single = {name: alone(name) for name in names}
    ranked = sorted(names, key=lambda name: -single[name][0])
    found = [single[ranked[0]]]
    for some in (ranked[:count] for count in TOGETHER if count <= len(ranked) or count == TOGETHER[-1]):
        found += event(some, [ratio[name] for name in some])
    return max(found, key=lambda one: one[0])[1]


def _log_ratio(bins: Sequence[Bins], size: int) -> Floats:
    """The log likelihood ratio of every bin, with half a run more in each so that none is infinite."""
    used = np.bincount(np.concatenate(bins), minlength=size) > 0
    one, other = (np.bincount(side, minlength=size) + 0.5 for side in bins)
    value: Floats = np.log(one / one[used].sum()) - np.log(other / other[used].sum())
    return np.where(used, value, 0.0)


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


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and not math.isnan(value)


def _word(value: Value) -> str:
    return "" if value is None else str(value)
