"""Some records of a file, and the position behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.errors import TableError
from headwater.public.tally import BadRow, with_way_out

Position = dict[str, Any]
"""Everything up to here has been read: a JSON object, of use to `open_source` only."""


@dataclass
class Batch:
    """Some records: a ``pyarrow.Table`` of the good ones, and the others by their places among all."""

    table: Any
    records: int
    bad: tuple[BadRow, ...] = ()
    line: Callable[[int], int | None] = lambda row: None
    """In which line of the file a record begins."""
    text: Callable[[int], str] = lambda row: ""
    """A record as it stands in the file."""
    file: str = ""
    position: Position = field(default_factory=dict)

    def with_line(self, error: TableError) -> TableError:
        """An error of this batch (from `schema.encode`) with the file and the line filled in."""
        if error.row is None:
            return error.at(file=self.file or None)
        return with_way_out(self.located(error, int(self.places[error.row])))

    def located(self, error: TableError, record: int) -> TableError:
        """An error of one of the records, with where that is."""
        return error.at(file=self.file or None, line=self.line(record))

    @property
    def places(self) -> NDArray[np.int64]:
        """The place among the records of each row of the table."""
        return np.delete(np.arange(self.records), [bad.row for bad in self.bad])

    def all_bad(self, found: Sequence[BadRow]) -> list[BadRow]:
        """The bad rows of the batch with their text: those that could not be read, and those of the table."""
        places = self.places
        rows = [*self.bad, *(replace(bad, row=int(places[bad.row])) for bad in found)]
        said = [replace(bad, error=self.located(bad.error, bad.row), text=self.text(bad.row)) for bad in rows]
        return sorted(said, key=lambda bad: bad.row)
