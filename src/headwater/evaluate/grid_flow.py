"""Min-cost flow between the cells of a grid, for W₁ (`headwater.evaluate.w1`). NOT PRIVATE."""

import importlib
import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GRID_ARCS = 2_000_000  # 2.5 times the arcs of 32³, the largest default grid
_WHOLE_TOTAL = 2**50  # GRID_ARCS leaves d ≤ 8, so the capacities at a cell add up to less than 2⁶³
_ROUNDED_TOTAL = 2**40


def histogram(x: Floats, side: int) -> tuple[Floats, float]:
    """Points in each cell, and the mean distance from a point to the centre of its cell."""
    cell = np.minimum((x * side).astype(np.int64), side - 1)  # 1.0 belongs to the last cell
    moved = np.abs(x - (cell + 0.5) / side).max(axis=1).mean()
    shape = (side,) * x.shape[1]
    counts = np.bincount(np.ravel_multi_index(tuple(cell.T), shape), minlength=math.prod(shape))
    return counts.reshape(shape).astype(np.float64), float(moved)


def flow_on_grid(p: Floats, q: Floats) -> tuple[float, float]:
    """W₁ of the cell centres, and what rounding the masses can have added to it."""
    side, d = p.shape[0], p.ndim
    check_arcs(side, d)
    supply, total, rounding = _supplies(p.ravel(), q.ravel())
    if d == 1:
        return float(np.abs(np.cumsum(supply) / total).sum()) / side, rounding
    if not supply.any():
        return 0.0, rounding
    index = np.arange(side**d).reshape(p.shape)
    arcs = []
    for move in itertools.product((-1, 0, 1), repeat=d):
        if any(move):
            start = tuple(slice(max(0, -s), side - max(0, s)) for s in move)
            end = tuple(slice(max(0, s), side - max(0, -s)) for s in move)
            arcs.append((index[start].ravel(), index[end].ravel()))
    tails, heads = (np.concatenate(ends) for ends in zip(*arcs, strict=True))
    flow = min_cost_flow(tails, heads, np.ones(len(tails)), supply)
    return float(flow.sum()) / total / side, rounding


def _supplies(p: Floats, q: Floats) -> tuple[Ints, int, float]:
    """Integers proportional to p/Σp − q/Σq, the integer that stands for mass 1, and the rounding error."""
    whole = bool(np.all(p == np.rint(p)) and np.all(q == np.rint(q)))
    if whole and max(p.sum(), q.sum()) <= _WHOLE_TOTAL:
        n, m = int(p.sum()), int(q.sum())
        total = math.lcm(n, m)
        if total <= _WHOLE_TOTAL:
            return p.astype(np.int64) * (total // n) - q.astype(np.int64) * (total // m), total, 0.0

    def rounded(mass: Floats) -> Floats:
        up_to = np.cumsum(mass)
        return np.diff(np.rint(up_to / up_to[-1] * _ROUNDED_TOTAL), prepend=0.0)

    # Each cell of each set is off by at most one unit of mass, and no unit is off by more than distance 1.
    return (rounded(p) - rounded(q)).astype(np.int64), _ROUNDED_TOTAL, 2 * len(p) / _ROUNDED_TOTAL


def min_cost_flow(tails: Ints, heads: Ints, costs: Floats, supply: Ints) -> Ints:
    """The cheapest flow on each arc that carries every positive supply to the negative ones."""
    solver = extra("ortools.graph.python.min_cost_flow").SimpleMinCostFlow()
    capacity = np.full(len(tails), supply[supply > 0].sum())
    arcs = solver.add_arcs_with_capacity_and_unit_cost(
        tails.astype(np.int32), heads.astype(np.int32), capacity, costs.astype(np.int64)
    )
    solver.set_nodes_supplies(np.arange(len(supply), dtype=np.int32), supply)
    status = solver.solve()
    if status != solver.OPTIMAL:
        raise RuntimeError(f"the min-cost flow solver stopped with {status}")
    return np.asarray(solver.flows(arcs), dtype=np.int64)


def check_arcs(side: int, d: int) -> None:
    """Refuse a grid whose flow would take too long."""
    if side**d * (3**d - 1) > GRID_ARCS:
        raise ValueError(f"a grid of side {side} in dimension {d} needs more than {GRID_ARCS} arcs: lower side")


def extra(module: str) -> Any:  # noqa: ANN401  # scipy and ortools ship no types
    """A module that comes with the extra for evaluations, or an error that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{module} is not installed: pip install 'headwater[evaluate]'") from error
