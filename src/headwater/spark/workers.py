"""What runs in Spark's Python workers: encode records, count them by bucket, add counts up.

Workers have the public configuration of a run and draw no noise. What they raise ends up in Spark's logs, so they raise
nothing that was made from a record: what is wrong with one travels to the driver as data.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.mechanisms.counted import BucketedCounts
from headwater.mechanisms.protocol import Rows, null_records
from headwater.run.config import RunConfig
from headwater.spark.places import FEWEST, ShuffledError, cut
from headwater.synthesizer import Synthesizer
from headwater.table.bad_rows import row_texts
from headwater.table.errors import TableError
from headwater.table.schema import Schema
from headwater.table.tally import Tally

CHUNK = 1 << 17  # records that are encoded at a time
_BYTES = 1 << 26  # of rows in one batch of Arrow, which must stay far below 2^31

ENCODED = pa.schema(
    {
        "part": pa.int32(),
        "number": pa.int32(),
        "key": pa.int32(),
        "source": pa.string(),
        "first": pa.int64(),
        "last": pa.int64(),
        "records": pa.int64(),
        "notes": pa.string(),
        "rows": pa.binary(),
    }
)
COUNTED = pa.schema(
    {
        "key": pa.int32(),
        "start": pa.int64(),
        "null": pa.int64(),
        "row_bytes": pa.int32(),
        "count_bytes": pa.int32(),
        "rows": pa.binary(),
        "counts": pa.binary(),
    }
)
UNLISTED = TableError("a key that is not listed", "list it in keys=, or leave such records out")


@lru_cache(maxsize=8)
def synthesizer(config: RunConfig) -> Synthesizer:
    """A synthesizer that encodes and counts as the owner's does; its noise is never drawn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ε: the owner has said it
        return config.synthesizer()


@dataclass(frozen=True)
class Encoder:
    """Partitions of a frame to rows of integers, stretch by stretch.

    Parameters
    ----------
    config
        Of the run, without a seed.
    columns
        The columns of the schema, as the frame names them.
    order
        The order columns; none if partition and row decide.
    sortable
        Whether order columns tell all records apart, so that a shuffled frame can be sorted by them.
    policy
        What happens to bad rows.
    key
        The column of a public key, and its values.
    """

    config: RunConfig
    columns: tuple[str, ...]
    order: tuple[str, ...] = ()
    sortable: bool = False
    policy: str = "stop"
    key: tuple[str, tuple[str, ...]] | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row for each stretch and key."""
        from pyspark import TaskContext

        part = TaskContext.get().partitionId()
        number = 0
        for table in _gathered(batches):
            found = []
            try:
                stretches = self._stretches(table, part)
            except ShuffledError:
                found.append(self._row(part, number, 0, "[]", 0, 0, table.num_rows, {"shuffled": True}, b""))
                stretches = []
                number += 1
            for first, end, source, low, high in stretches:
                piece = table.slice(first, end - first)
                for key, records, notes, rows in self._encoded(piece):
                    found.append(self._row(part, number, key, source, low, high, records, notes, rows))
                number += 1
            yield pa.RecordBatch.from_pylist(found, ENCODED)

    def _row(self, *values: Any) -> dict[str, Any]:  # noqa: ANN401 - of each column's own type
        row = dict(zip(ENCODED.names, values, strict=True))
        row["notes"] = json.dumps(row["notes"])
        return row

    def _stretches(self, table: pa.Table, part: int) -> list[tuple[int, int, str, int, int]]:
        """First, end, source, and first and last place of each."""
        if not self.order:
            return [(0, table.num_rows, "[]", part, part)]
        *sources, last = (table.column(name).combine_chunks() for name in self.order)
        places = np.asarray(last.cast(pa.int64()))
        codes = [np.asarray(source.dictionary_encode().indices) for source in sources]
        return [
            (
                first,
                end,
                json.dumps([source[first].as_py() for source in sources]),
                int(places[first]),
                int(places[end - 1]),
            )
            for first, end in cut(codes, places, FEWEST if self.sortable else 0)
        ]

    def _encoded(self, table: pa.Table) -> Iterator[tuple[int, int, dict[str, Any], bytes]]:
        """For each key its number, how many records there are, what is to be said of them, and their rows."""
        if self.key is None:
            yield 0, table.num_rows, *self._encode(table)
            return
        column, values = self.key
        texts = table.column(column).cast(pa.string()).to_numpy(zero_copy_only=False)
        for number, value in enumerate(values):
            (chosen,) = (texts == value).nonzero()
            if len(chosen):
                notes, rows = self._encode(table.take(chosen))
                if notes.get("error") and notes["error"]["row"] is not None:
                    notes["error"]["row"] = int(chosen[notes["error"]["row"]])
                yield number, len(chosen), notes, rows
        (others,) = (~np.isin(texts.astype(object), values)).nonzero()
        if len(others):
            error = None if self.policy != "stop" else _told(UNLISTED.at(row=int(others[0]), column=column))
            yield -1, 0, {"error": error, "unlisted": len(others)}, b""

    def _encode(self, table: pa.Table) -> tuple[dict[str, Any], bytes]:
        synth, chosen = synthesizer(self.config), table.select(list(self.columns))
        records: Any = chosen
        try:
            if not isinstance(synth.schema, Schema):
                records = np.column_stack([np.asarray(c, dtype=np.float64) for c in chosen.columns])
            found = synth.encode_batch(records, bad_rows=self.policy)
            notes: dict[str, Any] = {"tally": found.tally.to_dict()}
            if self.policy == "quarantine":
                notes["bad"] = [[bad.row, _told(bad.error), bad.text] for bad in row_texts(records, found.bad)]
            return notes, found.rows.tobytes()
        except TableError as error:
            return {"error": _told(error)}, b""
        except Exception as error:
            kind = TableError(f"{type(error).__name__} when a batch was encoded", "compare the columns with the schema")
            return {"error": _told(kind)}, b""


@dataclass(frozen=True)
class BucketCounter:
    """Encoded stretches to counts by bucket.

    Parameters
    ----------
    config
        Of the run, without a seed.
    first
        For each key, part and number of a stretch: the number of its first record, and how many there were.
    """

    config: RunConfig
    first: Mapping[tuple[int, int, int], tuple[int, int]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row for each bucket, of all stretches of a partition together."""
        synth, found = synthesizer(self.config), dict[int, list[BucketedCounts]]()
        empty = empty_rows(synth)
        for batch in batches:
            for one in batch.to_pylist():
                name = one["key"], one["part"], one["number"]
                if name not in self.first:
                    continue
                rows = np.frombuffer(one["rows"], dtype=empty.dtype).reshape(-1, empty.shape[1])
                start, records = self.first[name]
                if len(rows) != records:
                    raise RuntimeError(
                        "a partition was computed again and has other records; the batch must be repeated"
                    )
                found.setdefault(one["key"], []).append(synth.count_rows(rows, start))
        for key, parts in found.items():
            yield from pack(key, BucketedCounts.merge(parts))


