"""Parquet files that workers read themselves, and those that Spark has to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import headwater as hw
from headwater.spark import update
from headwater.spark.files import Files, Split, UnreadableError
from headwater.spark.frames import place
from headwater.spark.grouping import Repeats
from headwater.spark.stream import _repeats
from tests.spark.support import QUIET

pytestmark = QUIET
SCHEMA = hw.Schema(size=hw.Number(0, 9), paid=hw.Category("card", "cash", missing=True))
DDL = "size double, paid string"


def table(n: int) -> pa.Table:
    rng = np.random.default_rng(n)
    paid = [["card", "cash", None][number] for number in rng.integers(0, 3, n)]
    return pa.table({"size": rng.integers(0, 9, n) / 2, "paid": paid})


def columns(frame: Any) -> Any:  # noqa: ANN401
    found = place(frame, SCHEMA).files
    return found and {name: of_file for name, (of_file, _) in found.items()}


def test_columns_are_known_by_their_names_in_files(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    """Of frames and of streams; not what an expression makes of them, or two sources together."""
    parquet.write_table(table(50).rename_columns(["volume", "paid"]), tmp_path / "a.parquet")
    batch = spark.read.parquet(str(tmp_path))
    stream = spark.readStream.schema("volume double, paid string").parquet(str(tmp_path))
    for frame in (batch, stream):
        renamed = frame.selectExpr("paid", "volume AS size")
        assert columns(renamed) == {"size": "volume", "paid": "paid"}
        assert columns(frame.selectExpr("paid", "volume * 1 AS size")) is None
        assert columns(frame.selectExpr("upper(paid) AS paid", "volume AS size").select("paid", "size")) is None
        assert columns(renamed.union(renamed)) is None
    batch.write.csv(str(tmp_path / "csv"))
    read = spark.read.schema(DDL)
    assert columns(read.csv(str(tmp_path / "csv"))) is None
    assert columns(spark.readStream.schema(DDL).csv(str(tmp_path / "csv"))) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one.set_column(0, "size", one["size"].cast(pa.float32())),
        lambda one: one.rename_columns(["SIZE", "paid"]),
        lambda one: one.drop_columns(["paid"]),
    ],
    ids=["another type", "another case", "without a column"],
)
def test_files_that_are_not_as_the_frame_says_are_read_by_spark(spark: Any, tmp_path: Path, change: Any) -> None:  # noqa: ANN401
    """Once per run it is tried; what was counted until then is not counted twice."""
    for number, one in enumerate([table(800), change(table(300))]):
        parquet.write_table(one, tmp_path / f"{number}.parquet")
    frame = spark.read.schema(DDL).parquet(str(tmp_path))
    synth, plain = (hw.Synthesizer(SCHEMA, epsilon=1.0, mechanism="cascade", seed=3) for _ in range(2))
    plain.update(frame.toArrow())
    assert update(synth, frame) == 1100
    assert not _repeats(synth).readable
    assert synth.tally == plain.tally
    assert np.array_equal(synth.release().points(), plain.release().points())


def test_what_is_wrong_is_said_without_a_value(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no such file at all")
    kinds = {"paid": ("paid", "string")}
    for name in ("a", "b"):
        files = Files.of([[Split(f"file:{tmp_path}/{name}.parquet", 0, 99)]], kinds)
        assert files is not None
        with pytest.raises(UnreadableError, match=r"^[A-Za-z]+$"):
            list(files.read(0))
    assert Files.of([[Split("hdfs://host/a", 0, 99)]], kinds) is None
    assert Files.of([[Split("file:/a", 0, 99)]], {"paid": ("paid", "date")}) is None
    assert Files.of(None, kinds) is None
    assert Repeats().readable
