"""Counts on their way from Spark's workers to the driver: tables of Arrow with one row for each bucket."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.public.protocol import Rows, null_records
from headwater.secret.counts import BucketedCounts, Parts, short

_BYTES = 1 << 26  # of rows in one batch of Arrow, which must stay far below 2^31

COUNTED = pa.schema(
    {
        "key": pa.int32(),
        "start": pa.int64(),  # of a bucket; of a row with a note, −1 and below
        "null": pa.int64(),
        "row_bytes": pa.int32(),
        "count_bytes": pa.int32(),
        "rows": pa.binary(),
        "counts": pa.binary(),
        "notes": pa.string(),
    }
)
DDL = "key int, start bigint, null bigint, row_bytes int, count_bytes int, rows binary, counts binary, notes string"


def pack(key: int, counts: BucketedCounts) -> Iterator[pa.RecordBatch]:
    """Counts as a table of one row for each bucket, in the shortest words. Null records are a column."""
    found, size = list[dict[str, Any]](), 0
    edges = [0, *(np.flatnonzero(np.diff(counts.starts)) + 1).tolist(), len(counts.starts)]
    for i, j in pairwise(edges):
        if i == j:
            continue
        rows, numbers = counts.rows[i:j], counts.counts[i:j]
        null = null_records(rows)
        lost = int(numbers[null].sum())
        if null.any():
            rows, numbers = rows[~null], numbers[~null]
        row_word, count_word = _word(rows), _word(numbers)
        found.append(
            {
                "key": key,
                "start": int(counts.starts[i]),
                "null": lost,
                "row_bytes": np.dtype(row_word).itemsize,
                "count_bytes": np.dtype(count_word).itemsize,
                "rows": rows.astype(row_word).tobytes(),
                "counts": numbers.astype(count_word).tobytes(),
                "notes": None,
            }
        )
        size += len(found[-1]["rows"])
        if size > _BYTES:
            yield pa.RecordBatch.from_pylist(found, COUNTED)
            found, size = [], 0
    if found:
        yield pa.RecordBatch.from_pylist(found, COUNTED)


def pack_rows(key: int, number: int, rows: Rows) -> pa.RecordBatch:
    """Rows that are not counted, because they belong to people: those from record ``number`` on."""
    one = {"key": key, "start": number, "null": 0, "row_bytes": rows.dtype.itemsize, "count_bytes": 0}
    return pa.RecordBatch.from_pylist([one | {"rows": rows.tobytes(), "counts": b"", "notes": None}], COUNTED)


def pack_note(part: int, note: str) -> pa.RecordBatch:
    """What a worker has to say about a partition."""
    one = {"key": -1, "start": -1 - part, "null": 0, "row_bytes": 0, "count_bytes": 0}
    return pa.RecordBatch.from_pylist([one | {"rows": b"", "counts": b"", "notes": note}], COUNTED)


def unpack_notes(table: pa.Table) -> dict[int, str]:
    """The notes by partition."""
    every = zip(table.column("start").to_pylist(), table.column("notes").to_pylist(), strict=True)
    return {-1 - start: note for start, note in every if note is not None}


def unpack_rows(table: pa.Table, empty: Rows) -> Rows:
    """All rows that `pack_rows` has packed, in the order of their numbers."""
    starts, blobs = table.column("start").to_pylist(), table.column("rows")
    order = sorted((i for i, start in enumerate(starts) if start >= 0), key=starts.__getitem__)  # the others are notes
    parts = [np.frombuffer(blobs[i].as_buffer(), dtype=empty.dtype).reshape(-1, empty.shape[1]) for i in order]
    return np.concatenate([empty, *parts])


def unpack(table: pa.Table, empty: Rows) -> dict[int, Parts]:
    """The counts of each key in a table that `pack` has made, from any number of partitions. None is copied."""
    found = defaultdict[int, Parts](lambda: Parts(list))
    columns = [table.column(name).to_pylist() for name in COUNTED.names[:5]]
    blobs = [table.column(name) for name in ("rows", "counts")]
    for i, (key, start, null, row_bytes, count_bytes) in enumerate(zip(*columns, strict=True)):
        if start < 0:
            continue  # a note
        row_data, count_data = (np.frombuffer(blob[i].as_buffer(), dtype=np.uint8) for blob in blobs)
        rows = row_data.view(f"<u{row_bytes}").reshape(-1, empty.shape[1])
        counts = count_data.view(f"<u{count_bytes}")
        if null:
            nowhere = np.full((1, empty.shape[1]), np.iinfo(empty.dtype).max, dtype=empty.dtype)
            rows, counts = np.concatenate((rows, nowhere)), np.append(counts, short(np.array([null])))
        found[key][start].append((rows, counts))
    return found


def _word(numbers: np.ndarray[Any, Any]) -> str:
    """The shortest type for these, of 1, 2, 4 or 8 bytes, of which none is the largest: that is a null record's."""
    largest = int(numbers.max(initial=0))
    return next(f"<u{size}" for size in (1, 2, 4, 8) if largest < (1 << (8 * size)) - 1)
