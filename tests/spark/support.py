"""Streams of files for Spark, and the same records for one process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import headwater as hw
from headwater import spark
from headwater.public.schema import Schema
from headwater.run import FolderSink, Run, RunConfig, Schedule
from tests.support.runs import TABLE

Some = Any
"""A schema of a table or a cube, or an object of Spark."""
CASES: dict[str, tuple[Some, str]] = {
    "cube, cascade": (hw.unit_cube(2), "cascade"),
    "cube, marginals": (hw.unit_cube(2), "marginals"),
    "table, cascade": (TABLE, "cascade"),
    "table, marginals": (TABLE, "marginals"),
}
QUIET = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets of py4j
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
"""Marks of tests that use Spark: warnings of its own."""
DDL = {
    "cube": "x double, y double",
    "table": "size double, age bigint, paid string, member boolean",
}


def records(schema: Some, n: int, seed: int) -> pa.Table:
    """Records that are made up."""
    rng = np.random.default_rng(seed)
    if not isinstance(schema, Schema):
        return pa.table({"x": rng.beta(2, 5, n), "y": rng.beta(2, 2, n)})
    return pa.table(
        {
            "size": rng.gamma(2, 1.2, n).round(2).clip(0, 10),
            "age": pa.array([None if age > 110 else int(age) for age in rng.integers(0, 121, n)], pa.int64()),
            "paid": rng.choice(["card", "cash", "other"], n).tolist(),
            "member": (rng.random(n) < 0.3).tolist(),
        }
    )


def ddl(schema: Some) -> str:
    return DDL["table" if isinstance(schema, Schema) else "cube"]


def write_files(folder: Path, tables: list[pa.Table], kind: str) -> None:
    """One file for each table, oldest first, the way Spark orders them: by time, then by name."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(tables):
        path = folder / f"part-{number:03d}.{kind}"
        if kind == "csv":
            csv.write_csv(table, path, csv.WriteOptions(include_header=False))
        else:
            parquet.write_table(table, path, row_group_size=500)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def as_input(schema: Some, table: pa.Table) -> Some:
    """The table; of a cube an array."""
    return table if isinstance(schema, Schema) else np.column_stack([table.column(name) for name in ("x", "y")])


def one_process(
    schema: Some,
    mechanism: str,
    tables: list[pa.Table],
    folder: Path,
    every: int,
    *,
    seed: int = 3,
    bad_rows: str | None = None,
) -> dict[str, bytes]:
    """The releases of one process that takes the records in order."""
    config = RunConfig(schema, 1.0, mechanism, seed)
    schedule = Schedule(records=every)
    with Run.open(config, FolderSink(folder / "out"), state=folder / "state", schedule=schedule) as run:
        for table in tables:
            run.take(as_input(schema, table), bad_rows=bad_rows)
            run.publish_if_due()
        run.publish()
    return releases(folder / "out")


def releases(out: Path) -> dict[str, bytes]:
    """The bytes of every published table."""
    return {path.parent.name: path.read_bytes() for path in sorted(out.glob("release-*/*.parquet"))}


def by_stream(frame: Some, schema: Some, mechanism: str, folder: Path, every: int, **how: Any) -> dict[str, bytes]:  # noqa: ANN401
    """The releases of a stream that is read to its end."""
    fixed: dict[str, Any] = {"epsilon": 1.0, "seed": 3, "trigger": {"availableNow": True}}
    fixed |= {"every": every, "mechanism": mechanism}
    with spark.stream(frame, schema, state=folder / "state", out=folder / "out", **(fixed | how)) as query:
        query.wait()
    return releases(folder / "out")


def check_update(frame: Some, schema: Some, table: pa.Table, mechanism: str = "auto", delta: float = 0.0) -> None:
    """That a frame gives what one process gives of a table."""
    make: dict[str, Any] = {"epsilon": 1.0, "mechanism": mechanism, "seed": 3, "delta": delta}
    synth, plain = (hw.Synthesizer(schema, **make) for _ in range(2))
    plain.update(as_input(schema, table))
    assert spark.update(synth, frame) == plain.t
    assert synth.tally == plain.tally
    assert np.array_equal(synth.release().points(), plain.release().points())
