"""The numbers of records: a function of where they stand in their source, and of nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from headwater.secret.counts import CountedParts
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.run.config import RunConfig
from headwater.spark import frames
from headwater.spark.counting import MARK, PART, _joined
from headwater.spark.frames import Placed
from headwater.spark.packing import COUNTED, pack, unpack, unpack_notes
from headwater.spark.places import SameOrderError, ShuffledError, Stretch, by_part, first_numbers, ordered
from headwater.spark.session import JAVA, PYSPARK, missing, session
from headwater.spark.workers import Adder, Counter, Encoder, Slot, synthesizer

CONFIG = RunConfig(hw.unit_cube(2), 8.0, "cascade")


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
        stretches.append(Stretch(part, rows.get(part, 0), ("a", 0), int(own[0]), int(own[-1]), len(own), {0: len(own)}))
        rows[part] = rows.get(part, 0) + len(own)
    found = ordered(stretches)
    assert first_numbers(found, 0, t) == [t + int(edge) for edge in edges[:-1]]
    assert sorted(index for indices in by_part(found).values() for index in indices) == list(range(len(sizes)))


def test_what_is_not_in_order_is_noticed() -> None:
    one = Stretch(0, 0, ("a",), 0, 9, 10, {0: 10})
    with pytest.raises(ShuffledError):
        ordered([one, Stretch(1, 0, ("a",), 5, 20, 10, {0: 10})])
    with pytest.raises(SameOrderError):
        ordered([one, Stretch(1, 0, ("a",), 9, 20, 10, {0: 10})])
    with pytest.raises(ShuffledError):
        by_part([one, Stretch(0, 5, ("b",), 0, 9, 10, {0: 10})])


class Context:
    """What a worker asks Spark for."""

    @staticmethod
    def get() -> type[Context]:
        return Context

    @staticmethod
    def partitionId() -> int:  # noqa: N802 - Spark's name
        return 0


def count(monkeypatch: pytest.MonkeyPatch, counter: Counter, table: pa.Table, size: int) -> tuple[dict[str, Any], Any]:
    """What a worker gives for a partition, and the counts in it."""
    import sys
    from types import ModuleType

    module = ModuleType("pyspark")
    module.TaskContext = Context  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark", module)
    found = pa.Table.from_batches(counter(table.to_batches(max_chunksize=size)), COUNTED)
    parts = unpack(found, synthesizer(CONFIG).encode(np.empty((0, 2)))).get(0)
    return json.loads(unpack_notes(found)[0]), parts and CountedParts.of(parts, None)


def points(n: int) -> pa.Table:
    rng = np.random.default_rng(n)
    return pa.table({"x": rng.random(n).round(1), "y": rng.random(n).round(1)})


def test_a_worker_counts_what_histogram_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stretches of a partition whose numbers are far apart, the second before the first."""
    table = points(500)
    slots = {0: [Slot(1, 300, {0: 1000}, 0), Slot(0, 200, {0: 50}, 0)]}
    note, counts = count(monkeypatch, Counter(Encoder(CONFIG, ("x", "y")), slots), table, 70)
    numbers = np.concatenate((1000 + np.arange(300), 50 + np.arange(200)))
    expected = synthesizer(CONFIG).histogram(np.column_stack([table["x"], table["y"]]), numbers)
    assert [one.start for one in counts.parts] == np.unique(expected.starts).tolist()
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
    counter = Counter(Encoder(CONFIG, ("x", "y")), {0: [Slot(0, 3, {0: 0}, 7)]}, ("mark", "place"))
    for size in (3, 1):
        assert count(monkeypatch, counter, table, size)[0]["wrong"] == wrong


def test_a_worker_notices_more_records_and_says_how_many_it_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    for expected, wrong in ((4, "shuffled"), (6, None)):
        counter = Counter(Encoder(CONFIG, ("x", "y")), {0: [Slot(0, expected, {0: 0}, 0)]})
        note, _ = count(monkeypatch, counter, points(5), 5)
        assert (note["records"], note["wrong"]) == (5, wrong)


def test_an_error_says_which_row_of_which_stretch_and_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    table = points(20).set_column(0, "x", pa.array([0.5] * 13 + [47.11] + [0.5] * 6))
    slots = {0: [Slot(0, 10, {0: 0}, 0), Slot(1, 10, {0: 10}, 0)]}
    note, _ = count(monkeypatch, Counter(Encoder(CONFIG, ("x", "y")), slots), table, 4)
    assert (note["error"]["stretch"], note["error"]["row"]) == (1, 3)
    assert "47" not in json.dumps(note)


def test_counts_of_one_bucket_are_added_up_and_notes_stay() -> None:
    synth = synthesizer(CONFIG)
    parts = [synth.histogram(np.full((3, 2), place), 0) for place in (0.1, 0.9, 0.1)]
    table = pa.Table.from_batches([batch for part in parts for batch in pack(0, part)], COUNTED)
    (total,) = unpack(Adder(CONFIG)(table), synth.encode(np.empty((0, 2)))).values()
    ((_, counts),) = total[0]
    assert sorted(counts.tolist()) == [3, 6]


class Frame:
    """What `place` asks a frame for before it looks at its plan."""

    _jdf = None
    dtypes: ClassVar = [("x", "double"), ("k", "double"), ("short", "varchar(3)")]
    columns: ClassVar = [name for name, _ in dtypes]


@pytest.mark.parametrize(("key", "problem"), [("k", "not text; cast it first"), ("short", "cast"), ("z", "no such")])
def test_a_key_is_a_column_of_texts(key: str, problem: str) -> None:
    """Spark and Arrow write a number in two ways."""
    frame: Any = Frame()
    with pytest.raises(hw.TableError, match=problem):
        frames.place(frame, hw.unit_cube(1), None, (key, ("1.0", "2.0")))


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
    row = {"a": path, "b": 0, "place": 0, PART: 0, MARK: 1, "key": 0, "position": 0, "first": 0, "last": 0}
    row |= {"records": 5, "placed": 5}
    frame: Any = None
    placed = Placed(frame, ("x",), ("a", "b"))
    if refused:
        with pytest.raises(hw.TableError, match=r"names hold values.*order="):
            _joined([row], ["a"], placed)
    else:
        assert len(_joined([row], ["a"], placed)) == 1
    assert len(_joined([row], ["a"], replace(placed, sortable=True))) == 1


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert missing() in (JAVA, PYSPARK)
    with pytest.raises(ImportError, match=r"no Java was found|pyspark is not installed"):
        session()
