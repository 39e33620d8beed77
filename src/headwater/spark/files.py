"""Parquet files that workers read themselves: no record goes through Spark, nor one by one to Python.

Spark says which part of a file is read by which task, and a worker reads these row groups. Where a worker does not find
a file as it was said to be, with the same columns of the same types, Spark reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

RECORDS = 1 << 18  # that are read at a time
TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
}
"""Types of Spark that mean the same in a file, by their names: no calendars, zones or decimals."""
_SCHEME = "file:"


class Split(NamedTuple):
    """A part of a file that one task reads: the row groups whose middle is in it.

    Parameters
    ----------
    path
        As Spark names it.
    start, length
        In bytes.
    """

    path: str
    start: int
    length: int


class UnreadableError(ValueError):
    """A file that Spark has to read."""


@dataclass(frozen=True)
class Files:
    """What every task reads.

    Parameters
    ----------
    splits
        Of each partition.
    columns
        For each column of the frame, its name in files and its type of Spark.
    """

    splits: Sequence[Sequence[Split]]
    columns: Mapping[str, tuple[str, str]]

    @staticmethod
    def of(splits: Sequence[Sequence[Split]] | None, columns: Mapping[str, tuple[str, str]] | None) -> Files | None:
        """The same, if workers can read it all.

        Parameters
        ----------
        splits, columns
            None if they are not known.
        """
        if not splits or not columns or any(kind not in TYPES for _, kind in columns.values()):
            return None
        here = all(split.path.startswith(_SCHEME) for part in splits for split in part)
        return Files(splits, columns) if here else None

    def read(self, part: int) -> Iterator[pa.RecordBatch]:
        """The records of a partition, in order. Texts that repeat come numbered.

        Parameters
        ----------
        part
            Its number.
        """
        names = [name for name, _ in self.columns.values()]
        texts = [name for name, kind in self.columns.values() if kind == "string"]
        for split in self.splits[part]:
            path = "/" + split.path.removeprefix(_SCHEME).lstrip("/")
            try:
                with parquet.ParquetFile(path, read_dictionary=texts) as file:
                    self._check(file.schema_arrow)
                    groups = _groups(file.metadata, split)
                    for batch in file.iter_batches(RECORDS, groups, names, use_threads=False):
                        ordered = [batch.column(name) for name in names]
                        yield pa.RecordBatch.from_arrays(ordered, list(self.columns))
            except Exception as error:  # whatever a file is like: without its words, which may hold values
                raise UnreadableError(type(error).__name__) from None

    def _check(self, schema: pa.Schema) -> None:
        """Refuse a file in which a column is missing, is there twice, or has another type than in the frame."""
        for name, kind in self.columns.values():
            number = schema.get_field_index(name)
            found = schema.field(number).type if number >= 0 else None
            if getattr(found, "value_type", found) != TYPES[kind]:
                raise UnreadableError("another column than in the frame")


def _groups(metadata: Any, split: Split) -> list[int]:  # noqa: ANN401 - of Arrow, which ships no types
    """The row groups whose middle is in a split, as Spark chooses them."""
    found = list[int]()
    for number in range(metadata.num_row_groups):
        columns = [metadata.row_group(number).column(i) for i in range(metadata.num_columns)]
        first = columns[0].data_page_offset
        if columns[0].has_dictionary_page:
            first = min(first, columns[0].dictionary_page_offset)
        middle = first + sum(column.total_compressed_size for column in columns) // 2
        if split.start <= middle < split.start + split.length:
            found.append(number)
    return found
