"""The mechanism as a whole: batches, asking, windows, saving and going on, and the smallest of everything."""

from __future__ import annotations

import math
from copy import copy
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from headwater.public import laws as joint_law
from headwater.public.categorical import Boolean, Category
from headwater.public.files import FileRefusedError
from headwater.public.marginals.codes import NULL, NoisyTable, codings
from headwater.public.marginals.plan import plan
from headwater.public.marginals.predict import Outlook
from headwater.public.numeric import Number
from headwater.public.schema import Schema
from headwater.public.unit_cube import UnitCube
from headwater.secret.bucket import SLOW, Bucket, SlowBucket
from headwater.secret.marginals import MarginalsMechanism
from headwater.secret.noise import Noise
from tests.support.marginals_watch import a_schema, a_stream

Tables = list[tuple[Any, ...]]


def published(mechanism: MarginalsMechanism) -> Tables:
    """All that is published, in full."""
    return [
        (t.columns, t.start, t.end, *(e.tolist() for e in t.edges), t.counts.tolist(), t.scale, t.variance)
        for t in mechanism.measured(0, 0).tables
    ]


def start(columns: int = 5, epsilon: float = 64.0, seed: int = 1) -> MarginalsMechanism:
    return MarginalsMechanism(a_schema(columns), epsilon, Noise(seed=seed))


def rows_of(mechanism: MarginalsMechanism, records: int, seed: int = 0) -> NDArray[np.uint16]:
    assert isinstance(mechanism.schema, Schema)
    return mechanism.encode(a_stream(mechanism.schema, records, seed))


def test_batches_and_questions_change_nothing() -> None:
    """One batch, records one by one, odd lots with somebody asking all the time: the same tables."""
    one, many, lots = start(), start(), start()
    rows = rows_of(one, 300)
    one.update(rows)
    for row in rows:
        many.update(row[None])
    for lot in np.array_split(rows, 17):
        lots.update(lot)
        lots.measured(lots.window(100), 0)
        lots.ledger()
    assert published(one) == published(many) == published(lots)
    assert len(published(one)) > 20
    assert one.t == many.t == 300


@pytest.mark.parametrize(("columns", "pairs"), [(2, 1), (10, 9), (44, 11)])
def test_the_first_bucket_with_pairs_keeps_no_budget_for_more_pairs_than_it_can_choose(
    columns: int, pairs: int
) -> None:
    """A tree of 44 columns has 43 pairs; at ε = 1 a bucket of 8,192 records has nine choices."""
    stage = next(stage for stage in plan(columns, 1.0, 1 << 20).stages if stage.pairs)
    of_columns = codings(UnitCube(columns))
    bucket = Bucket(np.zeros((columns, 0), np.uint16), of_columns, Noise(seed=1), SLOW, stage.start, stage.end)
    slow = SlowBucket(bucket, stage, (), Outlook((), (), (1.0,) * columns), 1.0)
    assert slow.expected(columns - 1) == pairs
    slow.questions = slow.candidates()
    assert pairs == min(slow.turns(stage.tree_choice) + 2, columns - 1)


@pytest.mark.parametrize("cut", [0, 1, 7, 64, 100, 299])
def test_a_saved_run_goes_on_bit_for_bit(cut: int) -> None:
    whole, first = start(), start()
    rows = rows_of(whole, 300)
    whole.update(rows)
    first.update(rows[:cut])
    second = start(seed=1)
    second.restore(*first.state())
    assert published(second) == published(first)
    second.update(rows[cut:])
    assert published(second) == published(whole)
    assert second.state()[0] == whole.state()[0]
    assert all(np.array_equal(a, b) for a, b in zip(second.state()[1].values(), whole.state()[1].values(), strict=True))


def test_a_state_is_small() -> None:
    """Below four bytes a column and record, published tables included, in a bucket that is long enough."""
    mechanism = MarginalsMechanism(UnitCube(4), 1.0, Noise(seed=1))
    mechanism.update(mechanism.encode(np.random.default_rng(0).random((120_000, 4))))
    _, arrays = mechanism.state()
    assert sum(array.nbytes for array in arrays.values()) < 4 * 4 * 120_000


