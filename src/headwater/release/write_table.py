"""Tables as files, piece by piece: of a long release, only the points are in memory as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from headwater.table.arrow import pyarrow
from headwater.table.text_types import in_text

RELEASE_FORMATS = ("parquet", "csv")
_LOOKED_AT = 1 << 12  # values of each column: their order is random


def check_format(format: str) -> None:  # noqa: A002 - as in `publish`
    """Refuse formats that releases are not written in."""
    if format not in RELEASE_FORMATS:
        raise ValueError(f"format must be one of {', '.join(RELEASE_FORMATS)}, not {format!r}")


def write_table(
    tables: Iterator[Any],
    path: str | os.PathLike[str],
    format: str,  # noqa: A002 - as above
    schema: Any,  # noqa: ANN401 - a Schema or a UnitCube
) -> None:
    """Write Arrow tables of a schema, of which there is at least one, one after the other into one file."""
    check_format(format)
    tables = in_text(tables, schema) if format == "csv" else tables
    first = next(tables)
    if format == "csv":
        writer = pyarrow("csv").CSVWriter(path, first.schema)
    else:
        few = [name for name in first.schema.names if _repeats(first.column(name))]
        writer = pyarrow("parquet").ParquetWriter(path, first.schema, compression="zstd", use_dictionary=few)
    with writer, ThreadPoolExecutor(1, "headwater-write") as thread:
        written = thread.submit(writer.write_table, first)
        for table in tables:  # made while the one before is written
            written.result()
            written = thread.submit(writer.write_table, table)
        written.result()


def _repeats(column: Any) -> bool:  # noqa: ANN401 - a pyarrow.ChunkedArray
    """Whether values come again and again, by the first of them: only then a dictionary of values saves anything."""
    some = column.slice(0, _LOOKED_AT)
    return 2 * len(some.unique()) <= len(some)
