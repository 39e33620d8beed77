"""What is measured: which tables, at which times, at which ε, how often."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import headwater as hw
from benchmarks.tables import offline
from benchmarks.tables.data import DEVELOPMENT, HELD_OUT, table

MARGINALS, CASCADE = "marginals", "cascade"
EXPECTING = "marginals, expecting t"
"""Marginals with a plan for as many records as the release is about, which offline methods know as well."""
WITH_DELTA = "marginals, δ"
"""Marginals with the δ of the offline methods."""
ONLINE = (CASCADE, MARGINALS, EXPECTING, WITH_DELTA)
NARROW = ("flights:4", "flights:6", "diamonds:4", "births:4")
"""Tables of few columns, to compare marginals with cascade and to judge the choice between them."""
TIMES = {"flights": (16_384, 100_000, 131_072), "diamonds": (16_384, 53_940), "births": (131_072,)}
"""Of MST and AIM, which take minutes; the other tables are measured at their end."""


@dataclass(frozen=True, order=True)
class Case:
    """One release: of which table, when, with which ε, by which method, with which noise."""

    table: str
    t: int
    epsilon: float
    method: str
    seed: int

    @property
    def key(self) -> str:
        """What a figure is kept by, the code apart."""
        parts = [self.table, table(self.table).fingerprint, self.t, f"{self.epsilon:g}", self.method, self.seed]
        if self.method in offline.METHODS:
            parts += [f"dpmm {offline.DPMM}", f"delta {offline.DELTA:g}"]
        return "/".join(map(str, parts))

    def synthesizer(self, mechanism: str | None = None) -> hw.Synthesizer:
        """The synthesizer of an online method, before its first record."""
        mechanism = mechanism or (CASCADE if self.method == CASCADE else MARGINALS)
        delta, expect = (offline.DELTA if self.method == WITH_DELTA else 0.0), None
        if self.method == EXPECTING:
            expect = self.t
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # seeded, and perhaps too wide for its mechanism: both are meant here
            schema, seed = table(self.table).schema, self.seed + 1
            return hw.Synthesizer(
                schema, epsilon=self.epsilon, delta=delta, mechanism=mechanism, seed=seed, expect=expect
            )


@dataclass(frozen=True)
class Size:
    """How much is measured at ε = 1, and with ``other`` values of ε by marginals beside independent histograms."""

    name: str
    seeds: int
    times: tuple[int, ...]
    offline: bool  # whether figures of MST and AIM that are not kept are made
    other: tuple[float, ...] = (0.5, 4.0)

    def online(self) -> list[Case]:
        """All releases of Headwater, and of what needs no run."""
        found = []
        for name in (*DEVELOPMENT, *HELD_OUT, *NARROW):
            end = len(table(name))
            own = {t for t in (*self.times, *TIMES.get(name, ())) if t < end} | {end}
            for method in (*offline.BESIDE, *ONLINE):
                if ":" in name and method in (EXPECTING, WITH_DELTA):
                    continue
                times = {*TIMES.get(name, ()), end} if method == EXPECTING else own
                found += [Case(name, t, 1.0, method, seed) for seed in range(self.seeds) for t in sorted(times)]
                if ":" not in name and method in (offline.INDEPENDENT, MARGINALS):
                    found += [Case(name, t, epsilon, method, 0) for epsilon in self.other for t in sorted(times)]
        return found


QUICK = Size("quick", 1, (200, 500, 1_000, 2_000, 4_096, 8_192, 16_384, 50_000), offline=False)
FULL = Size("full", 3, (*QUICK.times, 12_000, 30_000, 32_768, 65_536, 100_000, 131_072, 200_000), offline=True)


def offline_cases() -> list[Case]:
    """Releases of MST and AIM, those first that matter most."""
    places = [(name, t) for name in (*DEVELOPMENT, *HELD_OUT) for t in TIMES.get(name, (len(table(name)),))]
    plan = [Case(name, t, 1.0, "mst", seed) for seed in range(3) for name, t in places]
    ends = {name: t for name, t in places if name in (*TIMES, "movies", "voters", "opinions")}
    plan += [
        Case(name, t, epsilon, "mst", seed) for epsilon in (0.5, 4.0) for name, t in ends.items() for seed in range(3)
    ]
    return plan + [Case(name, ends[name], 1.0, "aim", 0) for name in (*TIMES, "opinions")]
