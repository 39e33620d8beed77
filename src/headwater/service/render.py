"""Tables as Parquet, CSV, JSON and Arrow files, piece by piece."""

from __future__ import annotations

import datetime
import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from headwater.public.card import write_table
from headwater.public.text_types import in_text

MEDIA = {
    "parquet": "application/vnd.apache.parquet",
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "arrow": "application/vnd.apache.arrow.stream",
}
"""The media type of each format that is sent."""

COMPRESSED = ("csv", "json")
"""Formats that answers compress; the others are compressed, or can be."""


def write(tables: Iterator[Any], path: Path, form: str, schema: Any) -> None:  # noqa: ANN401 - a Schema or a UnitCube
    """Write Arrow tables of a schema, at least one, into a file."""
    if form in ("parquet", "csv"):
        write_table(tables, path, form, schema)
    elif form == "arrow":
        first = next(tables)
        with path.open("wb") as file, pa.ipc.new_stream(file, first.schema) as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)
    else:
        with path.open("w", encoding="utf-8") as text:
            _write_json(in_text(tables, schema), text)


def _write_json(tables: Iterator[Any], file: Any) -> None:  # noqa: ANN401 - a text file
    before = "[\n"
    for table in tables:
        for batch in table.to_batches(max_chunksize=10_000):
            for record in batch.to_pylist():
                file.write(before + json.dumps(record, default=_plain, ensure_ascii=False))
                before = ",\n"
    file.write("[]\n" if before == "[\n" else "\n]\n")


def _plain(value: object) -> str:
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    raise TypeError(type(value).__name__)


def compress(source: Path, path: Path) -> None:
    """Write a file compressed."""
    with source.open("rb") as plain, gzip.GzipFile(path, "wb", compresslevel=5, mtime=0) as packed:
        shutil.copyfileobj(plain, packed, 1 << 20)


def read_parquet(data: Path) -> Any:  # noqa: ANN401 - a pyarrow.Table
    """The table of a published release in Parquet."""
    return parquet.read_table(data)
