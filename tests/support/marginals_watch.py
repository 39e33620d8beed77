"""Runs of marginals whose published numbers and choices are decided beforehand: what still differs was raw data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from headwater import Boolean, Category, Integer, Number, Schema
from headwater.public.budget import Budget
from headwater.public.laws import DiscreteGaussian, ExponentialChoice, IntegerLaplace, JointLaplace, Law, PermuteAndFlip
from headwater.public.marginals.measured import NoisyTable
from headwater.public.marginals.questions import Question
from headwater.secret import bucket as bucket_module
from headwater.secret.bucket import Bucket
from headwater.secret.marginals import MarginalsMechanism
from headwater.secret.noise import Noise
from tests.support.runs import feed

Integers = NDArray[np.int64]
Fault = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, eq=False)
class Table:
    """One published table: where it is from, its exact counts, and the noise that was asked for.

    Tables with the same number ``joint``, if it is not 0, share one draw of joint noise.
    """

    start: int
    end: int
    timescale: int
    question: Question
    law: Law
    draws: int
    true: Integers
    published: Integers
    joint: int = 0
    present: int | None = None

    @property
    def scale(self) -> float:
        """Of the law."""
        return self.law.scale

    @property
    def group(self) -> tuple[int, int, int]:
        """Tables that share their noise have the same; any other has one with a 0."""
        return self.start, self.end, self.joint

    @property
    def what(self) -> tuple[object, ...]:
        """All of it that must not depend on raw data."""
        edges = tuple(tuple(e.tolist()) for e in self.question.edges)
        place = self.start, self.end, self.timescale, self.question.columns
        return "table", *place, edges, self.law, self.draws, self.joint


@dataclass(frozen=True, eq=False)
class Choice:
    """One private choice: its candidates with their scores, and its law."""

    start: int
    end: int
    pairs: tuple[tuple[int, int] | None, ...]
    scores: tuple[int, ...]
    law: Law
    chosen: int

    @property
    def scale(self) -> float:
        """Of the law."""
        return self.law.scale

    @property
    def what(self) -> tuple[object, ...]:
        """All of it that must not depend on raw data."""
        return "choice", self.start, self.end, self.pairs, self.law, self.chosen


Event = Table | Choice
Candidate = tuple[int, int] | None
Scores = Mapping[Candidate, int]
Publish = Callable[[Question, int, Integers, float], Integers]
Choose = Callable[[Sequence[int], float, int], int]


class Watched(Noise):
    """Noise that keeps the addresses of its draws, and makes published numbers what they are decided to be."""

    def __init__(self, publish: Publish | None = None, choose: Choose | None = None, seed: int = 0) -> None:
        super().__init__(seed)
        self.publish, self.choose, self.events = publish, choose, list[Event]()
        self.addresses = list[tuple[int, int]]()
        self.counting = list[tuple[Bucket, Question, Integers]]()

    def laplace_at(self, scale: float, hi: ArrayLike, lo: ArrayLike) -> Integers:
        return self._decided(super().laplace_at(scale, hi, lo), scale, hi, lo)

    def gaussian_at(self, scale: float, hi: ArrayLike, lo: ArrayLike) -> Integers:
        return self._decided(super().gaussian_at(scale, hi, lo), scale, hi, lo)

    def jointly_at(self, scale: float, sizes: Sequence[int], hi: int, los: Sequence[int]) -> Integers:
        cells = [lo + cell for size, lo in zip(sizes, los, strict=True) for cell in range(size)]
        return self._decided(super().jointly_at(scale, sizes, hi, los), scale, hi, cells)

    def _decided(self, noise: Integers, scale: float, hi: ArrayLike, lo: ArrayLike) -> Integers:
        self.addresses += [(int(np.asarray(hi)), int(address)) for address in np.atleast_1d(np.asarray(lo))]
        if self.counting and self.publish is not None:
            parts = list[Integers]()
            for bucket, question, counts in self.counting:
                part = (self.publish(question, bucket.start, counts, scale) - counts).ravel()
                if question.shape == (2,):  # of the first cell there is no draw, and no record is null
                    part = np.append(part[1:], np.zeros(int(question.present), dtype=np.int64))
                parts.append(part)
            noise = np.concatenate(parts)
        return noise

    def geometric_at(self, scale: float, hi: ArrayLike, lo: ArrayLike) -> Integers:
        self.addresses += [(int(np.asarray(hi)), int(address)) for address in np.atleast_1d(np.asarray(lo))]
        return super().geometric_at(scale, hi, lo)


@contextmanager
def watching(noise: Watched, fault: Fault | None = None) -> Iterator[pytest.MonkeyPatch]:
    """Shows to the noise what is counted and chosen."""
    with pytest.MonkeyPatch.context() as patch:
        if fault:
            fault(patch)
        publish, publish_jointly, of_bucket = Bucket.publish, Bucket.publish_jointly, Bucket.choose
        names = "choose", "choose_exponentially"
        ways = {name: vars(bucket_module)[name] for name in names}

        def seen(bucket: Bucket, question: Question, counts: Integers, table: NoisyTable) -> None:
            place = bucket.start, bucket.end, bucket.timescale, question
            kind = JointLaplace if table.joint else DiscreteGaussian if table.gaussian else IntegerLaplace
            true, law = counts.copy(), kind(table.scale)
            noise.events.append(Table(*place, law, question.numbers, true, table.counts, table.joint, table.present))

        def publishing(
            self: Bucket, question: Question, counts: Integers, budget: Fraction, *, again: bool = False
        ) -> NoisyTable:
            noise.counting = [(self, question, counts)]
            table = publish(self, question, counts, budget, again=again)
            noise.counting = []
            seen(self, question, counts, table)
            return table

        def publishing_jointly(
            self: Bucket,
            questions: Sequence[Question],
            counts: Sequence[Integers],
            budget: Fraction,
            *,
            again: bool = False,
        ) -> list[NoisyTable]:
            noise.counting = [(self, *one) for one in zip(questions, counts, strict=True)]
            tables = publish_jointly(self, questions, counts, budget, again=again)
            noise.counting = []
            for one in zip(questions, counts, tables, strict=True):
                seen(self, *one)
            return tables

        def choosing(self: Bucket, scores: Scores, budget: Fraction, kind: int, turn: int) -> Candidate:
            def deciding(name: str, values: Sequence[int], scale: float, source: Noise, hi: int, lo: int) -> int:
                found: int = ways[name](values, scale, source, hi, lo)
                found = noise.choose(values, scale, lo) if noise.choose else found
                law = (PermuteAndFlip if name == "choose" else ExponentialChoice)(scale)
                noise.events.append(Choice(self.start, self.end, tuple(scores), tuple(values), law, found))
                return found

            for name in names:
                patch.setattr(bucket_module, name, partial(deciding, name))
            return of_bucket(self, scores, budget, kind, turn)

        patch.setattr(Bucket, "publish", publishing)
        patch.setattr(Bucket, "publish_jointly", publishing_jointly)
        patch.setattr(Bucket, "choose", choosing)
        yield patch


def decided(seed: int) -> tuple[Publish, Choose]:
    """Numbers that a seed decides, whatever was counted: a table's size is all that they follow."""

    def publish(question: Question, start: int, counts: Integers, scale: float) -> Integers:
        rng = np.random.default_rng([seed, start, *question.columns, question.cells])
        total = int(counts.sum())  # the public number of records
        cells = np.round(rng.dirichlet(np.full(question.cells, 0.5)) * total + rng.normal(0, scale, question.cells))
        if question.shape == (2,):
            cells[0] = total - cells[1]
        return cells.astype(np.int64).reshape(question.shape)

    def choose(scores: Sequence[int], _scale: float, lo: int) -> int:
        return int(np.random.default_rng([seed, lo, len(scores)]).integers(len(scores)))

    return publish, choose


