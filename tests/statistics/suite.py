"""A billion draws on all processors: what is drawn, what is looked at, and what follows from it."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy import stats

from headwater.secret.noise import Noise
from tests.statistics.keystream import bytes_of, judge_bytes
from tests.statistics.tallies import (
    LEVELS,
    Counts,
    Draw,
    Tally,
    count,
    deviation,
    even,
    judge,
    laplace,
    law_of,
    levels,
    paired,
    together,
)
from tests.support.noise_checks import LAST_COIN, ONE_WORD, TWO_WORDS, chi_square

MILLION = 1_000_000
PART = 5 * MILLION
CHUNK = 1 << 18
LEVEL_OF_JUDGEMENT = 1e-6
"""A sampler that is right is rejected with at most this probability, over all p-values together (Holm)."""

SCALES = [1e-300, 1e-9, 0.05, 0.08, 0.15, 0.3, 0.5, 1.0, 1.4426950408889634, 2.0, 2.5, 7.0, 13.3, 25.0, 64.0, 100.0]
SCALES += [1000.0, LAST_COIN, 12345.678, 1e5, 1e6]
WIDE = [2.0**26, ONE_WORD, TWO_WORDS, 1e12, 2.0**40, 2.0**50]  # of ε from 2^−25 on; 2^50 is the largest there is
DRAWS, FEW = 25 * MILLION, 10 * MILLION
MANY = {1.0: 100 * MILLION, 25.0: 100 * MILLION, 1000.0: 100 * MILLION}
"""Scales that get enough draws to show an error of one thousandth of the scale, ten standard deviations, each."""
ACROSS = [0.5, 25.0, 1e6]
"""Scales at which draws at one address are compared with those at another upper half, and under another key."""
STREAMED = 25.0
UNIFORM = 120 * MILLION


@dataclass(frozen=True)
class Job:
    """Some draws, to be made and counted in one process."""

    what: str
    scale: float
    draws: int
    first: int
    of: int  # how many draws of the kind there are in all
    seed: int


@dataclass
class Health:
    """What was found: p-values by family and check; those of `independent` come from draws of their own."""

    draws: int = 0
    seconds: float = 0.0
    families: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    independent: list[float] = field(default_factory=list)

    @property
    def values(self) -> list[float]:
        """Every p-value there is."""
        found = [p for family in self.families.values() for row in family.values() for p in row.values()]
        return found + self.independent

    @property
    def uniformity(self) -> float:
        """Are the independent p-values themselves uniform?"""
        return float(stats.kstest(self.independent, "uniform").pvalue)

    @property
    def corrected(self) -> float:
        """The smallest p-value times their number: Holm's first step, which decides whether there is any alarm."""
        return min(1.0, min(self.values) * len(self.values))

    @property
    def healthy(self) -> bool:
        """The judgement."""
        return self.corrected >= LEVEL_OF_JUDGEMENT and self.uniformity >= LEVEL_OF_JUDGEMENT


