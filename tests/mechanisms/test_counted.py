"""Records that many processes count: the owner publishes what it would have published of the records in order."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import headwater as hw
from headwater.public.cascade.plan import stage_at
from headwater.public.schema import Schema
from headwater.run import FolderSink, Run, RunConfig, Schedule
from headwater.secret.counts import CountedParts, Parts, RunningSums, count_by_bucket, distinct
from headwater.secret.held import CountedBucket, CountedBuckets, parts_by_bucket
from tests.support.runs import TABLE, same
from tests.support.trees import crowd

CASES: dict[str, tuple[Any, str]] = {
    "line": (hw.unit_cube(1), "cascade"),
    "square": (hw.unit_cube(2), "cascade"),
    "table": (TABLE, "cascade"),
    "wide table": (TABLE, "marginals"),
    "square in columns": (hw.unit_cube(2), "marginals"),
}


def start(case: str, epsilon: float = 8.0) -> hw.Synthesizer:
    schema, mechanism = CASES[case]
    return hw.Synthesizer(schema, epsilon=epsilon, mechanism=mechanism, seed=3)


def records(case: str, n: int, seed: int) -> list[Any]:
    """Records with many repetitions; some are bad."""
    rng = np.random.default_rng(seed)
    if not isinstance(CASES[case][0], Schema):
        points = np.round(crowd(n, CASES[case][0].dimension, seed), 2)
        points[rng.random(n) < 0.02] = np.nan
        return list(points)
    sizes, ages = np.round(rng.gamma(2, 1.5, n)).clip(0, 10).tolist(), rng.integers(20, 40, n).tolist()
    paid, member = rng.choice(["card", "cash", "a"], n, p=[0.7, 0.28, 0.02]).tolist(), (rng.random(n) < 0.5).tolist()
    columns = zip(sizes, ages, paid, member, strict=True)
    return [dict(zip(TABLE.names, record, strict=True)) for record in columns]


def table(case: str, chosen: list[Any]) -> Any:  # noqa: ANN401 - an array, or a list of records
    return (
        chosen
        if isinstance(CASES[case][0], Schema)
        else np.array(chosen).reshape(len(chosen), CASES[case][0].dimension)
    )


def counted(
    case: str,
    stream: list[Any],
    first: int,
    end: int,
    machines: int,
    rng: np.random.Generator,
    until: int | None = None,
    epsilon: float = 8.0,
) -> Any:  # noqa: ANN401
    """What machines that share nothing but the schema count, added up in any order; each has any of the records."""
    numbers = first + rng.permutation(end - first)
    parts = np.array_split(numbers, machines)
    found = [
        start(case, epsilon).histogram(table(case, [stream[i] for i in part]), part, bad_rows="null", until=until)
        for part in parts
        if len(part)
    ]
    total = found.pop()
    while found:
        total = found.pop(rng.integers(len(found))) + total
    return total


@pytest.mark.parametrize("case", CASES)
@given(
    cuts=st.lists(st.integers(0, 700), min_size=1, max_size=4),
    machines=st.integers(1, 4),
    seed=st.integers(0, 10**6),
    looks=st.booleans(),
    at_once=st.booleans(),
)
@settings(max_examples=8)
def test_counted_records_give_what_the_records_in_order_give(
    case: str, cuts: list[int], machines: int, seed: int, looks: bool, at_once: bool
) -> None:
    """Over many buckets at once, in turns with records in order, with releases and reloads between them."""
    rng, stream = np.random.default_rng(seed), records(case, 700, seed)
    plain, owner = start(case), start(case)
    for number, end in enumerate(sorted({*cuts, 700})):
        first = plain.t
        plain.update(table(case, stream[first:end]), bad_rows="null")
        if number % 3 == 2:
            owner.update(table(case, stream[first:end]), bad_rows="null")
        elif end > first:
            owner.update_counts(counted(case, stream, first, end, machines, rng, end if at_once else None))
        assert owner.t == plain.t == end
        if looks and number % 2:
            assert same(plain.release(), owner.release())
            owner = hw.Synthesizer.from_bytes(owner.to_bytes())
    assert same(plain.release(), owner.release())
    assert same(plain.release(last=200), owner.release(last=200))


@pytest.mark.parametrize("case", ["line", "square"])
@given(cuts=st.lists(st.integers(0, 6000), min_size=1, max_size=6), seed=st.integers(0, 10**6))
@settings(max_examples=4)
def test_records_taken_at_once_give_what_the_records_in_order_give(case: str, cuts: list[int], seed: int) -> None:
    """At an ε where there are two timescales of fast buckets, with a release and a reload after every batch."""
    rng, stream = np.random.default_rng(seed), records(case, 6000, seed)
    plain, owner = start(case, 20.0), start(case, 20.0)
    for end in sorted({*cuts, 6000} - {0}):
        plain.update(table(case, stream[plain.t : end]), bad_rows="null")
        owner.update_counts(counted(case, stream, owner.t, end, 3, rng, end, 20.0))
        assert same(plain.release(), owner.release())
        assert same(plain.release(last=500), owner.release(last=500))
        owner = hw.Synthesizer.from_bytes(owner.to_bytes())
    assert len(stage_at(5999, CASES[case][0].dimension, 20.0).timescales) >= 3


@pytest.mark.parametrize("until", [None, 20_000])
@pytest.mark.parametrize("case", ["square", "wide table"])
def test_one_update_may_go_over_many_slow_buckets(case: str, until: int | None) -> None:
    """Wide rows and cells, 20,000 records in one sum of six parts, with the records in order as oracle."""
    stream, rng = records(case, 20_000, 5), np.random.default_rng(0)
    plain, owner = start(case, 1.0), start(case, 1.0)
    plain.update(table(case, stream), bad_rows="null")
    numbers = np.array_split(rng.permutation(20_000), 6)
    worker = start(case, 1.0)
    parts = [
        worker.histogram(table(case, [stream[i] for i in part]), part, bad_rows="null", until=until) for part in numbers
    ]
    owner.update_counts(hw.BucketedCounts.merge(parts))
    assert same(plain.release(), owner.release())
    assert same(plain.release(since=10_000), owner.release(since=10_000))


def test_an_open_bucket_keeps_its_distinct_rows_and_not_its_records() -> None:
    """A hundred places: of 30,000 records in an open slow bucket there are at most so many codes for each fast one."""
    places = crowd(100, 2, 1)
    owner = start("square", 1.0)
    rng = np.random.default_rng(2)
    while owner.t < 260_000:
        numbers = owner.t + np.arange(6500)
        owner.update_counts(owner.histogram(places[rng.integers(100, size=6500)], numbers))
    mechanism: Any = owner._state.mechanism
    kept = sum(len(one.counts) for one in mechanism._counted.buckets)
    siblings = [scale.siblings for scale in mechanism.stage.timescales[1:]]
    assert (owner.t - mechanism.start, siblings) == (30_624, [8, 4])
    assert kept <= 100 * (8 + 4 + 2)  # closed fast buckets, and parts of the open one


@given(
    n=st.integers(0, 60), width=st.integers(1, 3), seed=st.integers(0, 10**6), large=st.booleans(), times=st.booleans()
)
@settings(max_examples=60)
def test_distinct_rows_are_those_of_a_dictionary(n: int, width: int, seed: int, large: bool, times: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 3, (n, width)).astype(np.uint64)
    rows = rows * np.uint64((1 << 64) // 3) if large else rows
    counts = rng.integers(1, 1 << 40 if large else 9, n) if times else None
    expected: dict[tuple[int, ...], int] = {}
    for i, row in enumerate(rows.tolist()):
        expected[tuple(row)] = expected.get(tuple(row), 0) + (1 if counts is None else int(counts[i]))
    names, numbers = distinct(rows, counts)
    assert dict(zip(map(tuple, names.tolist()), numbers.tolist(), strict=True)) == expected
    assert len(names) == len(expected)


def test_buckets_are_public_and_the_same_for_every_run() -> None:
    """They cut the numbers of records without a gap, and do not depend on what a run has taken."""
    for case in ("line", "square", "wide table"):
        early, late = start(case, 1.0), start(case, 1.0)
        late.update(table(case, records(case, 5000, 1)), bad_rows="null")
        number = 0
        while number < 70_000:
            first, end = early.bucket(number)
            assert first == number < end
            assert early.bucket(end - 1) == late.bucket(number) == (first, end)
            number = end
    with pytest.raises(ValueError, match="at least 0"):
        start("square").bucket(-1)


@pytest.mark.parametrize("until", [5, 640, 200_000, 299_999, 300_000])
def test_records_that_are_taken_at_once_are_counted_in_the_buckets_that_are_measured(until: int) -> None:
    """Each is a union of fastest ones, ends in time or is a fastest one, and a release then asks for these only."""
    for case in ("line", "square", "wide table"):
        synth, number = start(case, 20.0), 0
        found = synth.buckets(0, until, until)
        for first, end in found:
            assert first == number
            assert synth.bucket(end - 1, until) == (first, end)
            assert synth.bucket(first)[0] == first
            assert synth.bucket(end - 1)[1] == end
            assert end <= until or (first, end) == synth.bucket(number)
            number = end
        if case == "wide table":
            assert found == synth.buckets(0, until)
        elif until > 640:
            assert len(found) < len(synth.buckets(0, until)) / 3
            stage = stage_at(until, CASES[case][0].dimension, 20.0)
            assert len(stage.timescales) >= 3
            covered = until - (until - stage.start) % stage.timescales[0].size  # the start of the open slow bucket
            for scale in stage.timescales[1:]:  # as closed_fast does
                for first in range(covered, until - scale.size + 1, scale.size):
                    assert (first, first + scale.size) in found
                    covered = first + scale.size


def test_counts_that_were_made_to_be_taken_at_once_are_not_taken_otherwise(tmp_path: Path) -> None:
    synth, points = start("square", 20.0), np.round(crowd(7000, 2), 1)
    one = synth.histogram(points, 0, until=7000)
    assert len(one.counts) < len(synth.histogram(points, 0).counts)
    with pytest.raises(ValueError, match="the same until"):
        one + synth.histogram(points, 7000)
    short = synth.histogram(points[: synth.buckets(0, 7000, 7000)[-2][1]], 0, until=7000)
    with pytest.raises(ValueError, match="counted for 7000 records in all"):
        synth.update_counts(short)
    other = hw.BucketedCounts(one.starts, one.rows, one.counts)  # nothing says that these are not the fastest
    with pytest.raises(ValueError, match="of the bucket from"):
        synth.update_counts(other)
    assert synth.t == 0
    config = RunConfig(hw.unit_cube(2), 20.0, "cascade", seed=3)
    with Run.open(config, FolderSink(tmp_path / "out"), schedule=Schedule(records=6000)) as run:
        assert run.next_due == 6000
        with pytest.raises(ValueError, match="a release is due inside"):
            run.take_counts(one)
        assert run.t == 0


def test_a_bucket_of_the_mechanism_is_closed_where_the_public_one_ends() -> None:
    synth = start("square", 20.0)
    points = crowd(3000, 2)
    for i in range(1500, 3000):
        synth.update(points[synth.t : i])
        first, end = synth.bucket(i - 1)
        covered = synth.measured().covered  # type: ignore[attr-defined]
        assert covered == (end if i == end else first)


def test_numbers_must_fit_the_records() -> None:
    synth, points = start("square"), crowd(3, 2)
    for numbers in ([0, 1], [0.0, 1.0, 2.0], [[0, 1, 2]]):
        with pytest.raises(ValueError, match="numbers must be 3 whole numbers"):
            synth.histogram(points, numbers)
    with pytest.raises(ValueError, match="at least 0"):
        synth.histogram(points, -1)
    with pytest.raises(TypeError, match="whole number"):
        synth.histogram(points, 1.5)
    assert synth.histogram(points, 7).starts.tolist() == [0, 8, 8]  # a bucket of 8 ends there


def bucketed(**changes: Any) -> hw.BucketedCounts:  # noqa: ANN401 - what is wrong
    """The next 28 records of a run at ``t`` = 612 whose bucket of 64 began at 576, and 5 of the bucket after it."""
    good: dict[str, Any] = {
        "starts": np.array([576, 576, 640]),
        "rows": np.array([[5], [9], [9]], dtype=np.uint64),
        "counts": np.array([20, 8, 5]),
    }
    return hw.BucketedCounts(**(good | changes))


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "too few in a bucket that ends": ({"counts": np.array([20, 7, 5])}, ValueError, "has 27 counted ones"),
    "too many": ({"counts": np.array([20, 9, 5])}, ValueError, "has 29 counted ones"),
    "a bucket left out": ({"starts": np.array([576, 576, 704])}, ValueError, "of the bucket from 640"),
    "a bucket that has ended": ({"starts": np.array([512, 576, 640])}, ValueError, "of the bucket from 576"),
    "no start of a bucket": ({"starts": np.array([577, 577, 640])}, ValueError, "of the bucket from 576"),
    "not in order": ({"starts": np.array([640, 576, 576])}, ValueError, "starts must not fall"),
    "no record": ({"counts": np.array([28, 0, 5])}, ValueError, "between 1 and"),
    "negative": ({"counts": np.array([29, -1, 5])}, ValueError, "between 1 and"),
    "too large": ({"counts": np.array([2**63 - 1] * 3)}, ValueError, "between 1 and"),
    "fractions": ({"counts": np.array([20.0, 8.0, 5.0])}, TypeError, "counts must be whole numbers"),
    "short": ({"counts": np.array([28, 5])}, ValueError, "as long as rows"),
    "masked": ({"counts": np.ma.masked_array([20, 8, 5])}, TypeError, "masked"),
    "beyond": ({"rows": np.array([[5], [9], [2**32]], dtype=np.uint64)}, ValueError, "between 0 and"),
    "flat": ({"rows": np.array([5, 9, 9])}, ValueError, "shape"),
}


@pytest.mark.parametrize("case", WRONG)
def test_counts_of_other_records_are_refused_and_change_nothing(case: str) -> None:
    changes, error, message = WRONG[case]
    synth = hw.Synthesizer(hw.unit_cube(2), epsilon=1.0, seed=1)
    synth.update(crowd(612, 2))
    assert (synth.bucket(612), synth.bucket(640)) == ((576, 640), (640, 704))
    before = synth.to_bytes()
    with pytest.raises(error, match=message):
        synth.update_counts(bucketed(**changes))
    assert synth.to_bytes() == before
    with pytest.raises(TypeError, match="must be BucketedCounts"):
        synth.update_counts([1])  # type: ignore[arg-type]


def test_an_order_made_from_values_would_move_other_records() -> None:
    """Why numbers must not depend on values: sorted by value, replacing one record moves others to other buckets."""
    rows, other = (np.arange(100, dtype=np.uint64)[:, None] for _ in range(2))
    other[0] = 1000  # one record is replaced

    def bucket_of_each(rows: NDArray[Any], numbers: NDArray[Any]) -> dict[int, int]:
        counts = count_by_bucket(rows, numbers, lambda n: (n - n % 10, n - n % 10 + 10), lambda r, _: r)
        return dict(zip(counts.rows[:, 0].tolist(), counts.starts.tolist(), strict=True))

    def moved(numbers: NDArray[Any], others: NDArray[Any]) -> set[int]:
        before, after = bucket_of_each(rows, numbers), bucket_of_each(other, others)
        return {row for row in before if row in after and before[row] != after[row]}

    arrival = np.arange(100)
    assert moved(arrival, arrival) == set()
    assert len(moved(*(np.argsort(np.argsort(r[:, 0])) for r in (rows, other)))) == 9  # one of every other bucket


SEVERAL = st.dictionaries(st.integers(0, 59), st.integers(2, 900), max_size=12)


@given(several=SEVERAL, size=st.integers(0, 60), word=st.sampled_from([np.uint32, np.int64]))
def test_running_sums_are_those_of_all_counts(several: dict[int, int], size: int, word: type[Any]) -> None:
    """Of few and of many counts above one; and how many counts reach a sum, for every sum that there can be."""
    counts = [several.get(i, 1) for i in range(size)]
    sums, found = np.cumsum([0, *counts]), RunningSums(np.array(counts, dtype=word))
    assert found.of_first(np.arange(size + 1)).tolist() == sums.tolist()
    for total in range(int(sums[-1]) + 3):
        assert found.reaching(total) == min(int(np.searchsorted(sums, total)), size)


@given(several=SEVERAL, size=st.integers(1, 60), t=st.integers(0, 50), wide=st.integers(1, 40))
def test_every_bucket_gets_its_records_in_order(several: dict[int, int], size: int, t: int, wide: int) -> None:
    """Also where a row stands for records of two buckets, or of many. As oracle, one row after another is dealt out."""
    counts = [several.get(i, 1) for i in range(size)]
    expected = Counter[tuple[int, int]]()
    for number, row in enumerate(np.repeat(np.arange(size), counts).tolist(), start=t):
        expected[number - number % wide, row] += 1
    found, at = Counter[tuple[int, int]](), t
    rows = cells(*range(size))
    for start, records, part, numbers in parts_by_bucket(rows, np.array(counts), t, lambda n: _bucket_of(n, wide)):
        assert (start, records) == (at - at % wide, numbers.sum())
        at += records
        for row, number in zip(part[:, 0].tolist(), numbers.tolist(), strict=True):
            found[start, row] += number
    assert found == expected


def _bucket_of(number: int, wide: int) -> tuple[int, int]:
    return number - number % wide, number - number % wide + wide


def cells(*found: int) -> Any:  # noqa: ANN401 - rows
    return np.array(found, dtype=np.uint32)[:, None]


def test_parts_that_come_one_after_another_are_told_apart_and_null_records_are_in_none() -> None:
    """As in a journal, where parts of several processes are one array: each is sorted and distinct. Many are sorted."""
    largest = int(np.iinfo(np.uint32).max)
    rows, counts = cells(3, 7, 7, largest, 9, 2), np.array([1, 2, 3, 10, 1, 4])
    one, other, last = CountedBucket.of(5, 21, rows, counts)
    assert [(b.start, b.records) for b in (one, other, last)] == [(5, 13), (5, 4), (5, 4)]
    assert [b.rows[:, 0].tolist() for b in (one, other, last)] == [[3, 7], [7, 9], [2]]
    assert [b.counts.tolist() for b in (one, other, last)] == [[1, 2], [3, 1], [4]]
    (falling,) = CountedBucket.of(0, 60, cells(*range(30, 0, -1)), np.full(30, 2))
    assert (falling.rows[:, 0].tolist(), falling.counts.tolist()) == (list(range(1, 31)), [2] * 30)
    (nothing,) = CountedBucket.of(0, 8, cells(largest), np.array([8]))
    assert (nothing.records, len(nothing.rows)) == (8, 0)


@pytest.mark.parametrize(("different", "most"), [(1 << 30, 20), (4096, 5)])
def test_parts_of_a_bucket_stay_few(different: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Different records are left in parts, up to sixteen and what is much larger; records that repeat are added up."""
    monkeypatch.setattr("headwater.secret.held._LARGE", 500)
    rng, buckets, seen = np.random.default_rng(5), CountedBuckets(), Counter[int]()
    for _ in range(120):
        rows, counts = distinct(rng.integers(0, different, (9000, 1)).astype(np.uint32))
        seen.update(dict(zip(rows[:, 0].tolist(), counts.tolist(), strict=True)))
        buckets = buckets.plus(CountedBucket.of(0, 9000, rows, counts))
        assert len(buckets.buckets) <= most
        for one in buckets.buckets:
            assert (np.diff(one.rows[:, 0].astype(np.int64)) > 0).all()
    found = Counter[int]()
    for one in buckets.buckets:
        found.update(dict(zip(one.rows[:, 0].tolist(), one.counts.tolist(), strict=True)))
    assert found == seen
    assert buckets.records == 120 * 9000


