"""The exact law of everything that cascade publishes in a tiny run, and samples of it.

The mechanism runs as it is, under noise that makes its published counts come out as chosen (`forced`), through every
choice: so every tree comes from the code, given what was published before. The probability of an output is that of the
noise that it takes, by the definition of integer Laplace noise and with the scales that the code asks for.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import pytest

from headwater.public.cascade import history as history_module
from headwater.public.cascade import plan as thresholds_module
from headwater.public.cascade.counts import NoisyCounts
from headwater.public.cascade.plan import Stage, Timescale, stage_at
from headwater.public.cascade.tree import Tree, possible
from headwater.public.partition import Axis, Partition
from headwater.public.protocol import Span
from headwater.secret import cascade as cascade_module
from headwater.secret.cascade import CascadeMechanism, resolution
from headwater.secret.leaves import count_leaves
from headwater.secret.noise import Noise
from tests.support.counter_law import log_pmf
from tests.support.forced import Draw, Fault, Forced, Integers, Seen, Trees, shape, watching
from tests.support.runs import ask, cube, feed

Lot = tuple[int, ...]
"""Points that come together, as the numbers of their places."""
Stream = tuple[Lot, ...]
Output = tuple[object, ...]
"""All that was published: bucket by bucket, tree by tree, its shape and its counts."""
Law = dict[Output, float]
"""The log probabilities of outputs."""
Choose = Callable[[Draw, Tree], list[Integers]]


@dataclass(frozen=True)
class Tiny:
    """A run to know everything about: ``lots`` says how many points come before each question.

    Without ``stages`` the plan is the shipped one. A lot must lie in one bucket of every timescale: there the order of
    points plays no part, and lots are given in order of place.
    """

    epsilon: float
    places: tuple[tuple[float, ...], ...]
    lots: tuple[int, ...]
    stages: tuple[Stage, ...] = ()
    axes: tuple[Axis, ...] = (Axis(),)
    fixed: int = 0  # so many lots, the first ones, are always at the first place

    @cached_property
    def partition(self) -> Partition:
        return Partition(self.axes)

    @property
    def points(self) -> int:
        return sum(self.lots)

    def stage_at(self, t: int, dimension: int, epsilon: float) -> Stage:
        planned = (stage for stage in self.stages if t < stage.end)
        return next(planned, self.stages[-1]) if self.stages else stage_at(t, dimension, epsilon)

    def size(self, timescale: int, start: int) -> int:
        """Of the bucket that begins there."""
        return self.stage_at(start, len(self.axes), self.epsilon).timescales[timescale].size

    def is_last(self, timescale: int, start: int) -> bool:
        """Whether this bucket is the last to be measured: nothing is chosen by what it says."""
        return timescale == 0 and start + self.size(timescale, start) == self.points

    def streams(self) -> list[list[Lot]]:
        """For each lot, all that it may be."""
        every = [list(itertools.combinations_with_replacement(range(len(self.places)), n)) for n in self.lots]
        return [lots[:1] if i < self.fixed else lots for i, lots in enumerate(every)]

    def box(self, tree: Tree, points: int, reach: int) -> list[Integers]:
        """All counts within ``reach`` of true counts that so many points can have."""
        depth = resolution(self.partition)
        cells = self.partition.cells(np.array(self.places), depth)
        one = [count_leaves(cells[i : i + 1], depth, tree) for i in range(len(cells))]
        true = [np.sum(lot, axis=0) for lot in itertools.combinations_with_replacement(one, points)]
        steps = [range(-reach, reach + 1) if may else (0,) for may in possible(tree, self.partition)]
        around = itertools.product(true, itertools.product(*steps))
        return [np.array(counts) for counts in sorted({tuple((centre + step).tolist()) for centre, step in around})]

    def lumps(self, tree: Tree, points: int) -> list[Integers]:
        """All counts from 0 to all points. Of leaves that cannot hold anything, 0 is published."""
        ranges = [range(points + 1) if may else (0,) for may in possible(tree, self.partition)]
        return [np.array(counts) for counts in itertools.product(*ranges)]

    def start(self, patch: pytest.MonkeyPatch, noise: Noise, fault: Fault | None = None) -> CascadeMechanism:
        """The real mechanism, under this plan."""
        patch.setattr(cascade_module, "stage_at", self.stage_at)
        if self.stages:
            patch.setattr(history_module, "uniform_threshold", coarse_threshold)
            patch.setattr(history_module, "split_thresholds", coarse_thresholds)
        if fault:
            fault(patch)
        return CascadeMechanism(cube(self.partition), self.epsilon, noise)


def coarse_threshold(timescale: Timescale, dimension: int) -> float:
    """Splits are dearer than shipped, so that outputs are few enough to list. Any rule that reads no data will do."""
    times = 10 if dimension == 1 else 12
    return times * math.sqrt(2 / timescale.siblings) * timescale.noise.scale


def coarse_thresholds(timescale: Timescale, dimension: int, deepest: int) -> list[tuple[list[float], float]]:
    fine = coarse_threshold(timescale, dimension)
    steps = [fine * (timescale.size / fine) ** (i / timescale.resolutions) for i in range(timescale.resolutions)]
    if dimension == 1:  # else these few points would always have the same trees
        return [([step] * deepest, math.inf) for step in steps]
    return [(thresholds_module.by_depth(timescale, dimension, deepest, step), math.inf) for step in steps]


def as_output(summary: NoisyCounts, most: int | None) -> Output:
    """A summary as part of an output; of the last one, counts below 0 or above ``most`` are merged."""
    parts = [(shape(part.tree), part.counts if most is None else part.counts.clip(0, most)) for part in summary.parts]
    return tuple(itertools.chain.from_iterable((tree, counts.tobytes()) for tree, counts in parts))


# --- what to choose from ----------------------------------------------------------------------------------


def near(tiny: Tiny, tail: float) -> Choose:
    """A box of outputs, the same for all streams: true counts, and whatever noise makes of them.

    The noise of a count is beyond the box with a probability of at most ``tail``. In the last bucket there is no box:
    nothing is chosen by what it says, and replacing a point changes the probability of a count below 0 by the same
    factor as that of 0, and likewise above the size of the bucket. So its counts are lumped there, and nothing is lost.
    """
    known: dict[tuple[bytes, int, int, bool], list[Integers]] = {}

    def choose(draw: Draw, tree: Tree) -> list[Integers]:
        last, points = tiny.is_last(draw.timescale, draw.start), tiny.size(draw.timescale, draw.start)
        q, reach = math.exp(-1 / draw.scale), 0
        while 2 * q ** (reach + 1) / (1 + q) > tail:
            reach += 1
        key = (shape(tree), points, reach, last)
        if key not in known:
            known[key] = tiny.lumps(tree, points) if last else tiny.box(tree, points, reach)
        return known[key]

    return choose


def far(tiny: Tiny, distance: int) -> Choose:
    """Outputs that no box holds: every count much too small or much too large."""

    def choose(draw: Draw, tree: Tree) -> list[Integers]:
        ends = (
            (0, tiny.size(draw.timescale, draw.start))
            if tiny.is_last(draw.timescale, draw.start)
            else (-distance, distance)
        )
        ranges = [ends if may else (0,) for may in possible(tree, tiny.partition)]
        return [np.array(counts) for counts in itertools.product(*ranges)]

    return choose


class Path:
    """Follows the ``given`` choices, and then takes the first of all choices; ``others`` are what it left out."""

    def __init__(self, choose: Choose, given: tuple[Integers, ...]) -> None:
        self.choose, self.given, self.others = choose, given, list[tuple[Integers, ...]]()
        self.taken: tuple[Integers, ...] = ()

    def __call__(self, draw: Draw, tree: Tree) -> Integers:
        if len(self.taken) < len(self.given):
            choice = self.given[len(self.taken)]
        else:
            choice, *rest = self.choose(draw, tree)
            self.others += [(*self.taken, other) for other in rest]
        self.taken += (choice,)
        return choice


def paths(choose: Choose) -> Iterator[Path]:
    """As many paths as it takes to choose everything, each to be used before the next is asked for."""
    given: list[tuple[Integers, ...]] = [()]
    while given:
        path = Path(choose, given.pop())
        yield path
        given += path.others


# --- the law ----------------------------------------------------------------------------------------------


def log_chance(seen: Seen, tiny: Tiny) -> float:
    """Of the noise in one tree's counts. Leaves that cannot hold anything are published without."""
    scale, last = seen.draw.scale, tiny.is_last(seen.draw.timescale, seen.draw.start)
    most = tiny.size(seen.draw.timescale, seen.draw.start)
    log = 0.0
    for published, true, may in zip(
        seen.published.tolist(), seen.true.tolist(), possible(seen.tree, tiny.partition), strict=True
    ):
        if may and last and published in (0, most):
            # P(Z ≥ k) = q^k/(1 + q) for k ≥ 0, and Z is symmetric.
            log -= abs(published - true) / scale + math.log1p(math.exp(-1 / scale))
        elif may:
            log += log_zero(scale) - abs(published - true) / scale
    return log


