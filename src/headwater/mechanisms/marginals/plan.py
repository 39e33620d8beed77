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

from headwater.laws import Accounting, Concentrated, Pure
from headwater.privacy import Budget, DiscreteGaussian, IntegerLaplace, Ledger, Spend

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
LEAST = 1e-9  # the least variance that a table is said to have: with a huge ε it would be 0
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
        What a record may lose in its fast bucket. All budgets of a stage are in ε, or in ρ if its noise is Gaussian.
    one_way, tree_choice, extra_choice, pairs
        What it may lose in the slow bucket: by one-way marginals, by choosing the pairs of a tree and the pairs beyond
        the tree, and by measuring pairs. Without pairs the last three are 0.
    accounting
        What budgets are counted in.
    opened
        Where the doubling begins that this is a half of; else the same as ``start``.
    other_half
        What one-way marginals may lose in the other half of the doubling, if they are asked for there.
    """

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
        """How many records the slow bucket holds."""
        return self.end - self.start

    @property
    def slow_budget(self) -> Fraction:
        """What one record may lose in the slow bucket. Parts of it move between one-way tables and pairs."""
        return self.one_way + self.tree_choice + self.extra_choice + self.pairs

    def halved(self) -> tuple[Stage, Stage]:
        """The halves of a doubling. Each has the whole slow budget, for its part of the questions.

        Choices have twice the budget, among half as many records: they tell the same shares apart.
        """
        nothing, budget = Fraction(0), self.slow_budget
        middle = self.start + (FAST // 2 * self.fast or self.size // 2)
        tree, extra = 2 * self.tree_choice, 2 * self.extra_choice
        one_way = (budget - extra) * self.one_way / (self.one_way + self.pairs * FURTHER)
        first = replace(self, end=middle, one_way=nothing, tree_choice=tree, extra_choice=nothing, pairs=budget - tree)
        pairs = budget - extra - one_way
        second = replace(self, start=middle, one_way=one_way, tree_choice=nothing, extra_choice=extra, pairs=pairs)
        return replace(first, other_half=one_way), second

    def fast_end(self, t: int) -> int:
        """The first end of a bucket after ``t`` records."""
        return min(self.end, t + self.fast - (t - self.start) % self.fast) if self.fast else self.end

    def ledger(self) -> Ledger:
        """What replacing one record of this stage can move.

        A budget is divided among tables, one-way tables and pairs alike (`divide`), and the scale named here is the one
        that a single table would have: two counts of it move by one. Small tables share a draw of joint noise, which
        costs what they have together. A choice costs as much as a shift of ``4`` (`selection`). What choices do not
        need goes to tables, so it is the total that holds for every run.
        """
        slow, pay = f"bucket of {self.size:,}", self.accounting
        tables = {f"marginals, {slow}": self.one_way + self.pairs}
        tables |= {f"one-way marginals, buckets of {self.fast:,}": self.fast_budget}
        choices = {f"choice of a tree, {slow}": self.tree_choice, f"choice of further pairs, {slow}": self.extra_choice}
        spends = [Spend(what, pay.count_law(e), touches=2) for what, e in tables.items() if e]
        return Ledger(spends + [Spend(what, pay.choice_law(e, 4), shift=4) for what, e in choices.items() if e])


def first_end(epsilon: float, columns: int) -> int:
    """Where the first stage with pairs ends: the more columns share ε, the more records it takes to see a pair."""
    wide = math.log2(max(columns / FEW_COLUMNS, 1))
    return 1 << max(round(math.log2(FIRST) - math.log2(epsilon) + wide), LEAST_FIRST)


@dataclass(frozen=True)
class Doublings:
    """The ends of stages with pairs: ``expect · 2^i`` for whole ``i``, rounded up, from the one nearest to `first_end`.

    If a number of records is expected, a stage ends with it. Otherwise ends are powers of two.
    """

    expect: int
    lowest: int  # the least i

    @classmethod
    def of(cls, first: int, expect: int | None) -> Doublings:
        """The ends of stages; ``first`` is where the first of them would end if nothing were expected."""
        if expect is None:
            return cls(first, 0)
        found = cls(expect, round(math.log2(first / expect)))
        return found if found.end(found.lowest) >= 1 << LEAST_FIRST else cls(expect, found.lowest + 1)

    def end(self, i: int) -> int:
        """``expect · 2^i``, rounded up."""
        return self.expect << i if i >= 0 else -(-self.expect >> -i)

    @property
    def first(self) -> int:
        """The end of the first stage with pairs."""
        return self.end(self.lowest)

    def before(self, t: int) -> int:
        """The largest ``i`` with ``end(i) ≤ t``; there is one from `first` on."""
        i = t.bit_length() - self.expect.bit_length()  # right, or one too large
        return i if self.end(i) <= t else i - 1

    def early(self) -> list[int]:
        """Where the stages before the first one with pairs begin and end, from 0 on.

        One of their ends is moved to the number of records that is expected, if that is before the first pairs.
        """
        ends = [self.first * part >> LEAST_FIRST for part in EARLY] + ([self.first >> 1] if self.first >= LONG else [])
        if self.expect < self.first:
            near = min(range(len(ends)), key=lambda at: abs(math.log2(ends[at] / self.expect)))
            ends[near] = self.expect
        return [0, *ends, self.first]


def stage_at(t: int, budget: Budget | float, columns: int, expect: int | None = None) -> Stage:
    """The stage that record number ``t`` (from 0) belongs to: a doubling, or a half of one.

    >>> [stage_at(t, 1.0, 10).end for t in (0, 128, 384, 1152, 4096, 8192, 16384)]
    [128, 384, 1152, 4096, 8192, 16384, 24576]
    >>> [stage_at(t, 1.0, 10, expect=60_000).end for t in (0, 117, 351, 1054, 3750, 7500, 15000, 30000)]
    [117, 351, 1054, 3750, 7500, 15000, 22500, 60000]
    """
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
    """Whether Laplace noise, not the number of records, limits what a stage says.

    About ``2.5·columns`` tables of ``K`` cells share ε. So noise in the shares of a pair adds up to
    ``~ 5·columns·K/(ε·n)`` and chance to ``~ √(K/n)``; the former is larger while ``√n·ε`` is below a multiple of the
    number of columns.
    """
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
    """A stage with pairs; ``fast`` is the part of the budget that its fast buckets have."""
    whole, accounting = currency(budget, columns, 2 * columns - 1 + (columns // 2 if extra else 0))
    if accounting.gaussian:
        tree, extra = tree * CHOICES_IN_RHO, extra * CHOICES_IN_RHO
    parts = [whole * (1 - fast) * share for share in (one_way, tree, extra, 1 - one_way - tree - extra)]
    size = -(-(end - start) // FAST) if fast else 0
    return Stage(start, end, size, whole * fast, parts[0], parts[1], parts[2], parts[3], accounting, start)


def currency(budget: Budget, columns: int, tables: int) -> tuple[Fraction, Accounting]:
    """ρ and Gaussian noise if there is a δ and so many tables have less noise then, else ε and Laplace noise.

    With equal shares the variance of a count is ``8·(tables/ε)²`` or ``tables/ρ``. Later stages have more tables, so ε
    comes first, if at all. Where records of a person in ε and in ρ do not add up, the answer is the same at all times,
    that for the tables of a late stage.
    """
    epsilon, rho = Fraction(budget.epsilon), budget.rho
    if budget.one_currency and not budget.epsilon_first:
        tables = 2 * columns - 1 + columns // 2
    if rho is None or 8 * tables * rho <= epsilon**2:
        return epsilon, Pure
    return rho, Concentrated


def divide(budget: Fraction, weights: Sequence[float]) -> list[Fraction]:
    """A budget in parts as the weights say, rounded down so that they add up to no more than the budget, exactly.

    >>> sum(divide(Fraction(1, 10), [1.0, 1.0, 1.0])) <= Fraction(1, 10)
    True
    """
    total = math.fsum(weights)
    whole, parts = budget.as_integer_ratio()
    grains = [math.floor(weight / total * (GRAIN - len(weights))) for weight in weights]
    return [Fraction(whole * grain, parts * GRAIN) for grain in grains]


def variance(scale: float, *, gaussian: bool = False) -> float:
    """Of integer Laplace noise, or of discrete Gaussian noise; never 0."""
    return max((DiscreteGaussian(scale) if gaussian else IntegerLaplace(scale)).variance, LEAST)


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
    """The stages of a run up to time ``until``.

    >>> print(plan(10, 1.0, until=8193))
    marginals, 10 columns, ε = 1: replacing one record costs at most ε, for ever
                        records    one-way    choice     pairs  fast buckets fast one-way  budgets in
                       0 to 128          1         0         0          none            0  ε, Laplace
                     128 to 384          1         0         0          none            0  ε, Laplace
                   384 to 1,152          1         0         0          none            0  ε, Laplace
                 1,152 to 4,096          1         0         0          none            0  ε, Laplace
                 4,096 to 8,192     0.2734       0.1    0.6266          none            0  ε, Laplace
                8,192 to 16,384        0.4      0.08      0.52          none            0  ε, Laplace
    """
    stages: list[Stage] = []
    t = 0
    while t < until or not stages:
        stages.append(stage_at(t, budget, columns, expect))
        t = stages[-1].end
    return Plan(columns, Budget.of(budget), tuple(stages))
