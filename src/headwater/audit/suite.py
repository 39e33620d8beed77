"""Which experiments make up an audit: worst cases picked by hand, and pairs found at random."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from headwater.audit.experiments import Experiment
from headwater.audit.streams import KINDS, TABLE, Pair, crowd, heap, increments, kind_of_pair, random_pair, replaced
from headwater.counters.levels import level_start
from headwater.synthesizer import Synthesizer
from headwater.table.unit_cube import unit_cube

SHORT = 200  # streams are no longer than this unless the first bucket is
SIZES: dict[str, int] = {"quick": 1_000, "standard": 4_000, "full": 20_000}
"""Runs on each stream of a pair."""


def cascade(dimension: int, epsilon: float, *, watched: str = "cascade") -> Iterator[Experiment]:
    """The first point; the last step of a bucket of every speed, and the step after; points on cuts and faces."""
    stages = Synthesizer(unit_cube(dimension), epsilon=epsilon).plan(until=SHORT).stages
    first, slow = stages[0].end, stages[1].timescales[0].size
    cases = [
        ("corner", "the first point", 0, (1, first), ()),
        ("corner", "last step of the first bucket", first - 1, (first - 1, first, first + slow), (slow,)),
        ("cut", "last step of the first bucket", first - 1, (first,), ()),
        ("face", "last step of the first bucket", first - 1, (first,), ()),
        ("corner", "first step of the second bucket", first, (first, first + slow), (slow,)),
        ("corner", "last step of the second bucket", first + slow - 1, (first + slow - 1, first + slow), (slow,)),
    ]
    for stage in stages:
        if len(stage.timescales) > 1 and stage.start < SHORT:
            fast, wide = stage.timescales[1].size, stage.timescales[0].size
            where, ends = stage.start + fast - 1, (stage.start + fast, stage.start + wide)
            cases.append(("corner", "last step of a fast bucket", where, ends, (wide,)))
            cases.append(("corner", "last step of a fast and a slow bucket", ends[1] - 1, ends, (fast,)))
            break
    for kind, what, position, times, windows in cases:
        pair = kind_of_pair(kind, heap(times[-1] if times[-1] > position else position + 1, dimension), position)
        windows = windows if watched == "cascade" else ()
        name = _name(watched, dimension, epsilon, what, kind)
        yield Experiment(name, watched, epsilon, pair, times, windows, reloads=times[-1:])


def long_cascade(dimension: int, epsilon: float, until: int) -> Experiment:
    """A point in the last step of the first fastest bucket after the middle of a slow one, and every tree is split.

    Too slow to sample, not too slow to trace.
    """
    stage = Synthesizer(unit_cube(dimension), epsilon=epsilon).plan(until=until).stages[-1]
    sizes = [speed.size for speed in stage.timescales]
    middle = stage.start + sizes[0] // 2
    times = tuple(sorted({stage.start, middle, *(middle + size for size in sizes[1:]), stage.start + sizes[0]}))
    pair = kind_of_pair("corner", crowd(times[-1], dimension), middle + sizes[-1] - 1)
    name = _name("cascade", dimension, epsilon, f"a bucket of each of {len(sizes)} speeds", "corner")
    return Experiment(name, "cascade", epsilon, pair, times)


def tables(epsilon: float) -> Iterator[Experiment]:
    """Records of a table: another category, a value that is or is not missing, a number on its bound."""
    cases = {
        "another category": ((0.1, 0, 0), (0.1, 2, 0)),
        "a value goes missing": ((0.1, 0, 0), (0.1, 0, -1)),
        "everything changes": ((0.0, 0, 0), (1.0, 2, -1)),
    }
    first = Synthesizer(TABLE, epsilon=epsilon).plan(until=1).stages[0].end
    for watched in ("cascade table", "paper table"):
        for what, (one, other) in cases.items():
            background = np.tile([0.1, 0.0, 0.0], (2 * first, 1))
            # The record is the last of cascade's first bucket, and the paper's level it is in is over at the end.
            pair, times = replaced(background, first - 1, one, other), (first, 2 * first)
            yield Experiment(f"{watched}, ε = {epsilon:g}: {what}", watched, epsilon, pair, times, reloads=times[:1])


def paper(dimension: int, epsilon: float, *, watched: str = "paper") -> Iterator[Experiment]:
    """The first counted point, the last step of a level, the step after; on a line also the history of late cells."""
    first = max(0, math.ceil(math.log2(epsilon)))  # a large ε leaves no time for the levels before
    starts = [level_start(level, epsilon) for level in range(first, first + 5)]
    cases = [
        ("corner", "the first counted point", starts[0] - 1, (starts[0], starts[1], starts[2], starts[4])),
        ("corner", "last step of a level", starts[3] - 2, (starts[3] - 1, starts[3], starts[4])),
        ("corner", "first step of a level", starts[3] - 1, (starts[3], starts[4] - 1, starts[4])),
        ("cut", "last step of a level", starts[3] - 2, (starts[3], starts[4])),
        ("face", "last step of a level", starts[3] - 2, (starts[3], starts[4])),
    ]
    if dimension == 1:
        every = tuple(sorted(set(starts)))
        cases.append(("corner", "history: a first point that later cells count", starts[0] - 1, every))
    for kind, what, position, times in cases:
        times = tuple(sorted(set(times)))
        pair = kind_of_pair(kind, heap(max(times[-1], position + 1), dimension), position)
        name = _name(watched, dimension, epsilon, what, kind)
        yield Experiment(name, watched, epsilon, pair, times, reloads=times[-1:])


def pmm(dimension: int, epsilon: float) -> Iterator[Experiment]:
    """One release of a complete data set."""
    for kind in KINDS:
        pair = kind_of_pair(kind, heap(16, dimension), 5)
        yield Experiment(_name("pmm", dimension, epsilon, "16 points", kind), "pmm", epsilon, pair)


def counters(epsilon: float) -> Iterator[Experiment]:
    """All counters: the first step, a step that lies in a block of every length, the last one."""
    for name, length, options in [
        ("binary counter", 7, {}),
        ("hybrid counter", 7, {}),
        ("sparse counter", 8, {"constant": 0.5}),
        ("inhomogeneous counter", 12, {"constant": 0.5}),
    ]:
        for position, step in ((0, 0), (length // 2, 1), (length - 1, 0)):
            title = f"{name}, ε = {epsilon:g}: {'ones' if step else 'zeros'}, step {position + 1} of {length}"
            yield Experiment(title, name, epsilon, increments([step] * length, position), options=options)


def noise(epsilon: float) -> Iterator[Experiment]:
    """One count with one draw on it."""
    yield Experiment(f"noise of scale {1 / epsilon:g}", "noise", epsilon, Pair(((0.0,),), ((1.0,),)))


def _name(watched: str, dimension: int, epsilon: float, what: str, kind: str) -> str:
    return f"{watched}, d = {dimension}, ε = {epsilon:g}: {what}, {kind}"


def handpicked(size: str = "standard") -> list[Experiment]:
    """The worst cases, with tiny and large ε. ``"quick"`` has a few of each mechanism."""
    found: list[Experiment] = []
    if size == "quick":
        found += [*cascade(2, 8.0, watched="cascade summaries")][:3] + [*cascade(2, 4.0)][1:2] + [*cascade(1, 8.0)][-1:]
        found += [*paper(2, 4.0, watched="paper reports")][:2] + [*paper(1, 8.0)][-1:] + [*pmm(2, 1.0)][:1]
        return [*found, *[*counters(2.0)][1::3], *noise(1.0)]
    for dimension, epsilon in [(1, 8.0), (2, 0.5), (2, 2.0), (2, 8.0), (3, 4.0)]:
        found += cascade(dimension, epsilon)
    for dimension, epsilon in [(1, 2.0), (1, 8.0), (2, 1.0), (2, 4.0), (2, 64.0)]:
        every = cascade(dimension, epsilon, watched="cascade summaries")
        found += [one for one in every if one.name.endswith("corner")]
    for dimension, epsilon in [(1, 2.0), (2, 1.0), (2, 8.0)]:
        found += paper(dimension, epsilon)
    for dimension, epsilon in [(1, 8.0), (2, 4.0)]:
        found += paper(dimension, epsilon, watched="paper reports")
    for dimension, epsilon in [(1, 1.0), (2, 1.0), (2, 6.0)]:
        found += pmm(dimension, epsilon)
    for epsilon in (0.5, 4.0):
        found += counters(epsilon)
    found += tables(4.0)
    for epsilon in (0.1, 1.0, 8.0):
        found += noise(epsilon)
    return found


def at_random(count: int, seed: int) -> list[Experiment]:
    """Pairs, budgets, dimensions and moments at random: to be screened, and the most telling ones run in full."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        watched = str(rng.choice(["cascade", "cascade summaries", "paper", "paper reports"]))
        dimension, epsilon = int(rng.integers(1, 4)), float(rng.choice([1.0, 2.0, 4.0, 8.0, 16.0]))
        length = int(rng.integers(4, 40)) if epsilon > 2 else int(rng.integers(30, 90))
        pair = random_pair(length, dimension, rng)
        times = {length, *(int(rng.integers(1, length + 1)) for _ in range(3))}
        windows = (int(rng.integers(1, length + 1)),) if watched == "cascade" else ()
        name = f"{watched}, d = {dimension}, ε = {epsilon:g}: random pair {number}"
        found.append(Experiment(name, watched, epsilon, pair, tuple(sorted(times)), windows))
    return found
