"""Spark: beside its own ``groupBy(cell).count()``, what reaches the driver, and the driver's share of the work.

A standalone cluster of one master and two workers, all on this machine. Times are processor times of executors and of
the driver, so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import json
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

from benchmarks.spark_page import write_page
from headwater.public.categorical import Category
from headwater.public.numeric import Integer
from headwater.public.protocol import AnySchema
from headwater.public.schema import Schema
from headwater.public.unit_cube import unit_cube
from headwater.run.config import RunConfig
from headwater.secret.counts import BucketedCounts
from headwater.spark import session, update
from headwater.spark.counting import count
from headwater.spark.frames import place
from headwater.spark.packing import pack
from headwater.synthesizer import Synthesizer
from tests.spark.cluster import Cluster

EPSILON, PLACES, FILE, ROUNDS, STEADY = 1.0, 1000, 1_000_000, 16, 6
SIZES, TOGETHER = (10**6, 10**7, 3 * 10**7), 16 * 10**7  # of micro-batches, and how many records a run takes in them
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
            rows = synth.encode(table).astype(np.int64)
            cell = (rows * (10 ** (4 * np.arange(rows.shape[1])))).sum(axis=1)  # one integer for each row
        else:
            points = PLANE[case](rng, size)
            table, cell = pa.table({"x": points[:, 0], "y": points[:, 1]}), synth.encode(points)[:, 0].astype(np.int64)
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
    """Plain Spark and Headwater on the same files, in turns: the first round, and the medians of the last ones.

    One run takes all rounds, so they are micro-batches of a run that goes on. Java compiles what runs often, for
    minutes: the last rounds are what a stream costs.
    """
    schema, mechanism, path = written(case, n, folder)
    frame = spark.read.parquet(str(path))
    synth = Synthesizer(schema, epsilon=EPSILON, mechanism=mechanism)
    sides: dict[str, Callable[[], Any]] = {
        "plain": lambda: frame.groupBy("cell").count().toArrow().num_rows,
        "ours": lambda: update(synth, frame.drop("cell")),
    }
    rounds = dict[str, list[dict[str, float]]](plain=[], ours=[])
    found: dict[str, Any] = {"case": case, "records": n}
    for _ in range(ROUNDS):
        for side, run in sides.items():
            seen, spent = timed(clock, run)
            rounds[side].append(spent)
            found |= {"cells": seen} if side == "plain" else {"t": seen}
    for side, every in rounds.items():
        found[side] = {name: statistics.median(one[name] for one in every[-STEADY:]) for name in every[0]}
        found[f"{side}_first"] = every[0]
    print(found, flush=True)
    return found


def timed(clock: Clock, run: Callable[[], int]) -> tuple[int, dict[str, float]]:
    """What a micro-batch gives, and what it takes."""
    before, begun = clock.read(), time.perf_counter()
    found = run()
    spent = {name: value - before[name] for name, value in clock.read().items()}
    return found, spent | {"wall": time.perf_counter() - begun}


def of_size(spark: Any, clock: Clock, case: str, n: int, folder: Path) -> dict[str, Any]:  # noqa: ANN401 - of Spark
    """A run of `TOGETHER` records in micro-batches of ``n``: what a micro-batch takes, in the mean of the last ones.

    Slow buckets close in some of them only, so the mean is what a run takes its time for. Java has compiled everything
    before (`compare`).
    """
    schema, mechanism, path = written(case, n, folder / f"{n}")
    frame = spark.read.parquet(str(path)).drop("cell")
    synth = Synthesizer(schema, epsilon=EPSILON, mechanism=mechanism)
    rounds = [timed(clock, lambda: update(synth, frame)) for _ in range(math.ceil(TOGETHER / n))]
    late = [spent for t, spent in rounds if t > TOGETHER * (1 - STEADY / ROUNDS)]
    found = {"case": case, "records": n, "batches": len(late)}
    found |= {name: statistics.mean(one[name] for one in late) for name in late[0]}
    print(found, flush=True)
    return found


MADE = ("1,000 places", "uniform")
"""Data that executors can make by themselves."""


def reaching(spark: Any, case: str, n: int) -> dict[str, Any]:  # noqa: ANN401 - of Spark
    """How many codes and bytes reach the driver for one batch, from records that executors make themselves."""
    seed = f"pmod(xxhash64(id), {PLACES})" if case == "1,000 places" else "id"
    frame = spark.range(n).selectExpr(
        *(f"(xxhash64({seed}, {i}) & 1073741823) / 1073741824D AS x{i}" for i in range(2))
    )
    config = RunConfig(unit_cube(2), EPSILON, "cascade")
    found = count(place(frame, config.schema), config, {0: 0}, "stop")[0].counts
    if found is None:
        raise RuntimeError("nothing was counted")
    starts = np.repeat([one.start for one in found.parts], [len(one.counts) for one in found.parts])
    packed = pack(0, BucketedCounts(starts, found.rows, found.counts))
    said = {
        "case": case,
        "records": n,
        "codes": found.codes,
        "buckets": len({one.start for one in found.parts}),
        "bytes": sum(batch.nbytes for batch in packed),
    }
    print(said, flush=True)
    return said


def counted_here(case: str, n: int) -> dict[str, Any]:
    """The same for other data, or more than a driver of this size should get at once: counted as workers count.

    What the driver gets of a bucket does not depend on which process counted it.
    """
    synth, rng = Synthesizer(unit_cube(2), epsilon=EPSILON, mechanism="cascade"), np.random.default_rng(0)
    said: dict[str, Any] = {"case": case, "records": n, "codes": 0, "buckets": 0, "bytes": 0}
    first = 0
    while first < n:
        end = min(synth.bucket(min(first + FILE, n) - 1, n)[1], n)  # whole buckets
        found = synth.count_rows(synth.encode(PLANE[case](rng, end - first)), first, n)
        said["codes"] += len(found.counts)
        said["buckets"] += len(np.unique(found.starts))
        said["bytes"] += sum(batch.nbytes for batch in pack(0, found))
        first = end
    print(said, flush=True)
    return said


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=float, default=1e7)
    parser.add_argument("--cases", nargs="*", default=[*PLANE, "table"])
    parser.add_argument("--most", type=float, default=1e8, help="records of the largest batch whose codes are counted")
    parser.add_argument("--largest", type=float, default=3e7, help="records of the largest micro-batch")
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
            sizes = [
                of_size(spark, clock, case, size, folder)
                for case in MADE
                for size in SIZES
                if case in asked.cases and size <= asked.largest
            ]
            tens = range(5, 1 + round(math.log10(asked.most)))
            reached = [
                reaching(spark, case, 10**k) if 10**k <= n and case in MADE else counted_here(case, 10**k)
                for case in PLANE
                for k in tens
            ]
        finally:
            spark.stop()
            for process in (*cluster.workers, cluster.master):
                cluster.kill(process)
    result = {
        "cores": os.cpu_count(),
        "epsilon": EPSILON,
        "rounds": ROUNDS,
        "steady": STEADY,
        "compared": compared,
        "sizes": sizes,
        "reached": reached,
    }
    if len(asked.cases) == 1 + len(PLANE):
        write_page(json.loads(json.dumps(result)))


if __name__ == "__main__":
    main()
