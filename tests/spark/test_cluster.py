"""On a real cluster: whatever Spark does, releases are those of one process that takes the records in order."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from headwater.run import FolderSink, Run, RunConfig, Schedule
from headwater.spark import count, stream, update
from headwater.spark.files import footers
from headwater.spark.frame import Placed, place, survey
from headwater.spark.stream import POSITION, OtherQueryError
from tests.spark.cluster import Cluster
from tests.spark.support import (
    CASES,
    QUIET,
    Some,
    by_stream,
    check_update,
    ddl,
    one_process,
    records,
    releases,
    write_files,
)
from tests.support.runs import TABLE

pytestmark = QUIET


def files(spark: Some, schema: Some, folder: Path, kind: str, **options: str) -> Some:
    """A stream of files."""
    return spark.readStream.schema(ddl(schema)).options(**options).format(kind).load(str(folder))


@pytest.mark.parametrize("case", CASES)
def test_a_stream_of_files_gives_what_one_process_gives(spark: Some, tmp_path: Path, case: str) -> None:
    """Several files a micro-batch, splits far smaller than files, releases due inside of buckets and micro-batches."""
    schema, mechanism = CASES[case]
    kind = "parquet" if "cube" in case else "csv"
    tables = [records(schema, n, n) for n in (700, 1, 1300, 40, 2200)]
    write_files(tmp_path / "in", tables, kind)
    expected = one_process(schema, mechanism, tables, tmp_path / "one", 900)
    spark.conf.set("spark.sql.files.maxPartitionBytes", "8k")
    frame = files(spark, schema, tmp_path / "in", kind, maxFilesPerTrigger="2")
    assert by_stream(frame, schema, mechanism, tmp_path, 900) == expected
    assert len(expected) == 5
    with Run.resume(tmp_path / "state", FolderSink(tmp_path / "out")) as run:
        assert run.position(POSITION)["batch"] == 2


def test_micro_batches_of_parquet_are_read_once(
    spark: Some,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Footers say how many records a split has, and what they say is what Spark counts."""
    schema, found = hw.unit_cube(2), list[Any]()
    write_files(tmp_path / "in", [records(schema, n, n) for n in (700, 1300)], "parquet")

    def both(placed: Placed) -> Some:
        said = footers(placed)
        assert said is not None
        for stretches in (said[0], survey(placed)):
            files = {one.source[0][-16:] for one in stretches}
            found.append({file: sum(one.records for one in stretches if one.source[0][-16:] == file) for file in files})
        return said

    monkeypatch.setattr(count, "footers", both)
    spark.conf.set("spark.sql.files.maxPartitionBytes", "8k")
    frame = files(spark, schema, tmp_path / "in", "parquet")
    by_stream(frame, schema, "auto", tmp_path, 900)
    of_footers, counted = found
    assert of_footers == counted
    assert sorted(counted.values()) == [700, 1300]


def messages(schema: Some, n: int, seed: int, order: Some = None) -> tuple[pa.Table, pa.Table]:
    """Records as Kafka's source gives them, offsets with gaps, in some order; and in that of partition and offset."""
    rng, table = np.random.default_rng(seed), records(schema, n, seed)
    partition, offset = rng.integers(0, 3, n), np.empty(n, dtype=np.int64)
    for number in range(3):
        offset[partition == number] = 17 + np.cumsum(rng.integers(1, 4, (partition == number).sum()))
    whole = table.append_column("topic", pa.array(["a"] * n))
    whole = whole.append_column("partition", pa.array(partition, pa.int32())).append_column("offset", pa.array(offset))
    in_order = np.lexsort((offset, partition))
    return whole.take(in_order if order is None else order), table.take(in_order)


@pytest.mark.parametrize("case", ["cube, cascade", "table, marginals"])
def test_the_order_of_a_topic_decides_however_a_frame_is_cut(spark: Some, case: str) -> None:
    """Shuffled, partitioned by value, sorted by value: the same places, so the same release."""
    schema, mechanism = CASES[case]
    mixed, in_order = messages(schema, 3000, 1)
    frame = spark.createDataFrame(mixed)
    value = frame.columns[0]
    for cut in (frame, frame.repartition(3, value), frame.orderBy(value)):
        check_update(cut, schema, in_order, mechanism)


