"""The 1-Wasserstein distance W₁ between two sets of points of the unit cube, in the ℓ∞ metric.

NOT PRIVATE. Every function here reads raw data and answers without noise. It is a baseline for public
or test data; publishing a distance to private data is a leak.

Each set is an empirical measure of mass 1, so the two sets may differ in size. There are three methods.

Formal guarantees
-----------------
The distance differs from what is returned by at most the stated error, up to floating point; a subsample is an
estimate, and says so.

``sort``
    d = 1 only: the integral of ``|F − G|``. No error.
``exact``
    Optimal transport over all pairs, for small sets. No error beyond rounding (distances are rounded
    at 2⁻⁴⁰ when the sizes differ).
``grid``
    Points move to the centre of their cell; then min-cost flow between neighbouring cells, where a
    king's move costs one cell side. The fewest king's moves between two cells is the Chebyshev distance
    of their centres in cell sides, so the flow is exact for the moved points. Moving a set changes W₁
    by at most the mean distance its points move (triangle inequality), hence at most half a side for
    each set: the stated error is the sum of the two means, never more than one cell side.
"""

import math
import operator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headwater.evaluate.grid_flow import check_arcs, extra, flow_on_grid, histogram, min_cost_flow

Method = Literal["auto", "sort", "exact", "grid"]
Floats = NDArray[np.float64]

DEFAULT_SIDE = {2: 64, 3: 32}
EXACT_POINTS = 4_000  # equal sizes: points in each set; a few seconds
EXACT_PAIRS = 1_000_000  # unequal sizes: pairs of points; a few seconds


@dataclass(frozen=True, slots=True)
class W1:
    """A computed W₁ and how far it can be from the truth. NOT PRIVATE.

    Attributes
    ----------
    value
        The distance.
    error
        A bound on ``|value − W₁|`` beyond floating-point rounding: 0 for an exact result, ``nan``
        (unknown) for an estimate from a subsample.
    method
        ``"sort"``, ``"exact"``, ``"grid"`` or ``"subsample"``.

    Examples
    --------
    >>> float(W1(0.25, 0.0, "exact"))
    0.25
    """

    value: float
    error: float
    method: str

    def __float__(self) -> float:
        return self.value


def w1(
    a: ArrayLike,
    b: ArrayLike,
    *,
    method: Method = "auto",
    side: int | None = None,
    subsample: int | None = None,
    rng: np.random.Generator | None = None,
) -> W1:
    """W₁ in the ℓ∞ metric between two sets of points of ``[0, 1]^d``. NOT PRIVATE.

    Parameters
    ----------
    a, b
        Arrays of shape ``(n, d)`` and ``(m, d)``; one-dimensional arrays are taken as d = 1.
    method
        ``"auto"`` sorts if d = 1, is exact for small sets, and uses the grid for d = 2 and 3.
    side
        Cells along one axis if the grid is used; 64 for d = 2 and 32 for d = 3 unless given.
    subsample
        Draw this many points of each set without replacement and measure those exactly. This is an
        estimate with unknown error: W₁ is convex, so on average it is too large, by an amount of
        order ``subsample ** (-1/d)`` when d ≥ 3. A set no larger than this is kept whole.
    rng
        Where the subsample is drawn from; required with it.

    Examples
    --------
    >>> w1([0.0, 0.5], [0.25, 0.75])
    W1(value=0.25, error=0.0, method='sort')
    >>> w1([[0.0, 0.0], [1.0, 1.0]], [[0.5, 1.0]])
    W1(value=0.75, error=0.0, method='exact')
    >>> w1([[0.125, 0.125]], [[0.875, 0.375]], method="grid", side=4)
    W1(value=0.75, error=0.0, method='grid')
    """
    x, y = _points(a, "a"), _points(b, "b")
    d = x.shape[1]
    if y.shape[1] != d:
        raise ValueError(f"a has {d} columns and b has {y.shape[1]}")
    if method not in get_args(Method):
        raise ValueError("method must be 'auto', 'sort', 'exact' or 'grid'")
    if side is not None and method in ("sort", "exact"):
        raise ValueError(f"side= is for the grid, not for method={method!r}")
    if subsample is not None:
        if method not in ("auto", "exact") or side is not None:
            raise ValueError("subsample= is measured exactly; it goes with neither a grid nor 'sort'")
        return _subsampled(x, y, subsample, rng)
    if method == "sort" or (method == "auto" and d == 1):
        return _sort(x, y)
    if method == "grid" or (method == "auto" and d in DEFAULT_SIDE and not fits_exact(len(x), len(y))):
        return _grid(x, y, side)
    return _exact(x, y)


def w1_grid(counts_a: ArrayLike, counts_b: ArrayLike) -> W1:
    """W₁ in the ℓ∞ metric between two histograms on the same grid of ``[0, 1]^d``. NOT PRIVATE.

    The value is that of the two measures with all mass at the cell centres. Its stated error, one
    cell side, is for whatever points were counted: they may lie anywhere in their cells.

    Parameters
    ----------
    counts_a, counts_b
        Non-negative arrays of shape ``(side,) * d``; each is scaled to mass 1. Whole numbers are scaled
        to their least common total. Fractions, and totals whose least common multiple exceeds 2⁵⁰,
        are rounded to a total of 2⁴⁰, which adds ``2 * cells / 2**40`` to the error.

    Examples
    --------
    >>> w1_grid([[4, 0], [0, 0]], [[0, 0], [0, 1]])
    W1(value=0.5, error=0.5, method='grid')
    """
    p, q = _counts(counts_a, "counts_a"), _counts(counts_b, "counts_b")
    if p.shape != q.shape:
        raise ValueError(f"counts_a has shape {p.shape} and counts_b has shape {q.shape}")
    value, rounding = flow_on_grid(p, q)
    return W1(value, 1 / p.shape[0] + rounding, "grid")


