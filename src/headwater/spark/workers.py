"""What runs in Spark's Python workers: encode records, count them by bucket, add counts up.

Workers have the public configuration of a run and draw no noise. What they raise ends up in Spark's logs, so they raise
nothing that was made from a record: what is wrong with one travels to the driver as data.
"""

from __future__ import annotations

import json
import warnings
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import compute

from headwater.public.bad_rows import row_texts
from headwater.public.errors import TableError
from headwater.public.protocol import Rows
from headwater.public.schema import Schema
from headwater.public.tally import Tally
from headwater.run.config import RunConfig
from headwater.secret.counts import BucketedCounts, add_parts
from headwater.spark.files import Files, UnreadableError
from headwater.spark.packing import COUNTED, pack, pack_note, pack_rows, unpack
from headwater.synthesizer import Synthesizer

CHUNK = 1 << 16  # records that are encoded at a time: what that needs stays in the processor's cache
TOGETHER = 1 << 20  # records that are counted at a time
UNLISTED = TableError("a key that is not listed", "list it in key=, or leave such records out")
SHUFFLED, SAME, UNREADABLE = "shuffled", "same", "unreadable"


@lru_cache(maxsize=8)
def synthesizer(config: RunConfig) -> Synthesizer:
    """A synthesizer that encodes and counts as the owner's does; its noise is never drawn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ε: the owner has said it
        return config.synthesizer()


@dataclass(frozen=True)
class Encoder:
    """Records to rows of integers.

    Parameters
    ----------
    config
        Of the run, without a seed.
    columns
        The columns that are read, as the frame names them.
    policy
        What happens to bad rows.
    key
        The column of a public key, and its values.
    person_key
        The key of hashes of people, if records belong to people.
    """

    config: RunConfig
    columns: tuple[str, ...]
    policy: str = "stop"
    key: tuple[str, tuple[str, ...]] | None = None
    person_key: bytes | None = None

    def by_key(self, table: pa.Table) -> Iterator[tuple[int, Any]]:
        """The number of each key, and which rows have it; of unlisted ones −1."""
        if self.key is None:
            yield 0, np.arange(table.num_rows)
            return
        column, values = self.key
        texts = table.column(column).cast(pa.string())
        # Nulls and values that are not listed have no index in the list.
        numbers = compute.index_in(texts, pa.array(values, pa.string())).fill_null(-1).to_numpy()
        for number in np.unique(numbers).tolist():
            yield number, np.flatnonzero(numbers == number)

    def encode(self, table: pa.Table) -> tuple[Rows, Tally, list[tuple[int, dict[str, Any], str]]]:
        """Rows, tally and bad rows for the quarantine; or a `TableError`, whatever goes wrong."""
        synth, chosen = synthesizer(self.config), table.select(list(self.columns))
        records: Any = chosen
        try:
            if not isinstance(synth.schema, Schema):
                records = np.column_stack([np.asarray(c, dtype=np.float64) for c in chosen.columns])
            found = synth.encode_batch(records, bad_rows=self.policy, person_key=self.person_key)
        except TableError:
            raise
        except Exception as error:
            if not isinstance(synth.schema, Schema) and isinstance(error, ValueError):
                for bad in synth.schema.encode_batch(records, bad_rows="null").bad:
                    raise bad.error from None  # which has the row apart from the text
            problem = f"{type(error).__name__} when a batch was encoded"
            raise TableError(problem, "compare the columns with the schema") from None
        texts = row_texts(records, found.bad) if self.policy == "quarantine" else ()
        return found.rows, found.tally, [(bad.row, error_to_dict(bad.error), bad.text) for bad in texts]


class Slot(NamedTuple):
    """A stretch as a worker sees it.

    Parameters
    ----------
    stretch
        Which of all stretches it is.
    records
        How many records it has.
    first
        For each key that is counted, the number of its first record.
    mark
        The hash of its source.
    """

    stretch: int
    records: int
    first: dict[int, int]
    mark: int


@dataclass
class _Note:
    """What a worker has to say about a partition, besides counts."""

    records: int = 0
    wrong: str | None = None
    error: dict[str, Any] | None = None
    tally: dict[int, Tally] = field(default_factory=lambda: defaultdict(Tally))
    bad: list[tuple[int, int, dict[str, Any], str]] = field(default_factory=list)

    def to_json(self) -> str:
        tally = {key: one.to_dict() for key, one in self.tally.items()}
        said = {"records": self.records, "wrong": self.wrong, "error": self.error, "tally": tally, "bad": self.bad}
        return json.dumps(said)


@dataclass
class _Waiting:
    """Rows of one key whose numbers follow one another, which are not counted yet."""

    first: int
    rows: list[Rows] = field(default_factory=list)

    @property
    def records(self) -> int:
        return sum(map(len, self.rows))


@dataclass(frozen=True)
class Counter:
    """Partitions of a frame to counts by bucket, or to rows with their people.

    Parameters
    ----------
    encoder
        Encodes.
    slots
        The stretches of each partition, in the order of its rows.
    order
        The columns with the hash of a record's source and with its place there, if the frame has them.
    until
        For each key that is counted, as for `headwater.Synthesizer.histogram`.
    files
        What workers read themselves; None if Spark reads.
    """

    encoder: Encoder
    slots: Mapping[int, Sequence[Slot]]
    order: tuple[str, str] | None = None
    until: Mapping[int, int | None] = field(default_factory=dict)
    files: Files | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row for each bucket, of all stretches of a partition together; and one with a note."""
        from pyspark import TaskContext

        part = TaskContext.get().partitionId()
        note, found, waiting = _Note(), defaultdict[int, list[BucketedCounts]](list), dict[int, _Waiting]()
        if self.files is not None:
            deque(batches, maxlen=0)  # to their end, or Spark starts another process for the next partition
            batches = self.files.read(part)
        for slot, row, first, table in self._pieces(batches, self.slots.get(part, ()), note):
            for key, chosen in self.encoder.by_key(table):
                if note.error is not None or (key >= 0 and key not in slot.first):
                    continue  # refused, or the run of this key has taken the batch before
                try:
                    if key < 0:
                        if self.encoder.policy == "stop":
                            raise UNLISTED.at(row=0, column=self.encoder.key[0] if self.encoder.key else None)
                        continue
                    piece = table if len(chosen) == table.num_rows else table.take(chosen)
                    rows, tally, bad = self.encoder.encode(piece)
                except TableError as error:
                    at = None if error.row is None else row + int(chosen[error.row])
                    note.error = error_to_dict(error) | {"row": at, "stretch": slot.stretch}
                    continue
                number = slot.first[key] + first[key]
                first[key] += len(rows)
                note.tally[key] += tally
                note.bad += [(key, number + one, error, text) for one, error, text in bad]
                if self.encoder.person_key is not None:
                    yield pack_rows(key, number, rows)
                else:
                    before = waiting.setdefault(key, _Waiting(number))
                    if before.records >= TOGETHER or before.first + before.records != number:
                        found[key].append(self._count(key, before))
                        before = waiting[key] = _Waiting(number)
                    before.rows.append(rows)
        for key, last in waiting.items():
            found[key].append(self._count(key, last))
        for key, parts in found.items():
            yield from pack(key, BucketedCounts.merge(parts))
        yield pack_note(part, note.to_json())

    def _count(self, key: int, waiting: _Waiting) -> BucketedCounts:
        rows = np.concatenate(waiting.rows)
        return synthesizer(self.encoder.config).count_rows(rows, waiting.first, self.until.get(key))

    def _pieces(
        self, batches: Iterable[pa.RecordBatch], slots: Sequence[Slot], note: _Note
    ) -> Iterator[tuple[Slot, int, dict[int, int], pa.Table]]:
        """A slot, how many of its records come before, how many of each key, and the next records of it."""
        place, seen, firsts, last = 0, 0, defaultdict[int, int](int), None
        for table in _noted(_gathered(batches), note):
            note.records += table.num_rows
            at = 0
            while at < table.num_rows and note.wrong is None:
                while place < len(slots) and seen == slots[place].records:
                    place, seen, firsts, last = place + 1, 0, defaultdict[int, int](int), None
                if place == len(slots):
                    note.wrong = SHUFFLED  # more records than there were
                    return
                piece = table.slice(at, min(slots[place].records - seen, CHUNK))
                note.wrong, last = self._wrong(piece, slots[place], last)
                if note.wrong is not None:
                    return
                yield slots[place], seen, firsts, piece
                at, seen = at + piece.num_rows, seen + piece.num_rows

    def _wrong(self, piece: pa.Table, slot: Slot, last: int | None) -> tuple[str | None, int | None]:
        """What is wrong with the order of records, and the place of the last one."""
        if self.order is None:
            return None, None
        marks, places = (piece.column(name).to_numpy() for name in self.order)
        steps = np.diff(places, prepend=places[0] - 1 if last is None else last)
        if (marks != slot.mark).any() or (steps < 0).any():
            return SHUFFLED, None
        return SAME if (steps == 0).any() else None, int(places[-1])