def jobs(share: float, seed: int) -> list[Job]:
    """All that is to be drawn; ``share`` of 1 is a billion draws."""
    wanted = [("laplace", scale, MANY.get(scale, DRAWS)) for scale in SCALES] + [
        ("laplace", scale, FEW) for scale in WIDE
    ]
    wanted += [(what, scale, FEW) for what in ("upper half", "key", "bits") for scale in ACROSS]
    wanted += [("stream", STREAMED, FEW), ("uniform", 0.0, UNIFORM)]
    found = []
    for what, scale, draws in wanted:
        each = max(int(draws * share) // PART, 1)
        size = PART if draws * share >= PART else max(int(draws * share), 1000)
        found += [Job(what, scale, size, part * size, each * size, seed) for part in range(each)]
    return found


def chunks(job: Job) -> Iterator[tuple[int, int]]:
    for start in range(job.first, job.first + job.draws, CHUNK):
        yield start, min(CHUNK, job.first + job.draws - start)


def work(job: Job) -> tuple[Job, int, Any]:
    """Draw and count: the job, how many draws it took, and the counts."""
    return job, *KINDS[job.what](job)


def _laplace(job: Job) -> tuple[int, tuple[Tally, float, float]]:
    """The tally; the whole law in these draws alone; and the steps of its distribution function in some of them."""
    law, draw = law_of(job.scale, job.of), laplace(job.seed, hi=job.seed)
    tally, steps = count(law, np.zeros(0, dtype=np.int64)), 1.0
    for start, n in chunks(job):
        sample = draw(job.scale, start, n)
        tally += count(law, sample)
        if start == job.first:
            steps = even(law, sample, seed=job.first)
    return job.draws, (tally, chi_square(tally.bins, law.chances), steps)


def _upper_half(job: Job) -> tuple[int, Counts]:
    one, other = laplace(job.seed, hi=2**40), laplace(job.seed, hi=2**40 + 1)
    return _across(job, one, other)


def _key(job: Job) -> tuple[int, Counts]:
    return _across(job, laplace(job.seed, hi=2**41), laplace(job.seed + 1, hi=2**41))


def _across(job: Job, one: Draw, other: Draw) -> tuple[int, Counts]:
    law, found = law_of(job.scale, job.of), np.zeros(LEVELS * LEVELS, dtype=np.int64)
    for start, n in chunks(job):
        found += paired(levels(law, one(job.scale, start, n)), levels(law, other(job.scale, start, n)))
    return 2 * job.draws, found


def _bits(job: Job) -> tuple[int, Counts]:
    """The Laplace draw at an address against the first bits there of `uniform_at`."""
    law, draw, noise = law_of(job.scale, job.of), laplace(job.seed, hi=2**42), Noise(seed=job.seed)
    found = np.zeros(LEVELS * 16, dtype=np.int64)
    for start, n in chunks(job):
        words = noise.uniform_at(2**42, np.arange(start, start + n, dtype=np.uint64))
        found += paired(levels(law, draw(job.scale, start, n)), (words[:, 0] >> np.uint64(60)).astype(np.int64), 16)
    return 2 * job.draws, found


def _stream(job: Job) -> tuple[int, Tally]:
    """Half in bulk, half one by one as counters ask for them."""
    law, noise = law_of(job.scale, job.of), Noise(seed=job.seed)
    stream, tally = noise.stream(2**43 + job.first), count(law, np.zeros(0, dtype=np.int64))
    for _, n in chunks(job):
        single = np.array([stream.draw(job.scale) for _ in range(n // 2)], dtype=np.int64)
        tally += count(law, np.concatenate([stream.laplace(job.scale, n - len(single)), single]))
    return job.draws, tally


def _uniform(job: Job) -> tuple[int, Counts]:
    """Bytes at each address; neighbouring addresses, upper halves and keys against each other; both words."""
    noise, other = Noise(seed=job.seed), Noise(seed=job.seed + 1)
    found, made = np.zeros((5, 16, 256), dtype=np.int64), 0
    for number, (start, n) in enumerate(chunks(job)):
        lo = np.arange(start, start + n, dtype=np.uint64)
        words = noise.uniform_at(2**44, lo)
        made += n
        found[0] += bytes_of(words)
        found[1] += bytes_of(words[0 : n // 2 * 2 : 2] ^ words[1::2])
        if number % 4 == 0:
            found[2] += bytes_of(words ^ noise.uniform_at(2**44 + 1, lo))
            found[3] += bytes_of(words ^ other.uniform_at(2**44, lo))
            found[4] += bytes_of(words ^ words[:, ::-1])
            made += 2 * n
    return made, found


KINDS: dict[str, Callable[[Job], tuple[int, Any]]] = {
    "laplace": _laplace,
    "upper half": _upper_half,
    "key": _key,
    "bits": _bits,
    "stream": _stream,
    "uniform": _uniform,
}
BITS = ("at an address", "neighbouring addresses", "neighbouring upper halves", "two keys", "both words")


def everywhere(todo: list[Job]) -> Iterator[tuple[Job, int, Any]]:
    """What comes of the jobs, on all processors, as it comes."""
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        for finished in as_completed([pool.submit(work, job) for job in todo]):
            yield finished.result()


def here(todo: list[Job]) -> Iterator[tuple[Job, int, Any]]:
    """The same in this process: for a few draws."""
    return map(work, todo)


def examine(
    share: float = 1.0,
    seed: int = 1,
    show: Callable[[int, int], None] = lambda done, total: None,
    run: Callable[[list[Job]], Iterator[tuple[Job, int, Any]]] = everywhere,
) -> Health:
    """Draw everything, and judge it. ``show`` is called with how many jobs are done, and of how many."""
    begun, done = time.perf_counter(), list[tuple[Job, int, Any]]()
    todo = sorted(jobs(share, seed), key=lambda job: -job.scale)  # the slow ones first
    for finished in run(todo):
        done.append(finished)
        show(len(done), len(todo))
    done.sort(key=lambda item: (item[0].scale, item[0].first))
    health = Health(draws=sum(made for _, made, _ in done))
    deviations = []
    for what, name in (("laplace", "integer Laplace noise"), ("stream", "a stream of draws")):
        rows = health.families[name] = {}
        for scale in dict.fromkeys(job.scale for job, _, _ in done if job.what == what):
            parts = [(job, counts) for job, _, counts in done if (job.what, job.scale) == (what, scale)]
            law = law_of(scale, parts[0][0].of)
            tallies = [counts if isinstance(counts, Tally) else counts[0] for _, counts in parts]
            tally = reduce(add, tallies)
            rows[f"{scale:.6g}"] = judge(law, tally)
            if what == "laplace" and law.rare() > 1000:
                deviations.append((tally.draws, deviation(law, tally)))
                health.independent += [counts[1] for _, counts in parts]
                rows[f"{scale:.6g}"] |= {"steps": parts[0][1][2]}
    health.families["all scales together"] = {"all": {"size": together(deviations)}}
    names = {"upper half": "neighbouring upper halves", "key": "two keys", "bits": "uniform bits, same address"}
    rows = health.families["draws of one scale at related addresses"] = {}
    for what, name in names.items():
        for scale in ACROSS:
            kinds = [(job, counts) for job, _, counts in done if (job.what, job.scale) == (what, scale)]
            law = law_of(scale, kinds[0][0].of)
            second = np.full(16, 1 / 16) if what == "bits" else law.levels
            chances = np.outer(law.levels, second).ravel()
            rows.setdefault(f"{scale:.6g}", {})[name] = chi_square(reduce(add, [c for _, c in kinds]), chances)
    bits = reduce(add, [counts for job, _, counts in done if job.what == "uniform"])
    for name, table in zip(BITS, bits, strict=True):
        # Both words of an address, xored, show everything twice.
        found = judge_bytes(table[:8] if name == "both words" else table)
        family = {what: {str(i): p for i, p in enumerate(values)} for what, values in found.items()}
        health.families[f"uniform bits, {name}"] = family
    health.seconds = time.perf_counter() - begun
    return health
