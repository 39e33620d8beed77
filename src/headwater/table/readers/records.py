"""Where records begin and end in a block of CSV text. Quoted fields may hold line ends; all of it is done on arrays.

The rule for quotes is strict: a quote opens a field at its very beginning, closes it at its very end, and is doubled in
between. Under this rule a place in the text is inside quotes exactly if an odd number of quotes is before it, so a
block can be cut without a look at every character. Text that breaks the rule is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.table.errors import TableError

_QUOTE, _NEWLINE, _RETURN = 0x22, 0x0A, 0x0D
_PIECE = 1 << 17  # so much text at a time that comparisons stay in the cache

Places = NDArray[np.int64]
Bytes = bytes | bytearray


def newlines_in(data: Bytes) -> int:
    """How many newlines there are."""
    text = np.frombuffer(data, dtype=np.uint8)
    return sum(int(np.count_nonzero(text[i : i + _PIECE] == _NEWLINE)) for i in range(0, len(text), _PIECE))


def quotes_in(data: Bytes) -> Places:
    """Where the quotes are."""
    if b'"' not in data:  # far faster than an array of comparisons
        return np.empty(0, dtype=np.int64)
    text = np.frombuffer(data, dtype=np.uint8)
    return np.concatenate([np.flatnonzero(text[i : i + _PIECE] == _QUOTE) + i for i in range(0, len(text), _PIECE)])


def check_quotes(data: Bytes, quotes: Places, delimiter: str, line: int) -> None:
    """Raise an error where a quote stands in the middle of a field."""
    if not quotes.size:
        return
    text = np.frombuffer(data, dtype=np.uint8)
    opening, closing = quotes[0::2], quotes[1::2]
    before = text[np.maximum(opening - 1, 0)]
    good = (before == ord(delimiter)) | (before == _NEWLINE) | (before == _QUOTE) | (opening == 0)
    after = text[np.minimum(closing + 1, len(data) - 1)]
    fine = (after == ord(delimiter)) | (after == _NEWLINE) | (after == _RETURN) | (after == _QUOTE)
    fine |= closing == len(data) - 1
    if good.all() and fine.all():
        return
    place = min(int(places[0]) for places in (opening[~good], closing[~fine]) if places.size)
    raise TableError(
        "a quote in the middle of a field",
        'put the whole field in quotes and double the quotes in it ("…""…")',
        line=line + data.count(b"\n", 0, place),
    )


def end_of_records(data: Bytes, quotes: Places) -> int:
    """Just behind the last record that is complete, 0 if there is none."""
    newline = data.rfind(b"\n")
    while newline >= 0:
        before = int(np.searchsorted(quotes, newline))
        if before % 2 == 0:
            return newline + 1
        newline = data.rfind(b"\n", 0, int(quotes[before - 1]))  # inside quotes: go back to where they opened
    return 0


def end_of_first(data: Bytes, quotes: Places) -> int:
    """Just behind the first record, 0 if it is not complete."""
    newline = data.find(b"\n")
    while newline >= 0:
        before = int(np.searchsorted(quotes, newline))
        if before % 2 == 0:
            return newline + 1
        if before == quotes.size:
            return 0
        newline = data.find(b"\n", int(quotes[before]))
    return 0


@dataclass(frozen=True)
class Records:
    """The records of a block: where each begins and ends, and its line in the file. Blank lines are none."""

    starts: Places
    ends: Places
    lines: Places

    def __len__(self) -> int:
        return len(self.starts)


def records_in(data: Bytes, first_line: int, *, quoted: bool = True) -> Records:
    """All records of a block that ends with a line end (or with the last record of its file)."""
    newlines = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == _NEWLINE)
    if not data.endswith(b"\n"):
        newlines = np.append(newlines, len(data))
    outside = np.searchsorted(quotes_in(data), newlines) % 2 == 0 if quoted else np.ones(len(newlines), dtype=np.bool_)
    ends = newlines[outside]
    starts = np.concatenate(([0], ends[:-1] + 1)).astype(np.int64) if len(ends) else ends
    lines = first_line + np.searchsorted(newlines, starts)
    size = ends - starts
    text = np.frombuffer(data, dtype=np.uint8)
    blank = size == 0
    blank |= (size == 1) & (text[np.minimum(starts, max(len(data) - 1, 0))] == _RETURN) if len(data) else blank
    return Records(starts[~blank], ends[~blank], lines[~blank])


def fields_in(record: Bytes, delimiter: str) -> int:
    """How many fields one record has."""
    places = np.flatnonzero(np.frombuffer(record, dtype=np.uint8) == ord(delimiter))
    return 1 + int(np.count_nonzero(np.searchsorted(quotes_in(record), places) % 2 == 0))


def check_bytes(data: Bytes, line: int) -> None:
    """Raise an error where a block holds what no CSV text holds: NUL bytes, or line ends of old machines."""
    if b"\0" in data:
        place = data.index(b"\0")
        remedy = "save the file as plain UTF-8 text"
        raise TableError("a NUL byte: this is not plain text", remedy, line=line + data.count(b"\n", 0, place))
    if b"\r" not in data or data.count(b"\r") == data.count(b"\r\n"):
        return
    text = np.frombuffer(data, dtype=np.uint8)
    returns = np.flatnonzero(text == _RETURN)
    lone = returns[text[np.minimum(returns + 1, len(data) - 1)] != _NEWLINE]
    outside = lone[np.searchsorted(quotes_in(data), lone) % 2 == 0]
    if outside.size:
        where = line + data.count(b"\n", 0, int(outside[0]))
        remedy = "end lines with a newline, and quote fields that hold line ends"
        raise TableError("a carriage return without a newline", remedy, line=where)