def run(
    schema: Schema,
    points: NDArray[np.float64],
    epsilon: Budget | float,
    noise: Watched,
    *,
    fault: Fault | None = None,
    lots: int = 1,
) -> MarginalsMechanism:
    """A run over some points, in as many lots; what it asked is in ``noise.events``."""
    with watching(noise, fault):
        mechanism = MarginalsMechanism(schema, epsilon, noise)
        for lot in np.array_split(points, lots):
            mechanism = feed(mechanism, lot)
            mechanism.measured(0)
    return mechanism


def a_schema(columns: int = 4) -> Schema:
    """Columns of all kinds, in turns."""
    kinds = [
        Number(0.0, 1.0),
        Category("a", "b", "c", "d", "e"),
        Boolean(),
        Integer(0, 50, missing=True),
        Number(-1.0, 1.0, missing=True),
        Category("only"),
    ]
    return Schema({f"c{i}": kinds[i % len(kinds)] for i in range(columns)})


def a_stream(schema: Schema, records: int, seed: int = 0) -> NDArray[np.float64]:
    """Points of the schema: columns that hang together, with ties, missing values and both ends of every column."""
    rng = np.random.default_rng(seed)
    common, points = rng.beta(0.7, 2.0, records), np.empty((records, schema.dimension))
    for i, column in enumerate(schema.columns.values()):
        mixed = np.where(rng.random(records) < 0.7, common, rng.random(records))
        size = column.size
        values = np.minimum(np.floor(mixed * size), size - 1) if size is not None else np.where(mixed > 0.9, 1.0, mixed)
        gone = rng.random(records) < 0.1 if column.missing else None
        points[:, i] = column.axis.place(values, gone)
    return points


