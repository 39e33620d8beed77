"""Which noise the tables of a bucket have: a function of their sizes and budgets. Public.

`Bucket` draws by it, and errors are foretold by it (`error_model`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

from headwater.public.laws import Accounting, CountLaw, fits, radii, scale_for
from headwater.public.marginals.codes import Coding
from headwater.public.marginals.measured import NoisyTable
from headwater.public.marginals.plan import divide
from headwater.public.marginals.tables import cut_by, one_way
from headwater.public.marginals.tree import Pair
from headwater.public.partition import Integers

MOST_BINS = 256  # of a column, in a one-way table
ENOUGH = (4.0, 2.0, 1.0, 1.0)  # a one-way bin is halved if it should hold so many times its noise, by level …
FINER = (8.0, 6.0)  # … beyond these levels: before any pair is published, and after
LISTED = 0.3  # early, a column of unordered values has a table if the noise of all of them adds up to this share


@dataclass(frozen=True, eq=False)
class Question:
    """A contingency table to be counted: its columns, in increasing order, and where the bins of each begin."""

    columns: tuple[int, ...]
    edges: tuple[Integers, ...]
    present: bool = False

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(edges) for edges in self.edges)

    @cached_property
    def cells(self) -> int:
        return prod(self.shape)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return ((1, 1) if self.present else (1,)) if self.shape == (2,) else (self.cells,)

    @property
    def numbers(self) -> int:
        return sum(self.sizes)


def early_weights(codings: Sequence[Coding], size: int, accounting: Accounting, budget: Fraction) -> list[float]:
    noise = accounting.width(float(budget), len(codings)) / size
    weights = [float(coding.ordered or coding.size * noise * LISTED <= 1) for coding in codings]
    return weights if any(weights) else [1.0] * len(codings)


def one_way_questions(
    codings: Sequence[Coding],
    size: int,
    accounting: Accounting,
    budget: Fraction,
    weights: Sequence[float],
    known: Sequence[NoisyTable],
) -> tuple[list[Question], list[Fraction]]:
    """One-way tables of the columns with a positive weight, in bins as fine as their noise allows."""
    least = [*ENOUGH, FINER[any(len(table.columns) > 1 for table in known)]]
    questions, total, own = list[Question](), math.fsum(weights), one_way(known, len(codings))
    for column, (coding, weight) in enumerate(zip(codings, weights, strict=True)):
        if weight > 0:
            scale = accounting.width(float(budget) * weight, total)
            enough = [times * scale / size for times in least]
            edges = cut_by(coding, own[column], enough, MOST_BINS, enough[-1])
            # one table of two cells shows how many records are null, which are in the first cell of all of these
            present = len(edges) == 2 and not any(question.present for question in questions)
            questions.append(Question((column,), (edges,), present))
    shares = [weights[q.columns[0]] * math.sqrt(q.cells) ** accounting.power for q in questions]
    return questions, divide(budget, shares)


PAIR_BINS = 16  # of an ordered column, in a table of two
PAIR_LEAST = (0.0, 0.02, 0.02, 0.02, 0.1)  # a bin of a pair is halved if it holds so much, by level
PAIR_ATOM = 0.1  # an atom that holds so much is a bin of a pair by itself
CLEAR = 0.33  # choices distinguish scores that differ by about so much for each record
EXTRAS = Fraction(1, 2)  # pairs beyond the tree, for each column
EXTRA_WEIGHT = Fraction(6, 5)  # the budget of such a pair beside that of one of the tree


def pair_edges(codings: Sequence[Coding], known: Sequence[NoisyTable]) -> list[Integers]:
    own = one_way(known, len(codings))
    return [cut_by(*of_column, PAIR_LEAST, PAIR_BINS, PAIR_ATOM) for of_column in zip(codings, own, strict=True)]


def turns(budget: Fraction, size: int, candidates: int, accounting: Accounting) -> int:
    product, cost = CLEAR * size, 4 * math.log(max(candidates, 2))
    if accounting.gaussian:  # a choice that costs ρ has the scale √(2/ρ), instead of 4/ε
        return math.floor(float(budget) * 8 * (product / cost) ** 2)
    return math.floor(float(budget) * product / cost)


def saving(chosen: int, most: int) -> Fraction:
    return Fraction(2 * chosen, most + chosen)


CELLS = 0.35  # pairs share their budget by this power of their cells


def joined(groups: Sequence[int], pair: Pair) -> list[int]:
    return [groups[pair[0]] if group == groups[pair[1]] else group for group in groups]


def some_of(pairs: Sequence[Pair], first: Collection[Pair], most: int, turn: int) -> list[Pair]:
    if len(pairs) <= most:
        return list(pairs)
    kept = [pair for pair in pairs if pair in first][:most]
    rest = [pair for pair in pairs if pair not in first]
    room = min(most - len(kept), len(rest))
    step = next(step for step in range(5 * len(rest) // 8, 2 * len(rest) + 2) if math.gcd(step, len(rest)) == 1)
    return sorted([*kept, *(rest[(turn * room + i) * step % len(rest)] for i in range(room))])


ALIKE = ((1, 1), (2, 5), (6, 11), (12, 29))
"""Tables of a slow bucket with so many numbers share their noise. Of larger ones each has as much noise by itself."""


def shared(
    questions: Sequence[Question], budgets: Sequence[Fraction], accounting: Accounting
) -> Iterator[tuple[list[int], Fraction]]:
    for least, most in () if accounting.gaussian else ALIKE:
        alike = [i for i, q in enumerate(questions) if q.cells > 1 and least <= q.sizes[0] <= most]
        budget, sizes = sum((budgets[i] for i in alike), Fraction(0)), joint_sizes([questions[i] for i in alike])
        if len(sizes) > 1 and fits(scale_for(budget), sizes):
            yield alike, budget


LEAST = 1e-9  # the least variance that a table is said to have: with a huge ε it would be 0


def joint_sizes(questions: Sequence[Question]) -> list[int]:
    return [size for question in questions for size in question.sizes]


def joint_variances(questions: Sequence[Question], scale: float) -> list[float]:
    law = radii(scale, tuple(sorted(joint_sizes(questions))))
    found = {size: max(law.variance(size), LEAST) for size in {question.sizes[0] for question in questions}}
    return [found[question.sizes[0]] for question in questions]


def own_law(question: Question, budget: Fraction, accounting: Accounting) -> CountLaw:
    return accounting.count_law(budget, 1 if question.sizes == (1,) and question.cells == 2 else 2)


def variances(questions: Sequence[Question], budgets: Sequence[Fraction], accounting: Accounting) -> list[float]:
    """Of the noise in each count of these tables of a slow bucket."""
    found = dict[int, float]()
    for alike, budget in shared(questions, budgets, accounting):
        found |= zip(alike, joint_variances([questions[i] for i in alike], scale_for(budget)), strict=True)
    for i, question in enumerate(questions):
        if i not in found:
            found[i] = max(own_law(question, budgets[i], accounting).variance, LEAST)
    return [found[i] for i in range(len(questions))]
