"""The 1-Wasserstein distance W₁ between two sets of points of the unit cube, in the ℓ∞ metric. NOT PRIVATE.

Each set is an empirical measure of mass 1, so the two sets may differ in size.

Formal guarantees
-----------------
The distance differs from what is returned by at most the stated error, up to floating point.

``sort``
    d = 1 only: the integral of ``|F − G|``. No error.
``exact``
    Optimal transport over all pairs, for small sets. No error beyond rounding (distances are rounded at 2⁻⁴⁰ when the
    sizes differ).
``grid``
    Points move to the centre of their cell; then min-cost flow between neighbouring cells, where a king's move costs
    one cell side. The fewest king's moves between two cells is the Chebyshev distance of their centres in cell sides,
    so the flow is exact for the moved points. Moving a set changes W₁ by at most the mean distance its points move
    (triangle inequality), hence at most half a side for each set: the stated error is the sum of the two means, never
    more than one cell side.
"""

import importlib
import itertools
import math
import operator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from headwater.evaluation.axes import Floats, Integers

Method = Literal["auto", "sort", "exact", "grid"]

DEFAULT_SIDE = {2: 64, 3: 32}
EXACT_POINTS = 4_000  # equal sizes: points in each set; a few seconds
EXACT_PAIRS = 1_000_000  # unequal sizes: pairs of points; a few seconds
GRID_ARCS = 2_000_000  # 2.5 times the arcs of 32³, the largest default grid
_WHOLE_TOTAL = 2**50  # GRID_ARCS leaves d ≤ 8, so the capacities at a cell add up to less than 2⁶³
_ROUNDED_TOTAL = 2**40


@dataclass(frozen=True, slots=True)
class W1:
    """A computed W₁ and how far it can be from the truth. NOT PRIVATE.

    Attributes
    ----------
    value
        The distance.
    error
        A bound on ``|value − W₁|`` beyond floating-point rounding: 0 for an exact result.
    method
        ``"sort"``, ``"exact"`` or ``"grid"``.

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


def w1(a: ArrayLike, b: ArrayLike, *, method: Method = "auto", side: int | None = None) -> W1:
    """W₁ in the ℓ∞ metric between two sets of points of ``[0, 1]^d``. NOT PRIVATE.

    Parameters
    ----------
    a, b
        Arrays of shape ``(n, d)`` and ``(m, d)``; one-dimensional arrays are taken as d = 1.
    method
        ``"auto"`` sorts if d = 1, is exact for small sets, and uses the grid for d = 2 and 3.
    side
        Cells along one axis if the grid is used; 64 for d = 2 and 32 for d = 3 unless given.

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
    if method == "sort" and d != 1:
        raise ValueError(f"method='sort' needs one column, not {d}")
    if method == "sort" or (method == "auto" and d == 1):
        return W1(w1_line(x[:, 0], y[:, 0]), 0.0, "sort")
    if method == "grid" or (method == "auto" and d in DEFAULT_SIDE and not fits_exact(len(x), len(y))):
        return _grid(x, y, side)
    return _exact(x, y)


def fits_exact(n: int, m: int) -> bool:
    """Whether sets of these sizes are compared over all pairs of points."""
    return n <= EXACT_POINTS if n == m else n * m <= EXACT_PAIRS


