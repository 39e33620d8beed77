"""An experiment: a mechanism, a pair of neighbouring streams, the moments at which something is published.

It is a pure description. `columns` turns it into runs: what a reader of all publications would know of each.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

import headwater
from headwater.audit.events import Value
from headwater.audit.streams import TABLE, Pair, Points, Rows, as_table
from headwater.audit.views import View, look_at_files, look_at_release
from headwater.public import protocol as registry
from headwater.public.budget import DeltaWarning, Guarantee
from headwater.public.laws import CountLaw, DiscreteGaussian, IntegerLaplace, deviation_for, rho_for
from headwater.public.numeric import Number
from headwater.public.person import Person
from headwater.public.protocol import AnySchema
from headwater.public.release import Release
from headwater.public.schema import Schema
from headwater.public.unit_cube import unit_cube
from headwater.secret.counters import BinaryCounter, Counter, HybridCounter, InhomogeneousCounter, SparseCounter
from headwater.secret.mechanism import Mechanism, mechanism_class
from headwater.secret.noise import Noise, SeededRunWarning
from headwater.synthesizer import Synthesizer

NOISE = "noise"
"""The name of experiments on one draw of noise."""
JOINT_NOISE = "joint noise"
"""The name of experiments on one draw of joint noise."""
BARE = (NOISE, JOINT_NOISE)


class AuditAlarm(AssertionError):  # noqa: N818 - nothing has gone wrong with the auditor
    """Something that is published depends on raw data more than was paid for."""


@dataclass(frozen=True)
class Experiment:
    """What is run, and what is looked at.

    Parameters
    ----------
    mechanism
        The name of a registered mechanism, a key of `COUNTERS`, `NOISE` or `JOINT_NOISE`.
    times
        After how many records something is published: a release, every window, the card and the file of each.
    windows
        How many of the last records further releases are about. Only of mechanisms that have windows.
    reloads
        After which of the times the run is saved, loaded and asked again.
    noisy_counts
        Whether to look at what crosses the trust boundary instead of at releases: the claim holds for that already.
    table
        Whether the rows of the pair stand for records of `headwater.audit.streams.TABLE`, not for points.
    files
        Whether releases are also saved and published, and their files looked at byte by byte: slow.
    person
        What is declared about people, if the streams of the pair differ in all records of one (`PersonPair`).
    """

    name: str
    mechanism: str
    epsilon: float
    pair: Pair
    times: tuple[int, ...] = ()
    windows: tuple[int, ...] = ()
    reloads: tuple[int, ...] = ()
    options: dict[str, float] = field(default_factory=dict)
    noisy_counts: bool = False
    table: bool = False
    files: bool = False
    person: Person | None = None
    delta: float = 0.0

    def __post_init__(self) -> None:
        known = (*registry.names(), *COUNTERS, *BARE)
        if self.mechanism not in known:
            raise ValueError(f"mechanism must be one of {', '.join(known)}, not {self.mechanism!r}")
        if any(not 0 < t <= len(self.pair.one) for t in self.times) or list(self.times) != sorted(set(self.times)):
            raise ValueError("times must rise, and lie between 1 and the length of the streams")

    @cached_property
    def claim(self) -> Guarantee:
        """What the run itself promises, as it states it: this is what an audit attacks."""
        if self.mechanism in COUNTERS:
            claim = COUNTERS[self.mechanism](self, len(self.pair.one), None).budget().guarantee(self.epsilon)
        elif self.mechanism in BARE:
            claim = Guarantee(self.epsilon, self.delta)
        elif self.kind.online:
            claim = self._begin(None).guarantee
        else:
            claim = self._release_once(self.pair.one, None).guarantee
        asked = Guarantee(self.epsilon, self.delta)
        if self.person is not None:
            whose = {"neighbours": self.person.neighbours, "records": self.person.records}
            asked = replace(asked, unit=self.person.unit, **whose)  # type: ignore[arg-type]
        if claim != asked:
            raise AuditAlarm(f"{self.name}: asked for {asked}, the run promises only: {claim}")
        return claim

    def _begin(self, seed: int | None) -> Synthesizer:
        how: dict[str, Any] = {"mechanism": self.mechanism, "person": self.person, "seed": seed}
        return Synthesizer(self.schema, epsilon=self.epsilon, delta=self.delta, **how)

    @property
    def kind(self) -> type[Mechanism]:
        """The class of the mechanism."""
        return mechanism_class(self.mechanism)

    @property
    def schema(self) -> AnySchema:
        """What a record is."""
        if self.person is not None and not self.table:
            return Schema({f"x{axis}": Number(0, 1) for axis in range(len(self.pair.one[0]) - 1)})
        return TABLE if self.table else unit_cube(len(self.pair.one[0]))

    def batch(self, rows: Rows) -> object:
        """These rows as a batch of records."""
        if self.person is None:
            return as_table(rows) if self.table else np.array(rows)
        columns = np.array(rows)[:, :-1].T.tolist() if len(rows) else [[] for _ in self.schema.partition.axes]
        found = as_table(rows) if self.table else {f"x{axis}": column for axis, column in enumerate(columns)}
        return {**found, self.person.column: [None if row[-1] < 0 else int(row[-1]) for row in rows]}

    @property
    def places(self) -> Points:
        """Where the replaced record and its replacement are, in the unit cube."""
        batch = self.batch(self.pair.places)
        if self.person is not None:
            batch = {name: column for name, column in dict(batch).items() if name != self.person.column}  # type: ignore[call-overload]
        return self.schema.encode(batch)

    @property
    def fingerprint(self) -> str:
        """The same for the same description, and for no other."""
        text = json.dumps(asdict(self), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def stream(self, side: int) -> Rows:
        """One of the two streams."""
        return (self.pair.one, self.pair.other)[side]

    def view(self, side: int, seed: int | None = None) -> View:
        """What one run on one stream publishes. Without a seed the run has a key of its own, as it should."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededRunWarning)
            warnings.simplefilter("ignore", DeltaWarning)
            rows = self.stream(side)
            if self.mechanism in COUNTERS:
                return _counted(COUNTERS[self.mechanism](self, len(rows), seed), rows)
            if self.mechanism in BARE:
                return {name: values[0] for name, values in _draws(self, side, 1, seed).items()}
            if self.kind.online:
                return self._stream(rows, seed, self._published)
            return self._released(self.mechanism, self._release_once(rows, seed))

    def measure(self, side: int, seed: int | None = None) -> None:
        """Let one run measure all that `view` is made from, and publish nothing: for auditors of the draws alone."""
        if self.mechanism in (*COUNTERS, *BARE) or not self.kind.online:
            self.view(side, seed)
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededRunWarning)
            self._stream(self.stream(side), seed, self._measured)

    def columns(self, side: int, runs: int, seed: int | None = None) -> dict[str, list[Value]]:
        """Many runs on one stream, feature by feature. Run ``i`` has the seed ``seed + 2·i + side``."""
        if self.mechanism in BARE:
            return _draws(self, side, runs, None if seed is None else seed + side)
        seeds: Sequence[int | None] = [None if seed is None else seed + 2 * i + side for i in range(runs)]
        views = [self.view(side, one) for one in seeds]
        names = {name: None for view in views for name in view}
        return {name: [view.get(name) for view in views] for name in names}

    def _stream(self, rows: Rows, seed: int | None, look: Callable[[str, Synthesizer], View]) -> View:
        """What is seen of a run at all times, and again after it was saved and loaded."""
        seen, done = View(), 0
        synth = self._begin(seed)
        for t in self.times:
            synth.update(self.batch(rows[done:t]))
            seen |= look(f"t={t}", synth)
            if t in self.reloads:
                synth = Synthesizer.from_bytes(synth.to_bytes())
                seen |= look(f"t={t} loaded", synth)
            done = t
        return seen

    def _published(self, at: str, synth: Synthesizer) -> View:
        if self.noisy_counts:
            return {**synth.measured().near(self.places)}
        seen = self._released(at, synth.release())
        for last in self.windows:
            seen |= self._released(f"{at} last={last}", synth.release(last=last))
        return seen

    def _measured(self, at: str, synth: Synthesizer) -> View:
        synth.measured()
        for last in () if self.noisy_counts else self.windows:
            synth.measured(last=last)
        return {}

    def _released(self, at: str, release: Release) -> View:
        seen = look_at_release(at, release, self.places)
        return seen | look_at_files(at, release) if self.files else seen

    def _release_once(self, rows: Rows, seed: int | None) -> Release:
        """The release of a mechanism that takes a whole data set: it is a function of its name."""
        release: Release = getattr(headwater, self.mechanism)(
            self.batch(rows), self.schema, epsilon=self.epsilon, seed=seed
        )
        return release