def test_a_copy_is_updated_by_itself() -> None:
    mechanism = start()
    rows = rows_of(mechanism, 200)
    mechanism.update(rows[:100])
    before, twin = published(mechanism), copy(mechanism)
    twin.update(rows[100:])
    assert (mechanism.t, twin.t) == (100, 200)
    assert published(mechanism) == before
    mechanism.update(rows[100:])
    assert published(mechanism) == published(twin)


def test_windows_start_where_buckets_do() -> None:
    mechanism = start()
    mechanism.update(rows_of(mechanism, 300))
    starts = sorted({table.start for table in mechanism.tables})
    for since in (0, 1, 5, 64, 65, 200, 299, 300):
        found = mechanism.window(since)
        assert found == max(s for s in starts if s <= since)
        assert mechanism.measured(found, 0).start == found


def test_tables_come_in_order_and_cover_the_past() -> None:
    mechanism = start()
    mechanism.update(rows_of(mechanism, 300))
    ends = [table.end for table in mechanism.tables]
    assert ends == sorted(ends)
    for column in range(5):
        covered = {i for t in mechanism.tables if column in t.columns for i in range(t.start, t.end)}
        assert covered.issuperset(range(256))


@pytest.mark.parametrize("records", [0, 1, 2, 63, 64, 65])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0])
def test_few_records(records: int, epsilon: float) -> None:
    mechanism = start(epsilon=epsilon)
    mechanism.update(rows_of(mechanism, records))
    measured = mechanism.measured(0, 0)
    assert (measured.t, measured.start) == (records, 0)
    assert all(table.end <= records for table in measured.tables)
    assert mechanism.ledger().total <= Fraction(epsilon)
    assert str(mechanism.plan(100))
    assert "records" in mechanism.status()


@pytest.mark.parametrize(
    "schema",
    [
        Schema(x=Number(0, 1)),
        Schema(x=Category("only")),
        Schema(x=Boolean()),
        Schema(x=Category("only"), y=Category("one"), z=Boolean()),
        Schema(x=Number(0, 1), y=Boolean()),
    ],
)
def test_small_schemas(schema: Schema) -> None:
    """One column, one category, two columns."""
    mechanism = MarginalsMechanism(schema, 50.0, Noise(seed=1))
    mechanism.update(mechanism.encode(a_stream(schema, 400)))
    asked = {table.columns for table in mechanism.tables}
    assert asked.issuperset((i,) for i in range(schema.dimension))
    twin = MarginalsMechanism(schema, 50.0, Noise(seed=1))
    twin.restore(*mechanism.state())
    assert published(twin) == published(mechanism)


@pytest.mark.slow
def test_many_columns() -> None:
    """Sixty of them, of two values, all alike: pairs are found, though not all can be candidates at once."""
    schema = Schema({f"c{i}": Boolean() for i in range(60)})
    mechanism = MarginalsMechanism(schema, 200.0, Noise(seed=1))
    alike = np.random.default_rng(0).integers(0, 2, (300, 1)) / 2 * np.ones(60)
    mechanism.update(mechanism.encode(alike))
    pairs = {table.columns for table in mechanism.tables if len(table.columns) == 2}
    assert len(pairs) >= 30
    assert MarginalsMechanism(UnitCube(100), 1.0, Noise(seed=1)).width == 100


def test_a_table_of_two_bins_adds_up_to_its_records() -> None:
    """It has one draw of noise, since the number of records is public."""
    mechanism = start()
    mechanism.update(rows_of(mechanism, 300))
    small = [table for table in mechanism.tables if table.counts.shape == (2,)]
    assert len(small) > 3
    assert all(table.counts.sum() == table.end - table.start for table in small)
    large: list[NoisyTable] = [table for table in mechanism.tables if table.counts.size > 2]
    assert any(table.counts.sum() != table.end - table.start for table in large)


