"""An experiment: a mechanism, a pair of neighbouring streams, the moments at which something is published.

It is a pure description. `Experiment.columns` turns it into runs: what a reader of all publications would know of each.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from headwater.audit.events import Value
from headwater.audit.streams import TABLE, Pair, Points, Rows, as_table
from headwater.public import files, protocol
from headwater.public.budget import DeltaWarning, Guarantee
from headwater.public.cube import unit_cube
from headwater.public.folder import card_of, publish, read_card
from headwater.public.laws import CountLaw, DiscreteGaussian, IntegerLaplace, deviation_for, rho_for
from headwater.public.numbers import Number
from headwater.public.person import Person
from headwater.public.protocol import AnySchema
from headwater.public.release import Release
from headwater.public.schema import Schema
from headwater.secret.noise import Noise, SeededRunWarning
from headwater.synthesizer import Synthesizer, pmm

NOISE, JOINT_NOISE = "noise", "joint noise"
"""What `Draws` are of."""
MANY = 50_000  # draws, which are quick, at least
View = dict[str, Value]
"""What is seen of a run: a value for each feature, taken from everything that a user can publish."""


class AuditAlarm(AssertionError):  # noqa: N818 - nothing has gone wrong with the auditor
    """Something that is published depends on raw data more than was paid for."""


@dataclass(frozen=True)
class Experiment:
    """What is run, and what is looked at."""

    name: str
    mechanism: str
    epsilon: float
    pair: Pair
    times: tuple[int, ...] = ()  # after how many records there is a release, every window, the card and file of each
    windows: tuple[int, ...] = ()  # how many of the last records further releases are about
    reloads: tuple[int, ...] = ()  # after which of the times the run is saved, loaded and asked again
    noisy_counts: bool = False  # look at what crosses the trust boundary: the claim holds for that already
    table: bool = False  # rows of the pair are records of `TABLE`, not points
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

    def _begin(self, seed: int | None) -> Synthesizer:
        how: dict[str, Any] = {"mechanism": self.mechanism, "person": self.person, "seed": seed}
        return Synthesizer(self.schema, epsilon=self.epsilon, delta=self.delta, **how)

    @property
    def online(self) -> bool:
        return self.mechanism in protocol.online()

    @property
    def schema(self) -> AnySchema:
        if self.person is not None and not self.table:
            return Schema({f"x{axis}": Number(0, 1) for axis in range(len(self.pair.one[0]) - 1)})
        return TABLE if self.table else unit_cube(len(self.pair.one[0]))

    def batch(self, rows: Rows) -> object:
        if self.person is None:
            return self._records(rows)
        owners = [None if row[-1] < 0 else int(row[-1]) for row in rows]
        return self._records(rows) | {self.person.column: owners}

    def _records(self, rows: Rows) -> Any:  # noqa: ANN401 - an array of points, or columns by name
        if self.table:
            return as_table(rows)
        if self.person is None:
            return np.array(rows)
        return {f"x{axis}": [row[axis] for row in rows] for axis in range(self.schema.dimension)}

    @property
    def places(self) -> Points:
        """Where the replaced record and its replacement are, in the unit cube."""
        return self.schema.encode_batch(self._records(self.pair.places), bad_rows="null").points

    def view(self, side: int, seed: int | None = None, *, publish: bool = True) -> View:
        """What one run on one stream publishes, or only measures. Without a seed it has a key of its own."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededRunWarning)
            warnings.simplefilter("ignore", DeltaWarning)
            rows = (self.pair.one, self.pair.other)[side]
            if not self.online:
                return self._released(self.mechanism, self._release_once(rows, seed))
            seen, done, synth = View(), 0, self._begin(seed)
            for t in self.times:
                synth.update(self.batch(rows[done:t]), bad_rows="null")
                seen |= self._look(f"t={t}", synth, publish)
                if t in self.reloads:  # saved, loaded and asked again
                    synth = Synthesizer.from_bytes(synth.to_bytes())
                    seen |= self._look(f"t={t} loaded", synth, publish)
                done = t
            return seen

    def columns(self, side: int, runs: int, seed: int | None = None) -> dict[str, list[Value]]:
        """Many runs on one stream, feature by feature. Run ``i`` has the seed ``seed + 2·i + side``."""
        seeds: Sequence[int | None] = [None if seed is None else seed + 2 * i + side for i in range(runs)]
        views = [self.view(side, one) for one in seeds]
        names = {name: None for view in views for name in view}
        return {name: [view.get(name) for view in views] for name in names}

    def _look(self, at: str, synth: Synthesizer, publish: bool) -> View:
        if self.noisy_counts or not publish:
            measured = synth.measured()
            return {**measured.near(self.places)} if publish else {}
        seen = self._released(at, synth.release())
        for last in self.windows:
            seen |= self._released(f"{at} last={last}", synth.release(last=last))
        return seen | _look_at_kept(at, synth) if self.files else seen

    def _released(self, at: str, release: Release) -> View:
        seen = _look_at_release(at, release, self.places)
        return seen | _look_at_files(at, release) if self.files else seen

    def _release_once(self, rows: Rows, seed: int | None) -> Release:
        return pmm(self.batch(rows), self.schema, epsilon=self.epsilon, seed=seed)


