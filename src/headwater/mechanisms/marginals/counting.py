"""Codes of records to exact counts. Pure, and the counts of two lots of records add up to those of both.

Not private: only `measure` may call this, and adds noise to whatever it publishes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.mechanisms.marginals.bins import bin_of
from headwater.mechanisms.marginals.codes import NULL, Codes
from headwater.mechanisms.marginals.measured import Coding, Integers

_CHUNK = 1 << 14  # records at a time: their bins stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Question:
    """A contingency table to be counted: its columns, in increasing order, and where the bins of each begin."""

    columns: tuple[int, ...]
    edges: tuple[Integers, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many bins each column has."""
        return tuple(len(edges) for edges in self.edges)

    @property
    def cells(self) -> int:
        """How many counts there are."""
        return prod(self.shape)

    @property
    def numbers(self) -> int:
        """How many of them need noise: of two counts of one column one does, since the number of records is public."""
        return 1 if self.shape == (2,) else self.cells


def count(
    codes: Codes,
    questions: Sequence[Question],
    codings: Sequence[Coding],
    weights: NDArray[np.unsignedinteger[Any]] | None = None,
) -> list[Integers]:
    """For each question its table of counts: every record is in exactly one cell of each, a null record in none.

    Parameters
    ----------
    codes
        One row for each column, one entry for each record.
    questions
        What to count.
    codings
        Of all columns.
    weights
        How many records each entry stands for; one unless given. Below 2^53 in all, so that sums are exact.
    """
    null = codes[0] == NULL  # then in all other columns too
    if null.any():
        codes, weights = codes[:, ~null], None if weights is None else weights[~null]
    totals = [np.zeros(question.cells, dtype=np.int64) for question in questions]
    keys = [[(c, id(e)) for c, e in zip(q.columns, q.edges, strict=True)] for q in questions]
    edges = {key: e for q, of_q in zip(questions, keys, strict=True) for key, e in zip(of_q, q.edges, strict=True)}
    lookup = {(column, name): bin_of(e, codings[column].size) for (column, name), e in edges.items()}
    for start in range(0, codes.shape[1], _CHUNK):
        part = codes[:, start : start + _CHUNK]
        bins = {key: table.take(part[key[0]]) for key, table in lookup.items()}
        of_part = None if weights is None else weights[start : start + _CHUNK]
        for question, of_question, total in zip(questions, keys, totals, strict=True):
            cells = bins[of_question[0]]
            for key, size in zip(of_question[1:], question.shape[1:], strict=True):
                cells = cells * size + bins[key]
            total += np.bincount(cells, of_part, minlength=len(total)).astype(np.int64, copy=False)
    return [total.reshape(question.shape) for question, total in zip(questions, totals, strict=True)]
