"""Which noise the tables of a bucket have: a function of their sizes and budgets. Public.

`Bucket` draws by it, and errors are foretold by it (`error_model`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from headwater.joint_law import fits, radii
from headwater.laws import Accounting, CountLaw, scale_for
from headwater.mechanisms.marginals.plan import LEAST, variance
from headwater.mechanisms.marginals.questions import Question

ALIKE = ((1, 1), (2, 5), (6, 11), (12, 29))
"""Tables of a slow bucket with so many numbers share their noise. Of larger ones each has as much noise by itself."""


def shared(
    questions: Sequence[Question], budgets: Sequence[Fraction], accounting: Accounting
) -> Iterator[tuple[list[int], Fraction]]:
    """Which tables of a slow bucket share a draw, and the budget that they have together."""
    for least, most in () if accounting.gaussian else ALIKE:
        alike = [i for i, q in enumerate(questions) if q.cells > 1 and least <= q.sizes[0] <= most]
        budget, sizes = sum((budgets[i] for i in alike), Fraction(0)), joint_sizes([questions[i] for i in alike])
        if len(sizes) > 1 and fits(scale_for(budget), sizes):
            yield alike, budget


def joint_sizes(questions: Sequence[Question]) -> list[int]:
    """How many numbers each table of a joint draw has."""
    return [size for question in questions for size in question.sizes]


def joint_variances(questions: Sequence[Question], scale: float) -> list[float]:
    """Of the numbers of each of these tables, if they share a draw of joint noise."""
    law = radii(scale, tuple(sorted(joint_sizes(questions))))
    found = {size: max(law.variance(size), LEAST) for size in {question.sizes[0] for question in questions}}
    return [found[question.sizes[0]] for question in questions]


def own_law(question: Question, budget: Fraction, accounting: Accounting) -> CountLaw:
    """The law of the noise of a table by itself: a record moves two of its numbers, or the only one."""
    return accounting.count_law(budget, 1 if question.sizes == (1,) and question.cells == 2 else 2)


def variances(questions: Sequence[Question], budgets: Sequence[Fraction], accounting: Accounting) -> list[float]:
    """Of the noise in each count of these tables of a slow bucket."""
    found = dict[int, float]()
    for alike, budget in shared(questions, budgets, accounting):
        found |= zip(alike, joint_variances([questions[i] for i in alike], scale_for(budget)), strict=True)
    for i, question in enumerate(questions):
        if i not in found:
            law = own_law(question, budgets[i], accounting)
            found[i] = variance(law.scale, gaussian=accounting.gaussian)
    return [found[i] for i in range(len(questions))]
