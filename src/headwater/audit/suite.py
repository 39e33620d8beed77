"""Which experiments make up an audit: worst cases of every registered mechanism, and pairs found at random."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from headwater.audit.experiments import JOINT_NOISE, NOISE, Experiment
from headwater.audit.streams import (
    MOVES,
    TABLE,
    Pair,
    crowd,
    heap,
    increments,
    kind_of_pair,
    person_replaced,
    random_pair,
    replaced,
)
from headwater.audit.trace import watching
from headwater.public import protocol as registry
from headwater.public.budget import record_epsilon
from headwater.public.numeric import Number
from headwater.public.person import NOWHERE, Person
from headwater.public.protocol import AnySchema
from headwater.public.schema import Schema
from headwater.public.unit_cube import unit_cube
from headwater.secret.mechanism import mechanism_class
from headwater.secret.noise import Noise
from headwater.synthesizer import Synthesizer

SHORT = 200  # streams are no longer than this, unless nothing is measured before
MOST = 1 << 12  # nor than this
MOMENTS, ENOUGH = 20, 1 << 13  # times at which something is measured, and draws until then, after which to look no more
DELTA = 0.3  # of claims with a δ: so large that counts of few columns have Gaussian noise, and that faults show soon
SIZES: dict[str, int] = {"quick": 600, "standard": 4_000, "full": 20_000}
"""Runs on each stream of a pair."""


@lru_cache
def moments(mechanism: str, schema: AnySchema, epsilon: float) -> tuple[int, ...]:
    """The first times at which something new is measured: ends of buckets, starts and ends of levels.

    They are public, and found by looking: a run on a heap of records is asked at every time what it has measured. New
    are draws that were not there before; of a mechanism that may ask for any cell at any time, only those of a scale
    that was not there before.
    """
    kind = mechanism_class(mechanism)
    run = kind(schema, epsilon, Noise(seed=0))  # what it measures is thrown away
    row = run.encode(np.full((1, schema.dimension), 0.1))
    known, found, draws = set[object](), list[int](), 0
    with watching(lambda _: 1 << 20) as record:  # beyond every threshold
        while len(found) < MOMENTS and ((run.t < SHORT and draws < ENOUGH) or (len(found) < 2 and run.t < MOST)):
            run.update(row)
            run.measured(0, 0)
            drawn = {one for m in record for one in (m.addresses if kind.partitions else [m.scale])}
            if drawn - known:
                found.append(run.t)
            known |= drawn
            draws += sum(len(m.addresses) for m in record)
            record.clear()
    return tuple(found) or (run.t,)


def online(mechanism: str, dimension: int, epsilon: float, *, noisy_counts: bool = False) -> Iterator[Experiment]:
    """The first record; the last one before something is measured, and the next; records on cuts and faces."""
    ends = moments(mechanism, unit_cube(dimension), epsilon)
    first, second = (*ends, 2 * ends[0])[:2]
    cases = [
        ("corner", "the first record", 0, (1, *ends[:4])),
        ("corner", "the last record before a measurement", first - 1, (first - 1, first, second)),
        ("cut", "the last record before a measurement", first - 1, (first, second)),
        ("face", "the last record before a measurement", first - 1, (first, second)),
        ("corner", "the first record after a measurement", first, (first, *ends[1:3])),
    ]
    for end, following in list(pairwise(ends[1:]))[:: max(1, len(ends) // 4)]:
        cases.append(("corner", f"record {end:,}, just before a measurement", end - 1, (end - 1, end, following)))
    windows = (second - first,) if mechanism_class(mechanism).windows and not noisy_counts else ()
    for kind, what, position, times in cases:
        asked = tuple(sorted({t for t in times if t > 0}))
        pair = kind_of_pair(kind, heap(max(asked[-1], position + 1), dimension), position)
        name = _name(mechanism, dimension, epsilon, what, kind, noisy_counts=noisy_counts)
        yield Experiment(name, mechanism, epsilon, pair, asked, windows, reloads=asked[-1:], noisy_counts=noisy_counts)


def offline(mechanism: str, dimension: int, epsilon: float) -> Iterator[Experiment]:
    """One release of a complete data set."""
    for kind in MOVES:
        pair = kind_of_pair(kind, heap(16, dimension), 5)
        yield Experiment(_name(mechanism, dimension, epsilon, "16 records", kind), mechanism, epsilon, pair)


def worst_cases(mechanism: str, dimension: int, epsilon: float) -> list[Experiment]:
    """The experiments of `online` or `offline`, whichever a registered mechanism is."""
    make = online if mechanism_class(mechanism).online else offline
    return [*make(mechanism, dimension, epsilon)]


def long_cascade(dimension: int, epsilon: float, until: int) -> Experiment:
    """A point in the last step of the first fastest bucket after the middle of a slow one, and every tree is split.

    Too slow to sample, not too slow to trace.
    """
    stage = Synthesizer(unit_cube(dimension), epsilon=epsilon).plan(until=until).stages[-1]
    sizes = [scale.size for scale in stage.timescales]
    middle = stage.start + sizes[0] // 2
    times = tuple(sorted({stage.start, middle, *(middle + size for size in sizes[1:]), stage.start + sizes[0]}))
    pair = kind_of_pair("corner", crowd(times[-1], dimension), middle + sizes[-1] - 1)
    name = _name("cascade", dimension, epsilon, f"a bucket of each of {len(sizes)} timescales", "corner")
    return Experiment(name, "cascade", epsilon, pair, times)


def tables(mechanism: str, epsilon: float) -> Iterator[Experiment]:
    """Records of a table: another category, a value that is or is not missing, a number on its bound."""
    cases = {
        "another category": ((0.1, 0, 0), (0.1, 2, 0)),
        "a value goes missing": ((0.1, 0, 0), (0.1, 0, -1)),
        "everything changes": ((0.0, 0, 0), (1.0, 2, -1)),
    }
    first = moments(mechanism, TABLE, epsilon)[0]
    for what, (one, other) in cases.items():
        pair = replaced(np.tile([0.1, 0.0, 0.0], (2 * first, 1)), first - 1, one, other)
        name, times = f"{mechanism}, a table, ε = {epsilon:g}: {what}", (first, 2 * first)
        yield Experiment(name, mechanism, epsilon, pair, times, reloads=times[:1], table=True)


def people(
    mechanism: str,
    epsilon: float,
    records: int = 3,
    *,
    columns: int = 1,
    noisy_counts: bool = False,
    ends: tuple[int, ...] = (),
) -> Iterator[Experiment]:
    """All records of one person: in one bucket, in several, more than count, none of them on the other stream.

    Looked at after the first three times at which something is measured, or at ``ends``.
    """
    declared = Person("person", records=records, null=NOWHERE)
    schema = Schema({f"x{axis}": Number(0, 1) for axis in range(columns)})
    ends = ends or moments(mechanism, schema, record_epsilon(epsilon, records))[:3]
    last = ends[-1]
    within = range(ends[0], ends[0] + records) if len(ends) > 1 else range(records)
    apart = [end - 1 for end in ends]
    cases: dict[str, tuple[Iterable[int], float | None, int | None]] = {
        "all that count in one bucket": (within, 0.1, None),
        "in several buckets": (apart, 0.1, None),
        "more than count": ([*within, *apart, *range(records + 2)], 0.1, None),
        "more than count, replaced by nobody": ([*within, *apart, *range(records + 2)], None, None),
        "more than count, replaced by another person": ([*within, *apart, *range(records + 2)], 0.1, 10**6),
        "in one period of two": (range(last), 0.1, None),
    }
    half, background = last // 2, heap(last, columns)
    for what, (places, other, name) in cases.items():
        periods = {"per": half} if what.startswith("in one period") else {}
        owners, points = list(range(last)), background.copy()
        for place in range(0, last, max(2, last // 12)):  # all others have one record each, but for one of them
            owners[place] = last + 1
        for place in places:
            if place < last:
                owners[place], points[place] = last + 2, 0.9
        whose = replace(declared, **periods)  # type: ignore[arg-type]
        within_one = (half, 1) if periods else None
        pair = person_replaced(points, owners, last + 2, other, name=name, period=within_one)
        title = f"{mechanism}, a person with at most {records} records that count, ε = {epsilon:g}: {what}"
        title += (f", {columns} columns" if columns > 1 else "") + (", noisy counts" if noisy_counts else "")
        yield Experiment(
            title, mechanism, epsilon, pair, ends, reloads=ends[:1], noisy_counts=noisy_counts, person=whose
        )


def people_in_pairs(epsilon: float, records: int = 3, delta: float = 0.0) -> list[Experiment]:
    """People in marginals of two columns, from the first stage up to the first one in which pairs are measured."""
    schema, person = Schema(x0=Number(0, 1), x1=Number(0, 1)), Person("person", records=records)
    stages = Synthesizer(schema, epsilon=epsilon, delta=delta, person=person, mechanism="marginals").plan(MOST).stages
    first = next(i for i, stage in enumerate(stages) if stage.pairs)
    ends = tuple(stage.end for stage in stages[max(first - 1, 0) : first + 1])
    return with_delta(people("marginals", epsilon, records, columns=2, ends=ends), delta)


def released_people(mechanism: str, epsilon: float, delta: float = 0.0, records: int = 2) -> list[Experiment]:
    """People in whole releases of two columns, after the first measurement: ε is so small that sampling can see it."""
    schema = Schema(x0=Number(0, 1), x1=Number(0, 1))
    first = moments(mechanism, schema, record_epsilon(epsilon, records))[:1]
    found = people(mechanism, epsilon, records, columns=2, ends=first)
    return with_delta((replace(one, reloads=()) for one in found), delta)


def with_delta(experiments: Iterable[Experiment], delta: float) -> list[Experiment]:
    """The same experiments with a δ; themselves, if it is 0."""
    named = [(one, f"{one.name}, δ = {delta:g}" if delta else one.name) for one in experiments]
    return [replace(one, name=name, delta=delta) for one, name in named]


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
    """One count with one draw on it: Laplace, and Gaussian for δ that sampling can see; two tables with joint noise."""
    pair = Pair(((0.0,),), ((1.0,),))
    yield Experiment(f"noise of scale {1 / epsilon:g}", NOISE, epsilon, pair)
    yield Experiment(f"joint noise of scale {1 / epsilon:g}", JOINT_NOISE, epsilon, pair)
    for delta in (0.01, DELTA):
        yield Experiment(f"Gaussian noise, ε = {epsilon:g}, δ = {delta:g}", NOISE, epsilon, pair, delta=delta)


def _name(mechanism: str, d: int, epsilon: float, what: str, kind: str, *, noisy_counts: bool = False) -> str:
    looked = ", noisy counts" if noisy_counts else ""
    return f"{mechanism}{looked}, d = {d}, ε = {epsilon:g}: {what}, {kind}"


def handpicked(size: str = "standard") -> list[Experiment]:
    """The worst cases of every mechanism, with tiny and large ε. ``"quick"`` has a few of each."""
    found: list[Experiment] = []
    for name in registry.names():
        if not mechanism_class(name).online:
            for d, epsilon in [(2, 1.0)] if size == "quick" else [(1, 1.0), (2, 1.0), (2, 6.0)]:
                found += [*offline(name, d, epsilon)][: 1 if size == "quick" else None]
        elif size == "quick":
            found += [*online(name, 2, 4.0, noisy_counts=True)][1:2] + [*online(name, 2, 4.0)][1:2]
            found += [*online(name, 1, 8.0)][5:6] + [*people(name, 8.0, noisy_counts=True)][2:3]
            if mechanism_class(name).deltas:
                found += with_delta([*online(name, 2, 4.0, noisy_counts=True)][1:2], DELTA)
        else:
            for d, epsilon in [(1, 8.0), (2, 0.5), (2, 2.0), (2, 8.0), (3, 4.0)]:
                found += online(name, d, epsilon)
            for d, epsilon in [(1, 2.0), (1, 8.0), (2, 1.0), (2, 4.0), (2, 64.0)]:
                seen = online(name, d, epsilon, noisy_counts=True)
                found += [one for one in seen if one.name.endswith("corner")]
            found += tables(name, 4.0)
            for epsilon in (8.0, 32.0):
                found += [*people(name, epsilon), *people(name, epsilon, noisy_counts=True)]
            if mechanism_class(name).deltas:
                for d, epsilon in [(1, 2.0), (2, 1.0), (2, 4.0)]:
                    found += with_delta(online(name, d, epsilon, noisy_counts=True), DELTA)
                for epsilon in (1.0, 2.0):
                    found += released_people(name, epsilon, DELTA)
    if size == "quick":
        return [*found, *[*counters(2.0)][1::3], *noise(1.0)]
    for epsilon in (0.5, 4.0):
        found += counters(epsilon)
    for epsilon in (0.1, 1.0, 8.0):
        found += noise(epsilon)
    return found


def at_random(count: int, seed: int) -> list[Experiment]:
    """Pairs, budgets, dimensions and moments at random: to be screened. The strongest are run in full."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        mechanism, noisy_counts = str(rng.choice(registry.online())), bool(rng.integers(2))
        dimension, epsilon = int(rng.integers(1, 4)), float(rng.choice([1.0, 2.0, 4.0, 8.0, 16.0]))
        length = int(rng.integers(4, 40)) if epsilon > 2 else int(rng.integers(30, 90))
        pair = random_pair(length, dimension, rng)
        times = {length, *(int(rng.integers(1, length + 1)) for _ in range(3))}
        window = int(rng.integers(1, length + 1))
        windows = (window,) if mechanism_class(mechanism).windows and not noisy_counts else ()
        name = _name(mechanism, dimension, epsilon, "random pair", str(number), noisy_counts=noisy_counts)
        found.append(
            Experiment(name, mechanism, epsilon, pair, tuple(sorted(times)), windows, noisy_counts=noisy_counts)
        )
    return found
