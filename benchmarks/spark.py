"""Spark: beside its own ``groupBy(cell).count()``, what reaches the driver, and the driver's share of the work.

A standalone cluster of one master and two workers, all on this machine. Times are processor times of executors and of
the driver, so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from benchmarks.pages import publish
from benchmarks.spark_page import ROUNDS, STEADY, page
from headwater import Category, Integer, Schema, Synthesizer, unit_cube
from headwater.public.protocol import AnySchema
from headwater.spark import session, update
from headwater.spark.count import pack
from tests.spark.cluster import Cluster

EPSILON, PLACES, FILE = 1.0, 1000, 1_000_000
WIDE = Schema(age=Integer(0, 99), size=Integer(0, 99), paid=Category("card", "cash", "other"), hour=Integer(0, 23))
Points = NDArray[np.float64]


def uniform(rng: np.random.Generator, n: int) -> Points:
    return rng.random((n, 2))


def clusters(rng: np.random.Generator, n: int) -> Points:
    centres = np.random.default_rng(1).random((100, 2))
    return np.clip(centres[rng.integers(100, size=n)] + rng.normal(0, 1e-4, (n, 2)), 0, 1)


def places(rng: np.random.Generator, n: int) -> Points:
    return np.random.default_rng(1).random((PLACES, 2))[rng.integers(PLACES, size=n)]


PLANE: dict[str, Callable[[np.random.Generator, int], Points]] = {
    "1,000 places": places,
    "100 clusters": clusters,
    "uniform": uniform,
}


def wide(rng: np.random.Generator, n: int) -> pa.Table:
    paid = pa.DictionaryArray.from_arrays(rng.integers(0, 3, n).astype(np.int8), pa.array(["card", "cash", "other"]))
    age = rng.binomial(99, 0.4, n)
    return pa.table(
        {
            "age": age,
            "size": (age + rng.integers(0, 20, n)) % 100,
            "paid": paid.cast(pa.string()),
            "hour": rng.binomial(23, 0.6, n),
        }
    )


def written(case: str, n: int, folder: Path) -> tuple[AnySchema, str, Path]:
    """Parquet files of a case, with the cell of each record as the owner keeps it."""
    schema: AnySchema = WIDE if case == "table" else unit_cube(2)
    mechanism, path = "marginals" if case == "table" else "cascade", folder / case.replace(" ", "-")
    synth, rng = Synthesizer(schema, epsilon=EPSILON, mechanism=mechanism), np.random.default_rng(0)
    path.mkdir(parents=True)
    for number in range(math.ceil(n / FILE)):
        size = min(FILE, n - number * FILE)
        if case == "table":
            table = wide(rng, size)
            rows = synth.encode(table).rows.astype(np.int64)
            cell = (rows * (10 ** (4 * np.arange(rows.shape[1])))).sum(axis=1)  # one integer for each row
        else:
            points = PLANE[case](rng, size)
            table, cell = (
                pa.table({"x": points[:, 0], "y": points[:, 1]}),
                synth.encode(points).rows[:, 0].astype(np.int64),
            )
        parquet.write_table(table.append_column("cell", pa.array(cell)), path / f"{number:04d}.parquet")
    return schema, mechanism, path


class Clock:
    """Processor seconds of executors and of the driver, so far.

    Spark ends Python processes that are idle for a minute. What they took stays counted, or a round in which one ends
    would seem to take less than nothing.
    """

    def __init__(self, cluster: Cluster, java: int) -> None:
        self._sessions, self._java = {worker.pid for worker in cluster.workers}, java
        self._seen = dict[tuple[str, str], float]()

    def executors(self) -> float:
        """Of workers, executors and their Python processes, ended ones too."""
        for process in Path("/proc").glob("[0-9]*"):
            leader, begun, seconds = _seconds(process)
            if leader in self._sessions:
                self._seen[process.name, begun] = seconds
        return sum(self._seen.values())

    def read(self) -> dict[str, float]:
        """Of executors, of the driver's Python and of its Java machine."""
        java = _seconds(Path("/proc") / str(self._java))[2]
        return {"executors": self.executors(), "python": time.process_time(), "java": java}


