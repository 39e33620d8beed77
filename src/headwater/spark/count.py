"""The records of a Spark data frame as counts by bucket: executors read, encode and count, the driver adds up.

A frame is read twice. First Spark counts the records of each stretch, which gives every record its number (of Parquet
files the footers say it); then workers in Python encode and count them. What they saw is compared with what was counted
first, so a frame that changes between the two is noticed; it is then kept by executors, and read again from there.

Workers have the public configuration of a run and draw no noise. What they raise ends up in Spark's logs, so they raise
nothing that was made from a record: what is wrong with one travels to the driver as data.
"""

from __future__ import annotations

import json
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.public.errors import TableError
from headwater.public.protocol import Rows, null_records
from headwater.public.schema import Schema
from headwater.public.tally import Tally
from headwater.run.config import RunConfig
from headwater.secret.batch import Batch, runs, side_by_side
from headwater.spark.files import Group, UnreadableError, footers, read_groups
from headwater.spark.frame import (
    MARK,
    NAME_ORDER,
    PLACE,
    Placed,
    ShuffledError,
    Stretch,
    backquoted,
    by_part,
    ordered,
    same_place,
    survey,
)
from headwater.synthesizer import Synthesizer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOO_LARGE = "spark.driver.maxResultSize"
CHUNK = 1 << 16  # records that are encoded at a time: what that needs stays in the processor's cache
TOGETHER = 1 << 20  # records that are counted at a time
SHUFFLED, SAME = "shuffled", "same"
COUNTED = pa.schema(
    {
        "start": pa.int64(),  # of a bucket; of a row with a note, −1 and below
        "width": pa.int32(),  # of a row
        "row_bytes": pa.int32(),
        "count_bytes": pa.int32(),
        "rows": pa.binary(),
        "counts": pa.binary(),
        "notes": pa.string(),
    }
)
"""Counts on their way to the driver: one row or two for each bucket, in the shortest words."""
_DDL = "start bigint, width int, row_bytes int, count_bytes int, rows binary, counts binary, notes string"
_BYTES = 1 << 26  # of rows in one batch of Arrow, which must stay far below 2^31
_ARROW_RECORDS = 1 << 16
_LEAVES = "spark.sql.leafNodeDefaultParallelism"
_FIXED = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double")


def count(
    placed: Placed, config: RunConfig, t: int, policy: str, person_key: bytes | None = None, due: int | None = None
) -> Batch | None:
    """The records of a frame, which are those after the first ``t`` of a run; None if there are none."""
    counter = Counter(replace(config, seed=None), placed.columns, policy, person_key)
    try:
        with _settings(placed):
            return _count_any(placed, counter, t, due)
    except Exception as error:
        if TOO_LARGE not in str(error):
            raise
        raise TableError(
            "what the records of this batch count to is more than the driver takes at once",
            f"give it fewer records at a time (maxFilesPerTrigger, maxOffsetsPerTrigger), or raise {TOO_LARGE}",
        ) from None


def _count_any(placed: Placed, counter: Counter, t: int, due: int | None) -> Batch | None:
    """The counts, from the frame itself, from a copy that executors keep, or from one that is sorted."""
    if placed.scan:
        with suppress(ShuffledError):
            return _count(placed, counter, t, due)
    with _kept(placed.frame) as frame:
        try:
            return _count(replace(placed, frame=frame, plain=False), counter, t, due)
        except ShuffledError:
            if not placed.sortable:
                raise TableError("the records of a file are not in order in the data frame", NAME_ORDER) from None
    with _kept(placed.frame.repartitionByRange(*placed.order).sortWithinPartitions(*placed.order)) as frame:
        return _count(replace(placed, frame=frame), counter, t, due)


def _count(placed: Placed, counter: Counter, t: int, due: int | None) -> Batch | None:
    read = footers(placed)
    stretches = ordered(read[0] if read else survey(placed), t)
    parts, end = by_part(stretches), t + sum(one.records for one in stretches)
    counter = replace(
        counter,
        stretches=parts,
        order=(MARK, PLACE) if placed.sortable else None,
        until=end if (due or end) >= end else None,
        files=read[1] if read else None,
    )
    table = _counted(placed, counter)
    starts, texts = (table.column(name).to_pylist() for name in ("start", "notes"))
    notes = {-1 - start: json.loads(text) for start, text in zip(starts, texts, strict=True) if text is not None}
    _check(notes, parts)
    tally = sum((Tally.from_dict(note["tally"]) for note in notes.values()), Tally())
    if not (parts_found := unpack(table, counter.until)):
        return None
    if counter.person_key is not None:
        return Batch(np.concatenate([one.rows for one in sorted(parts_found, key=_start)]), tally=tally)
    return replace(side_by_side(parts_found), tally=tally)