# --- exact laws -------------------------------------------------------------------------------------------


def log_laplace(z: int, scale: float) -> float:
    """The log probability of integer Laplace noise, by its definition."""
    q = math.exp(-1 / scale)
    return math.log((1 - q) / (1 + q)) - abs(z) / scale


@lru_cache
def log_of_all_joint(scale: float, sizes: tuple[int, ...]) -> float:
    """The log of the sum of ``exp(−N(z)/scale)`` over all ``z``: over shells, whose points are counted one by one."""
    points = [math.prod(_points_by_adding(size, m) for size in sizes) for m in range(math.ceil(60 * scale) + 60)]
    return math.log(math.fsum((n - b) * math.exp(-m / scale) for m, (b, n) in enumerate(pairwise([0, *points]))))


@lru_cache
def _points_by_adding(size: int, radius: int) -> int:
    """How many points a ball has: number by number, the points of each L1 norm."""
    if size == 1:
        return 2 * radius + 1
    norms = [1] + [0] * (2 * radius)
    for _ in range(size):
        norms = [norms[n] + 2 * sum(norms[:n]) for n in range(len(norms))]
    return sum(norms)


def log_joint(noise: Sequence[Sequence[int]], scale: float) -> float:
    """The log probability of joint noise, by its definition."""
    return -norm(noise) / scale - log_of_all_joint(scale, tuple(map(len, noise)))


def norm(noise: Sequence[Sequence[int]]) -> int:
    """The norm of joint noise: the least ``m`` with every table of L1 norm ``2m`` at most, or ``m`` of one number."""
    m = 0
    while any(sum(map(abs, table)) > m * (1 if len(table) == 1 else 2) for table in noise):
        m += 1
    return m


def exponential(scores: Sequence[int], scale: float) -> list[float]:
    """The probability of each candidate under the exponential mechanism, by the definition."""
    weights = [math.exp((score - max(scores)) / scale) for score in scores]
    return [weight / math.fsum(weights) for weight in weights]


def permute_and_flip(scores: Sequence[int], scale: float) -> list[float]:
    """The probability of each candidate, by the definition: over all orders, the first whose coin falls heads."""
    heads = [math.exp(-(max(scores) - score) / scale) for score in scores]
    found = [0.0] * len(scores)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        left = 1 / len(orders)
        for candidate in order:
            found[candidate] += left * heads[candidate]
            left *= 1 - heads[candidate]
    return found
