"""The exact loss of Algorithm 2: where a sparse counter cuts its steps, with what probability."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import ClassVar

import numpy as np

from headwater.audit.exact import Script, linear_loss, log_pmf
from headwater.public.budget import Ledger
from headwater.secret.counters import HybridCounter, SparseCounter
from headwater.secret.noise import NoiseStream

Cuts = tuple[tuple[int, int], ...]  # the step of every seal, and the count that was sealed
States = dict[tuple[Cuts, int], tuple[SparseCounter, float]]
"""For cuts and threshold noise, a counter and its probability."""
_FAR = 1 << 12  # a noise value beyond every threshold


class Bare:
    """A sub-counter without noise: it shows the sealed counts themselves."""

    given: ClassVar[float] = 0.0  # the budget that the last one was made with

    def __init__(self, *, epsilon: float, noise: NoiseStream) -> None:
        self.epsilon, self.count, self.sealed = epsilon, 0, 0
        Bare.given = epsilon

    def add(self, increment: int) -> None:
        """Take a sealed count."""
        self.count += increment
        self.sealed += 1

    def budget(self) -> Ledger:
        """It has none."""
        raise NotImplementedError("a counter without noise has no budget")

    def error_bound(self, beta: float = 0.05) -> float:
        """It makes no error."""
        return 0.0


def sealings(
    make: Callable[[Script], SparseCounter], values: Sequence[int], horizon: int, reach: int
) -> dict[tuple[int, ...], dict[Cuts, float]]:
    """For every stream of these increments, the exact probability of each way of cutting its steps into segments.

    ``make`` must give the counter the sub-counter `Bare`. Threshold noise is summed over ``±reach``. What a state does
    with a test's noise is found by trying values, so nothing of the counter's rule is repeated here.
    """
    start: States = {}
    for value in range(-reach, reach + 1):
        script = Script([value])
        counter = make(script)
        start[(), value] = counter, _pmf(value, script.scales[0])
    known, laws = dict[object, int](), dict[tuple[int, ...], dict[Cuts, float]]()

    def visit(stream: tuple[int, ...], states: States) -> None:  # streams share what is known of their beginning
        if len(stream) < horizon:
            for increment in values:
                visit((*stream, increment), _stepped(states, len(stream) + 1, increment, reach, known))
            return
        law = laws[stream] = dict[Cuts, float]()
        for (cuts, _), (_, chance) in states.items():
            law[cuts] = law.get(cuts, 0.0) + chance

    visit((), start)
    return laws


def _stepped(states: States, step: int, increment: int, reach: int, known: dict[object, int]) -> States:
    """All states after one more step."""
    following: States = {}
    leaving: dict[Cuts, tuple[SparseCounter, float]] = {}
    for (cuts, value), (counter, chance) in states.items():
        inside = (increment, *(item for item in vars(counter).items() if item[0] not in ("_noise", "_sub")))
        if inside not in known:
            known[inside] = _turning_point(counter, increment)
        stayed, scales, _ = _tried(counter, increment, known[inside])
        following[cuts, value] = stayed, chance * _at_most(known[inside], scales[0])
        left, total = leaving.get(cuts, (counter, 0.0))
        leaving[cuts] = left, total + chance * _at_most(-known[inside] - 1, scales[0])
    for cuts, (counter, chance) in leaving.items():
        for value in range(-reach, reach + 1):
            opened, scales, _ = _tried(counter, increment, _FAR, value)
            here = (*cuts, (step, opened.count - counter.count))
            following[here, value] = opened, chance * _pmf(value, scales[1])
    return following


@cache
def _pmf(value: int, scale: float) -> float:
    return math.exp(float(log_pmf(np.array(value), scale)))


def sparse_loss(
    horizon: int, epsilon: float, constant: float, sparse: type[SparseCounter] = SparseCounter
) -> tuple[float, float]:
    """The exact loss of where a sparse counter cuts, and of that with its counts, over all streams of zeros and ones.

    Given the cuts, the sub-counter's noise is independent of everything else, so the largest ratio of both together
    is the largest sum of the two.
    """

    def make(noise: Script) -> SparseCounter:
        return sparse(horizon, epsilon=epsilon, constant=constant, sub=Bare, noise=noise)

    def sub_loss(seals: int) -> float:
        if seals not in known:
            known[seals] = linear_loss(lambda noise: HybridCounter(epsilon=given, noise=noise), seals)
        return known[seals]

    make(Script())
    known, given = {0: 0.0}, Bare.given  # what the counter hands to its sub-counter, whatever it claims
    reach = horizon + math.ceil(24 * 2 / epsilon)
    laws = sealings(make, (0, 1), horizon, reach)
    worst_cuts = worst_both = 0.0
    for x, step in itertools.product(laws, range(horizon)):
        if x[step]:
            continue
        by_steps = {tuple(s for s, _ in cuts): (cuts, p) for cuts, p in laws[*x[:step], 1, *x[step + 1 :]].items()}
        for cuts, chance in laws[x].items():
            other, other_chance = by_steps[tuple(s for s, _ in cuts)]
            moved = sum(abs(a - b) for (_, a), (_, b) in zip(cuts, other, strict=True))
            ratio = abs(math.log(chance) - math.log(other_chance))
            worst_cuts = max(worst_cuts, ratio)
            worst_both = max(worst_both, ratio + moved * sub_loss(len(cuts)))
    return worst_cuts, worst_both


def _at_most(z: int, scale: float) -> float:
    """``P(Z ≤ z)``."""
    q = math.exp(-1 / scale)
    return q**-z / (1 + q) if z < 0 else 1 - q ** (z + 1) / (1 + q)


def _turning_point(counter: SparseCounter, increment: int) -> int:
    """The largest test noise that leaves the segment open."""
    low, high = -_FAR, _FAR
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _tried(counter, increment, middle)[2] else (middle, high)
    return low


def _tried(counter: SparseCounter, increment: int, *values: int) -> tuple[SparseCounter, list[float], bool]:
    """A copy of the counter after one more step with these noise values, the scales drawn, and whether it sealed."""
    after, script = copy.copy(counter), Script(values)
    before: Bare = counter._sub  # type: ignore[assignment]
    after._noise, sub = script, copy.copy(before)
    after._sub = sub
    after.add(increment)
    return after, script.scales, sub.sealed > before.sealed
