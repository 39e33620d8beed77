"""Some records of a file, and the position behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.errors import TableError
from headwater.public.tally import BadRow, with_way_out

Position = dict[str, Any]
"""Everything up to here has been read: a JSON object, of use to `open_source` only."""


@dataclass(frozen=True)
class Part:
    """Some records of a file: a ``pyarrow.Table`` of the good ones, and the others by their places among all."""

    table: Any
    records: int
    bad: tuple[BadRow, ...] = ()
    line: Callable[[int], int | None] = lambda row: None
    """In which line of the file a record begins."""
    text: Callable[[int], str] = lambda row: ""
    """A record as it stands in the file."""


class Batch:
    """Some records, and the position behind them.

    Parameters
    ----------
    table
        A ``pyarrow.Table`` with the columns of the schema.
    file
        Where the records come from; nothing if that has no name.
    position
        Everything up to the end of this batch has been read.
    parts
        The parts of the table as they were read: they know their lines.

    Attributes
    ----------
    records
        How many records there are, with bad ones that are not in the table.
    bad
        Those, by their places among the records.
    """

    def __init__(self, table: Any, file: str, position: Position, parts: list[Part]) -> None:  # noqa: ANN401
        self.table, self.file, self.position, self.parts = table, file, position, parts
        self._starts = np.cumsum([0, *(part.records for part in parts)]).tolist()
        self.records: int = self._starts[-1]
        placed = zip(self._starts, parts, strict=False)
        self.bad = tuple(self._located(replace(bad, row=start + bad.row)) for start, part in placed for bad in part.bad)

    def with_line(self, error: TableError) -> TableError:
        """An error of this batch (from `schema.encode`) with the file and the line filled in."""
        if error.row is None:
            return error.at(file=self.file or None)
        return with_way_out(self.located(error, int(self.places[error.row])))

    def located(self, error: TableError, record: int) -> TableError:
        """An error of one of the records, with where that is."""
        part, row = self._part(record)
        return error.at(file=self.file or None, line=part.line(row))

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """The place among the records of each row of the table."""
        return np.delete(np.arange(self.records), [bad.row for bad in self.bad])

    def all_bad(self, found: Sequence[BadRow]) -> list[BadRow]:
        """The bad rows of the batch with their text: those that could not be read, and those of the table."""
        of_table = [self._located(replace(bad, row=int(self.places[bad.row]))) for bad in found]
        return sorted([*self.bad, *of_table], key=lambda bad: bad.row)

    def _located(self, bad: BadRow) -> BadRow:
        part, row = self._part(bad.row)
        return replace(bad, error=self.located(bad.error, bad.row), text=part.text(row))

    def _part(self, record: int) -> tuple[Part, int]:
        number = int(np.searchsorted(self._starts, record, side="right")) - 1
        return self.parts[number], record - self._starts[number]