@dataclass(frozen=True)
class Adder:
    """The sum of the counts of one bucket, from all partitions; notes stay as they are.

    Parameters
    ----------
    config
        Of the run, without a seed.
    """

    config: RunConfig

    def __call__(self, table: pa.Table) -> pa.Table:
        """One row for one bucket."""
        if table.column("notes").null_count == 0:
            return table
        ((key, parts),) = unpack(table, empty_rows(synthesizer(self.config))).items()
        return pa.Table.from_batches(pack(key, add_parts(parts, None)), COUNTED)


def empty_rows(synth: Synthesizer) -> Rows:
    """No rows, in the type and width that all rows have."""
    schema = synth.input_schema
    nothing: Any = {name: [] for name in schema.names} if hasattr(schema, "names") else np.empty((0, schema.dimension))
    return synth.encode(nothing)


def _noted(tables: Iterator[pa.Table], note: _Note) -> Iterator[pa.Table]:
    """The same up to a file that cannot be read, of which there is a note then."""
    try:
        yield from tables
    except UnreadableError:
        note.wrong = UNREADABLE


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


def error_to_dict(error: TableError) -> dict[str, Any]:
    """An error as JSON. It holds no value of a record."""
    return {"problem": error.problem, "remedy": error.remedy, "row": error.row, "column": error.column}


def retold(said: Mapping[str, Any]) -> TableError:
    """The error that `error_to_dict` was given."""
    return TableError(said["problem"], said["remedy"], row=said["row"], column=said["column"])
