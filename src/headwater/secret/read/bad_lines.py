"""Lines of text of which some are no records: the others as a table, and which ones are bad.

Formal guarantees
-----------------
Whether a line is bad, what a good one holds, and whom a bad one names, is a function of that line and of the header
alone. A bad line names its person wherever that column can be found in it, so that what is in the others does not
decide whose record it is (`proofs/people.md`). Lines with an odd
number of quotes are taken out first; in what is left no quote is open at the end of a line, so any lot of lines is read
as its lines one by one (`proofs/tables.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from headwater.public.errors import TableError
from headwater.public.tables import pyarrow
from headwater.public.tally import BadRow
from headwater.public.narrowing import narrowed
from headwater.secret.read.text_buffer import Offsets, positions_of

_QUOTE = 0x22
_OPEN = TableError(
    "a quote that is not closed in its line",
    "close it; unless bad rows stop a run a line is a record, so write texts with line ends as JSON lines or Parquet",
)
_UNREADABLE = TableError("a line that cannot be read", "see which values the columns take")


class Parser(Protocol):
    """What reads whole lines, or refuses all of them."""

    def parse(self, data: bytearray, ends: Offsets, line: int) -> Any:  # noqa: ANN401 - a pyarrow.Table
        """Whole records as a table; ``line`` is where they begin in the file."""

    def person_of(self, record: bytearray) -> str | None:
        """The text that names the person of one line that is bad, as a good one would be read; None without it."""


def read_lines(
    parser: Parser,
    data: bytearray,
    ends: Offsets,
    line: int,
    *,
    quoted: bool,
    empty: Callable[[], Any],
    refused: tuple[type[TableError], ...] = (),
    unread: Mapping[int, TableError] = MappingProxyType({}),
) -> tuple[Any, tuple[BadRow, ...]]:
    """The good lines as a ``pyarrow.Table``, and the bad ones with their errors.

    Parameters
    ----------
    parser
        Reads whole lines.
    data, ends
        The text, and where each line of it ends.
    line
        The number of the first line.
    quoted
        Whether quotes have a meaning (CSV).
    empty
        Gives a table without rows.
    refused
        Errors that are raised: what is wrong may be more than one line.
    unread
        Lines that are not looked at, and their errors: they name nobody.
    """
    starts, errors = np.concatenate(([0], ends[:-1])), dict[int, TableError]()
    good = np.ones(len(ends), dtype=np.bool_)
    if quoted and (quotes := positions_of(_QUOTE, data)).size:
        odd = np.bincount(np.searchsorted(ends, quotes, side="right"), minlength=len(ends)) % 2 == 1
        good = ~odd
        errors |= {int(row): _OPEN.at(line=line + int(row)) for row in np.flatnonzero(odd)}
    good[list(unread)] = False
    rows = np.flatnonzero(good)
    tables = []

    def parsed(first: int, last: int) -> Any:  # noqa: ANN401 - a pyarrow.Table
        part, edges = _joined(data, starts, ends, rows[first:last])
        return parser.parse(part, edges, line + int(rows[first]))

    for first, _, found in narrowed(len(rows), parsed, otherwise=_UNREADABLE, whole=refused):
        if isinstance(found, TableError):
            errors[int(rows[first])] = found.at(line=line + int(rows[first]))
        else:
            tables.append(found)
    table = empty() if not tables else tables[0] if len(tables) == 1 else pyarrow().concat_tables(tables)
    people: dict[int, str | None] = dict.fromkeys(unread)
    people |= {row: parser.person_of(data[starts[row] : ends[row]]) for row in errors if row not in unread}
    errors |= {row: error.at(line=line + row) for row, error in unread.items()}
    return table, tuple(BadRow(row, errors[row], person=people[row]) for row in sorted(errors))


def _joined(data: bytearray, starts: Offsets, ends: Offsets, rows: Offsets) -> tuple[bytearray, Offsets]:
    """The text of some lines, and where they end in it."""
    first, last = int(rows[0]), int(rows[-1])
    if last - first + 1 == len(rows):  # neighbours
        return data[starts[first] : ends[last]], ends[first : last + 1] - starts[first]
    lines = [data[starts[row] : ends[row]] for row in rows]
    return bytearray(b"").join(lines), np.cumsum([len(text) for text in lines])
