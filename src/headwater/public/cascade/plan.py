"""The predicted count from which on a cell is split in the tree of a bucket. Public: functions of the plan alone.

Splitting a cell lowers W1 by at most its count times its diameter, and adds one noise term to each of its ancestors. So
a cell is split if its count is some multiple of the noise deviation, and the multiple grows with how many depths add
up. Noise is that of the *pooled* estimate: releases average sibling buckets, which have the same tree or nearly so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from headwater.public.budget import Budget, Ledger, Spend
from headwater.public.laws import CountLaw, DiscreteGaussian, IntegerLaplace, deviation_for, scale_for
from headwater.public.protocol import Span

SLOW = 4  # slow buckets a stage
FASTER = 16  # at most so many buckets of one timescale in a bucket of the next slower one
SHARE = 0.15  # budget of the first fast timescale for 1 of the slow one; each further one gets half as much
PER_TREE = 6.0  # on a line: one more tree for every so many doublings of ε · size · √siblings
FIRST = 64.0  # the first bucket closes before ε times its size exceeds this
FINE = 4.0  # the fastest buckets hold about this many times t^max(1/2, 1−1/d) points


@dataclass(frozen=True)
class Timescale:
    """All buckets of one size in one stage."""

    size: int
    epsilon: float
    siblings: int
    resolutions: int = 1
    rho: Fraction | None = None

    @cached_property
    def noise(self) -> CountLaw:
        if self.rho is not None:
            return DiscreteGaussian(deviation_for(self.rho / (2 * self.resolutions)))
        return IntegerLaplace(scale_for(Fraction(self.epsilon) / (2 * self.resolutions)))


@dataclass(frozen=True)
class Stage:
    """A stretch of time with one set of timescales, the slow one first."""

    start: int
    end: int
    timescales: tuple[Timescale, ...]

    def fast_spans(self, start: int, now: int) -> Iterator[tuple[int, Span]]:
        """The closed fast buckets since ``start``, each timescale after the end of the slower one, with its number."""
        for number, scale in enumerate(self.timescales[1:], start=1):
            while start + scale.size <= now:
                yield number, Span(start, start + scale.size)
                start += scale.size

    def ledger(self) -> Ledger:
        return Ledger(
            Spend(f"leaf count, buckets of {scale.size:,}", scale.noise, touches=2 * scale.resolutions)
            for scale in self.timescales
        )


def stage_at(t: int, dimension: int, budget: Budget | float) -> Stage:
    """The stage that point number ``t`` (from 0) belongs to."""
    budget = Budget.of(budget)
    epsilon = budget.epsilon
    first = max(3, math.floor(math.log2(FIRST) - math.log2(epsilon)))
    if t < 1 << first:
        return Stage(0, 1 << first, with_law((timescale_of(1 << first, epsilon, 4, dimension),), budget))
    q = t.bit_length() - 1
    slow = (1 << q) // SLOW
    halvings = _halvings(q, slow, dimension, epsilon)
    layers = -(-halvings // (FASTER.bit_length() - 1))
    factors = [1 << (halvings // layers + (i < halvings % layers)) for i in range(layers)]
    faster = SHARE if dimension > 1 else 0.4  # on a line the noise of many fast buckets weighs more
    weights = [1.0] + [faster / 2**i for i in range(layers)]
    share = epsilon * (1 - 2.0**-40) / math.fsum(weights)  # rounding must never overdraw
    # The slow buckets of this stage and of the one before are pooled, so they count as siblings.
    scales = [timescale_of(slow, share, 2 * SLOW, dimension)]
    for factor, weight in zip(factors, weights[1:], strict=True):
        scales.append(timescale_of(scales[-1].size // factor, share * weight, factor, dimension))
    return Stage(1 << q, 2 << q, with_law(tuple(scales), budget))


def with_law(scales: tuple[Timescale, ...], budget: Budget) -> tuple[Timescale, ...]:
    if budget.rho is None:
        return scales
    costs = [Fraction(scale.epsilon) ** 2 / (8 * scale.resolutions) for scale in scales]
    if (Fraction(budget.epsilon) ** 2 / 8 if budget.one_currency else sum(costs)) >= budget.rho:
        return scales
    rhos = [budget.rho * cost / sum(costs) for cost in costs]
    return tuple(replace(scale, rho=rho) for scale, rho in zip(scales, rhos, strict=True))


def timescale_of(size: int, epsilon: float, siblings: int, dimension: int) -> Timescale:
    trees = 1 if dimension > 1 else max(1, round(math.log2(max(epsilon * size * math.sqrt(siblings), 1)) / PER_TREE))
    return Timescale(size, epsilon, siblings, trees)


def _halvings(q: int, slow: int, dimension: int, epsilon: float) -> int:
    wanted = FINE * 2.0 ** (q * max(0.5, 1 - 1 / dimension)) * epsilon ** (-1 / dimension)
    halvings = max(0, math.ceil(math.log2(slow / wanted)))
    if slow * epsilon >= 512:
        halvings = max(halvings, 3)
    return min(halvings, q - 2)


@dataclass(frozen=True)
class Plan:
    """Every stage up to some time, to be read or printed."""

    dimension: int
    budget: Budget
    stages: tuple[Stage, ...]

    def __str__(self) -> str:
        gaussian = self.stages[0].timescales[0].rho is not None
        lines = [f"cascade, d = {self.dimension}, {self.budget.heading(gaussian=gaussian)}"]
        lines.append(f"{'points':>27}  {'timescale':<9} {'bucket':>10} {'budget':>8} {'trees':>6} {'noise scale':>12}")
        for stage in self.stages:
            for i, scale in enumerate(stage.timescales):
                span = f"{stage.start:,} to {stage.end:,}" if i == 0 else ""
                name = "slow" if i == 0 else "fast" if i == 1 else f"fast {i}"
                budget = scale.epsilon if scale.rho is None else float(scale.rho)
                numbers = f"{scale.size:>10,} {budget:>8.4g} {scale.resolutions:>6} {scale.noise.scale:>12.4g}"
                numbers += "" if scale.rho is None else "  ρ, Gaussian"
                lines.append(f"{span:>27}  {name:<9} {numbers}")
        return "\n".join(lines)


def plan(dimension: int, budget: Budget | float, until: int) -> Plan:
    stages: list[Stage] = []
    t = 0
    while t < until or not stages:
        stages.append(stage_at(t, dimension, budget))
        t = stages[-1].end
    return Plan(dimension, Budget.of(budget), tuple(stages))


MIN_DEVIATIONS = 3.0  # no cell is split whose predicted count is below so many deviations of the pooled noise
GRID_DEVIATIONS = 64.0  # any cell is, in which a uniform spread would put so many deviations of a bucket's noise
DEPTH_EXPONENT = 0.3  # for d ≥ 3, thresholds rise with this power of one over the diameter of the cell


def uniform_threshold(bucket: Timescale, dimension: int) -> float:
    return max(_halvings_to_noise(bucket) / max(dimension, 1.5) * _pooled_deviation(bucket), _minimum(bucket))


def split_thresholds(bucket: Timescale, dimension: int, deepest: int) -> list[tuple[list[float], float]]:
    fine, grid = uniform_threshold(bucket, dimension), _grid_count(bucket, dimension)
    steps = [fine * (bucket.size / fine) ** (i / bucket.resolutions) for i in range(bucket.resolutions)]
    bases = [grid, *(max(grid, step) for step in steps[1:])]  # that of the finest must not grow with its threshold
    return [(by_depth(bucket, dimension, deepest, step), base) for step, base in zip(steps, bases, strict=True)]


def by_depth(bucket: Timescale, dimension: int, deepest: int, threshold: float) -> list[float]:
    uniform = math.log2(max(bucket.size / threshold, 1.0))
    slope = (1.0 if dimension <= 2 else DEPTH_EXPONENT) / dimension
    least = _minimum(bucket)
    return [max(threshold * 2 ** (slope * (depth - uniform)), least) for depth in range(deepest)]


def _grid_count(bucket: Timescale, dimension: int) -> float:
    more = max(_halvings_to_noise(bucket) / 16, 1.0) if dimension == 2 else 1.0
    return GRID_DEVIATIONS * bucket.noise.deviation * more


def _minimum(bucket: Timescale) -> float:
    return max(MIN_DEVIATIONS * _pooled_deviation(bucket), 0.25)  # at any ε, not many more leaves than points


def _halvings_to_noise(bucket: Timescale) -> float:
    return math.log2(max(2.0, bucket.epsilon * bucket.size * bucket.siblings))


def _pooled_deviation(bucket: Timescale) -> float:
    return bucket.noise.deviation / math.sqrt(bucket.siblings)
