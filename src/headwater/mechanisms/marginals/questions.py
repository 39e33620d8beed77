"""Contingency tables to be asked for: their columns and bins, and how a budget is divided among them. Public."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

from headwater.laws import Accounting
from headwater.mechanisms.marginals.bins import cut_by, one_way
from headwater.mechanisms.marginals.measured import Coding, Integers, NoisyTable
from headwater.mechanisms.marginals.plan import divide

MOST_BINS = 256  # of a column, in a one-way table
ENOUGH = (4.0, 2.0, 1.0, 1.0, 24.0)  # a one-way bin is halved if it should hold so many times its noise, by level …
SPIKE = (8.0, 1 / 32)  # … or, inside a bin of which little lies outside, so many times, and at least this share
LISTED = 0.3  # early, a column of unordered values has a table if the noise of all of them adds up to this share


@dataclass(frozen=True, eq=False)
class Question:
    """A contingency table to be counted: its columns, in increasing order, and where the bins of each begin."""

    columns: tuple[int, ...]
    edges: tuple[Integers, ...]
    present: bool = False

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many bins each column has."""
        return tuple(len(edges) for edges in self.edges)

    @cached_property
    def cells(self) -> int:
        """How many counts there are."""
        return prod(self.shape)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many numbers need noise, apart from each other: a record moves at most two of each part, or a single one.

        Of two counts of one column one needs noise, since the number of records is public; and if it is asked for, the
        number of records that are not null.
        """
        return ((1, 1) if self.present else (1,)) if self.shape == (2,) else (self.cells,)

    @property
    def numbers(self) -> int:
        """How many numbers need noise."""
        return sum(self.sizes)


def early_weights(codings: Sequence[Coding], size: int, accounting: Accounting, budget: Fraction) -> list[float]:
    """The weights of columns in a stage that has no pairs: 1, or 0 for a long list of values.

    Neighbouring numbers share a bin, but every value of a list is asked for, and among few records most would be noise:
    the others use the budget better. If only lists are left, they have it all.
    """
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
    """One-way tables of the columns with a positive weight, in bins as fine as their noise allows, and their budgets.

    Parameters
    ----------
    codings
        Of all columns.
    size
        How many records the bucket holds.
    accounting, budget
        What all of them may spend.
    weights
        Of the columns, in the budget.
    known
        What was published before: bins are cut by it.
    """
    questions, total, own = list[Question](), math.fsum(weights), one_way(known, len(codings))
    for column, (coding, weight) in enumerate(zip(codings, weights, strict=True)):
        if weight > 0:
            scale = accounting.width(float(budget) * weight, total)
            least, spike = [enough * scale / size for enough in ENOUGH], max(SPIKE[0] * scale / size, SPIKE[1])
            edges = cut_by(coding, own[column], least, MOST_BINS, spike)
            # one table of two cells shows how many records are null, which are in the first cell of all of these
            present = len(edges) == 2 and not any(question.present for question in questions)
            questions.append(Question((column,), (edges,), present))
    shares = [weights[q.columns[0]] * math.sqrt(q.cells) ** accounting.power for q in questions]
    return questions, divide(budget, shares)