def _seconds(process: Path) -> tuple[int, str, float]:
    """The session of a process, when it began, and its own processor time."""
    try:
        fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return -1, "", 0.0
    return int(fields[3]), fields[19], sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def compare(spark: Any, clock: Clock, case: str, n: int, folder: Path) -> dict[str, Any]:  # noqa: ANN401 - of Spark
    """Plain Spark and Headwater on the same files, in turns: the medians of the last rounds.

    One run takes all rounds, so they are micro-batches of a run that goes on. Java compiles what runs often, for
    minutes: the last rounds are what a stream costs.
    """
    schema, mechanism, path = written(case, n, folder)
    frame = spark.read.parquet(str(path))
    synth = Synthesizer(schema, epsilon=EPSILON, mechanism=mechanism)
    sides: dict[str, Callable[[], Any]] = {
        "plain": lambda: frame.groupBy("cell").count().toArrow(),
        "ours": lambda: update(synth, frame.drop("cell")),
    }
    rounds = dict[str, list[dict[str, float]]](plain=[], ours=[])
    for _ in range(ROUNDS):
        for side, run in sides.items():
            rounds[side].append(timed(clock, run))
    found: dict[str, Any] = {"case": case, "records": n}
    for side, every in rounds.items():
        found[side] = {name: statistics.median(one[name] for one in every[-STEADY:]) for name in every[0]}
    print(found, flush=True)
    return found


def timed(clock: Clock, run: Callable[[], object]) -> dict[str, float]:
    """What a micro-batch takes."""
    before, begun = clock.read(), time.perf_counter()
    run()
    spent = {name: value - before[name] for name, value in clock.read().items()}
    return spent | {"wall": time.perf_counter() - begun}


def reaching(case: str, n: int) -> dict[str, Any]:
    """How many codes and bytes reach the driver for one batch: counted here as workers count.

    What the driver gets of a bucket does not depend on which process counted it.
    """
    synth, rng = Synthesizer(unit_cube(2), epsilon=EPSILON, mechanism="cascade"), np.random.default_rng(0)
    said: dict[str, Any] = {"case": case, "records": n, "codes": 0, "buckets": 0, "bytes": 0}
    first = 0
    while first < n:
        end = min(synth.bucket(min(first + FILE, n) - 1, n)[1], n)  # whole buckets
        found = synth.encode(PLANE[case](rng, end - first), first, n)
        said["codes"] += len(found.counts)
        said["buckets"] += len(np.unique(found.starts))
        said["bytes"] += sum(batch.nbytes for batch in pack(found))
        first = end
    print(said, flush=True)
    return said


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=float, default=1e7)
    parser.add_argument("--cases", nargs="*", default=[*PLANE, "table"], help="fewer than all write nothing")
    asked = parser.parse_args()
    n = int(asked.records)
    warnings.simplefilter("ignore")
    with TemporaryDirectory() as name:
        folder = Path(name)
        cluster = Cluster(folder, memory=2048)
        os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": cluster.environment["PYSPARK_PYTHON"]}
        spark = session(cluster.url, **{k.replace(".", "__"): v for k, v in cluster.settings().items()})
        try:
            clock = Clock(cluster, spark.sparkContext._gateway.proc.pid)
            compared = [compare(spark, clock, case, n, folder) for case in asked.cases]
        finally:
            spark.stop()
            for process in (*cluster.workers, cluster.master):
                cluster.kill(process)
    if len(asked.cases) == 1 + len(PLANE):
        found = {"cores": os.cpu_count(), "compared": compared}
        publish("spark", found | {"reached": [reaching(case, 10**k) for case in PLANE for k in range(5, 9)]}, page)


if __name__ == "__main__":
    main()