def test_another_key_gives_other_noise() -> None:
    one, other = start(seed=1), start(seed=2)
    for mechanism in (one, other):
        mechanism.update(rows_of(mechanism, 100))
    assert published(one) != published(other)


# --- what is no state -------------------------------------------------------------------------------------


def _header(**changes: object) -> Any:  # noqa: ANN401 - a change of a state
    return lambda header, arrays: (header | changes, arrays)


def _array(name: str, change: Any) -> Any:  # noqa: ANN401 - a change of a state
    return lambda header, arrays: (header, arrays | {name: change(arrays[name])})


def _table(index: int, place: int, value: object) -> Any:  # noqa: ANN401 - a change of a state
    def change(header: Any, arrays: Any) -> Any:  # noqa: ANN401 - a change of a state
        tables = [list(table) for table in header["tables"]]
        tables[index][place] = value
        return header | {"tables": tables}, arrays

    return change


MADE_UP = {
    "negative time": _header(t=-1),
    "time in words": _header(t="200"),
    "later than the codes": _header(t=201),
    "far beyond": _header(t=1 << 59),
    "beyond all runs": _header(t=1 << 70),
    "no tables": _header(tables=[]),
    "tables of no kind": _header(tables=[1, 2]),
    "many tables": _header(tables=[[[0], 0, 1, [1]]] * 1000),
    "another version": _header(version=99),
    "a circle for a tree": _header(tree=[[0, 1], [1, 2], [0, 2]]),
    "a pair of one column": _header(kept=[[1, 1]]),
    "a column that is not there": _header(tree=[[0, 9]]),
    "a bucket of no plan": _table(0, 2, 3),
    "a bucket that is still open": _table(-1, 2, 1 << 40),
    "columns that are not there": _table(0, 0, [17]),
    "columns the wrong way round": _table(-1, 0, [3, 1]),
    "a shape of nothing": _table(0, 3, [0]),
    "a huge shape": _table(-1, 3, [1 << 30, 1 << 29]),
    "too little noise": _array("scales", lambda a: a / 2),
    "no noise": _array("scales", lambda a: a * 0),
    "noise that is no number": _array("scales", lambda a: a * np.nan),
    "variances of nothing": _array("variances", lambda a: a * 0),
    "variances that are no numbers": _array("variances", lambda a: a * np.nan),
    "variances missing": _array("variances", lambda a: a[:-1]),
    "joint noise that is negative": _array("joint", lambda a: a - 1),
    "joint noise missing": _array("joint", lambda a: a[:-1]),
    "joint noise in words": _array("joint", lambda a: a.astype(str)),
    "shared noise that each table takes for its own": _array("joint", lambda a: a * 0),
    "shared noise that each table draws again": _array("joint", lambda a: np.arange(1, len(a) + 1, dtype=a.dtype)),
    "noise that tables of several scales share": _array("joint", lambda a: np.ones_like(a)),
    "records that were not asked for": _array("present", lambda a: np.zeros_like(a)),
    "records missing": _array("present", lambda a: a[:-1]),
    "records in fractions": _array("present", lambda a: a / 2),
    "edges out of order": _array("edges", lambda a: a[::-1]),
    "edges missing": _array("edges", lambda a: a[:-1]),
    "edges too many": _array("edges", lambda a: np.append(a, a[-1:])),
    "counts missing": _array("counts", lambda a: a[:-1]),
    "counts that are fractions": _array("counts", lambda a: a.astype(float)),
    "codes beyond their column": _array("codes", lambda a: np.where(np.arange(len(a)) % 2, a, 254).astype(a.dtype)),
    "codes missing": _array("codes", lambda a: a[:-2]),
    "codes of another type": _array("codes", lambda a: a.astype(np.int64)),
    "codes in two dimensions": _array("codes", lambda a: a[:, None]),
    "shares that are negative": _array("moving", lambda a: a - 2),
    "shares for other columns": _array("moving", lambda a: a[:-1]),
    "shares of nothing": _array("moving", lambda a: a * 0),
    "shares of next to nothing": _array("moving", lambda a: np.where(np.arange(len(a)) == 0, 1e-300, a)),
}


