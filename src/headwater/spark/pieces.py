"""Which bucket a row of a frame falls into, as an expression of Spark: tables of whole numbers, and a search in them.

A *piece* is a run of rows of one partition whose numbers follow one another and whose buckets have one size. Several
neighbouring buckets are counted together, each in some bits of one word (a *lane*), so that Spark has fewer groups.
All of it is public: it follows from how many records there are, and not from what they hold.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headwater.spark.places import Stretch

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

Integers = NDArray[np.int64]

ROWS = 33  # bits of the number of a row in its partition, in Spark's monotonically_increasing_id
MOST = 1 << 10  # pieces of one partition: the search takes ten steps
LANES = ((4, 15), (3, 21), (2, 31), (1, 62))
"""How many buckets share a word, and how many bits each of them has."""


@dataclass(frozen=True)
class Piece:
    """Rows that follow one another, in buckets of one size.

    Parameters
    ----------
    row
        The first row, as Spark numbers rows.
    records
        How many there are; of the end of a partition 0.
    number
        Of the first one in the order of arrival.
    start
        Of the first bucket of this size.
    size
        Of the buckets.
    first
        The number, among all buckets of the batch, of that bucket.
    """

    row: int
    records: int
    number: int
    start: int
    size: int
    first: int


_NOWHERE = Piece(0, 0, 0, 0, 1, 0)


@dataclass(frozen=True)
class Pieces:
    """All pieces of a frame, in the order of rows, each partition with its end.

    Parameters
    ----------
    pieces
        Those.
    starts
        The first number of each bucket of the batch.
    parts
        For each partition its first piece.
    runs
        Neighbouring buckets of one size: their start, end and size, and the number of the first.
    """

    pieces: tuple[Piece, ...]
    starts: Integers
    parts: tuple[int, ...]
    runs: tuple[tuple[int, int, int, int], ...]

    @staticmethod
    def of(stretches: Sequence[Stretch], numbers: Sequence[int], buckets: Sequence[tuple[int, int]]) -> Pieces:
        """For all stretches of a frame, in order.

        Parameters
        ----------
        stretches
            In order.
        numbers
            Of the first record of each.
        buckets
            All that these records fall into: first number and end.
        """
        runs = _runs(buckets)
        found = list[Piece]()
        for one, number in zip(stretches, numbers, strict=True):
            row, left = (one.part << ROWS) + one.position, one.records
            for start, until, size, first in runs:
                held = min(until, number + left) - number
                if start <= number and held > 0:
                    found.append(Piece(row, held, number, start, size, first))
                    row, number, left = row + held, number + held, left - held
        found.sort(key=lambda piece: piece.row)
        pieces, parts = [_NOWHERE], list[int]()
        for piece in found:
            part, last = piece.row >> ROWS, pieces[-1]
            if len(parts) <= part:  # rows of partitions that had none are nowhere
                pieces += [_end(last)] if last.records else []
                parts += [len(pieces) - 1] * (part - len(parts)) + [len(pieces)]
            elif last.start == piece.start and last.number + last.records == piece.number:
                pieces[-1] = Piece(last.row, last.records + piece.records, last.number, *_run(last))
                continue
            pieces.append(piece)
        pieces += [_end(pieces[-1])]
        return Pieces(tuple(pieces), np.array([start for start, _ in buckets], dtype=np.int64), tuple(parts), runs)

    @property
    def longest(self) -> int:
        """The most pieces that a partition has, with its end."""
        return max(end - first + 1 for first, end in pairwise([*self.parts, len(self.pieces)]))

    @cached_property
    def lanes(self) -> tuple[int, int]:
        """How many buckets share a word, and how many bits each of them has."""
        largest = max(piece.size for piece in self.pieces)
        return next((lanes, bits) for lanes, bits in LANES if largest < 1 << bits)

    @cached_property
    def groups(self) -> dict[int, int]:
        """For the start of each run of buckets of one size, the number of its first group: buckets that share words."""
        found, total = dict[int, int](), 0
        for start, end, size, _ in self.runs:
            found[start] = total
            total += -(-(end - start) // (size * self.lanes[0]))
        return found

    def _span(self, piece: Piece) -> tuple[int, int]:
        """The first and the last bucket of a piece, counted from the first of its size."""
        offset = piece.number - piece.start
        return offset // piece.size, (offset + max(piece.records, 1) - 1) // piece.size

    def expressions(self, frame: DataFrame, words: Sequence[Expression]) -> DataFrame:
        """``group``, the words, and ``one``: what a record adds to the word of its group.

        Parameters
        ----------
        frame
            The frame.
        words
            Expressions over its columns, named ``word0`` and so on in the result.
        """
        from pyspark.sql import functions as sql

        (lanes, bits), kept = self.lanes, [f"word{number}" for number in range(len(words))]
        here = [piece if piece.records else None for piece in self.pieces]
        rows = _table([piece.row for piece in self.pieces])
        shifts = _table([p.number - p.start - p.row if p else -self.pieces[i].row for i, p in enumerate(here)])
        bases = _table([self.groups[piece.start] if piece else -1 for piece in here])
        sizes = [piece.size if piece else 1 << 62 for piece in here]
        bucket = f"(row + get({shifts}, CAST(piece AS INT))) div get({_table(sizes)}, CAST(piece AS INT))"
        if not any(size & (size - 1) for size in sizes):  # quicker than a division
            widths = _table([size.bit_length() - 1 for size in sizes])
            bucket = (
                f"shiftright(row + get({shifts}, CAST(piece AS INT)), CAST(get({widths}, CAST(piece AS INT)) AS INT))"
            )
        found = frame.select(
            *(word.alias(name) for name, word in zip(kept, words, strict=True)),
            sql.expr("monotonically_increasing_id() AS row"),
            sql.expr(f"get({_table(self.parts)}, spark_partition_id()) AS piece"),
        )
        # Each step is used more than once in the next one, so Spark keeps them apart.
        step = 1 << self.longest.bit_length() >> 1
        while step:
            later = f"row >= get({rows}, CAST(piece + {step} AS INT))"
            found = found.selectExpr(*kept, "row", f"piece + IF({later}, {step}, 0) AS piece")
            step >>= 1
        found = found.selectExpr(*kept, f"get({bases}, CAST(piece AS INT)) AS base", f"{bucket} AS bucket")
        return found.selectExpr(
            *kept,
            f"base + bucket div {lanes}L AS group",
            f"shiftleft(1L, CAST(bucket % {lanes}L AS INT) * {bits}) AS one",
        )

    def counted(self, groups: Integers, totals: Integers) -> tuple[Integers, Integers, Integers]:
        """Which entry, which bucket of the batch and how many records, from sums of ``one`` by group.

        Parameters
        ----------
        groups
            As `expressions` gives them.
        totals
            The sum of each.
        """
        lanes, bits = self.lanes
        firsts = np.array(list(self.groups.values()), dtype=np.int64)
        run = np.searchsorted(firsts, groups, side="right") - 1
        bucket = np.array([first for *_, first in self.runs])[run] + (groups - firsts[run]) * lanes
        found = []
        for lane in range(lanes):
            counts = totals >> (lane * bits) & ((1 << bits) - 1)
            (entry,) = counts.nonzero()
            found.append((entry, bucket[entry] + lane, counts[entry]))
        entries, buckets, counts = (np.concatenate(one) for one in zip(*found, strict=True))
        return entries, buckets, counts

    def expected(self) -> Integers:
        """How many records of the frame fall into each bucket of the batch."""
        found = np.zeros(len(self.starts), dtype=np.int64)
        for piece in self.pieces:
            if piece.records:
                first, last = self._span(piece)
                edges = piece.start + piece.size * np.arange(first, last + 2)
                held = np.clip(edges, piece.number, piece.number + piece.records)
                found[piece.first + first : piece.first + last + 1] += np.diff(held)
        return found


def _runs(buckets: Sequence[tuple[int, int]]) -> tuple[tuple[int, int, int, int], ...]:
    """Neighbouring buckets of one size: their start, end and size, and the number of the first."""
    runs = list[tuple[int, int, int, int]]()
    for number, (start, end) in enumerate(buckets):
        if runs and runs[-1][2] == end - start:
            runs[-1] = (runs[-1][0], end, *runs[-1][2:])
        else:
            runs.append((start, end, end - start, number))
    return tuple(runs)


def _run(piece: Piece) -> tuple[int, int, int]:
    return piece.start, piece.size, piece.first


def _end(piece: Piece) -> Piece:
    """Behind the last row of a partition: whatever is there was not when the frame was counted."""
    return replace(_NOWHERE, row=piece.row + piece.records)


def _table(numbers: Sequence[int]) -> str:
    """An array that is no part of the generated code, so that the code is compiled once for all micro-batches."""
    return f"from_json('{json.dumps(list(numbers))}', 'array<bigint>')"