@pytest.mark.parametrize("case", ["cube, marginals", "table, cascade"])
def test_a_stream_with_offsets_gives_what_one_process_gives(spark: Some, tmp_path: Path, case: str) -> None:
    """Micro-batches as Kafka's source gives them: partitions alternate, and in each of them offsets rise."""
    schema, mechanism = CASES[case]
    tables = list[pa.Table]()
    for number in range(2):
        mixed, in_order = messages(schema, 1500, number, np.random.default_rng(number).permutation(1500))
        (tmp_path / "in").mkdir(exist_ok=True)
        pa.parquet.write_table(mixed, tmp_path / "in" / f"{number}.parquet", row_group_size=200)
        os.utime(tmp_path / "in" / f"{number}.parquet", (1_700_000_000 + number,) * 2)
        tables.append(in_order)
    expected = one_process(schema, mechanism, tables, tmp_path / "one", 800)
    kind = ddl(schema) + ", topic string, partition int, offset bigint"
    frame = spark.readStream.schema(kind).option("maxFilesPerTrigger", "1").parquet(str(tmp_path / "in"))
    assert by_stream(frame, schema, mechanism, tmp_path, 800) == expected


def test_without_an_order_a_shuffled_frame_is_refused(spark: Some) -> None:
    frame = spark.createDataFrame(records(hw.unit_cube(2), 100, 1))
    synth = hw.Synthesizer(hw.unit_cube(2), epsilon=1.0)
    assert update(synth, frame) == 100
    sort: Any = lambda batches: (batch.sort_by("x") for batch in batches)  # noqa: E731 - Spark's workers have no tests
    refused = {
        "shuffled": frame.repartition(2),
        "sorted": frame.orderBy("x"),
        "distinct": frame.distinct(),
        "sorted and kept": frame.orderBy("x").localCheckpoint(),
        "an RDD": frame.rdd.sortBy(lambda row: row.x).toDF(),
        "a function": frame.mapInArrow(sort, "x double, y double"),
        "filtered": frame.filter("x < 0.5"),
        "exploded": frame.selectExpr("x", "explode(array(y, y)) AS y"),
    }
    for moved in refused.values():
        with pytest.raises(hw.TableError, match="may depend on values; name columns"):
            update(synth, moved)
    with pytest.raises(hw.TableError, match="the column is missing"):
        update(
            hw.Synthesizer(TABLE, epsilon=1.0),
            spark.createDataFrame(records(TABLE, 5, 1)).withColumnRenamed("age", "a"),
        )
    assert synth.t == 100


def test_columns_of_a_frame_are_left_out_if_the_schema_says_so(spark: Some) -> None:
    frame = spark.createDataFrame(pa.table({"x": [0.5, 0.25], "rownames": [7, 8]}))
    schema = hw.Schema(x=hw.Number(0, 1))
    with pytest.raises(hw.TableError, match=r'"rownames".*ignore_extra = true'):
        place(frame, schema)
    assert place(frame, schema.with_reading(ignore_extra=True)).frame.columns == ["x"]


def test_files_in_partitions_of_a_table_are_refused_without_an_order(spark: Some, tmp_path: Path) -> None:
    """Their paths hold values; a stream of them is refused when the first micro-batch shows them."""
    table = records(TABLE, 100, 1).append_column("place", pa.array(range(100)))
    spark.createDataFrame(table).write.partitionBy("paid").parquet(str(tmp_path / "in"))
    synth = hw.Synthesizer(TABLE, epsilon=1.0)
    frame = spark.read.schema(ddl(TABLE) + ", place bigint").parquet(str(tmp_path / "in"))
    with pytest.raises(hw.TableError, match=r"names hold values.*order="):
        update(synth, frame.drop("place"))
    assert update(synth, frame, order=["place"]) == 100
    flowing = spark.readStream.schema(ddl(TABLE)).parquet(str(tmp_path / "in"))
    query = stream(flowing, TABLE, epsilon=1.0, state=tmp_path / "s", out=tmp_path / "out", every=50)
    with pytest.raises(hw.TableError, match=r"names hold values.*order="):
        query.wait()
    query.stop()
    assert query.run.t == 0