def _look_at_release(at: str, release: Release, places: Points) -> View:
    """The model near the replaced point, the points nearest to it, and all that the card says but the key's digest."""
    seen: View = {f"{at} {name}": value for name, value in release.model.near(places).items()}
    points = release.points()
    for name, place in zip("ab", places, strict=True):
        seen[f"{at} nearest to {name}"] = float(np.abs(points - place).max(axis=1).min(initial=math.inf))
    expected = release.expected_error()
    seen |= {f"{at} card typical error": expected.typical, f"{at} card upper error": expected.upper}
    facts = {
        "t": (release.t, release.span, release.model.records),
        "guarantee": release.guarantee.to_dict(),
        "mechanism": release.mechanism,
        "model": {name: str(value) for name, value in release.model.state()[0].items()},
        "bound": asdict(release.error_bound),
        "schema": release.schema.to_dict(),
        "words": str(release),
    }
    return seen | {f"{at} card, all else": json.dumps(facts, default=str)}


def _look_at_files(at: str, release: Release) -> View:
    """The saved release, byte by byte, and the whole card: of its table, or for a cube of itself. No time is in it."""
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "release.hw"
        release.save(saved)
        data = saved.read_bytes()
        seen: View = {f"{at} file size": len(data), f"{at} file": hashlib.sha256(data).hexdigest()}
        table = isinstance(release.schema, Schema)
        card = read_card(publish(release, folder, format="csv")) if table else card_of(release, saved)
    return seen | {f"{at} card.json {name}": json.dumps(value) for name, value in card.items() if name != "time"}


def _look_at_kept(at: str, synth: Synthesizer) -> View:
    """All that was measured until now, as it is written down for everybody, and the facts beside it."""
    kept = synth.kept()
    data = files.pack("kept", *protocol.measured(synth.mechanism).pack(kept)) if kept else b""
    return {f"{at} kept": hashlib.sha256(data).hexdigest(), f"{at} facts": json.dumps(synth.facts(), default=str)}


@dataclass(frozen=True)
class Draws:
    """One draw of noise, without a mechanism: Laplace, Gaussian if there is a δ, or joint."""

    name: str
    mechanism: str  # `NOISE` or `JOINT_NOISE`
    claim: Guarantee

    def columns(self, side: int, runs: int, seed: int | None = None) -> dict[str, list[Value]]:
        """A count, of ``side``, with noise on it; or a yes or no, and a table that a record is in, with joint noise."""
        runs, noise = max(runs, MANY), Noise(None if seed is None else seed + side)
        scale, rho = 1 / self.claim.epsilon, self.claim.delta and rho_for(self.claim.epsilon, self.claim.delta)
        if self.mechanism == NOISE:
            law: CountLaw = DiscreteGaussian(deviation_for(rho)) if rho else IntegerLaplace(scale)
            return {"count": (side + law.draw(noise, 0, np.arange(runs))).tolist()}
        true, places = np.array([side, side, 1 - side, 0]), [(8 * run, 8 * run + 1) for run in range(runs)]
        seen = [(true + noise.jointly_at(scale, (1, 3), 0, place)).tolist() for place in places]
        columns: dict[str, list[Value]] = {f"count {i}": [numbers[i] for numbers in seen] for i in range(len(true))}
        return columns | {"all counts": [str(numbers) for numbers in seen]}