@cache
def log_zero(scale: float) -> float:
    return float(log_pmf(np.zeros(1, dtype=np.int64), scale)[0])


def laws(
    tiny: Tiny, choose: Choose, *, fault: Fault | None = None, streams: Sequence[Sequence[Lot]] | None = None
) -> dict[Stream, Law]:
    """For every stream the exact probabilities of all outputs to choose from."""
    noise, streams, found = Forced(None), streams or tiny.streams(), dict[Stream, Law]()
    places, ends = np.array(tiny.places), list[tuple[Output, float]]()

    def published(path: Path, run: Callable[[], NoisyCounts]) -> tuple[NoisyCounts, float]:
        """What a bucket says on a path, and the log probability that it does."""
        noise.publish = path
        noise.seen.clear()
        summary = run()
        return summary, sum(log_chance(seen, tiny) for seen in noise.seen)

    def walk(mechanism: CascadeMechanism, stream: Stream, output: Output, log: float) -> None:
        if len(stream) == len(streams):
            law = found.setdefault(stream, {})
            law[output] = float(np.logaddexp(law[output], log)) if output in law else log
            return
        for lot in streams[len(stream)]:
            for path in paths(choose):
                noise.publish, ends[:] = path, [((), 0.0)]
                twin = feed(mechanism, places[list(lot)])
                ask(twin)
                for further, chance in list(ends):
                    walk(twin, (*stream, lot), output + further, log + chance)

    with watching(noise) as patch:
        mechanism = tiny.start(patch, noise, fault)
        measure = CascadeMechanism._measure

        def measuring(self: CascadeMechanism, timescale: int, span: Span, trees: Trees) -> NoisyCounts:
            outer = noise.publish
            assert isinstance(outer, Path)
            last = tiny.is_last(timescale, span.start)
            most = tiny.size(timescale, span.start) if last else None
            (before, log), ends[:] = ends[0], []
            # After the last bucket nothing is left to be run for each of its outputs.
            for path in paths(choose) if last else [outer]:
                summary, chance = published(path, lambda: measure(self, timescale, span, trees))
                ends.append(((*before, *as_output(summary, most)), log + chance))
            noise.publish = outer
            return summary

        patch.setattr(CascadeMechanism, "_measure", measuring)
        walk(mechanism, (), (), 0.0)
    return found


