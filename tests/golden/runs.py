"""The runs that goldens are of: each by its seed, and with digests of what it keeps, measures and shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import headwater as hw
from tests.golden import adapter, formats
from tests.golden.digest import digest
from tests.golden.tables import NARROW, TWO, WIDE, part_of, points, records_of, trips

Digests = dict[str, str]


@dataclass(frozen=True)
class Golden:
    """A run: of which records, under which budget, and how they come. The last must change nothing."""

    schema: Any
    records: int
    epsilon: float
    mechanism: str = "auto"
    more: dict[str, Any] = field(default_factory=dict)
    last: int | None = None
    bad: bool = False
    way: str = "batches"

    def table(self) -> Any:  # noqa: ANN401
        """All records; every seventh is none, if there shall be bad ones."""
        if not isinstance(self.schema, hw.Schema):
            return points(self.records, self.schema.dimension)
        names = [*self.schema.names, *(["who"] if "person" in self.more else [])]
        table = {name: list(trips(self.records)[name]) for name in names}
        for row in range(3, self.records, 7) if self.bad else ():
            table[names[row % len(names)]][row] = "?!"
        return table

    def digests(self, folder: Path) -> Digests:
        """Of all rows; and, at three moments, of what is measured and released so far and what that costs."""
        budget: Any = {"epsilon": self.epsilon, **self.more}
        synth = hw.Synthesizer(self.schema, mechanism=self.mechanism, seed=self.records, **budget)
        table, n = self.table(), self.records
        found: Digests = {"rows": digest(adapter.encoded(synth, table, "null" if self.bad else None))}
        for end in (n * 37 // 100, n * 71 // 100, n):
            cuts = np.linspace(synth.t, end, 6).astype(int).tolist()
            self._take(synth, [part_of(table, first, last) for first, last in pairwise(cuts)])
            if self.way == "saved":
                synth.save(folder / "state")
                synth = hw.Synthesizer.load(folder / "state")
            ledger = synth.ledger()
            windows = [synth.release(last=last) for last in (None, self.last or synth.t)]
            of_moment = {
                "measured": digest(adapter.measured(synth)),
                "released": digest([self._shown(release, folder) for release in windows]),
                "spent": digest(str(ledger.total), str(ledger.rho)),
                "ledger": digest(str(ledger)),
            }
            found |= {name: f"{found.get(name, '')} {value}".lstrip() for name, value in of_moment.items()}
        return found

    def _take(self, synth: hw.Synthesizer, parts: list[Any]) -> None:
        policy = "null" if self.bad else None
        counted = {"counted": 5, "counted, then in order": 2}.get(self.way, 0)
        if counted:
            adapter.take_counted(synth, parts[:counted], policy)
        for part in parts[counted:]:
            if self.way == "encoded":
                adapter.take_encoded(synth, part, policy)
                continue
            for some in records_of(part) if self.way == "one by one" else [part]:
                synth.update(some, bad_rows=policy)

    def _shown(self, release: hw.Release, folder: Path) -> list[Any]:
        if self.way == "saved":
            release.save(folder / "release")
            release = hw.Release.load(folder / "release")
        found: list[Any] = [release.span, release.points()]
        if isinstance(self.schema, hw.Schema):
            found += [release.sample(n, kind="columns") for n in (None, 40)]
            found.append(release.sample(40, where={"riders": (2, 4)}, kind="columns"))
        return found


def _runs() -> Iterator[tuple[str, Golden]]:
    cube, person = hw.unit_cube, hw.Person
    yield "cascade, d = 1", Golden(cube(1), 40_000, 1.0, "cascade", last=900)
    yield "cascade, d = 2", Golden(cube(2), 40_000, 5.0, "cascade", last=700)
    yield "cascade, d = 2, large ε", Golden(cube(2), 9000, 20.0, "cascade", last=900)
    yield "cascade, d = 2, small ε", Golden(cube(2), 6000, 0.1, "cascade")
    yield "cascade, d = 3", Golden(cube(3), 20_000, 2.0, "cascade", last=3000)
    yield "cascade, d = 2, δ", Golden(cube(2), 40_000, 1.0, "cascade", {"delta": 1e-6}, last=2000)
    yield "cascade, table", Golden(TWO, 8000, 2.0, "cascade", last=500)
    yield "cascade, null records", Golden(TWO, 2500, 5.0, "cascade", bad=True)
    yield "cascade, people", Golden(TWO, 8000, 6.0, "cascade", {"person": person("who", records=3, null="own")})
    yield "marginals, 4 columns", Golden(NARROW, 20_000, 1.0, last=700)
    yield "marginals, 4 columns, large ε", Golden(NARROW, 5000, 20.0, last=700)
    yield "marginals, 4 columns, small ε", Golden(NARROW, 6000, 0.1)
    yield "marginals, 4 columns, δ", Golden(NARROW, 30_000, 1.0, more={"delta": 1e-6}, last=700)
    yield "marginals, 4 columns, expect", Golden(NARROW, 5000, 2.0, more={"expect": 5000})
    yield "marginals, 2 columns", Golden(TWO, 5000, 2.0, "marginals")
    yield "marginals, 11 columns", Golden(WIDE, 12_000, 4.0, last=1200)
    yield "marginals, 11 columns, δ", Golden(WIDE, 8000, 2.0, more={"delta": 1e-7})
    yield "marginals, null records", Golden(NARROW, 2500, 5.0, bad=True, last=600)
    yield "marginals, 11 columns, null records", Golden(WIDE, 3000, 8.0, bad=True)
    life, period = person("who", records=4, null="nowhere"), person("who", records=2, per=500, null="own")
    yield "marginals, people", Golden(NARROW, 6000, 8.0, more={"person": life})
    yield "marginals, people, periods", Golden(NARROW, 6000, 4.0, more={"person": period})
    bucket = person("who", records=6, per_bucket=2, null="own")
    yield "marginals, people, δ", Golden(NARROW, 6000, 8.0, more={"person": bucket, "delta": 1e-6})
    yield "paper, d = 1", Golden(cube(1), 5000, 1.0, "paper")
    yield "paper, d = 2", Golden(cube(2), 5000, 4.0, "paper")
    yield "paper, table, null records", Golden(TWO, 2000, 8.0, "paper", bad=True)


WAYS = {
    "cascade, d = 2, large ε": ("one by one", "encoded", "counted", "counted, then in order", "saved"),
    "cascade, d = 2, δ": ("counted",),
    "cascade, null records": ("one by one", "counted"),
    "cascade, people": ("encoded", "saved"),
    "marginals, 4 columns": ("encoded", "counted", "counted, then in order", "saved"),
    "marginals, null records": ("one by one", "counted"),
    "marginals, people, periods": ("encoded", "saved"),
    "paper, d = 2": ("encoded", "saved"),
}
"""How else records come, by the name of a run."""


def _other(_: Path) -> Digests:
    released = [hw.pmm(points(2000, d), hw.unit_cube(d), epsilon=2.0, seed=d).points() for d in (1, 2)]
    finite = [kind(400, epsilon=2.0, seed=1) for kind in (hw.BinaryCounter, hw.SparseCounter)]
    counters: list[Any] = finite + [kind(epsilon=2.0, seed=2) for kind in (hw.HybridCounter, hw.InhomogeneousCounter)]
    seen = []
    for counter in counters:
        for step in range(400):
            counter.add(step % 3)
            seen.append(counter.count)
    return {"released": digest(released), "counts": digest(seen), "ledger": digest([str(c.budget()) for c in counters])}


_RUNS = dict(_runs())
_WAYS = {f"{name}, {way}": (name, way) for name in WAYS for way in WAYS[name]}
_FORMS = {f"form: {name}": partial(formats.digests, name) for name in formats.FORMS}
_FIRST, *_OTHERS = _FORMS
SAME = {name: same for name, (same, _) in _WAYS.items()} | dict.fromkeys(_OTHERS, _FIRST)
"""By name: the runs that must give what another one gives."""
RUNS: dict[str, Callable[[Path], Digests]] = {
    **{name: run.digests for name, run in _RUNS.items()},
    **{name: replace(_RUNS[same], way=way).digests for name, (same, way) in _WAYS.items()},
    "pmm and counters": _other,
    **_FORMS,
}
"""What gives the digests of each run, in an empty folder."""
