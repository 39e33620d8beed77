"""Records that many processes count: the owner publishes what it would have published of the records in order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import headwater as hw
from headwater.public.cascade.plan import stage_at
from headwater.public.protocol import Span
from headwater.secret.batch import count_by_bucket, distinct
from headwater.secret.held import Held, Part, cut
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


def records(case: str, n: int, seed: int) -> Any:  # noqa: ANN401 - an array, or rows of one
    """Records with many repetitions; some are bad."""
    rng, schema = np.random.default_rng(seed), CASES[case][0]
    if schema is not TABLE:
        points = np.round(crowd(n, schema.dimension, seed), 2)
        points[rng.random(n) < 0.02] = np.nan
        return points
    sizes, ages = np.round(rng.gamma(2, 1.5, n)).clip(0, 10).tolist(), rng.integers(20, 40, n).tolist()
    paid, member = rng.choice(["card", "cash", "a"], n, p=[0.7, 0.28, 0.02]).tolist(), (rng.random(n) < 0.5).tolist()
    columns = zip(sizes, ages, paid, member, strict=True)
    return np.array([dict(zip(TABLE.names, record, strict=True)) for record in columns])


def table(some: Any) -> Any:  # noqa: ANN401 - an array, or a list of records
    return some if some.dtype != object else some.tolist()


def counted(
    case: str, stream: NDArray[Any], first: int, end: int, rng: np.random.Generator, until: int | None, epsilon: float
) -> hw.Batch:
    """What three machines that share nothing but the schema count; each has any of the records."""
    parts = np.array_split(first + rng.permutation(end - first), 3)
    return hw.Batch.merge(
        start(case, epsilon).encode(table(stream[part]), part, until, bad_rows="null") for part in parts
    )


@pytest.mark.parametrize("case", CASES)
@given(cuts=st.lists(st.integers(0, 700), min_size=1, max_size=4), seed=st.integers(0, 10**6), at_once=st.booleans())
@settings(max_examples=8)
def test_counted_records_give_what_the_records_in_order_give(
    case: str, cuts: list[int], seed: int, at_once: bool
) -> None:
    """Over many buckets at once, in turns with records in order, with releases and reloads between them."""
    rng, stream = np.random.default_rng(seed), records(case, 700, seed)
    plain, owner = start(case), start(case)
    for number, end in enumerate(sorted({*cuts, 700} - {0})):
        first = plain.t
        plain.update(table(stream[first:end]), bad_rows="null")
        if number % 3 == 2:
            owner.update(table(stream[first:end]), bad_rows="null")
        else:
            owner.take(counted(case, stream, first, end, rng, end if at_once else None, 8.0))
        assert owner.t == plain.t == end
        if number % 2:
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
        plain.update(stream[plain.t : end], bad_rows="null")
        owner.take(counted(case, stream, owner.t, end, rng, end, 20.0))
        assert same(plain.release(), owner.release())
        assert same(plain.release(last=500), owner.release(last=500))
        owner = hw.Synthesizer.from_bytes(owner.to_bytes())
    assert len(stage_at(5999, CASES[case][0].dimension, 20.0).timescales) >= 3


@pytest.mark.parametrize("until", [None, 20_000])
@pytest.mark.parametrize("case", ["square", "wide table"])
def test_one_update_may_go_over_many_slow_buckets(case: str, until: int | None) -> None:
    """Wide rows and cells, 20,000 records in one sum of three parts, with the records in order as oracle."""
    stream, plain, owner = records(case, 20_000, 5), start(case, 1.0), start(case, 1.0)
    plain.update(table(stream), bad_rows="null")
    owner.take(counted(case, stream, 0, 20_000, np.random.default_rng(0), until, 1.0))
    assert same(plain.release(), owner.release())
    assert same(plain.release(since=10_000), owner.release(since=10_000))


def test_an_open_bucket_keeps_its_distinct_rows_and_not_its_records() -> None:
    """A hundred places: of 30,000 records in an open slow bucket there are at most so many codes for each fast one."""
    places, owner, rng = crowd(100, 2, 1), start("square", 1.0), np.random.default_rng(2)
    while owner.t < 260_000:
        owner.take(owner.encode(places[rng.integers(100, size=6500)], owner.t))
    mechanism: Any = owner.state.mechanism
    siblings = [scale.siblings for scale in mechanism.stage.timescales[1:]]
    assert (owner.t - mechanism.start, siblings) == (30_624, [8, 4])
    assert sum(len(part.rows) for part in mechanism._held.parts) <= 100 * (8 + 4 + 2)  # closed ones, and the open one


@given(
    n=st.integers(0, 60), width=st.integers(1, 4), seed=st.integers(0, 10**6), large=st.booleans(), times=st.booleans()
)
@settings(max_examples=60)
def test_distinct_rows_are_those_of_a_dictionary(n: int, width: int, seed: int, large: bool, times: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 3, (n, width)).astype(np.uint64)
    rows = rows * np.uint64((1 << 64) // 3) if large else rows.astype(np.uint16) * np.uint16(21_845)
    counts = rng.integers(1, 1 << 40 if large else 9, n) if times else None
    expected = Counter[tuple[int, ...]]()
    for i, row in enumerate(rows.tolist()):
        expected[tuple(row)] += 1 if counts is None else int(counts[i])
    names, numbers = distinct(rows, counts)
    assert names.dtype == rows.dtype
    assert dict(zip(map(tuple, names.tolist()), numbers.tolist(), strict=True)) == expected
    assert len(names) == len(expected)


def test_buckets_are_public_and_the_same_for_every_run() -> None:
    """They cut the numbers of records without a gap, and do not depend on what a run has taken."""
    for case in ("line", "square", "wide table"):
        early, late = start(case, 1.0), start(case, 1.0)
        late.update(table(records(case, 5000, 1)), bad_rows="null")
        number = 0
        while number < 70_000:
            first, end = early.bucket(number)
            assert first == number < end
            assert early.bucket(end - 1) == late.bucket(number) == (first, end)
            number = end
    with pytest.raises(ValueError, match="at least 0"):
        start("square").encode(crowd(3, 2), -1)


@pytest.mark.parametrize("until", [5, 640, 299_999, 300_000])
def test_records_that_are_taken_at_once_are_counted_in_the_buckets_that_are_measured(until: int) -> None:
    """Each is a union of fastest ones, ends in time or is a fastest one, and a release then asks for these only."""
    for case in ("line", "square", "wide table"):
        synth, number, found = start(case, 20.0), 0, list[Span]()
        while number < until:
            first, end = synth.bucket(number, until)
            assert (first, end) == synth.bucket(end - 1, until)
            assert (first, end) == (number, synth.bucket(end - 1).end)
            assert end <= until or (first, end) == synth.bucket(number)
            found.append(Span(first, end))
            number = end
        stage = stage_at(until, CASES[case][0].dimension, 20.0)
        if case != "wide table" and until > 640:
            assert len(stage.timescales) >= 3
            covered = until - (until - stage.start) % stage.timescales[0].size  # the start of the open slow bucket
            for scale in stage.timescales[1:]:  # as releases do
                for first in range(covered, until - scale.size + 1, scale.size):
                    assert (first, first + scale.size) in found
                    covered = first + scale.size


def test_counts_that_were_made_to_be_taken_at_once_are_not_taken_otherwise() -> None:
    synth, points = start("square", 20.0), np.round(crowd(7000, 2), 1)
    one = synth.encode(points, 0, until=7000)
    assert len(one.rows) < len(synth.encode(points, 0).rows)
    with pytest.raises(ValueError, match="the same until"):
        one + synth.encode(points, 7000)
    with pytest.raises(ValueError, match="only records that were counted"):
        one + synth.encode(points)
    last = int(np.flatnonzero(one.starts == one.starts[-1])[0]) if one.starts is not None else 0
    assert one.counts is not None
    assert one.starts is not None
    short = hw.Batch(one.rows[:last], one.counts[:last], one.starts[:last], 7000)
    with pytest.raises(ValueError, match="counted for 7000 records in all"):
        synth.take(short)
    with pytest.raises(ValueError, match="of the bucket from"):
        synth.take(hw.Batch(one.rows, one.counts, one.starts))  # nothing says that these are not the fastest
    assert synth.t == 0


def test_a_bucket_of_the_mechanism_is_closed_where_the_public_one_ends() -> None:
    synth, points = start("square", 20.0), crowd(2100, 2)
    for i in range(1500, 2100):
        synth.update(points[synth.t : i])
        first, end = synth.bucket(i - 1)
        measured: Any = synth.measured()
        assert measured.covered == (end if i == end else first)


def test_numbers_must_fit_the_records() -> None:
    synth, points = start("square"), crowd(3, 2)
    for numbers in ([0, 1], [0.0, 1.0, 2.0], [[0, 1, 2]]):
        with pytest.raises(ValueError, match="numbers must be 3 whole numbers"):
            synth.encode(points, numbers)
    with pytest.raises(TypeError, match="whole number"):
        synth.encode(points, 1.5)
    assert synth.encode(points, 7).starts.tolist() == [0, 8, 8]  # type: ignore[union-attr]  # a bucket of 8 ends there


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "too few in a bucket that ends": ({"counts": [20, 7, 5]}, ValueError, "has 27 counted ones"),
    "too many": ({"counts": [20, 9, 5]}, ValueError, "has 29 counted ones"),
    "a bucket left out": ({"starts": [576, 576, 704]}, ValueError, "of the bucket from 640"),
    "a bucket that has ended": ({"starts": [512, 576, 640]}, ValueError, "of the bucket from 576"),
    "no start of a bucket": ({"starts": [577, 577, 640]}, ValueError, "of the bucket from 576"),
    "not in order": ({"starts": [640, 576, 576]}, ValueError, "starts must not fall"),
    "no record": ({"counts": [28, 0, 5]}, ValueError, "between 1 and"),
    "negative": ({"counts": [29, -1, 5]}, ValueError, "between 1 and"),
    "too large": ({"counts": [2**63 - 1] * 3}, ValueError, "between 1 and"),
    "fractions": ({"counts": [20.0, 8.0, 5.0]}, TypeError, "counts must be whole numbers"),
    "short": ({"counts": [28, 5]}, ValueError, "as long as rows"),
    "masked": ({"counts": np.ma.masked_array([20, 8, 5])}, TypeError, "masked"),
    "beyond": ({"rows": [[5], [9], [2**32]]}, ValueError, "between 0 and"),
    "below": ({"rows": [[5], [9], [-1]]}, ValueError, "between 0 and"),
    "flat": ({"rows": [5, 9, 9]}, ValueError, "shape"),
    "rows in fractions": ({"rows": [[5.0], [9.0], [9.0]]}, TypeError, "rows must be whole numbers"),
}


@pytest.mark.parametrize("case", WRONG)
def test_counts_of_other_records_are_refused_and_change_nothing(case: str) -> None:
    """The next 28 records of a run at ``t`` = 612 whose bucket of 64 began at 576, and 5 of the bucket after it."""
    changes, error, message = WRONG[case]
    synth = hw.Synthesizer(hw.unit_cube(2), epsilon=1.0, seed=1)
    synth.update(crowd(612, 2))
    assert (synth.bucket(612), synth.bucket(640)) == ((576, 640), (640, 704))
    good: dict[str, Any] = {"starts": [576, 576, 640], "rows": [[5], [9], [9]], "counts": [20, 8, 5]}
    before = synth.to_bytes()
    made: dict[str, Any] = {name: np.asanyarray(one) for name, one in (good | changes).items()}
    with pytest.raises(error, match=message):
        synth.take(hw.Batch(**made))
    assert synth.to_bytes() == before
    made = {name: np.array(one) for name, one in good.items()}
    synth.take(hw.Batch(**made))
    assert synth.t == 645


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (np.zeros((3, 4), dtype=np.uint16), ValueError),
        (np.zeros(5, dtype=np.uint16), ValueError),
        (np.zeros((3, 5)), TypeError),
        (np.full((3, 5), -1), ValueError),
        (np.array([[0] * 5, [2**16 - 1] + [2**15] * 4]), ValueError),
    ],
)
def test_rows_that_are_none_are_refused(rows: NDArray[Any], error: type[Exception]) -> None:
    synth = hw.Synthesizer(hw.unit_cube(5), epsilon=1.0, mechanism="marginals", seed=1)
    with pytest.raises(error, match="rows"):
        synth.take(hw.Batch(rows))
    good = synth.encode(crowd(10, 5)).rows
    good[3] = np.iinfo(good.dtype).max  # a null record
    synth.take(hw.Batch(good.astype(np.int64)))
    assert synth.t == 10


def test_an_order_made_from_values_would_move_other_records() -> None:
    """Why numbers must not depend on values: sorted by value, replacing one record moves others to other buckets."""
    rows, other = (np.arange(100, dtype=np.uint64)[:, None] for _ in range(2))
    other[0] = 1000  # one record is replaced

    def bucket_of_each(rows: NDArray[Any], numbers: NDArray[Any]) -> dict[int, int]:
        found = count_by_bucket(rows, numbers, lambda n: Span(n - n % 10, n - n % 10 + 10), lambda r, _: r)
        assert found.starts is not None
        return dict(zip(found.rows[:, 0].tolist(), found.starts.tolist(), strict=True))

    def moved(numbers: NDArray[Any], others: NDArray[Any]) -> set[int]:
        before, after = bucket_of_each(rows, numbers), bucket_of_each(other, others)
        return {row for row in before if row in after and before[row] != after[row]}

    arrival = np.arange(100)
    assert moved(arrival, arrival) == set()
    assert len(moved(*(np.argsort(np.argsort(r[:, 0])) for r in (rows, other)))) == 9  # one of every other bucket


@given(
    counts=st.none() | st.lists(st.integers(1, 900), max_size=40),
    size=st.integers(0, 300),
    t=st.integers(0, 50),
    wide=st.integers(1, 40),
)
@settings(max_examples=200)
def test_every_bucket_gets_its_records_in_order(counts: list[int] | None, size: int, t: int, wide: int) -> None:
    """Also where a row stands for records of two buckets, or of many. As oracle, one row after another is dealt out."""
    size, expected, found = size if counts is None else len(counts), Counter[tuple[int, int]](), Counter[Any]()
    for number, row in enumerate(np.repeat(np.arange(size), counts or 1).tolist(), start=t):
        expected[number - number % wide, row] += 1
    batch = hw.Batch(np.arange(size, dtype=np.uint32)[:, None], None if counts is None else np.array(counts, int))
    held, at = Held(), t
    for part in cut(batch, t, lambda n: Span(n - n % wide, n - n % wide + wide)):
        assert part.start == at - at % wide
        held, at = held.plus(part), at + part.records
    assert sum(part.records for part in held.parts) == at - t == expected.total()
    for start in {start for start, _ in expected}:
        plain, several = held.within(Span(start, start + wide))
        for rows, numbers in [*((rows, np.ones(len(rows), int)) for rows in plain), *several]:
            found.update(Counter({(start, int(row[0])): int(n) for row, n in zip(rows, numbers, strict=True)}))
    assert found == expected


@pytest.mark.parametrize(("different", "most"), [(1 << 30, 12), (4096, 3)])
def test_parts_of_a_bucket_stay_few(different: int, most: int) -> None:
    """Each is more than twice the next, and rows that repeat are added up; null records are in none, but count."""
    rng, held, seen = np.random.default_rng(5), Held(), Counter[int]()
    for _ in range(120):
        rows, counts = distinct(rng.integers(0, different, (900, 1)).astype(np.uint32))
        seen.update(dict(zip(rows[:, 0].tolist(), counts.tolist(), strict=True)))
        rows = np.append(rows, np.full((1, 1), 2**32 - 1, dtype=np.uint32), axis=0)
        held = held.plus(Part(0, 907, rows, np.append(counts, 7)))
        assert len(held.parts) <= most
    found = Counter[int]()
    for part in held.parts:
        assert part.counts is not None
        found.update(dict(zip(part.rows[:, 0].tolist(), part.counts.tolist(), strict=True)))
    assert found == seen
    assert sum(part.records for part in held.parts) == 120 * 907
    assert sum(part.records for part in held.merged(0).parts) == 120 * 907