def fits_exact(n: int, m: int) -> bool:
    """Whether sets of these sizes are compared over all pairs of points."""
    return n <= EXACT_POINTS if n == m else n * m <= EXACT_PAIRS


def w1_line(a: Floats, b: Floats) -> float:
    """W₁ of two sets of numbers, which may lie anywhere: the integral of ``|F − G|``. NOT PRIVATE.

    Examples
    --------
    >>> w1_line(np.array([0.0, 1.0]), np.array([3.0]))
    2.5
    """
    u, v = np.sort(a), np.sort(b)
    if len(u) == len(v):
        return float(np.abs(u - v).mean())
    z = np.sort(np.concatenate([u, v]))
    f = np.searchsorted(u, z[:-1], side="right") / len(u)
    g = np.searchsorted(v, z[:-1], side="right") / len(v)
    return float(np.abs(f - g) @ np.diff(z))


def _sort(x: Floats, y: Floats) -> W1:
    if x.shape[1] != 1:
        raise ValueError(f"method='sort' needs one column, not {x.shape[1]}")
    return W1(w1_line(x[:, 0], y[:, 0]), 0.0, "sort")


def _exact(x: Floats, y: Floats) -> W1:
    n, m = len(x), len(y)
    if not fits_exact(n, m):
        raise ValueError(
            f"sets of {n} and {m} points are too large to compare exactly (limit: {EXACT_POINTS} points "
            f"each, or {EXACT_PAIRS} pairs if the sizes differ): use method='sort' for d = 1, "
            "method='grid' for d = 2 or 3; for d >= 4, subsample= with rng= for an estimate, "
            "or method='grid' with a small side="
        )
    distance = extra("scipy.spatial.distance").cdist(x, y, "chebyshev")
    if n == m:
        pairs = extra("scipy.optimize").linear_sum_assignment(distance)
        return W1(float(distance[pairs].mean()), 0.0, "exact")
    total = math.lcm(n, m)
    tails, heads = np.repeat(np.arange(n), m), np.tile(np.arange(n, n + m), n)
    supply = np.concatenate([np.full(n, total // n), np.full(m, -(total // m))])
    flow = min_cost_flow(tails, heads, np.rint(distance.ravel() * 2**40), supply)
    return W1(float(flow @ distance.ravel()) / total, 0.0, "exact")


def _grid(x: Floats, y: Floats, side: int | None) -> W1:
    d = x.shape[1]
    if side is None and d not in DEFAULT_SIDE:
        raise ValueError(f"there is no default grid in dimension {d}: pass side=")
    cells = DEFAULT_SIDE[d] if side is None else operator.index(side)
    if cells < 1:
        raise ValueError("side must be at least 1")
    check_arcs(cells, d)
    (p, moved_p), (q, moved_q) = histogram(x, cells), histogram(y, cells)
    value, rounding = flow_on_grid(p, q)
    return W1(value, moved_p + moved_q + rounding, "grid")


def _subsampled(x: Floats, y: Floats, size: int, rng: np.random.Generator | None) -> W1:
    if rng is None:
        raise ValueError("subsample= needs rng=, a numpy random Generator")
    if operator.index(size) < 1:
        raise ValueError("subsample must be at least 1")
    if size >= max(len(x), len(y)):
        return _exact(x, y)
    x, y = (s if len(s) <= size else rng.choice(s, size, replace=False) for s in (x, y))
    return W1(_exact(x, y).value, math.nan, "subsample")


def _points(data: ArrayLike, name: str) -> Floats:
    x = _numbers(data, name)
    x = x[:, np.newaxis] if x.ndim == 1 else x
    if x.ndim != 2:
        raise ValueError(f"{name} must have one row per point: 1 or 2 array dimensions, not {x.ndim}")
    if x.min() < 0 or x.max() > 1:
        raise ValueError(f"{name} has points outside the unit cube")
    return x


def _counts(data: ArrayLike, name: str) -> Floats:
    x = _numbers(data, name)
    if x.ndim == 0 or len(set(x.shape)) != 1:
        raise ValueError(f"{name} must have the same number of cells along every axis, not shape {x.shape}")
    if x.min() < 0:
        raise ValueError(f"{name} has negative counts")
    if not x.any():
        raise ValueError(f"{name} is empty: its total is zero")
    return x


def _numbers(data: ArrayLike, name: str) -> Floats:
    x = np.asarray(data)
    if x.size == 0:
        raise ValueError(f"{name} is empty")
    if x.dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold real numbers, not {x.dtype}")
    x = x.astype(np.float64)
    if not np.isfinite(x).all():
        raise ValueError(f"{name} has values that are not finite")
    return x
