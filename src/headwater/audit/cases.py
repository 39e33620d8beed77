"""What an audit attacks: a run, two neighbouring streams of made-up records, and when something is published.

A `Case` is a description. `Case.view` runs it on one of its streams and gives what everybody sees of that.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.audit.trace import watching
from headwater.audit.view import AuditAlarm, Value, View, of_files, of_kept, of_release
from headwater.public import protocol
from headwater.public.budget import DeltaWarning, Guarantee, record_epsilon
from headwater.public.categories import Boolean, Category
from headwater.public.cube import unit_cube
from headwater.public.laws import CountLaw, DiscreteGaussian, IntegerLaplace, deviation_for, rho_for
from headwater.public.numbers import Number
from headwater.public.person import NOWHERE, Person
from headwater.public.protocol import AnySchema
from headwater.public.release import Release
from headwater.public.schema import Schema
from headwater.secret.batch import Batch
from headwater.secret.mechanism import mechanism_class
from headwater.secret.noise import Noise, SeededRunWarning
from headwater.synthesizer import Synthesizer, pmm

Points = NDArray[np.float64]
Record = tuple[float, ...] | dict[str, object]
TABLE = Schema(amount=Number(0, 1), colour=Category("red", "green", "blue"), member=Boolean(missing=True))
"""A table with a column of each sort: a continuum, values that do not fill their cells, and a missing value."""
BELOW_HALF = math.nextafter(0.5, 0.0)
MOVES: dict[str, tuple[float, float]] = {"corner": (0.1, 0.9), "cut": (0.5, BELOW_HALF), "face": (0.0, 1.0)}
"""Where a point goes: to the opposite corner, to the other side of a cut a float's step away, to the opposite face."""
SHORT, MOST = 200, 1 << 12  # streams are no longer than this; than that, if nothing is measured before
MOMENTS, ENOUGH = 20, 1 << 13  # times at which something is measured, and draws until then, after which to look no more
DELTA = 0.3  # of claims with a δ: so large that counts of few columns have Gaussian noise, and that faults show soon
DRAWS = 50_000  # of bare noise, which are quick


@dataclass(frozen=True)
class Traits:
    """What an auditor must know of a mechanism."""

    deltas: bool = False  # it takes budgets with a δ: then all checks run with one as well
    partitions: bool = False  # each measurement counts every record of its bucket exactly once: totals are compared
    divides: bool = False  # it divides what its ledger lists among tables, and so draws more noise, never less
    thresholds: bool = False  # noisy counts are compared with thresholds: chosen outputs stay out of their reach


TRAITS = {
    "cascade": Traits(deltas=True, partitions=True),
    "marginals": Traits(deltas=True, partitions=True, divides=True),
    "paper": Traits(thresholds=True),
}
"""By mechanism. `headwater.audit.check_mechanism` adds those of other mechanisms."""


def traits_of(mechanism: str) -> Traits:
    return TRAITS.get(mechanism, Traits())


@dataclass(frozen=True)
class Pair:
    """Two streams of points, or of values by column, that differ in one record, or in records of one person."""

    schema: AnySchema
    one: tuple[Record, ...]
    other: tuple[Record, ...]
    people: str = ""  # the column that says whose record it is, if the unit is a person

    def __post_init__(self) -> None:
        if len(self.one) != len(self.other) or not self.changed:
            raise ValueError("neighbouring streams have one length and differ somewhere")
        if not self.people and len(self.changed) > 1:
            raise ValueError("neighbouring streams differ in exactly one place")
        if self.people:
            ours, others = ({stream[i][self.people] for i in self.changed} for stream in (self.one, self.other))  # type: ignore[call-overload]
            if len(ours) > 1 or None in ours or len(others) > 1:
                raise ValueError("neighbouring streams differ in records of one person")

    @cached_property
    def changed(self) -> list[int]:
        return [i for i, (a, b) in enumerate(zip(self.one, self.other, strict=True)) if a != b]

    def replaced(self, one: Record, other: Record) -> Pair:
        (i,) = self.changed
        return replace(self, one=_with(self.one, i, one), other=_with(self.other, i, other))


def _with(stream: tuple[Record, ...], i: int, record: Record) -> tuple[Record, ...]:
    return (*stream[:i], record, *stream[i + 1 :])


def replaced(background: Points, position: int, one: object, other: object) -> Pair:
    streams = []
    for place in (one, other):
        points = np.array(background, dtype=float)
        points[position] = place
        streams.append(tuple(map(tuple, points.tolist())))
    return Pair(unit_cube(np.shape(background)[1]), streams[0], streams[1])


def heap(length: int, dimension: int, place: float = 0.1) -> Points:
    return np.full((length, dimension), place)


def kind_of_pair(kind: str, background: Points, position: int) -> Pair:
    return replaced(background, position, *MOVES[kind])


