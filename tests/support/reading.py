"""Files of records in every format, and their records as a schema has them, however they come out of a file."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

import headwater as hw
from headwater.secret.read.batch import Batch
from headwater.secret.read.source import Source, open_source


def rows(paths: Path | list[Path], schema: Any, **options: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """All records, by the public functions alone."""
    return [row for table in hw.read(paths, schema, **options) for row in values(table, schema)]


def values(table: Any, schema: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - a pyarrow.Table, a schema
    """The records of one table."""
    found: list[dict[str, Any]] = schema.decode(schema.encode(table), "records")
    return [{name: None if value != value else value for name, value in row.items()} for row in found]


def of_source(source: Source, schema: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - a schema
    """All records that are left in a source."""
    return [row for batch in source if batch is not None for row in values(batch.table, schema)]


def batches_of(paths: Any, schema: Any, position: Any = None, **options: Any) -> list[Batch]:  # noqa: ANN401
    with open_source(paths, schema, position, **options) as source:
        return [batch for batch in source if batch is not None]


def compress(data: bytes, ending: str) -> bytes:
    match ending:
        case "gz":
            return gzip.compress(data[:100]) + gzip.compress(data[100:])  # two members, as log tools write them
        case "bz2":
            return bz2.compress(data)
        case "xz":
            return lzma.compress(data)
        case "zst" | "lz4":
            out = pa.BufferOutputStream()
            with pa.CompressedOutputStream(out, "zstd" if ending == "zst" else "lz4") as file:
                file.write(data)
            return bytes(out.getvalue().to_pybytes())
    return data


def write(path: Path, records: list[dict[str, Any]], *, chunk: int = 7) -> None:
    """Records in the format and the compression that the name says."""
    kind, *ending = path.name.split(".")[1:]
    table = pa.Table.from_pylist(records)
    if kind == "parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=chunk)
    elif kind.startswith("arrow"):
        with (pa.ipc.new_stream if kind == "arrows" else pa.ipc.new_file)(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=chunk)
    else:
        lines = [json.dumps(record, default=lambda value: value.isoformat()) for record in records]
        if kind == "csv":
            lines = [",".join("" if value is None else str(value) for value in row.values()) for row in records]
            lines.insert(0, ",".join(records[0]))
        path.write_bytes(compress("".join(f"{line}\n" for line in lines).encode(), ending[0] if ending else ""))
