"""A driver of its own, to be killed: streams a folder of files, with tasks that are slow, fail once and run twice.

``python -m tests.spark.driver URL FOLDER``
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headwater.spark import session, stream
from tests.spark.cluster import settings
from tests.spark.support import CASES, ddl

CASE, EVERY, FILES = "table, marginals", 700, 4
TROUBLE = {
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "50ms",
}
"""Nearly every task is started a second time while the first attempt still runs."""


def troubled(batches: Any) -> Iterator[Any]:  # noqa: ANN401 - of Arrow
    """Tasks of odd partitions fail once, and half of all attempts are slow. Adds the row of each record."""
    import time

    import numpy as np
    from pyspark import TaskContext

    context = TaskContext.get()
    if context.partitionId() % 2 and context.attemptNumber() == 0:
        raise RuntimeError("fails once")
    seen = 0
    for batch in batches:
        time.sleep(0.05 if context.taskAttemptId() % 2 else 0.4)
        yield batch.append_column("row", np.arange(seen, seen + batch.num_rows))
        seen += batch.num_rows


def main(url: str, folder: Path) -> None:
    schema, mechanism = CASES[CASE]
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    spark = session(url, **{name.replace(".", "__"): value for name, value in (settings(512) | TROUBLE).items()})
    spark.conf.set("spark.sql.files.maxPartitionBytes", "16k")
    frame = spark.readStream.schema(ddl(schema)).option("maxFilesPerTrigger", "1").csv(str(folder / "in"))
    frame = frame.selectExpr("*", "_metadata.file_path AS file", "_metadata.file_block_start AS place")
    frame = frame.mapInArrow(troubled, ddl(schema) + ", file string, place bigint, row bigint")
    how: dict[str, Any] = {"epsilon": 1.0, "every": EVERY, "mechanism": mechanism, "seed": 3}
    how |= {"order": ["file", "place", "row"], "trigger": {"availableNow": True}}
    with stream(frame, schema, state=folder / "state", out=folder / "out", **how) as query:
        query.wait()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
