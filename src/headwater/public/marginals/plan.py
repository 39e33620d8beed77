"""The plan: which buckets of time there are, and what each may spend.

A pure function of ``t``, ε, the number of columns and, if it was declared, the number of records that are expected.

Time is cut into stages. A stage is one *slow* bucket, in which one-way and two-way marginals are measured when it ends;
it is also cut into *fast* buckets, in which some one-way marginals are. A record lies in one bucket of each timescale.
The first stages are short, and have no pairs: few records say nothing of pairs, but something of each column.

Stages with pairs double the records. While noise is what limits them, a doubling is two stages: the first half asks for
the pairs of a tree, the second one for one-way marginals and further pairs. With pure ε, twice the budget among half as
many records gives a share the same noise, but half of the answers are there when half of the records are. With Gaussian
noise that is not so; and with many records, those that half of them leave out matter more than noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

from headwater.public.budget import Budget, Ledger, Spend
from headwater.public.laws import Accounting, Concentrated, Pure

FIRST = 8192.0  # where the first stage with pairs ends, at ε = 1 and …
FEW_COLUMNS = 20  # … with so many columns; with more of them it ends later, in proportion
LEAST_FIRST = 6  # but never before this power of two
EARLY = (1, 3, 9)  # stages without pairs end at so many 64ths of that …
LONG = 1024  # … and one more at half of it, if it is at least this: a large ε asks about pairs sooner
FAST = 8  # fast buckets a stage …
QUIET = 2  # … but for so many doublings with pairs after the first: they would hold too few records to say anything
FAST_SHARE = Fraction(3, 50)  # of ε, for the fast buckets of a stage
ONE_WAY = Fraction(1, 3)  # the odds of one-way marginals in the slow budget of ten columns: they count in all pairs …
WIDE = 1.5  # … so their odds grow with this power of the number of columns
EARLY_ONE_WAY = Fraction(3, 10)  # what they get more early, before they can be pooled
FIRST_ONE_WAY = Fraction(3, 2)  # in the first stage with pairs, so many times the cube of their share more
MOST_ONE_WAY = Fraction(3, 5)  # of either: what pairs do not need goes to one-way tables as well (`slow`)
TREE_CHOICE, FIRST_TREE_CHOICE = Fraction(1, 20), Fraction(1, 10)  # to choose the pairs of a tree
EXTRA_CHOICE = Fraction(3, 100)  # to choose the pairs beyond it
HALVED = 2  # doublings are halved from so many times the end of the first stage with pairs on …
NOISY = 20  # … while the root of their records, times ε, is at most so many times the number of columns
FURTHER = Fraction(2, 5)  # of the budget for pairs, those beyond the tree have so much
CHOICES_IN_RHO = Fraction(1, 5)  # the part of the shares of choices that they need of ρ, which buys more of them
GRAIN = 1 << 40  # a budget is divided into whole multiples of 1/GRAIN of it


@dataclass(frozen=True)
class Stage:
    """A stretch of time: one slow bucket, its fast buckets, and what one record may lose in each of them."""

    start: int
    end: int
    fast: int
    fast_budget: Fraction
    one_way: Fraction
    tree_choice: Fraction = Fraction(0)
    extra_choice: Fraction = Fraction(0)
    pairs: Fraction = Fraction(0)
    accounting: Accounting = Pure
    opened: int = 0
    other_half: Fraction = Fraction(0)

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def slow_budget(self) -> Fraction:
        return self.one_way + self.tree_choice + self.extra_choice + self.pairs

    def halved(self) -> tuple[Stage, Stage]:
        """The halves of a doubling."""
        nothing, budget = Fraction(0), self.slow_budget
        middle = self.start + (FAST // 2 * self.fast or self.size // 2)
        tree, extra = 2 * self.tree_choice, 2 * self.extra_choice
        one_way = (budget - extra) * self.one_way / (self.one_way + self.pairs * FURTHER)
        first = replace(self, end=middle, one_way=nothing, tree_choice=tree, extra_choice=nothing, pairs=budget - tree)
        pairs = budget - extra - one_way
        second = replace(self, start=middle, one_way=one_way, tree_choice=nothing, extra_choice=extra, pairs=pairs)
        return replace(first, other_half=one_way), second

    def fast_end(self, t: int) -> int:
        return min(self.end, t + self.fast - (t - self.start) % self.fast) if self.fast else self.end

    def ledger(self) -> Ledger:
        slow, pay = f"bucket of {self.size:,}", self.accounting
        tables = {f"marginals, {slow}": self.one_way + self.pairs}
        tables |= {f"one-way marginals, buckets of {self.fast:,}": self.fast_budget}
        choices = {f"choice of a tree, {slow}": self.tree_choice, f"choice of further pairs, {slow}": self.extra_choice}
        spends = [Spend(what, pay.count_law(e), touches=2) for what, e in tables.items() if e]
        return Ledger(spends + [Spend(what, pay.choice_law(e, 4), shift=4) for what, e in choices.items() if e])


def first_end(epsilon: float, columns: int) -> int:
    wide = math.log2(max(columns / FEW_COLUMNS, 1))
    return 1 << max(round(math.log2(FIRST) - math.log2(epsilon) + wide), LEAST_FIRST)


@dataclass(frozen=True)
class Doublings:
    """The ends of stages with pairs."""

    expect: int
    lowest: int  # the least i

    @classmethod
    def of(cls, first: int, expect: int | None) -> Doublings:
        if expect is None:
            return cls(first, 0)
        found = cls(expect, round(math.log2(first / expect)))
        return found if found.end(found.lowest) >= 1 << LEAST_FIRST else cls(expect, found.lowest + 1)

    def end(self, i: int) -> int:
        return self.expect << i if i >= 0 else -(-self.expect >> -i)

    @property
    def first(self) -> int:
        return self.end(self.lowest)

    def before(self, t: int) -> int:
        i = t.bit_length() - self.expect.bit_length()  # right, or one too large
        return i if self.end(i) <= t else i - 1

    def early(self) -> list[int]:
        ends = [self.first * part >> LEAST_FIRST for part in EARLY] + ([self.first >> 1] if self.first >= LONG else [])
        if self.expect < self.first:
            near = min(range(len(ends)), key=lambda at: abs(math.log2(ends[at] / self.expect)))
            ends[near] = self.expect
        return [0, *ends, self.first]


def stage_at(t: int, budget: Budget | float, columns: int, expect: int | None = None) -> Stage:
    budget = Budget.of(budget)
    doubling, ends = doubling_at(t, budget, columns, expect), Doublings.of(first_end(budget.epsilon, columns), expect)
    if doubling.end == expect or doubling.start < HALVED * ends.first or not _noisy(doubling, budget, columns):
        return doubling
    halves = doubling.halved()
    return halves[0] if t < halves[0].end else halves[1]


def doubling_at(t: int, budget: Budget | float, columns: int, expect: int | None = None) -> Stage:
    """The stage that record number ``t`` (from 0) would belong to if no doubling were halved."""
    budget = Budget.of(budget)
    ends = Doublings.of(first_end(budget.epsilon, columns), expect)
    odds = ONE_WAY * Fraction((columns / 10) ** WIDE).limit_denominator(1000)
    one_way = min(odds / (1 + odds), MOST_ONE_WAY)
    if t >= ends.first:
        i = ends.before(t)
        share = one_way + EARLY_ONE_WAY / (2 << i - ends.lowest)
        fast = FAST_SHARE if i >= ends.lowest + QUIET else Fraction(0)
        return _with_pairs(ends.end(i), ends.end(i + 1), budget, columns, share, TREE_CHOICE, EXTRA_CHOICE, fast)
    start, end = next((start, end) for start, end in pairwise(ends.early()) if t < end)
    if end < ends.first:
        whole, accounting = currency(budget, columns, columns)
        return Stage(start, end, 0, Fraction(0), whole, accounting=accounting, opened=start)
    more = FIRST_ONE_WAY * one_way**3 if ends.first >= LONG else EARLY_ONE_WAY
    return _with_pairs(start, end, budget, columns, min(one_way + more, MOST_ONE_WAY), FIRST_TREE_CHOICE, Fraction(0))


def _noisy(stage: Stage, budget: Budget, columns: int) -> bool:
    return not stage.accounting.gaussian and math.sqrt(stage.start) * budget.epsilon <= NOISY * columns


def _with_pairs(
    start: int,
    end: int,
    budget: Budget,
    columns: int,
    one_way: Fraction,
    tree: Fraction,
    extra: Fraction,
    fast: Fraction = Fraction(0),
) -> Stage:
    whole, accounting = currency(budget, columns, 2 * columns - 1 + (columns // 2 if extra else 0))
    if accounting.gaussian:
        tree, extra = tree * CHOICES_IN_RHO, extra * CHOICES_IN_RHO
    parts = [whole * (1 - fast) * share for share in (one_way, tree, extra, 1 - one_way - tree - extra)]
    size = -(-(end - start) // FAST) if fast else 0
    return Stage(start, end, size, whole * fast, parts[0], parts[1], parts[2], parts[3], accounting, start)


def currency(budget: Budget, columns: int, tables: int) -> tuple[Fraction, Accounting]:
    epsilon, rho = Fraction(budget.epsilon), budget.rho
    if budget.one_currency and not budget.epsilon_first:
        tables = 2 * columns - 1 + columns // 2
    if rho is None or 8 * tables * rho <= epsilon**2:
        return epsilon, Pure
    return rho, Concentrated


def divide(budget: Fraction, weights: Sequence[float]) -> list[Fraction]:
    total = math.fsum(weights)
    whole, parts = budget.as_integer_ratio()
    grains = [math.floor(weight / total * (GRAIN - len(weights))) for weight in weights]
    return [Fraction(whole * grain, parts * GRAIN) for grain in grains]


@dataclass(frozen=True)
class Plan:
    """Every stage up to some time, to be read or printed."""

    columns: int
    budget: Budget
    stages: tuple[Stage, ...]

    def __str__(self) -> str:
        heading = self.budget.heading(gaussian=self.stages[0].accounting.gaussian)
        lines = [f"marginals, {self.columns} columns, {heading}"]
        slow = " ".join(f"{what:>9}" for what in ("one-way", "choice", "pairs"))
        lines.append(f"{'records':>27}  {slow}  {'fast buckets':>12} {'fast one-way':>12}  budgets in")
        for stage in self.stages:
            choice = stage.tree_choice + stage.extra_choice
            slow = " ".join(f"{float(part):>9.4g}" for part in (stage.one_way, choice, stage.pairs))
            fast = f"{stage.fast:>12,} {float(stage.fast_budget):>12.4g}" if stage.fast else f"{'none':>12} {0:>12}"
            law = "ρ, Gaussian" if stage.accounting.gaussian else "ε, Laplace"
            lines.append(f"{f'{stage.start:,} to {stage.end:,}':>27}  {slow}  {fast}  {law}")
        return "\n".join(lines)


def plan(columns: int, budget: Budget | float, until: int, expect: int | None = None) -> Plan:
    stages: list[Stage] = []
    t = 0
    while t < until or not stages:
        stages.append(stage_at(t, budget, columns, expect))
        t = stages[-1].end
    return Plan(columns, Budget.of(budget), tuple(stages))
