"""Parquet files that workers read themselves: no record goes through Spark, nor one by one to Python.

Footers say how many records there are, so nothing else is read before they are counted. Workers read files on disks
that they see under the same path as the driver, if a frame chooses columns of them and does nothing else; all other
frames are read by Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from headwater.spark.frame import PARTITIONED, Placed, Stretch, class_of

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
_MOST_FILES = 256  # the driver reads their footers one by one
_STEPS = ("WholeStageCodegenExec", "ProjectExec", "ColumnarToRowExec", "InputAdapter")


class Group(NamedTuple):
    """A row group of a file."""

    path: str
    number: int


class UnreadableError(ValueError):
    """A file that a worker cannot read."""


def read_groups(groups: Sequence[Group], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The records of row groups, in order. Texts that repeat come numbered."""
    for path, those in groupby(groups, lambda one: one.path):
        try:
            texts = [one.name for one in parquet.read_schema(path) if pa.types.is_string(one.type)]
            with parquet.ParquetFile(path, read_dictionary=texts) as file:
                numbers = [one.number for one in those]
                for batch in file.iter_batches(RECORDS, numbers, list(columns), use_threads=False):
                    yield batch.select(list(columns))
        except Exception as error:  # whatever a file is like: without its words, which may hold values
            raise UnreadableError(type(error).__name__) from None


def footers(placed: Placed) -> tuple[list[Stretch], list[list[Group]]] | None:
    """The stretches of a frame, and which row groups each worker reads, as the footers of its files say it."""
    try:
        found = _paths(placed) if placed.plain else None
        if found is None:
            return None
        parts, paths = found
        types = {name: kind for name, kind in placed.frame.dtypes if name in placed.columns}
        every = [one for path in sorted(paths) for one in _row_groups(path, types)]
    except Exception:  # of Java or Arrow, whatever a file or a version of Spark is like
        return None
    stretches, groups = list[Stretch](), list[list[Group]]()
    if not every:
        return None
    for part in range(parts):
        of_part = every[len(every) * part // parts : len(every) * (part + 1) // parts]
        groups.append([group for group, _, _ in of_part])
        positions = accumulate((records for _, _, records in of_part), initial=0)
        for (group, first, records), position in zip(of_part, positions, strict=False):
            where = group.path + (f" from row {first:,} on" if first else "")
            stretches.append(Stretch(part, position, (group.path,), first, first, records, where))
    return stretches, groups


def _paths(placed: Placed) -> tuple[int, list[str]] | None:
    """How many partitions Spark would make of a frame, and the files that it reads; a micro-batch is an RDD."""
    step = placed.frame._jdf.queryExecution().executedPlan()
    while class_of(step) in _STEPS:
        step = step.child()
    if class_of(step) == "RDDScanExec":
        rdd = step.rdd()
        while class_of(rdd) != "FileScanRDD":
            before = rdd.dependencies()
            if before.size() != 1 or class_of(before.head()) != "OneToOneDependency":
                return None
            rdd = before.head().rdd()
    elif class_of(step) == "FileSourceScanExec" and step.dataFilters().isEmpty():
        rdd = step.inputRDD()
    else:
        return None
    parts, paths = rdd.filePartitions(), list[str]()
    for part in range(parts.size()):
        paths += [one.toPath().toString() for one in parts.apply(part).files() if one.start() == 0]
        if len(paths) > _MOST_FILES:
            return None
    here = all(path.startswith("file:") and not PARTITIONED.search(path) for path in paths)
    return (parts.size(), ["/" + path.removeprefix("file:").lstrip("/") for path in paths]) if here else None


def _row_groups(path: str, types: Mapping[str, str]) -> list[tuple[Group, int, int]]:
    """The row groups of a file, with the number of their first record in it and how many they have."""
    with parquet.ParquetFile(path) as file:
        schema: Any = file.schema_arrow
        for name, kind in types.items():
            number = schema.get_field_index(name)  # none if it is missing, or there twice
            found: Any = schema.field(number).type if number >= 0 else None
            if TYPES[kind] != (found.value_type if pa.types.is_dictionary(found) else found):
                raise UnreadableError("another column than in the frame")
        records = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
    numbered = enumerate(zip(accumulate(records, initial=0), records, strict=False))
    return [(Group(path, number), first, size) for number, (first, size) in numbered if size]
