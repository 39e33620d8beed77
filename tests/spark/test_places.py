"""The numbers of records: a function of where they stand in their source, and of nothing else."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.run.config import RunConfig
from headwater.secret.batch import Batch, side_by_side
from headwater.spark.count import COUNTED, Counter, pack, synthesizer, unpack
from headwater.spark.frame import MARK, PART, Placed, ShuffledError, Stretch, by_part, ordered, stretch_of
from headwater.spark.stream import JAVA, PYSPARK, missing, session

CONFIG = RunConfig(hw.unit_cube(2), 8.0, "cascade")
NULL = np.iinfo(np.uint64).max


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=8), seed=st.integers(0, 10**6), t=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_numbers_are_those_of_the_source_however_it_is_cut(sizes: list[int], seed: int, t: int) -> None:
    """Offsets of a topic with gaps, cut anywhere and dealt to partitions in any order."""
    rng = np.random.default_rng(seed)
    offsets = np.cumsum(rng.integers(1, 4, sum(sizes)))
    edges = np.cumsum([0, *sizes])
    stretches, rows = list[Stretch](), dict[int, int]()
    for place in rng.permutation(len(sizes)).tolist():
        part = int(rng.integers(3))
        own = offsets[edges[place] : edges[place + 1]]
        stretches.append(Stretch(part, rows.get(part, 0), ("a", 0), int(own[0]), int(own[-1]), len(own)))
        rows[part] = rows.get(part, 0) + len(own)
    found = ordered(stretches, t)
    assert [one.number for one in found] == [t + int(edge) for edge in edges[:-1]]
    assert sorted(one.number for those in by_part(found).values() for one in those) == [one.number for one in found]


def test_what_is_not_in_order_is_noticed() -> None:
    one = Stretch(0, 0, ("a",), 0, 9, 10)
    with pytest.raises(ShuffledError):
        ordered([one, Stretch(1, 0, ("a",), 5, 20, 10)], 0)
    with pytest.raises(hw.TableError, match="same place"):
        ordered([one, Stretch(1, 0, ("a",), 9, 20, 10)], 0)
    with pytest.raises(ShuffledError):
        by_part([one, Stretch(0, 5, ("b",), 0, 9, 10)])


def work(monkeypatch: pytest.MonkeyPatch, counter: Counter, table: pa.Table, size: int) -> tuple[dict[str, Any], Any]:
    """What a worker says about a partition, and the counts that it gives, without Spark."""
    context = SimpleNamespace(partitionId=lambda: 0)
    pyspark = SimpleNamespace(TaskContext=SimpleNamespace(get=lambda: context))
    monkeypatch.setitem(sys.modules, "pyspark", pyspark)
    found = pa.Table.from_batches(counter(table.to_batches(max_chunksize=size)), COUNTED)
    (note,) = found.column("notes").drop_null().to_pylist()
    counted = unpack(found, None)
    return json.loads(note), side_by_side(counted) if counted else None


def counter(*stretches: Stretch, order: tuple[str, str] | None = None) -> Counter:
    return Counter(CONFIG, ("x", "y"), stretches={0: stretches}, order=order)


def stretch(records: int, number: int = 0, mark: int = 0) -> Stretch:
    return Stretch(0, 0, (), 0, 0, records, "partition 0", mark, number)


def points(n: int) -> pa.Table:
    rng = np.random.default_rng(n)
    return pa.table({"x": rng.random(n).round(1), "y": rng.random(n).round(1)})


def test_a_worker_counts_what_encode_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stretches of a partition whose numbers are far apart, the second before the first."""
    table = points(500)
    note, counts = work(monkeypatch, counter(stretch(300, 1000), stretch(200, 50)), table, 70)
    numbers = np.concatenate((1000 + np.arange(300), 50 + np.arange(200)))
    expected = synthesizer(CONFIG).encode(np.column_stack([table["x"], table["y"]]), numbers)
    assert counts.starts.tolist() == expected.starts.tolist()
    for name in ("rows", "counts"):
        assert np.array_equal(getattr(counts, name), getattr(expected, name))
    assert (note["records"], note["wrong"], note["error"]) == (500, None, None)


@pytest.mark.parametrize(
    ("places", "marks", "wrong"),
    [
        ([4, 5, 9], [7, 7, 7], None),
        ([4, 9, 5], [7, 7, 7], "shuffled"),
        ([4, 5, 5], [7, 7, 7], "same"),
        ([4, 5, 9], [7, 7, 8], "shuffled"),
    ],
)
def test_a_worker_notices_another_order(
    monkeypatch: pytest.MonkeyPatch, places: list[int], marks: list[int], wrong: str | None
) -> None:
    table = points(3).append_column("mark", pa.array(marks)).append_column("place", pa.array(places))
    for size in (3, 1):
        worker = counter(stretch(3, mark=7), order=("mark", "place"))
        assert work(monkeypatch, worker, table, size)[0]["wrong"] == wrong


def test_a_worker_notices_more_records_and_says_how_many_it_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    for expected, wrong in ((4, "shuffled"), (6, None)):
        note, _ = work(monkeypatch, counter(stretch(expected)), points(5), 5)
        assert (note["records"], note["wrong"]) == (5, wrong)


def test_an_error_says_which_row_of_which_stretch_and_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    table = points(20).set_column(0, "x", pa.array([0.5] * 13 + [47.11] + [0.5] * 6))
    note, _ = work(monkeypatch, counter(stretch(10), stretch(10, 10)), table, 4)
    assert (note["number"], note["error"]["row"], note["error"]["file"]) == (10, 3, "partition 0")
    assert "47" not in json.dumps(note)


def test_counts_come_back_as_they_were() -> None:
    """Null records too, whose number fits into no short word."""
    synth = synthesizer(CONFIG)
    null = Batch(np.array([[NULL]], dtype=np.uint64), np.array([300]), np.array([0]))
    given = Batch.merge([synth.encode(np.full((3, 2), place), 0) for place in (0.1, 0.9)] + [null])
    found = Batch.merge(unpack(pa.Table.from_batches(pack(given)), None))
    assert np.array_equal(found.rows, given.rows)
    assert found.counts.tolist() == given.counts.tolist() == [3, 3, 300]


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("file:///trips/region=north/a.parquet", True),
        ("s3://bucket/trips/year=2024/month=1/a.csv", True),
        ("file:///trips/region%3Dnorth/a.parquet", False),
        ("file:///trips/a=b.parquet", False),
        ("file:///trips/a.parquet", False),
    ],
)
def test_files_whose_folders_hold_values_have_no_place(path: str, refused: bool) -> None:
    row = {"a": path, "b": 0, PART: 0, MARK: 1, "position": 0, "first": 0, "last": 0, "records": 5, "placed": 5}
    frame: Any = None
    placed = Placed(frame, ("x",), ("a", "b"))
    if refused:
        with pytest.raises(hw.TableError, match=r"names hold values.*order="):
            stretch_of(row, ["a"], placed)
    else:
        assert stretch_of(row, ["a"], placed).records == 5
    assert stretch_of(row, ["a"], replace(placed, sortable=True)).records == 5


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert missing() in (JAVA, PYSPARK)
    with pytest.raises(ImportError, match=r"no Java was found|pyspark is not installed"):
        session()
