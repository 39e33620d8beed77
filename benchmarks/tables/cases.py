"""What is measured: which tables, at which times, by which method, how often; all with ε = 1."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import headwater as hw
from benchmarks.tables import offline
from benchmarks.tables.data import DEVELOPMENT, SEALED, table

PLAIN, CASCADE = "headwater", "cascade"
EXPECTING = "headwater, expecting t"
"""With a plan for as many records as the release is about, which offline methods know as well."""
WITH_DELTA = "headwater, δ"
"""With the δ of the offline methods."""
BEFORE = "headwater before"
"""Figures of the version that was tuned on 16 bins; they are kept and not made again."""
EARLY = (2_000, 8_192, 16_384)
NARROW = (
    "flights:dep_delay,arr_delay",
    "flights:minute,origin",
    "flights:carrier,origin",
    "diamonds:carat,price",
    "diamonds:cut,price",
    "births:age,work",
    "stops:lat,long",
    "flights:dep_delay,arr_delay,distance",
    "flights:carrier,origin,month",
    "diamonds:carat,price,clarity",
    "diamonds:x,y,z",
    "wages:year,age,realrinc",
)
"""Two and three columns, to compare marginals with cascade and to judge the choice between them."""
AIM = ("births", "wages")


@dataclass(frozen=True, order=True)
class Case:
    """One release: of which table, when, by which method, with which noise."""

    table: str
    t: int
    method: str
    seed: int
    epsilon: float = 1.0

    @property
    def key(self) -> str:
        """What a figure is kept by, the code apart."""
        parts = [self.table, table(self.table).fingerprint, self.t, self.method, self.seed, f"{self.epsilon:g}"]
        if self.method in offline.METHODS:
            parts += [f"dpmm {offline.DPMM}", f"delta {offline.DELTA:g}"]
        return "/".join(map(str, parts))

    def synthesizer(self, mechanism: str | None = None) -> hw.Synthesizer:
        """The synthesizer of an online method, before its first record."""
        mechanism = mechanism or (CASCADE if self.method == CASCADE else "marginals")
        delta = offline.DELTA if self.method == WITH_DELTA else 0.0
        expect = self.t if self.method == EXPECTING else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # seeded, and perhaps too wide for its mechanism: both are meant here
            schema, seed = table(self.table).schema, self.seed + 1
            return hw.Synthesizer(
                schema, epsilon=self.epsilon, delta=delta, mechanism=mechanism, seed=seed, expect=expect
            )


def online(names: Iterable[str], seeds: int) -> list[Case]:
    """Releases of Headwater of whole tables and early ones, and histograms."""
    found = []
    for name in names:
        end = len(table(name))
        for method in (PLAIN, EXPECTING, WITH_DELTA, offline.HISTOGRAMS):
            times = [*EARLY, end] if method == PLAIN else [end]
            found += [Case(name, t, method, seed) for seed in range(seeds) for t in times]
    return found


def narrow(seeds: int) -> list[Case]:
    """Releases of few columns by both mechanisms."""
    times = {name: sorted({*EARLY, len(table(name))}) for name in NARROW}
    plan = [(name, method, seed) for name in NARROW for method in (PLAIN, CASCADE) for seed in range(seeds)]
    return [Case(name, t, method, seed) for name, method, seed in plan for t in times[name]]


def offline_cases() -> list[Case]:
    """Releases of MST and AIM, in the order in which they are made."""
    plan = [(name, f"mst {bins}") for names in (DEVELOPMENT, SEALED) for bins in (16, 64) for name in names]
    return [Case(name, len(table(name)), method, 0) for name, method in [*plan, *((name, "aim 16") for name in AIM)]]