def _counted(counter: Counter, rows: Rows) -> View:
    """All counts that could be read, the steps between them, and what the counter says of its error."""
    seen, before = View(), 0
    for step, (increment,) in enumerate(rows, start=1):
        counter.add(int(increment))
        seen[f"count {step}"], seen[f"change {step}"] = counter.count, counter.count - before
        before = counter.count
    seen["error bound"], seen["ledger"] = counter.error_bound(), str(counter.budget())
    return seen


def _draws(experiment: Experiment, side: int, runs: int, seed: int | None) -> dict[str, list[Value]]:
    """A count of 0 or 1 with one draw of noise on it, as many times as wanted: the source itself, quickly."""
    ((value,),) = experiment.stream(side)
    if experiment.mechanism == JOINT_NOISE:
        return _joint_draws(1 / experiment.epsilon, int(value), runs, Noise(seed))
    law: CountLaw = IntegerLaplace(1 / experiment.epsilon)
    if experiment.delta:
        law = DiscreteGaussian(deviation_for(rho_for(experiment.epsilon, experiment.delta)))
    return {"count": (int(value) + law.draw(Noise(seed), 0, np.arange(runs))).tolist()}


def _joint_draws(scale: float, value: int, runs: int, noise: Noise) -> dict[str, list[Value]]:
    """A yes or no, and a table of three cells of which a record is in one, with joint noise on both."""
    true, seen = np.array([value, value, 1 - value, 0]), list[list[int]]()
    for run in range(runs):
        seen.append((true + noise.jointly_at(scale, (1, 3), 0, (8 * run, 8 * run + 1))).tolist())
    columns: dict[str, list[Value]] = {f"count {i}": [numbers[i] for numbers in seen] for i in range(len(true))}
    return columns | {"all counts": [str(numbers) for numbers in seen]}


COUNTERS: dict[str, Callable[[Experiment, int, int | None], Counter]] = {
    "binary counter": lambda e, horizon, seed: BinaryCounter(horizon, epsilon=e.epsilon, seed=seed),
    "hybrid counter": lambda e, _, seed: HybridCounter(epsilon=e.epsilon, seed=seed),
    "sparse counter": lambda e, horizon, seed: SparseCounter(horizon, epsilon=e.epsilon, seed=seed, **e.options),  # type: ignore[arg-type]
    "inhomogeneous counter": lambda e, _, seed: InhomogeneousCounter(epsilon=e.epsilon, seed=seed, **e.options),  # type: ignore[arg-type]
}
"""How the counter of an experiment is made, for a number of steps and a seed."""