def neighbours(streams: Sequence[Stream]) -> Iterator[tuple[Stream, Stream]]:
    """All pairs that differ in one point."""
    for one, other in itertools.combinations(streams, 2):
        changed = [(Counter(a) - Counter(b)).total() for a, b in zip(one, other, strict=True) if a != b]
        if changed == [1]:
            yield one, other


# --- samples ----------------------------------------------------------------------------------------------


def sample(tiny: Tiny, stream: Stream, runs: int, seed: int = 0) -> Counter[Output]:
    """What as many runs with real noise publish."""
    found, output, places = Counter[Output](), list[object](), np.array(tiny.places)
    measure = CascadeMechanism._measure

    def measuring(self: CascadeMechanism, timescale: int, span: Span, trees: Trees) -> NoisyCounts:
        summary = measure(self, timescale, span, trees)
        last = tiny.is_last(timescale, span.start)
        output.extend(as_output(summary, tiny.size(timescale, span.start) if last else None))
        return summary

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CascadeMechanism, "_measure", measuring)
        for run in range(runs):
            mechanism = tiny.start(patch, Noise(seed=seed + run))
            output.clear()
            for lot in stream:
                mechanism = feed(mechanism, places[list(lot)])
                ask(mechanism)
            found[tuple(output)] += 1
    return found