def _counted(placed: Placed, counter: Counter) -> pa.Table:
    session, files = placed.frame.sparkSession, counter.files
    if files is not None:  # what Spark gives each worker is one row without a column
        frame = session.range(0, len(files), 1, len(files))
    else:
        read = [backquoted(name) for name in placed.columns]
        if placed.sortable:
            *sources, last = placed.order
            mark = f"xxhash64({', '.join(sources)})" if sources else "CAST(0 AS BIGINT)"
            read += [f"{mark} AS {MARK}", f"CAST({last} AS BIGINT) AS {PLACE}"]
        frame = placed.frame.selectExpr(*read)
    return frame.mapInArrow(counter, _DDL).toArrow()


def _check(notes: Mapping[int, Mapping[str, Any]], parts: Mapping[int, Sequence[Stretch]]) -> None:
    """Notice other records than were counted first, or in another order; and refuse the batch for its first bad row."""
    wrong = {note["wrong"] for note in notes.values()} - {None}
    if wrong == {SAME}:
        raise same_place()
    seen = {part: note["records"] for part, note in notes.items() if note["records"]}
    if wrong or seen != {part: sum(one.records for one in stretches) for part, stretches in parts.items()}:
        raise ShuffledError("the frame is not what it was when it was counted")
    refused = [note for note in notes.values() if note["error"]]
    if refused:
        error = min(refused, key=lambda note: note["number"])["error"]
        error["remedy"] += '; or go on without such rows: bad_rows="null"'
        raise TableError(**error)


@contextmanager
def _settings(placed: Placed) -> Iterator[None]:
    """Files are cut alike in both readings, also if executors come or go between them."""
    session = placed.frame.sparkSession
    wanted = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(_ARROW_RECORDS)}
    if session.conf.get(_LEAVES, None) is None:
        wanted[_LEAVES] = str(session.sparkContext.defaultParallelism)
    if all(kind in _FIXED for name, kind in placed.frame.dtypes if name in placed.columns):
        wanted["spark.sql.execution.arrow.maxBytesPerBatch"] = str((1 << 31) - 1)
    before = {name: session.conf.get(name, None) for name in wanted}
    try:
        for name, value in wanted.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, kept in before.items():
            session.conf.unset(name) if kept is None else session.conf.set(name, kept)


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """A frame that is computed once, and kept by executors for a while."""
    from pyspark import StorageLevel

    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()


# What runs in workers


@lru_cache(maxsize=8)
def synthesizer(config: RunConfig) -> Synthesizer:
    """A synthesizer that encodes and counts as the owner's does; its noise is never drawn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ε: the owner has said it
        return config.synthesizer()


@dataclass
class _Note:
    """What a worker has to say about a partition, besides counts."""

    records: int = 0
    wrong: str | None = None
    error: dict[str, Any] | None = None
    number: int = 0  # of the first record of the stretch with the error
    tally: Tally = field(default_factory=Tally)

    def to_json(self) -> str:
        return json.dumps(vars(self) | {"tally": self.tally.to_dict()})


@dataclass(frozen=True)
class Counter:
    """Partitions of a frame to counts by bucket, or to rows with their people."""

    config: RunConfig  # without a seed
    columns: tuple[str, ...]
    policy: str = "stop"
    person_key: bytes | None = None
    stretches: Mapping[int, Sequence[Stretch]] = field(default_factory=dict)  # of each partition, in order of its rows
    order: tuple[str, str] | None = None  # columns with the hash of a record's source and its place there
    until: int | None = None  # as for `headwater.Synthesizer.encode`
    files: Sequence[Sequence[Group]] | None = None  # that workers of each partition read; None if Spark reads

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows for each bucket, of all stretches of a partition together; and one with a note."""
        from pyspark import TaskContext

        part = TaskContext.get().partitionId()
        note, found, waiting, start = _Note(), list[Batch](), list[Rows](), 0
        if self.files is not None:
            deque(batches, maxlen=0)  # to their end, or Spark starts another process for the next partition
            batches = read_groups(self.files[part], self.columns)
        for stretch, row, piece in self._pieces(batches, self.stretches.get(part, ()), note):
            if note.error is not None:
                continue
            try:
                rows, tally = self._encode(piece)
            except TableError as error:
                at = None if error.row is None else row + error.row
                said = {"problem": error.problem, "remedy": error.remedy, "row": at, "column": error.column}
                note.error = said | {"file": stretch.where}
                note.number = stretch.number
                continue
            note.tally += tally
            number, held = stretch.number + row, sum(map(len, waiting))
            if self.person_key is not None:
                yield pa.RecordBatch.from_pylist([_packed(number, rows, np.empty(0, dtype=np.uint8))], COUNTED)
                continue
            if waiting and (held >= TOGETHER or start + held != number):
                found.append(self._count(waiting, start))
                waiting.clear()
            start = start if waiting else number
            waiting.append(rows)
        if waiting:
            found.append(self._count(waiting, start))
        if found:
            yield from pack(Batch.merge(found))
        yield pa.RecordBatch.from_pylist([{"start": -1 - part, "notes": note.to_json()}], COUNTED)

    def _count(self, rows: Sequence[Rows], start: int) -> Batch:
        return synthesizer(self.config).count(Batch(np.concatenate(rows)), start, self.until)

    def _encode(self, batch: pa.RecordBatch) -> tuple[Rows, Tally]:
        """Rows and tally; or a `TableError` that has its row apart, whatever goes wrong."""
        synth, chosen = synthesizer(self.config), batch.select(list(self.columns))
        cube = not isinstance(synth.schema, Schema)
        records: Any = chosen
        try:
            if cube:
                records = np.column_stack([np.asarray(c, dtype=np.float64) for c in chosen.columns])
            found = synth.encode(records, bad_rows=self.policy, person_key=self.person_key)
        except TableError:
            raise
        except Exception as error:
            if cube and isinstance(error, ValueError):
                for bad in synth.schema.encode_batch(records, bad_rows="null").bad:
                    raise bad.error from None
            problem = f"{type(error).__name__} when a batch was encoded"
            raise TableError(problem, "compare the columns with the schema") from None
        return found.rows, found.tally

    def _pieces(
        self, batches: Iterable[pa.RecordBatch], stretches: Sequence[Stretch], note: _Note
    ) -> Iterator[tuple[Stretch, int, pa.RecordBatch]]:
        """A stretch, how many of its records come before, and the next records of it."""
        place, seen, last = 0, 0, None
        try:
            for batch in batches:
                note.records += batch.num_rows
                at = 0
                while at < batch.num_rows and note.wrong is None:
                    while place < len(stretches) and seen == stretches[place].records:
                        place, seen, last = place + 1, 0, None
                    if place == len(stretches):
                        note.wrong = SHUFFLED  # more records than there were
                        return
                    piece = batch.slice(at, min(stretches[place].records - seen, CHUNK))
                    note.wrong, last = self._wrong(piece, stretches[place], last)
                    if note.wrong is not None:
                        return
                    yield stretches[place], seen, piece
                    at, seen = at + piece.num_rows, seen + piece.num_rows
        except UnreadableError:
            note.wrong = SHUFFLED  # so Spark reads it

    def _wrong(self, piece: pa.RecordBatch, stretch: Stretch, last: int | None) -> tuple[str | None, int | None]:
        """What is wrong with the order of records, and the place of the last one."""
        if self.order is None:
            return None, None
        marks, places = (piece.column(name).to_numpy() for name in self.order)
        steps = np.diff(places, prepend=places[0] - 1 if last is None else last)
        if (marks != stretch.mark).any() or (steps < 0).any():
            return SHUFFLED, None
        return SAME if (steps == 0).any() else None, int(places[-1])


