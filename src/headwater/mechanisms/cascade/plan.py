"""The plan of cascade: which buckets of time there are, and what each may spend. Public, and a pure function.

Time is cut into stages ``[2^q, 2^{q+1})``, a stage into four *slow* buckets, each of those into *fast* ones, and so on.
Every point lies in exactly one bucket of each timescale. Nothing here depends on the data: only on ``t``, ``d`` and ε.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from headwater.laws import CountLaw, deviation_for
from headwater.privacy import Budget, DiscreteGaussian, IntegerLaplace, Ledger, Spend, scale_for

SLOW = 4  # slow buckets a stage
FASTER = 16  # at most so many buckets of one timescale in a bucket of the next slower one
SHARE = 0.15  # budget of the first fast timescale for 1 of the slow one; each further one gets half as much
PER_TREE = 6.0  # on a line: one more tree for every so many doublings of ε · size · √siblings
FIRST = 64.0  # the first bucket closes before ε times its size exceeds this
FINE = 4.0  # the fastest buckets hold about this many times t^max(1/2, 1−1/d) points


@dataclass(frozen=True)
class Timescale:
    """All buckets of one size in one stage.

    Parameters
    ----------
    siblings
        How many buckets an estimate adds up: those in one bucket of the next slower timescale; of the slow timescale,
        those of two stages.
    resolutions
        How many trees are measured in a bucket, from fine to coarse, with equal shares of its budget.
    rho
        The budget of a bucket in ρ, if its noise is Gaussian.
    """

    size: int
    epsilon: float
    siblings: int
    resolutions: int = 1
    rho: Fraction | None = None

    @cached_property
    def noise(self) -> CountLaw:
        """The law of the noise in a leaf count: replacing a point moves two counts of each resolution by one."""
        if self.rho is not None:
            return DiscreteGaussian(deviation_for(self.rho / (2 * self.resolutions)))
        return IntegerLaplace(scale_for(Fraction(self.epsilon) / (2 * self.resolutions)))


@dataclass(frozen=True)
class Stage:
    """A stretch of time with one set of timescales, the slow one first.

    It has the points ``start … end − 1``. The size of each timescale is a multiple of the next.
    """

    start: int
    end: int
    timescales: tuple[Timescale, ...]

    def ledger(self) -> Ledger:
        """What replacing one point of this stage can move: two counts of each tree in one bucket of each timescale."""
        return Ledger(
            Spend(f"leaf count, buckets of {scale.size:,}", scale.noise, touches=2 * scale.resolutions)
            for scale in self.timescales
        )


def stage_at(t: int, dimension: int, budget: Budget | float) -> Stage:
    """The stage that point number ``t`` (from 0) belongs to.

    >>> stage = stage_at(100_000, 2, 1.0)
    >>> stage.start, stage.end, [scale.size for scale in stage.timescales]
    (65536, 131072, [16384, 1024])
    """
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
    share = epsilon * (1 - 2.0**-40) / sum(weights)  # rounding must never overdraw
    # The slow buckets of this stage and of the one before are pooled, so they count as siblings.
    scales = [timescale_of(slow, share, 2 * SLOW, dimension)]
    for factor, weight in zip(factors, weights[1:], strict=True):
        scales.append(timescale_of(scales[-1].size // factor, share * weight, factor, dimension))
    return Stage(1 << q, 2 << q, with_law(tuple(scales), budget))


def with_law(scales: tuple[Timescale, ...], budget: Budget) -> tuple[Timescale, ...]:
    """The same timescales with Gaussian noise, if there is a δ and that noise has the smaller variance.

    A count of a bucket with ``r`` trees has variance ``8·(r/ε)²`` with Laplace noise and ``r/ρ`` with Gaussian noise. ρ
    is divided in proportion to ``ε²/8r``, so that all variances change by one factor, the sum of these over ρ. If a
    person may have records in several stages, all stages must have one kind of noise, since ε and ρ do not add up: then
    the comparison is that of a single bucket with one tree, which is the same at all times.
    """
    if budget.rho is None:
        return scales
    costs = [Fraction(scale.epsilon) ** 2 / (8 * scale.resolutions) for scale in scales]
    if (Fraction(budget.epsilon) ** 2 / 8 if budget.one_currency else sum(costs)) >= budget.rho:
        return scales
    rhos = [budget.rho * cost / sum(costs) for cost in costs]
    return tuple(replace(scale, rho=rho) for scale, rho in zip(scales, rhos, strict=True))


def timescale_of(size: int, epsilon: float, siblings: int, dimension: int) -> Timescale:
    """A timescale with one tree a bucket, or on a line with several, from fine to coarse.

    There an interval is a sum of many leaves: the noise of ``L`` leaves adds up to ``√L`` times that of one, but with
    coarser trees besides only to a power of ``log L``.
    """
    trees = 1 if dimension > 1 else max(1, round(math.log2(max(epsilon * size * math.sqrt(siblings), 1)) / PER_TREE))
    return Timescale(size, epsilon, siblings, trees)


def _halvings(q: int, slow: int, dimension: int, epsilon: float) -> int:
    """How often a slow bucket is halved to get the fastest ones.

    The last points, which no bucket covers yet, follow the estimate of the others; so few of them should be uncovered
    that this costs no more than the noise does. In high dimension that needs no fast buckets, but a moving stream does.
    """
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
    """The stages of cascade up to time ``until``.

    >>> print(plan(2, 1.0, until=200))
    cascade, d = 2, ε = 1: replacing one record costs at most ε, for ever
                         points  timescale     bucket   budget  trees  noise scale
                        0 to 64  slow              64        1      1            2
                      64 to 128  slow              16        1      1            2
                     128 to 256  slow              32        1      1            2
    """
    stages: list[Stage] = []
    t = 0
    while t < until or not stages:
        stages.append(stage_at(t, dimension, budget))
        t = stages[-1].end
    return Plan(dimension, Budget.of(budget), tuple(stages))