def person_replaced(
    points: Points, owners: Sequence[int], other: float | None, name: int, where: range | None = None
) -> Pair:
    """All records of the last owner go to ``other`` (None: records of nobody), as those of ``name``."""
    names, person = [f"x{axis}" for axis in range(points.shape[1])], max(owners)
    one = [
        dict[str, object](zip(names, p, strict=True)) | {"person": o}
        for p, o in zip(points.tolist(), owners, strict=True)
    ]
    two = list(one)
    for i in where or range(len(one)):
        if owners[i] == person:
            moved: dict[str, object] = {"person": name, **dict.fromkeys(names, other)}
            two[i] = one[i] | ({"person": None} if other is None else moved)
    return Pair(Schema({axis: Number(0, 1) for axis in names}), tuple(one), tuple(two), "person")


@dataclass(frozen=True)
class Case:
    name: str
    mechanism: str
    epsilon: float
    pair: Pair
    times: tuple[int, ...] = ()  # after how many records there is a release, every window, the card and file of each
    windows: tuple[int, ...] = ()  # how many of the last records further releases are about
    reloads: tuple[int, ...] = ()  # after which of the times the run is saved, loaded and asked again
    noisy_counts: bool = False  # look at what crosses the trust boundary: the claim holds for that already
    files: bool = False  # all that can be written for everybody is looked at byte by byte: slow
    person: Person | None = None  # what is declared of people, if the pair differs in all records of one
    delta: float = 0.0

    def __post_init__(self) -> None:
        if self.mechanism not in protocol.names():
            raise ValueError(f"mechanism must be one of {', '.join(protocol.names())}, not {self.mechanism!r}")
        if any(not 0 < t <= len(self.pair.one) for t in self.times) or list(self.times) != sorted(set(self.times)):
            raise ValueError("times must rise, and lie between 1 and the length of the streams")

    @cached_property
    def claim(self) -> Guarantee:
        """What the run itself promises, as it states it: this is what an audit attacks."""
        asked = Guarantee(self.epsilon, self.delta)
        run = self._begin(None) if self.online else self._release_once(self.pair.one, None)
        if self.person is not None:
            person = self.person
            asked = replace(asked, unit=person.unit, neighbours=person.neighbours, records=person.records)
        if run.guarantee != asked:
            raise AuditAlarm(f"{self.name}: asked for {asked}, the run promises only: {run.guarantee}")
        return run.guarantee

    @property
    def online(self) -> bool:
        return self.mechanism in protocol.online()

    @property
    def places(self) -> Points:
        """Where the first replaced record and its replacement are, in the unit cube."""
        first = [stream[self.pair.changed[0]] for stream in (self.pair.one, self.pair.other)]
        if isinstance(self.pair.schema, Schema):
            known = self.pair.schema.names
            first = [{name: record[name] for name in known} for record in first]  # type: ignore[call-overload]
        return self.pair.schema.encode_batch(_table(first), bad_rows="null").points

    def view(self, side: int, seed: int | None = None, *, publish: bool = True) -> View:
        """What one run on one stream publishes, or only measures. Without a seed it has a key of its own."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededRunWarning)
            warnings.simplefilter("ignore", DeltaWarning)
            records = (self.pair.one, self.pair.other)[side]
            if not self.online:
                return self._released(self.mechanism, self._release_once(records, seed))
            seen, done, synth = View(), 0, self._begin(seed)
            for t in self.times:
                synth.update(_table(records[done:t]), bad_rows="null")
                seen |= self._look(f"t={t}", synth, publish)
                if t in self.reloads:
                    synth = Synthesizer.from_bytes(synth.to_bytes())
                    seen |= self._look(f"t={t} loaded", synth, publish)
                done = t
            return seen

    def columns(self, side: int, runs: int, seed: int | None = None) -> dict[str, list[Value]]:
        views = [self.view(side, None if seed is None else seed + 2 * i + side) for i in range(runs)]
        names = {name: None for view in views for name in view}
        return {name: [view.get(name) for view in views] for name in names}

    def _begin(self, seed: int | None) -> Synthesizer:
        how: dict[str, Any] = {"mechanism": self.mechanism, "person": self.person, "seed": seed}
        return Synthesizer(self.pair.schema, epsilon=self.epsilon, delta=self.delta, **how)

    def _release_once(self, records: Sequence[Record], seed: int | None) -> Release:
        return pmm(_table(records), self.pair.schema, epsilon=self.epsilon, seed=seed)

    def _look(self, at: str, synth: Synthesizer, publish: bool) -> View:
        if self.noisy_counts or not publish:
            measured = synth.measured()
            return {**measured.near(self.places)} if publish else {}
        seen = self._released(at, synth.release())
        for last in self.windows:
            seen |= self._released(f"{at} last={last}", synth.release(last=last))
        return seen | of_kept(at, synth) if self.files else seen

    def _released(self, at: str, release: Release) -> View:
        seen = of_release(at, release, self.places)
        return seen | of_files(at, release) if self.files else seen


def _table(records: Sequence[Record]) -> object:
    return list(records) if isinstance(records[0], dict) else np.array(records)


@dataclass(frozen=True)
class Draws:
    """One draw of noise without a mechanism: Laplace, Gaussian if there is a δ, or joint. A case of its own."""

    name: str
    claim: Guarantee
    joint: bool = False

    def columns(self, side: int, runs: int, seed: int | None = None) -> Mapping[str, list[Value]]:
        runs, noise = max(runs, DRAWS), Noise(None if seed is None else seed + side)
        scale, rho = 1 / self.claim.epsilon, self.claim.delta and rho_for(self.claim.epsilon, self.claim.delta)
        if not self.joint:
            law: CountLaw = DiscreteGaussian(deviation_for(rho)) if rho else IntegerLaplace(scale)
            return {"count": (side + law.draw(noise, 0, np.arange(runs))).tolist()}
        true, places = np.array([side, side, 1 - side, 0]), [(8 * run, 8 * run + 1) for run in range(runs)]
        seen = [(true + noise.jointly_at(scale, (1, 3), 0, place)).tolist() for place in places]
        columns: dict[str, list[Value]] = {f"count {i}": [numbers[i] for numbers in seen] for i in range(len(true))}
        return columns | {"all counts": [str(numbers) for numbers in seen]}


@lru_cache
def moments(mechanism: str, schema: AnySchema, epsilon: float) -> tuple[int, ...]:
    """The first times at which something new is measured, found by asking a run on a heap of records at every time.

    New are draws that were not there before; if any cell may be asked for at any time, those of a new scale.
    """
    run = mechanism_class(mechanism)(schema, epsilon, Noise(seed=0))  # what it measures is thrown away
    one, partitions = Batch(run.encode(heap(1, schema.dimension))), traits_of(mechanism).partitions
    known, found, draws = set[object](), list[int](), 0
    with watching() as record:
        while len(found) < MOMENTS and ((run.t < SHORT and draws < ENOUGH) or (len(found) < 2 and run.t < MOST)):
            run = run.update(one)
            run.measured(0)
            drawn = {address for m in record for address in (m.addresses if partitions else [m.law.scale])}
            if drawn - known:
                found.append(run.t)
            known |= drawn
            draws += sum(len(m.addresses) for m in record)
            record.clear()
    return tuple(found) or (run.t,)


def worst_cases(mechanism: str, dimension: int, epsilon: float, *, noisy_counts: bool = False) -> list[Case]:
    """The first record; the last one before something is measured, and the next; records on cuts and faces."""
    title = f"{mechanism}{', noisy counts' * noisy_counts}, d = {dimension}, ε = {epsilon:g}"
    if mechanism not in protocol.online():
        pairs = {kind: kind_of_pair(kind, heap(16, dimension), 5) for kind in MOVES}
        return [Case(f"{title}: 16 records, {kind}", mechanism, epsilon, pairs[kind]) for kind in MOVES]
    ends = moments(mechanism, unit_cube(dimension), epsilon)
    first, second = (*ends, 2 * ends[0])[:2]
    asked = [
        ("corner", "the first record", 0, (1, *ends[:4])),
        ("corner", "the last record before a measurement", first - 1, (first - 1, first, second)),
        ("cut", "the last record before a measurement", first - 1, (first, second)),
        ("face", "the last record before a measurement", first - 1, (first, second)),
        ("corner", "the first record after a measurement", first, (first, *ends[1:3])),
    ]
    for end, following in list(pairwise(ends[1:]))[:: max(1, len(ends) // 4)]:
        asked.append(("corner", f"record {end:,}, just before a measurement", end - 1, (end - 1, end, following)))
    windows = (second - first,) if mechanism_class(mechanism).windows and not noisy_counts else ()
    found = []
    for kind, what, position, at in asked:
        times = tuple(sorted({t for t in at if t > 0}))
        pair = kind_of_pair(kind, heap(max(times[-1], position + 1), dimension), position)
        name = f"{title}: {what}, {kind}"
        found.append(Case(name, mechanism, epsilon, pair, times, windows, times[-1:], noisy_counts))
    return found


def tables(mechanism: str, epsilon: float) -> list[Case]:
    usual: dict[str, object] = {"amount": 0.1, "colour": "red", "member": False}
    changes: dict[str, tuple[Record, Record]] = {
        "another category": (usual, {**usual, "colour": "blue"}),
        "a value goes missing": (usual, {**usual, "member": None}),
        "everything changes": ({**usual, "amount": 0.0}, {"amount": 1.0, "colour": "blue", "member": None}),
    }
    first = moments(mechanism, TABLE, epsilon)[0]
    times, found, stream = (first, 2 * first), [], (usual,) * (2 * first)
    for what, records in changes.items():
        one, other = (_with(stream, first - 1, record) for record in records)
        pair = Pair(TABLE, one, other)
        name = f"{mechanism}, a table, ε = {epsilon:g}: {what}"
        found.append(Case(name, mechanism, epsilon, pair, times, reloads=times[:1]))
    return found


def bad_records(mechanism: str, epsilon: float) -> list[Case]:
    found = []
    for one in worst_cases(mechanism, 1, epsilon)[::2] + tables(mechanism, epsilon):
        record = one.pair.one[one.pair.changed[0]]
        bad: Record = {**record, "colour": "unknown"} if isinstance(record, dict) else (2.0,)
        found.append(replace(one, name=f"{one.name}, which is bad", pair=one.pair.replaced(record, bad)))
    return found


def people(
    mechanism: str,
    epsilon: float,
    records: int = 3,
    *,
    columns: int = 1,
    noisy_counts: bool = False,
    ends: tuple[int, ...] = (),
) -> list[Case]:
    """All records of one person: in one bucket, in several, more than count, none of them on the other stream."""
    schema = Schema({f"x{axis}": Number(0, 1) for axis in range(columns)})
    ends = ends or moments(mechanism, schema, record_epsilon(epsilon, records))[:3]
    last, apart = ends[-1], [end - 1 for end in ends]
    within = range(ends[0], ends[0] + records) if len(ends) > 1 else range(records)
    more, half, person = [*within, *apart, *range(records + 2)], last // 2, last + 2
    changes: dict[str, tuple[Iterable[int], float | None, int]] = {
        "all that count in one bucket": (within, 0.1, person),
        "in several buckets": (apart, 0.1, person),
        "more than count": (more, 0.1, person),
        "more than count, replaced by nobody": (more, None, person),
        "more than count, replaced by another person": (more, 0.1, 10**6),
        "in one period of two": (range(last), 0.1, person),
    }
    found = []
    for what, (places, other, name) in changes.items():
        owners, points = list(range(last)), heap(last, columns)
        for place in range(0, last, max(2, last // 12)):  # all others have one record each, but for one of them
            owners[place] = last + 1
        for place in places:
            if place < last:
                owners[place], points[place] = person, 0.9
        period = {"per": half} if what.startswith("in one period") else {}
        pair = person_replaced(points, owners, other, name, range(half, min(2 * half, last)) if period else None)
        title = f"{mechanism}, a person with at most {records} records that count, ε = {epsilon:g}: {what}"
        title += (f", {columns} columns" if columns > 1 else "") + (", noisy counts" if noisy_counts else "")
        whose: Any = Person("person", records=records, null=NOWHERE, **period)
        how = {"reloads": ends[:1], "noisy_counts": noisy_counts, "person": whose}
        found.append(Case(title, mechanism, epsilon, pair, ends, **how))
    return found


def with_delta(cases: Iterable[Case], delta: float = DELTA) -> list[Case]:
    named = [(one, f"{one.name}, δ = {delta:g}" if delta else one.name) for one in cases]
    return [replace(one, name=name, delta=delta) for one, name in named]


def to_sample() -> list[Case | Draws]:
    """What crosses the trust boundary, releases with a window, people, a δ; and bare noise."""
    found = list[Case | Draws]()
    for mechanism in protocol.names():
        if mechanism not in protocol.online():
            found += worst_cases(mechanism, 2, 1.0)[:1]
            continue
        counts = worst_cases(mechanism, 2, 4.0, noisy_counts=True)[1:2]
        found += [*counts, *worst_cases(mechanism, 2, 4.0)[1:2], *worst_cases(mechanism, 1, 8.0)[5:6]]
        found += people(mechanism, 8.0, noisy_counts=True)[2:3]
        found += with_delta(counts) if traits_of(mechanism).deltas else []
    found += [Draws("noise of scale 1", Guarantee(1.0)), Draws("joint noise of scale 1", Guarantee(1.0), joint=True)]
    return [*found, *(Draws(f"Gaussian noise, ε = 1, δ = {delta:g}", Guarantee(1.0, delta)) for delta in (0.01, DELTA))]


def to_trace() -> list[Case]:
    """Releases, windows, cards and saved states of every mechanism, whenever something is measured."""
    found = list[Case]()
    for mechanism in protocol.names():
        found += worst_cases(mechanism, 2, 8.0)
        if mechanism in protocol.online():
            found += [*tables(mechanism, 8.0), *people(mechanism, 8.0)]
        if traits_of(mechanism).deltas:
            found += with_delta([*worst_cases(mechanism, 2, 4.0), *people(mechanism, 8.0)])
    return found
