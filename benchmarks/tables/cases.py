"""What is measured: which tables, at which times, at which ε, how often; and the code that a figure depends on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import headwater as hw
from benchmarks.code import stripped
from benchmarks.tables import held_out, offline
from benchmarks.tables.data import NAMES, table

WITH_DELTA = "marginals, δ"
"""Marginals with the δ of the offline methods."""
EXPECTING = "marginals, expecting t"
"""Marginals with a plan for as many records as the release is about, which offline methods know as well."""
ONLINE = ("cascade", "marginals", EXPECTING, WITH_DELTA, "auto")
INDEPENDENT = "independent"
NOTHING = "nothing"
BESIDE = (INDEPENDENT, NOTHING)
"""What needs no run: offline marginals, and records that know nothing of the data."""
OFFLINE = tuple(offline.METHODS)
HELD_OUT = tuple(held_out.READERS)
"""Tables that took no part in choosing constants, but for two of the first stage with pairs."""
KNOWN = ("flights", "diamonds", "births")
"""The tables with which the design began; errors of the others were seen, too, while constants were chosen."""
NARROW = ("flights:4", "flights:6", "diamonds:4", "births:4")
"""Tables of few columns, to compare marginals with cascade and to judge the choice between them."""
REQUIRED_TIMES = {"flights": (16_384, 100_000, 131_072), "diamonds": (16_384, 53_940), "births": (131_072,)}
SMALLEST = 4_096
FEW = (200, 500, 1_000, 2_000)
"""Times before the first pairs, measured at ε = 1."""

_APART = {"audit", "checks", "cli", "data", "evaluate", "run", "pipeline.py", "store"}  # nothing of a release is there


@dataclass(frozen=True, order=True)
class Case:
    """One release: of which table, when, with which ε, by which method, with which noise."""

    table: str
    t: int
    epsilon: float
    method: str
    seed: int

    def key(self, *, code: bool = True) -> str:
        """What a kept figure is found by; with the code, it is measured again when its mechanism changes."""
        parts = [self.table, table(self.table).fingerprint, self.t, f"{self.epsilon:g}", self.method, self.seed]
        if self.method in OFFLINE:
            parts += [f"dpmm {offline.DPMM}", f"delta {offline.DELTA:g}"]
        elif code:
            parts.append(_fingerprint(self.mechanism))
        return "/".join(map(str, parts))

    @property
    def mechanism(self) -> str:
        """What an online method calls its mechanism."""
        return "marginals" if self.method in (EXPECTING, WITH_DELTA) else self.method

    @property
    def expect(self) -> int | None:
        """How many records the plan is for, if it is for any."""
        return self.t if self.method == EXPECTING else None

    @property
    def delta(self) -> float:
        """The δ of an online method."""
        return offline.DELTA if self.method == WITH_DELTA else 0.0


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    name: str
    epsilons: tuple[float, ...]
    seeds: int
    times: tuple[int, ...]  # those of `REQUIRED_TIMES` and the end of every table are added
    offline: bool  # whether figures of MST and AIM that are not kept are made
    other: tuple[float, ...] = ()  # ε for one run of marginals beside independent ones

    def times_of(self, name: str, method: str = "marginals", epsilon: float = 1.0) -> tuple[int, ...]:
        """The times at which a table is measured; a run that expects a number of records is only about that one."""
        end = len(table(name))
        if method == EXPECTING:
            return tuple(sorted({*REQUIRED_TIMES.get(name, ()), end}))
        few = FEW if epsilon == 1 else ()
        return tuple(sorted({t for t in (*few, *self.times, *REQUIRED_TIMES.get(name, ())) if t < end} | {end}))

    def online(self) -> list[Case]:
        """All releases of Headwater, and of what needs no run."""
        few = [
            Case(name, t, epsilon, method, 0)
            for epsilon in self.other
            for name in (*NAMES, *HELD_OUT)
            for method in (INDEPENDENT, "marginals")
            for t in self.times_of(name, method, epsilon)
        ]
        return few + [
            Case(name, t, epsilon, method, seed)
            for seed in range(self.seeds)
            for epsilon in self.epsilons
            for name in (*NAMES, *HELD_OUT, *NARROW)
            if ":" not in name or epsilon == 1
            for method in (*BESIDE, *ONLINE)
            if ":" not in name or method not in (EXPECTING, WITH_DELTA)
            for t in self.times_of(name, method, epsilon)
        ]


QUICK = Size("quick", (1.0,), 1, (4_096, 8_192, 16_384, 50_000), offline=False, other=(0.5, 4.0))
FULL = Size(
    "full",
    (0.5, 1.0, 4.0),
    3,
    (4_096, 8_192, 12_000, 16_384, 30_000, 32_768, 50_000, 65_536, 100_000, 131_072, 200_000),
    offline=True,
)


def offline_cases() -> list[Case]:
    """Releases of MST and AIM, those first that matter most: they take a minute or more each."""
    required = [(name, t) for name, times in REQUIRED_TIMES.items() for t in times]
    largest = [(name, times[-1]) for name, times in REQUIRED_TIMES.items()]
    others = [(name, len(table(name))) for name in ("movies", "voters", "opinions")]
    unseen = [(name, len(table(name))) for name in HELD_OUT]

    def cases(where: list[tuple[str, int]], method: str, seeds: tuple[int, ...], epsilon: float = 1.0) -> list[Case]:
        return [Case(name, t, epsilon, method, seed) for seed in seeds for name, t in where]

    plan = cases(required + others, "mst", (0,))
    plan += cases(largest, "mst rerun", (0,)) + cases(largest, "mst rerun, zcdp", (0,))
    plan += cases(others + required, "mst", (1, 2))
    plan += cases([("health", len(table("health")))], "mst", (0,)) + cases(others, "mst rerun", (0,))
    for epsilon in (0.5, 4.0):
        plan += cases(largest + others, "mst", (0, 1, 2), epsilon)
    plan += cases(unseen, "mst", (0, 1, 2))
    plan += cases([(name, SMALLEST) for name in KNOWN], "mst", (0,))
    return plan + cases([*largest, ("opinions", len(table("opinions")))], "aim", (0,))


@cache
def _fingerprint(method: str) -> str:
    """Of the code that makes a method's figures, without comments and docstrings."""
    here, library, digest = Path(__file__).parent, Path(hw.__file__).parent, hashlib.sha256()
    paths = [here / "data.py", here / "measures.py", here / ("online.py" if method in ONLINE else "offline.py")]
    if method in ONLINE:
        for path in sorted(library.rglob("*.py")):
            inside = path.relative_to(library).parts
            other = len(inside) > 2 and inside[0] == "mechanisms" and method not in (inside[1], "auto")
            if inside[0] not in _APART and not other:
                paths.append(path)
    for path in paths:
        digest.update(stripped(path.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()[:12]
