"""The model as a whole: it finds what is in noisy tables, and has no bad days at the edges."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from headwater.public import chunks
from headwater.public.categories import Boolean, Category
from headwater.public.cube import UnitCube
from headwater.public.files import FileRefusedError
from headwater.public.marginals.codes import Coding, codings, encode
from headwater.public.marginals.estimate import Estimator
from headwater.public.marginals.measured import Measured, NoisyTable
from headwater.public.marginals.model import MODEL, MarginalsModel
from headwater.public.marginals.predict import LogLinear
from headwater.public.numbers import Integer, Number
from headwater.public.replicates import expected_error
from headwater.public.schema import Schema

SCHEMA = Schema(
    size=Number(0, 10, missing=True),
    color=Category("red", "green", "blue"),
    sold=Boolean(),
    grade=Integer(1, 5),
)
EDGES = (np.array([0, 8192, 16384, 24576, 32768]), np.arange(3), np.arange(2), np.arange(5))


def _points(records: int, seed: int) -> np.ndarray:
    """Dependent records: color follows size, grade follows color, sold is by itself."""
    rng = np.random.default_rng(seed)
    size = rng.beta(2, 4, records)
    color = np.minimum((size * 3 + rng.normal(0, 0.3, records)).clip(0), 2.99).astype(int)
    grade = np.where(rng.random(records) < 0.7, color + 1, rng.integers(0, 5, records))
    gone = rng.random(records) < 0.05
    return np.column_stack([np.where(gone, 0.5, size / 2), color / 4, (rng.random(records) < 0.3) / 2, grade / 8])


def _count(codes: np.ndarray, columns: tuple[int, ...], edges: tuple[np.ndarray, ...] = EDGES) -> np.ndarray:
    bins = [np.searchsorted(edges[c], codes[:, c], side="right") - 1 for c in columns]
    shape = [len(edges[c]) for c in columns]
    return np.bincount(np.ravel_multi_index(bins, shape), minlength=int(np.prod(shape))).reshape(shape)


def _measured(points: np.ndarray, scale: float = 5.0, start: int = 0, seed: int = 1) -> Measured:
    rng, codes = np.random.default_rng(seed), encode(points, SCHEMA).astype(np.int64)
    tables, half, end = [], len(points) // 2, len(points)
    sets = [(0,), (1,), (2,), (3,), (0, 1), (1, 3), (0, 3)]
    for low, high in ((0, half), (half, end)):
        for columns in sets:
            counts = _count(codes[low:high], columns)
            noise = np.rint(rng.laplace(0, scale, counts.shape)).astype(np.int64)
            if columns == (2,):
                noise = noise[0] * np.array([-1, 1])
            edges = tuple(EDGES[c] for c in columns)
            tables.append(NoisyTable(columns, low, high, edges, counts + noise, scale, 2 * scale**2))
    return Measured(end, start, 1.0, codings(SCHEMA), tuple(tables))


def _distance(first: np.ndarray, second: np.ndarray, columns: tuple[int, ...]) -> float:
    tables = [_count(encode(p, SCHEMA).astype(np.int64), columns) / len(p) for p in (first, second)]
    return float(np.abs(tables[0] - tables[1]).sum() / 2)


@pytest.fixture(scope="module")
def real() -> np.ndarray:
    return _points(20_000, 3)


@pytest.fixture(scope="module")
def model(real: np.ndarray) -> MarginalsModel:
    return MODEL.fit(_measured(real), SCHEMA, 0)


def test_marginals_of_drawn_records_are_those_of_the_data(model: MarginalsModel, real: np.ndarray) -> None:
    """20,000 records, noise of scale 5 in halves: every one-way within .01, every two-way within .02."""
    made = model.points(1)
    assert made.shape == real.shape
    for column in range(4):
        assert _distance(made, real, (column,)) < 0.01
    for pair in combinations(range(4), 2):
        assert _distance(made, real, pair) < 0.02


def test_a_prediction_without_pairs_beyond_the_tree_is_exact() -> None:
    """Three columns, two measured pairs: the third pair against enumeration of the chain, span by span."""
    measured = _measured(_points(20_000, 4))
    measured = Measured(20_000, 0, 1.0, measured.codings, tuple(t for t in measured.tables if t.columns != (0, 3)))
    estimate = Estimator(measured).run()
    found = LogLinear(estimate).pairs([(0, 3)], 0, 20_000)[0]
    joints, shares = LogLinear(estimate).joints, np.diff(estimate.edges) / 20_000
    literal = np.zeros((5, 5))
    for span, share in enumerate(shares):
        first, second = joints[0, 1][span], joints[1, 3][span]
        for i in range(5):
            for k in range(5):
                literal[i, k] += share * sum(first[i, j] * second[j, k] / first[:, j].sum() for j in range(3))
    assert np.abs(found - literal).max() < 1e-6


@pytest.mark.parametrize(
    "where",
    [{1: (0.25, 0.25)}, {0: (0.125, 0.2499)}, {0: (0.5, 0.5)}, {0: (0.25, 0.3749), 3: (0.125, 0.25), 2: (0.0, 0.0)}],
)
def test_conditions_are_met_and_the_rest_follows_the_data(
    model: MarginalsModel, real: np.ndarray, where: dict[int, tuple[float, float]]
) -> None:
    made = model.sample(5_000, 1, where)
    fits = np.ones(len(real), dtype=bool)
    for column, (low, high) in where.items():
        assert made[:, column].min() >= low
        assert made[:, column].max() <= high
        fits &= (real[:, column] >= low) & (real[:, column] <= high)
    for column in range(4):
        if column not in where:
            assert _distance(made, real[fits], (column,)) < 0.06


def test_what_no_record_can_be_is_refused(model: MarginalsModel) -> None:
    with pytest.raises(ValueError, match="no record"):
        model.sample(5, 1, {1: (0.3, 0.4)})  # red is 0, green is ¼, blue is ½


def test_a_window_is_about_its_own_records() -> None:
    """The two halves differ; the model of the second half is near to it, and far from the first."""
    first, second = _points(10_000, 6), _points(10_000, 7)
    second[:, 1] = 0.5
    both = np.concatenate([first, second])
    window = MODEL.fit(_measured(both, start=10_000), SCHEMA, 0)
    assert window.records == 10_000
    made = window.points(1)
    assert _distance(made, second, (1,)) < 0.02
    assert _distance(made, second, (0, 1)) < 0.05
    assert _distance(made, first, (1,)) > 0.3


@pytest.mark.parametrize("schema", [Schema(only=Category("one")), Schema(b=Boolean()), UnitCube(1), UnitCube(3)])
def test_small_schemas_work(schema: Schema | UnitCube) -> None:
    columns = schema.dimension
    sizes = [coding.size for coding in codings(schema)]
    edges = [np.arange(size) if size <= 2 else np.array([0, size // 2]) for size in sizes]
    tables = [
        NoisyTable((c,), 0, 64, (edges[c],), np.array([64 - 10 * len(edges[c]), 20])[: len(edges[c])], 2.0, 8.0)
        for c in range(columns)
    ]
    measured = Measured(100, 0, 1.0, codings(schema), tuple(tables), schema)
    model = MODEL.fit(measured, schema, 0)
    assert model.points(0).shape == (100, columns)
    expected = expected_error(model, measured, schema)
    assert 0 <= expected.typical <= expected.upper <= 1


@pytest.mark.slow
def test_a_hundred_columns_and_hundreds_of_categories_work() -> None:
    rng = np.random.default_rng(8)
    sizes = [300] * 2 + [4] * 98
    many = tuple(Coding(size, missing=False, ordered=False) for size in sizes)
    tables = [
        NoisyTable((c,), 0, 5_000, (np.arange(n),), rng.multinomial(5_000, np.ones(n) / n), 3.0, 18.0)
        for c, n in enumerate(sizes)
    ]
    for a, b in [(0, 1), *((c, c + 1) for c in range(2, 99))]:
        counts = rng.multinomial(5_000, rng.dirichlet(np.ones(sizes[a] * sizes[b]))).reshape(sizes[a], sizes[b])
        tables.append(NoisyTable((a, b), 0, 5_000, (np.arange(sizes[a]), np.arange(sizes[b])), counts, 3.0, 18.0))
    model = LogLinear(Estimator(Measured(5_000, 0, 1.0, many, tuple(tables))).run())
    assert model.draw(5_000, rng).shape == (100, 5_000)
    assert [table.shape for table in model.pairs([(0, 99), (0, 1), (5, 6)], 0, 5_000)] == [(300, 4), (300, 300), (4, 4)]


def test_a_tampered_state_is_refused(model: MarginalsModel) -> None:
    header, arrays = model.state()
    for name in header:
        for bad in (None, [], [[0, 0]], [-1, 1, 1, 1], [[3, 1]]):
            if bad != header[name] and (name, bad) != ("tree", []):  # a tree may be empty
                with pytest.raises(FileRefusedError):
                    MODEL.restore({**header, name: bad}, arrays, SCHEMA, model.records)
    for name, array in arrays.items():
        worse = [array[:-1], -array - 1, array.astype(np.int32)]
        worse += [np.full_like(array, np.nan)] if array.dtype.kind == "f" else []
        for wrong in worse:
            with pytest.raises(FileRefusedError):
                MODEL.restore(header, {**arrays, name: wrong}, SCHEMA, model.records)


@pytest.mark.parametrize("threads", [2, 3])
def test_how_many_threads_draw_makes_no_difference(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Points, a sample and one under a condition, in many small chunks: what one thread draws in large ones."""
    model = MODEL.fit(_measured(_points(4000, 3)), SCHEMA, 0)

    def drawn() -> list[np.ndarray]:
        return [model.points(5), model.sample(999, 6), model.sample(500, 6, {1: (0.2, 0.6)})]

    alone = drawn()
    monkeypatch.setattr(chunks, "CHUNK", 64)
    monkeypatch.setattr(chunks, "MANY", 1)
    monkeypatch.setattr(chunks, "THREADS", threads)
    assert all((one == other).all() for one, other in zip(alone, drawn(), strict=True))


def test_an_error_in_a_thread_that_draws_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "MANY", 1)
    monkeypatch.setattr(chunks, "THREADS", 2)
    monkeypatch.setattr(chunks, "CHUNK", 1)

    def fail(lot: slice) -> None:
        if lot.start == 1:
            raise MemoryError

    with pytest.raises(MemoryError):
        chunks.each_chunk(2, fail)