def w1_line(a: Floats, b: Floats) -> float:
    """W₁ of two sets of numbers, which may lie anywhere: the integral of ``|F − G|``. NOT PRIVATE.

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


def _exact(x: Floats, y: Floats) -> W1:
    n, m = len(x), len(y)
    if not fits_exact(n, m):
        raise ValueError(
            f"sets of {n} and {m} points are too large to compare exactly (limit: {EXACT_POINTS} points each, or "
            f"{EXACT_PAIRS} pairs if the sizes differ): use method='sort' for d = 1, method='grid' for d = 2 or 3; for "
            "d >= 4, method='grid' with a small side=, or fewer points"
        )
    distance = _extra("scipy.spatial.distance").cdist(x, y, "chebyshev")
    if n == m:
        pairs = _extra("scipy.optimize").linear_sum_assignment(distance)
        return W1(float(distance[pairs].mean()), 0.0, "exact")
    total = math.lcm(n, m)
    tails, heads = np.repeat(np.arange(n), m), np.tile(np.arange(n, n + m), n)
    supply = np.concatenate([np.full(n, total // n), np.full(m, -(total // m))])
    flow = _min_cost_flow(tails, heads, np.rint(distance.ravel() * 2**40), supply)
    return W1(float(flow @ distance.ravel()) / total, 0.0, "exact")


def _grid(x: Floats, y: Floats, side: int | None) -> W1:
    d = x.shape[1]
    if side is None and d not in DEFAULT_SIDE:
        raise ValueError(f"there is no default grid in dimension {d}: pass side=")
    cells = DEFAULT_SIDE[d] if side is None else operator.index(side)
    if cells < 1:
        raise ValueError("side must be at least 1")
    if cells**d * (3**d - 1) > GRID_ARCS:
        raise ValueError(f"a grid of side {cells} in dimension {d} needs more than {GRID_ARCS} arcs: lower side")
    (p, moved_p), (q, moved_q) = _histogram(x, cells), _histogram(y, cells)
    value, rounding = _flow_on_grid(p, q, cells, d)
    return W1(value, moved_p + moved_q + rounding, "grid")


def _histogram(x: Floats, side: int) -> tuple[Integers, float]:
    """Points in each cell, and the mean distance from a point to the centre of its cell."""
    cell = np.minimum((x * side).astype(np.int64), side - 1)  # 1.0 belongs to the last cell
    moved = np.abs(x - (cell + 0.5) / side).max(axis=1).mean()
    shape = (side,) * x.shape[1]
    return np.bincount(np.ravel_multi_index(tuple(cell.T), shape), minlength=math.prod(shape)), float(moved)


def _flow_on_grid(p: Integers, q: Integers, side: int, d: int) -> tuple[float, float]:
    """W₁ of the cell centres, and what rounding the masses can have added to it."""
    supply, total, rounding = _supplies(p, q)
    if not supply.any():
        return 0.0, rounding
    index = np.arange(side**d).reshape((side,) * d)
    arcs = []
    for move in itertools.product((-1, 0, 1), repeat=d):
        if any(move):
            start = tuple(slice(max(0, -s), side - max(0, s)) for s in move)
            end = tuple(slice(max(0, s), side - max(0, -s)) for s in move)
            arcs.append((index[start].ravel(), index[end].ravel()))
    tails, heads = (np.concatenate(ends) for ends in zip(*arcs, strict=True))
    flow = _min_cost_flow(tails, heads, np.ones(len(tails)), supply)
    return float(flow.sum()) / total / side, rounding


def _supplies(p: Integers, q: Integers) -> tuple[Integers, int, float]:
    """Integers proportional to p/Σp − q/Σq, the integer that stands for mass 1, and the rounding error."""
    n, m = int(p.sum()), int(q.sum())
    total = math.lcm(n, m)
    if total <= _WHOLE_TOTAL:
        return p * (total // n) - q * (total // m), total, 0.0

    def rounded(counts: Integers) -> Floats:
        up_to = np.cumsum(counts)
        return np.diff(np.rint(up_to / up_to[-1] * _ROUNDED_TOTAL), prepend=0.0)

    # Each cell of each set is off by at most one unit of mass, and no unit is off by more than distance 1.
    return (rounded(p) - rounded(q)).astype(np.int64), _ROUNDED_TOTAL, 2 * len(p) / _ROUNDED_TOTAL


def _min_cost_flow(tails: Integers, heads: Integers, costs: Floats, supply: Integers) -> Integers:
    """The cheapest flow on each arc that carries every positive supply to the negative ones."""
    solver = _extra("ortools.graph.python.min_cost_flow").SimpleMinCostFlow()
    capacity = np.full(len(tails), supply[supply > 0].sum())
    arcs = solver.add_arcs_with_capacity_and_unit_cost(
        tails.astype(np.int32), heads.astype(np.int32), capacity, costs.astype(np.int64)
    )
    solver.set_nodes_supplies(np.arange(len(supply), dtype=np.int32), supply)
    status = solver.solve()
    if status != solver.OPTIMAL:
        raise RuntimeError(f"the min-cost flow solver stopped with {status}")
    return np.asarray(solver.flows(arcs), dtype=np.int64)


def _extra(module: str) -> Any:  # noqa: ANN401 - scipy and ortools ship no types
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{module} is not installed: pip install 'headwater[evaluate]'") from error


def _points(data: ArrayLike, name: str) -> Floats:
    x = np.asarray(data)
    if x.size == 0:
        raise ValueError(f"{name} is empty")
    if x.dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold real numbers, not {x.dtype}")
    x = x.astype(np.float64)
    if not np.isfinite(x).all():
        raise ValueError(f"{name} has values that are not finite")
    x = x[:, np.newaxis] if x.ndim == 1 else x
    if x.ndim != 2:
        raise ValueError(f"{name} must have one row per point: 1 or 2 array dimensions, not {x.ndim}")
    if x.min() < 0 or x.max() > 1:
        raise ValueError(f"{name} has points outside the unit cube")
    return x
