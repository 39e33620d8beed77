"""What comes after the first records of a CSV file, as far as a draft needs it: gaps, and values of short lists."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from headwater.table.arrow import pyarrow
from headwater.table.readers.paths import Input
from headwater.table.readers.stream import Stream, open_stream

MOST_BYTES = 1 << 26
"""How much of a file is looked at."""
MOST_VALUES = 100
"""Columns with more values than this are looked at for gaps only."""
_BLOCK = 1 << 22


class _Bytes(io.RawIOBase):
    """The beginning of a stream as a file of Python."""

    def __init__(self, stream: Stream) -> None:
        self._stream, self._left = stream, MOST_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - whatever holds bytes
        with memoryview(buffer) as view, view.cast("B")[: self._left] as space:
            found = self._stream.read_into(space) if len(space) else 0
        self._left -= found
        return found


def later_values(source: Input, encoding: str | None, names: Sequence[str], gaps: Sequence[str]) -> list[set[Any]]:
    """For each column of a file its values, None among them where one is missing; of long lists only that and ``gaps``.

    Lines that are no records are left out; what cannot be read as text ends the look.

    Parameters
    ----------
    source, encoding
        The file.
    names
        Of its columns.
    gaps
        Texts that commonly mean "missing".
    """
    pa, pc, csv = pyarrow(), pyarrow("compute"), pyarrow("csv")
    keys = [str(index) for index in range(len(names))]
    found = [set[Any]() for _ in names]
    stream = open_stream(source, encoding)
    try:
        with suppress(pa.ArrowException, UnicodeDecodeError):  # whose messages may show values
            read = csv.ReadOptions(column_names=keys, skip_rows_after_names=1, block_size=_BLOCK)
            parse = csv.ParseOptions(
                delimiter=source.delimiter, newlines_in_values=True, invalid_row_handler=lambda _: "skip"
            )
            types = {"column_types": dict.fromkeys(keys, pa.string()), "strings_can_be_null": True, "null_values": [""]}
            file = io.BufferedReader(_Bytes(stream), _BLOCK)
            with csv.open_csv(file, read, parse, csv.ConvertOptions(**types)) as batches:
                for batch in batches:
                    for seen, column in zip(found, batch.columns, strict=True):
                        values = column
                        if len(seen) > MOST_VALUES:
                            seen |= {None} if column.null_count else set()
                            values = column.filter(pc.is_in(column, pa.array(gaps)))
                        seen |= set(pc.unique(values).to_pylist())
    finally:
        stream.close()
    few = {None, *gaps}
    return [seen if len(seen) <= MOST_VALUES else seen & few for seen in found]
