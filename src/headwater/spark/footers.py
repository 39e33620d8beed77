"""The stretches of a frame of Parquet files, from what their footers say: nothing of the files themselves is read.

What workers see is compared with it (`headwater.spark.counting`), so a footer that is wrong is noticed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.spark.files import Split
from headwater.spark.places import Stretch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_SPLITS = 64  # the driver reads them one by one
_STEPS = ("WholeStageCodegenExec", "ProjectExec", "ColumnarToRowExec", "InputAdapter")


def stretches_of(frame: DataFrame) -> tuple[list[Stretch], list[list[Split]]] | None:
    """The stretches, and what each partition reads; None if the frame is no plain reading of few Parquet files.

    Parameters
    ----------
    frame
        With or without its order columns.
    """
    try:
        return _stretches(frame)
    except Exception:  # of Java, whatever a file or a version of Spark is like: then records are counted
        return None


def _stretches(frame: DataFrame) -> tuple[list[Stretch], list[list[Split]]] | None:
    parts = _file_partitions(frame)
    if parts is None:
        return None
    files = [list(parts.apply(part).files()) for part in range(min(parts.size(), MOST_SPLITS + 1))]
    if sum(map(len, files)) > MOST_SPLITS:
        return None
    session = frame.sparkSession
    java, settings = session._jvm.org.apache.parquet, session._jsparkSession.sessionState().newHadoopConf()
    options, inputs = java.HadoopReadOptions, java.hadoop.util.HadoopInputFile
    opened, found = java.hadoop.ParquetFileReader.open, list[Stretch]()
    every: list[list[Split]] = [[] for _ in files]
    for part, splits in enumerate(files):
        position = 0
        for split in splits:
            start, length, path = split.start(), split.length(), split.toPath()
            here = options.builder(settings).withRange(start, start + length).build()
            reader = opened(inputs.fromPath(path, settings), here)  # Spark gives a split the same blocks
            try:
                records = int(reader.getRecordCount())
            finally:
                reader.close()
            if records:
                every[part].append(Split(path.toString(), start, length))
                found.append(Stretch(part, position, (every[part][-1].path,), start, start, records, {0: records}))
            position += records
    return found, every


def _file_partitions(frame: DataFrame) -> Any | None:  # noqa: ANN401 - of Java
    """The splits of each partition, if a frame reads files and leaves nothing out; a micro-batch is such an RDD."""
    step = frame._jdf.queryExecution().executedPlan()
    while _class(step) in _STEPS:
        step = step.child()
    if _class(step) == "RDDScanExec":
        rdd = step.rdd()
        while _class(rdd) != "FileScanRDD":
            before = rdd.dependencies()
            if before.size() != 1 or _class(before.head()) != "OneToOneDependency":
                return None
            rdd = before.head().rdd()
        return rdd.filePartitions()
    if _class(step) != "FileSourceScanExec" or not step.dataFilters().isEmpty():
        return None
    if _class(step.relation().fileFormat()) != "ParquetFileFormat":
        return None
    return step.inputRDD().filePartitions()


def _class(one: Any) -> str:  # noqa: ANN401 - of Java
    return str(one.getClass().getSimpleName())
