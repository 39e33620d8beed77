"""The plan: which buckets of time there are, and what each may spend. A pure function of ``t``, ε and the columns.

Time is cut into stages. A stage is one *slow* bucket, in which one-way and two-way marginals are measured when it ends;
it is also cut into *fast* buckets, in which some one-way marginals are. A record lies in one bucket of each timescale.
The first stages are short, and have no pairs: few records say nothing of pairs, but something of each column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from headwater.privacy import Budget, IntegerLaplace, Ledger, Spend, scale_for

FIRST = 8192.0  # where the first stage with pairs ends, at ε = 1
EARLY = (6, 3)  # the stages without pairs end so many halvings before that
FAST = 8  # fast buckets a stage
FAST_SHARE = Fraction(1, 20)  # of ε, for the fast buckets of a stage
ONE_WAY = Fraction(1, 3)  # the odds of one-way marginals in the slow budget of ten columns: they count in all pairs …
WIDE = 1.5  # … so their odds grow with this power of the number of columns
EARLY_ONE_WAY = Fraction(1, 4)  # what they get more early, before they can be pooled
TREE_CHOICE, FIRST_TREE_CHOICE = Fraction(1, 20), Fraction(1, 10)  # to choose the pairs of a tree
EXTRA_CHOICE = Fraction(3, 100)  # to choose the pairs beyond it
GRAIN = 1 << 40  # a budget is divided into whole multiples of 1/GRAIN of it


@dataclass(frozen=True)
class Stage:
    """A stretch of time: one slow bucket, its fast buckets, and what one record may lose in each of them.

    Parameters
    ----------
    start, end
        The arrivals ``start … end − 1``, which make up the slow bucket.
    fast
        The size of the fast buckets; 0 if there are none.
    fast_budget
        What a record may lose in its fast bucket.
    one_way, tree_choice, extra_choice, pairs
        What it may lose in the slow bucket: by one-way marginals, by choosing the pairs of a tree and the pairs beyond
        the tree, and by measuring pairs. Without pairs the last three are 0.
    """

    start: int
    end: int
    fast: int
    fast_budget: Fraction
    one_way: Fraction
    tree_choice: Fraction = Fraction(0)
    extra_choice: Fraction = Fraction(0)
    pairs: Fraction = Fraction(0)

    @property
    def size(self) -> int:
        """How many records the slow bucket holds."""
        return self.end - self.start

    @property
    def slow_budget(self) -> Fraction:
        """What one record may lose in the slow bucket. Parts of it may be moved to the pairs."""
        return self.one_way + self.tree_choice + self.extra_choice + self.pairs

    def fast_end(self, t: int) -> int:
        """The first end of a bucket after ``t`` records."""
        return min(self.end, t + self.fast - (t - self.start) % self.fast) if self.fast else self.end

    def ledger(self) -> Ledger:
        """What replacing one record of this stage can move.

        A part of the budget is divided among tables (`divide`), and the scale named here is the one that a single table
        would have: two counts of each table move by one. A choice costs as much as a shift of ``4`` (`selection`).
        """
        tables = {"one-way marginals": self.one_way, "pairs": self.pairs}
        choices = {"choice of a tree": self.tree_choice, "choice of further pairs": self.extra_choice}
        of_slow = f"bucket of {self.size:,}"
        spends = [
            Spend(f"{what}, {of_slow}", IntegerLaplace(scale_for(e / 2)), touches=2) for what, e in tables.items() if e
        ]
        spends += [
            Spend(f"{what}, {of_slow}", IntegerLaplace(scale_for(e / 4)), shift=4) for what, e in choices.items() if e
        ]
        if self.fast:
            what = f"one-way marginals, buckets of {self.fast:,}"
            spends.append(Spend(what, IntegerLaplace(scale_for(self.fast_budget / 2)), touches=2))
        return Ledger(spends)


def first_end(epsilon: float) -> int:
    """Where the first stage with pairs ends."""
    return 1 << max(round(math.log2(FIRST) - math.log2(epsilon)), *EARLY)


def stage_at(t: int, budget: Budget | float, columns: int) -> Stage:
    """The stage that record number ``t`` (from 0) belongs to.

    >>> [stage_at(t, 1.0, 10).end for t in (0, 128, 1024, 8192, 16384)]
    [128, 1024, 8192, 16384, 32768]
    """
    budget = Budget.of(budget)
    first, whole = first_end(budget.epsilon), Fraction(budget.epsilon)
    odds = ONE_WAY * Fraction((columns / 10) ** WIDE).limit_denominator(1000)
    one_way = min(odds / (1 + odds), Fraction(3, 5))
    if t >= first:
        start = 1 << (t.bit_length() - 1)
        early = EARLY_ONE_WAY / (2 * start // first)
        return _with_pairs(start, 2 * start, whole, one_way + early, TREE_CHOICE, EXTRA_CHOICE)
    ends = [0, *(first >> halvings for halvings in EARLY), first]
    start, end = next((start, end) for start, end in pairwise(ends) if t < end)
    if end < first:
        return Stage(start, end, 0, Fraction(0), whole)
    return _with_pairs(start, end, whole, one_way + EARLY_ONE_WAY, FIRST_TREE_CHOICE, Fraction(0))


def _with_pairs(start: int, end: int, whole: Fraction, one_way: Fraction, tree: Fraction, extra: Fraction) -> Stage:
    """A stage with pairs; the first one has no fast buckets, since they would hold too few records to say anything."""
    fast = FAST_SHARE if extra else Fraction(0)
    parts = [whole * (1 - fast) * share for share in (one_way, tree, extra, 1 - one_way - tree - extra)]
    return Stage(start, end, max((end - start) // FAST, 1) if extra else 0, whole * fast, *parts)


def divide(budget: Fraction, weights: Sequence[float]) -> list[Fraction]:
    """A budget in parts as the weights say, rounded down so that they add up to no more than the budget, exactly.

    >>> sum(divide(Fraction(1, 10), [1.0, 1.0, 1.0])) <= Fraction(1, 10)
    True
    """
    total = math.fsum(weights)
    return [budget * math.floor(weight / total * (GRAIN - len(weights))) / GRAIN for weight in weights]


def variance(scale: float) -> float:
    """Of integer Laplace noise, never 0."""
    return max(IntegerLaplace(scale).variance, 1e-9)


@dataclass(frozen=True)
class Plan:
    """Every stage up to some time, to be read or printed."""

    columns: int
    budget: Budget
    stages: tuple[Stage, ...]

    def __str__(self) -> str:
        what = f"marginals, {self.columns} columns, {self.budget}"
        lines = [f"{what}: replacing one record costs at most ε, for ever"]
        lines.append(f"{'records':>27}  {'one-way':>8} {'choice':>8} {'pairs':>8}  {'fast buckets':>12} {'one-way':>8}")
        for stage in self.stages:
            choice = stage.tree_choice + stage.extra_choice
            slow = " ".join(f"{float(part):>8.4g}" for part in (stage.one_way, choice, stage.pairs))
            fast = f"{stage.fast:>12,} {float(stage.fast_budget):>8.4g}" if stage.fast else f"{'none':>12}"
            lines.append(f"{f'{stage.start:,} to {stage.end:,}':>27}  {slow}  {fast}")
        return "\n".join(lines)


def plan(columns: int, budget: Budget | float, until: int) -> Plan:
    """The stages of a run up to time ``until``.

    >>> print(plan(10, 1.0, until=8193))
    marginals, 10 columns, ε = 1: replacing one record costs at most ε, for ever
                        records   one-way   choice    pairs  fast buckets  one-way
                       0 to 128         1        0        0          none
                   128 to 1,024         1        0        0          none
                 1,024 to 8,192       0.5      0.1      0.4          none
                8,192 to 16,384    0.3563    0.076   0.5178         1,024     0.05
    """
    stages: list[Stage] = []
    t = 0
    while t < until or not stages:
        stages.append(stage_at(t, budget, columns))
        t = stages[-1].end
    return Plan(columns, Budget.of(budget), tuple(stages))
