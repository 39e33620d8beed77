"""Spark's own arithmetic against that of Python: the same rows, the same tallies, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from headwater.secret.counts import BucketedCounts, CountedParts, distinct
from pyarrow import parquet

import headwater as hw
from headwater.public.errors import TableError
from headwater.public.schema import Schema
from headwater.public.tally import Tally
from headwater.run import FolderSink, Run, RunConfig, Schedule
from headwater.spark import counting, grouping, update
from headwater.spark.files import Files
from headwater.spark.pieces import Pieces
from headwater.spark.places import Stretch
from headwater.spark.symbols import Symbols
from tests.spark.support import QUIET, as_input, releases

pytestmark = QUIET
CLIP = Schema(
    size=hw.Number(-0.3, 10.7),
    gone=hw.Number(0.1, 0.7, missing=True),
    money=hw.Number(0.05, 99.99, decimals=2, missing=True),
    steps=hw.Number(0, 10, step=3.0),
    whole=hw.Number(-5, 1e6),
    age=hw.Integer(-3, 120, missing=True),
    far=hw.Integer(0, (1 << 52) - 1),
    paid=hw.Category("card", "cash", " ", "Größe", missing=True),
    size_class=hw.Category(7, -1, 3, other=3),
    member=hw.Boolean(missing=True),
)
SCHEMAS: dict[str, tuple[Any, str]] = {
    "cube of one": (hw.unit_cube(1), "cascade"),
    "cube, cascade": (hw.unit_cube(2), "cascade"),
    "cube, marginals": (hw.unit_cube(3), "marginals"),
    "table, cascade": (Schema({name: CLIP.columns[name] for name in ("size", "gone", "money", "age")}), "cascade"),
    "table, marginals": (Schema({name: CLIP.columns[name] for name in list(CLIP.names)[:5]}), "marginals"),
    "table, other kinds": (Schema({name: CLIP.columns[name] for name in list(CLIP.names)[4:]}), "marginals"),
    "refusing": (Schema(a=hw.Number(0, 1, outside="error"), b=hw.Integer(0, 9, outside="error")), "cascade"),
}


def reals(low: float, high: float, rng: np.random.Generator, n: int) -> list[float | None]:
    """Bounds, steps and edges of cells with their neighbours, zeros of both signs, and what is no number."""
    edges = low + (high - low) * rng.integers(0, 1 << 16, n) / (1 << 16)
    near = [np.nextafter(edges, side) for side in (-np.inf, np.inf)]
    halves = low + rng.integers(0, 2000, n) * 0.005
    some: list[Any] = [*edges, *near[0], *near[1], *halves, *rng.uniform(low - 1, high + 1, n), low, high]
    some += [np.nextafter(low, -9e9), np.nextafter(high, 9e9), 0.0, -0.0, np.nan, np.inf, -np.inf, None, 5e-324, 1e300]
    return [None if one is None else float(one) for one in rng.permutation(np.array(some, dtype=object))]


def edge_table(schema: Any, n: int = 300) -> pa.Table:  # noqa: ANN401 - of a table or a cube
    """Values of all columns, each at the edges of what is declared."""
    rng, found = np.random.default_rng(5), dict[str, pa.Array]()
    columns = schema.columns if isinstance(schema, Schema) else {f"x{i}": None for i in range(schema.dimension)}
    for name, column in columns.items():
        if column is None or isinstance(column, hw.Number):
            values: list[Any] = reals(*(column.limits if column else (0.0, 1.0)), rng, n)
            found[name] = pa.array(values, pa.float64())
            if name == "whole":
                whole = [*rng.integers(-10, 2_000_000, 5 * n).tolist(), 2**63 - 1, -(2**63), 2**53 + 1, None]
                found[name] = pa.array(whole, pa.int64())
        elif isinstance(column, hw.Integer):
            low, high = column.limits
            values = [low, high, low - 1, high + 1, None, 2**63 - 1, -(2**63), *rng.integers(low, high, 5 * n).tolist()]
            found[name] = pa.array(values, pa.int64())
        elif isinstance(column, hw.Category):
            texts: list[Any] = ["card", "cash", " ", "Größe", "", "Card", None] if column.type is str else [7, -1, 3, 4]
            found[name] = pa.array([texts[i] for i in rng.integers(0, len(texts), 5 * n)])
        else:
            found[name] = pa.array([[True, False, None][i] for i in rng.integers(0, 3, 5 * n)])
    shortest = min(map(len, found.values()))
    return pa.table({name: values.slice(0, shortest) for name, values in found.items()})


@pytest.mark.parametrize("case", SCHEMAS)
def test_symbols_are_encoded_as_the_values_are(spark: Any, case: str) -> None:  # noqa: ANN401
    schema, mechanism = SCHEMAS[case]
    synth, table = hw.Synthesizer(schema, epsilon=1.0, mechanism=mechanism), edge_table(schema)
    given = table if isinstance(schema, Schema) else np.column_stack([c.to_numpy() for c in table.columns])
    expected = synth.encode_batch(given, bad_rows="null")
    frame = spark.createDataFrame(table)
    symbols = Symbols.of(synth, table.column_names, dict(frame.dtypes))
    assert symbols is not None
    words = [f"{word} AS w{i}" for i, word in enumerate(symbols.expressions())]
    found = [column.to_numpy(zero_copy_only=False) for column in frame.coalesce(1).selectExpr(*words).toArrow().columns]
    known = np.asarray(~np.isnan(np.array(found, dtype=np.float64)).any(axis=0))
    wrong = {bad.row for bad in expected.bad}
    assert not wrong & set(np.flatnonzero(known).tolist())
    assert known.sum() > 0.2 * len(known)
    exact = frame.selectExpr(*words).dropna().toArrow()  # without nulls, whole numbers stay what they are
    points, tally = symbols.decode([c.to_numpy() for c in exact.columns], np.ones(exact.num_rows, dtype=np.int64))
    assert np.array_equal(synth.encode_points(points), expected.rows[known])
    part = table.filter(pa.array(known))
    again = synth.encode_batch(part if isinstance(schema, Schema) else given[known], bad_rows="stop")
    assert tally == again.tally


def test_kinds_that_spark_reads_otherwise_have_no_symbols(spark: Any) -> None:  # noqa: ANN401
    for column, kind in [
        (hw.Number(1, 10, scale="log"), "double"),
        (hw.Number(0, 1), "string"),
        (hw.Integer(0, 9), "double"),
        (hw.Category("1", "2"), "int"),
        (hw.Category(*map(str, range(40))), "string"),
        (hw.Boolean(), "string"),
    ]:
        synth = hw.Synthesizer(Schema(a=column), epsilon=1.0)
        assert Symbols.of(synth, ["a"], {"a": kind}) is None


def few(n: int, seed: int) -> pa.Table:
    """Records that repeat, some of them beyond bounds or missing."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "size": rng.integers(-1, 3, n) / 1.5,
            "age": pa.array([None if one == 3 else one for one in rng.integers(0, 5, n).tolist()], pa.int64()),
            "paid": rng.choice(["card", "cash"], n).tolist(),
        }
    )


