"""Which experiments make up an audit: worst cases of every registered mechanism."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from headwater.audit.experiments import JOINT_NOISE, NOISE, Draws, Experiment
from headwater.audit.streams import COLOURS, MOVES, TABLE, heap, kind_of_pair, person_replaced, replaced
from headwater.audit.trace import watching
from headwater.audit.traits import traits_of
from headwater.public import protocol as registry
from headwater.public.budget import Guarantee, record_epsilon
from headwater.public.cube import unit_cube
from headwater.public.numbers import Number
from headwater.public.person import NOWHERE, Person
from headwater.public.protocol import AnySchema
from headwater.public.schema import Schema
from headwater.secret.batch import Batch
from headwater.secret.mechanism import mechanism_class
from headwater.secret.noise import Noise

SHORT = 200  # streams are no longer than this, unless nothing is measured before
MOST = 1 << 12  # nor than this
MOMENTS, ENOUGH = 20, 1 << 13  # times at which something is measured, and draws until then, after which to look no more
DELTA = 0.3  # of claims with a δ: so large that counts of few columns have Gaussian noise, and that faults show soon


@lru_cache
def moments(mechanism: str, schema: AnySchema, epsilon: float) -> tuple[int, ...]:
    """The first times at which something new is measured, found by asking a run on a heap of records at every time.

    New are draws that were not there before; if any cell may be asked for at any time, those of a new scale.
    """
    run = mechanism_class(mechanism)(schema, epsilon, Noise(seed=0))  # what it measures is thrown away
    one, partitions = Batch(run.encode(np.full((1, schema.dimension), 0.1))), traits_of(mechanism).partitions
    known, found, draws = set[object](), list[int](), 0
    with watching(lambda _: 1 << 20) as record:  # beyond every threshold
        while len(found) < MOMENTS and ((run.t < SHORT and draws < ENOUGH) or (len(found) < 2 and run.t < MOST)):
            run = run.update(one)
            run.measured(0)
            drawn = {address for m in record for address in (m.addresses if partitions else [m.scale])}
            if drawn - known:
                found.append(run.t)
            known |= drawn
            draws += sum(len(m.addresses) for m in record)
            record.clear()
    return tuple(found) or (run.t,)


def worst_cases(mechanism: str, dimension: int, epsilon: float, *, noisy_counts: bool = False) -> list[Experiment]:
    """The first record; the last one before something is measured, and the next; records on cuts and faces."""
    title = f"{mechanism}{', noisy counts' * noisy_counts}, d = {dimension}, ε = {epsilon:g}"
    if mechanism not in registry.online():
        pairs = {kind: kind_of_pair(kind, heap(16, dimension), 5) for kind in MOVES}
        return [Experiment(f"{title}: 16 records, {kind}", mechanism, epsilon, pairs[kind]) for kind in MOVES]
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
    found = []
    for kind, what, position, times in cases:
        asked = tuple(sorted({t for t in times if t > 0}))
        pair = kind_of_pair(kind, heap(max(asked[-1], position + 1), dimension), position)
        name = f"{title}: {what}, {kind}"
        found.append(Experiment(name, mechanism, epsilon, pair, asked, windows, asked[-1:], noisy_counts))
    return found


def tables(mechanism: str, epsilon: float) -> list[Experiment]:
    """Records of a table: another category, a value that is or is not missing, a number on its bound."""
    cases = {
        "another category": ((0.1, 0, 0), (0.1, 2, 0)),
        "a value goes missing": ((0.1, 0, 0), (0.1, 0, -1)),
        "everything changes": ((0.0, 0, 0), (1.0, 2, -1)),
    }
    first = moments(mechanism, TABLE, epsilon)[0]
    times, found = (first, 2 * first), []
    for what, (one, other) in cases.items():
        pair = replaced(np.tile([0.1, 0.0, 0.0], (2 * first, 1)), first - 1, one, other)
        name = f"{mechanism}, a table, ε = {epsilon:g}: {what}"
        found.append(Experiment(name, mechanism, epsilon, pair, times, reloads=times[:1], table=True))
    return found


def bad_records(mechanism: str, epsilon: float) -> list[Experiment]:
    """A record that becomes a bad one: a point beyond the cube, or a colour that is none."""
    found = []
    for one in worst_cases(mechanism, 1, epsilon)[::2] + tables(mechanism, epsilon):
        bad = (0.1, len(COLOURS) - 1, 0) if one.table else 2.0
        pair = replaced(np.array(one.pair.one), one.pair.changed[0], one.pair.places[0], bad)
        found.append(replace(one, name=f"{one.name}, which is bad", pair=pair))
    return found


def people(
    mechanism: str,
    epsilon: float,
    records: int = 3,
    *,
    columns: int = 1,
    noisy_counts: bool = False,
    ends: tuple[int, ...] = (),
) -> list[Experiment]:
    """All records of one person: in one bucket, in several, more than count, none of them on the other stream."""
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
    half, background, found = last // 2, heap(last, columns), []
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
        how = {"reloads": ends[:1], "noisy_counts": noisy_counts, "person": whose}
        found.append(Experiment(title, mechanism, epsilon, pair, ends, **how))  # type: ignore[arg-type]
    return found


def with_delta(experiments: Iterable[Experiment], delta: float = DELTA) -> list[Experiment]:
    named = [(one, f"{one.name}, δ = {delta:g}" if delta else one.name) for one in experiments]
    return [replace(one, name=name, delta=delta) for one, name in named]


def noise(epsilon: float) -> list[Draws]:
    """One count with one draw on it: Laplace, and Gaussian for δ that sampling can see; two tables with joint noise."""
    pure = [Draws(f"{kind} of scale {1 / epsilon:g}", kind, Guarantee(epsilon)) for kind in (NOISE, JOINT_NOISE)]
    title = f"Gaussian noise, ε = {epsilon:g}, δ = "
    return [*pure, *(Draws(f"{title}{delta:g}", NOISE, Guarantee(epsilon, delta)) for delta in (0.01, DELTA))]


def to_sample(mechanism: str) -> list[Experiment]:
    """What is sampled of a mechanism: what crosses the trust boundary, releases with a window, people, a δ."""
    if mechanism not in registry.online():
        return worst_cases(mechanism, 2, 1.0)[:1]
    counts = worst_cases(mechanism, 2, 4.0, noisy_counts=True)[1:2]
    found = [*counts, *worst_cases(mechanism, 2, 4.0)[1:2], *worst_cases(mechanism, 1, 8.0)[5:6]]
    found += people(mechanism, 8.0, noisy_counts=True)[2:3]
    return [*found, *(with_delta(counts) if traits_of(mechanism).deltas else [])]


def to_trace(mechanism: str) -> list[Experiment]:
    """What is computed of a mechanism: releases, windows, cards and saved states, whenever something is measured."""
    found = worst_cases(mechanism, 2, 8.0)
    if mechanism in registry.online():
        found += [*tables(mechanism, 8.0), *people(mechanism, 8.0)]
    if traits_of(mechanism).deltas:
        found += with_delta([*worst_cases(mechanism, 2, 4.0), *people(mechanism, 8.0)])
    return found
