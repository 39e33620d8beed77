"""What published tables predict of a span of records: which pairs depend on each other, and how. Public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from headwater.mechanisms.marginals.bins import bin_of, profile
from headwater.mechanisms.marginals.counting import Question
from headwater.mechanisms.marginals.measured import Coding, Integers, NoisyTable

Pair = tuple[int, int]
Shares = NDArray[np.float64]


class Prediction:
    """A prediction for the records ``start … end − 1``."""

    def __init__(self, codings: Sequence[Coding], tables: Sequence[NoisyTable], start: int, end: int) -> None:
        self.codings, self.tables, self.start, self.end = codings, tables, start, end
        self.tree: list[Pair] = []
        self.kept: set[Pair] = set()

    def given(self) -> set[int]:
        """Columns whose one-way marginal a kept pair gives as well."""
        return set()

    def independent(self, questions: Mapping[Pair, Question]) -> dict[Pair, Shares]:
        """Tables of pairs, were they independent."""

        @cache
        def share(column: int, edges: int) -> Shares:
            of_column = [t for t in self.tables if t.columns == (column,)]
            own = [t for t in of_column if (t.start, t.end) == (self.start, self.end)]
            coding = self.codings[column]
            bins = bin_of(named[column, edges], coding.size)
            found: Shares = np.bincount(bins, weights=profile(column, coding, own or of_column))
            return found

        named: dict[tuple[int, int], Integers] = {}
        for question in questions.values():
            named |= {(c, id(e)): e for c, e in zip(question.columns, question.edges, strict=True)}
        return {(a, b): np.outer(share(a, id(q.edges[0])), share(b, id(q.edges[1]))) for (a, b), q in questions.items()}

    def joint(self, questions: Mapping[Pair, Question]) -> dict[Pair, Shares]:
        """Tables of pairs, as the published model has them."""
        return self.independent(questions)
