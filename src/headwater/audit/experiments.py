"""An experiment: a mechanism, a pair of neighbouring streams, the moments at which something is published.

It is a pure description. `columns` turns it into runs: what a reader of all publications would know of each.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from headwater.audit.events import Value
from headwater.audit.streams import TABLE, Pair, Points, Rows, as_table
from headwater.audit.views import View, look_at_files, look_at_measured, look_at_release
from headwater.counters import BinaryCounter, Counter, HybridCounter, InhomogeneousCounter, SparseCounter
from headwater.mechanisms.protocol import AnySchema
from headwater.noise import Noise, SeededRunWarning
from headwater.release.release import Release
from headwater.synthesizer import Synthesizer, pmm
from headwater.table.unit_cube import unit_cube


@dataclass(frozen=True)
class Experiment:
    """What is run, and what is looked at.

    Parameters
    ----------
    name
        What to call it in a table.
    mechanism
        A key of `MECHANISMS`.
    epsilon
        The claim: no event may be more than ``exp(epsilon)`` times likelier on one stream of the pair.
    times
        After how many records something is published: a release, every window, the card and the file of each.
    windows
        How many of the last records further releases are about. Cascade only.
    reloads
        After which of the times the run is saved, loaded and asked again.
    options
        Further arguments of the mechanism.
    files
        Whether releases are also saved and published, and their files looked at byte by byte: slow.
    """

    name: str
    mechanism: str
    epsilon: float
    pair: Pair
    times: tuple[int, ...] = ()
    windows: tuple[int, ...] = ()
    reloads: tuple[int, ...] = ()
    options: dict[str, float] = field(default_factory=dict)
    files: bool = False

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise ValueError(f"mechanism must be one of {', '.join(MECHANISMS)}, not {self.mechanism!r}")
        if any(not 0 < t <= len(self.pair.one) for t in self.times) or list(self.times) != sorted(set(self.times)):
            raise ValueError("times must rise, and lie between 1 and the length of the streams")

    @property
    def dimension(self) -> int:
        """Of the points."""
        return len(self.pair.one[0])

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
            return MECHANISMS[self.mechanism](self, self.stream(side), seed)

    def columns(self, side: int, runs: int, seed: int | None = None) -> dict[str, list[Value]]:
        """Many runs on one stream, feature by feature. Run ``i`` has the seed ``seed + 2·i + side``."""
        if self.mechanism == "noise":
            return _many_draws(self, side, runs, seed)
        seeds: Sequence[int | None] = [None if seed is None else seed + 2 * i + side for i in range(runs)]
        views = [self.view(side, one) for one in seeds]
        names = {name: None for view in views for name in view}
        return {name: [view.get(name) for view in views] for name in names}


def schema_and_table(experiment: Experiment, rows: Rows) -> tuple[AnySchema, object]:
    """What a record is, and these rows as a batch of records."""
    if experiment.mechanism.endswith("table"):
        return TABLE, as_table(rows)
    return unit_cube(len(experiment.pair.one[0])), np.array(rows)


def places(experiment: Experiment) -> Points:
    """Where the replaced record and its replacement are, in the unit cube."""
    schema, table = schema_and_table(experiment, experiment.pair.places)
    return schema.encode(table)


def _synthesizer(watched: str, look: Callable[..., View]) -> Callable[[Experiment, Rows, int | None], View]:
    def run(experiment: Experiment, rows: Rows, seed: int | None) -> View:
        seen, done = View(), 0
        schema, _ = schema_and_table(experiment, rows[:1])
        synth = Synthesizer(schema, epsilon=experiment.epsilon, mechanism=watched, seed=seed)
        for t in experiment.times:
            synth.update(schema_and_table(experiment, rows[done:t])[1])
            seen |= look(f"t={t}", synth, experiment)
            if t in experiment.reloads:
                synth = Synthesizer.from_bytes(synth.to_bytes())
                seen |= look(f"t={t} loaded", synth, experiment)
            done = t
        return seen

    return run


def _pmm(experiment: Experiment, rows: Rows, seed: int | None) -> View:
    points = np.array(rows)
    return _published("pmm", pmm(points, unit_cube(points.shape[1]), epsilon=experiment.epsilon, seed=seed), experiment)


def _releases(at: str, synth: Synthesizer, experiment: Experiment) -> View:
    seen = _published(at, synth.release(), experiment)
    for last in experiment.windows:
        seen |= _published(f"{at} last={last}", synth.release(last=last), experiment)
    return seen


def _published(at: str, release: Release, experiment: Experiment) -> View:
    seen = look_at_release(at, release, places(experiment))
    return seen | look_at_files(at, release) if experiment.files else seen


def _noisy_counts(at: str, synth: Synthesizer, experiment: Experiment) -> View:
    return look_at_measured(synth, places(experiment))


def _counter(make: Callable[..., Counter]) -> Callable[[Experiment, Rows, int | None], View]:
    """All counts that could be read, the steps between them, and what the counter says of its error."""

    def run(experiment: Experiment, rows: Rows, seed: int | None) -> View:
        counter, seen, before = make(experiment, len(rows), seed), View(), 0
        for step, (increment,) in enumerate(rows, start=1):
            counter.add(int(increment))
            seen[f"count {step}"], seen[f"change {step}"] = counter.count, counter.count - before
            before = counter.count
        seen["error bound"], seen["ledger"] = counter.error_bound(), str(counter.budget())
        return seen

    return run


def _many_draws(experiment: Experiment, side: int, runs: int, seed: int | None) -> dict[str, list[Value]]:
    """A count of 0 or 1 with one draw of noise on it, as many times as wanted: the source itself, quickly."""
    ((value,),) = experiment.stream(side)
    noise = Noise(None if seed is None else seed + side)
    return {"count": (int(value) + noise.laplace_at(1 / experiment.epsilon, 0, np.arange(runs))).tolist()}


def _one_draw(experiment: Experiment, rows: Rows, seed: int | None) -> View:
    noise = Noise(seed)
    return View({"count": int(rows[0][0]) + int(noise.laplace_at(1 / experiment.epsilon, 0, 0)[0])})


def _sparse(e: Experiment, horizon: int, seed: int | None) -> Counter:
    return SparseCounter(horizon, epsilon=e.epsilon, seed=seed, **e.options)  # type: ignore[arg-type]


def _inhomogeneous(e: Experiment, _: int, seed: int | None) -> Counter:
    return InhomogeneousCounter(epsilon=e.epsilon, seed=seed, **e.options)  # type: ignore[arg-type]


MECHANISMS: dict[str, Callable[[Experiment, Rows, int | None], View]] = {
    "cascade": _synthesizer("cascade", _releases),
    "cascade summaries": _synthesizer("cascade", _noisy_counts),
    "cascade table": _synthesizer("cascade", _releases),
    "paper": _synthesizer("paper", _releases),
    "paper table": _synthesizer("paper", _releases),
    "paper reports": _synthesizer("paper", _noisy_counts),
    "pmm": _pmm,
    "binary counter": _counter(lambda e, horizon, seed: BinaryCounter(horizon, epsilon=e.epsilon, seed=seed)),
    "hybrid counter": _counter(lambda e, _, seed: HybridCounter(epsilon=e.epsilon, seed=seed)),
    "sparse counter": _counter(_sparse),
    "inhomogeneous counter": _counter(_inhomogeneous),
    "noise": _one_draw,
}
"""What can be audited. "summaries" and "reports" are what crosses the wall: the claim holds for these already."""
