"""Which bucket a row of a frame falls into, as expressions of Spark: tables of whole numbers, and a search in them.

A *piece* is a run of rows of one partition whose numbers follow one another and that are in one bucket. All of it is
public: it follows from how many records there are, and not from what they hold.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headwater.spark.places import Stretch

Integers = NDArray[np.int64]

ROWS = 33  # bits of the number of a row in its partition, in Spark's monotonically_increasing_id
CELLS = 12  # bits: about so many equal cells of rows, each with the first piece of it, shorten the search
MOST = 1 << 10  # pieces of one cell: the search takes ten steps


@dataclass(frozen=True)
class Pieces:
    """All pieces of a frame, in the order of rows; behind each partition an empty one.

    Parameters
    ----------
    rows
        The first row of each piece, as Spark numbers rows.
    records
        How many rows it has; 0 of what was not there when the frame was counted.
    buckets
        Which bucket of the batch it is in; of what was not there one more than there are.
    starts
        The first number of each bucket of the batch.
    parts
        How many partitions there are, up to the last that has records.
    """

    rows: Integers
    records: Integers
    buckets: Integers
    starts: Integers
    parts: int

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
        starts = np.array([start for start, _ in buckets], dtype=np.int64)
        found, ends = [np.array([[0], [0], [len(starts)]])], dict[int, int]()
        for one, number in zip(stretches, numbers, strict=True):
            row, end = (one.part << ROWS) + one.position, number + one.records
            first, last = np.searchsorted(starts, (number, end - 1), side="right") - 1
            edges = np.concatenate(([number], starts[first + 1 : last + 1], [end]))
            found.append(np.array([row + edges[:-1] - number, np.diff(edges), np.arange(first, last + 1)]))
            ends[one.part] = max(ends.get(one.part, 0), row + one.records)
        found.append(np.array([[row, 0, len(starts)] for row in ends.values()]).T)
        every = np.concatenate(found, axis=1)
        rows, records, held = every[:, np.argsort(every[0], kind="stable")]
        return Pieces(rows, records, held, starts, max(ends) + 1)

    @cached_property
    def cells(self) -> tuple[int, int, Integers]:
        """How many bits of a row's place in its partition say the cell, how many do not, and the piece at its start.

        The bits change with the size of a frame only, and slowly: they are part of the generated code.
        """
        most = int(((self.rows + self.records) % (1 << ROWS)).max())
        bits = max(CELLS - (self.parts - 1).bit_length(), 0)
        narrow = max(most.bit_length() - bits, 0)
        place = np.arange(self.parts << bits)
        starts = (place >> bits << ROWS) + ((place & (1 << bits) - 1) << narrow)
        return bits, narrow, np.searchsorted(self.rows, starts, side="right") - 1

    @property
    def longest(self) -> int:
        """The most pieces that a row of one cell can be in."""
        first = self.cells[2]
        return int(np.diff(first, append=len(self.rows) - 1).max()) + 1

    def expressions(self) -> list[str]:
        """``bucket`` from ``row``, Spark's number of it. One after another: each may use the ones before."""
        bits, narrow, first = self.cells
        cell = f"shiftright(row, {narrow})"  # of a row behind the last cell it is null, and so is all that follows
        if self.parts > 1:  # a row behind the last cell of its partition must not be in one of the next
            last_cell, place = (1 << bits) - 1, f"row & {(1 << ROWS) - 1}L"
            cell = f"shiftleft(shiftright(row, {ROWS}), {bits}) + least(shiftright({place}, {narrow}), {last_cell}L)"
        steps = (self.longest - 1).bit_length()
        if steps < 2:  # Spark evaluates only the first look-up, but in the few cells that have two buckets
            piece = _get(first.tolist(), cell)
            later = f"row >= {_get(self.rows.tolist(), f'{piece} + 1')}"
            bucket = _get(self.buckets.tolist(), f"{piece} + IF({later}, 1, 0)")
            return [f"coalesce({_get(self._alone(), cell)}, {bucket}) AS bucket"]
        found = [f"{_get(first.tolist(), cell)} AS piece0"]
        for number in range(steps):
            last, step = f"piece{number}", 1 << steps - 1 - number
            later = f"row >= {_get(self.rows.tolist(), f'{last} + {step}')}"
            found.append(f"{last} + IF({later}, {step}, 0) AS piece{number + 1}")
        return [*found, f"{_get(self.buckets.tolist(), f'piece{steps}')} AS bucket"]

    def _alone(self) -> list[int | None]:
        """The bucket of each cell whose rows are all in one; None of others."""
        first = self.cells[2]
        held, last = self.buckets[first], self.buckets[np.append(first[1:], len(self.rows) - 1)]
        same = (held == last).tolist()
        return [bucket if alone else None for bucket, alone in zip(held.tolist(), same, strict=True)]

    def expected(self) -> Integers:
        """How many records of the frame fall into each bucket of the batch, and into none."""
        return np.bincount(self.buckets, self.records, len(self.starts) + 1).astype(np.int64)


def _get(numbers: Sequence[int | None], place: str) -> str:
    """An entry of an array that is no part of the generated code, which so is compiled once for many micro-batches."""
    return f"get(from_json('{json.dumps(numbers)}', 'array<bigint>'), CAST({place} AS INT))"
