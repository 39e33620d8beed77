import importlib.util
import sys

import numpy as np
import numpy.typing as npt
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from headwater.evaluation import W1, w1
from headwater.evaluation.w1 import _supplies

Floats = npt.NDArray[np.float64]


def sets(n: int, m: int, d: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Two different distributions, with corners of the cube and a repeated point in the first set."""
    rng = np.random.default_rng([seed, n, m, d])
    a, b = rng.beta(2, 3, (n, d)), rng.random((m, d))
    a[0], a[1], a[2], b[0] = 0.0, 1.0, a[3], 1.0
    return a, b


def optimal_transport(a: Floats, b: Floats) -> float:
    """W₁ by the network simplex of POT, which shares no code with ours."""
    cost = np.abs(a[:, np.newaxis] - b[np.newaxis]).max(axis=2)
    return float(ot.emd2(np.full(len(a), 1 / len(a)), np.full(len(b), 1 / len(b)), cost, numItermax=10**6))


points = hnp.arrays(np.float64, st.tuples(st.integers(1, 12), st.just(2)), elements=st.floats(0, 1))


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize(("n", "m"), [(80, 80), (80, 50), (41, 80), (97, 5)])
def test_exact_methods_agree_with_an_independent_solver(n: int, m: int, d: int) -> None:
    a, b = sets(n, m, d)
    expected = optimal_transport(a, b)
    auto, exact = w1(a, b), w1(a, b, method="exact")
    assert auto.value == pytest.approx(expected, abs=1e-11)
    assert exact.value == pytest.approx(expected, abs=1e-11)
    assert (auto.error, exact.error) == (0.0, 0.0)
    assert (auto.method, exact.method) == ("sort" if d == 1 else "exact", "exact")


@pytest.mark.parametrize(("d", "side"), [(1, 7), (1, 64), (2, 5), (2, 16), (2, 64), (3, 4), (3, 9), (4, 3)])
@pytest.mark.parametrize(("n", "m"), [(150, 150), (150, 101)])
def test_the_truth_is_within_the_stated_error_of_the_grid(n: int, m: int, d: int, side: int) -> None:
    a, b = sets(n, m, d)
    grid = w1(a, b, method="grid", side=side)
    assert abs(grid.value - optimal_transport(a, b)) <= grid.error + 1e-12
    assert 0 < grid.error <= 1 / side + 1e-12
    assert grid.method == "grid"


@given(points, points, st.integers(1, 12))
@settings(max_examples=60, derandomize=True)
def test_the_stated_error_holds_for_awkward_points(a: Floats, b: Floats, side: int) -> None:
    grid = w1(a, b, method="grid", side=side)
    assert abs(grid.value - w1(a, b, method="exact").value) <= grid.error + 1e-11
    assert grid.error <= 1 / side + 1e-12


def test_one_cell_side_is_the_best_error_bound_that_holds_for_all_points() -> None:
    """Opposite faces of one cell: the grid sees no distance, the truth is a whole side."""
    grid = w1([[0.0, 0.0]], [[np.nextafter(0.25, 0), 0.0]], method="grid", side=4)
    assert grid.value == 0
    assert grid.error == pytest.approx(0.25)


@pytest.mark.parametrize(("d", "side"), [(1, 50), (2, 10), (3, 5)])
@pytest.mark.parametrize(("n", "m"), [(60, 60), (60, 43)])
def test_the_grid_is_exact_on_cell_centres(n: int, m: int, d: int, side: int) -> None:
    rng = np.random.default_rng(d)
    a, b = ((rng.integers(side, size=(k, d)) + 0.5) / side for k in (n, m))
    grid = w1(a, b, method="grid", side=side)
    assert grid.value == pytest.approx(optimal_transport(a, b), abs=1e-12)
    assert grid.error < 1e-14


@pytest.mark.parametrize("method", ["auto", "exact", "grid"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_it_is_a_metric(method: str, d: int) -> None:
    def distance(x: Floats, y: Floats) -> float:
        return w1(x, y, method=method, side=8 if method == "grid" else None).value  # type: ignore[arg-type]  # parametrized

    (a, b), (c, _) = sets(60, 45, d), sets(50, 50, d, seed=1)
    assert distance(a, a[::-1]) == pytest.approx(0, abs=1e-12)
    assert distance(a, np.repeat(a, 2, axis=0)) == pytest.approx(0, abs=1e-12)
    assert distance(a, b) > 0.01
    assert distance(a, b) == pytest.approx(distance(b, a), abs=1e-11)
    assert distance(a, c) <= distance(a, b) + distance(b, c) + 1e-11


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_a_translation_costs_its_length_in_the_chebyshev_metric(d: int) -> None:
    a = np.random.default_rng(d).random((50, d)) / 2
    step = np.linspace(0.5, 0.1, d)
    assert w1(a, a + step).value == pytest.approx(0.5)
    assert w1(np.repeat(a, 3, axis=0), a + step).value == pytest.approx(0.5)
    if d <= 3:
        assert w1(a, a + 0.5, method="grid", side=8).value == pytest.approx(0.5)


def test_the_two_ends_of_the_cube_are_one_apart() -> None:
    for d in (1, 2, 3):
        corners = np.zeros((2, d)), np.ones((3, d))
        assert w1(*corners).value == pytest.approx(1)
        assert w1(*corners, method="grid", side=4) == W1(0.75, 0.25, "grid")


def test_the_default_grid_serves_large_sets() -> None:
    a, b = sets(20_000, 30_011, 2)
    result = w1(a, b)
    assert result.method == "grid"
    assert result.error <= 1 / 64
    assert abs(result.value - w1(a, b, method="grid", side=32).value) <= 3 / 64


def test_masses_whose_common_multiple_is_too_large_are_rounded_within_the_stated_error() -> None:
    """Counts of so many points that nobody holds them: the supplies of the flow, by themselves."""
    rng = np.random.default_rng(5)
    p, q = rng.integers(1, 50, 30), rng.integers(1, 50, 30)
    wanted = p / p.sum() - q / q.sum()
    for factor, bound in ((1, 0.0), (10**12, 2 * 30 / 2**40)):
        supply, total, rounding = _supplies(p * factor, q * (factor + (factor > 1)))
        assert rounding == bound
        assert np.abs(supply / total - wanted).max() <= max(rounding, 1e-15)


def test_a_million_points_on_a_line_are_sorted() -> None:
    a = np.random.default_rng(0).random(1_000_000) / 2
    assert w1(a, a[::-1] + 0.25).value == pytest.approx(0.25)
    assert w1(a, a[1:] + 0.25).value == pytest.approx(0.25, abs=1e-6)


A = np.full((3, 2), 0.987654)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (A, np.empty((0, 2)), "b is empty"),
        (np.empty((0, 2)), np.empty((0, 2)), "a is empty"),
        ([], [], "a is empty"),
        (A, np.empty((3, 0)), "b is empty"),
        (A, A[:, :1], "a has 2 columns and b has 1"),
        (A, A[np.newaxis], "b must have one row per point"),
        (0.5, A, "a must have one row per point"),
        (A, A * 2, "b has points outside the unit cube"),
        (-A, A, "a has points outside the unit cube"),
        (A, A * np.nan, "b has values that are not finite"),
        (A * np.inf, A, "a has values that are not finite"),
    ],
)
def test_bad_points_are_named_and_not_shown(a: npt.ArrayLike, b: npt.ArrayLike, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        w1(a, b)
    assert "98765" not in str(caught.value)
    assert "1.97" not in str(caught.value)


@pytest.mark.parametrize("bad", [np.array([["secret"]]), np.array([[1j]]), np.array([[None]]), np.array([True])])
def test_points_that_are_not_real_numbers_are_a_type_error(bad: npt.NDArray[np.generic]) -> None:
    with pytest.raises(TypeError, match="b must hold real numbers") as caught:
        w1([[0.5]], bad)
    assert "secret" not in str(caught.value)


def test_options_that_do_not_fit_are_refused() -> None:
    four = np.full((20, 4), 0.5)
    with pytest.raises(ValueError, match="method must be"):
        w1(A, A, method="fast")  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(ValueError, match="needs one column, not 2"):
        w1(A, A, method="sort")
    with pytest.raises(ValueError, match="side= is for the grid"):
        w1(A, A, method="exact", side=4)
    with pytest.raises(ValueError, match="no default grid in dimension 4"):
        w1(four, four, method="grid")
    with pytest.raises(ValueError, match="side must be at least 1"):
        w1(A, A, method="grid", side=0)
    with pytest.raises(ValueError, match="lower side"):
        w1(four, four, method="grid", side=10**6)


@pytest.mark.parametrize(("n", "m"), [(4001, 4001), (1001, 1000)])
def test_sets_too_large_for_the_exact_method_are_told_what_to_do(n: int, m: int) -> None:
    a, b = np.zeros((n, 4)), np.ones((m, 4))
    with pytest.raises(ValueError, match=f"{n} and {m} points.*d >= 4, method=.grid. with a small side="):
        w1(a, b)
    with pytest.raises(ValueError, match="method='grid' for d = 2 or 3"):
        w1(a[:, :2], b[:, :2], method="exact")
    assert w1(a, b, method="grid", side=4) == W1(0.75, 0.25, "grid")


def test_without_the_extra_the_module_loads_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("scipy", "scipy.spatial", "scipy.spatial.distance", "scipy.optimize", "ortools"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "ortools.graph.python.min_cost_flow", None)
    spec = importlib.util.find_spec("headwater.evaluation.w1")
    assert spec is not None
    assert spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    assert fresh.w1([0.0], [0.5]).value == 0.5
    for method in ("exact", "grid"):
        with pytest.raises(ImportError, match=r"pip install 'headwater\[evaluate\]'"):
            fresh.w1(A, A / 2, method=method, side=4 if method == "grid" else None)