@pytest.mark.parametrize("case", ["square", "wide table"])
@pytest.mark.parametrize("until", [None, 20_000])
def test_parts_give_what_their_sum_gives(case: str, until: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of many processes, kept beside one another, in many slow buckets; with the records in order as oracle."""
    monkeypatch.setattr("headwater.secret.held._LARGE", 2)
    stream, worker = records(case, 20_000, 5), start(case, 1.0)
    plain, owner = start(case, 1.0), start(case, 1.0)
    plain.update(table(case, stream), bad_rows="null")
    parts = Parts(list)
    for numbers in np.array_split(np.arange(20_000), 37):
        one = worker.histogram(table(case, [stream[i] for i in numbers]), numbers, bad_rows="null", until=until)
        for part in CountedParts.of_arrays(one).parts:
            parts[part.start].append((part.rows, part.counts))
    owner.update_counts(CountedParts.of(parts, until))
    assert owner.t == 20_000
    assert same(plain.release(), owner.release())
    assert same(plain.release(since=10_000), hw.Synthesizer.from_bytes(owner.to_bytes()).release(since=10_000))


def test_counted_buckets_forget_only_what_is_never_measured() -> None:
    one = CountedBucket(10, 3, np.array([[1], [2]], dtype=np.uint32), np.array([1, 2], dtype=np.uint8))
    other = CountedBucket(20, 4, np.array([[2]], dtype=np.uint32), np.array([3], dtype=np.uint8))
    both = CountedBuckets((one, other))
    assert (both.records, both.before(20), both.before(21), len(both.within(10, 20))) == (7, 3, 7, 1)
    (merged,) = both.merged(10).buckets
    assert (merged.start, merged.records, merged.rows[:, 0].tolist(), merged.counts.tolist()) == (10, 7, [1, 2], [1, 5])
    assert both.merged(20).buckets == both.buckets


@pytest.mark.parametrize("case", ["square", "wide table"])
def test_a_durable_run_keeps_counts_before_it_counts_them(case: str, tmp_path: Path) -> None:
    """Killed after any batch and opened again; releases are due in the middle of buckets and of batches."""
    stream, rng = records(case, 1500, 4), np.random.default_rng(1)
    schema, mechanism = CASES[case]
    config = RunConfig(schema, 8.0, mechanism, seed=3)
    found = dict[str, list[bytes]]()
    for how in ("in order", "counted", "at once"):
        state, sink = tmp_path / f"{how}.state", FolderSink(tmp_path / how)
        for number, end in enumerate(range(250, 1501, 250)):
            run = Run.open(config, sink, state=state, schedule=Schedule(records=350))
            assert run.position("batch") == (number - 1 if number else None)
            if how != "in order":
                whole = how == "at once" and (run.next_due or end) >= end  # of six batches, two have no release inside
                until = end if whole else None
                run.take_counts(counted(case, stream, run.t, end, 3, rng, until), position={"batch": number})
            else:
                run.take(table(case, stream[run.t : end]), bad_rows="null", position={"batch": number})
            if number % 2:
                run.publish_if_due()
                run.close()
            else:  # killed: neither a snapshot nor the releases that are due
                assert run.store is not None
                run.store.close()
        with Run.open(config, sink, state=state, schedule=Schedule(records=350)) as run:
            run.publish()
        tables = sorted((tmp_path / how).glob("release-*/*.parquet"))
        found[how] = [path.read_bytes() for path in tables]
    assert len(found["in order"]) == 5
    assert found["in order"] == found["counted"] == found["at once"]


def test_a_damaged_entry_of_counts_is_refused(tmp_path: Path) -> None:
    from headwater.run.store.entries import Entry, pack_entry, unpack_entry

    good = Entry(7, np.array([[1], [2]], dtype=np.uint64), {"batch": 1}, np.array([4, 9]))
    entry = unpack_entry(tmp_path, *(bytes(p) if isinstance(p, memoryview) else p for p in pack_entry(good)))  # type: ignore[arg-type]
    assert (entry.start, entry.end, entry.rows.tolist(), entry.position) == (7, 20, [[1], [2]], {"batch": 1})
    assert entry.counts is not None
    assert entry.counts.tolist() == [4, 9]
    cut = entry.between(9, 13)
    assert (cut.start, cut.end, cut.rows.tolist()) == (9, 13, [[1], [2]])
    whole = good._replace(whole=True)
    head, data, checksum = pack_entry(whole)
    assert '"counts"' not in head  # a version that would cut it does not find counts
    kept = unpack_entry(tmp_path, head, bytes(data), checksum)
    assert (kept.whole, kept.end, kept.between(0, 8).end) == (True, 20, 20)
    with pytest.raises(ValueError, match="taken at once"):
        kept.between(9, 13)
    for counts in ([4, 0], [4, 1 << 60]):
        head, data, checksum = pack_entry(good._replace(counts=np.array(counts)))
        with pytest.raises(ValueError, match="at least one record"):
            unpack_entry(tmp_path, head, bytes(data), checksum)


@pytest.mark.parametrize("largest", [[5, 200, 3], [65_535] * 3, [65_535] * 4])
def test_rows_of_one_word_are_counted_as_wider_ones_are(largest: list[int]) -> None:
    rows = np.random.default_rng(0).integers(0, 3, (500, len(largest))).astype(np.uint16)
    rows[7] = largest
    counts = np.arange(1, 501)
    for weights in (None, counts):
        found, numbers = distinct(rows, weights)
        wanted = Counter[tuple[int, ...]]()
        for row, number in zip(rows.tolist(), counts.tolist(), strict=True):
            wanted[tuple(row)] += 1 if weights is None else number
        assert found.dtype == rows.dtype
        assert dict(zip(map(tuple, found.tolist()), numbers.tolist(), strict=True)) == wanted