@dataclass(frozen=True)
class Adder:
    """The sum of the counts of one bucket, from all partitions.

    Parameters
    ----------
    config
        Of the run, without a seed.
    """

    config: RunConfig

    def __call__(self, table: pa.Table) -> pa.Table:
        """One row for one bucket."""
        ((key, counts),) = unpack(table, empty_rows(synthesizer(self.config))).items()
        return pa.Table.from_batches(pack(key, counts))


def empty_rows(synth: Synthesizer) -> Rows:
    """No rows, in the type and width that all rows have."""
    schema = synth.schema
    nothing: Any = (
        {name: [] for name in schema.names} if isinstance(schema, Schema) else np.empty((0, schema.dimension))
    )
    return synth.encode(nothing)


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
            }
        )
        size += len(found[-1]["rows"])
        if size > _BYTES:
            yield pa.RecordBatch.from_pylist(found, COUNTED)
            found, size = [], 0
    if found:
        yield pa.RecordBatch.from_pylist(found, COUNTED)


def unpack(table: pa.Table, empty: Rows) -> dict[int, BucketedCounts]:
    """The counts of each key in a table that `pack` has made, from any number of partitions, added up."""
    found = dict[int, list[BucketedCounts]]()
    columns = [table.column(name).to_pylist() for name in COUNTED.names[:5]]
    blobs = [table.column(name) for name in ("rows", "counts")]
    for i, (key, start, null, row_bytes, count_bytes) in enumerate(zip(*columns, strict=True)):
        row_data, count_data = (np.frombuffer(blob[i].as_buffer(), dtype=np.uint8) for blob in blobs)
        rows = row_data.view(f"<u{row_bytes}").astype(empty.dtype).reshape(-1, empty.shape[1])
        counts = count_data.view(f"<u{count_bytes}").astype(np.int64)
        if null:
            nowhere = np.full((1, empty.shape[1]), np.iinfo(empty.dtype).max, dtype=empty.dtype)
            rows, counts = np.concatenate((rows, nowhere)), np.append(counts, null)
        starts = np.full(len(counts), start, dtype=np.int64)
        found.setdefault(key, []).append(BucketedCounts(starts, rows, counts))
    return {key: BucketedCounts.merge(parts) for key, parts in found.items()}


def _word(numbers: np.ndarray[Any, Any]) -> str:
    """The shortest type for these, of 1, 2, 4 or 8 bytes."""
    largest = int(numbers.max(initial=0))
    return next(f"<u{size}" for size in (1, 2, 4, 8) if largest < 1 << (8 * size))


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Spark's batches, several together."""
    held, records = list[pa.RecordBatch](), 0
    for batch in batches:
        held.append(batch)
        records += batch.num_rows
        if records >= CHUNK:
            yield pa.Table.from_batches(held)
            held, records = [], 0
    if records:
        yield pa.Table.from_batches(held)


def _told(error: TableError) -> dict[str, Any]:
    """An error as JSON. It holds no value of a record."""
    return {"problem": error.problem, "remedy": error.remedy, "row": error.row, "column": error.column}


def retold(told: Mapping[str, Any]) -> TableError:
    """The error that `_told` has told."""
    return TableError(told["problem"], told["remedy"], row=told["row"], column=told["column"])


def tally_of(notes: Mapping[str, Any]) -> Tally:
    """What was clipped, unlisted, missing or bad in a stretch."""
    return Tally.from_dict(notes.get("tally"))
