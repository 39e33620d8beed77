"""Which bucket a row of a frame falls into, as expressions of Spark: tables of whole numbers, and a search in them.

A *piece* is a run of rows of one partition whose numbers follow one another and whose buckets have one size. Several
neighbouring buckets are counted together, each in some bits of one word (a *lane*), so that Spark has fewer groups.
All of it is public: it follows from how many records there are, and not from what they hold.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headwater.spark.places import Stretch

Integers = NDArray[np.int64]

ROWS = 33  # bits of the number of a row in its partition, in Spark's monotonically_increasing_id
CELLS = 8  # bits: about so many equal cells of rows, each with the first piece of it, shorten the search
MOST = 1 << 10  # pieces of one cell: the search takes ten steps
NOWHERE = -(1 << 62)  # the number of a row that was not there when the frame was counted, or below
LANES = ((4, 15), (2, 31), (1, 62))
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
        How many partitions there are, up to the last that has records.
    runs
        Neighbouring buckets of one size: their start, end and size, and the number of the first.
    """

    pieces: tuple[Piece, ...]
    starts: Integers
    parts: int
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
        pieces, last_part = [_NOWHERE], -1
        for piece in found:
            part, last = piece.row >> ROWS, pieces[-1]
            if part > last_part:
                pieces += [_end(last)] if last.records else []
                last_part = part
            elif last.start == piece.start and last.number + last.records == piece.number:
                pieces[-1] = Piece(last.row, last.records + piece.records, last.number, *_run(last))
                continue
            pieces.append(piece)
        pieces += [_end(pieces[-1])]
        starts = np.array([start for start, _ in buckets], dtype=np.int64)
        return Pieces(tuple(pieces), starts, last_part + 1, runs)

    @cached_property
    def cells(self) -> tuple[int, int, Integers]:
        """How many bits of a row's place in its partition say the cell, how many do not, and the piece at its start.

        The bits change with the size of a frame only, and slowly: they are part of the generated code.
        """
        most = max((piece.row + piece.records) % (1 << ROWS) for piece in self.pieces)
        bits = max(CELLS - (self.parts - 1).bit_length(), 0)
        narrow = max(most.bit_length() - bits, 0)
        place = np.arange(self.parts << bits)
        starts = (place >> bits << ROWS) + ((place & (1 << bits) - 1) << narrow)
        return bits, narrow, np.searchsorted(self._rows, starts, side="right") - 1

    @property
    def _rows(self) -> Integers:
        return np.array([piece.row for piece in self.pieces], dtype=np.int64)

    @property
    def longest(self) -> int:
        """The most pieces that a row of one cell can be in."""
        first = self.cells[2]
        return int(np.diff(first, append=len(self.pieces) - 1).max()) + 1

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
            total += -((start - end) // (size * self.lanes[0]))
        return found

    @property
    def total(self) -> int:
        """No group has this number or a larger one."""
        start, end, size, _ = self.runs[-1]
        return self.groups[start] - ((start - end) // (size * self.lanes[0]))

    def _span(self, piece: Piece) -> tuple[int, int]:
        """The first and the last bucket of a piece, counted from the first of its size."""
        offset = piece.number - piece.start
        return offset // piece.size, (offset + max(piece.records, 1) - 1) // piece.size

    def expressions(self) -> list[str]:
        """``group`` and ``one``, what a record adds to the word of its group, from ``row``, Spark's number of it.

        One after another: each may use the ones before, in one ``select``.
        """
        bits, narrow, first = self.cells
        cell = f"shiftright(row, {narrow})"
        if self.parts > 1:
            cell = f"shiftleft(shiftright(row, {ROWS}), {bits}) + shiftright(row & {(1 << ROWS) - 1}L, {narrow})"
        found, steps = [f"{_get(first.tolist(), cell)} AS piece0"], (self.longest - 1).bit_length()
        for number in range(steps):
            last, step = f"piece{number}", 1 << steps - 1 - number
            later = f"row >= {_get(self._rows.tolist(), f'{last} + {step}')}"
            found.append(f"{last} + IF({later}, {step}, 0) AS piece{number + 1}")
        lanes, width = self.lanes
        return [
            *found,
            f"{self._bucket(f'piece{steps}')} AS bucket",
            f"shiftright(bucket, {lanes.bit_length() - 1}) AS group",
            f"shiftleft(1L, CAST(bucket & {lanes - 1}L AS INT) * {width}) AS one",
        ]

    def _bucket(self, piece: str) -> str:
        """The bucket of a row from its piece: the first one of a run has the number of the run's first lane.

        The size of buckets is part of the generated code where there is one, since it seldom changes.
        """
        here = [piece if piece.records else None for piece in self.pieces]
        number = f"(row + {_get([p.number - p.start - p.row if p else NOWHERE for p in here], piece)})"
        if len(self.runs) > 1:
            bases = [self.groups[p.start] * self.lanes[0] if p else 0 for p in here]
            return f"{_get(bases, piece)} + {number} div {_get([p.size if p else 1 for p in here], piece)}"
        ((_, _, size, _),) = self.runs
        if size & (size - 1):
            return f"{number} div {size}L"
        return f"shiftright({number}, {size.bit_length() - 1})"  # quicker than a division

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


def _get(numbers: Sequence[int], place: str) -> str:
    """An entry of an array that is no part of the generated code, which so is compiled once for many micro-batches."""
    return f"get(from_json('{json.dumps(list(numbers))}', 'array<bigint>'), CAST({place} AS INT))"
