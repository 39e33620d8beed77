"""Parquet files that workers read themselves, and those that Spark has to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import headwater as hw
from headwater.run import FolderSink, Run, RunConfig, Schedule
from headwater.secret.batch import Batch
from headwater.spark import count, update
from headwater.spark.files import Group, UnreadableError, footers, read_groups
from headwater.spark.frame import Placed, place
from tests.spark.support import QUIET, Some, check_update, releases

pytestmark = QUIET
SCHEMA = hw.Schema(size=hw.Number(0, 1), age=hw.Integer(0, 9, missing=True), paid=hw.Category("card", "cash"))
DDL = "size double, age bigint, paid string"


def table(n: int, seed: int = 1) -> pa.Table:
    """Records that repeat, some of them beyond bounds or missing."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "size": rng.integers(-1, 3, n) / 1.5,
            "age": pa.array([None if one == 3 else one for one in rng.integers(0, 5, n).tolist()], pa.int64()),
            "paid": rng.choice(["card", "cash"], n).tolist(),
        }
    )


def test_columns_are_known_if_they_come_from_files_as_they_are(spark: Some, tmp_path: Path) -> None:
    """Of frames and of streams; not what an expression makes of them, or two sources together."""
    parquet.write_table(table(50), tmp_path / "a.parquet")

    def plain(frame: Some) -> bool:
        return place(frame, SCHEMA).plain

    batch = spark.read.parquet(str(tmp_path))
    stream = spark.readStream.schema(DDL).parquet(str(tmp_path))
    for frame in (batch, stream):
        chosen = frame.select("paid", "age", "size")
        assert plain(chosen)
        assert not plain(frame.selectExpr("paid", "age", "size * 1 AS size"))
        assert not plain(frame.selectExpr("upper(paid) AS paid", "age", "size").select("paid", "age", "size"))
        assert not plain(chosen.union(chosen))
    batch.write.csv(str(tmp_path / "csv"))
    read = spark.read.schema(DDL)
    assert not plain(read.csv(str(tmp_path / "csv")))
    assert not plain(spark.readStream.schema(DDL).csv(str(tmp_path / "csv")))


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one.set_column(0, "size", one["size"].cast(pa.float32())),
        lambda one: one.rename_columns(["SIZE", "age", "paid"]),
        lambda one: one.drop_columns(["age"]),
    ],
    ids=["another type", "another case", "without a column"],
)
def test_files_that_are_not_as_the_frame_says_are_read_by_spark(spark: Some, tmp_path: Path, change: Some) -> None:
    """What was counted until then is not counted twice."""
    for number, one in enumerate([table(800), change(table(300))]):
        parquet.write_table(one, tmp_path / f"{number}.parquet")
    frame = spark.read.schema(DDL).parquet(str(tmp_path))
    check_update(frame, SCHEMA, frame.toArrow(), "cascade")


def test_what_is_wrong_is_said_without_a_value(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no such file at all")
    for name in ("a", "b"):
        with pytest.raises(UnreadableError, match=r"^[A-Za-z]+$"):
            list(read_groups([Group(f"{tmp_path}/{name}.parquet", 0)], ["paid"]))


def test_a_file_that_workers_cannot_read_is_read_by_spark(
    spark: Some, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that only the driver sees."""
    parquet.write_table(table(800), tmp_path / "a.parquet")

    def elsewhere(placed: Placed) -> Some:
        found = footers(placed)
        return found and (found[0], [[one._replace(path="/nowhere") for one in part] for part in found[1]])

    monkeypatch.setattr(count, "footers", elsewhere)
    check_update(spark.read.parquet(str(tmp_path)), SCHEMA, table(800), "cascade")


@pytest.mark.parametrize("mechanism", ["cascade", "marginals"])
def test_workers_that_read_files_give_what_one_process_gives(
    spark: Some, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: str
) -> None:
    """Files of different sizes, several in a partition and cut into splits, in two batches of one run.

    Workers read the row groups that Spark would, or there would be other records than footers say.
    """
    by_workers, counted = list[bool](), count._counted

    def watched(placed: Some, counter: Some) -> Some:
        by_workers.append(counter.files is not None)
        return counted(placed, counter)

    monkeypatch.setattr(count, "_counted", watched)
    spark.conf.set("spark.sql.files.maxPartitionBytes", "16k")
    spark.conf.set("spark.sql.files.openCostInBytes", "1k")
    make: dict[str, Any] = {"epsilon": 1.0, "mechanism": mechanism, "seed": 3}
    synth, plain = hw.Synthesizer(SCHEMA, **make), hw.Synthesizer(SCHEMA, **make)
    for batch, sizes in enumerate([(700, 1, 9000, 40), (2200, 17, 5000)]):
        folder = tmp_path / str(batch)
        folder.mkdir()
        for number, n in enumerate(sizes):
            records = table(n, 10 * batch + number)
            parquet.write_table(records, folder / f"{number}.parquet", row_group_size=1000)
            plain.update(records)
        assert update(synth, spark.read.parquet(str(folder))) == plain.t
    assert by_workers == [True, True]
    assert synth.tally == plain.tally
    assert set(synth.tally.columns["size"]) == {"clipped"}
    assert np.array_equal(synth.release().points(), plain.release().points())


@pytest.mark.parametrize("digits", [1, 9])
def test_batches_that_are_taken_at_once_give_what_one_process_gives(
    spark: Some, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digits: int
) -> None:
    """In the plane, at an ε with two timescales of fast buckets; records that repeat and that do not.

    Of three batches the second has a release inside, and is counted in the fastest buckets.
    """
    config = RunConfig(hw.unit_cube(2), 60.0, "cascade", 3)
    runs = [
        Run.open(config, FolderSink(tmp_path / name), state=tmp_path / f"{name}.state", schedule=Schedule(records=4000))
        for name in ("plain", "spark")
    ]
    rng, untils = np.random.default_rng(7), list[int | None]()
    take = Run.take

    def watched(run: Run, table: object, *arguments: Some, **others: Some) -> int:
        if isinstance(table, Batch):
            untils.append(table.until)
        return take(run, table, *arguments, **others)

    monkeypatch.setattr(Run, "take", watched)
    for batch, n in enumerate((3000, 6000, 3000)):
        points, folder = rng.random((n, 2)).round(digits), tmp_path / str(batch)
        folder.mkdir()
        for number, part in enumerate(np.array_split(points, 3)):
            parquet.write_table(pa.table({"x": part[:, 0], "y": part[:, 1]}), folder / f"{number}.parquet")
        runs[0].take(points)
        update(runs[1], spark.read.parquet(str(folder)))
        for run in runs:
            run.publish_if_due()
    assert untils == [3000, None, 12_000]
    for run in runs:
        run.close()
    assert len(releases(tmp_path / "plain")) == 3
    assert releases(tmp_path / "plain") == releases(tmp_path / "spark")


def test_a_bad_record_among_many_equal_ones_is_named(spark: Some, tmp_path: Path) -> None:
    records = table(5000).set_column(2, "paid", pa.array(["card"] * 4321 + ["shells"] + ["cash"] * 678))
    parquet.write_table(records, tmp_path / "a.parquet")
    synth = hw.Synthesizer(SCHEMA, epsilon=1.0, mechanism="cascade")
    with pytest.raises(hw.TableError, match=r'a\.parquet, row 4321, column "paid"') as refused:
        update(synth, spark.read.parquet(str(tmp_path)))
    assert "shells" not in str(refused.value)
    assert synth.t == 0
    assert update(synth, spark.read.parquet(str(tmp_path)), bad_rows="null") == 5000
    assert synth.tally.bad == 1
