"""What comes after the first records of a file, as far as a draft needs it: gaps, and values of short lists."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from headwater.public.errors import TableError
from headwater.public.tables import pyarrow
from headwater.secret.read.paths import Input
from headwater.secret.read.stream import Stream, open_stream

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


@contextmanager
def beginning(source: Input, encoding: str | None) -> Iterator[io.BufferedReader]:
    """The beginning of a file, decompressed and in UTF-8; of JSON, as lines."""
    stream = open_stream(source, encoding)
    try:
        yield io.BufferedReader(_Bytes(stream), _BLOCK)
    finally:
        stream.close()


def short_lists(found: Mapping[str, set[Any]], gaps: Collection[str]) -> dict[str, set[Any]]:
    """The values of each column that has few of them; of others only what means that there is none."""
    few = {None, *gaps}
    return {name: seen if len(seen) <= MOST_VALUES else seen & few for name, seen in found.items()}


def later_values(source: Input, encoding: str | None, names: Sequence[str], gaps: Sequence[str]) -> dict[str, set[Any]]:
    """The values of each column of a CSV file, None where one is missing; of long lists only that and ``gaps``.

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
    wrong = pa.ArrowException, UnicodeDecodeError, TableError  # what is wrong later is reported by a run
    with beginning(source, encoding) as file, suppress(*wrong):
        read = csv.ReadOptions(column_names=keys, skip_rows_after_names=1, block_size=_BLOCK)
        parse = csv.ParseOptions(
            delimiter=source.delimiter, newlines_in_values=True, invalid_row_handler=lambda _: "skip"
        )
        types = {"column_types": dict.fromkeys(keys, pa.string()), "strings_can_be_null": True, "null_values": [""]}
        with csv.open_csv(file, read, parse, csv.ConvertOptions(**types)) as batches:
            for batch in batches:
                for seen, column in zip(found, batch.columns, strict=True):
                    values = column
                    if len(seen) > MOST_VALUES:
                        seen |= {None} if column.null_count else set()
                        values = column.filter(pc.is_in(column, pa.array(gaps)))
                    seen |= set(pc.unique(values).to_pylist())
    return short_lists(dict(zip(names, found, strict=True)), gaps)
