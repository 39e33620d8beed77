"""Parquet files that workers read themselves: no record goes through Spark, nor one by one to Python.

Footers say how many records each task reads, so nothing else is read before they are counted. A worker reads the row
groups that Spark would give its task; where it does not find a file as it was said to be, with the same columns of the
same types, Spark reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from headwater.spark.frame import PARTITIONED, Stretch, class_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
_MOST_SPLITS = 64  # the driver reads their footers one by one
_STEPS = ("WholeStageCodegenExec", "ProjectExec", "ColumnarToRowExec", "InputAdapter")


class Split(NamedTuple):
    """A part of a file, in bytes, that one task reads: the row groups whose middle is in it."""

    path: str
    start: int
    length: int


class UnreadableError(ValueError):
    """A file that Spark has to read."""


@dataclass(frozen=True)
class Files:
    """What workers read: the splits of each partition, and the types of columns by name."""

    splits: Sequence[Sequence[Split]]
    columns: Mapping[str, str]

    @staticmethod
    def of(splits: Sequence[Sequence[Split]] | None, columns: Mapping[str, str] | None) -> Files | None:
        """The same, if both are known and workers can read it all."""
        if not splits or not columns or not set(columns.values()) <= set(TYPES):
            return None
        here = all(split.path.startswith(_SCHEME) for part in splits for split in part)
        return Files(splits, columns) if here else None

    def read(self, part: int) -> Iterator[pa.RecordBatch]:
        """The records of a partition, in order. Texts that repeat come numbered."""
        names, texts = list(self.columns), [name for name, kind in self.columns.items() if kind == "string"]
        for split in self.splits[part]:
            path = "/" + split.path.removeprefix(_SCHEME).lstrip("/")
            try:
                with parquet.ParquetFile(path, read_dictionary=texts) as file:
                    self._check(file.schema_arrow)
                    groups = _groups(file.metadata, split)
                    for batch in file.iter_batches(RECORDS, groups, names, use_threads=False):
                        yield batch.select(names)
            except Exception as error:  # whatever a file is like: without its words, which may hold values
                raise UnreadableError(type(error).__name__) from None

    def _check(self, schema: pa.Schema) -> None:
        """Refuse a file in which a column is missing, is there twice, or has another type than in the frame."""
        for name, kind in self.columns.items():
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


def footers(frame: DataFrame) -> tuple[list[Stretch], list[list[Split]]] | None:
    """The stretches of a frame, and what each partition reads, as the footers of its files say it.

    None if the frame is no plain reading of few Parquet files. What workers see is compared with it, so a footer that
    is wrong is noticed.
    """
    try:
        return _footers(frame)
    except Exception:  # of Java, whatever a file or a version of Spark is like: then records are counted
        return None


def _footers(frame: DataFrame) -> tuple[list[Stretch], list[list[Split]]] | None:
    parts = _file_partitions(frame)
    if parts is None:
        return None
    files = [list(parts.apply(part).files()) for part in range(min(parts.size(), _MOST_SPLITS + 1))]
    if sum(map(len, files)) > _MOST_SPLITS:
        return None
    session = frame.sparkSession
    java, settings = session._jvm.org.apache.parquet, session._jsparkSession.sessionState().newHadoopConf()
    options, inputs = java.HadoopReadOptions, java.hadoop.util.HadoopInputFile
    found, every = list[Stretch](), list[list[Split]]()
    for part, splits in enumerate(files):
        position, read = 0, list[Split]()
        for split in splits:
            one = Split(split.toPath().toString(), split.start(), split.length())
            if PARTITIONED.search(one.path):
                return None
            here = options.builder(settings).withRange(one.start, one.start + one.length).build()
            reader = java.hadoop.ParquetFileReader.open(inputs.fromPath(split.toPath(), settings), here)
            try:
                records = int(reader.getRecordCount())  # of the row groups that Spark gives a split
            finally:
                reader.close()
            if records:
                read.append(one)
                found.append(Stretch(part, position, (one.path,), one.start, one.start, records))
            position += records
        every.append(read)
    return found, every


def _file_partitions(frame: DataFrame) -> Any | None:  # noqa: ANN401 - of Java
    """The splits of each partition, if a frame reads files and leaves nothing out; a micro-batch is such an RDD."""
    step = frame._jdf.queryExecution().executedPlan()
    while class_of(step) in _STEPS:
        step = step.child()
    if class_of(step) == "RDDScanExec":
        rdd = step.rdd()
        while class_of(rdd) != "FileScanRDD":
            before = rdd.dependencies()
            if before.size() != 1 or class_of(before.head()) != "OneToOneDependency":
                return None
            rdd = before.head().rdd()
        return rdd.filePartitions()
    if class_of(step) != "FileSourceScanExec" or not step.dataFilters().isEmpty():
        return None
    if class_of(step.relation().fileFormat()) != "ParquetFileFormat":
        return None
    return step.inputRDD().filePartitions()