@pytest.mark.parametrize("what", MADE_UP)
def test_a_made_up_state_is_refused_and_changes_nothing(what: str) -> None:
    mechanism = start()
    mechanism.update(rows_of(mechanism, 200))
    header, arrays = MADE_UP[what](*mechanism.state())
    other = start()
    with pytest.raises(FileRefusedError):
        other.restore(header, arrays)
    assert (other.t, other.tables) == (0, ())


def test_tables_that_share_their_noise_are_kept_with_it() -> None:
    """Also those whose variance was computed by another library, which may round otherwise."""
    mechanism, other = start(), start()
    mechanism.update(rows_of(mechanism, 200))
    header, arrays = mechanism.state()
    arrays = arrays | {"variances": arrays["variances"] * (1 + 1e-15)}
    other.restore(header, arrays)
    assert any(table.joint for table in other.tables)
    for one, two in zip(mechanism.tables, other.tables, strict=True):
        assert (one.joint, one.scale) == (two.joint, two.scale)
        assert two.variance == one.variance * (1 + 1e-15)


def test_noise_that_is_too_wide_to_be_shared_is_drawn_for_each_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint_law, "WIDEST", 1)
    mechanism = start()
    mechanism.update(rows_of(mechanism, 200))
    assert mechanism.tables
    assert not any(table.joint for table in mechanism.tables)


@pytest.mark.parametrize("epsilon", [1e4, 1e7])
def test_a_state_with_next_to_no_noise_goes_on(epsilon: float) -> None:
    """The variance of shared noise, rounded to a float, would be 0."""
    schema = Schema(a=Boolean(), b=Boolean(), c=Boolean())
    mechanism, other = (MarginalsMechanism(schema, epsilon, Noise(seed=1)) for _ in range(2))
    mechanism.update(rows_of(mechanism, 200))
    assert min(table.variance for table in mechanism.tables) > 0
    assert any(table.joint for table in mechanism.tables)
    other.restore(*mechanism.state())
    assert other.t == 200


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (np.zeros((3, 4), dtype=np.uint16), ValueError),
        (np.zeros(5, dtype=np.uint16), ValueError),
        (np.zeros((3, 5)), TypeError),
        (np.full((3, 5), -1), ValueError),
        (np.full((3, 5), 60), ValueError),
    ],
)
def test_rows_that_are_no_codes_are_refused(rows: NDArray[Any], error: type[Exception]) -> None:
    mechanism = start()
    with pytest.raises(error):
        mechanism.check(rows)
    good = rows_of(mechanism, 10)
    assert np.array_equal(mechanism.check(good.astype(np.int64)), good)
    good[3] = NULL  # a null record
    assert np.array_equal(mechanism.check(good), good)
    good[4, 1:] = NULL
    with pytest.raises(ValueError, match="must lie between"):
        mechanism.check(good)


def test_one_table_of_two_cells_says_how_many_records_are_null() -> None:
    """In every bucket: without it, null records would be taken for those with the first value."""
    schema = Schema({f"c{i}": Boolean() for i in range(5)})
    mechanism = MarginalsMechanism(schema, 400.0, Noise(seed=1))
    rows = mechanism.encode(a_stream(schema, 600))
    rows[100::3] = NULL
    mechanism.update(rows)
    good = np.concatenate([[0], np.cumsum((rows != NULL).any(axis=1))])
    spans = {(table.start, table.end) for table in mechanism.tables if len(table.columns) == 1}
    told = {(table.start, table.end): table for table in mechanism.tables if table.present is not None}
    assert told.keys() == spans
    for (start, end), table in told.items():
        assert table.present is not None
        assert abs(table.present - (good[end] - good[start])) <= 8 * math.sqrt(table.variance) + 1
        assert table.counts.sum() == end - start