FEW = Schema(size=hw.Number(0, 1), age=hw.Integer(0, 9, missing=True), paid=hw.Category("card", "cash"))


@pytest.mark.parametrize("reader", ["spark", "workers"])
@pytest.mark.parametrize("mechanism", ["cascade", "marginals"])
def test_groups_and_files_give_what_one_process_gives(
    spark: Any,  # noqa: ANN401
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mechanism: str,
    reader: str,
) -> None:
    """Files of different sizes, several in a partition and cut into splits, in two batches of one run.

    Workers read the row groups that Spark would, or there would be other records than footers say.
    """
    taken, by_workers, counted = list[bool](), list[bool](), counting._counted
    if reader == "spark":
        no_files(monkeypatch)

    def watched(*arguments: Any) -> Any:  # noqa: ANN401
        found = grouping.grouped(*arguments)
        taken.append(found is not None)
        return found

    def watched_workers(*arguments: Any) -> Any:  # noqa: ANN401
        by_workers.append(arguments[-1] is not None)
        return counted(*arguments)

    monkeypatch.setattr(counting, "_counted", watched_workers)
    monkeypatch.setattr(counting, "grouped", watched)
    monkeypatch.setattr(grouping, "_FEWER", 2)
    spark.conf.set("spark.sql.files.maxPartitionBytes", "16k")
    spark.conf.set("spark.sql.files.openCostInBytes", "1k")
    make: dict[str, Any] = {"epsilon": 1.0, "mechanism": mechanism, "seed": 3}
    synth, plain = hw.Synthesizer(FEW, **make), hw.Synthesizer(FEW, **make)
    for batch, sizes in enumerate([(700, 1, 9000, 40), (2200, 17, 5000)]):
        folder = tmp_path / str(batch)
        folder.mkdir()
        for number, n in enumerate(sizes):
            table = few(n, 10 * batch + number)
            parquet.write_table(table, folder / f"{number}.parquet", row_group_size=1000)
            plain.update(as_input(FEW, table))
        assert update(synth, spark.read.parquet(str(folder))) == plain.t
    assert (taken, by_workers) == (([True, True], []) if reader == "spark" else ([], [True, True]))
    assert synth.tally == plain.tally
    assert set(synth.tally.columns["size"]) == {"clipped"}
    assert np.array_equal(synth.release().points(), plain.release().points())


