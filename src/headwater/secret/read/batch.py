"""Some records of a file, and the position behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.errors import TableError
from headwater.public.tally import BadRow, with_way_out
from headwater.secret.read.text_file import Part

Position = dict[str, Any]
"""Everything up to here has been read: a JSON object, of use to `open_source` only."""


class Batch:
    """Some records, and the position behind them.

    Parameters
    ----------
    table
        A ``pyarrow.Table`` with the columns of the schema.
    file
        Where the records come from.
    position
        What gives the position behind the records.
    parts
        The parts of the table as they were read: they know their lines.

    Attributes
    ----------
    records
        How many records there are, with bad ones that are not in the table.
    bad
        Those, by their places among the records.
    """

    def __init__(self, table: Any, file: str, position: Callable[[], Position], parts: list[Part]) -> None:  # noqa: ANN401
        self.table, self.file = table, file
        self._position, self._parts = position, parts
        self.records = sum(part.records for part in parts)
        starts = np.cumsum([0, *(part.records for part in parts)]).tolist()
        named = zip(starts, parts, strict=False)
        self.bad = tuple(self._located(replace(b, row=b.row + first)) for first, part in named for b in part.bad)

    @cached_property
    def position(self) -> Position:
        """Everything up to the end of this batch has been read."""
        return self._position()

    def with_line(self, error: TableError) -> TableError:
        """An error of this batch (from `schema.encode`) with the file and the line filled in."""
        if error.row is None:
            return error.at(file=self.file)
        return with_way_out(error.at(file=self.file, line=self._part(int(self.places[error.row]), "line")))

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """The place among the records of each row of the table."""
        return np.delete(np.arange(self.records), [bad.row for bad in self.bad])

    def all_bad(self, found: Sequence[BadRow]) -> list[BadRow]:
        """The bad rows of the batch with their text: those that could not be read, and those of the table."""
        of_table = [self._located(replace(bad, row=int(self.places[bad.row]))) for bad in found]
        return sorted([*self.bad, *of_table], key=lambda bad: bad.row)

    def _located(self, bad: BadRow) -> BadRow:
        error = bad.error.at(file=self.file, line=self._part(bad.row, "line"))
        return replace(bad, error=error, text=self._part(bad.row, "text") or "")

    def _part(self, record: int, what: str) -> Any:  # noqa: ANN401 - a line or a text
        for part in self._parts:
            if record < part.records:
                return getattr(part, what)(record)
            record -= part.records
        return None