# Counts on their way


def pack(batch: Batch) -> Iterator[pa.RecordBatch]:
    """Counts as `COUNTED`. Null records, which fit into no shorter word, are a row of their own."""
    found, size = list[dict[str, Any]](), 0
    starts, counts = np.asarray(batch.starts), np.asarray(batch.counts)
    for i, j in runs(starts):
        start, rows, numbers = int(starts[i]), batch.rows[i:j], counts[i:j]
        null = null_records(rows)
        if null.any():
            found.append(_packed(start, rows[null], numbers[null]))
            rows, numbers = rows[~null], numbers[~null]
        if len(rows):
            found.append(_packed(start, _short(rows), numbers))
        size += rows.nbytes
        if size > _BYTES:
            yield pa.RecordBatch.from_pylist(found, COUNTED)
            found, size = [], 0
    if found:
        yield pa.RecordBatch.from_pylist(found, COUNTED)


def _packed(start: int, rows: Rows, numbers: NDArray[Any]) -> dict[str, Any]:
    counts = _short(numbers)
    sizes = {"width": rows.shape[1], "row_bytes": rows.itemsize, "count_bytes": counts.itemsize}
    return {"start": start, "rows": rows.tobytes(), "counts": counts.tobytes()} | sizes


def _short(numbers: NDArray[Any]) -> NDArray[Any]:
    """The same in the shortest words in which none is the largest: that is a null record's."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0)) + 1))


def _start(batch: Batch) -> int:
    return int(np.asarray(batch.starts)[0])


def unpack(table: pa.Table, until: int | None) -> list[Batch]:
    """The counts in a table that `pack` has made, from any number of partitions. None is copied."""
    found = list[Batch]()
    columns = [table.column(name).to_pylist() for name in COUNTED.names[:4]]
    blobs = [table.column(name) for name in ("rows", "counts")]
    for i, (start, width, row_bytes, count_bytes) in enumerate(zip(*columns, strict=True)):
        if start < 0:
            continue  # a note
        rows, counts = (np.frombuffer(blob[i].as_buffer(), dtype=np.uint8) for blob in blobs)
        shaped = rows.view(f"<u{row_bytes}").reshape(-1, width)
        found.append(Batch(shaped, counts.view(f"<u{count_bytes}"), np.full(len(shaped), start), until))
    return found