def no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if files were where workers cannot read them."""
    monkeypatch.setattr(Files, "of", lambda *_: None)


@pytest.mark.parametrize("reader", ["spark", "workers"])
@pytest.mark.parametrize("digits", [1, 9])
def test_batches_that_are_taken_at_once_give_what_one_process_gives(
    spark: Any,  # noqa: ANN401
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    digits: int,
    reader: str,
) -> None:
    """In the plane, at an ε with two timescales of fast buckets; records that repeat and that do not.

    Of three batches the second has a release inside, and is counted in the fastest buckets.
    """
    if reader == "spark":
        no_files(monkeypatch)
    config = RunConfig(hw.unit_cube(2), 60.0, "cascade", 3)
    runs = [
        Run.open(config, FolderSink(tmp_path / name), state=tmp_path / f"{name}.state", schedule=Schedule(records=4000))
        for name in ("plain", "spark")
    ]
    rng, untils = np.random.default_rng(7), list[int | None]()
    take = Run.take_counts

    def watched(run: Run, counts: CountedParts, *arguments: Any, **others: Any) -> int:  # noqa: ANN401
        untils.append(counts.until)
        return take(run, counts, *arguments, **others)

    monkeypatch.setattr(Run, "take_counts", watched)
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


@pytest.mark.parametrize("reader", ["spark", "workers"])
def test_a_bad_record_among_many_equal_ones_is_named(
    spark: Any,  # noqa: ANN401
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reader: str,
) -> None:
    if reader == "spark":
        no_files(monkeypatch)
    table = few(5000, 1).set_column(2, "paid", pa.array(["card"] * 4321 + ["shells"] + ["cash"] * 678))
    parquet.write_table(table, tmp_path / "a.parquet")
    synth = hw.Synthesizer(FEW, epsilon=1.0, mechanism="cascade")
    with pytest.raises(TableError, match=r'a\.parquet, row 4321, column "paid"') as refused:
        update(synth, spark.read.parquet(str(tmp_path)))
    assert "shells" not in str(refused.value)
    assert synth.t == 0
    assert update(synth, spark.read.parquet(str(tmp_path)), bad_rows="null") == 5000
    assert synth.tally.bad == 1


def test_a_key_is_found_again_from_its_fold() -> None:
    """Also of one below 0."""
    keys = np.random.default_rng(1).integers(-(1 << 63), 1 << 62, 10_000)
    keys[:4] = 0, 1, -1, (1 << 62) - 1
    folded = keys.view(np.uint64)
    for fold in grouping._FOLDS:
        folded = folded ^ (keys.view(np.uint64) >> np.uint64(fold))
    assert np.array_equal(grouping._unfolded(folded.view(np.int64)), keys)


def test_what_a_batch_had_decides_how_the_next_is_counted() -> None:
    """Groups are worth it if they are a sixteenth of the records, or fewer."""
    repeats = grouping.Repeats()
    assert repeats.few is None
    rng, size = np.random.default_rng(2), 4096
    for different, few in ((size // 32, True), (size // 8, False)):
        rows, counts = distinct(rng.integers(0, different, (size, 1)).astype(np.uint64))
        one = BucketedCounts(np.zeros(len(rows), dtype=np.int64), rows, counts)
        repeats.after(CountedParts.of_arrays(one), Tally(size))
        assert repeats.few is few
        repeats.after(CountedParts.of_arrays(one), Tally(size, bad=1))
        assert repeats.few is False


def test_every_row_of_a_frame_is_in_its_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces cover all rows once, whatever the stretches are; the oracle gives each row its number by itself."""
    rng, steps = np.random.default_rng(2), set[int]()
    for _ in range(60):
        monkeypatch.setattr("headwater.spark.pieces.CELLS", int(rng.choice([2, 5, 12])))
        size, n = int(rng.choice([1, 3, 8, 50])), int(rng.integers(1, 12))
        parts, records = np.sort(rng.integers(0, 4, n)), rng.integers(1, 40, n)
        ends = dict.fromkeys(range(4), 0)
        stretches = list[Stretch]()
        for part, held in zip(parts.tolist(), records.tolist(), strict=True):
            stretches.append(Stretch(part, ends[part], ("a",), 0, 0, held, {0: held}))
            ends[part] += held
        stretches = [stretches[i] for i in rng.permutation(n)]
        numbers = (100 + np.cumsum([0, *(one.records for one in stretches[:-1])])).tolist()
        total, edges = int(records.sum()), list[tuple[int, int]]()
        at = 100 - int(rng.integers(0, size))
        while at < 100 + total:
            wide = size if at < 150 else 2 * size
            edges.append((at, at + wide))
            at += wide
        pieces = Pieces.of(stretches, numbers, edges)
        steps.add((pieces.longest - 1).bit_length())
        expected = np.zeros(len(edges) + 1, dtype=np.int64)
        for one, number in zip(stretches, numbers, strict=True):
            for place in range(one.records):
                bucket = next(i for i, (first, end) in enumerate(edges) if first <= number + place < end)
                assert bucket_of(pieces, (one.part << 33) + one.position + place) == bucket
                expected[bucket] += 1
        assert np.array_equal(pieces.expected(), expected)
        for part, held in ends.items():  # what was not there when the frame was counted
            for more in (0, 1, 5000, 1 << 32) if part < pieces.parts else ():
                assert bucket_of(pieces, (part << 33) + held + more) in (len(edges), None)
    assert {1, 2} <= steps  # both ways to search


def bucket_of(pieces: Pieces, row: int) -> int | None:
    """What the expressions compute for a row; beyond a table an entry is null."""
    bits, narrow, first = pieces.cells
    cell = row >> narrow
    if pieces.parts > 1:
        cell = (row >> 33 << bits) + min((row & (1 << 33) - 1) >> narrow, (1 << bits) - 1)
    if cell >= len(first):
        return None
    piece, steps = int(first[cell]), (pieces.longest - 1).bit_length()
    alone = pieces._alone()[cell] if steps < 2 else None
    if alone is not None:
        return alone
    for step in (1 << number for number in reversed(range(steps))):
        if piece + step < len(pieces.rows) and row >= pieces.rows[piece + step]:
            piece += step
    return int(pieces.buckets[piece])