def test_an_older_state_is_noticed_by_a_table_as_well(
    spark: Some, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is put back with its lock file, into the same files: no snapshot has taken the place of one."""
    from headwater.run.lock import StateCopiedError
    from headwater.spark import TableSink

    (tmp_path / "state").mkdir()
    sink, config = TableSink(spark, str(tmp_path / "releases")), RunConfig(TABLE, 1.0, seed=3)
    assert sink.location == f"spark:file:{tmp_path}/releases"
    with Run.open(config, sink, state=tmp_path / "state" / "a") as run:
        run.take(records(TABLE, 10, 1))
    before = {path: path.read_bytes() for path in (tmp_path / "state").iterdir()}
    monkeypatch.setattr("headwater.run.state.State.snapshot", lambda *_: None)
    with Run.open(config, sink, state=tmp_path / "state" / "a") as run:
        run.take(records(TABLE, 60, 2))
        run.publish()
        assert sink.newest(run.run_id) == 70
        assert sink.newest("another") == 0
    for path in (tmp_path / "state").iterdir():
        path.write_bytes(before[path]) if path in before else path.unlink()
    with pytest.raises(StateCopiedError, match=r"older version of this state.*made of 70 records"):
        Run.open(config, sink, state=tmp_path / "state" / "a")


def test_a_frame_without_an_order_is_taken_by_partition_and_row(spark: Some) -> None:
    table = records(hw.unit_cube(2), 5000, 2)
    frame = spark.createDataFrame(table)
    assert frame.rdd.getNumPartitions() > 1
    check_update(frame, hw.unit_cube(2), pa.Table.from_pylist([row.asDict() for row in frame.collect()]))


def test_a_replayed_micro_batch_is_not_counted_again(spark: Some, tmp_path: Path) -> None:
    """Spark lost what it knew of the last two micro-batches, and reads them again in other partitions."""
    schema, mechanism = CASES["table, cascade"]
    tables = [records(schema, n, n) for n in (900, 1100, 700)]
    expected = one_process(schema, mechanism, tables, tmp_path / "one", 600)
    write_files(tmp_path / "in", tables[:2], "csv")
    checkpoint = tmp_path / "state.checkpoint"

    def again() -> dict[str, bytes]:
        frame = files(spark, schema, tmp_path / "in", "csv", maxFilesPerTrigger="1")
        return by_stream(frame, schema, mechanism, tmp_path, 600)

    spark.conf.set("spark.sql.files.maxPartitionBytes", "8k")
    again()
    assert sorted(path.name for path in (checkpoint / "commits").glob("[0-9]*")) == ["0", "1"]
    for path in (checkpoint / "commits").glob("*1*"):
        path.unlink()
    write_files(tmp_path / "in", tables, "csv")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "128m")
    found = again()
    assert {name: data for name, data in found.items() if name in expected} == expected
    shutil.rmtree(checkpoint)
    with pytest.raises(OtherQueryError, match="fed by another query"):
        again()
    with Run.resume(tmp_path / "state", FolderSink(tmp_path / "out")) as run:
        assert run.t == 2700


def test_bad_rows_follow_the_policy_and_say_where_they_are(spark: Some, cluster: Cluster, tmp_path: Path) -> None:
    """Values are in no log of Spark and in none of its event logs, which its UI is made from."""
    tables = [records(TABLE, 50, 1), records(TABLE, 60, 2)]
    paid = tables[1].column("paid").to_pylist()
    paid[7] = "mysterious-4711"
    tables[1] = tables[1].set_column(2, "paid", pa.array(paid))
    how: dict[str, Any] = {"epsilon": 1.0, "every": 40, "trigger": {"availableNow": True}, "seed": 3}
    how |= {"mechanism": "cascade"}
    spark.conf.set("spark.sql.files.maxPartitionBytes", "128m")
    for policy in ("stop", "null"):
        write_files(tmp_path / "in", tables, "csv")
        folder = tmp_path / policy
        frame = files(spark, TABLE, tmp_path / "in", "csv", maxFilesPerTrigger="1")
        query = stream(frame, TABLE, state=folder / "state", out=folder / "out", bad_rows=policy, **how)
        if policy == "stop":
            way_out = r'part-001.csv, row 7, column "paid": .*go on without such rows: bad_rows="null"'
            with pytest.raises(hw.TableError, match=way_out) as caught:
                query.wait()
            assert "4711" not in str(caught.value)
            assert query.run.t == 50
            query.stop()
            continue
        query.wait()
        assert (query.run.t, query.run.tally.bad) == (110, 1)
        query.stop()
        assert releases(folder / "out") == one_process(TABLE, "cascade", tables, folder / "one", 40, bad_rows=policy)
    with pytest.raises(ValueError, match='"stop" or "null"'):
        stream(frame, TABLE, state=tmp_path / "q", out=tmp_path / "r", bad_rows="quarantine", **how)
    found = [path for path in cluster.folder.rglob("*") if path.is_file() and b"mysterious" in path.read_bytes()]
    assert found == []


def test_a_release_is_a_table_of_spark(spark: Some) -> None:
    synth = hw.Synthesizer(TABLE, epsilon=1.0, seed=3)
    synth.update(records(TABLE, 500, 1))
    frame = synth.release().to_spark(spark)
    assert frame.columns == list(TABLE.names)
    assert frame.count() == 500
    assert sorted(map(tuple, frame.select("paid", "member").distinct().collect())) == sorted(
        {(r["paid"], r["member"]) for r in synth.release().sample(kind="records")}
    )


def test_releases_as_a_table(spark: Some, tmp_path: Path) -> None:
    """Published once: a second attempt, as after a kill, leaves the table as it is."""
    from headwater.spark import TableSink

    sink = TableSink(spark, str(tmp_path / "releases"))
    with Run.open(RunConfig(TABLE, 1.0, seed=3), sink, state=tmp_path / "state", schedule=Schedule(records=100)) as run:
        for number in range(3):
            run.take(records(TABLE, 80, number))
            found = run.publish_if_due()
        release = found[-1].release
        again = sink.publish(release, run.run_id)
        assert again.sha256 == found[-1].sha256
    frame = spark.read.parquet(str(tmp_path / "releases"))
    assert {(row["release"], row["count"]) for row in frame.groupBy("release").count().collect()} == {
        (100, 100),
        (200, 200),
    }
    other = Run.open(RunConfig(TABLE, 1.0, seed=4), FolderSink(tmp_path / "x"), state=tmp_path / "other")
    with other, pytest.raises(hw.FileRefusedError, match="another run"):
        sink.begin(other.run_id)


def test_people_are_hashed_by_executors_and_capped_by_the_owner(spark: Some, cluster: Cluster, tmp_path: Path) -> None:
    """As one process that takes the same records: which records count depends on the order. With a δ as well.

    Nobody is named in a log or an event log of Spark.
    """
    person, rng = hw.Person("who", records=3), np.random.default_rng(6)
    tables = list[pa.Table]()
    for number in range(3):
        table = records(TABLE, 400, number)
        tables.append(table.append_column("who", pa.array([f"secret-{i}" for i in rng.integers(0, 150, 400)])))
    write_files(tmp_path / "in", tables, "parquet")
    config = RunConfig(TABLE, 1.0, "marginals", 3, 1e-9, person)
    with Run.open(config, FolderSink(tmp_path / "one"), state=tmp_path / "o", schedule=Schedule(records=500)) as run:
        for table in tables:
            run.take(table)
            run.publish_if_due()
        run.publish()
        capped = run.tally.capped
    assert capped > 700
    frame = spark.readStream.schema(ddl(TABLE) + ", who string").parquet(str(tmp_path / "in"))
    how: dict[str, Any] = {"delta": 1e-9, "person": person}
    assert by_stream(frame, TABLE, "marginals", tmp_path, 500, **how) == releases(tmp_path / "one")
    with Run.resume(tmp_path / "state", FolderSink(tmp_path / "out")) as run:
        assert (run.t, run.tally.capped) == (1200, capped)
    synth = hw.Synthesizer(TABLE, epsilon=1.0, delta=1e-9, mechanism="marginals", seed=3, person=person)
    update(synth, spark.read.parquet(str(tmp_path / "in")))
    assert synth.capped == capped
    assert [path for path in cluster.folder.rglob("*") if path.is_file() and b"secret-" in path.read_bytes()] == []


def test_a_frame_with_a_delta_has_the_buckets_of_its_run(spark: Some) -> None:
    table = records(TABLE, 3000, 1)
    check_update(spark.createDataFrame(table), TABLE, table, "marginals", 1e-9)


def test_places_that_cannot_be_are_refused(spark: Some) -> None:
    frame = spark.createDataFrame(messages(TABLE, 50, 1)[0])
    synth = hw.Synthesizer(TABLE, epsilon=1.0)
    wrong = {
        "same place": (frame.withColumn("offset", frame["offset"] % 7), None),
        "an order column is null": (frame.selectExpr("* EXCEPT (offset)", "NULLIF(offset, 20) AS offset"), None),
        "not of whole numbers": (frame, ["topic"]),
        "no such column": (frame, ["nowhere"]),
    }
    for message, (one, order) in wrong.items():
        with pytest.raises(hw.TableError, match=message):
            update(synth, one if order is None else one.drop("partition", "offset"), order=order)
    assert synth.t == 0


def test_more_than_the_driver_takes_is_refused_with_a_way_out(spark: Some) -> None:
    """Spark ends such a job; its words name tasks and bytes, and not what can be done."""
    schema, settings = hw.unit_cube(2), spark.sparkContext._jsc.sc().conf()
    frame, synth = spark.createDataFrame(records(schema, 20_000, 1)), hw.Synthesizer(schema, epsilon=1.0, seed=3)
    settings.set("spark.driver.maxResultSize", "20k")
    try:
        with pytest.raises(hw.TableError, match=r"fewer records at a time.*or raise spark\.driver\.maxResultSize"):
            update(synth, frame)
    finally:
        settings.remove("spark.driver.maxResultSize")
    assert synth.t == 0
    assert update(synth, frame) == 20_000
