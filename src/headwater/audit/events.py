"""Which event distinguishes two streams best: found on some runs, to be measured on others.

A run is seen as a row of *features*: numbers or words that somebody could publish. Each feature is cut into bins. An
event says that the points which a run's bins score add up to at least a threshold. That covers "this count is at
least 7", "this count is exactly 3", and the likelihood ratio of many features at once, taken as if they were
independent (naive Bayes): the strongest attack that needs no knowledge of the mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from headwater.public.budget import Guarantee

Value = float | int | str | bool | None
Columns = Mapping[str, Sequence[Value]]  # feature → its value in every run
Floats = NDArray[np.float64]
Bins = NDArray[np.int64]

BINS = 48  # at most so many a feature
GREEDY = 5  # features that are put together one by one, the best first
_Z = 3.0  # standard deviations that an event must be sure by while events are compared


@dataclass(frozen=True)
class Cut:
    """How one feature is cut into bins: numbers between edges, words by name. The last bin is everything else."""

    edges: tuple[float, ...] = ()
    words: tuple[str, ...] = ()

    @staticmethod
    def of(values: Sequence[Value]) -> Cut:
        """Bins that suit these values."""
        numbers = [float(v) for v in values if _is_number(v)]  # type: ignore[arg-type]
        words, counts = np.unique([_word(v) for v in values if not _is_number(v)] or [""], return_counts=True)
        frequent = tuple(sorted(words[np.argsort(-counts, kind="stable")[:BINS]].tolist()))
        found = np.unique(numbers)
        if len(found) > BINS:
            found = np.unique(np.quantile(numbers, np.linspace(0, 1, BINS), method="nearest"))
        return Cut(tuple(found.tolist()), frequent)

    @property
    def size(self) -> int:
        """How many bins there are: below, at and above the edges; the words; everything else."""
        return 2 * len(self.edges) + 1 + len(self.words) + 1

    def bins(self, values: Sequence[Value]) -> Bins:
        """The bin of every value. Bins of numbers are in order."""
        names = {word: 2 * len(self.edges) + 1 + i for i, word in enumerate(self.words)}
        found = np.array([-1 if _is_number(v) else names.get(_word(v), self.size - 1) for v in values], dtype=np.int64)
        numeric = found < 0
        if numeric.any():
            numbers = np.array([float(v) for v, is_number in zip(values, numeric, strict=True) if is_number])  # type: ignore[arg-type]
            below, upto = (np.searchsorted(self.edges, numbers, side=side) for side in ("left", "right"))
            found[numeric] = below + upto  # even between two edges, odd on one
        return found

    def describe(self, chosen: Floats) -> str:
        """Which values are in these bins, in words."""
        last = 2 * len(self.edges)
        numeric = np.flatnonzero(chosen[: last + 1])
        parts = [f"is {word or 'absent'!r}" for i, word in enumerate(self.words) if chosen[last + 1 + i]]
        if len(numeric):
            low, high = int(numeric[0]), int(numeric[-1])
            if low == high and low % 2:
                parts.insert(0, f"= {self.edges[low // 2]:.6g}")
            elif low:
                sign = "≥" if low % 2 else ">"
                parts.insert(0, f"{sign} {self.edges[min(low // 2 - (low % 2 == 0), len(self.edges) - 1)]:.6g}")
            elif high < last:
                parts.insert(0, f"{'≤' if high % 2 else '<'} {self.edges[high // 2]:.6g}")
        return " or ".join(parts) or "is anything"


@dataclass(frozen=True)
class Event:
    """The points that a run's features score add up to at least ``threshold``.

    ``likelier`` is the stream, 0 or 1, on which the event was seen more often.
    """

    features: tuple[str, ...]
    cuts: tuple[Cut, ...]
    points: tuple[Floats, ...]
    threshold: float
    likelier: int

    def holds(self, columns: Columns) -> NDArray[np.bool_]:
        """In which runs it happened."""
        score = sum(p[c.bins(columns[f])] for f, c, p in zip(self.features, self.cuts, self.points, strict=True))
        return np.asarray(score >= self.threshold - 1e-12)

    def __str__(self) -> str:
        if len(self.features) == 1 and self.threshold == 1:
            return f"{self.features[0]} {self.cuts[0].describe(self.points[0])}"
        names = ", ".join(self.features[:3]) + (f" and {len(self.features) - 3} more" if len(self.features) > 3 else "")
        return f"log ratio of ({names}) ≥ {self.threshold:.3g}"


def best_event(fit: Sequence[Columns], choose: Sequence[Columns], claim: Guarantee | None = None) -> Event:
    """The event that gives the largest bound on ε; or on δ at the claimed ε, if there is a claim with a δ.

    It is made from the runs of ``fit`` and picked by those of ``choose``; both hold two streams.
    """
    epsilon = claim.epsilon if claim and claim.delta else None
    names = sorted(set(fit[0]) & set(fit[1]) & set(choose[0]) & set(choose[1]))
    if not names:
        raise ValueError("the runs have no feature in common: there is nothing to look at")
    cuts = {name: Cut.of([*fit[0][name], *fit[1][name]]) for name in names}
    fitted = {name: [cuts[name].bins(side[name]) for side in fit] for name in names}
    bins = {name: [cuts[name].bins(side[name]) for side in choose] for name in names}
    ratio = {name: _log_ratio(fitted[name], cuts[name].size) for name in names}
    singles = {name: max(_singles(name, cuts[name], bins[name], epsilon), key=itemgetter(0)) for name in names}
    ranked = sorted(names, key=lambda name: -singles[name][0])
    points = {name: [ratio[name][side] for side in bins[name]] for name in names}

    def together(some: Sequence[str]) -> tuple[float, Event]:
        sums = [np.sum([points[name][side] for name in some], axis=0) for side in (0, 1)]
        found = [_threshold(sums, side, epsilon) for side in (0, 1)]
        side = int(found[1][0] > found[0][0])
        value, threshold = found[side]
        sign = 1.0 if side == 0 else -1.0
        tables = tuple(sign * ratio[name] for name in some)
        return value, Event(tuple(some), tuple(cuts[name] for name in some), tables, threshold, side)

    candidates = [singles[ranked[0]]]
    candidates += [together(ranked[:count]) for count in (2, 4, 8, 16, len(ranked)) if count <= len(ranked)]
    picked: list[str] = []
    while len(picked) < min(GREEDY, len(ranked)):
        value, name = max((together([*picked, name])[0], name) for name in ranked[:40] if name not in picked)
        if picked and value <= together(picked)[0]:
            break
        picked.append(name)
    return max([*candidates, together(picked)], key=itemgetter(0))[1]


def _singles(name: str, cut: Cut, bins: Sequence[Bins], epsilon: float | None) -> list[tuple[float, Event]]:
    """The best of "at least", "at most" and "exactly", for one feature."""
    counts = np.stack([np.bincount(side, minlength=cut.size) for side in bins])
    size = 2 * len(cut.edges) + 1
    sets = [np.arange(cut.size) == i for i in np.flatnonzero(counts.sum(axis=0))]
    for i in range(1, size):
        sets += [np.arange(cut.size) < i, (np.arange(cut.size) >= i) & (np.arange(cut.size) < size)]
    chosen = np.array(sets, dtype=float)
    hits = chosen @ counts.T
    found = []
    for side in (0, 1):
        scores = _sure(hits[:, side], hits[:, 1 - side], (len(bins[side]), len(bins[1 - side])), epsilon)
        best = int(scores.argmax())
        found.append((float(scores[best]), Event((name,), (cut,), (chosen[best],), 1.0, side)))
    return found


def _log_ratio(bins: Sequence[Bins], size: int) -> Floats:
    """The log likelihood ratio of every bin, with half a run more in each so that none is infinite."""
    used = np.bincount(np.concatenate(bins), minlength=size) > 0
    one, other = (np.bincount(side, minlength=size) + 0.5 for side in bins)
    value: Floats = np.log(one / one[used].sum()) - np.log(other / other[used].sum())
    return np.where(used, value, 0.0)


def _threshold(sums: Sequence[Floats], side: int, epsilon: float | None) -> tuple[float, float]:
    """The best "at least" for a score that is high on one stream: how sure it is, and the threshold."""
    own, alien = (np.sort(scores if side == 0 else -scores) for scores in (sums[side], sums[1 - side]))
    levels = np.unique(own)
    if len(levels) > 256:
        levels = levels[np.linspace(0, len(levels) - 1, 256).astype(int)]
    hits = [len(scores) - np.searchsorted(scores, levels - 1e-12) for scores in (own, alien)]
    scores = _sure(hits[0], hits[1], (len(own), len(alien)), epsilon)
    best = int(scores.argmax())
    return float(scores[best]), float(levels[best])


def _sure(
    hits: NDArray[np.generic], alien: NDArray[np.generic], runs: tuple[int, int], epsilon: float | None
) -> Floats:
    """About the bound that such counts will give, on ε, or on δ at this ε: quick, and only for comparing events."""
    low, high = _wilson(hits, runs[0], -1), _wilson(alien, runs[1], 1)
    if epsilon is not None:
        excess: Floats = low - math.exp(min(epsilon, 700.0)) * high
        return excess
    value: Floats = np.log(np.maximum(low, 1e-12)) - np.log(np.maximum(high, 1e-12))
    return value


def _wilson(hits: NDArray[np.generic], runs: int, sign: int) -> Floats:
    share = np.asarray(hits, dtype=float) / runs
    spread = _Z * np.sqrt(share * (1 - share) / runs + (_Z / (2 * runs)) ** 2)
    value: Floats = (share + _Z * _Z / (2 * runs) + sign * spread) / (1 + _Z * _Z / runs)
    return value


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and not math.isnan(value)


def _word(value: Value) -> str:
    return "" if value is None else str(value)
