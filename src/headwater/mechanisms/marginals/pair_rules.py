"""How many pairs a slow bucket can afford, in which bins, and what each may spend. Public: from sizes and budgets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from headwater.laws import Accounting
from headwater.mechanisms.marginals.bins import cut_by, one_way
from headwater.mechanisms.marginals.measured import Coding, Integers, NoisyTable

PAIR_BINS = 16  # of an ordered column, in a table of two
PAIR_LEAST = (0.0, 0.004, 0.004, 0.004, 0.25)  # a bin of a pair is halved if it holds so much, by level
CLEAR = 0.33  # choices distinguish scores that differ by about so much for each record
EXTRAS = Fraction(1, 2)  # pairs beyond the tree, for each column
EXTRA_WEIGHT = Fraction(6, 5)  # the budget of such a pair beside that of one of the tree


def pair_edges(codings: Sequence[Coding], known: Sequence[NoisyTable]) -> list[Integers]:
    """The bins of each column in tables of two, by what was published."""
    own = one_way(known, len(codings))
    return [cut_by(*of_column, PAIR_LEAST, PAIR_BINS) for of_column in zip(codings, own, strict=True)]


def turns(budget: Fraction, size: int, candidates: int, accounting: Accounting) -> int:
    """How many choices a budget allows, if each is to distinguish scores that differ by `CLEAR` · ``size``.

    For pure ε it is ``⌊budget · CLEAR·size / (4·ln candidates)⌋``: a choice of scale 4/ε misses the best score by about
    ``scale · ln candidates``.
    """
    product, cost = CLEAR * size, 4 * math.log(max(candidates, 2))
    if accounting.gaussian:  # a choice that costs ρ has the scale √(2/ρ), instead of 4/ε
        return math.floor(float(budget) * 8 * (product / cost) ** 2)
    return math.floor(float(budget) * product / cost)


def saving(chosen: int, most: int) -> Fraction:
    """The part ``2c/(m + c)`` of a budget for ``m = most`` pairs that ``c = chosen`` get. The rest is saved."""
    return Fraction(2 * chosen, most + chosen)
